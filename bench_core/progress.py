"""How far an experiment is: the phases of a run, the time left, and how it stood at some moment.

Pure: what was stored and a time of day in, words and seconds out. The time left comes from steady
epochs or iterations: warm-up and compiling would make every forecast too long.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from bench_core.estimates import known_run, seconds_of_runs
from bench_core.events import Epoch
from bench_core.measured import FIRST_ITERATIONS, Measured, measure
from bench_core.run import ENDED, Run
from bench_core.spec import COMPILES, Execution, RunSpec
from bench_core.units import NO_BREAK, counted, duration_text, seconds_text

Standing = Literal["done", "now", "compiling", "to come", "failed"]
# Enough epochs (or blocks) for a median, few enough to follow a machine that grows slower.
LATEST_EPOCHS = 10
# What is made before the first call: to do it, doing it, and done.
MADE: dict[Execution, tuple[str, str, str]] = {
    "export_aot": ("export", "exporting", "exported"),
    "jit_trace_frozen": ("trace and freeze", "tracing and freezing", "traced and frozen"),
    "onednn_graph": ("trace and freeze", "tracing and freezing", "traced and frozen"),
}


class Phase(NamedTuple):
    """A part of a run in words, and where it stands."""

    text: str
    standing: Standing


def phases(measured: Measured, now: float) -> list[Phase]:
    """The parts of a run in the order in which they happen, each with its standing at `now`."""
    if measured.run.waits_for_its_turn:
        return [
            Phase(f"{part.text}, waiting for its turn", "to come")
            if part.standing == "now"
            else part
            for part in phases(_at_its_turn(measured), now)
        ]
    run, ended = measured.run, measured.run.status in ENDED
    phase = run.phase or "starting"
    parts = [
        _environment(run, phase),
        _data(run, phase),
        *_making(run, phase, now),
        *_priming(run, phase, now),
        *_compiling(measured, phase, now),
        *_first_call(measured, phase),
        _warm_up(measured, phase),
        _series(measured, phase),
        Phase("after timing", "now" if phase == "after timing" else "to come"),
    ]
    if run.status == "queued":
        return [Phase(part.text, "to come") for part in parts]
    if run.status == "done":
        return [part._replace(standing="done") for part in parts]
    if ended:
        word = f"failed: {run.failure}" if run.status == "failed" else run.status
        reached = [part for part in parts if part.standing == "done"]
        return [*reached, Phase(word, "failed" if run.status == "failed" else "to come")]
    return parts


def _at_its_turn(measured: Measured) -> Measured:
    """As it will stand when its turn has come."""
    run = measured.run
    if not run.phase_epoch:
        return replace(measured, run=replace(run, phase="starting", phase_epoch=None))
    left = len(measured.series_seconds) < run.spec.is_done_after
    turn = replace(run, phase="epoch" if left else "after timing", phase_epoch=run.phase_epoch + 1)
    return replace(measured, run=turn)


def _environment(run: Run, phase: str) -> Phase:
    if phase == "waiting":
        return Phase("waiting for another measurement on this machine", "now")
    if phase in ("starting", "environment"):
        return Phase("environment", "now")
    return Phase("environment", "done")


def _data(run: Run, phase: str) -> Phase:
    if phase == "data" and run.spec.variant.execution in MADE:
        return Phase("data", "done")  # ready in no time; what takes it comes next
    if phase in ("data", "model"):
        return Phase(phase, "now")
    return Phase("data", "to come" if phase in ("starting", "waiting", "environment") else "done")


def _making(run: Run, phase: str, now: float) -> list[Phase]:
    if run.spec.variant.execution not in MADE:
        return []
    to_do, doing, done = MADE[run.spec.variant.execution]
    if run.prepared:
        return [Phase(f"{done} in {seconds_text(run.prepared.execution_seconds)}", "done")]
    if phase == "data":
        since = run.phase_since or now
        return [Phase(f"{doing}, {clock_text(now - since)} so far", "compiling")]
    return [Phase(to_do, "to come")]


def _priming(run: Run, phase: str, now: float) -> list[Phase]:
    if phase == "priming":
        since = run.compiling_since or run.phase_since or now
        standing: Standing = "compiling" if run.compiling_since else "now"
        return [Phase(f"filling the cache, {clock_text(now - since)} so far", standing)]
    if run.priming_seconds is not None:
        return [Phase(f"cache filled in {seconds_text(run.priming_seconds)}", "done")]
    return []


def _compiling(measured: Measured, phase: str, now: float) -> list[Phase]:
    run = measured.run
    variant = run.spec.variant
    if variant.execution not in COMPILES or variant.disable:
        return []
    seconds = measured.compile_seconds
    if run.compiling_since and phase != "priming":
        again = "compiling again" if measured.epochs and seconds else "compiling"
        return [Phase(f"{again}, {clock_text(now - run.compiling_since)} so far", "compiling")]
    if seconds:
        return [Phase(f"compiled in {seconds_text(seconds)}", "done")]
    if measured.epochs:
        return [Phase("compiled nothing", "done")]
    return [Phase("compile", "now" if phase == "epoch" else "to come")]


def _first_call(measured: Measured, phase: str) -> list[Phase]:
    run = measured.run
    if run.spec.workload.task == "train":
        return []
    if measured.series_seconds:
        return [Phase(f"first call: {seconds_text(measured.series_seconds[0])}", "done")]
    calling = phase == "epoch" and not run.compiling_since
    return [Phase("first call", "now" if calling else "to come")]


def _warm_up(measured: Measured, phase: str) -> Phase:
    run = measured.run
    first = measured.steady.first
    if first is not None:
        return Phase(f"warm-up: {counted(first, measured.unit)}", "done")
    if phase != "epoch" or (measured.unit == "iteration" and not measured.epochs):
        return Phase("warm-up", "to come")
    return Phase(f"warm-up, {_place(measured)}", "to come" if run.compiling_since else "now")


def _series(measured: Measured, phase: str) -> Phase:
    run, unit = measured.run, measured.unit
    done = Phase(counted(len(measured.series_seconds), unit), "done")
    if phase == "after timing" or run.status == "done":
        return done
    if phase == "epoch" and measured.steady.first is not None:
        return Phase(_place(measured), "to come" if run.compiling_since else "now")
    if run.status in ENDED and measured.epochs:
        return done
    return Phase(counted(run.spec.is_done_after, unit), "to come")


def _place(measured: Measured) -> str:
    """`epoch 4 of 10`, `iteration 51 of 200`: the one that is measured now, or next."""
    run = measured.run
    number = run.phase_epoch if measured.unit == "epoch" else len(measured.series_seconds) + 1
    return f"{measured.unit} {number} of {run.spec.is_done_after}"


def clock_text(seconds: float) -> str:
    """Whole seconds, for words that are drawn once a second: `42 s`, `2 min 5 s`."""
    whole = max(0, round(seconds))
    return duration_text(whole) if whole > 120 else f"{whole}{NO_BREAK}s"


def place_text(runs: Sequence[Run], running: Run) -> str:
    """`Run 2 of 4`, `Pair 3 of at most 12`: which of the experiment's runs this one is."""
    measurement = running.spec.measurement
    bound = "at most " if measurement.until_sure else ""
    if measurement.protocol == "sequential" or running.protocol_note:
        place = [run.number for run in runs].index(running.number) + 1
        return f"Run {place} of {bound}{len(runs)}"
    rounds = [(run.cell, run.spec.measurement.repeat) for run in runs]
    one = (running.cell, measurement.repeat)
    word = "Pair" if rounds.count(one) == 2 else "Round"
    every = list(dict.fromkeys(rounds))
    return f"{word} {every.index(one) + 1} of {bound}{len(every)}"


