"""Why machines that measured the same model do not stand in one row: what they differ in.

Of workloads that share task, model, batch and precision; of several the two that are nearest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

from bench_core.machines import Across, Row
from bench_core.run import NOT_STATED
from bench_core.units import value_text

# Of one model, batch and precision; a machine with more of them has its newest told.
MOST_ROWS = 20


def apart_sentences(across: Across, most: int | None = None) -> list[str]:
    """`T4 does not state dataset, samples, ...` and `T4 and CPU differ in image_size 32 and 224.`

    Each once for all workloads of the same two machines; empty where nothing is held apart. Of
    more facts than `most` the others are counted.
    """
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in across.rows:
        work = row.workload
        groups[work.task, work.model, work.batch_size].append(row)
    sentences: dict[str, None] = {}
    for rows in groups.values():
        together = {frozenset(two) for row in rows for two in combinations(row.places, 2)}
        for one, other in combinations(across.places, 2):
            if frozenset((one, other)) in together:
                continue
            ours, theirs = (
                [row for row in rows if place in row.places][:MOST_ROWS] for place in (one, other)
            )
            unlike = [_unlike(*two) for two in product(ours, theirs)]
            unlike = [found for found in unlike if "precision" not in _stated(found)]
            if found := min(unlike, key=len, default={}):
                names = across.names[one], across.names[other]
                sentences |= dict.fromkeys(_sentences(found, names, most))
    return list(sentences)


def _unlike(ours: Row, theirs: Row) -> dict[str, tuple[object, object]]:
    mine, yours = _facts(ours), _facts(theirs)
    return {
        name: (mine[name], yours[name])
        for name in mine
        if name in yours and mine[name] != yours[name]
    }


def _facts(row: Row) -> Mapping[str, object]:
    run = next(row.runs)
    unread = {*row.varied, "samples"} if row.workload.unit == "iteration" else row.varied
    return {
        name: NOT_STATED if name in run.unstated else value
        for name, value in row.workload
        if name not in unread
    }


def _stated(unlike: Mapping[str, tuple[object, object]]) -> dict[str, tuple[object, object]]:
    return {name: two for name, two in unlike.items() if NOT_STATED not in two}


def _sentences(
    unlike: Mapping[str, tuple[object, object]], names: Sequence[str], most: int | None
) -> Iterator[str]:
    for at, who in enumerate(names):
        if lacking := [name for name, two in unlike.items() if two[at] == NOT_STATED]:
            yield (
                f"{who} does not state {_listed(lacking, most)}, which {names[1 - at]} does: "
                "the two stand in one row where both state the same."
            )
    if stated := _stated(unlike):
        told = [
            f"{name} {value_text(mine)} and {value_text(yours)}"
            for name, (mine, yours) in stated.items()
        ]
        yield f"{names[0]} and {names[1]} differ in {_listed(told, most)}."


def _listed(words: Sequence[str], most: int | None) -> str:
    if most is None or len(words) <= most + 1:
        return ", ".join(words)
    return f"{', '.join(words[:most])} and {len(words) - most} more"
