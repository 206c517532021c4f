"""A ratio is formed between runs that agree in all but the variant, and says what it rests on."""

from dataclasses import replace

import pytest

from bench_core import pairing
from bench_core.events import Activity, Finding, Parity
from bench_core.measured import Arm, measure
from bench_core.pairing import Axis
from bench_core.source import Stated
from bench_core.spec import Variant
from bench_core.store import Store
from tests.planted import COMPILE, EAGER, Shape, plant_run, planted_experiment

EXACT = {"process_scatter": 0.0, "epoch_scatter": 0.0, "wait_share": 0.0}


def compared(store: Store, baseline: Variant = EAGER) -> pairing.Comparisons:
    runs = store.runs()
    epochs = store.epochs([run.number for run in runs])
    return pairing.comparisons(
        [measure(run, epochs[run.number]) for run in runs], Axis.against(baseline)
    )


def shapes(eager: Shape, compiled: Shape) -> dict:
    return {("T4", "resnet101"): (eager, compiled)}


def test_the_articles_shape_gives_its_speedup_and_its_break_even_epoch(store):
    # 66.2 against 61.1 s; the first epoch 70 s longer: even after 70 / 5.1 = 13.7 epochs
    exact = shapes(Shape(66.2, **EXACT), Shape(61.1, compile_seconds=70.0, **EXACT))
    planted_experiment(store, repeats=3, epochs=30, shapes=exact)
    [pair] = compared(store).pairs
    assert pair.speedup.ratio == pytest.approx(66.2 / 61.1, rel=0.01)
    assert pair.speedup.verdict == "faster"
    assert pair.break_even_cold.epoch == 14
    assert pair.break_even_warm.epoch == 1
    assert pair.headline.startswith("resnet101 on T4: 8.")
    assert (
        "Pays off from epoch 14 (95\u00a0%: 13 to 16), or from epoch 1 when the compile cache is "
        "warm." in pair.detail
    )


def test_a_slower_arm_never_pays_off(store):
    planted_experiment(store, models=("resnet18",), machine="A100", repeats=3)
    [pair] = compared(store).pairs
    assert pair.speedup.verdict == "slower"
    assert pair.headline.endswith("slower once steady")
    assert "Never pays off." in pair.detail


def test_noise_alone_is_no_difference_shown_and_promises_no_epoch(store):
    planted_experiment(store, models=("resnet18",), repeats=3)
    [pair] = compared(store).pairs
    assert pair.speedup.verdict == "no difference shown"
    assert pair.headline == "resnet18 on T4: no difference shown"
    assert "Pays off" not in pair.detail


def test_fewer_than_three_runs_an_arm_are_a_first_look_without_verdict(store):
    planted_experiment(store, repeats=2)
    [pair] = compared(store).pairs
    assert pair.speedup.verdict is None
    assert "first look" in pair.headline
    assert "Only 2 runs in an arm: no verdict before 3." in pair.detail
    assert pair.band.low < pair.speedup.ratio < pair.band.high


def test_another_machine_gives_no_ratio(store):
    planted_experiment(store, variants=(EAGER,), repeats=1)
    planted_experiment(store, variants=(COMPILE,), repeats=1, machine="A100")
    assert compared(store).pairs == ()
    assert "machine" in pairing.differences(*store.runs())


def test_measurement_fields_never_block(store):
    planted_experiment(store, variants=(EAGER,), repeats=1, epochs=10)
    planted_experiment(store, variants=(COMPILE,), repeats=1, epochs=20)
    assert len(compared(store).pairs) == 1


def test_what_is_left_out_is_named_with_its_reason(store):
    experiment = planted_experiment(store, repeats=1, measured=1)
    plant_run(
        store, experiment.id, epochs=2, status="failed", failure="out of memory", reason="too big"
    )
    planted_experiment(store, variants=(COMPILE,), repeats=1, epochs=2)
    reasons = [left.reason for left in compared(store).left_out]
    assert any(reason == "failed: out of memory. too big" for reason in reasons)
    assert any(reason.startswith("no steady state: Only 1 epoch") for reason in reasons)
    assert any(reason.startswith("no other variant than eager") for reason in reasons)
    causes = {left.cause for left in compared(store).left_out}
    assert {"no steady state", "no other arm"} <= causes


