"""The presets and the rough duration of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from bench_core import estimates
from bench_core.presets import COLD, EAGER, PRESETS, WARM
from bench_core.spec import Execution, Experiment, Measurement, RunSpec, Variant, Workload
from bench_core.store import Store
from tests.planted import planted_experiment


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
@pytest.mark.parametrize("key", PRESETS)
def test_every_preset_can_be_queued_on_cpu_and_gpu(key: str, device: str) -> None:
    experiment = PRESETS[key].experiment(device)
    assert experiment.preset == key
    assert {run.device for run in experiment.runs()} == {device}


def test_two_presses_are_two_experiments() -> None:
    demo = PRESETS["demo"]
    assert demo.experiment("cpu").id != demo.experiment("cpu").id


def test_the_article_is_as_published() -> None:
    article = PRESETS["article"].experiment("cpu")
    assert article.models == ("resnet18", "resnet50", "resnet101", "vgg16")
    for run in article.runs():
        work = run.workload
        assert (work.dataset, work.pipeline, work.image_size) == ("cifar10", "on_the_fly", 224)
        assert (work.batch_size, work.optimizer, work.learning_rate) == (16, "adam", 1e-3)
        assert not work.drop_last
        assert work.evaluate == "variant"
        assert run.measurement.epochs == 10
    assert PRESETS["article-resnet101-100"].experiment("cpu").measurement.epochs == 100


def test_the_demo_starts_with_an_eager_run_and_takes_about_two_minutes() -> None:
    demo = PRESETS["demo"].experiment("cpu")
    assert demo.runs()[0].variant.execution == "eager"
    assert {run.variant.cache for run in demo.runs()} == {None, "cold", "warm"}
    assert 40 < estimates.estimate_seconds(demo) < 180


def test_the_articles_inference_is_measured_and_its_crash_tried_again() -> None:
    on_gpu = PRESETS["article-inference"].experiment("cuda:0")
    assert on_gpu.models == PRESETS["article"].experiment("cuda:0").models
    assert on_gpu.batch_sizes == (1, 16)
    for key in ("article-inference", "article-inference-mode", "article-yolov7"):
        for run in PRESETS[key].experiment("cpu").runs():
            assert (run.workload.task, run.workload.pipeline) == ("infer", "resident")
    crash = PRESETS["article-inference-mode"].experiment("cuda:0").runs()[1]
    assert crash.variant.execution == "compile"
    assert crash.workload.grad_mode == "inference_mode" and crash.workload.compile_in_grad_mode
    [yolo, _] = PRESETS["article-yolov7"].experiment("cpu").runs()
    assert (yolo.workload.image_size, yolo.workload.batch_size) == (640, 1)


def test_on_a_gpu_the_cpus_own_executions_are_left_out() -> None:
    on_cpu, on_gpu = (PRESETS["cpu-inference"].experiment(at) for at in ("cpu", "cuda:0"))
    words = [variant.execution for variant in on_cpu.variants]
    assert words[0] == "eager" and set(words) == set(get_args(Execution))
    assert [variant.execution for variant in on_gpu.variants] == [
        word for word in words if word != "onednn_graph"
    ]


def test_the_articles_presets_stand_together_after_the_demo() -> None:
    first, *others = PRESETS
    assert first == "demo"
    article = [key.startswith("article") for key in others]
    assert article == sorted(article, reverse=True)


def resnet18(batch_size: int = 8, **fields: object) -> Workload:
    return Workload(model="resnet18", batch_size=batch_size, pipeline="resident", **fields)


def test_the_table_is_right_within_a_factor_of_two_for_a_known_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(estimates, "usable_cores", lambda: 2)
    assert 0.3 < estimates.table_step_seconds(RunSpec(workload=resnet18())) < 1.2  # measured: 0.614
    large = Workload(model="vgg16", batch_size=4, pipeline="resident")
    assert 2.7 < estimates.table_step_seconds(RunSpec(workload=large)) < 10.8  # measured: 5.4


def test_earlier_runs_of_the_same_workload_replace_the_table() -> None:
    run = RunSpec(workload=resnet18(samples=80), measurement=Measurement(epochs=10))
    known = [(run, 2.0, None)]
    assert estimates.seconds_of_runs([run], known) == [
        pytest.approx(10 * 10 * 2.0 + estimates.CPU_START_SECONDS)
    ]


def test_another_batch_size_of_the_same_model_corrects_the_table() -> None:
    measured = RunSpec(workload=resnet18(batch_size=8))
    wanted = RunSpec(workload=resnet18(batch_size=16))
    twice_as_slow = [(measured, 2 * estimates.table_step_seconds(measured), None)]
    before, after = (estimates.seconds_of_runs([wanted], known)[0] for known in ((), twice_as_slow))
    start = estimates.CPU_START_SECONDS
    assert after - start == pytest.approx(2 * (before - start))


def test_a_run_of_another_device_teaches_nothing() -> None:
    on_gpu = RunSpec(workload=resnet18(), device="cuda:0")
    here = RunSpec(workload=resnet18())
    assert estimates.seconds_of_runs([here], [(on_gpu, 99.0, None)]) == estimates.seconds_of_runs(
        [here]
    )


def test_a_warm_run_fills_its_cache_only_when_no_cold_run_did_it_before() -> None:
    cold, warm = (RunSpec(workload=resnet18(), variant=variant) for variant in (COLD, WARM))
    alone = estimates.seconds_of_runs([warm])[0]
    after_cold = estimates.seconds_of_runs([cold, warm])[1]
    assert alone - after_cold > estimates.table_compile_seconds(cold)


def test_max_seconds_and_the_timeout_bound_the_estimate() -> None:
    long = Measurement(epochs=1000, max_seconds=60)
    run = RunSpec(workload=resnet18(), measurement=long)
    assert estimates.seconds_of_runs([run])[0] < 60 + 4 * estimates.table_step_seconds(run) * 128
    short = run.changed(measurement=Measurement(epochs=1000, timeout_seconds=30))
    assert estimates.seconds_of_runs([short]) == [30]


def test_the_estimate_adds_up_over_the_grid() -> None:
    one = Experiment(models=("small_cnn",), batch_sizes=(16,), variants=(EAGER,), repeats=1)
    two = one.changed(batch_sizes=(16, 32))
    assert estimates.estimate_seconds(two) > estimates.estimate_seconds(one)


# Inference


def infers(execution: Execution = "eager", model: str = "resnet18", **fields: object) -> RunSpec:
    variant = {"cache": fields.pop("cache")} if "cache" in fields else {}
    return RunSpec(
        workload=Workload(task="infer", model=model, **{"batch_size": 1, **fields}),
        variant=Variant(execution=execution, **variant),
    )


def test_the_table_is_right_within_a_factor_of_two_for_known_calls() -> None:
    """Measured: one thread, resnet18 46 ms and resnet50 147 ms; sin and cos of 10^6 about 3 ms."""
    for model, size, known in (
        ("resnet18", 1, 0.046), ("resnet50", 1, 0.147), ("function:sin_cos", 10**6, 0.003),
    ):  # fmt: skip
        guess = estimates.table_step_seconds(infers(model=model, batch_size=size, threads=1))
        assert known / 2 < guess < known * 2, model


def test_inference_takes_its_iterations_and_no_epochs() -> None:
    run = infers()
    longer = run.changed(measurement=Measurement(iterations=1200))
    more_epochs = run.changed(measurement=Measurement(epochs=5000))
    one, more, same = estimates.seconds_of_runs([run, longer, more_epochs])
    assert more - one == pytest.approx(1000 * estimates.table_step_seconds(run))
    assert one == same


def test_a_forward_costs_a_third_of_a_training_step_and_compiles_faster() -> None:
    forward, backward = (
        estimates.table_step_seconds(infers(backward=b, threads=1)) for b in (False, True)
    )
    training = RunSpec(workload=resnet18(batch_size=1, threads=1))
    assert 0.2 < forward / estimates.table_step_seconds(training) < 0.4
    assert 2.5 < backward / forward < 3
    compiled = training.changed(variant=COLD)
    share = estimates.table_compile_seconds(infers("compile")) / estimates.table_compile_seconds(
        compiled
    )
    assert share == pytest.approx(0.6)


def test_what_is_made_anew_each_time_costs_each_time() -> None:
    cold = estimates.table_compile_seconds(infers("compile_frozen"))
    frozen = [infers("compile_frozen"), infers("compile_frozen", cache="warm")]
    exported = [infers("export_aot")] * 2
    eager = estimates.seconds_of_runs([infers()])[0]
    first, warm = (seconds - eager for seconds in estimates.seconds_of_runs(frozen))
    assert first == pytest.approx(cold)
    assert cold / 10 < warm < cold / 2  # the graph is compiled again, its C++ files are not
    assert estimates.seconds_of_runs(exported) == [pytest.approx(eager + cold)] * 2
    traced = estimates.seconds_of_runs([infers("jit_trace_frozen")])[0] - eager
    assert 0.5 < traced < 3


def test_ended_inference_runs_teach_the_estimate(tmp_path: Path) -> None:
    variants = (EAGER, Variant(execution="compile"), Variant(execution="export_aot"))
    with Store(tmp_path / "bench.db") as store:
        planted = planted_experiment(
            store, models=("resnet18",), machine="CPU", batch_sizes=(1,), variants=variants,
            repeats=1, workload={"task": "infer"},
        )  # fmt: skip
        runs = store.runs(planted.id)
        epochs = store.epochs([run.number for run in runs])
        known = [estimates.known_run(run, epochs[run.number]) for run in runs]
    eager, compiled, exported = (one for one in known if one)
    calls = [eager[1], compiled[1], exported[1]]
    assert calls == pytest.approx([0.046, 0.055, 0.040], rel=0.03)
    assert eager[2] is None
    assert [compiled[2], exported[2]] == pytest.approx([31, 41])
    for run, taught in zip(runs, (eager, compiled, exported), strict=True):
        [seconds] = estimates.seconds_of_runs([run.spec], [eager, compiled, exported])
        calling = run.spec.measurement.iterations * taught[1]
        assert seconds == pytest.approx(estimates.CPU_START_SECONDS + calling + (taught[2] or 0.0))


def test_a_function_and_a_model_teach_each_other_nothing() -> None:
    function = infers(model="function:sin_cos", batch_size=1000)
    alone = estimates.seconds_of_runs([infers()])
    assert estimates.seconds_of_runs([infers()], [(function, 1.0, None)]) == alone


# Rungs, turns and until sure


def test_the_noise_floor_is_two_equal_arms_taking_turns() -> None:
    for device, model in (("cpu", "small_cnn"), ("cuda:0", "resnet50")):
        floor = PRESETS["noise-floor"].experiment(device)
        assert floor.axis == ("side",)
        assert floor.models == (model,)
        assert (floor.measurement.protocol, floor.repeats) == ("paired", 5)
        assert {run.variant.execution for run in floor.runs()} == {"eager"}


def test_each_rung_of_the_ladder_keeps_what_is_below_it() -> None:
    for device, half in (("cpu", "bf16"), ("cuda:0", "fp16")):
        *eager, last = PRESETS["fairness-ladder"].experiment(device).rungs
        for below, above in zip(eager, eager[1:], strict=False):
            assert len(set(above.workload.items()) - set(below.workload.items())) == 1
        assert last.workload == eager[-1].workload
        assert last.workload["precision"] == half
        assert last.variant == COLD and {rung.variant for rung in eager} == {EAGER}
        assert any("tf32" in rung.workload for rung in eager) == (device != "cpu")


def test_the_estimate_counts_each_rung_and_is_a_bound_where_it_ends_when_sure() -> None:
    ladder = PRESETS["fairness-ladder"].experiment("cpu")
    seconds = estimates.seconds_of_runs(ladder.runs())
    assert len(seconds) == 4 * 3
    assert estimates.length_text(ladder, 600).startswith("about 10")
    sure = ladder.changed(measurement=ladder.measurement.changed(until_sure=2, protocol="paired"))
    assert estimates.estimate_seconds(sure) == pytest.approx(sum(seconds))
    assert estimates.length_text(sure, 600).startswith("at most about 10")


def test_the_table_of_memory_is_right_within_a_factor_of_two_for_a_known_run() -> None:
    for model, known in (("resnet18", 1.5e9), ("small_cnn", 0.93e9)):  # measured, on a CPU
        work = Workload(model=model, batch_size=16, samples=32, pipeline="cached")
        guess = estimates.table_memory_bytes(RunSpec(workload=work))
        assert known / 2 < guess < known * 2, model


def test_arms_side_by_side_take_the_memory_of_all_of_them_as_measured_before() -> None:
    two = Experiment(models=("resnet18",), batch_sizes=(8, 64), variants=(EAGER, COLD))
    largest = [run for run in two.runs() if run.workload.batch_size == 64][:2]
    table = sum(estimates.table_memory_bytes(run) for run in largest)
    assert estimates.memory_together(two) == table
    # At batch 8 eager took twice what the table says: so it will at 64, with compile too.
    small = two.runs()[0]
    peaks = {small: 2 * estimates.table_memory_bytes(small)}
    assert estimates.memory_together(two, peaks) == pytest.approx(2 * table, rel=1e-6)
    assert estimates.memory_of_run(small, peaks) == peaks[small]
