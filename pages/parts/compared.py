"""Comparisons of runs, kept: every click on a page runs its script from the top.

With thousands of runs forming the pairs takes longer than drawing what is shown of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bench_core.measured import Measured
from bench_core.pairing import Axis, Comparisons, Floors, comparisons

# As many filters as a few people look at by turns.
MOST_KEPT = 16


class _Kept(NamedTuple):
    measured: tuple[Measured, ...]  # held, so that no other run gets the place of one in memory
    found: Comparisons


_kept: dict[object, _Kept] = {}


def compared(measured: Sequence[Measured], axis: Axis, floors: Floors) -> Comparisons:
    """`comparisons` of these very objects: a run that goes on is another one each time."""
    key = (tuple(map(id, measured)), axis, frozenset(floors.items()))
    kept = _kept.pop(key, None) or _Kept(tuple(measured), comparisons(measured, axis, floors))
    _kept[key] = kept  # the newest stands last
    for oldest in list(_kept)[:-MOST_KEPT]:
        _kept.pop(oldest, None)
    return kept.found
