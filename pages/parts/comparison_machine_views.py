"""A chart and a table of machines side by side, for each view of the section on Compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pandas as pd
import streamlit as st

from bench_core.chart_frame import CONFIG, GRAY, MACHINE_STYLES, Style, machine_styles
from bench_core.geomeans import Place
from bench_core.machine_words import (
    ahead_text,
    conditions,
    job_text,
    money_text,
    places_of,
    speedup_text,
    times_cell,
    why_text,
)
from bench_core.machines import Across, Row, ahead, cheapest, cost, fastest, rate, starts_known
from bench_core.measured import Arm
from bench_core.pair_figures import MachinePoint, dots_by_machine
from bench_core.stats import RUNS_FOR_A_VERDICT
from bench_core.units import count_text, rate_text, seconds_text
from pages.parts.comparison_table import variant_column
from pages.parts.run_table import EMPTY_CELL, MACHINE_COLORS, ROWS_WITHOUT_SCROLLING
from pages.parts.text import plain

SYMBOLS = {"circle": "●", "diamond": "◆", "square": "■", "triangle-up": "▲", "x": "✖"}
MOST_CHART_ROWS = 12
LONG_NAME = 20  # characters, or a phone has no room for the dots
EMPTY, EMPTY_HELP = "Why empty", "Why a machine has no number here."


class Cell(NamedTuple):
    """A value that sorts, how it is shown if not as it is, and whether it shows nothing."""

    value: Any
    text: str | None = None
    gray: bool = False


Line = dict[str, Cell]
ViewName = Literal["Speedup", "Fastest", "Seconds", "Throughput", "Cost"]
# Columns that say nothing where all rows have the same.
OF_EVERY_ROW = ("Batch", "Precision", "Conditions", "Arm", "Of")


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
    def styles(self) -> dict[str, Style]:
        """By the place's name. A further device of a machine has its colour and another symbol."""
        styles = machine_styles(self.machines)
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
    shown = dict.fromkeys(point.row for point in rows)
    first = list(shown)[:MOST_CHART_ROWS]
    caption = f"{_caption(view)}{_every_row(view)}"
    if len(shown) > len(first):
        caption += f" The first {len(first)} of {len(shown)} rows."
    figure = dots_by_machine(
        [point for point in rows if point.row in first],
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
    for row, label in zip(view.rows, _labels(view), strict=True):
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
                )
        elif view.name == "Cost":
            for best in cheapest(row, view.prices, view.count):
                text = f"{best.arm.name} {money_text(best.amount)}"
                yield MachinePoint(label, names[best.place], best.amount, text)
        else:
            of_base = {pair.baseline.name for pair in row.pairs.values()}
            for (place, arm_name), one in row.arms.items():
                value = rate(row, one) if view.name == "Throughput" else one.steady_seconds
                text = rate_text(value) if view.name == "Throughput" else seconds_text(value)
                yield MachinePoint(
                    label,
                    names[place],
                    value,
                    f"{arm_name} {text}",
                    hollow=len(one.runs) < RUNS_FOR_A_VERDICT,
                    pale=arm_name in of_base,
                )


def _labels(view: View) -> list[str]:
    """Models, each with what tells it from the others of its name."""
    found = []
    told = list(zip(view.rows, conditions(view.rows), strict=True))
    for row, words in told:
        work = row.workload
        others = [one.workload for one, _ in told if one.workload.model == work.model]
        more = [work.size_text] if len({one.batch_size for one in others}) > 1 else []
        more += [work.precision] if len({one.precision for one in others}) > 1 else []
        name = work.model_name
        short = name if len(name) <= LONG_NAME else f"{name[: LONG_NAME - 1]}…"
        found.append(", ".join(filter(None, [short, *more, words])))
    return found


