"""The table of runs: one row a run, ticks for what can be done with several."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median

import pandas as pd
import streamlit as st

from bench_core.doubts import doubts_of_run
from bench_core.figures import spark
from bench_core.measured import Measured
from bench_core.run import Run
from bench_core.units import bytes_text, count_text, seconds_text
from pages.parts.kinds import kind_of
from pages.parts.machine_colors import chip_colors
from pages.parts.when import reader_zone, when_text

STATUS_COLORS = {
    "done": "gray",
    "queued": "gray",
    "running": "blue",
    "stopped": "yellow",
    "interrupted": "yellow",
    "failed": "red",
}
SPARK_TOP = 2.5
ROWS_WITHOUT_SCROLLING = 15
SHORT_NAME = 16
EMPTY_CELL = float("nan")


def run_table(
    measured: Sequence[Measured], machines: Sequence[str], ticked: list[str]
) -> list[str]:
    """Draw the runs in their order; returns the ids of the ticked ones, given those from before."""
    ids = [one.run.id for one in measured]
    units = {one.unit for one in measured}
    count, steady, first = HEADS[units.pop() if len(units) == 1 else "both"]
    functions = {one.run.spec.workload.is_function for one in measured}
    size = "Batch" if functions == {False} else "Input size" if functions == {True} else "Batch, n"
    frame = pd.DataFrame([_row(one, size, count, steady, first) for one in measured])
    for name in ("Task", "Precision", "Cache", "From"):
        if frame[name].nunique() == 1:
            frame = frame.drop(columns=name)  # the same in every row: room for the others
    zone, now = reader_zone(), datetime.now(UTC)
    style = frame.style.format(
        {
            **dict.fromkeys((size, count), count_text),
            **dict.fromkeys((steady, first, "Compiling"), seconds_text),
            "Memory": bytes_text,
            "Measured": lambda at: when_text(None if at != at else at, zone, now),
        }
    )
    variants = list(dict.fromkeys(one.run.spec.variant.name for one in measured))
    doubts = list(dict.fromkeys(label for labels in frame["Doubts"] for label in labels))
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
        alt="Runs, newest first, with their steady seconds, their first and compile seconds",
        column_config={
            "Run": st.column_config.NumberColumn(width=44, pinned=True),
            "Status": st.column_config.MultiselectColumn(
                width=90, options=list(STATUS_COLORS), color=list(STATUS_COLORS.values())
            ),
            "Task": st.column_config.TextColumn(width=72),
            "Machine": st.column_config.MultiselectColumn(
                width=chips_width([one.run.machine for one in measured], 64),
                options=list(machines),
                color=chip_colors(len(machines)),
            ),
            "Model": st.column_config.TextColumn(
                width=88 if frame["Model"].str.len().max() < SHORT_NAME else 150
            ),
            "Variant": st.column_config.MultiselectColumn(
                width=chips_width(variants, 120),
                options=variants,
                color=["gray" if name == "eager" else "orange" for name in variants],
            ),
            "Cache": st.column_config.TextColumn(
                width=50, help="State of the compile caches that was asked for."
            ),
            size: st.column_config.NumberColumn(
                width=50 if size == "Batch" else 72,
                help="Samples in a batch; for a function the size n of its input.",
            ),
            "Precision": st.column_config.TextColumn(width=70),
            "From": st.column_config.TextColumn(
                width=96, help="The file that an imported run comes from."
            ),
            "Over time": st.column_config.LineChartColumn(
                width=76,
                y_min=0,
                y_max=SPARK_TOP,
                color="gray",
                help="Seconds of each epoch, or in inference of single iterations, over the "
                "steady seconds, up to 2.5 times of them.",
            ),
            count: st.column_config.NumberColumn(
                width=72 if count == "Iterations" else 58,
                help="Epochs in training, iterations in inference.",
            ),
            steady: st.column_config.NumberColumn(
                width={"Steady": 76, "Steady epoch": 94}.get(steady, 104),
                help="Median seconds per epoch, in inference per iteration, after start-up, "
                "compiling and the last change of speed. Empty when the run has no steady state.",
            ),
            first: st.column_config.NumberColumn(
                width=84,
                help="The first epoch; in inference the wait for the first answer: with what came "
                "before it, compiling, tracing or exporting.",
            ),
            "Compiling": st.column_config.NumberColumn(
                width=74, help="Seconds inside the compiler, over the whole run."
            ),
            "Memory": st.column_config.NumberColumn(width=70, help="Peak memory."),
            "Doubts": st.column_config.MultiselectColumn(
                width=130 if doubts else 66,
                options=doubts,
                color=["gray"] * len(doubts),
                help="Reasons to distrust the times of the run. Tick it: its card tells them in "
                "full, with what to do.",
            ),
            "Measured": st.column_config.NumberColumn(width=104, alignment="left"),
        },
    )
    return [ids[position] for position in drawn.selection.rows if position < len(ids)]


def chips_width(labels: Sequence[str], usual: int) -> int:
    """Of a column of machines or variants in pixels: wider for long labels, up to a limit."""
    return max(usual, min(150, 26 + 7 * max(map(len, labels), default=0)))


# What is counted, the steady times and the first one, by unit and where both are shown.
HEADS = {
    "epoch": ("Epochs", "Steady epoch", "First epoch"),
    "iteration": ("Iterations", "Steady iteration", "First answer"),
    "both": ("Count", "Steady", "First"),
}


def _row(one: Measured, size: str, count: str, steady: str, first: str) -> dict[str, object]:
    run, work, variant = one.run, one.run.spec.workload, one.run.spec.variant
    return {
        "Run": run.number,
        "Status": [run.status],
        "Task": kind_of(work),
        "Machine": [run.machine] if run.machine else [],
        "Model": work.model,
        "Variant": [variant.name],
        "Cache": (variant.cache or "") if run.states("cache") else "",
        size: work.batch_size if run.states("batch_size") else EMPTY_CELL,
        "Precision": work.precision if run.states("precision") else "",
        "From": run.source.file if run.import_id and run.source else "",
        "Over time": _spark(one),
        count: EMPTY_CELL if run.status == "queued" or run.stated else one.count,
        steady: one.steady.median_seconds or EMPTY_CELL,
        "Doubts": [doubt.label for doubt in doubts_of_run(one)],
        first: one.first_seconds or EMPTY_CELL,
        "Compiling": one.compile_seconds or EMPTY_CELL,
        "Memory": one.peak_memory_bytes or EMPTY_CELL,
        "Measured": _measured_at(run),
    }


def _measured_at(run: Run) -> float:
    return EMPTY_CELL if run.started_at is None else run.started_at


def _spark(one: Measured) -> list[float]:
    """The series over its steady value, or its median where nothing is steady, cut at the top."""
    if not one.epochs:
        return []
    steady = one.steady.median_seconds or median(one.series_seconds)
    return [min(ratio, SPARK_TOP) for ratio in spark(one.series_seconds, steady)]
