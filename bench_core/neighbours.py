"""Runs without a partner: which other runs are nearest, and what those differ in. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import ne

from bench_core.run import NOT_STATED
from bench_core.spec import Variant
from bench_core.units import value_text

# A cell's conditions, as items in their order.
Conditions = tuple[tuple[str, object], ...]
# Of so many cells of one model on one device the nearest is looked for.
MOST_NEIGHBOURS = 20


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A cell among those of its model, machine and device; `facts` leave the batch out."""

    conditions: Conditions
    facts: Conditions
    batch: object
    arms: Collection[int]


def neighbourhood(
    cells: Mapping[Conditions, Mapping[int, object]],
) -> list[tuple[Neighbour, list[Neighbour]]]:
    """Each cell, in their order, with those of its place, itself among them."""
    by_place: dict[object, list[Neighbour]] = defaultdict(list)
    found = []
    for conditions, cell in cells.items():
        known = dict(conditions)
        batch = known.pop("batch_size", None)
        known.pop("samples", None)
        place = tuple(known.get(name) for name in ("model", "machine", "device"))
        here = Neighbour(conditions, tuple(known.items()), batch, cell.keys())
        by_place[place].append(here)
        found.append((here, by_place[place]))
    return found


def nearest_to(
    to: Neighbour, near: Sequence[Neighbour], arm: int, *, has_it: bool
) -> Neighbour | None:
    """The cell that differs in the fewest facts, of those with that arm, or with another one.

    Another batch weighs less than another fact: such runs were mostly meant to be the same.
    """
    fitting = (
        one
        for one in near
        if one is not to and (arm in one.arms if has_it else len(one.arms) > (arm in one.arms))
    )
    return min(
        islice(fitting, MOST_NEIGHBOURS),
        key=lambda one: 2 * sum(map(ne, to.facts, one.facts)) + (to.batch != one.batch),
        default=None,
    )


def difference_texts(here: Neighbour, nearest: Neighbour) -> dict[str, str]:
    """By the name of the fact: `batch_size is 256 here, 1024 there`."""
    differ = unlike(dict(here.conditions), dict(nearest.conditions))
    # As many samples as the batch holds are no other difference than the batch.
    if "batch_size" in differ and differ.get("samples") == differ["batch_size"]:
        del differ["samples"]
    return {
        name: f"{name} is {_told(ours)} here, {_told(theirs)} there"
        for name, (ours, theirs) in differ.items()
    }


def unlike(
    ours: Mapping[str, object], theirs: Mapping[str, object]
) -> dict[str, tuple[object, object]]:
    """What is not the same in both, or stated in one of them only: ours and theirs, by name."""
    return {
        name: (ours.get(name, NOT_STATED), theirs.get(name, NOT_STATED))
        for name in {**theirs, **ours}
        if ours.get(name) != theirs.get(name)
    }


def _told(value: object) -> str:
    return value.name if isinstance(value, Variant) else value_text(value)
