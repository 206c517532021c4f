"""What is said of planted causes: each by its name, with its price. Rows whose times are exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench_core.cause import Cause
from bench_core.comparison import Comparison
from bench_core.diagnosis import KINDS, ceiling_text, diagnose, gain_text
from bench_core.events import Activity, Aftermath, CompileWindow, Epoch, GraphBreak, Prepared
from bench_core.late_compiles import level_of_full_batches, recompiles
from bench_core.measured import Measured, measure
from bench_core.pairing import Axis, comparisons, override
from bench_core.remedies import remedy
from bench_core.run import Run
from bench_core.spec import Measurement, Rung, RunSpec, Variant, Workload
from bench_core.time_parts import BETWEEN, busy_share, ceilings, parts, step_shares
from tests.measuring_child import measured as measured_child
from tests.measuring_child import write_model
from tests.planted import COMPILE, EAGER, environment

WORK = Workload(model="resnet18", batch_size=4, samples=40, image_size=64)
RESNET_SHARES = {
    "convolution": 0.72,
    "matmul": 0.04,
    "optimizer": 0.04,
    "copies": 0.02,
    "fusable": 0.15,
    "other": 0.03,
}
STATIC = Variant(execution="compile", dynamic=False)


def epoch(
    number: int,
    steps: Sequence[float],
    wait: float = 0.0,
    windows: Sequence[CompileWindow] = (),
    **changed: Any,
) -> Epoch:
    return Epoch(
        **{
            "epoch": number,
            "started_at": 1.7e9 + number,
            "wall_seconds": sum(steps) + wait,
            "data_wait_seconds": wait,
            "compile_seconds": sum(window.seconds for window in windows),
            "compile_windows": tuple(windows),
            "step_seconds": tuple(steps),
            "samples": 40,
            "loss": 1.0,
            **changed,
        }
    )


def window(offset: float, seconds: float, **changed: Any) -> CompileWindow:
    return CompileWindow(trigger="DYNAMO", offset_seconds=offset, seconds=seconds, **changed)


def measured(
    number: int,
    epochs: Sequence[Epoch],
    variant: Variant = EAGER,
    workload: Workload = WORK,
    device: str = "cpu",
    machine: str = "CPU",
    here: dict[str, Any] | None = None,
    activity: Activity | None = None,
    aftermath: Aftermath | None = None,
    **measurement: Any,
) -> Measured:
    """A run that ended, with these epochs."""
    spec = RunSpec(
        workload=workload,
        variant=variant,
        measurement=Measurement(epochs=len(epochs), **measurement),
        device=device,
    )
    nothing: dict[str, Any] = dict.fromkeys(
        ("failure", "reason", "traceback", "phase", "phase_epoch", "phase_since")
        + ("compiling_since", "child_pid", "child_created", "priming_seconds")
    )
    run = Run(
        number=number,
        id=f"{number:012x}",
        experiment_id="0" * 12,
        spec=spec,
        status="done",
        created_at=0.0,
        started_at=1.0,
        ended_at=2.0,
        environment=environment(machine, **(here or {})),
        prepared=Prepared(
            parameters=1000,
            weights="random",
            steps_per_epoch=workload.steps_per_epoch,
            remainder=workload.remainder,
            setup_seconds=1.0,
        ),
        activity=activity or (Activity(graphs=1, cache_misses=1) if variant.cache else None),
        aftermath=aftermath,
        **nothing,
    )
    return measure(run, epochs)


def steady(step: float, wait: float = 0.0, count: int = 5, steps: int = 10, **changed: Any) -> list:
    return [epoch(number, [step] * steps, wait, **changed) for number in range(1, count + 1)]


def pair_of(*runs: Measured) -> Comparison:
    [pair] = comparisons(runs).pairs
    return pair


def cause(kind: str, pair: Comparison, others: Sequence[Measured] = ()) -> Cause:
    found = [one for one in diagnose(pair, others) if one.kind == kind]
    assert len(found) == 1, [one.kind for one in diagnose(pair, others)]
    return found[0]


def kinds(pair: Comparison, others: Sequence[Measured] = ()) -> list[str]:
    return [one.kind for one in diagnose(pair, others)]


def said(text: str) -> str:
    return text.translate(str.maketrans({"\u00a0": " ", "\u202f": " "}))


def names(one: Cause) -> list[str]:
    return [remedy.name for remedy in one.remedies]


# Parts and ceilings


def test_parts_are_those_of_the_steady_state_and_compiling_is_spread_over_the_epochs() -> None:
    first = epoch(1, [3.0, *[0.1] * 9], 0.5, [window(0.6, 2.5)])
    rest = steady(0.1, 0.5, evaluation_seconds=0.2)[1:]
    split = parts(pair_of(measured(1, steady(0.1)), measured(2, [first, *rest], COMPILE)).candidate)
    assert split.steps == pytest.approx(1.0)
    assert split.data_wait == pytest.approx(0.5)
    assert split.evaluation == pytest.approx(0.2)
    assert split.compiling == pytest.approx(2.5 / 5)
    assert split.epoch == pytest.approx(1.5)
    assert split.count == 5


def test_on_a_gpu_the_hosts_wait_overlaps_with_the_steps() -> None:
    """The host waits 0.9 s of the 1.2 s, but for all but 0.2 s of that the GPU works."""
    epochs = [one.changed(wall_seconds=1.2) for one in steady(0.1, 0.9)]
    run = measured(1, epochs, device="cuda:0", machine="A100")
    split = parts(
        pair_of(run, measured(2, epochs, COMPILE, device="cuda:0", machine="A100")).baseline
    )
    assert split.data_wait == pytest.approx(0.2)
    assert split.steps == pytest.approx(1.0)


def test_without_workers_the_ceiling_is_the_epoch_over_the_wait() -> None:
    pair = pair_of(measured(1, steady(0.1, 3.0)), measured(2, steady(0.05, 3.0), COMPILE))
    assert ceilings(pair.baseline).data == pytest.approx(4 / 3)
    found = cause("data wait", pair)
    assert found.seconds == pytest.approx(3.0)
    assert "75 % of the eager epoch" in said(found.title)
    assert "at most 1.33× faster" in said(found.text) and "estimate" in said(found.text)
    assert "The steps alone are 100 % faster" in said(found.text)
    assert names(found) == ["cached data", "2 loader workers"]


def test_with_workers_the_ceiling_is_the_loader_alone_and_not_the_wait() -> None:
    """19 % of the epoch is wait, which would allow 5.3 times; the loader allows 1.39."""
    work = WORK.changed(loader_workers=2)
    loader = Aftermath(loader_only_seconds=1.0 / 1.39)
    runs = [
        measured(number, steady(0.081, 0.19), variant, work, aftermath=loader)
        for number, variant in ((1, EAGER), (2, COMPILE))
    ]
    pair = pair_of(*runs)
    assert ceilings(pair.baseline).data == pytest.approx(1.39)
    text = said(cause("data wait", pair).text)
    assert "1.39× faster" in text and "wait of 19 %" in text and "5.3" not in text
    assert names(cause("data wait", pair)) == ["cached data"]


def test_with_workers_and_no_time_of_the_loader_no_ceiling_is_claimed() -> None:
    work = WORK.changed(loader_workers=2)
    pair = pair_of(
        measured(1, steady(0.081, 0.19), EAGER, work),
        measured(2, steady(0.081, 0.19), COMPILE, work),
    )
    assert ceilings(pair.baseline).data is None
    assert "was not timed" in cause("data wait", pair).text


def test_a_wait_that_is_no_part_of_a_latency_is_no_cause() -> None:
    work = Workload(model="resnet18", task="infer", pipeline="on_the_fly", batch_size=1)
    blocks = steady(0.01, 5.0, count=3, steps=20)
    pair = pair_of(measured(1, blocks, EAGER, work), measured(2, blocks, COMPILE, work))
    assert "data wait" not in kinds(pair)
    assert ceilings(pair.baseline).epoch is None


def profiled(**shares: float) -> Aftermath:
    return Aftermath(shares={**RESNET_SHARES, **shares})


def test_amdahls_ceiling_is_what_libraries_and_the_optimiser_leave() -> None:
    pair = pair_of(
        measured(1, steady(0.1), aftermath=profiled()), measured(2, steady(0.09), COMPILE)
    )
    limits = ceilings(pair.baseline)
    assert limits.touchable == pytest.approx(0.20)
    assert limits.step == limits.epoch == pytest.approx(1.25)
    found = cause("library kernels", pair)
    assert said(found.title).startswith("72 % convolution and 4 % matrix products")
    assert "can touch 20 % of this step: at most about 1.25×" in said(found.text)
    assert found.sure == "estimate" and "estimate" in found.text
    assert found.seconds == pytest.approx(0.76)
    assert names(found) == ["channels_last"]


def test_on_a_cpu_without_workers_the_wait_and_the_kept_steps_add_up() -> None:
    """0.5 s of wait and 0.8 of the step's second stay: 1.5 / 1.3."""
    pair = pair_of(
        measured(1, steady(0.1, 0.5), aftermath=profiled()), measured(2, steady(0.1, 0.5), COMPILE)
    )
    assert ceilings(pair.baseline).epoch == pytest.approx(1.5 / 1.3)
    assert "at most about 1.15× for the epoch" in said(cause("library kernels", pair).text)