# The time left


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
        left = min(left, limit - in_this_piece - sum(map(_whole_seconds, one.epochs)))
    return max(left, 0.0)


def quiet_seconds(one: Measured) -> float | None:
    """Median of the latest epochs after the first one in which nothing was compiled.

    With their evaluation: who waits, waits for it too. In inference seconds of an iteration, from
    the latest blocks after the first iterations, with the wait for its input.
    """
    if one.unit == "epoch":
        quiet = [_whole_seconds(epoch) for epoch in one.epochs[1:] if not epoch.compile_seconds]
    else:
        done, quiet = 0, []
        for block in one.epochs:
            done += _calls(block)
            if done > FIRST_ITERATIONS and not block.compile_seconds:
                quiet.append(block.wall_seconds / _calls(block))
    return statistics.median(quiet[-LATEST_EPOCHS:]) if quiet else None


def _calls(block: Epoch) -> int:
    return len(block.step_seconds)


def _whole_seconds(epoch: Epoch) -> float:
    return epoch.wall_seconds + (epoch.evaluation_seconds or 0.0)


def share_done(measured: Sequence[Measured], left: Mapping[int, float], now: float) -> float:
    """How much of the experiment's time is over, 0 to 1."""
    spent = measuring_seconds([one.run for one in measured], now)
    whole = spent + sum(left.values())
    return min(1.0, max(0.0, spent / whole)) if whole > 0 else 1.0


