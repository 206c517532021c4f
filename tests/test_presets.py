"""The presets and the rough duration of an experiment."""

from __future__ import annotations

import pytest

from bench_core import presets
from bench_core.presets import COLD, EAGER, PRESETS, WARM
from bench_core.spec import Experiment, Measurement, RunSpec, Workload


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
    assert 40 < presets.estimate_seconds(demo) < 180


def resnet18(batch_size: int = 8, **fields: object) -> Workload:
    return Workload(model="resnet18", batch_size=batch_size, pipeline="resident", **fields)


def test_the_table_is_right_within_a_factor_of_two_for_a_known_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(presets, "usable_cores", lambda: 2)
    assert 0.3 < presets.table_step_seconds(RunSpec(workload=resnet18())) < 1.2  # measured: 0.614
    large = Workload(model="vgg16", batch_size=4, pipeline="resident")
    assert 2.7 < presets.table_step_seconds(RunSpec(workload=large)) < 10.8  # measured: 5.4


def test_earlier_runs_of_the_same_workload_replace_the_table() -> None:
    run = RunSpec(workload=resnet18(samples=80), measurement=Measurement(epochs=10))
    known = [(run, 2.0, None)]
    assert presets.seconds_of_runs([run], known) == [
        pytest.approx(10 * 10 * 2.0 + presets.CPU_START_SECONDS)
    ]


def test_another_batch_size_of_the_same_model_corrects_the_table() -> None:
    measured = RunSpec(workload=resnet18(batch_size=8))
    wanted = RunSpec(workload=resnet18(batch_size=16))
    twice_as_slow = [(measured, 2 * presets.table_step_seconds(measured), None)]
    before, after = (presets.seconds_of_runs([wanted], known)[0] for known in ((), twice_as_slow))
    start = presets.CPU_START_SECONDS
    assert after - start == pytest.approx(2 * (before - start))


def test_a_run_of_another_device_teaches_nothing() -> None:
    on_gpu = RunSpec(workload=resnet18(), device="cuda:0")
    here = RunSpec(workload=resnet18())
    assert presets.seconds_of_runs([here], [(on_gpu, 99.0, None)]) == presets.seconds_of_runs(
        [here]
    )


def test_a_warm_run_fills_its_cache_only_when_no_cold_run_did_it_before() -> None:
    cold, warm = (RunSpec(workload=resnet18(), variant=variant) for variant in (COLD, WARM))
    alone = presets.seconds_of_runs([warm])[0]
    after_cold = presets.seconds_of_runs([cold, warm])[1]
    assert alone - after_cold > presets.table_compile_seconds(cold)


def test_max_seconds_and_the_timeout_bound_the_estimate() -> None:
    long = Measurement(epochs=1000, max_seconds=60)
    run = RunSpec(workload=resnet18(), measurement=long)
    assert presets.seconds_of_runs([run])[0] < 60 + 4 * presets.table_step_seconds(run) * 128
    short = run.changed(measurement=Measurement(epochs=1000, timeout_seconds=30))
    assert presets.seconds_of_runs([short]) == [30]


def test_the_estimate_adds_up_over_the_grid() -> None:
    one = Experiment(models=("small_cnn",), batch_sizes=(16,), variants=(EAGER,), repeats=1)
    two = one.changed(batch_sizes=(16, 32))
    assert presets.estimate_seconds(two) > presets.estimate_seconds(one)
