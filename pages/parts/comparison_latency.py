"""Compare, inference: the table of a workload's arms, and the charts of latencies.

Numbers of an arm (percentiles, throughput, first call) stand beside those of its baseline; each
speedup is within one precision and one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from bench_core.comparison import Comparison
from bench_core.latency_figures import (
    Latencies,
    first_against_steady,
    latency_bars,
    latency_by_batch,
    latency_by_precision,
    throughput_by_batch,
)
from bench_core.measured import PERCENTILES, Arm
from bench_core.sizes import sizes_text
from bench_core.spec import EXECUTION_WORDS
from bench_core.units import rate_text, seconds_text
from pages.parts.comparison_charts import chart_card, size_word
from pages.parts.comparison_table import pair_id, variant_column
from pages.parts.comparison_titles import (
    first_title,
    latency_title,
    precision_title,
    throughput_title,
)
from pages.parts.comparison_words import (
    cell_name,
    pays_off_cells,
    speedup_cells,
    unmet_text,
    vary_in,
    vary_in_size_only,
)
from pages.parts.text import plain

EMPTY_CELL = float("nan")
ROW_HEIGHT = 24
FRAME_HEIGHT = 80


def beside(chosen: Comparison, pairs: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with the chosen one's baseline: all arms of one workload on one machine."""
    first = chosen.baseline.runs[0].run.number
    return [pair for pair in pairs if pair.baseline.runs[0].run.number == first]


def points_of(pairs: Sequence[Comparison]) -> list[Latencies]:
    """Each workload's baseline, then its candidates with their speedup as the note."""
    points: dict[tuple[int, str], Latencies] = {}
    for pair in pairs:
        cell = pair.baseline.runs[0].run.number
        base, arm = pair.baseline, pair.candidate
        points.setdefault((cell, base.name), Latencies.of(base, pair.workload))
        points[cell, arm.name] = Latencies.of(arm, pair.workload, speedup_cells(pair)[0])
    return list(points.values())


# The table


def arms_table(chosen: Comparison, pairs: Sequence[Comparison]) -> int | None:
    """Every arm of the chosen pair's workload, the baseline first, then the fastest.

    Where all pairs are of that workload it is the page's table: the clicked pair's position.
    """
    rate_head, size = _rate_head(chosen), size_word(chosen)
    cell = sorted(beside(chosen, pairs), key=lambda pair: -pair.speedup.ratio)
    rows = [_row(chosen.baseline, chosen), *(_row(pair.candidate, pair, pair) for pair in cell)]
    frame = pd.DataFrame(rows)
    alone = len(cell) == len(pairs)
    if not any(frame["Not as asked"]):
        frame = frame.drop(columns="Not as asked")
    times = ("p50", "p90", "p99", "First answer", "Compiling")
    arms = [chosen.baseline, *(pair.candidate for pair in cell)]
    st.markdown(f"**Every arm of {plain(cell_name(chosen))}**")
    # On touch the table's toolbar lies on the end of the line above it: this one is short.
    clickable = alone and len(cell) > 1
    st.caption("Click a row to see its charts." if clickable else "Latencies of steady calls.")
    settings: dict[str, Any] = {"on_select": "rerun", "selection_mode": "single-cell"}
    drawn = st.dataframe(
        frame.style.format({**dict.fromkeys(times, seconds_text), rate_head: _rate}),
        # A click is a row's position: other rows are another table.
        key=f"arms_{hash(tuple(map(pair_id, cell)))}",
        hide_index=True,
        placeholder="",
        alt="Latency percentiles, throughput, first answer and speedup of every arm",
        column_config={
            "Variant": variant_column([arm.name for arm in arms], width=130, pinned=True),
            **{
                name: st.column_config.NumberColumn(width=76, help=help)
                for name, help in (
                    ("p50", "Median of a run's steady iterations, geometric mean over the runs."),
                    (
                        "p90",
                        "Nine in ten of a run's steady iterations end within this time. Empty "
                        f"below {PERCENTILES[90]} of them.",
                    ),
                    (
                        "p99",
                        "All but one in a hundred of them end within this time. Empty below "
                        f"{PERCENTILES[99]} of them.",
                    ),
                )
            },
            rate_head: st.column_config.NumberColumn(
                width=80 if rate_head == "Images/s" else 92,
                help=f"{size.capitalize()} / median latency: one call after the other.",
            ),
            "First answer": st.column_config.NumberColumn(
                width=96,
                help="The first call with what had to come before it: compiling, tracing, "
                "freezing, exporting. From a cold cache where that was measured.",
            ),
            "Compiling": st.column_config.NumberColumn(
                width=82, help="Seconds of it inside the compiler, from a cold cache if measured."
            ),
            "Speedup": st.column_config.TextColumn(width=76, alignment="right"),
            "95 % interval": st.column_config.TextColumn(
                width=112 if all(pair.speedup.verdict for pair in cell) else 140,
                alignment="right",
            ),
            "Pays off from": st.column_config.TextColumn(width=206),
            "Not as asked": st.column_config.TextColumn(
                width=190, help="What the variant asked for and did not get."
            ),
            "Runs": st.column_config.NumberColumn(width=52),
        },
        **(settings if alone else {}),
    )
    old = [arm for arm in arms if "deprecated" in EXECUTION_WORDS[arm.variant.execution]]
    if old:
        names = ", ".join(arm.name for arm in old)
        st.caption(f"{plain(names)}: TorchScript, deprecated by PyTorch.")
    cells = drawn.selection.cells if alone else []
    if not cells or not 0 < cells[0][0] <= len(cell):
        return None
    return list(pairs).index(cell[cells[0][0] - 1])


