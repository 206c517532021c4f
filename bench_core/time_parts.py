"""Where the time of an arm goes, and how much faster compile can make it at most.

Seconds of a mean epoch, in inference of a mean iteration. Ceilings are estimates: they take it that
compiled code leaves convolutions and matrix products to the same library kernels (measured: 77 to
80 % of a ResNet's step at 224 px), and the optimiser, which is outside the compiled module, as it
is. Other memory layouts and fused kernels can beat that. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from bench_core.events import Epoch
from bench_core.measured import Arm, Measured, cache_found

# Kinds of work in a profiled step that compile leaves to the same kernels.
LIBRARY = ("convolution", "matmul")
UNTOUCHED = (*LIBRARY, "optimizer")
# What no operator takes: Python and the framework between them, on a GPU its wait for the host.
BETWEEN = "between operators"


@dataclass(frozen=True)
class Parts:
    """Seconds of a mean epoch or iteration.

    `steps`, `data_wait` and `evaluation` (None: there was none) are those of the steady state.
    `compiling` is what went into compiling, exporting or tracing from the start that the arm shows,
    spread over the `count` epochs (iterations) measured.
    """

    steps: float
    data_wait: float
    evaluation: float | None
    compiling: float
    count: int

    @property
    def epoch(self) -> float:
        """Without evaluation and compiling: the steady state, as a mean."""
        return self.steps + self.data_wait


def parts(arm: Arm) -> Parts:
    """Needs a run with a steady state. With the single steps of training a GPU's wait is known."""
    steady = [_steady_parts(one) for one in arm.runs]
    evaluations = [seconds for _, _, seconds in steady if seconds is not None]
    shown = [one for one in arm.runs if arm.start_shown in (None, cache_found(one.run))]
    return Parts(
        steps=fmean(seconds for seconds, _, _ in steady),
        data_wait=fmean(seconds for _, seconds, _ in steady),
        evaluation=fmean(evaluations) if evaluations else None,
        compiling=fmean(compiling_seconds(one) / _count(one) for one in shown),
        count=max(_count(one) for one in shown),
    )


def compiling_seconds(one: Measured) -> float:
    """All of a run, with what preceded its first call: exporting, tracing, freezing."""
    return math.fsum(one.series_compile_seconds) + one.execution_seconds


def _count(one: Measured) -> int:
    return len(one.series_seconds)


def _steady_parts(one: Measured) -> tuple[float, float, float | None]:
    if one.unit == "iteration":
        count = sum(len(block.step_seconds) for block in one.epochs)
        waits = math.fsum(block.data_wait_seconds for block in one.epochs)
        return fmean(one.steady_seconds), waits / count, None
    epochs = one.epochs[one.steady.first :]
    waiting = [_wait(epoch, one.run.spec.device) for epoch in epochs]
    evaluations = [e.evaluation_seconds for e in epochs if e.evaluation_seconds is not None]
    return (
        fmean(epoch.wall_seconds - wait for epoch, wait in zip(epochs, waiting, strict=True)),
        fmean(waiting),
        fmean(evaluations) if evaluations else None,
    )


def _wait(epoch: Epoch, device: str) -> float:
    """Seconds in which the device waited for data.

    The host's wait overlaps with a GPU's work: what is left beside its steps is the GPU's own.
    """
    if device == "cpu" or not epoch.step_seconds:
        return min(epoch.data_wait_seconds, epoch.wall_seconds)
    return max(0.0, epoch.wall_seconds - math.fsum(epoch.step_seconds))


# Inside a step


def step_shares(arm: Arm) -> dict[str, float] | None:
    """Parts of an arm's step by kind of work, summing to 1; None where no run was profiled.

    BETWEEN is what the step takes beyond the device's own work: it waits to be told.
    """
    profiled = [m.run.aftermath for m in arm.runs if m.run.aftermath and m.run.aftermath.shares]
    if not profiled:
        return None
    shares = {
        kind: fmean((after.shares or {}).get(kind, 0.0) for after in profiled)
        for kind in profiled[0].shares or {}
    }
    busy = busy_share(arm)
    if busy is None:
        return shares
    return {**{kind: busy * share for kind, share in shares.items()}, BETWEEN: 1 - busy}


def busy_share(arm: Arm) -> float | None:
    """Part of a step in which the device works: a GPU's kernels, a CPU's operators.

    By an unwatched step: watching makes the pauses longer, and a GPU's kernels not. None where
    nothing was profiled.
    """
    found = [m.run.aftermath.device_busy_seconds for m in arm.runs if m.run.aftermath]
    busy = [seconds for seconds in found if seconds]
    if not busy:
        return None
    return min(1.0, fmean(busy) / (parts(arm).steps / steps_in(arm)))


def steps_in(arm: Arm) -> int:
    """Steps in what `parts` is of."""
    work = arm.runs[0].run.spec.workload
    return work.steps_per_epoch if work.task == "train" else 1


# Ceilings


@dataclass(frozen=True)
class Ceilings:
    """At most so many times faster than the arm; None where nothing is known that would limit it.

    `step`: a step whose touchable part costs nothing. `data`: an epoch whose steps cost nothing.
    `epoch`: one whose touchable part of the steps costs nothing. `touchable` is that part.
    """

    touchable: float | None
    step: float | None
    data: float | None
    epoch: float | None


def ceilings(arm: Arm) -> Ceilings:
    """Of the arm that compile is held against: eager's, since only eager is profiled."""
    split, work = parts(arm), arm.runs[0].run.spec.workload
    shares = step_shares(arm)
    kept = None if shares is None else sum(shares.get(kind, 0.0) for kind in UNTOUCHED)
    loading = loader_seconds(arm)
    # Amdahl 1967. On a CPU a loader without workers and the steps take turns; else they overlap.
    left = [0.0 if kept is None else kept * split.steps, loading or 0.0]
    one_after_the_other = work.loader_workers == 0 and arm.runs[0].run.spec.device == "cpu"
    fastest = sum(left) if one_after_the_other else max(left)
    whole = split.epoch if work.task == "train" else split.steps
    return Ceilings(
        touchable=None if kept is None else 1 - kept,
        step=1 / kept if kept else None,
        data=max(1.0, whole / loading) if loading else None,
        epoch=max(1.0, whole / fastest) if fastest else None,
    )


def loader_seconds(arm: Arm) -> float | None:
    """What an epoch needs for its data, however fast the model is.

    Without loader workers the wait itself, for nobody loads meanwhile. With workers it is the
    loader alone: they load during the steps, so that the wait is much less than the loading takes.
    Latencies of inference hold no loading.
    """
    if arm.runs[0].unit == "iteration":
        return None
    if arm.runs[0].run.spec.workload.loader_workers == 0:
        return fmean(
            epoch.data_wait_seconds for one in arm.runs for epoch in one.epochs[one.steady.first :]
        )
    return _mean(
        m.run.aftermath.loader_only_seconds
        for m in arm.runs
        if m.run.aftermath and m.run.aftermath.loader_only_seconds
    )


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None
