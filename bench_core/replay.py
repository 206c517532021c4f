"""An experiment as it stood at an earlier moment, from the stored clocks of its epochs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench_core.events import Epoch
from bench_core.measured import Measured, measure
from bench_core.run import Run
from bench_core.time_left import busy_spans, whole_seconds


def moment_after(runs: Sequence[Run], seconds: float) -> float | None:
    """The time of day after `seconds` of measuring; waits between runs do not count.

    None once all of it is over.
    """
    for start, end in busy_spans(runs):
        if seconds < end - start:
            return start + seconds
        seconds -= end - start
    return None


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
    return epoch.started_at + whole_seconds(epoch)
