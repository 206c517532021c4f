"""From raw times to answers: steady state, speedup with interval, break-even.

Pure functions on plain numbers. They know nothing of runs, stores or pages, and keep no state; a
better formula here mends every stored run. The process is the unit of statistics: an interval over
runs comes from `speedup` or `paired_speedup` only. Seconds in, seconds or ratios out; epochs in
answers count from 1 as people do, `SteadyState.first` is an index.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np

from bench_core.units import counted

Numbers = Sequence[float] | np.ndarray

# Below this many runs an arm an interval over processes says next to nothing.
RUNS_FOR_A_VERDICT = 3

# The change-point detector, chosen by simulation. With no change (4 to 1,000 epochs, with 2.5 % of
# noise: normal, Laplace, Student t with 3 degrees of freedom, exponential; or one outlier) it calls
# one in at most 3 % of series; with neighbours correlated by 0.3 in at most 6 %. It finds a step of
# 10 % in 1 % noise in 97 % of series with 3 epochs each side, and in all with 5.
_SHORTEST_SEGMENT = 3
_CLIP_SIGMAS = 2.0
_PENALTY_BASE = 8.0
_PENALTY_PER_LOG_LENGTH = 4.0
_LEAST_NOISE = 0.001
# Processes differ by more than this, so a smaller change within one is not worth the epochs.
_LEAST_CHANGE = 0.01
_LONGEST_SERIES = 1000

# An interval that decided itself when to stop covers the truth in 90 % instead of 95 %, for it
# stops where the scatter happens to look small. Widened so much it covers 94.5 to 98.5 %, whatever
# the width asked for and the most runs allowed (by simulation, pairs and arms of unlike scatter
# being the worst; widened by 1.2 it was 93.8 %).
SEQUENTIAL_WIDENING = 1.25

# Equal logarithms may differ in their last bit once averaged.
_ROUNDING = 1e-12
# Beyond it a float ends.
LARGEST_LOG = 700.0


Verdict = Literal["faster", "slower", "no difference shown"]


class ScipyMissing(ImportError):
    """An interval over runs was asked for where scipy is not installed."""


@dataclass(frozen=True, slots=True)
class SteadyState:
    """The steady part of one run's series, or why it has none (`first is None`)."""

    first: int | None
    median_seconds: float | None
    spread: float | None
    count: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Series:
    """Times of one run for `steady_states`; what they are stands at `steady_state`."""

    seconds: Numbers
    compile_seconds: Numbers | None = None
    recording: Numbers | None = None
    minimum: int = 3
    skip: int = 1
    shortest: int = 3
    unit: str = "epoch"


@dataclass(frozen=True, slots=True)
class Speedup:
    """Baseline seconds / candidate seconds: above 1 the candidate is faster.

    `low` and `high` are the ends of the interval over runs; a first look has none, and no verdict.
    `freedom` are the degrees of freedom of its t distribution.
    """

    kind: Literal["first look", "welch", "paired"]
    ratio: float
    low: float | None
    high: float | None
    verdict: Verdict | None
    baseline_runs: int
    candidate_runs: int
    confidence: float
    freedom: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half of the interval of the logarithm: 0.02 is about plus or minus 2 %."""
        return None if self.low is None or self.high is None else math.log(self.high / self.low) / 2


@dataclass(frozen=True, slots=True)
class Band:
    """From where to where: what it is of, and whether it covers processes, its maker says."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class BreakEven:
    """When the candidate has paid back its start-up.

    `at once`: it is never behind. `epoch`: even by the end of `epoch`. `never`: behind for good.
    `ahead until`: it starts cheaper but is slower, ahead up to the end of `epoch` and not after.
    `exact` is the unrounded epoch; `projected` says that `epoch` lies beyond what was measured.
    """

    kind: Literal["at once", "epoch", "never", "ahead until"]
    epoch: int | None
    exact: float | None
    projected: bool