def test_with_workers_the_slower_of_loader_and_kept_steps_is_the_limit() -> None:
    work = WORK.changed(loader_workers=2)
    after = Aftermath(shares=RESNET_SHARES, loader_only_seconds=0.5)
    pair = pair_of(
        measured(1, steady(0.1, 0.2), EAGER, work, aftermath=after),
        measured(2, steady(0.1, 0.2), COMPILE, work),
    )
    assert ceilings(pair.baseline).epoch == pytest.approx(1.2 / 0.8)


def test_kernels_of_another_precision_are_not_those_that_stay() -> None:
    low = WORK.changed(precision="bf16")
    runs = (
        measured(1, steady(0.1), aftermath=profiled()),
        measured(2, steady(0.05), COMPILE, low),
    )
    axis = Axis(("precision", "variant"), (("precision", "fp32"), ("variant", EAGER)))
    [pair] = comparisons(runs, axis).pairs
    assert "library kernels" not in kinds(pair)
    assert "compile can touch" not in gain_text(pair)
    same = pair_of(runs[0], measured(3, steady(0.095), COMPILE))
    assert "25 % of the 200 ms in them that compile can touch" in said(gain_text(same))


def test_a_gain_of_the_medians_that_slow_epochs_hide_is_no_negative_share() -> None:
    slow = steady(0.097, count=9)
    slow[5] = epoch(6, [0.3] * 10)
    pair = pair_of(measured(1, steady(0.1), aftermath=profiled()), measured(2, slow, COMPILE))
    text = said(gain_text(pair))
    assert "takes 970 ms instead of 1.00 s in the median" in text
    assert "single slow epochs hide that in the mean" in text
    assert "-" not in text and "gain is" not in text