def measuring_seconds(runs: Sequence[Run], now: float) -> float:
    """Seconds in which at least one of the runs was measured, up to `now`."""
    begun = [replace(run, ended_at=run.ended_at or now) for run in runs if run.started_at]
    return sum(end - start for start, end in _busy(begun))


def _arm(spec: RunSpec) -> object:
    return spec.workload, spec.device, spec.variant.name


# An earlier moment


def moment_after(runs: Sequence[Run], seconds: float) -> float | None:
    """The time of day after `seconds` of measuring; waits between runs do not count.

    None once all of it is over.
    """
    for start, end in _busy(runs):
        if seconds < end - start:
            return start + seconds
        seconds -= end - start
    return None


def _busy(runs: Sequence[Run]) -> list[tuple[float, float]]:
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


def as_of(measured: Sequence[Measured], moment: float) -> list[Measured]:
    """The runs as they stood at an earlier moment, from the stored clocks of their epochs."""
    return [_one_as_of(one, moment) for one in measured]


def _one_as_of(one: Measured, moment: float) -> Measured:
    run = one.run
    if run.ended_at is not None and run.ended_at <= moment:
        return one
    bare = replace(
        run,
        ended_at=None,
        failure=None,
        reason=None,
        traceback=None,
        activity=None,
        aftermath=None,
        compiling_since=None,
    )
    if run.started_at is None or run.started_at > moment:
        return measure(replace(bare, status="queued", started_at=None, environment=None), [])
    seen = [epoch for epoch in one.epochs if _end(epoch) <= moment]
    running = replace(bare, status="running")
    if len(seen) < len(one.epochs):
        running = _in_epoch(running, one.epochs[len(seen)], moment)
    elif seen:
        running = replace(running, phase="after timing", phase_since=_end(seen[-1]))
    else:
        running = replace(running, phase="environment", phase_since=run.started_at)
    return measure(running, seen)


def _in_epoch(run: Run, epoch: Epoch, moment: float) -> Run:
    if moment < epoch.started_at and run.round and epoch.epoch > 1:
        return replace(run, phase="waiting", phase_epoch=epoch.epoch - 1, phase_since=moment)
    if moment < epoch.started_at:
        phase = "priming" if run.priming_seconds and epoch.epoch == 1 else "data"
        return replace(
            run, phase=phase, phase_since=run.started_at, priming_seconds=None, prepared=None
        )
    since = None
    for window in epoch.compile_windows:
        begin = epoch.started_at + window.offset_seconds
        if begin <= moment < begin + window.seconds:
            since = begin
    return replace(
        run,
        phase="epoch",
        phase_epoch=epoch.epoch,
        phase_since=epoch.started_at,
        compiling_since=since,
    )


def _end(epoch: Epoch) -> float:
    return epoch.started_at + _whole_seconds(epoch)
