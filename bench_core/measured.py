"""What can be said of one run, and of an arm: the runs of one variant. No ratio is formed here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import chain
from pathlib import Path
from statistics import fmean

import numpy as np

from bench_core import epoch_columns, stats
from bench_core.epoch_columns import EpochColumns, column, numbers
from bench_core.events import Epoch, Finding, Parity
from bench_core.run import Run
from bench_core.spec import Cache, Variant
from bench_core.units import value_text

# Whatever computes Derived: what an older version of it computed is not shown.
COMPUTING = (__file__, stats.__file__, epoch_columns.__file__)
FORMULA = sha256(b"".join(Path(one).read_bytes() for one in COMPUTING)).hexdigest()
# Warm-up of an inference run by the book: what fuses at run time settles within three calls.
FIRST_ITERATIONS = 3
# Those that are shown, with the steady iterations of a run below which each is only the slowest
# call or two.
PERCENTILES = {50: 1, 90: 10, 99: 100}
# Single calls are hit by other programs more often than epochs: fewer make no new level.
SHORTEST_LEVEL = 6
# Parity's verdicts, the worst last.
WORSE = ("same", "closer to fp64 than eager", "not checked", "differs")


@dataclass(frozen=True, slots=True)
class Derived:
    """What a list says of a run, computed from its epochs. Seconds and bytes.

    `epochs` are its rows, `count` counts epochs, or in inference iterations. `first_seconds` is
    what the first one took, with what came before it. `tested`: there was testing after an epoch;
    the seconds hold it where it was asked for.
    """

    steady: stats.SteadyState
    excess_seconds: float | None
    epochs: int = 0
    count: int = 0
    first_seconds: float | None = None
    compile_seconds: float = 0.0
    peak_memory_bytes: int | None = None
    tested: bool = False


@dataclass(frozen=True)
class Measured:
    """A run with its epochs and what can be said of it alone. Seconds.

    `steady` is that of the series: of epochs in training, of single iterations in inference, where
    an epoch is a block of them. `excess_seconds` holds what was spent before the first iteration
    on tracing, freezing or exporting too. With `evaluation` the testing after each epoch counts.

    `epochs` of a stored run are read when somebody looks at one, or at a series; how many there are
    and whatever is derived from them is known without.
    """

    run: Run
    epochs: Sequence[Epoch]
    derived: Derived
    evaluation: bool = False

    @property
    def steady(self) -> stats.SteadyState:
        return self.derived.steady

    @property
    def steady_from(self) -> int | None:
        """Its first epoch or iteration, counted from 1. A stated time is that of none."""
        first = self.steady.first
        return None if first is None or not self.steady.count else first + 1

    @property
    def excess_seconds(self) -> float | None:
        return self.derived.excess_seconds

    @property
    def begun(self) -> bool:
        """Whether there is anything of it: an epoch, or what its source states in their place."""
        return bool(self.epochs) or self.run.stated is not None

    @property
    def unit(self) -> str:
        return self.run.spec.workload.unit

    @property
    def count(self) -> int:
        """Epochs, or in inference iterations."""
        return self.derived.count

    @cached_property
    def series_seconds(self) -> list[float]:
        """Wall seconds of each epoch, or latency of each iteration."""
        return _series(self.run, self.epochs, self.evaluation).tolist()

    @cached_property
    def series_compile_seconds(self) -> list[float]:
        """Seconds inside the compiler in each epoch or iteration."""
        return _series_compile(self.run, self.epochs, self.evaluation).tolist()

    @property
    def steady_seconds(self) -> list[float]:
        """The series from its steady state on; empty without one."""
        return [] if self.steady.first is None else self.series_seconds[self.steady.first :]

    @property
    def first_seconds(self) -> float | None:
        """The first epoch; in inference the wait for the first answer, tracing included."""
        return self.derived.first_seconds

    @property
    def execution_seconds(self) -> float:
        return _execution_seconds(self.run)

    @property
    def compile_seconds(self) -> float:
        return self.derived.compile_seconds

    @property
    def peak_memory_bytes(self) -> int | None:
        return self.derived.peak_memory_bytes


def measure(run: Run, epochs: Sequence[Epoch], evaluation: bool = False) -> Measured:
    """Find the run's steady state. A run without an epoch has none, and the reason.

    `evaluation`: count the testing after each epoch too, as the article did; else it is left out.
    A run whose source states its steady seconds has those, without single times.
    """
    return measure_all([(run, epochs)], evaluation)[0]


def measure_all(
    runs: Iterable[tuple[Run, Sequence[Epoch]]], evaluation: bool = False
) -> list[Measured]:
    """`measure` for many runs at once, which takes a tenth of the time for each."""
    found = []
    several: list[tuple[Run, Sequence[Epoch], stats.Series]] = []
    for run, read in runs:
        epochs = read if isinstance(read, EpochColumns) else tuple(read)
        one_by_one = run.spec.workload.unit == "iteration"
        if epochs:
            series = stats.Series(
                _series(run, epochs, evaluation),
                _series_compile(run, epochs, evaluation),
                skip=FIRST_ITERATIONS if one_by_one else 1,
                shortest=SHORTEST_LEVEL if one_by_one else 3,
                unit=run.spec.workload.unit,
            )
            several.append((run, epochs, series))
        found.append(None if epochs else Measured(run, (), _without_epochs(run), evaluation))
    steady = stats.steady_states([series for _, _, series in several])
    measured = (
        Measured(run, epochs, _derived(run, epochs, series, state), evaluation)
        for (run, epochs, series), state in zip(several, steady, strict=True)
    )
    return [one or next(measured) for one in found]


def _without_epochs(run: Run) -> Derived:
    stated = run.stated
    if stated:
        steady = stats.SteadyState(0, stated.steady_seconds, None, 0, None)
        return Derived(steady, stated.start_seconds, peak_memory_bytes=stated.peak_memory_bytes)
    reason = f"No {run.spec.workload.unit} was measured."
    return Derived(stats.SteadyState(None, None, None, 0, reason), None)


def _derived(
    run: Run, epochs: Sequence[Epoch], series: stats.Series, steady: stats.SteadyState
) -> Derived:
    before = _execution_seconds(run)
    excess = None
    if steady.first is not None:
        excess = stats.startup_excess(series.seconds, steady) + before
    peaks = numbers(epochs, "peak_memory_bytes")
    peaks = peaks[~np.isnan(peaks)]
    return Derived(
        steady,
        excess,
        epochs=len(epochs),
        count=len(series.seconds),
        first_seconds=float(series.seconds[0]) + before if len(series.seconds) else None,
        compile_seconds=math.fsum(numbers(epochs, "compile_seconds")),
        peak_memory_bytes=int(peaks.max()) if len(peaks) else None,
        tested=bool(np.nan_to_num(numbers(epochs, "evaluation_seconds")).any()),
    )


def _series(run: Run, epochs: Sequence[Epoch], evaluation: bool) -> np.ndarray:
    if run.spec.workload.unit == "iteration":
        return np.array([*chain.from_iterable(column(epochs, "step_seconds"))])
    seconds = numbers(epochs, "wall_seconds")
    return seconds + np.nan_to_num(numbers(epochs, "evaluation_seconds")) if evaluation else seconds


def _series_compile(run: Run, epochs: Sequence[Epoch], evaluation: bool) -> np.ndarray:
    if run.spec.workload.unit == "epoch":
        seconds = numbers(epochs, "compile_seconds")
        if not evaluation:
            return seconds
        return seconds + np.nan_to_num(numbers(epochs, "evaluation_compile_seconds"))
    found: list[float] = []
    for steps, windows in zip(
        column(epochs, "step_seconds"), column(epochs, "compile_windows"), strict=True
    ):
        here = [0.0] * len(steps)
        for window in windows:
            here[window.iteration or 0] += window.seconds
        found += here
    return np.array(found)


def _execution_seconds(run: Run) -> float:
    return run.prepared.execution_seconds if run.prepared else 0.0


def cache_found(run: Run) -> Cache | None:
    """The state of the compile cache by the compiler's own counters; None where it was mixed.

    A backend that counts neither hits nor misses is taken at the spec's word.
    """
    asked, activity = run.spec.variant.cache, run.activity
    if asked in (None, "off") or activity is None:
        return asked
    if activity.cache_hits and activity.cache_misses:
        return None
    if activity.cache_hits or activity.cache_misses:
        return "warm" if activity.cache_hits else "cold"
    return asked


# Values that say by themselves what they are of.
PLAIN_VALUES = ("variant", "precision", "memory_layout", "pipeline", "model", "side")


@dataclass(frozen=True)
class Arm:
    """The runs of one variant that have a steady state, whatever cache they started from.

    `setting` names what tells this arm from the others where that is more than the variant.
    `alone` are further runs, outside of the pairs that are compared: their starts count.
    """

    variant: Variant
    runs: tuple[Measured, ...]
    setting: tuple[tuple[str, object], ...] = ()
    alone: tuple[Measured, ...] = ()

    @cached_property
    def name(self) -> str:
        """`compile`, `bf16`, `compile, channels_last, bf16`, `eager A`, `drop_last False`."""
        values = dict(self.setting)
        if not values or list(values) == ["variant"]:
            return self.variant.name
        words = [
            str(value) if name in PLAIN_VALUES else f"{name} {value_text(value)}"
            for name, value in values.items()
            if name not in ("variant", "side")
        ]
        if "variant" in values:
            words.insert(0, self.variant.name)
        if "side" in values:
            words.append(f"{self.variant.name} {values['side'] or ''}".strip())
        return ", ".join(words)

    @cached_property
    def medians(self) -> list[float]:
        return [m.steady.median_seconds for m in self.runs if m.steady.median_seconds is not None]

    @cached_property
    def steady_seconds(self) -> float:
        """The arm's steady seconds per epoch or iteration: geometric mean of its runs' medians."""
        return stats.geometric_mean(self.medians)

    def percentiles(self, *qs: float) -> list[float]:
        """Of the steady epochs or iterations, in seconds: geometric means over the runs.

        So the 50th is what the speedup compares. Pooled, the percentiles of runs of different speed
        would be those of the fastest and the slowest. A run without a steady state counts for
        nothing; without any the list is empty.
        """
        of_runs = [stats.percentiles(m.steady_seconds, qs) for m in self.runs if m.steady_seconds]
        return [stats.geometric_mean(values) for values in zip(*of_runs, strict=True)]

    def known_percentiles(self) -> dict[int, float | None]:
        """PERCENTILES by number; None for those that a run has too few steady iterations for."""
        fewest = min((len(m.steady_seconds) for m in self.runs if m.steady_seconds), default=0)
        return {
            q: self.percentiles(q)[0] if fewest >= enough else None
            for q, enough in PERCENTILES.items()
        }

    @property
    def start_shown(self) -> Cache | None:
        """Cold where that was measured: a warm start was paid for earlier. None is any."""
        return "cold" if self.excess_seconds("cold") is not None else None

    def excesses(self, cache: Cache | None) -> list[float]:
        """Start-up excess of each run that started from `cache` (None: of all)."""
        return [m.excess_seconds for m in self._from(cache) if m.excess_seconds is not None]

    def excess_seconds(self, cache: Cache | None) -> float | None:
        """The mean of `excesses`; None where there are none."""
        found = self.excesses(cache)
        return fmean(found) if found else None

    def mean_series(self, cache: Cache | None = None) -> list[float]:
        """Mean wall seconds of epoch 1, 2, ... over the longest runs from `cache` (None: any)."""
        runs = [m.series_seconds for m in self._from(cache)]
        longest = max(map(len, runs), default=0)
        whole = [run for run in runs if len(run) == longest]
        return [fmean(epoch) for epoch in zip(*whole, strict=True)]

    def first_seconds(self, cache: Cache | None = None) -> float | None:
        """Mean first epoch, or in inference mean wait for the first answer."""
        found = [m.first_seconds for m in self._from(cache) if m.first_seconds is not None]
        return fmean(found) if found else None

    def compile_seconds(self, cache: Cache | None = None) -> float | None:
        found = [m.compile_seconds for m in self._from(cache)]
        return fmean(found) if found else None

    def _from(self, cache: Cache | None) -> list[Measured]:
        return [m for m in (*self.runs, *self.alone) if cache in (None, cache_found(m.run))]

    @property
    def unmet(self) -> tuple[Finding, ...]:
        """What its runs asked for and did not get, each once."""
        found = [
            finding
            for m in self.runs
            if m.run.aftermath
            for finding in m.run.aftermath.effective or ()
            if not finding.met
        ]
        return tuple(dict.fromkeys(found))

    @property
    def parity(self) -> Parity | None:
        """The worst of its runs' verdicts; None where no run was checked or had to be."""
        found = [m.run.aftermath.parity for m in self.runs if m.run.aftermath]
        return max(filter(None, found), key=lambda one: WORSE.index(one.verdict), default=None)