def steady_state(
    epoch_seconds: Numbers,
    compile_seconds: Numbers | None = None,
    recording: Numbers | None = None,
    minimum: int = 3,
    skip: int = 1,
    shortest: int = _SHORTEST_SEGMENT,
    unit: str = "epoch",
) -> SteadyState:
    """Find the steady part of a run: the same rule for every arm.

    It begins after the first `skip` epochs, after the last one with a compile or recording window,
    and after the last change-point of what remains: a shift of the level by more than 1 % that
    lasts at least `shortest` epochs. Fewer than `minimum` epochs after that are no steady state.

    epoch_seconds: wall seconds of each epoch. compile_seconds: seconds of compile windows in each
    (None: not recorded). recording: seconds, or true, where a CUDA graph was recorded. For
    inference give the iterations, `skip=3`, `shortest=6` (single calls are hit more often: two that
    are side by side make no new level) and `unit="iteration"`. `spread` is 1.4826 times the median
    absolute deviation over the median: for Gaussian noise the relative standard deviation.

    Source: Barrett et al. 2017, "Virtual machine warmup blows hot and cold" (change-points, and
    segments of the same level count as one); Georges et al. 2007 for the need of a steady state.
    ValueError: no epochs, a time that is not positive, lengths that differ.
    """
    series = Series(epoch_seconds, compile_seconds, recording, minimum, skip, shortest, unit)
    return steady_states([series])[0]


def steady_states(runs: Sequence[Series]) -> list[SteadyState]:
    """`steady_state` of many runs: change-points of series of one length are sought together.

    Same answers in a tenth of the time for each. ValueError as there.
    """
    checked = [_checked("epoch_seconds", run.seconds) for run in runs]
    busy = [_busy(run, len(seconds)) for run, seconds in zip(runs, checked, strict=True)]
    firsts = [
        max(run.skip, int(np.flatnonzero(windows)[-1]) + 1 if windows.any() else 0)
        for run, windows in zip(runs, busy, strict=True)
    ]
    alike: dict[tuple[int, int], list[int]] = {}
    for place, (run, seconds, first) in enumerate(zip(runs, checked, firsts, strict=True)):
        if len(seconds) - first >= run.minimum:
            alike.setdefault((len(seconds) - first, run.shortest), []).append(place)
    last_changes = [0] * len(runs)
    for (_, shortest), places in alike.items():
        for some in _batches(places):
            together = np.stack([checked[place][firsts[place] :] for place in some])
            for place, changes in zip(some, _changes(np.log(together), shortest), strict=True):
                last_changes[place] = changes[-1] if changes else 0
    return [_steady(*one) for one in zip(runs, checked, busy, firsts, last_changes, strict=True)]


def _batches(places: list[int], size: int = 256) -> Iterator[list[int]]:
    """Tables of so many rows stay in the processor's cache."""
    return (places[start : start + size] for start in range(0, len(places), size))


def _busy(run: Series, count: int) -> np.ndarray:
    """Where something was compiled or recorded."""
    busy = np.zeros(count, dtype=bool)
    for name, windows in (("compile_seconds", run.compile_seconds), ("recording", run.recording)):
        if windows is None:
            continue
        if len(windows) != count:
            raise ValueError(
                f"{name} has {len(windows)} values for {count} of epoch_seconds: give one for each"
            )
        busy |= _checked(name, windows, zero_allowed=True) > 0
    return busy


def _steady(
    run: Series, seconds: np.ndarray, busy: np.ndarray, first: int, last_change: int
) -> SteadyState:
    """`first` is where the opening and the compiling are over, `last_change` counts from there."""
    count, unit = len(seconds), run.unit
    if busy.all():
        reason = f"It compiled in every {unit}, so none shows the steady speed."
        return SteadyState(None, None, None, 0, reason)
    if last_change:
        first += last_change
        since = f"the last change of speed ({unit} {first})"
    elif first > run.skip:
        since = f"the last compile ({unit} {first})"
    else:
        since = _opening(run.skip, unit)
    left = max(count - first, 0)
    if left < run.minimum:
        reason = (
            f"Only {counted(left, unit)} came after {since}; a steady state "
            f"needs {run.minimum}. Measure at least {run.minimum + first - count} more."
        )
        return SteadyState(None, None, None, left, reason)
    steady = seconds[first:]
    median = _median(steady)
    spread = 1.4826 * _median(np.abs(steady - median)) / median
    return SteadyState(first, median, spread, left, None)