def test_testing_that_counts_is_part_of_where_the_gain_comes_from() -> None:
    work = WORK.changed(evaluate="variant")
    runs = [
        measured(1, steady(0.1, evaluation_seconds=2.0), EAGER, work),
        measured(2, steady(0.1, evaluation_seconds=1.0), COMPILE, work),
    ]
    pair = pair_of(*(measure(one.run, one.epochs, evaluation=True) for one in runs))
    text = said(gain_text(pair))
    assert "An epoch is 1.00 s shorter" in text and "testing 1.00 s instead of 2.00 s" in text


def test_the_epochs_ceiling_is_told_of_eager_against_compile_alone() -> None:
    eager = measured(1, steady(0.1), aftermath=profiled())
    low = measured(3, steady(0.05), COMPILE, WORK.changed(precision="bf16"))
    axis = Axis(("precision", "variant"), (("precision", "fp32"), ("variant", EAGER)))
    compiled = measured(2, steady(0.09), COMPILE)
    assert "at most about 1.25× faster" in said(ceiling_text(pair_of(eager, compiled)))
    assert ceiling_text(comparisons([eager, low], axis).pairs[0]) == ""
    static = measured(4, steady(0.09), STATIC)
    [of_compiled] = comparisons([compiled, static], Axis.against(COMPILE)).pairs
    assert ceiling_text(of_compiled, [eager]) == ""


def test_shares_come_from_other_eager_runs_where_the_baseline_is_none() -> None:
    other = measured(3, steady(0.1), aftermath=profiled())
    runs = measured(1, steady(0.1), STATIC), measured(2, steady(0.1), COMPILE)
    [pair] = comparisons(runs, Axis.against(STATIC)).pairs
    assert "library kernels" not in kinds(pair)
    assert "library kernels" in kinds(pair, [other])


def test_a_heavy_optimiser_asks_for_a_larger_batch_in_both_arms() -> None:
    shares = profiled(convolution=0.2, optimizer=0.56)
    pair = pair_of(measured(1, steady(0.1), aftermath=shares), measured(2, steady(0.1), COMPILE))
    found = cause("optimizer", pair)
    assert "56 % of the eager step" in said(found.title)
    assert found.seconds == pytest.approx(0.56)
    [bigger] = found.remedies
    assert bigger.name == "batch 16"
    specs = bigger.experiment.runs()
    assert {(run.workload.batch_size, run.variant.arm) for run in specs} == {
        (16, EAGER),
        (16, COMPILE),
    }
    assert len(specs) == 6


def test_copies_and_testing_are_named_with_their_seconds() -> None:
    work = WORK.changed(evaluate="variant")
    first = epoch(1, [0.1] * 10, evaluation_seconds=9.3, evaluation_compile_seconds=9.0)
    compiled = [first, *steady(0.1, evaluation_seconds=0.3)[1:]]
    pair = pair_of(
        measured(
            1,
            steady(0.1, evaluation_seconds=0.25),
            EAGER,
            work,
            aftermath=profiled(copies=0.12),
        ),
        measured(2, compiled, COMPILE, work),
    )
    assert "12 % of the eager step" in said(cause("copies", pair).title)
    testing = cause("evaluation", pair)
    assert testing.seconds == pytest.approx(9.0 / 5)
    assert "300 ms against 250 ms, not counted in the speedup" in said(testing.text)
    assert "compiled once more: 9.00 s" in said(testing.text)
    [without] = testing.remedies
    assert {run.workload.evaluate for run in without.experiment.runs()} == {"none"}


