"""Machines side by side on Compare: what is viewed, and the chart of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import streamlit as st

from bench_core.chart_frame import CONFIG, MACHINE_STYLES, Style, machine_styles
from bench_core.geomeans import Place
from bench_core.machine_words import (
    conditions,
    job_text,
    money_text,
    places_of,
    speedup_text,
)
from bench_core.machines import Across, Row, cheapest, fastest, rate, start_counted
from bench_core.measured import Arm
from bench_core.pair_figures import MachinePoint, dots_by_machine
from bench_core.stats import RUNS_FOR_A_VERDICT
from bench_core.units import rate_text, seconds_text
from pages.parts.machine_colors import SYMBOLS
from pages.parts.text import plain

MOST_CHART_ROWS = 12
LONG_NAME = 20  # characters, or a phone has no room for the dots
ViewName = Literal["Speedup", "Fastest", "Seconds", "Throughput", "Cost"]


@dataclass(frozen=True)
class View:
    """What is drawn: rows on two machines at least, of one kind, in their order.

    `machines`: labels in the order of their colours. `count`: epochs of the training that a cost
    is of.
    """

    name: ViewName
    across: Across
    rows: Sequence[Row]
    machines: Sequence[str]
    prices: Mapping[str, float]
    count: int

    @property
    def places(self) -> list[Place]:
        return places_of(self.across, self.rows)

    @property
    def labels(self) -> dict[str, int]:
        """Every machine's place among the colours."""
        every = dict.fromkeys([*self.machines, *(place.machine for place in self.across.places)])
        return {label: at for at, label in enumerate(every)}

    @property
    def styles(self) -> dict[str, Style]:
        """By the place's name. A further device of a machine has its colour and another symbol."""
        styles = machine_styles(list(self.labels))
        found: dict[str, Style] = {}
        seen: dict[str, int] = {}
        for place in self.across.places:
            nth = seen[place.machine] = seen.get(place.machine, -1) + 1
            style = styles[place.machine]
            symbols = [one.symbol for one in MACHINE_STYLES]
            at = (symbols.index(style.symbol) + nth) % len(symbols)
            found[self.across.names[place]] = style._replace(symbol=symbols[at])
        return {self.across.names[place]: found[self.across.names[place]] for place in self.places}

    def head(self, place: Place) -> str:
        name = self.across.names[place]
        return f"{SYMBOLS[self.styles[name].symbol]} {name}"


# The chart


def machines_chart(view: View) -> None:
    rows = list(_points(view))
    if not rows:  # throughput, of files that state no samples
        st.caption("None of these files states how many samples an epoch has.")
        return
    shown = dict.fromkeys((point.row, point.key) for point in rows)
    first = list(shown)[:MOST_CHART_ROWS]
    caption = f"{caption_of(view)}{_every_row(view)}"
    if len(shown) > len(first):
        caption += f" The first {len(first)} of {len(shown)} rows."
    figure = dots_by_machine(
        [point for point in rows if (point.row, point.key) in first],
        view.styles,
        suffix={"Speedup": "\u00d7", "Throughput": "", "Cost": ""}.get(view.name, " s"),
        line_at=1.0 if view.name == "Speedup" else None,
        title=caption,
    )
    figure.update_layout(height=92 + (16 + 9 * len(view.places)) * len(first))
    st.caption(plain(caption))
    st.plotly_chart(figure, key=f"machines_{view.name.lower()}", config=CONFIG, alt=caption)


