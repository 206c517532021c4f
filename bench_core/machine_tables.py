"""Machines side by side as rows of text, for the report and the terminal, and as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bench_core.geomeans import Place
from bench_core.machine_words import (
    ahead_text,
    conditions,
    headline,
    job_text,
    left_out_sentences,
    money_text,
    places_of,
    prices_text,
    side_by_side,
    speedup_text,
    whole_machines_text,
    why_text,
)
from bench_core.machines import Across, Row, cheapest, fastest, rate, start_counted
from bench_core.units import counted, rate_text, seconds_text


class Table(NamedTuple):
    """Rows of text under their heads; a note says what an empty cell or a mark means."""

    title: str
    rows: list[dict[str, str]]
    note: str = ""


def tables(across: Across, prices: Mapping[str, float], count: int, most: int = 50) -> list[Table]:
    """Speedups, the fastest machine, seconds of every arm, and costs where a machine has a price.

    `count`: epochs of the training that a cost is of. Of `most` workloads each.
    """
    every = side_by_side(across)
    rows = every[:most]
    if not rows:
        return []
    told = [
        ", ".join(filter(None, [row.model_name, *row.words, words]))
        for row, words in zip(rows, conditions(rows), strict=True)
    ]
    unlike = list(dict.fromkeys(filter(None, (row.unlike for row in rows))))
    hidden = max(0, len(every) - most)
    are = "is" if hidden == 1 else "are"
    more = f"{counted(hidden, 'more workload')} {are} not shown." if hidden else ""
    found = [
        Table("Speedup within each machine", _of_arms(across, rows, told, speedup=True), more),
        Table(
            "Fastest machine",
            [
                _fastest(across, row, name)
                for row, name in zip(rows, told, strict=True)
                if row.same_work
            ],
            whole_machines_text(across),
        ),
        Table(
            f"Steady seconds of one {rows[0].workload.unit}, less is better",
            _of_arms(across, rows, told, speedup=False),
            f"Where {' or '.join(unlike)}, seconds of machines are not of the same work."
            if unlike
            else "",
        ),
    ]
    if prices_text(across, prices):
        costs = [
            _costs(across, places_of(across, rows), row, name, prices, count)
            for row, name in zip(rows, told, strict=True)
            if row.same_work
        ]
        note = prices_text(across, prices)
        found.append(Table("Cost with each machine's cheapest arm, less is better", costs, note))
    return [table for table in found if table.rows]


def _of_arms(
    across: Across, rows: Sequence[Row], told: Sequence[str], *, speedup: bool
) -> list[dict[str, str]]:
    """A row an arm, with its speedup or its seconds on each machine, and why a cell is empty."""

    places = places_of(across, rows)

    def cell(row: Row, place: Place, arm: str) -> str:
        if speedup:
            pair = row.pairs.get((place, arm))
            return speedup_text(pair) if pair else ""
        found = row.arms.get((place, arm))
        return seconds_text(found.steady_seconds) if found else ""

    return [
        {
            "Workload": name,
            "Arm": arm,
            **{across.names[place]: cell(row, place, arm) for place in places},
            "Empty": why_text(across, places, row, arm, speedup=speedup),
        }
        for row, name in zip(rows, told, strict=True)
        for arm in (row.candidates if speedup else row.arm_names)
    ]


def _fastest(across: Across, row: Row, name: str) -> dict[str, str]:
    best = fastest(row)
    first, second = best[:2]
    a_second = rate(first.arm)
    return {
        "Workload": name,
        "Fastest": across.names[first.place],
        "With": first.arm.name,
        f"One {row.workload.unit}": seconds_text(first.amount),
        f"{row.workload.thing.capitalize()}s a second": rate_text(a_second) if a_second else "",
        "Ahead by": ahead_text(best),
        "Next": across.names[second.place],
        "Its arm": second.arm.name,
    }


def _costs(
    across: Across,
    places: Sequence[Place],
    row: Row,
    name: str,
    prices: Mapping[str, float],
    count: int,
) -> dict[str, str]:
    costs = {one.place: one.amount for one in cheapest(row, prices, count)}
    return {
        "Workload": name,
        "Of": job_text(row, count, start_counted(row, prices)),
        **{across.names[place]: money_text(costs.get(place)) for place in places},
        "Cheapest": across.names[min(costs, key=costs.__getitem__)] if costs else "",
    }


def as_json(across: Across) -> dict[str, Any]:
    """The same as numbers, seconds and ratios, for other programs."""
    names = across.names
    return {
        "machines": [{"name": names[place], **place._asdict()} for place in across.places],
        "headline": headline(across),
        "means": [
            {"arm": arm, "machine": mean.name, "ratio": mean.ratio, "workloads": mean.workloads}
            for arm, means in across.means.items()
            for mean in means.means
        ],
        "left_out": left_out_sentences(across),
        "workloads": [
            {
                "workload": row.workload.model_dump(mode="json"),
                "speedups": [
                    {"machine": names[place], "arm": arm, "ratio": pair.speedup.ratio,
                     "low": pair.speedup.low, "high": pair.speedup.high}
                    for (place, arm), pair in row.pairs.items()
                ],
                "steady_seconds": [
                    {"machine": names[place], "arm": name, "seconds": arm.steady_seconds}
                    for (place, name), arm in row.arms.items()
                ],
                "fastest": names[best[0].place] if (best := fastest(row)) else None,
            }
            for row in across.rows
        ],
    }  # fmt: skip