def test_a_compile_that_compiled_nothing_gets_no_speedup(store):
    experiment = planted_experiment(store, repeats=1)
    compiled = store.runs(experiment.id)[1]
    store.set_activity(compiled.number, Activity(graphs=0, frames_total=1))
    found = compared(store)
    assert found.pairs == ()
    assert any("nothing was compiled" in left.reason for left in found.left_out)


def test_another_content_of_the_model_file_gives_no_ratio(store):
    planted_experiment(store, repeats=1)
    for run, content in zip(store.runs(), ("a" * 64, "b" * 64), strict=True):
        store.set_prepared(run.number, run.prepared.changed(model_sha256=content))
    assert compared(store).pairs == ()
    assert "model file" in pairing.differences(*store.runs())


def test_a_warm_run_that_found_nothing_in_its_cache_is_no_warm_start(store):
    warm = COMPILE.changed(cache="warm")
    planted_experiment(store, variants=(EAGER, warm), repeats=1)
    [pair] = compared(store).pairs
    assert pair.break_even_warm is not None
    run = store.runs()[1]
    store.set_activity(run.number, run.activity.changed(cache_hits=0, cache_misses=2))
    [pair] = compared(store).pairs
    assert pair.break_even_warm is None
    assert pair.break_even_cold is not None
    store.set_activity(run.number, run.activity.changed(cache_hits=1, cache_misses=1))
    [pair] = compared(store).pairs
    assert pair.break_even_warm is None and pair.break_even_cold is None


def test_without_a_cache_a_start_is_a_cold_one(store):
    planted_experiment(store, variants=(EAGER, COMPILE.changed(cache="off")), repeats=1)
    [pair] = compared(store).pairs
    assert pair.break_even_cold is not None


def test_any_variant_can_be_the_baseline(store):
    planted_experiment(store, repeats=1)
    [pair] = compared(store, COMPILE).pairs
    assert pair.speedup.ratio == pytest.approx(61.1 / 66.2, rel=0.02)


# Inference

CPU_ARMS = (EAGER, COMPILE, Variant(execution="onednn_graph"), Variant(execution="export_aot"))


def inference(store, **grid):
    planted_experiment(
        store,
        models=("resnet18",),
        machine="CPU",
        batch_sizes=(1,),
        workload={"task": "infer"},
        **{"variants": CPU_ARMS, **grid},
    )
    return compared(store)


def test_latencies_are_compared_by_iteration(store):
    slower, fused, exported = inference(store).pairs
    assert [pair.unit for pair in (slower, fused, exported)] == ["iteration"] * 3
    assert slower.verdict_text.endswith("slower")
    assert "A steady iteration takes 32.9" in fused.detail.replace("\u202f", " ")
    p50, p90, p99 = fused.candidate.percentiles(50, 90, 99)
    assert 0.032 < p50 < p90 < p99 < 0.05
    assert "Over 10\u202f000 iterations it saves" in fused.saving_text


def test_what_precedes_the_first_call_belongs_to_the_start(store):
    _, fused, exported = inference(store).pairs
    assert exported.candidate.first_seconds() == pytest.approx(41.06, abs=0.01)
    # 41 s of export are paid back at 6 ms an iteration; the trace takes 2 s and wins 13 ms.
    assert 6_000 < exported.break_even_cold.epoch < 8_000
    assert 100 < fused.break_even_cold.epoch < 200
    assert fused.break_even_warm is None
    assert "when the compile cache is warm" not in fused.pays_off_text
    assert ", projected)" in exported.pays_off_text


def with_aftermath(store, execution, **fields):
    """All runs of the store, those of an execution with another part after the timing."""
    runs = store.runs()
    epochs = store.epochs([run.number for run in runs])
    return pairing.comparisons(
        measure(
            replace(run, aftermath=run.aftermath.changed(**fields))
            if run.spec.variant.execution == execution
            else run,
            epochs[run.number],
        )
        for run in runs
    )