def _points(view: View) -> Iterator[MachinePoint]:
    names = view.across.names
    for key, (row, label) in enumerate(zip(view.rows, _labels(view), strict=True)):
        if view.name == "Speedup":
            for (place, arm), pair in row.pairs.items():
                yield MachinePoint(
                    label if len(row.candidates) == 1 else f"{label}, {arm}",
                    names[place],
                    pair.speedup.ratio,
                    f"{arm} {speedup_text(pair)}",
                    pair.speedup.low,
                    pair.speedup.high,
                    hollow=pair.speedup.verdict is None,
                    key=key,
                )
        elif view.name in ("Fastest", "Cost"):
            fast = view.name == "Fastest"
            for best in fastest(row) if fast else cheapest(row, view.prices, view.count):
                amount = seconds_text(best.amount) if fast else money_text(best.amount)
                yield MachinePoint(
                    label,
                    names[best.place],
                    best.amount,
                    f"{best.arm.name} {amount}",
                    hollow=is_first_look(best.arm),
                    key=key,
                )
        else:
            of_base = {pair.baseline.name for pair in row.pairs.values()}
            for (place, arm_name), one in row.arms.items():
                value = rate(one) if view.name == "Throughput" else one.steady_seconds
                if value is None:
                    continue
                text = rate_text(value) if view.name == "Throughput" else seconds_text(value)
                yield MachinePoint(
                    label,
                    names[place],
                    value,
                    f"{arm_name} {text}",
                    hollow=is_first_look(one),
                    pale=arm_name in of_base,
                    key=key,
                )


def _labels(view: View) -> list[str]:
    """Models, each with what tells it from the others of its name."""
    found = []
    told = list(zip(view.rows, conditions(view.rows), strict=True))
    names = {row.workload.model: row.model_name for row in view.rows}
    for row, words in told:
        work = row.workload
        others = [one.workload for one, _ in told if one.workload.model == work.model]
        more = [
            word
            for name, word in (("batch_size", work.size_text), ("precision", work.precision))
            if name not in row.varied and len({getattr(one, name) for one in others}) > 1
        ]
        short = _short(names[work.model])
        if sum(_short(name) == short for name in names.values()) > 1:
            short = names[work.model]
        found.append(", ".join(filter(None, [short, *more, words])))
    return found


def _short(name: str) -> str:
    return name if len(name) <= LONG_NAME else f"{name[: LONG_NAME - 1]}…"


def caption_of(view: View) -> str:
    work = view.rows[0].workload
    bases = dict.fromkeys(p.baseline.name for row in view.rows for p in row.pairs.values())
    pale = f" Pale: {', '.join(bases)}." if bases else ""
    match view.name:
        case "Speedup":
            arms = dict.fromkeys(arm for row in view.rows for arm in row.candidates)
            arm = next(iter(arms)) if len(arms) == 1 else "each arm"
            text = (
                f"Speedup of {arm} against {', '.join(bases)} within each machine, with its "
                "95\u00a0% interval; right of the line is faster."
            )
        case "Fastest":
            text = f"Steady seconds of one {work.unit}, each machine's fastest arm: less is better."
        case "Seconds":
            text = f"Steady seconds of one {work.unit}, less is better.{pale}"
        case "Throughput":
            text = f"{work.thing.capitalize()}s a second once steady, more is better.{pale}"
        case "Cost":
            jobs = [job_text(row, view.count, start_counted(row, view.prices)) for row in view.rows]
            job = " or ".join(dict.fromkeys(jobs))
            text = (
                f"Cost of {job} in the currency of the prices, with each machine's cheapest arm: "
                "less is better."
            )
    looks = any(is_first_look(arm) for row in view.rows for arm in row.arms.values())
    return text + (" Hollow: a first look." if looks else "")


def _every_row(view: View) -> str:
    """` Every row: batch 16.`, of what has no column then."""
    works = [row.workload for row in view.rows]
    words = [
        word
        for name, word in (
            ("batch_size", works[0].size_text),
            ("precision", works[0].unusual.get("precision", "")),
        )
        if name not in view.rows[0].varied and len({getattr(one, name) for one in works}) == 1
    ]
    words = list(filter(None, words))
    return f" Every row: {', '.join(words)}." if words else ""


def is_first_look(arm: Arm) -> bool:
    return len(arm.runs) < RUNS_FOR_A_VERDICT