def _row(arm: Arm, pair: Comparison, against: Comparison | None = None) -> dict[str, object]:
    point = Latencies.of(arm, pair.workload)
    cache = arm.start_shown
    speedup, interval = speedup_cells(against) if against else ("", "")
    return {
        "Variant": [arm.name],
        "p50": point.p50,
        "p90": point.p90 or EMPTY_CELL,
        "p99": point.p99 or EMPTY_CELL,
        _rate_head(pair): point.batch_size / point.p50,
        "First answer": arm.first_seconds(cache) or EMPTY_CELL,
        "Compiling": arm.compile_seconds(cache) or EMPTY_CELL,
        "Speedup": speedup,
        "95 % interval": interval,
        "Pays off from": pays_off_cells(against)[0] if against else "",
        "Not as asked": unmet_text(arm),
        "Runs": len(arm.runs),
    }


def _rate_head(pair: Comparison) -> str:
    return f"{pair.workload.thing.capitalize()}s/s"


def _rate(a_second: float) -> str:
    return rate_text(a_second)


# The charts


def latency_card(chosen: Comparison, pairs: Sequence[Comparison]) -> None:
    """Percentiles of every arm: by batch size where there are several."""
    points = points_of([pair for pair in pairs if vary_in("batch_size", pair, chosen)])
    title = latency_title(points)
    where = _where(chosen)
    if len({point.batch_size for point in points}) > 1:
        caption = f"{where}. Mark: median; its bar: to the 90th percentile; dash: the 99th."
        figure, height = latency_by_batch(points, title=title), 290
    else:
        caption = f"{where}, {chosen.workload.size_text}. Bar: median, with its speedup."
        figure, height = latency_bars(points, title=title), _height(len(points))
    chart_card(title, caption, figure, "latency", height=height)


def throughput_card(chosen: Comparison, pairs: Sequence[Comparison]) -> None:
    points = points_of([pair for pair in pairs if vary_in("batch_size", pair, chosen)])
    title = throughput_title(points, chosen.baseline.name, chosen.workload.thing)
    caption = f"{_where(chosen)}: batch size / median latency, one call after the other."
    chart_card(title, caption, throughput_by_batch(points, title=title), "throughput")


def first_card(chosen: Comparison, pairs: Sequence[Comparison]) -> None:
    """What the waiting costs: the first answer beside a steady call, for every arm."""
    points = points_of(beside(chosen, pairs))
    title = first_title(points, chosen.candidate.name, chosen.baseline.name)
    caption = (
        f"{cell_name(chosen)}. The first answer waits for compiling, tracing or exporting; from a "
        "cold cache where that was measured."
    )
    figure = first_against_steady(points, title=title)
    chart_card(title, caption, figure, "first", height=_height(len(points)))


def precision_card(chosen: Comparison, pairs: Sequence[Comparison]) -> None:
    """Arms by precision. A speedup is never across precisions."""
    points = points_of([pair for pair in pairs if vary_in("precision", pair, chosen)])
    title = precision_title(points)
    caption = (
        f"{chosen.workload.model} on {chosen.machine}, {chosen.workload.size_text}: median "
        f"latency, and the speedup against {chosen.baseline.name} of the same precision."
    )
    figure = latency_by_precision(points, title=title)
    chart_card(title, caption, figure, "precision", height=_height(len(points), legend=False))


def sizes_card(chosen: Comparison, pairs: Sequence[Comparison]) -> None:
    """A function's latency by the size of its input, and from where on compiling pays."""
    alike = [pair for pair in pairs if vary_in_size_only(pair, chosen)]
    title = sizes_text(alike)
    points = points_of([pair for pair in pairs if vary_in("batch_size", pair, chosen)])
    figure = latency_by_batch(points, size_word=size_word(chosen), tails=False, title=title)
    caption = "Median seconds of a steady call; what compiling takes is apart."
    chart_card(title, caption, figure, "sizes")


def _where(chosen: Comparison) -> str:
    precision = [chosen.workload.precision] if chosen.states("precision") else []
    return ", ".join([f"{chosen.workload.model} on {chosen.machine}", *precision])


def _height(rows: int, legend: bool = True) -> int:
    return max(290, FRAME_HEIGHT + 30 * legend + ROW_HEIGHT * rows)
