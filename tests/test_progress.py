"""What a person who waits is told: phases, the time left, and a replay of what was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench_core.measured import Measured, measure
from bench_core.progress import clock_text, phases, place_text
from bench_core.replay import as_of, moment_after
from bench_core.spec import Execution, Experiment, Variant
from bench_core.store import Store
from bench_core.time_left import (
    expected_seconds,
    measuring_seconds,
    quiet_seconds,
    seconds_left,
    share_done,
)
from tests.planted import plant_run, planted_experiment


def measured(store: Store, experiment: Experiment) -> list[Measured]:
    runs = store.runs(experiment.id)
    epochs = store.epochs([run.number for run in runs])
    return [measure(run, epochs[run.number]) for run in runs]


def words(one: Measured, now: float) -> dict[str, str]:
    return {phase.text.replace("\u00a0", " "): phase.standing for phase in phases(one, now)}


def left(runs: list[Measured], now: float) -> dict[int, float]:
    return seconds_left(runs, expected_seconds(runs), now)


def compiling(store: Store, epochs: int) -> tuple[list[Measured], Measured, float]:
    """Run 1 of 4 done, run 2 (compile, cold) after `epochs` of 10; the runs, that run, now."""
    experiment = planted_experiment(store, repeats=2, epochs=10, measured=1)
    plant_run(store, experiment.id, epochs=epochs, status="running")
    runs = measured(store, experiment)
    phase_since = runs[1].run.phase_since
    assert phase_since
    return runs, runs[1], phase_since


def test_a_queued_run_has_all_its_phases_to_come(store: Store) -> None:
    runs = measured(store, planted_experiment(store, measured=0))
    assert set(words(runs[1], 0.0).values()) == {"to come"}
    assert "compile" in words(runs[1], 0.0)
    assert "compile" not in words(runs[0], 0.0)


def test_compiling_counts_its_seconds_and_holds_warm_up_back(store: Store) -> None:
    _, one, now = compiling(store, epochs=0)
    one = replace(one, run=replace(one.run, compiling_since=now - 42))
    assert words(one, now)["compiling, 42 s so far"] == "compiling"
    assert words(one, now)["warm-up, epoch 1 of 10"] == "to come"
    assert words(one, now)["10 epochs"] == "to come"


def test_warm_up_lasts_until_a_steady_state_is_known(store: Store) -> None:
    _, one, now = compiling(store, epochs=3)
    assert words(one, now)["warm-up, epoch 4 of 10"] == "now"
    _, one, now = compiling(store, epochs=4)
    assert words(one, now)["warm-up: 1 epoch"] == "done"
    assert words(one, now)["epoch 5 of 10"] == "now"
    assert words(one, now)["compiled in 70.0 s"] == "done"


def test_compiling_once_more_is_called_that(store: Store) -> None:
    _, one, now = compiling(store, epochs=4)
    one = replace(one, run=replace(one.run, compiling_since=now - 130))
    assert words(one, now)["compiling again, 2 min 10 s so far"] == "compiling"


def test_filling_the_cache_and_waiting_for_the_machine_are_phases(store: Store) -> None:
    _, one, now = compiling(store, epochs=0)
    priming = replace(one.run, phase="priming", phase_since=now - 9)
    assert words(replace(one, run=priming), now)["filling the cache, 9 s so far"] == "now"
    waiting = replace(one.run, phase="waiting", phase_epoch=None)
    standing = words(replace(one, run=waiting), now)
    assert standing["waiting for another measurement on this machine"] == "now"
    assert standing["data"] == "to come"


def test_a_failed_run_shows_how_far_it_came(store: Store) -> None:
    experiment = planted_experiment(store, repeats=1, measured=1)
    plant_run(store, experiment.id, epochs=2, status="failed", failure="out of memory")
    shown = words(measured(store, experiment)[1], 0.0)
    assert shown["failed: out of memory"] == "failed"
    assert shown["compiled in 70.0 s"] == "done"
    assert "after timing" not in shown


def test_the_time_left_of_a_run_comes_from_its_quiet_epochs_only(store: Store) -> None:
    runs, one, now = compiling(store, epochs=4)
    quiet = quiet_seconds(one)
    assert quiet is not None
    assert quiet == pytest.approx(61.0, rel=0.02)  # not the 131 s of the first
    assert left(runs, now)[one.run.number] == pytest.approx(6 * quiet)
    assert left(runs, now + 20)[one.run.number] == pytest.approx(6 * quiet - 20)


def test_the_time_left_counts_the_evaluation_after_each_epoch(store: Store) -> None:
    runs, one, now = compiling(store, epochs=4)
    # Epochs of 60 s, each with 15 s of evaluation; that of the first compiles for another 30 s.
    epochs = [
        epoch.changed(
            wall_seconds=60.0,
            evaluation_seconds=45.0 if epoch.epoch == 1 else 15.0,
            evaluation_compile_seconds=30.0 if epoch.epoch == 1 else 0.0,
        )
        for epoch in one.epochs
    ]
    runs[1] = measure(one.run, epochs)
    assert quiet_seconds(runs[1]) == pytest.approx(75.0)
    assert left(runs, now)[one.run.number] == pytest.approx(6 * 75.0)
    assert left(runs, now + 70)[one.run.number] == pytest.approx(6 * 75.0 - 70)


def test_a_long_last_epoch_never_makes_the_time_left_negative(store: Store) -> None:
    runs, one, now = compiling(store, epochs=9)
    assert left(runs, now + 10_000)[one.run.number] == 0.0


def test_queued_runs_take_as_long_as_an_earlier_one_of_their_kind(store: Store) -> None:
    runs, _, now = compiling(store, epochs=4)
    first, last = runs[0].run, runs[3].run
    assert first.spec.variant == last.spec.variant
    assert first.started_at and first.ended_at
    assert left(runs, now)[last.number] == pytest.approx(first.ended_at - first.started_at)


def test_before_anything_was_measured_the_estimate_stands_in(store: Store) -> None:
    runs = measured(store, planted_experiment(store, measured=0))
    assert all(seconds > 0 for seconds in left(runs, 0.0).values())
    assert len(left(runs, 0.0)) == len(runs)


def test_the_bar_grows_from_nothing_to_all(store: Store) -> None:
    runs, _, now = compiling(store, epochs=4)
    assert 0.3 < share_done(runs, left(runs, now), now) < 0.6
    done = measured(store, planted_experiment(store))
    assert share_done(done, {}, now) == 1.0
    waiting = measured(store, planted_experiment(store, measured=0))
    assert share_done(waiting, left(waiting, now), now) == 0.0


def test_a_replay_shows_only_what_had_ended_by_then(store: Store) -> None:
    runs = measured(store, planted_experiment(store, repeats=1))
    second = runs[1].run
    assert second.started_at
    # 5 s of preparing, then an epoch of 131 s that compiles for 70 s from its first fifth on.
    early = as_of(runs, second.started_at + 35)
    assert [one.run.status for one in early] == ["done", "running"]
    assert early[1].epochs == ()
    assert early[1].run.compiling_since is not None
    assert words(early[1], second.started_at + 35)["compiling, 30 s so far"] == "compiling"
    later = as_of(runs, second.started_at + 5 + 131 + 2.5 * 61)
    assert len(later[1].epochs) == 3
    assert (later[1].run.phase, later[1].run.phase_epoch) == ("epoch", 4)
    assert later[1].run.activity is None


def test_a_replay_begins_with_everything_queued(store: Store) -> None:
    runs = measured(store, planted_experiment(store, repeats=1))
    started = runs[0].run.started_at
    assert started
    assert [one.run.status for one in as_of(runs, started - 1)] == ["queued", "queued"]


def test_waits_between_runs_are_left_out_of_a_replay(store: Store) -> None:
    runs = [one.run for one in measured(store, planted_experiment(store, repeats=1))]
    first, second = runs
    assert first.started_at and first.ended_at and second.started_at and second.ended_at
    later = replace(second, started_at=second.started_at + 7e4, ended_at=second.ended_at + 7e4)
    length = first.ended_at - first.started_at
    assert moment_after([first, later], 100.0) == pytest.approx(first.started_at + 100)
    assert later.started_at and later.ended_at
    assert moment_after([first, later], length + 1) == pytest.approx(later.started_at + 1)
    both = length + second.ended_at - second.started_at
    assert moment_after([first, later], both - 1) == pytest.approx(later.ended_at - 1)
    assert moment_after([first, later], both + 1) is None


def test_clocks_show_whole_seconds() -> None:
    assert clock_text(41.6) == "42\u00a0s"
    assert clock_text(125) == "2\u00a0min 5\u00a0s"
    assert clock_text(-3) == "0\u00a0s"


# Inference


def inferring(
    store: Store, execution: Execution, blocks: int, iterations: int = 200
) -> tuple[list[Measured], Measured, float]:
    """Eager done, the other variant after so many blocks; the runs, that run, now."""
    experiment = planted_experiment(
        store, models=("resnet18",), machine="CPU", batch_sizes=(1,), repeats=1,
        variants=(Variant(), Variant(execution=execution)), iterations=iterations, measured=1,
        workload={"task": "infer"},
    )  # fmt: skip
    plant_run(store, experiment.id, machine="CPU", epochs=blocks, status="running")
    runs = measured(store, experiment)
    phase_since = runs[1].run.phase_since
    assert phase_since
    return runs, runs[1], phase_since


def test_inference_goes_from_its_first_call_over_warm_up_to_iterations(store: Store) -> None:
    _, one, now = inferring(store, "compile", blocks=0)
    compiles = replace(one, run=replace(one.run, compiling_since=now - 20))
    shown = words(compiles, now)
    assert shown["compiling, 20 s so far"] == "compiling"
    assert shown["first call"] == shown["warm-up"] == shown["200 iterations"] == "to come"
    assert words(one, now)["first call"] == "now"

    _, one, now = inferring(store, "compile", blocks=1)
    shown = words(one, now)
    assert shown["compiled in 31.0 s"] == shown["first call: 31.1 s"] == "done"
    assert shown["warm-up, iteration 2 of 200"] == "now"

    _, one, now = inferring(store, "compile", blocks=3)
    shown = words(one, now)
    assert shown["warm-up: 3 iterations"] == "done"
    assert shown["iteration 52 of 200"] == "now"
    assert not [text for text in shown if "epoch" in text]


def test_an_ended_inference_run_counts_its_iterations(store: Store) -> None:
    runs, _, _ = inferring(store, "compile", blocks=1, iterations=80)
    shown = words(runs[0], 0.0)
    assert shown["80 iterations"] == "done"
    assert "compile" not in shown


def test_compile_frozen_compiles_like_compile(store: Store) -> None:
    _, one, now = inferring(store, "compile_frozen", blocks=2)
    assert words(one, now)["compiled in 36.0 s"] == "done"


@pytest.mark.parametrize(
    ("execution", "doing", "done"),
    [
        ("export_aot", "exporting, 30 s so far", "exported in 41.0 s"),
        ("jit_trace_frozen", "tracing and freezing, 30 s so far", "traced and frozen in 1.10 s"),
        ("onednn_graph", "tracing and freezing, 30 s so far", "traced and frozen in 1.30 s"),
    ],
)
def test_what_is_made_before_the_first_call_is_a_phase(
    store: Store, execution: Execution, doing: str, done: str
) -> None:
    _, one, now = inferring(store, execution, blocks=0)
    assert words(one, now)[done] == "done"
    making = replace(one.run, phase="data", phase_since=now - 30, prepared=None)
    shown = words(replace(one, run=making), now)
    assert shown[doing] == "compiling"
    assert shown["data"] == "done"
    assert shown["first call"] == "to come"
    assert not [text for text in shown if text.startswith("compile")]


def test_the_time_left_of_inference_comes_from_its_quiet_iterations(store: Store) -> None:
    runs, one, now = inferring(store, "compile", blocks=3)
    quiet = quiet_seconds(one)
    assert quiet is not None
    assert quiet == pytest.approx(0.055, rel=0.03)  # not the 31 s of the first
    assert left(runs, now)[one.run.number] == pytest.approx(149 * quiet)
    assert left(runs, now + 0.5)[one.run.number] == pytest.approx(149 * quiet - 0.5)
    # A block overdue takes no more off than the block.
    assert left(runs, now + 60)[one.run.number] == pytest.approx(124 * quiet)


def test_before_a_quiet_iteration_the_estimate_stands_in(store: Store) -> None:
    runs, one, now = inferring(store, "compile", blocks=1)
    assert quiet_seconds(one) is None
    expected = expected_seconds(runs)[one.run.number]
    assert one.run.started_at
    assert left(runs, now)[one.run.number] == pytest.approx(
        max(0.0, expected - (now - one.run.started_at))
    )


def test_a_replay_of_inference_goes_block_by_block(store: Store) -> None:
    experiment = planted_experiment(
        store, models=("resnet18",), machine="CPU", batch_sizes=(1,), repeats=1,
        variants=(Variant(), Variant(execution="export_aot")), iterations=60,
        workload={"task": "infer"},
    )  # fmt: skip
    runs = measured(store, experiment)
    exported = runs[1]
    first, second, third, *_ = exported.epochs
    assert exported.run.started_at
    early = as_of(runs, exported.run.started_at + 4)[1]
    assert words(early, exported.run.started_at + 4)["exporting, 4 s so far"] == "compiling"
    later = as_of(runs, third.started_at + 0.01)[1]
    assert later.epochs == (first, second)
    assert words(later, third.started_at + 0.01)["iteration 27 of 60"] == "now"
    assert "exported in 41.0 s" in words(later, third.started_at + 0.01)


# Arms that take turns


def taking_turns(store: Store, **planted) -> list[Measured]:
    """One pair ended; in the second eager rests after 4 of 10 epochs and compile has its turn."""
    experiment = planted_experiment(
        store, protocol="paired", repeats=12, measured=2, ended_ago_seconds=900, **planted
    )
    for phase in ("epoch", "waiting"):  # B goes before A in every second pair
        run = plant_run(store, experiment.id, epochs=4, status="running")
        store.set_phase(run.number, phase, 4 + (phase == "epoch"))
    return measured(store, experiment)


def test_an_arm_at_rest_says_so_and_is_told_from_a_machine_that_is_taken(store: Store) -> None:
    runs = taking_turns(store)
    now = runs[2].run.phase_since or 0.0
    assert words(runs[2], now)["epoch 5 of 10"] == "now"
    assert words(runs[3], now)["epoch 5 of 10, waiting for its turn"] == "to come"
    fresh = replace(runs[3].run, phase_epoch=0, prepared=None, activity=None)
    standing = words(measure(fresh, []), now)
    assert next(iter(standing)) == "environment, waiting for its turn"
    whole = replace(runs[3].run, phase_epoch=10)
    standing = words(measure(whole, store.epochs([1])[1]), now)
    assert standing["after timing, waiting for its turn"] == "to come"


def test_pairs_are_counted_and_runs_where_there_are_none(store: Store) -> None:
    runs = [one.run for one in taking_turns(store)]
    assert place_text(runs, runs[3]) == "Pair 2 of 12"
    alone = replace(runs[3], protocol_note="two processes do not fit")
    assert place_text(runs, alone) == "Run 4 of 24"


def test_until_sure_counts_are_the_most_there_can_be(store: Store) -> None:
    runs = [one.run for one in taking_turns(store, until_sure=2.0)]
    assert place_text(runs, runs[3]) == "Pair 2 of at most 12"


def test_the_time_of_a_pair_is_counted_once(store: Store) -> None:
    runs = taking_turns(store)
    first = [replace(one.run, started_at=100.0, ended_at=ended) for one, ended in
             zip(runs[:2], (160.0, 170.0), strict=True)]  # fmt: skip
    assert measuring_seconds(first, now=500.0) == 70.0
    pair = [replace(one, run=run) for one, run in zip(runs[:2], first, strict=True)]
    expected = expected_seconds([*pair, *runs[2:]])
    # Compile of pair 2 is warm, of another kind than the cold start of pair 1.
    assert expected[runs[3].run.number] == 30.0, "half of what the pair took with eager in it"
    now = (runs[2].run.phase_since or 0.0) + 5
    at_work, at_rest = (left(runs, now)[runs[n].run.number] for n in (2, 3))
    quiet = quiet_seconds(runs[2])
    assert quiet is not None
    assert at_work == pytest.approx(6 * quiet - 5, rel=0.01)
    assert at_rest == pytest.approx(6 * (quiet_seconds(runs[3]) or 0.0), rel=0.01)


def test_a_replay_shows_who_had_the_turn(store: Store) -> None:
    planted_experiment(store, protocol="paired", repeats=1)
    first, second = (measure(run, store.epochs([run.number])[run.number]) for run in store.runs())
    start = first.epochs[0].started_at
    # Compile ran between eager's first epoch and its second.
    gap = [epoch.changed(started_at=start + 400.0 * n) for n, epoch in enumerate(first.epochs)]
    [then] = as_of([measure(replace(first.run, ended_at=start + 9000), gap)], start + 200)
    assert then.run.waits_for_its_turn
    assert then.run.phase_epoch == 1