# Compiling


def test_the_start_up_is_priced_and_late_compiles_are_named() -> None:
    epochs = steady(0.1, count=6)
    epochs[0] = epoch(1, [8.1, *[0.1] * 9], windows=[window(0.05, 8.0)])
    epochs[2] = epoch(3, [0.1] * 9 + [1.6], windows=[window(1.0, 1.5)])
    pair = pair_of(measured(1, steady(0.1)), measured(2, epochs, COMPILE))
    found = cause("start-up", pair)
    assert said(found.title) == "Compiling took 9.50 s, paid at each start"
    assert "Run 2 compiled after its first epoch too: 1.50 s in epoch 3" in said(found.text)
    assert found.seconds == pytest.approx(9.5 / 6)
    [warm] = found.remedies
    assert {run.variant.cache for run in warm.experiment.runs()} == {"warm"}


def test_a_start_up_is_held_against_a_baselines_from_the_same_cache() -> None:
    """Cold 8 s against cold 2 s; the baseline's warm starts cost it nothing."""

    def start(number: int, seconds: float, variant: Variant, hits: int = 0) -> Measured:
        first = epoch(1, [seconds + 0.1, *[0.1] * 9], windows=[window(0.0, seconds)])
        activity = Activity(graphs=1, cache_hits=hits, cache_misses=1 - hits)
        return measured(number, [first, *steady(0.1)[1:]], variant, activity=activity)

    warm = COMPILE.changed(cache="warm")
    runs = [start(1, 2.0, COMPILE), start(2, 0.01, warm, 1), start(3, 0.01, warm, 1)]
    [pair] = comparisons([*runs, start(4, 8.0, STATIC)], Axis.against(COMPILE)).pairs
    assert cause("start-up", pair).seconds == pytest.approx((8.0 - 2.0) / 5)
    assert "lost 8.00 s; compile lost 2.00 s" in said(cause("start-up", pair).text)


def test_what_precedes_the_first_call_is_part_of_the_start() -> None:
    work = Workload(model="resnet18", task="infer", batch_size=1)
    blocks = [one.changed(data_wait_seconds=0.0) for one in steady(0.01, count=3, steps=20)]
    export = measured(2, blocks, Variant(execution="export_aot"), work)
    assert export.run.prepared
    prepared = export.run.prepared.changed(execution_seconds=41.0)
    export = measure(replace(export.run, prepared=prepared), export.epochs)
    pair = pair_of(measured(1, blocks, EAGER, work), export)
    assert parts(pair.candidate).compiling == pytest.approx(41 / 60)
    found = cause("start-up", pair)
    assert said(found.title) == "Exporting took 41.0 s, paid at each start"
    assert found.seconds == pytest.approx(41 / 60)
    assert not found.remedies and "no cache" in found.next_step


def test_breaks_whose_place_is_not_known_are_counted_beside_the_others() -> None:
    broken = measured(
        2,
        steady(0.12),
        COMPILE,
        activity=Activity(graphs=3, cache_misses=3, graph_breaks=("item()", "unimplemented")),
        aftermath=Aftermath(
            breaks=(GraphBreak(reason="item()", place="net.py:7 in forward", times=1),)
        ),
    )
    found = cause("graph breaks", pair_of(measured(1, steady(0.1)), broken))
    assert found.title.startswith("2 graph breaks:")
    assert "net.py:7 in forward: item(); unimplemented." in found.text


def test_a_graph_break_is_named_by_its_line_and_priced_by_a_run_without_it() -> None:
    reason = "Unsupported Tensor.item() call: Dynamo cannot trace it"
    broken = measured(
        2,
        steady(0.12),
        COMPILE,
        activity=Activity(graphs=2, cache_misses=2, graph_breaks=(reason,)),
        aftermath=Aftermath(
            breaks=(GraphBreak(reason=reason, place="net.py:7 in forward", times=2),)
        ),
    )
    pair = pair_of(measured(1, steady(0.1)), broken)
    found = cause("graph breaks", pair)
    assert found.title.startswith("1 graph break:")
    assert f"net.py:7 in forward: {reason}" in found.text
    assert (found.sure, found.seconds) == ("not priced", None)
    assert "Not priced" in found.text
    whole = measured(3, steady(0.09), COMPILE.changed(fullgraph=True))
    priced = cause("graph breaks", pair, [whole])
    assert priced.sure == "measured"
    assert priced.seconds == pytest.approx(1.2 - 0.9)
    assert "takes 900 ms against 1.20 s" in said(priced.text)