def test_a_variant_whose_results_differ_has_its_times_and_no_speedup(store):
    inference(store)
    wrong = Parity(verdict="differs", text="its outputs are 1.2 % off, 0.01 % are allowed.")
    found = with_aftermath(store, "compile", parity=wrong)
    assert [pair.candidate.variant.execution for pair in found.pairs] == [
        "onednn_graph",
        "export_aot",
    ]
    [left] = found.left_out
    assert len(left.runs) == 3
    assert "no speedup is formed: its outputs are 1.2 % off" in left.reason
    assert "iteration takes 54.9" in left.reason and "that of eager 46" in left.reason


def test_a_baseline_whose_results_differ_is_no_measure_for_anything(store):
    inference(store)
    wrong = Parity(verdict="differs", text="its outputs are 1.2 % off.")
    runs = store.runs()
    epochs = store.epochs([run.number for run in runs])
    measured = [
        measure(
            replace(run, aftermath=run.aftermath.changed(parity=wrong))
            if run.spec.variant.execution == "compile"
            else run,
            epochs[run.number],
        )
        for run in runs
    ]
    found = pairing.comparisons(measured, Axis.against(COMPILE))
    assert found.pairs == ()
    [left] = found.left_out
    assert len(left.runs) == 12
    assert left.reason.startswith("the results of the baseline compile are wrong")


def test_a_first_look_sees_no_difference_within_what_processes_scatter(store):
    """A thousand latencies narrow the band within a run; the next process knows nothing of it."""
    planted_experiment(
        store,
        models=("function:sin_cos",),
        machine="CPU",
        batch_sizes=(6_720,),  # the planted costs cross at 6 667
        repeats=1,
        iterations=400,
        workload={"task": "infer"},
    )
    [pair] = compared(store).pairs
    assert not pair.band.low <= 1 <= pair.band.high
    assert abs(pair.speedup.ratio - 1) < 0.02
    assert not pair.differs
    assert pair.verdict_text == "first look: no difference seen"
    assert pair.pays_off_text == ""


def test_percentiles_pass_over_a_run_without_a_steady_state(store):
    inference(store, variants=(EAGER,), repeats=2)
    one, other = store.runs()
    epochs = store.epochs([one.number, other.number])
    steady, young = measure(one, epochs[1]), measure(other, epochs[2][:1])
    assert young.steady.median_seconds is None
    both = Arm(EAGER, (steady, young))
    assert both.percentiles(50, 99) == Arm(EAGER, (steady,)).percentiles(50, 99)
    assert Arm(EAGER, (young,)).percentiles(50) == []


@pytest.mark.parametrize("verdict", ["same", "closer to fp64 than eager", "not checked"])
def test_any_other_verdict_leaves_the_speedup(store, verdict):
    inference(store)
    found = with_aftermath(store, "compile", parity=Parity(verdict=verdict, text="."))
    assert len(found.pairs) == 3
    assert found.pairs[0].candidate.parity.verdict == verdict


def test_what_was_not_got_stands_in_the_detail(store):
    inference(store)
    unfused = Finding(asked="oneDNN Graph", got="no fused group", met=False)
    found = with_aftermath(store, "onednn_graph", effective=(unfused,))
    assert "Asked for oneDNN Graph, got: no fused group." in found.pairs[1].detail
    assert "Asked for" not in found.pairs[0].detail


def test_a_compile_that_compiled_nothing_has_no_speedup(store):
    inference(store)
    runs = store.runs()
    epochs = store.epochs([run.number for run in runs])
    nothing = [
        replace(run, activity=run.activity.changed(graphs=0)) if run.activity else run
        for run in runs
    ]
    found = pairing.comparisons(measure(run, epochs[run.number]) for run in nothing)
    assert len(found.pairs) == 2
    assert "nothing was compiled: it ran as eager, 54.9" in found.left_out[0].reason


def test_a_break_even_far_ahead_has_two_digits(store):
    planted_experiment(
        store,
        models=("function:sin_cos",),
        machine="CPU",
        batch_sizes=(100_000,),
        repeats=1,
        workload={"task": "infer"},
    )
    [pair] = compared(store).pairs
    assert "from iteration 96\u202f000 (projected)" in pair.pays_off_text
    # One run an arm: a per cent of single iterations says nothing of the next process.
    assert pair.verdict_text == "first look: 101\u00a0% faster"


# What has no partner


