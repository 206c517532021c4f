"""Statistics over many comparisons at once: a rank correlation and a share, with 95 % intervals.

Pure functions on plain numbers, without scipy. The observation is a comparison or a model here; how
processes scatter is in how these scatter.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from bench_core.stats import Band

# Below so many independent points an interval says next to nothing.
FEWEST_POINTS = 5
# A correlation below this is a weak one at most (Cohen 1988: 0.3 is medium).
WEAK = 0.3
# From its two-sided 95 %.
_NORMAL = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Correlation:
    """Spearman's rank correlation, its 95 % interval, and how many points and groups it is of."""

    rho: float
    low: float
    high: float
    points: int
    groups: int


def rank_correlation(
    x: Sequence[float], y: Sequence[float], groups: Sequence[Hashable] | None = None
) -> Correlation | None:
    """Whether y grows where x grows: Spearman 1904, ties with their mean rank.

    With `groups`, one name a point, both are first held against their group's mean, so that only
    what happens inside of groups counts; a group in which x stands still is left out. Each further
    group costs a point. Interval: Fisher's z with the variance (1 + rho^2 / 2) / (n - 3) of Bonett
    and Wright 2000. A perfect order would get an interval without width, so rho is drawn in to what
    one pair of neighbours out of order would give: by simulation it then covers 95 to 99 % from 6
    points on, with groups too.

    None: fewer than 5 independent points, or nothing that varies. ValueError: lengths that differ.
    """
    names = list(groups) if groups is not None else [None] * len(x)
    if not len(x) == len(y) == len(names):
        raise ValueError(
            f"x, y and groups need one value a point, got {len(x)}, {len(y)} and {len(names)}"
        )
    places: dict[Hashable, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    moving = [group for group in places.values() if len({x[place] for place in group}) > 1]
    points = sum(map(len, moving))
    independent = points - max(0, len(moving) - 1)
    if independent < FEWEST_POINTS:
        return None
    across, up = (
        np.concatenate([_centred([values[place] for place in group]) for group in moving])
        for values in (x, y)
    )
    first, second = _ranks(across), _ranks(up)
    if not first.std() or not second.std():
        return None
    rho = float(np.corrcoef(first, second)[0, 1])
    reach = 1 - 12 / (independent**3 - independent)
    inner = max(-reach, min(reach, rho))
    half = _NORMAL * math.sqrt((1 + inner**2 / 2) / (independent - 3))
    z = math.atanh(inner)
    return Correlation(rho, math.tanh(z - half), math.tanh(z + half), points, len(moving))


def share_interval(count: int, whole: int) -> Band:
    """The 95 % interval of a share, 0 to 1 (Wilson 1927): honest near 0 and 1, and for few.

    ValueError: nothing counted, or more than there are.
    """
    if not 0 <= count <= whole or not whole:
        raise ValueError(f"a share is of at least 1, from none to all, got {count} of {whole}")
    share, square = count / whole, _NORMAL**2
    middle = (share + square / (2 * whole)) / (1 + square / whole)
    half = (
        _NORMAL
        / (1 + square / whole)
        * math.sqrt(share * (1 - share) / whole + square / (4 * whole**2))
    )
    return Band(max(0.0, middle - half), min(1.0, middle + half))


def _centred(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    # Rounded: equal values must stay ties when they come from different groups.
    return np.round(array - array.mean(), 12)


def _ranks(values: np.ndarray) -> np.ndarray:
    """From 0 on; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts + 1) / 2)[inverse]