def test_each_recompile_has_its_reason_and_the_seconds_of_its_own_step() -> None:
    """Two windows of one step are one recompile: forward and backward."""
    epochs = steady(0.1, count=7)
    epochs[0] = epoch(1, [5.1, *[0.1] * 9], windows=[window(0.0, 3.0), window(3.0, 2.0)])
    epochs[1] = epoch(
        2, [0.1] * 4 + [2.6] + [0.1] * 5, windows=[window(0.4, 1.5), window(2.0, 0.5)]
    )
    epochs[2] = epoch(3, [1.1] + [0.1] * 9, windows=[window(0.0, 1.0)])
    reasons = ("0/1: phase == 'a'", "0/2: phase == 'b'")
    run = measured(
        2, epochs, COMPILE, activity=Activity(graphs=3, cache_misses=3, recompiles=reasons)
    )
    found = recompiles(run)
    assert [(one.epoch, one.step) for one in found] == [(2, 4), (3, 0)]
    assert [one.seconds for one in found] == pytest.approx([2.0, 1.0])
    said_of_it = cause("recompiles", pair_of(measured(1, steady(0.1)), run))
    assert said(said_of_it.title) == "2 recompiles after the first compile: 3.00 s"
    assert "phase == 'a' (epoch 2, 2.00 s)" in said(said_of_it.text)
    assert "phase == 'b' (epoch 3, 1.00 s)" in said(said_of_it.text)
    assert said_of_it.seconds == pytest.approx(3.0 / 7)
    start = cause("start-up", pair_of(measured(1, steady(0.1)), run))
    # Half a second of epoch 2 was lost outside its windows.
    assert start.seconds == pytest.approx((8.5 - 3.0) / 7), "no second is priced twice"
    assert said(start.title) == "Compiling took 5.00 s, paid at each start"
    assert "3.00 s of that are recompiles" in said(start.text)
    assert names(said_of_it) == ["dynamic=True"]


RAGGED = WORK.changed(samples=42, drop_last=False)
SIZES = "0/1: tensor 'x' size mismatch at index 0. expected 4, actual 2"


def ragged_run(number: int = 2, after: float = 0.112, before: float = 0.1) -> Measured:
    """Compiles again for the last batch of 2 in epoch 1: 39 s; full batches then take `after`."""
    first = [9.0, *[before] * 9, 39.06]
    start = 9.0 + 9 * before
    epochs = [epoch(1, first, windows=[window(0.0, 8.9), window(start, 39.0)])]
    epochs += [epoch(one, [after] * 10 + [0.06]) for one in range(2, 7)]
    activity = Activity(graphs=2, cache_misses=2, recompiles=(SIZES,))
    return measured(number, epochs, COMPILE, RAGGED, activity=activity)


def ragged_pair(**times: float) -> Comparison:
    eager = [epoch(number, [0.1] * 10 + [0.06]) for number in range(1, 6)]
    return pair_of(measured(1, eager, EAGER, RAGGED), ragged_run(**times))


def test_the_ragged_batch_costs_its_window_and_what_full_batches_lose_since() -> None:
    found = cause("ragged batch", ragged_pair())
    assert said(found.title) == (
        "The ragged last batch cost 39.0 s of compiling and 120 ms an epoch since"
    )
    assert "42 samples end in a batch of 2" in found.text
    assert "full batches take 12 % longer: 112 ms a step, before 100 ms" in said(found.text)
    assert found.seconds == pytest.approx(39 / 6 + 10 * 0.012)
    assert "recompiles" not in kinds(ragged_pair()), "told once"


def test_full_batches_that_run_as_before_cost_nothing_more() -> None:
    found = cause("ragged batch", ragged_pair(after=0.1))
    assert "run as fast as before" in found.text
    assert found.seconds == pytest.approx(39 / 6)


def test_a_device_that_settles_in_its_first_steps_is_no_gain_of_the_recompile() -> None:
    run = ragged_run(after=0.1)
    first = run.epochs[0]
    slow = first.changed(step_seconds=(9.0, 0.3, 0.3, *first.step_seconds[3:]))
    level = level_of_full_batches(measure(run.run, [slow, *run.epochs[1:]]))
    assert level is not None and level.before == pytest.approx(0.1)
    assert not level.changed
    faster = cause("ragged batch", ragged_pair(after=0.08))
    assert "20 % less" in said(faster.text) and "may have been warming up" in faster.text


def test_too_few_steps_before_the_recompile_price_no_level() -> None:
    run = ragged_run()
    short = epoch(1, [9.0, 0.1, 39.06], windows=[window(0.0, 8.9), window(9.1, 39.0)])
    work = RAGGED.changed(samples=10)
    rest = [epoch(number, [0.112, 0.112, 0.06]) for number in range(2, 6)]
    spec = run.run.spec.changed(workload=work)
    few = measure(replace(run.run, spec=spec), [short, *rest])
    assert level_of_full_batches(few) is None
    eager = [epoch(number, [0.1, 0.1, 0.06]) for number in range(1, 6)]
    text = cause("ragged batch", pair_of(measured(1, eager, EAGER, work), few)).text
    assert "not priced: fewer than 3" in text


