"""What a run compiled after its first step, and what that did to its steps. Pure.

Needs the single steps of training runs (`store.epochs(numbers, steps=True)`) for places and levels.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from bench_core import stats
from bench_core.comparison import SCATTER
from bench_core.events import covered
from bench_core.measured import FIRST_ITERATIONS, Measured

# Steps that a level of speed can be told from, and those before it in which a device settles.
FEWEST_STEPS = 3
SETTLING_STEPS = 3


@dataclass(frozen=True)
class Recompile:
    """A stay in the compiler after the first steps. `step` counts from 0, None where unknown."""

    epoch: int
    step: int | None
    seconds: float


def recompiles(one: Measured) -> list[Recompile]:
    """What a run compiled after its first step (in inference its first calls), in order.

    Windows of one step are one recompile; those that overlap count once. Without single steps the
    first epoch's windows are all taken for the first compile.
    """
    found: dict[tuple[int, int | None], list[tuple[float, float]]] = {}
    done = 0
    for epoch in one.epochs:
        ends = list(accumulate(epoch.step_seconds))
        pause = epoch.data_wait_seconds / len(ends) if ends else 0.0
        ends = [end + pause * (index + 1) for index, end in enumerate(ends)]
        for window in epoch.compile_windows:
            if window.trigger == "CUDAGRAPH_RECORDING":
                continue
            middle = window.offset_seconds + window.seconds / 2
            step = min(bisect_left(ends, middle), len(ends) - 1) if ends else None
            if one.unit == "iteration":
                step = window.iteration or 0
                first = done + step < FIRST_ITERATIONS
            else:
                first = epoch.epoch == 1 and not step
            if not first:
                stretch = (window.offset_seconds, window.offset_seconds + window.seconds)
                found.setdefault((epoch.epoch, step), []).append(stretch)
        done += len(epoch.step_seconds)
    return [Recompile(epoch, step, covered(at)) for (epoch, step), at in found.items()]


@dataclass(frozen=True)
class Level:
    """Seconds of a full batch's step before and after a recompile, and the band of their ratio."""

    before: float
    after: float
    band: stats.Band

    @property
    def changed(self) -> bool:
        ratio = self.after / self.before
        return not self.band.low <= 1 <= self.band.high and abs(math.log(ratio)) > SCATTER


def level_of_full_batches(one: Measured) -> Level | None:
    """The step's level before and after the first ragged batch, from the run's own steps.

    Without the first SETTLING_STEPS: kernels are chosen and clocks rise in them. None: too few
    steps before it, or single steps are not known.
    """
    full = one.run.spec.workload.samples // one.run.spec.workload.batch_size
    busy = {(late.epoch, late.step) for late in recompiles(one)}
    levels: tuple[list[float], list[float]] = ([], [])
    for epoch in one.epochs:
        for step, seconds in enumerate(epoch.step_seconds[:full]):
            settling = epoch.epoch == 1 and step < SETTLING_STEPS
            if not settling and (epoch.epoch, step) not in busy:
                levels[epoch.epoch > 1].append(seconds)
    before, after = levels
    if min(len(before), len(after)) < FEWEST_STEPS:
        return None
    return Level(median(before), median(after), stats.first_look_band(after, before))
