"""Machines side by side on Compare: the table of a view, numbers that sort."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st

from bench_core.chart_frame import GRAY
from bench_core.geomeans import Place
from bench_core.machine_words import (
    ahead_text,
    conditions,
    job_text,
    money_text,
    speedup_text,
    times_cell,
    why_text,
)
from bench_core.machines import Row, ahead, cheapest, cost, fastest, rate, start_counted
from bench_core.units import count_text, rate_text, seconds_text
from pages.parts.comparison_machine_views import View, caption_of, is_first_look
from pages.parts.comparison_table import variant_column
from pages.parts.machine_colors import chip_color
from pages.parts.run_table import EMPTY_CELL, ROWS_WITHOUT_SCROLLING, chips_width

# Columns that say nothing where all rows have the same.
OF_EVERY_ROW = ("Batch", "Precision", "Conditions", "Arm", "Of")
EMPTY, EMPTY_HELP = "Why empty", "Why a machine has no number here."


class Cell(NamedTuple):
    """A value that sorts, how it is shown if not as it is, and whether it shows nothing."""

    value: Any
    text: str | None = None
    gray: bool = False


Line = dict[str, Cell]


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
        alt=caption_of(view),
    )


def _workload(row: Row, words: str) -> Line:
    work = row.workload
    cells = {
        "Model": Cell(row.model_name),
        "Batch": Cell(work.batch_size, count_text(work.batch_size)),
        "Precision": Cell(work.precision),
        "Conditions": Cell(words),
    }
    for name, head in (("batch_size", "Batch"), ("precision", "Precision")):
        if name in row.varied:  # it stands in the names of the arms
            del cells[head]
    return cells


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
    look = " first look" if is_first_look(arm) else ""
    if name == "Throughput":
        value = rate(arm)
        if value is None:
            return Cell(EMPTY_CELL)
        return Cell(value, rate_text(value) + look, gray=bool(look))
    return Cell(arm.steady_seconds, seconds_text(arm.steady_seconds) + look, gray=bool(look))


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
    line["Of"] = Cell(job_text(row, view.count, start_counted(row, view.prices)))
    return line


def _columns(view: View, heads: Sequence[str]) -> dict[str, Any]:
    """Chips in the colours of machines and arms; numbers without a format keep their digits."""
    names = [view.across.names[place] for place in view.across.places]
    colors = [chip_color(view.labels[place.machine]) for place in view.across.places]
    arms = list(dict.fromkeys(arm for row in view.rows for arm in row.arm_names))
    column = st.column_config
    numbers = {
        head: column.NumberColumn(width=_width(view), help=_HELP.get(view.name))
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
        **{
            head: variant_column(arms, width=chips_width(arms, 88))
            for head in ("Arm", "With", "Its arm")
        },
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


def _width(view: View) -> int:
    """`8.87 s first look` needs more room than `8.87 s`."""
    looks = any(is_first_look(arm) for row in view.rows for arm in row.arms.values())
    if view.name == "Speedup":
        return 104 if looks else 76
    return 116 if looks and view.name != "Cost" else 76