def _median(values: np.ndarray) -> float:
    """np.median takes ten times as long for a hundred values."""
    ordered, count = np.sort(values), len(values)
    return float(ordered[(count - 1) // 2] + ordered[count // 2]) / 2


def startup_excess(epoch_seconds: Numbers, steady: SteadyState) -> float:
    """Seconds of the unsteady epochs less as many steady medians; negative if they were faster.

    ValueError: bad times, or a run without a steady state.
    """
    seconds = _checked("epoch_seconds", epoch_seconds)
    if steady.first is None or steady.median_seconds is None:
        raise ValueError(f"start-up excess needs a steady state. {steady.reason}")
    return math.fsum(seconds[: steady.first]) - steady.first * steady.median_seconds


def speedup(
    baseline_medians: Numbers,
    candidate_medians: Numbers,
    confidence: float = 0.95,
    until_sure: bool = False,
) -> Speedup:
    """Compare two arms by the steady medians of their runs, one value a run (process), in seconds.

    The ratio is the difference of the mean log medians. With 3 runs or more in both arms Welch's t
    interval on it (Welch 1947; Georges et al. 2007 on why over processes) and a verdict:
    `no difference shown` when the interval holds 1. With fewer a first look. `until_sure`: the
    width of this interval decided when to stop, so it is widened by SEQUENTIAL_WIDENING (why: Chow
    and Robbins 1965; a rule that looks at the width only is not biased towards a difference).

    ValueError: an empty arm, a time that is not positive, a confidence outside 0 to 1.
    ScipyMissing: 3 runs or more without scipy.
    """
    baseline = np.log(_checked("baseline_medians", baseline_medians))
    candidate = np.log(_checked("candidate_medians", candidate_medians))
    _check_confidence(confidence)
    runs = (len(baseline), len(candidate))
    log_ratio = float(baseline.mean() - candidate.mean())
    if min(runs) < RUNS_FOR_A_VERDICT:
        return Speedup("first look", _ratio(log_ratio), None, None, None, *runs, confidence)
    parts = [float(arm.var(ddof=1)) / len(arm) for arm in (baseline, candidate)]
    squares = sum(part**2 / (n - 1) for part, n in zip(parts, runs, strict=True))
    # Without any scatter the degrees of freedom are 0 / 0, and their choice does not matter.
    freedom = sum(parts) ** 2 / squares if squares else float(sum(runs) - 2)
    half = _t_quantile(freedom, confidence) * math.sqrt(sum(parts))
    half *= SEQUENTIAL_WIDENING if until_sure else 1.0
    return _judged("welch", log_ratio, half, runs, confidence, freedom)


def paired_speedup(
    baseline_medians: Numbers,
    candidate_medians: Numbers,
    confidence: float = 0.95,
    until_sure: bool = False,
) -> Speedup:
    """Compare arms that ran as pairs taking turns: the i-th of both are one pair's steady medians.

    Student's t interval on the pairs' log ratios (Student 1908); fewer than 3 pairs are a first
    look. Seconds. `until_sure` as for `speedup`.

    ValueError: as for `speedup`, and arms of different length. ScipyMissing: as for `speedup`.
    """
    baseline = np.log(_checked("baseline_medians", baseline_medians))
    candidate = np.log(_checked("candidate_medians", candidate_medians))
    _check_confidence(confidence)
    runs = (len(baseline), len(candidate))
    if runs[0] != runs[1]:
        raise ValueError(
            f"pairs need as many baseline as candidate runs, got {runs[0]} and {runs[1]}: "
            "leave out the run without a partner, or compare with speedup()"
        )
    ratios = baseline - candidate
    log_ratio = float(ratios.mean())
    if runs[0] < RUNS_FOR_A_VERDICT:
        return Speedup("first look", _ratio(log_ratio), None, None, None, *runs, confidence)
    freedom = runs[0] - 1
    half = _t_quantile(freedom, confidence) * float(ratios.std(ddof=1)) / math.sqrt(runs[0])
    half *= SEQUENTIAL_WIDENING if until_sure else 1.0
    return _judged("paired", log_ratio, half, runs, confidence, freedom)


def first_look_band(
    baseline_epochs: Numbers,
    candidate_epochs: Numbers,
    confidence: float = 0.95,
    resamples: int = 4000,
    seed: int = 0,
) -> Band:
    """How far epochs alone move the ratio of the arms' medians: percentile bootstrap, seeded.

    Each argument holds the steady seconds per epoch of one run (or of an arm's two, pooled). NOT an
    interval over processes: with 2 % scatter between these it covers the truth in about 54 %
    instead of 95 %, so no verdict may rest on it.

    Source: Efron 1979 for the bootstrap; a bootstrap sample's order statistics are those of uniform
    numbers, so its median is drawn directly, without drawing the sample.
    ValueError: an empty arm, a time that is not positive, a confidence outside 0 to 1.
    """
    baseline = _checked("baseline_epochs", baseline_epochs)
    candidate = _checked("candidate_epochs", candidate_epochs)
    _check_confidence(confidence)
    random = np.random.default_rng(seed)
    ratios = _resampled_medians(baseline, resamples, random) / _resampled_medians(
        candidate, resamples, random
    )
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return Band(float(low), float(high))


def break_even(
    baseline_excess: float,
    candidate_excess: float,
    baseline_epoch_seconds: float,
    candidate_epoch_seconds: float,
    measured_epochs: int | None = None,
) -> BreakEven:
    """The epoch by whose end the candidate has paid back what its start-up cost more.

    Excesses are the start-up excesses in seconds (may be negative), epoch seconds the steady ones.
    Epoch = difference of the excesses / difference of the steady seconds. The start-up counts as
    spent from the first epoch on, so within the unsteady epochs the answer is approximate.

    Beyond `measured_epochs` it is projected: None is wherever it lies, 0 that none was measured.

    ValueError: a number that is not finite, epoch seconds that are not positive, measured_epochs
    below 0.
    """
    for name, excess in (
        ("baseline_excess", baseline_excess),
        ("candidate_excess", candidate_excess),
    ):
        if not math.isfinite(excess):
            raise ValueError(f"{name} must be a finite number of seconds, got {excess}")
    _checked("baseline_epoch_seconds", [baseline_epoch_seconds])
    _checked("candidate_epoch_seconds", [candidate_epoch_seconds])
    if measured_epochs is not None and measured_epochs < 0:
        raise ValueError(f"measured_epochs must be at least 0 or None, got {measured_epochs}")

    debt = candidate_excess - baseline_excess
    gain = baseline_epoch_seconds - candidate_epoch_seconds
    if debt <= 0 <= gain:
        return BreakEven("at once", None, None, False)
    if debt > 0 and gain <= 0:
        return BreakEven("never", None, None, False)
    exact = debt / gain
    kind: Literal["epoch", "ahead until"] = "epoch" if gain > 0 else "ahead until"
    if kind == "epoch":
        epoch = max(1, math.ceil(exact * (1 - _ROUNDING)))
    else:
        epoch = math.floor(exact * (1 + _ROUNDING))
        if epoch < 1:  # what the start-up saves is less than one steady epoch costs
            return BreakEven("never", None, None, False)
    projected = measured_epochs is not None and epoch > measured_epochs
    return BreakEven(kind, epoch, exact, projected)


def seconds_saved(baseline_epochs: Numbers, candidate_epochs: Numbers) -> list[float]:
    """Seconds by which the candidate is ahead (negative: behind) at each epoch's end.

    Wall seconds per epoch in, over the common length. ValueError: nothing in an arm, or a time that
    is not positive.
    """
    baseline = _checked("baseline_epochs", baseline_epochs).tolist()
    candidate = _checked("candidate_epochs", candidate_epochs).tolist()
    return list(accumulate(b - c for b, c in zip(baseline, candidate, strict=False)))


def geometric_mean(values: Numbers) -> float:
    """The mean of ratios (Fleming and Wallace 1986). ValueError: none, or one not positive."""
    return math.exp(float(np.log(_checked("values", values)).mean()))


def percentiles(values: Numbers, qs: Numbers) -> list[float]:
    """The qs-th percentiles (0 to 100) of values, linear between neighbours, in the order of qs.

    ValueError: no values, one that is negative or not finite, a q outside 0 to 100.
    """
    seconds = _checked("values", values, zero_allowed=True)
    for q in qs:
        if not 0 <= q <= 100:
            raise ValueError(f"a percentile lies between 0 and 100, got {q}")
    return [float(value) for value in np.percentile(seconds, list(qs))]


def crossings(saved: Numbers) -> list[int]:
    """Epochs by whose end the candidate has got ahead, or has fallen behind again.

    `saved` as from `seconds_saved`; it starts behind, so the first of them is the first crossing
    into the black, the second one back into the red, and so on. A mark in a chart and no verdict:
    scatter makes a series cross again and again.
    """
    ahead = np.asarray(saved, dtype=float) >= 0
    turns = np.flatnonzero(np.diff(np.concatenate([[False], ahead])))
    return [int(turn) + 1 for turn in turns]


def change_points(seconds: Numbers, shortest: int = _SHORTEST_SEGMENT) -> list[int]:
    """Indices at which the level of speed changes by more than 1 %; what is less is one level.

    For epochs, steps or iterations in order; a level lasts at least `shortest` of them. Levels are
    joined from the last one backwards: from the last index on all is as it is at the end. The
    steady state rests on it. ValueError: bad times.
    """
    return _changes(np.log(_checked("seconds", seconds))[np.newaxis], shortest)[0]


@dataclass(frozen=True)
class Outlook:
    """Equally plausible truths about two arms, as draws: one value each in every array.

    `baseline_seconds` is a steady epoch (iteration) of the baseline, `gain_seconds` what one of the
    candidate saves, `debt_seconds` what its start-up costs beyond that of the baseline.
    """

    baseline_excess_seconds: float
    baseline_seconds: np.ndarray
    gain_seconds: np.ndarray
    debt_seconds: np.ndarray


def outlook(
    speedup: Speedup,
    baseline_seconds: float,
    baseline_excesses: Numbers,
    candidate_excesses: Numbers,
    single_start_scatter: float = 0.0,
    draws: int = 2000,
    seed: int = 0,
) -> Outlook | None:
    """What the runs leave open about gain and debt; None for a first look, which has no interval.

    The speedup is drawn from the t distribution of its own interval, at evenly spread quantiles, so
    that both say the same: a bootstrap over 3 runs covers the truth in 88 % instead of 95 %. Half
    of a draw's deviation is the baseline's and half the candidate's: with the baseline taken as
    exact the break-even of an arm twice as fast is covered in 81 to 89 % only. What moves both arms
    of a pair alike is in no draw. The start-up excesses (seconds, one a run) are resampled with
    replacement (Efron 1979); that of an arm with a single one is taken to scatter by the part
    `single_start_scatter` of itself, normally. Seeded.

    ValueError: an arm without an excess, numbers that are not finite, seconds not above 0.
    """
    if speedup.freedom is None or speedup.half_width is None:
        return None
    _checked("baseline_seconds", [baseline_seconds])
    random, half = np.random.default_rng(seed), draws // 2
    starts = []
    for name, excesses in (
        ("baseline_excesses", baseline_excesses),
        ("candidate_excesses", candidate_excesses),
    ):
        values = np.asarray(excesses, dtype=float)
        if not len(values) or not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite seconds, one a run at least, got {excesses!r}")
        drawn = random.choice(values, (2 * half, len(values))).mean(axis=1)
        if len(values) == 1:
            drawn = drawn * (1 + single_start_scatter * random.standard_normal(2 * half))
        starts.append(drawn)
    scale = speedup.half_width / _t_quantile(speedup.freedom, speedup.confidence)
    upper = _t_inverse(speedup.freedom, 0.5 + (np.arange(half) + 0.5) / (2 * half))
    deviations = scale * np.concatenate([-upper[::-1], upper])
    logs = math.log(speedup.ratio) + deviations
    baseline_draws = baseline_seconds * np.exp(deviations / 2)
    return Outlook(
        baseline_excess_seconds=float(np.mean(baseline_excesses)),
        baseline_seconds=baseline_draws,
        gain_seconds=baseline_draws * -np.expm1(-logs),
        debt_seconds=starts[1] - starts[0],
    )


def break_even_interval(view: Outlook, confidence: float = 0.95) -> Band:
    """Ends of the break-even epoch: 0 is at once, infinity is never (or ahead for good).

    A draw that is ahead from the start and stays so counts as 0, one that never gets even or falls
    behind for good as infinity; where most start ahead and fall behind, the epoch of that.
    """
    gain, debt = view.gain_seconds, view.debt_seconds
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = debt / gain
    loses = np.median(debt) <= 0 and np.median(gain) < 0
    if loses:
        exact = np.where(gain >= 0, np.inf, np.where(debt > 0, 0.0, exact))
    else:
        exact = np.where(gain <= 0, np.inf, np.where(debt <= 0, 0.0, exact))
    tail = (1 - confidence) / 2
    # Between a number and infinity nothing can be interpolated.
    low = np.quantile(exact, tail, method="lower")
    high = np.quantile(exact, 1 - tail, method="higher")
    return Band(float(low), float(high))


def saved_after(view: Outlook, epochs: float, confidence: float = 0.95) -> Band:
    """Seconds saved by the end of so many epochs, start-up counted; negative is lost."""
    saved = view.gain_seconds * epochs - view.debt_seconds
    tail = (1 - confidence) / 2
    low, high = np.quantile(saved, [tail, 1 - tail])
    return Band(float(low), float(high))


def mean_speedup(view: Outlook, epochs: float, confidence: float = 0.95) -> Band:
    """Ratio of the arms' mean epochs over the first so many, start-up counted: the article's own.

    With n growing it approaches the steady speedup.
    """
    before = view.baseline_excess_seconds + epochs * view.baseline_seconds
    tail = (1 - confidence) / 2
    saved = view.gain_seconds * epochs - view.debt_seconds
    low, high = np.quantile(before / (before - saved), [tail, 1 - tail])
    return Band(float(low), float(high))


def _opening(skip: int, unit: str) -> str:
    return f"the first {unit}" if skip == 1 else f"the first {skip} {unit}s"


def _changes(log_seconds: np.ndarray, shortest: int) -> list[list[int]]:
    """`change_points` of several series of one length: a row each."""
    found = []
    # The time grows as the square of the length, so thousands of calls go in blocks' medians.
    count = log_seconds.shape[1]
    block = -(-count // _LONGEST_SERIES)
    odd_start = count % block
    if block > 1:
        blocks = log_seconds[:, odd_start:].reshape(len(log_seconds), -1, block)
        log_seconds = np.median(blocks, axis=2)
        shortest = max(_SHORTEST_SEGMENT, -(-shortest // block))
    for one, starts in zip(log_seconds, _levels(log_seconds, shortest), strict=True):
        changes = []
        if starts[1:]:
            levels = [float(np.median(part)) for part in np.split(one, starts[1:])]
            current = levels[-1]
            for start, level in zip(reversed(starts[1:]), reversed(levels[:-1]), strict=True):
                if abs(level - current) > _LEAST_CHANGE:
                    changes.append(odd_start + start * block)
                    current = level
        found.append(changes[::-1])
    return found


def _levels(log_seconds: np.ndarray, shortest: int) -> list[list[int]]:
    """Where the levels of each row begin, the first at 0.

    Optimal partitioning into segments of at least `shortest` (Jackson et al. 2005; PELT, Killick et
    al. 2012, without its pruning) by the squared distance to the segment's mean. Against outliers
    (cf. Fearnhead and Rigaill 2019) every value is first drawn to within 2 sigmas of the running
    median of 2 x shortest - 1, which keeps any step that lasts so long. Sigma comes from the
    differences of neighbours, so that the levels themselves do not count as noise.
    """
    rows, count = log_seconds.shape
    if count < 2 * shortest:
        return [[0]] * rows
    apart = np.median(np.abs(np.diff(log_seconds, axis=1)), axis=1, keepdims=True)
    sigma = np.maximum(apart / 0.9539, _LEAST_NOISE)
    window = np.lib.stride_tricks.sliding_window_view(log_seconds, 2 * shortest - 1, axis=1)
    edge = ((0, 0), (shortest - 1, shortest - 1))
    running = np.pad(np.median(window, axis=2), edge, mode="edge")
    reach = _CLIP_SIGMAS * sigma
    clipped = np.clip(log_seconds, running - reach, running + reach)
    return _segment_starts(
        (clipped - running.mean(axis=1, keepdims=True)) / sigma,
        penalty=_PENALTY_BASE + _PENALTY_PER_LOG_LENGTH * math.log(count),
        shortest=shortest,
    )


def _segment_starts(values: np.ndarray, penalty: float, shortest: int) -> list[list[int]]:
    """Where the segments of each row begin that least squares plus a penalty for each prefers."""
    rows, count = values.shape
    every = np.arange(rows)
    sums = np.concatenate([np.zeros((rows, 1)), np.cumsum(values, axis=1)], axis=1)
    best = np.full((rows, count + 1), np.inf)
    best[:, 0] = 0.0
    came_from = np.zeros((rows, count + 1), dtype=int)
    lengths = np.arange(count, 0, -1, dtype=float)
    for end in range(shortest, count + 1):
        last = end - shortest + 1
        # The sum of all squares is the same for every partition and left out.
        gains = (sums[:, end, np.newaxis] - sums[:, :last]) ** 2
        gains /= lengths[count - end : count - end + last]
        costs = best[:, :last] - gains
        came_from[:, end] = start = np.argmin(costs, axis=1)
        best[:, end] = costs[every, start] + penalty
    found = []
    for came in came_from.tolist():
        starts = [came[count]]
        while starts[-1] > 0:
            starts.append(came[starts[-1]])
        found.append(starts[::-1])
    return found


def _resampled_medians(
    values: np.ndarray, resamples: int, random: np.random.Generator
) -> np.ndarray:
    ordered = np.sort(values)
    count = len(ordered)
    middle = (count + 1) // 2
    lower = random.beta(middle, count - middle + 1, resamples)
    medians = ordered[np.minimum((lower * count).astype(int), count - 1)]
    if count % 2 == 0:
        upper = lower + (1 - lower) * random.beta(1, count - middle, resamples)
        medians = (medians + ordered[np.minimum((upper * count).astype(int), count - 1)]) / 2
    return medians


def _judged(
    kind: Literal["welch", "paired"],
    log_ratio: float,
    half: float,
    runs: tuple[int, int],
    confidence: float,
    freedom: float,
) -> Speedup:
    low, high = _ratio(log_ratio - half), _ratio(log_ratio + half)
    verdict: Verdict = "no difference shown"
    if low > 1 + _ROUNDING:
        verdict = "faster"
    elif high < 1 - _ROUNDING:
        verdict = "slower"
    return Speedup(kind, _ratio(log_ratio), low, high, verdict, *runs, confidence, freedom)


def _ratio(log_ratio: float) -> float:
    """Times that no machine can take must not end the comparison of all others."""
    return math.exp(min(log_ratio, LARGEST_LOG))


def _t_quantile(freedom: float, confidence: float) -> float:
    return float(_t_inverse(freedom, (1 + confidence) / 2))


def _t_inverse(freedom: float, probability: float | np.ndarray) -> np.ndarray:
    # Imported here: measuring needs no scipy, and a page should not wait for it.
    try:
        from scipy.special import stdtrit
    except ImportError as error:
        raise ScipyMissing(
            "an interval over runs needs scipy, which is not installed: pip install scipy"
        ) from error
    return stdtrit(freedom, probability)


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, such as 0.95, got {confidence}")


def _checked(name: str, values: Numbers, zero_allowed: bool = False) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"{name} must be a flat list of at least one number, got {values!r}")
    bad = ~np.isfinite(array) | ((array < 0) if zero_allowed else (array <= 0))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        wanted = "0 or more" if zero_allowed else "above 0"
        raise ValueError(
            f"{name}[{at}] must be {wanted}, got {array[at]}: leave out what was not measured"
        )
    return array
