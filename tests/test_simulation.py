"""What the statistics promise, held against truths that are known because they were made.

Runs are drawn as measurements scatter: a process moves all epochs of a run, each epoch moves by
itself, both by a relative, normal amount. Seeded, so a cell that fails fails every time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy.special import stdtrit

from bench_core import stats
from bench_core.stats import SEQUENTIAL_WIDENING, Speedup

COMPARE: dict[str, Callable[..., Speedup]] = {
    "welch": stats.speedup,
    "paired": stats.paired_speedup,
}
BETWEEN_PROCESSES = (0.0, 0.005, 0.02)
BETWEEN_EPOCHS = (0.01, 0.03)
SCATTERS = [(process, epoch) for process in BETWEEN_PROCESSES for epoch in BETWEEN_EPOCHS]
LIKELY = (0.93, 0.99)
MOST_FALSE_ALARMS = 0.06
MOST_PAIRS = 30
# Steady medians of the baseline and the candidate, a row a trial and a column a run.
Arms = tuple[np.ndarray, np.ndarray]


def medians(
    trials: int, runs: int, process: float, epoch: float, effect: float, epochs: int = 10
) -> Arms:
    """What would be measured where the candidate is `effect` faster."""
    random = np.random.default_rng([trials, runs, round(1e4 * process), round(1e4 * epoch), epochs])
    arms = []
    for log_seconds in (0.0, -math.log1p(effect)):
        of_process = process * random.standard_normal((trials, runs, 1))
        of_epochs = epoch * random.standard_normal((trials, runs, epochs))
        arms.append(np.median(np.exp(log_seconds + of_process + of_epochs), axis=2))
    return arms[0], arms[1]


def share(answers: list[bool]) -> float:
    return sum(answers) / len(answers)


def holds(found: Speedup, truth: float) -> bool:
    return found.low <= truth <= found.high


@pytest.mark.parametrize("epochs", [10, 3])
@pytest.mark.parametrize("kind", COMPARE)
def test_the_interval_of_the_speedup_covers_the_truth(kind: str, epochs: int) -> None:
    """With 3 epochs a run too, and where processes do not differ: each median is its own."""
    found = {}
    for process, epoch in SCATTERS:
        for runs in (3, 5, 10):
            arms = medians(2000, runs, process, epoch, effect=0.05, epochs=epochs)
            judged = [COMPARE[kind](*one) for one in zip(*arms, strict=True)]
            found[process, epoch, runs] = share([holds(one, 1.05) for one in judged])
    outside = {cell: at for cell, at in found.items() if not LIKELY[0] <= at <= LIKELY[1]}
    assert not outside


@pytest.mark.parametrize("kind", COMPARE)
def test_equal_arms_are_seldom_called_different(kind: str) -> None:
    for process, epoch in SCATTERS:
        for runs in (3, 10):
            arms = medians(2000, runs, process, epoch, effect=0.0)
            judged = [COMPARE[kind](*one) for one in zip(*arms, strict=True)]
            alarms = share([one.verdict != "no difference shown" for one in judged])
            assert alarms <= MOST_FALSE_ALARMS, (process, epoch, runs)


def test_a_search_for_the_steady_state_before_leaves_the_coverage() -> None:
    random = np.random.default_rng(3)
    trials, runs, epochs = 400, 3, 12
    answers = []
    for _ in range(trials):
        arms = []
        for log_seconds in (0.0, -math.log(1.05)):
            scatter = 0.005 * random.standard_normal((runs, 1))
            series = np.exp(log_seconds + scatter + 0.02 * random.standard_normal((runs, epochs)))
            series[:, 0] *= 2.5
            arms.append([stats.steady_state(one).median_seconds for one in series])
        answers.append(holds(stats.speedup(*arms), 1.05))
    assert LIKELY[0] <= share(answers) <= LIKELY[1]


# Until sure


def half_widths(kind: str, arms: Arms) -> np.ndarray:
    """Half of the interval of the logarithm after 1, 2, ... pairs, for all trials at once."""
    count = np.arange(1, arms[0].shape[1] + 1)

    def variance_of_mean(values: np.ndarray) -> np.ndarray:
        sums, squares = np.cumsum(values, axis=1), np.cumsum(values**2, axis=1)
        return (squares - sums**2 / count) / np.maximum(count - 1, 1) / count

    before, after = np.log(arms[0]), np.log(arms[1]) - np.log(arms[1]).mean()
    if kind == "paired":
        variance = variance_of_mean(before - after)
        freedom = np.broadcast_to(np.maximum(count - 1.0, 1.0), variance.shape)
    else:
        one, other = variance_of_mean(before), variance_of_mean(after)
        variance = one + other
        with np.errstate(invalid="ignore", divide="ignore"):
            freedom = variance**2 / ((one**2 + other**2) / np.maximum(count - 1, 1))
    with np.errstate(invalid="ignore"):
        half = SEQUENTIAL_WIDENING * stdtrit(freedom, 0.975) * np.sqrt(variance)
    half[:, : stats.RUNS_FOR_A_VERDICT - 1] = np.inf
    return half


def judged_until_sure(
    kind: str,
    arms: tuple[np.ndarray, np.ndarray],
    percents: tuple[float, ...],
    caps: tuple[int, ...],
) -> dict[tuple[float, int], list[Speedup]]:
    """By width asked for and most pairs: the answers when pairs are added until it is reached."""
    half = half_widths(kind, arms)

    @cache
    def judged(trial: int, pairs: int) -> Speedup:
        found = COMPARE[kind](arms[0][trial, :pairs], arms[1][trial, :pairs], until_sure=True)
        assert math.isclose(found.half_width, half[trial, pairs - 1], rel_tol=1e-6)
        return found

    found = {}
    for percent in percents:
        sure = half <= math.log1p(percent / 100)
        enough = np.where(sure.any(axis=1), sure.argmax(axis=1) + 1, MOST_PAIRS)
        for cap in caps:
            found[percent, cap] = [
                judged(trial, int(pairs)) for trial, pairs in enumerate(np.minimum(enough, cap))
            ]
    return found


@pytest.mark.parametrize("kind", COMPARE)
def test_stopping_when_the_interval_is_narrow_leaves_the_coverage(kind: str) -> None:
    found = {}
    for process, epoch in SCATTERS:
        arms = medians(2000, MOST_PAIRS, process, epoch, effect=0.05)
        cells = judged_until_sure(kind, arms, percents=(1, 2, 5), caps=(3, 10, MOST_PAIRS))
        for cell, judged in cells.items():
            found[process, epoch, *cell] = share([holds(one, 1.05) for one in judged])
    outside = {cell: at for cell, at in found.items() if not LIKELY[0] <= at <= LIKELY[1]}
    assert not outside


@pytest.mark.parametrize("kind", COMPARE)
def test_stopping_when_the_interval_is_narrow_calls_equal_arms_equal(kind: str) -> None:
    """Where the rule ends after about 12 pairs it is right least often."""
    arms = medians(5000, MOST_PAIRS, process=0.02, epoch=0.01, effect=0.0)
    cells = judged_until_sure(kind, arms, percents=(1.5, 2, 2.5), caps=(MOST_PAIRS,))
    for judged in cells.values():
        alarms = share([one.verdict != "no difference shown" for one in judged])
        assert alarms <= MOST_FALSE_ALARMS


# Verdicts


def test_three_per_cent_are_seen_by_three_runs_of_ten_epochs() -> None:
    arms = medians(3000, 3, process=0.005, epoch=0.01, effect=0.03)
    judged = [stats.speedup(*one) for one in zip(*arms, strict=True)]
    assert share([one.verdict == "faster" for one in judged]) >= 0.95
    assert not [one for one in judged if one.verdict == "slower"]


@pytest.mark.parametrize("until_sure", [False, True])
@pytest.mark.parametrize("kind", COMPARE)
@pytest.mark.parametrize("runs", [1, 2])
def test_fewer_than_three_runs_give_no_verdict_however_clear(
    runs: int, kind: str, until_sure: bool
) -> None:
    arms = medians(200, runs, process=0.005, epoch=0.01, effect=1.0)
    for one in zip(*arms, strict=True):
        judged = COMPARE[kind](*one, until_sure=until_sure)
        assert (judged.kind, judged.verdict, judged.half_width) == ("first look", None, None)


# Break-even

DEBT_SECONDS = 20.0


def break_evens(
    trials: int, runs: int, process: float, epoch: float, effect: float
) -> list[tuple[Speedup, stats.Band]]:
    """The speedup and the ends of the break-even of each trial; what a start costs is known."""
    found = []
    for before, after in zip(*medians(trials, runs, process, epoch, effect), strict=True):
        judged = stats.speedup(before, after)
        steady = stats.geometric_mean(before)
        view = stats.outlook(judged, steady, [0.0] * runs, [DEBT_SECONDS] * runs)
        found.append((judged, stats.break_even_interval(view)))
    return found


@pytest.mark.parametrize("effect", [0.03, 0.1, 1.0])
def test_the_interval_of_the_break_even_covers_the_truth(effect: float) -> None:
    """For an arm twice as fast too, where the scatter of the baseline itself counts as much."""
    truth = DEBT_SECONDS / (1 - 1 / (1 + effect))
    for process, epoch in ((0.0, 0.01), (0.005, 0.01), (0.02, 0.03)):
        for runs in (3, 10):
            found = break_evens(400, runs, process, epoch, effect)
            covered = share([band.low <= truth <= band.high for _, band in found])
            assert 0.9 <= covered <= 0.995, (process, epoch, runs)


def test_where_nothing_is_gained_never_is_not_excluded() -> None:
    found = break_evens(300, 3, process=0.005, epoch=0.01, effect=0.0)
    assert share([math.isinf(band.high) for _, band in found]) >= 0.95


@pytest.mark.parametrize("effect", [0.0, 0.01, 0.03])
def test_never_is_left_open_exactly_where_the_speedup_may_be_none(effect: float) -> None:
    """Both are drawn from one distribution; at its very edge the draws are a grid."""
    for judged, band in break_evens(300, 3, process=0.005, epoch=0.01, effect=effect):
        if abs(math.log(judged.low)) > 0.02 * judged.half_width:
            assert math.isinf(band.high) == (judged.low <= 1)
