"""How far a run is: its phases, and its place among those of its experiment. Pure: words out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from bench_core.measured import Measured
from bench_core.run import ENDED, Run
from bench_core.spec import COMPILES, Execution
from bench_core.units import NO_BREAK, counted, duration_text, seconds_text

Standing = Literal["done", "now", "compiling", "to come", "failed"]
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
