"""Rank correlation and shares: by hand, against scipy, and what their intervals cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from bench_core.correlation import rank_correlation, share_interval


def test_rho_is_spearmans_with_ties_as_scipy_ranks_them():
    random = np.random.default_rng(1)
    for _ in range(20):
        x, y = random.integers(0, 6, 12).tolist(), random.integers(0, 6, 12).tolist()
        found = rank_correlation(x, y)
        assert found is not None
        assert found.rho == pytest.approx(spearmanr(x, y).statistic)


def test_interval_is_fishers_with_the_variance_of_bonett_and_wright():
    x, y = range(10), [2, 1, 4, 3, 6, 5, 8, 7, 10, 9]
    found = rank_correlation(x, y)
    assert found is not None
    rho = 1 - 6 * 10 / (10 * 99)
    half = 1.959964 * math.sqrt((1 + rho**2 / 2) / 7)
    assert found.rho == pytest.approx(rho)
    assert found.low == pytest.approx(math.tanh(math.atanh(rho) - half), abs=1e-5)
    assert found.high == pytest.approx(math.tanh(math.atanh(rho) + half), abs=1e-5)


def test_perfect_order_of_few_points_has_a_wide_interval():
    five, eight = (rank_correlation(range(n), range(n)) for n in (5, 8))
    assert five is not None and eight is not None
    assert five.rho == pytest.approx(1) and eight.rho == pytest.approx(1)
    assert five.low < 0 < eight.low < 0.9


def test_intervals_cover_the_truth_and_noise_shows_no_trend():
    """Spearman of a bivariate normal is 6 / pi * asin(r / 2) (Kendall 1949)."""
    random = np.random.default_rng(7)
    for points, r in ((6, 0.0), (10, 0.5), (20, 0.8)):
        truth, covered = 6 / math.pi * math.asin(r / 2), 0
        for _ in range(400):
            x = random.standard_normal(points)
            found = rank_correlation(
                x.tolist(), (r * x + math.sqrt(1 - r * r) * random.standard_normal(points)).tolist()
            )
            assert found is not None
            covered += found.low <= truth <= found.high
        assert covered / 400 > 0.92


def test_groups_take_out_what_lies_between_them():
    """Inside of each model it falls with batch size; the models' levels make it seem to rise."""
    x = [1, 2, 3, 4, 11, 12, 13, 14]
    y = [4, 3, 2, 1, 14, 13, 12, 11]
    groups = ["a"] * 4 + ["b"] * 4
    mixed, apart = rank_correlation(x, y), rank_correlation(x, y, groups)
    assert mixed is not None and apart is not None
    assert mixed.rho > 0.4
    assert apart.rho == pytest.approx(-1)
    assert (apart.points, apart.groups) == (8, 2)


def test_too_few_points_or_nothing_that_varies_give_none():
    assert rank_correlation([1, 2, 3, 4], [1, 2, 3, 4]) is None
    assert rank_correlation([1] * 9, list(range(9))) is None
    assert rank_correlation(list(range(9)), [1] * 9) is None
    # Six points in three groups are four independent ones.
    assert rank_correlation([1, 2] * 3, [1, 2] * 3, [0, 0, 1, 1, 2, 2]) is None
    # A group in which x stands still tells nothing.
    found = rank_correlation([1, 2, 3, 4, 5, 9, 9], range(7), [0] * 5 + [1] * 2)
    assert found is not None and (found.points, found.groups) == (5, 1)


def test_lengths_that_differ_are_told():
    with pytest.raises(ValueError, match="got 3, 2 and 3"):
        rank_correlation([1, 2, 3], [1, 2])


def test_share_has_wilsons_interval():
    nine = share_interval(9, 10)
    assert nine.low == pytest.approx(0.5958, abs=1e-4)
    assert nine.high == pytest.approx(0.9821, abs=1e-4)
    every, none = share_interval(10, 10), share_interval(0, 10)
    assert every.high == pytest.approx(1) and every.low == pytest.approx(0.7225, abs=1e-4)
    assert none.low == pytest.approx(0) and none.high == pytest.approx(1 - every.low)
    for count, whole in ((1, 0), (3, 2), (-1, 2)):
        with pytest.raises(ValueError, match=f"got {count} of {whole}"):
            share_interval(count, whole)
