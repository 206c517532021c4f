"""Comparisons are kept for the same runs only: another run, or one that went on, is compared."""

from collections.abc import Iterator

import pytest

from bench_core.measured import Measured, measure
from bench_core.pairing import USUAL, Comparisons
from pages.parts import compared as kept
from pages.parts.compared import compared
from tests.many_runs import many_runs


@pytest.fixture
def measured() -> Iterator[list[Measured]]:
    kept._kept.clear()
    yield [measure(one.run, one.epochs) for one in many_runs(12, 8)]
    kept._kept.clear()


def ratios(found: Comparisons) -> list[float]:
    return [pair.speedup.ratio for pair in found.pairs]


def test_the_same_runs_are_compared_once(measured: list[Measured]) -> None:
    first = compared(measured, USUAL, {})
    assert first.pairs and compared(list(measured), USUAL, {}) is first


def test_a_run_that_was_measured_anew_and_other_noise_are_compared_anew(
    measured: list[Measured],
) -> None:
    first = compared(measured, USUAL, {})
    again = [*measured[:-1], measure(measured[-1].run, measured[-1].epochs[:6])]
    assert compared(again, USUAL, {}) is not first
    [machine] = {one.run.machine for one in measured[:1]}
    assert compared(measured, USUAL, {(machine, "cuda:0", "train"): 0.5}) is not first
    assert len(compared(measured[:6], USUAL, {}).pairs) < len(first.pairs)


def test_no_more_are_kept_than_said(measured: list[Measured]) -> None:
    first = compared(measured, USUAL, {})
    for count in range(kept.MOST_KEPT):
        compared(measured, USUAL, {("CPU", "cpu", "train"): 0.01 * count})
    assert len(kept._kept) == kept.MOST_KEPT
    anew = compared(measured, USUAL, {})
    assert anew is not first and ratios(anew) == ratios(first)