def test_the_nearest_run_says_why_there_is_no_ratio(store):
    planted_experiment(store, variants=(EAGER,), repeats=1, batch_sizes=(16, 32))
    planted_experiment(store, variants=(COMPILE,), repeats=1, batch_sizes=(64,))
    found = compared(store)
    assert found.pairs == ()
    reasons = [left.reason for left in found.left_out]
    assert "no eager run of the same workload: batch_size is 64 here, 16 there" in reasons
    assert set(found.left_out_kinds) == {
        "no eager run of the same workload: batch_size differs",
        "no other variant than eager of the same workload: batch_size differs",
    }
    assert [len(alike) for alike in found.left_out_kinds.values()] == [2, 1]


def test_another_batch_is_nearer_than_another_image_size(store):
    for batch_size, image_size in ((32, 64), (16, 64), (32, 96)):
        arms = (COMPILE,) if (batch_size, image_size) == (32, 64) else (EAGER,)
        planted_experiment(
            store,
            variants=arms,
            repeats=1,
            batch_sizes=(batch_size,),
            workload={"image_size": image_size},
        )
    reasons = {left.reason for left in compared(store).left_out}
    assert "no eager run of the same workload: batch_size is 32 here, 16 there" in reasons


def test_runs_of_another_machine_are_no_neighbours(store):
    planted_experiment(store, variants=(EAGER,), repeats=1)
    planted_experiment(store, variants=(COMPILE,), repeats=1, machine="A100")
    assert {left.reason for left in compared(store).left_out} == {
        "no eager run of the same workload on the same machine",
        "no other variant than eager of the same workload on this machine",
    }


def test_a_fact_that_one_side_leaves_unstated_is_named(store):
    planted_experiment(store, repeats=1)
    runs = store.runs()
    epochs = store.epochs([run.number for run in runs])
    told = [replace(runs[0], unstated=("torch",)), runs[1]]
    found = pairing.comparisons(measure(run, epochs[run.number]) for run in told)
    assert found.pairs == ()
    assert "no eager run of the same workload: torch is 2.14.1 here, not stated there" in {
        left.reason for left in found.left_out
    }


def test_stated_times_give_a_first_look_without_a_band(store):
    planted_experiment(store, repeats=1, measured=0)
    stated = {0: Stated(steady_seconds=60.0), 1: Stated(steady_seconds=40.0, start_seconds=90.0)}
    measured = [
        measure(replace(run, status="done", stated=stated[at]), ())
        for at, run in enumerate(store.runs())
    ]
    [pair] = pairing.comparisons(measured).pairs
    assert pair.speedup.ratio == pytest.approx(1.5)
    assert pair.band is None and pair.differs
    assert pair.verdict_text == "first look: 50\u00a0% faster"
    assert pair.detail.startswith(
        "Only 1 run in an arm, without single times: no verdict before 3."
    )
    # Eager's start is not stated, so nobody knows how much dearer that of compile is.
    assert pair.break_even_cold is None
    measured[0] = measure(
        replace(measured[0].run, stated=Stated(steady_seconds=60.0, start_seconds=0.0)), ()
    )
    [pair] = pairing.comparisons(measured).pairs
    assert "Pays off from epoch 5 (projected)." in pair.detail


def test_of_stated_times_nothing_is_measured_not_even_the_first_epoch(store):
    planted_experiment(store, repeats=1, measured=0)
    stated = (
        Stated(steady_seconds=0.2, start_seconds=0.0),
        Stated(steady_seconds=0.1, start_seconds=0.05),
    )
    measured = [
        measure(replace(run, status="done", stated=of), ())
        for run, of in zip(store.runs(), stated, strict=True)
    ]
    [pair] = pairing.comparisons(measured).pairs
    assert (pair.break_even_cold.epoch, pair.break_even_cold.projected) == (1, True)
    assert "Pays off from epoch 1 (projected)." in pair.detail


def test_a_default_is_called_a_default(store):
    planted_experiment(store, variants=(EAGER,), repeats=1)
    planted_experiment(store, variants=(COMPILE,), repeats=1, workload={"threads": 4})
    reasons = {left.reason for left in compared(store).left_out}
    assert "no eager run of the same workload: threads is 4 here, default there" in reasons