def _caption(view: View) -> str:
    work = view.rows[0].workload
    hollow = " Hollow: a first look."
    bases = dict.fromkeys(p.baseline.name for row in view.rows for p in row.pairs.values())
    looks = any(
        len(arm.runs) < RUNS_FOR_A_VERDICT for row in view.rows for arm in row.arms.values()
    )
    pale = f" Pale: {', '.join(bases)}." if bases else ""
    match view.name:
        case "Speedup":
            arms = dict.fromkeys(arm for row in view.rows for arm in row.candidates)
            arm = next(iter(arms)) if len(arms) == 1 else "each arm"
            text = f"Speedup of {arm} against {', '.join(bases)} within each machine, with its 95"
            text += "\u00a0% interval; right of the line is faster."
        case "Throughput":
            text = f"{work.thing.capitalize()}s a second once steady, more is better.{pale}"
        case "Cost":
            text = (
                f"Cost of {job_text(view.rows[0], view.count, _all_starts(view))} with each "
                "machine's cheapest arm, less is better."
            )
            return text
        case _:
            text = f"Steady seconds of one {work.unit}, less is better.{pale}"
    return text + (hollow if looks else "")


def _every_row(view: View) -> str:
    """` Every row: batch 16.`, of what has no column then."""
    works = [row.workload for row in view.rows]
    words = [works[0].size_text] if len({work.batch_size for work in works}) == 1 else []
    if len({work.precision for work in works}) == 1 and works[0].precision != "fp32":
        words.append(works[0].precision)
    return f" Every row: {', '.join(words)}." if words else ""


def _all_starts(view: View) -> bool:
    return all(starts_known(row, view.prices) for row in view.rows)


# The table


def machines_table(view: View) -> None:
    """Numbers that sort. What every row shares has no column."""
    told = zip(view.rows, conditions(view.rows), strict=True)
    lines = [{**_workload(row, words), **line} for row, words in told for line in _lines(view, row)]
    heads = [
        head
        for head in lines[0]
        if (head not in OF_EVERY_ROW or len({str(line[head].value) for line in lines}) > 1)
        and (head != EMPTY or any(line[head].value for line in lines))
    ]
    frame = pd.DataFrame([{head: line[head].value for head in heads} for line in lines])
    style = frame.style
    for head in heads:
        cells = [line[head] for line in lines]
        # Equal numbers have equal digits but for a coincidence.
        texts = {cell.value: cell.text for cell in cells if cell.text is not None}
        if texts:
            style = style.format(lambda value, of=texts: of.get(value, ""), subset=[head])
        if any(cell.gray for cell in cells):
            grays = [f"color: {GRAY}" if cell.gray else "" for cell in cells]
            style = style.apply(lambda _, grays=grays: grays, subset=[head])
    st.dataframe(
        style,
        hide_index=True,
        placeholder="",
        height="content" if len(lines) <= ROWS_WITHOUT_SCROLLING else 560,
        column_config=_columns(view, heads),
        alt=_caption(view),
    )


def _workload(row: Row, words: str) -> Line:
    work = row.workload
    return {
        "Model": Cell(work.model_name),
        "Batch": Cell(work.batch_size, count_text(work.batch_size)),
        "Precision": Cell(work.precision),
        "Conditions": Cell(words),
    }


def _lines(view: View, row: Row) -> Iterator[Line]:
    match view.name:
        case "Fastest":
            yield _fastest(view, row)
        case "Cost":
            yield _cost(view, row)
        case _:
            of_pairs = view.name == "Speedup"
            for arm in row.candidates if of_pairs else row.arm_names:
                empty = why_text(view.across, view.places, row, arm, speedup=of_pairs)
                numbers = {view.head(p): _number(view.name, row, p, arm) for p in view.places}
                yield {"Arm": Cell([arm]), **numbers, EMPTY: Cell(empty)}


def _number(name: str, row: Row, place: Place, arm_name: str) -> Cell:
    if name == "Speedup":
        pair = row.pairs.get((place, arm_name))
        if pair is None:
            return Cell(EMPTY_CELL)
        text = speedup_text(pair).removesuffix(" none shown")  # grey, and its help says so
        return Cell(pair.speedup.ratio, text, gray=not pair.shows_difference)
    arm = row.arms.get((place, arm_name))
    if arm is None:
        return Cell(EMPTY_CELL)
    look = _look(arm)
    if name == "Throughput":
        value = rate(row, arm)
        return Cell(value, rate_text(value) + look, gray=bool(look))
    return Cell(arm.steady_seconds, seconds_text(arm.steady_seconds) + look, gray=bool(look))