def test_the_ragged_batchs_remedies_measure_what_the_gate_will_compare() -> None:
    pair = ragged_pair()
    dropped, static = cause("ragged batch", pair).remedies
    assert (dropped.name, static.name) == ("drop_last", "dynamic=False")
    both = [(run.workload, run.variant.arm) for run in dropped.experiment.runs()]
    full = RAGGED.changed(drop_last=True)
    assert [both.count((full, arm)) for arm in (EAGER, COMPILE)] == [3, 3]
    alone = [(run.workload, run.variant.arm) for run in static.experiment.runs()]
    assert alone == [(RAGGED, STATIC)] * 3
    assert dropped.measured is None and static.measured is None


def test_a_remedy_that_was_measured_is_told_and_not_offered_again() -> None:
    pair = ragged_pair()
    full = RAGGED.changed(drop_last=True)
    stored = [
        measured(7, steady(0.1, count=6), EAGER, full),
        measured(8, steady(0.08, count=6), COMPILE, full),
        measured(9, [epoch(n, [0.09] * 10 + [0.06]) for n in range(1, 7)], STATIC, RAGGED),
        measured(10, steady(0.01, count=6), COMPILE, full, machine="other"),
    ]
    dropped, static = cause("ragged batch", pair, stored).remedies
    assert dropped.measured is not None and static.measured is not None
    assert dropped.measured.speedup.ratio == pytest.approx(1.25)
    assert static.measured.speedup.ratio == pytest.approx(1.06 / 0.96)


def test_a_measured_remedy_keeps_the_pairs_own_runs_and_its_noise_floor() -> None:
    """Testing counts in the pair, and not in the same runs among the store's."""
    work = RAGGED.changed(evaluate="variant")

    def run(number: int, step: float, variant: Variant) -> Measured:
        epochs = [
            epoch(n, [step] * 10 + [0.06], evaluation_seconds=1.0, windows=[]) for n in range(1, 7)
        ]
        activity = Activity(graphs=2, cache_misses=2, recompiles=(SIZES,))
        return measured(number, epochs, variant, work, activity=activity)

    stored = [run(1, 0.1, EAGER), run(2, 0.112, COMPILE), run(3, 0.09, STATIC)]
    counting = [measure(one.run, one.epochs, evaluation=True) for one in stored]
    pair = replace(comparisons(counting[:2]).pairs[0], floor=0.3)
    [made] = [remedy(pair, "dynamic=False", stored, candidate=STATIC)]
    assert made is not None and made.measured is not None
    assert made.measured.baseline.steady_seconds == pair.baseline.steady_seconds
    assert made.measured.floor == 0.3


def test_a_pair_of_arms_that_differ_in_more_than_an_axis_has_no_cause_and_no_remedy() -> None:
    t4 = measured(1, steady(0.1, 3.0), device="cuda:0", machine="T4")
    a100 = measured(2, steady(0.1, 3.0), COMPILE, device="cuda:0", machine="A100")
    other = measured(3, steady(0.1, 3.0), device="cuda:0", machine="A100")
    pair = replace(override([t4], [a100]), axis=("variant", "machine"))
    assert pair.overridden
    assert diagnose(pair, [t4, a100, other]) == []
    assert remedy(pair, "dynamic=False", [other], candidate=STATIC) is None
    assert remedy(pair, "cached data", [other], pipeline="cached") is None


def test_a_remedys_three_runs_an_arm_do_not_end_early() -> None:
    runs = [
        measured(number, steady(0.1, 3.0), variant, until_sure=2.0)
        for number, variant in ((1, EAGER), (2, COMPILE))
    ]
    cached = cause("data wait", pair_of(*runs)).remedies[0]
    assert cached.experiment.measurement.until_sure is None


def test_a_warm_cache_where_a_cold_one_was_asked_for_is_told() -> None:
    run = measured(2, steady(0.1), COMPILE, activity=Activity(graphs=1, cache_hits=2))
    found = cause("cache state", pair_of(measured(1, steady(0.1)), run))
    assert found.title == "Asked for a cold compile cache, got: warm"


def test_skipped_cuda_graphs_are_counted() -> None:
    reduced = COMPILE.changed(mode="reduce-overhead")
    run = measured(
        2, steady(0.1), reduced, activity=Activity(graphs=1, cache_misses=1, cudagraph_skips=3)
    )
    found = cause("CUDA graphs", pair_of(measured(1, steady(0.1)), run))
    assert found.title.startswith("3 CUDA graphs")
    assert names(found) == ["compile without CUDA graphs"]


# The machine


