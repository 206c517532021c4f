"""The table of runs: one row a run, ticks for what can be done with several."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median

import pandas as pd
import streamlit as st

from bench_core.figures import spark
from bench_core.measured import Measured
from bench_core.run import Run
from bench_core.units import bytes_text, count_text, seconds_text
from pages.parts.when import reader_zone, when_text

STATUS_COLORS = {
    "done": "gray",
    "queued": "gray",
    "running": "blue",
    "stopped": "yellow",
    "interrupted": "yellow",
    "failed": "red",
}
# By order of first appearance in the store, as in the charts.
MACHINE_COLORS = ("blue", "violet", "yellow", "#0F9577", "#6A5ACD")
SPARK_TOP = 2.5
ROWS_WITHOUT_SCROLLING = 15
EMPTY_CELL = float("nan")


def run_table(
    measured: Sequence[Measured], machines: Sequence[str], ticked: list[str]
) -> list[str]:
    """Draw the runs in their order; returns the ids of the ticked ones, given those from before."""
    ids = [one.run.id for one in measured]
    frame = pd.DataFrame([_row(one) for one in measured])
    if frame["Precision"].nunique() == 1:
        frame = frame.drop(columns="Precision")  # the same in every row: room for the others
    zone, now = reader_zone(), datetime.now(UTC)
    style = frame.style.format(
        {
            "Epochs": count_text,
            "Steady epoch": seconds_text,
            "Compiling": seconds_text,
            "Peak memory": bytes_text,
            "Measured": lambda at: when_text(None if at != at else at, zone, now),
        }
    )
    variants = list(dict.fromkeys(one.run.spec.variant.name for one in measured))
    drawn = st.dataframe(
        style,
        # A tick is a row's position: other rows are another table, ticked anew by id.
        key=f"runs_{hash(tuple(ids))}",
        on_select="rerun",
        selection_mode="multi-row",
        selection_default={
            "selection": {"rows": [ids.index(run_id) for run_id in ticked if run_id in ids]}
        },
        hide_index=True,
        placeholder="",
        height="content" if len(ids) <= ROWS_WITHOUT_SCROLLING else 560,
        alt="Runs, newest first, with their steady seconds per epoch and compile seconds",
        column_config={
            "Run": st.column_config.NumberColumn(width=48, pinned=True),
            "Status": st.column_config.MultiselectColumn(
                width=88, options=list(STATUS_COLORS), color=list(STATUS_COLORS.values())
            ),
            "Machine": st.column_config.MultiselectColumn(
                width=78,
                options=list(machines),
                color=[MACHINE_COLORS[at % len(MACHINE_COLORS)] for at in range(len(machines))],
            ),
            "Model": st.column_config.TextColumn(width=104),
            "Variant": st.column_config.MultiselectColumn(
                width=128,
                options=variants,
                color=["gray" if name == "eager" else "orange" for name in variants],
            ),
            "Cache": st.column_config.TextColumn(
                width=54, help="State of the compile caches that was asked for."
            ),
            "Batch": st.column_config.NumberColumn(width=54),
            "Precision": st.column_config.TextColumn(width=74),
            "Epochs over time": st.column_config.LineChartColumn(
                width=104,
                y_min=0,
                y_max=SPARK_TOP,
                color="gray",
                help="Seconds of each epoch over the steady epoch, up to 2.5 times of it.",
            ),
            "Epochs": st.column_config.NumberColumn(width=60),
            "Steady epoch": st.column_config.NumberColumn(
                width=98,
                help="Median seconds per epoch after start-up, compiling and the last change of "
                "speed. Empty when the run has no steady state.",
            ),
            "Compiling": st.column_config.NumberColumn(
                width=80, help="Seconds inside the compiler, over all epochs."
            ),
            "Peak memory": st.column_config.NumberColumn(width=96),
            "Measured": st.column_config.NumberColumn(width=114, alignment="left"),
        },
    )
    return [ids[position] for position in drawn.selection.rows if position < len(ids)]


def _row(one: Measured) -> dict[str, object]:
    run, work, variant = one.run, one.run.spec.workload, one.run.spec.variant
    peaks = [e.peak_memory_bytes for e in one.epochs if e.peak_memory_bytes is not None]
    return {
        "Run": run.number,
        "Status": [run.status],
        "Machine": [run.machine] if run.machine else [],
        "Model": work.model,
        "Variant": [variant.name],
        "Cache": variant.cache or "",
        "Batch": work.batch_size,
        "Precision": work.precision,
        "Epochs over time": _spark(one),
        "Epochs": EMPTY_CELL if run.status == "queued" else len(one.epochs),
        "Steady epoch": one.steady.median_seconds or EMPTY_CELL,
        "Compiling": one.compile_seconds or EMPTY_CELL,
        "Peak memory": max(peaks, default=EMPTY_CELL),
        "Measured": _measured_at(run),
    }


def _measured_at(run: Run) -> float:
    return EMPTY_CELL if run.started_at is None else run.started_at


def _spark(one: Measured) -> list[float]:
    """Epochs over the steady epoch (over the median where nothing is steady), cut at the top."""
    if not one.epochs:
        return []
    steady = one.steady.median_seconds or median(one.series_seconds)
    return [min(ratio, SPARK_TOP) for ratio in spark(one.series_seconds, steady)]