def _look(arm: Arm) -> str:
    return " first look" if len(arm.runs) < RUNS_FOR_A_VERDICT else ""


def _fastest(view: View, row: Row) -> Line:
    best = fastest(row)
    first, second = best[:2]
    found = ahead(best)
    return {
        "Fastest": Cell([view.across.names[first.place]]),
        "With": Cell([first.arm.name]),
        f"One {row.workload.unit}": Cell(first.amount, seconds_text(first.amount)),
        "Ahead by": Cell(
            found.ratio, ahead_text(best), gray=found.verdict in (None, "no difference shown")
        ),
        "Next": Cell([view.across.names[second.place]]),
        "Its arm": Cell([second.arm.name]),
    }


def _cost(view: View, row: Row) -> Line:
    best = cheapest(row, view.prices, view.count)
    of = {one.place: one.amount for one in best}
    line = {
        view.head(place): Cell(of.get(place, EMPTY_CELL), money_text(of.get(place)))
        for place in view.places
    }
    first = best[0] if best else None
    line["Cheapest"] = Cell([view.across.names[first.place]] if first else [])
    line["With"] = Cell([first.arm.name] if first else [])
    times = best[1].amount / best[0].amount if len(best) > 1 else EMPTY_CELL
    line["Cheaper by"] = Cell(times, times_cell(times))
    if row.workload.unit == "epoch":
        epoch = cost(first.place, first.arm.steady_seconds, view.prices) if first else None
        line["One epoch"] = Cell(epoch or EMPTY_CELL, money_text(epoch))
    line["Of"] = Cell(job_text(row, view.count, starts_known(row, view.prices)))
    return line


def _columns(view: View, heads: Sequence[str]) -> dict[str, Any]:
    """Chips in the colours of machines and arms; numbers without a format keep their digits."""
    names = [view.across.names[place] for place in view.across.places]
    colors = [
        MACHINE_COLORS[view.machines.index(place.machine) % len(MACHINE_COLORS)]
        for place in view.across.places
    ]
    arms = list(dict.fromkeys(arm for row in view.rows for arm in row.arm_names))
    column = st.column_config
    numbers = {
        head: column.NumberColumn(width=_width(view.name), help=_HELP.get(view.name))
        for head in map(view.head, view.places)
    }
    known: dict[str, Any] = {
        "Model": column.TextColumn(width=98, pinned=True),
        "Batch": column.NumberColumn(width=52),
        "Precision": column.TextColumn(width=74),
        "Conditions": column.TextColumn(width=118),
        EMPTY: column.TextColumn(width=200, help=EMPTY_HELP),
        "Ahead by": column.NumberColumn(
            width=136,
            help="Steady seconds of the next machine's fastest arm / those of the fastest "
            "machine's. In brackets the 95 % interval over runs.",
        ),
        "Cheaper by": column.NumberColumn(
            width=84, help="Cost on the next machine / on the cheapest."
        ),
        **{head: variant_column(arms, width=88) for head in ("Arm", "With", "Its arm")},
        **{
            head: column.MultiselectColumn(options=names, color=colors, width=84)
            for head in ("Fastest", "Next", "Cheapest")
        },
        **numbers,
    }
    return {head: known[head] for head in heads if head in known}


_HELP = {
    "Speedup": "Steady seconds of the baseline / steady seconds of the arm, both on this machine. "
    "Grey: no difference shown, or a first look.",
    "Seconds": "Less is better.",
    "Throughput": "More is better.",
    "Cost": "Less is better. On one machine cost is time by its price, so it breaks even when time "
    "does.",
}


def _width(name: str) -> int:
    return {"Speedup": 104, "Cost": 76}.get(name, 84)