def test_a_gpu_that_waits_for_the_host_is_launch_bound_and_compile_can_touch_the_pauses() -> None:
    """40 ms of kernels in a step of 100 ms: of the 80 % that stay, 32 % of the step."""
    after = Aftermath(shares=RESNET_SHARES, device_busy_seconds=0.04)
    where = {"device": "cuda:0", "machine": "T4"}
    pair = pair_of(
        measured(1, steady(0.1), aftermath=after, **where),
        measured(2, steady(0.09), COMPILE, **where),
    )
    assert busy_share(pair.baseline) == pytest.approx(0.4)
    shares = step_shares(pair.baseline)
    assert shares is not None and sum(shares.values()) == pytest.approx(1)
    assert shares[BETWEEN] == pytest.approx(0.6)
    assert ceilings(pair.baseline).step == pytest.approx(1 / 0.32)
    found = cause("launch-bound", pair)
    assert "works 40 % of the eager step: batch 4" in said(found.title)
    assert found.seconds == pytest.approx(0.6 * 0.9)
    assert names(found) == ["batch 16", "CUDA graphs"]


def test_what_a_cpu_does_between_operators_is_no_part_of_the_librarys_work() -> None:
    """30 ms of operators in a step of 100 ms: 72 % of these are 21.6 % of the step."""
    after = Aftermath(shares=RESNET_SHARES, device_busy_seconds=0.03)
    pair = pair_of(measured(1, steady(0.1), aftermath=after), measured(2, steady(0.09), COMPILE))
    shares = step_shares(pair.baseline)
    assert shares is not None and shares["convolution"] == pytest.approx(0.216)
    assert shares[BETWEEN] == pytest.approx(0.7)
    assert "launch-bound" not in kinds(pair)


def test_threads_beyond_the_cores_are_told_and_both_arms_are_measured_with_fewer() -> None:
    here = {"here": {"threads": 8}}
    pair = pair_of(measured(1, steady(0.1), **here), measured(2, steady(0.1), COMPILE, **here))
    found = cause("threads", pair)
    assert found.title == "8 threads on 2 cores"
    [fewer] = found.remedies
    assert {run.workload.threads for run in fewer.experiment.runs()} == {2}


def test_tf32_that_is_off_is_a_cause_only_where_the_gpu_has_it() -> None:
    def on(machine: str) -> Comparison:
        where = {"device": "cuda:0", "machine": machine}
        return pair_of(
            measured(1, steady(0.1), aftermath=profiled(matmul=0.2, convolution=0.56), **where),
            measured(2, steady(0.1), COMPILE, **where),
        )

    assert "TF32" not in kinds(on("T4"))
    found = cause("TF32", on("A100"))
    assert found.title == "TF32 is off for matrix products"
    assert found.seconds == pytest.approx(0.2)
    assert {run.workload.tf32 for run in found.remedies[0].experiment.runs()} == {"on"}


# The list


def test_what_would_change_most_comes_first_and_what_has_no_price_last() -> None:
    here = {"here": {"threads": 8}}
    pair = pair_of(
        measured(1, steady(0.1, 3.0), aftermath=profiled(), **here),
        measured(2, steady(0.1, 3.0), COMPILE, **here),
    )
    assert kinds(pair) == ["data wait", "library kernels", "threads"]


def test_the_list_is_closed_and_says_how_sure_it_is() -> None:
    pair = ragged_pair()
    for one in diagnose(pair):
        assert one.kind in KINDS
        assert one.sure in ("measured", "estimate", "not priced")
        assert one.sure != "not priced" or one.seconds is None
        assert one.title and one.text and one.next_step


def test_equal_arms_have_no_causes() -> None:
    sides = [
        measured(1, steady(0.1, 3.0), side="A", protocol="sequential"),
        measured(2, steady(0.1, 3.0), side="B", protocol="sequential"),
    ]
    [pair] = comparisons(sides, Axis(("side",), (("side", "A"),))).pairs
    assert diagnose(pair) == []


def test_a_remedy_of_a_ladders_rung_keeps_what_tells_its_arms_apart() -> None:
    low = WORK.changed(precision="bf16")
    runs = [
        measured(1, steady(0.1, 3.0)),
        measured(2, steady(0.06, 3.0), COMPILE, low),
    ]
    axis = Axis(("precision", "variant"), (("precision", "fp32"), ("variant", EAGER)))
    [pair] = comparisons(runs, axis).pairs
    cached = cause("data wait", pair).remedies[0]
    assert cached.experiment.rungs == (
        Rung(workload={"precision": "fp32"}, variant=EAGER),
        Rung(workload={"precision": "bf16"}, variant=COMPILE),
    )
    assert set(cached.experiment.axis) == {"precision", "variant"}
    assert {run.workload.pipeline for run in cached.experiment.runs()} == {"cached"}


# Real processes

