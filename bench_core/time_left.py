"""How long an experiment takes yet. Pure: what was stored and a time of day in, seconds out.

The time left comes from steady epochs or iterations: warm-up and compiling would make every
forecast too long.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bench_core.estimates import known_run, seconds_of_runs
from bench_core.events import Epoch
from bench_core.measured import FIRST_ITERATIONS, Measured
from bench_core.run import ENDED, Run
from bench_core.spec import RunSpec

# Enough epochs (or blocks) for a median, few enough to follow a machine that grows slower.
LATEST_EPOCHS = 10


def expected_seconds(measured: Sequence[Measured]) -> dict[int, float]:
    """Seconds that each run of an experiment takes in all, by its number, as far as can be told.

    From an earlier run of the same kind, else from what ended runs teach the estimate. Of runs that
    take turns each has its share of their time. Give all runs in their order. Changes only when a
    run ends.
    """
    known = [
        lesson
        for one in measured
        if one.run.status in ENDED and (lesson := known_run(one.run, one.epochs))
    ]
    guesses = seconds_of_runs([one.run.spec for one in measured], known)
    expected: dict[int, float] = {}
    lasted: dict[object, float] = {}
    turns = Counter(one.run.round for one in measured if one.run.round)
    for one, guess in zip(measured, guesses, strict=True):
        run = one.run
        kind = (_arm(run.spec), run.spec.variant.cache, run.spec.is_done_after)
        expected[run.number] = lasted.get(kind, guess)
        if run.status == "done" and run.started_at and run.ended_at:
            arms = turns[run.round] if run.round else 1
            lasted[kind] = (run.ended_at - run.started_at) / arms
    return expected


def seconds_left(
    measured: Sequence[Measured], expected: Mapping[int, float], now: float
) -> dict[int, float]:
    """Seconds that each queued or running run of an experiment still needs, by its number.

    As if each had the machine to itself: those before a run add up to the time until it starts.
    `expected` is `expected_seconds` of the same runs.
    """
    usual_seconds: dict[object, float] = {}
    left: dict[int, float] = {}
    turns = sum(one.run.status == "running" for one in measured)
    for one in measured:
        run = one.run
        quiet = quiet_seconds(one)
        if run.status == "queued":
            left[run.number] = expected[run.number]
        elif run.status == "running":
            usual = quiet or usual_seconds.get(_arm(run.spec))
            elapsed = (now - (run.started_at or now)) / turns
            unspent = max(expected[run.number] - elapsed, 0.0)
            left[run.number] = _running_left(one, unspent, quiet, usual, now)
        if quiet:
            usual_seconds[_arm(run.spec)] = quiet
    return left


def _running_left(
    one: Measured, unspent: float, quiet: float | None, usual: float | None, now: float
) -> float:
    run, limit = one.run, one.run.spec.measurement.max_seconds
    to_come = max(0, run.spec.is_done_after - len(one.series_seconds))
    if usual is None:
        return unspent
    # What is told in one piece: an epoch, or the iterations of a block.
    piece = min(to_come, 1 if one.unit == "epoch" or not one.epochs else _calls(one.epochs[-1]))
    in_this_piece = now - run.phase_since if run.phase == "epoch" and run.phase_since else 0.0
    left = to_come * usual - min(in_this_piece, piece * usual)
    if quiet is None:  # start-up is still ahead
        left = max(left, unspent)
    if limit and one.epochs:
        left = min(left, limit - in_this_piece - sum(map(whole_seconds, one.epochs)))
    return max(left, 0.0)


def quiet_seconds(one: Measured) -> float | None:
    """Median of the latest epochs after the first one in which nothing was compiled.

    With their evaluation: who waits, waits for it too. In inference seconds of an iteration, from
    the latest blocks after the first iterations, with the wait for its input.
    """
    if one.unit == "epoch":
        quiet = [whole_seconds(epoch) for epoch in one.epochs[1:] if not epoch.compile_seconds]
    else:
        done, quiet = 0, []
        for block in one.epochs:
            done += _calls(block)
            if done > FIRST_ITERATIONS and not block.compile_seconds:
                quiet.append(block.wall_seconds / _calls(block))
    return statistics.median(quiet[-LATEST_EPOCHS:]) if quiet else None


def _calls(block: Epoch) -> int:
    return len(block.step_seconds)


def whole_seconds(epoch: Epoch) -> float:
    """Of an epoch with its evaluation."""
    return epoch.wall_seconds + (epoch.evaluation_seconds or 0.0)


def share_done(measured: Sequence[Measured], left: Mapping[int, float], now: float) -> float:
    """How much of the experiment's time is over, 0 to 1."""
    spent = measuring_seconds([one.run for one in measured], now)
    whole = spent + sum(left.values())
    return min(1.0, max(0.0, spent / whole)) if whole > 0 else 1.0


def measuring_seconds(runs: Sequence[Run], now: float) -> float:
    """Seconds in which at least one of the runs was measured, up to `now`."""
    begun = [replace(run, ended_at=run.ended_at or now) for run in runs if run.started_at]
    return sum(end - start for start, end in busy_spans(begun))


def busy_spans(runs: Sequence[Run]) -> list[tuple[float, float]]:
    """Spans in which at least one run was measured, in order."""
    spans: list[tuple[float, float]] = []
    for start, end in sorted(
        (run.started_at, run.ended_at) for run in runs if run.started_at and run.ended_at
    ):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def _arm(spec: RunSpec) -> object:
    return spec.workload, spec.device, spec.variant.name