SLOW_IMAGES = """
import time
import PIL.Image
import torch
from torch import nn

resize = PIL.Image.Image.resize

def slow_resize(image, *args, **options):
    time.sleep(0.02)
    return resize(image, *args, **options)

PIL.Image.Image.resize = slow_resize
phase, calls = "early", 0

@torch.compiler.disable
def pause(logits):
    global phase, calls
    time.sleep(0.06)
    calls += 1
    phase = "early" if calls < 14 else "late"
    return logits

class Net(nn.Linear):
    def forward(self, images):
        logits = super().forward(images.flatten(1))
        if phase == "late":
            logits = logits + 1
        return pause(logits)

def build_model():
    return Net(3 * 32 * 32, 10)
"""
SLOW_BATCHES = """
import time
import torch
from torch import nn

def make_batch(size):
    time.sleep(0.03)
    return torch.randn(size, 8), torch.zeros(size, dtype=torch.int64)

def build_model():
    return nn.Linear(8, 10)
"""


def really(spec: RunSpec, data: Path, epochs: int) -> Measured:
    """What a measuring process reports of itself, as the store would hold it."""
    child = measured_child(spec, data, epochs, OMP_NUM_THREADS="1")
    assert child.process.returncode == 0, child.log_text()
    one = measured(
        2 if spec.variant.cache else 1,
        child.said(Epoch),
        spec.variant,
        spec.workload,
        activity=child.said(Activity)[-1] if spec.variant.cache else None,
        aftermath=child.said(Aftermath)[-1],
    )
    return one


@pytest.fixture(scope="module")
def slow_images(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """A loader of 20 ms an image and 2 workers, a model that waits 60 ms; a planted graph break, a
    ragged batch of 2, and a global that changes in the second epoch.
    """
    data = tmp_path_factory.mktemp("data")
    write_model(data, "slow_images.py", SLOW_IMAGES)
    work = Workload(
        model="file:slow_images.py",
        image_size=32,
        batch_size=4,
        samples=42,
        drop_last=False,
        loader_workers=2,
    )
    traced = Variant(execution="compile", backend="eager")
    return pair_of(
        *(really(RunSpec(workload=work, variant=one), data, 5) for one in (EAGER, traced))
    )


def test_a_real_loader_with_two_workers_is_the_ceiling_that_was_planted(
    slow_images: Comparison,
) -> None:
    """42 images of 20 ms in 2 processes are 420 ms at least, though most of it is never waited for.

    An epoch is 11 steps of 60 ms at least.
    """
    arm = slow_images.baseline
    [alone] = [m.run.aftermath.loader_only_seconds for m in arm.runs if m.run.aftermath]
    split, ceiling = parts(arm), ceilings(arm).data
    assert alone is not None and ceiling is not None
    assert alone >= 0.42 and split.steps >= 0.66
    assert ceiling == pytest.approx(split.epoch / alone)
    assert split.data_wait < alone, "workers load during the steps"
    assert ceiling < split.epoch / split.data_wait
    assert f"{ceiling:.2f}×" in cause("data wait", slow_images).text


def test_a_real_graph_break_is_named_by_its_line(slow_images: Comparison) -> None:
    found = cause("graph breaks", slow_images)
    line = 1 + SLOW_IMAGES[: SLOW_IMAGES.index("return pause")].count("\n")
    assert f"slow_images.py:{line} in forward" in found.text
    assert "torch.compiler.disable" in found.text
    assert found.sure == "not priced"


def test_a_real_ragged_batch_costs_the_window_in_the_last_step_of_the_first_epoch(
    slow_images: Comparison,
) -> None:
    [run] = slow_images.candidate.runs
    late = {(one.epoch, one.step): one.seconds for one in recompiles(run)}
    found = cause("ragged batch", slow_images)
    assert found.seconds is not None
    assert found.seconds >= late[1, 10] / 5 > 0
    assert "42 samples end in a batch of 2" in found.text
    assert "expected 4, actual 2" not in cause("recompiles", slow_images).text


def test_a_real_recompile_is_named_by_its_reason_and_its_seconds(slow_images: Comparison) -> None:
    [run] = slow_images.candidate.runs
    late = {(one.epoch, one.step): one.seconds for one in recompiles(run) if one.epoch == 2}
    [seconds] = late.values()
    found = cause("recompiles", slow_images)
    assert "phase'] == 'early'" in found.text
    assert found.seconds == pytest.approx(seconds / 5)


def test_a_real_wait_without_workers_is_the_ceiling(tmp_path: Path) -> None:
    """6 batches of 30 ms each, in front of steps that take next to nothing."""
    write_model(tmp_path, "slow_batches.py", SLOW_BATCHES)
    work = Workload(model="file:slow_batches.py", batch_size=4, samples=24)
    eager = really(RunSpec(workload=work), tmp_path, 5)
    pair = pair_of(eager, measured(2, eager.epochs, COMPILE, work))
    split, ceiling = parts(pair.baseline), ceilings(pair.baseline).data
    assert split.data_wait >= 0.18
    assert ceiling == pytest.approx(split.epoch / split.data_wait)
    assert names(cause("data wait", pair)) == ["cached data"], "its batches are made by the model"
