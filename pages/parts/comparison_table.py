"""The table of comparisons (a click on a row chooses the pair of the charts) and the matrix."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from bench_core.chart_frame import GRAY
from bench_core.pairing import Comparison
from bench_core.run import Run
from bench_core.spec import Cache
from bench_core.units import percent_text, seconds_text
from pages.parts.comparison_words import pays_off_cells, speedup_cells
from pages.parts.run_table import MACHINE_COLORS, ROWS_WITHOUT_SCROLLING
from pages.parts.text import plain

MOST_MATRIX_ROWS = 40
# Colour and symbol of the machines, as in the charts.
HEADS = (":blue[●]", ":violet[◆]", ":yellow[■]", ":green[▲]", ":gray[✖]")
EMPTY_CELL = float("nan")


def comparison_table(pairs: Sequence[Comparison], machines: Sequence[str]) -> int | None:
    """Draw the comparisons in their order; the position of the clicked one, if any."""
    baseline = pairs[0].baseline.variant.name
    base_epoch = f"{baseline[0].upper()}{baseline[1:]} epoch" if len(baseline) < 12 else "Baseline"
    frame = pd.DataFrame([_row(pair, base_epoch) for pair in pairs])
    # On a phone the speedup must be seen without scrolling: what all rows share needs no column.
    shared = {name for name in ("Batch", "Variant") if frame[name].map(str).nunique() == 1}
    said = ([f"batch {pairs[0].workload.batch_size}"] if "Batch" in shared else []) + (
        [plain(pairs[0].candidate.variant.name)] if "Variant" in shared else []
    )
    everywhere = f"Every row: {', '.join(said)}. " if said and len(pairs) > 1 else ""
    st.caption(
        f"{everywhere}Click a row to see its charts below."
        if len(pairs) > 1
        else "Its charts are below."
    )
    if len(pairs) == 1:
        shared = set()
    conditions = varying_conditions(pairs)
    if any(conditions):
        frame.insert(4, "Conditions", conditions)
    # Styler formats a value without its row. Equal ratios have equal digits but for a coincidence.
    ratios = {pair.speedup.ratio: speedup_cells(pair)[0] for pair in pairs}
    verdicts = [pair.speedup.verdict for pair in pairs]
    nothing_shown = [verdict in (None, "no difference shown") for verdict in verdicts]
    seconds = (base_epoch, "Variant epoch", "First epoch", "Compiling")
    style = frame.style.format({"Speedup": ratios.get, **dict.fromkeys(seconds, seconds_text)})
    style = style.apply(
        lambda column: [f"color: {GRAY}" if gray else "" for gray in nothing_shown],
        subset=["Speedup", "95 % interval", "Pays off from"],
    )
    candidates = list(dict.fromkeys(pair.candidate.variant.name for pair in pairs))
    drawn = st.dataframe(
        style,
        # A click is a row's position: other rows are another table.
        key=f"pairs_{hash(tuple(pair_id(pair) for pair in pairs))}",
        on_select="rerun",
        selection_mode="single-cell",
        hide_index=True,
        column_order=[name for name in frame.columns if name not in shared],
        placeholder="",
        height="content" if len(pairs) <= ROWS_WITHOUT_SCROLLING else 560,
        alt="Comparisons with their speedup, its interval and the epoch from which they pay off",
        column_config={
            "Model": st.column_config.TextColumn(width=98, pinned=True),
            "Machine": st.column_config.MultiselectColumn(
                width=74,
                options=list(machines),
                color=[MACHINE_COLORS[at % len(MACHINE_COLORS)] for at in range(len(machines))],
            ),
            "Batch": st.column_config.NumberColumn(width=52),
            "Variant": st.column_config.MultiselectColumn(
                width=90,
                options=candidates,
                color=["gray" if name == "eager" else "orange" for name in candidates],
            ),
            "Conditions": st.column_config.TextColumn(
                width=94, help="Where rows differ beyond model, machine, batch size and variant."
            ),
            "Speedup": st.column_config.NumberColumn(
                width=74,
                help=f"Steady seconds of {plain(baseline)} / steady seconds of the candidate. "
                "1.084× is the same as 8.4 % faster; below 1 it is slower.",
            ),
            "95 % interval": st.column_config.TextColumn(
                width=112 if all(verdicts) else 150,
                alignment="right",
                help="Over runs, each a process of its own. An interval that holds 1 shows no "
                "difference. With fewer than 3 runs an arm there is none: `first look` is how "
                "far single epochs move the ratio, and no verdict rests on it.",
            ),
            "Pays off from": st.column_config.TextColumn(
                width=132,
                help="The epoch by whose end a cold start, compiling included, is paid back; an "
                "evaluation is timed apart. `about`: beyond what was measured.",
            ),
            "Warm cache": st.column_config.TextColumn(
                width=84, help="The same when the compile cache was filled before."
            ),
            base_epoch: st.column_config.NumberColumn(
                width=86, help="Steady seconds of an epoch of the baseline."
            ),
            "Variant epoch": st.column_config.NumberColumn(
                width=92, help="Steady seconds of an epoch of the candidate."
            ),
            "First epoch": st.column_config.NumberColumn(
                width=80,
                help="The candidate's first epoch, from a cold cache where that was measured.",
            ),
            "Compiling": st.column_config.NumberColumn(
                width=78, help="Seconds inside the compiler, from a cold cache if measured."
            ),
            "Runs": st.column_config.TextColumn(
                width=54, help="Runs of the baseline + runs of the candidate."
            ),
        },
    )
    cells = drawn.selection.cells
    return cells[0][0] if cells and cells[0][0] < len(pairs) else None


def pair_id(pair: Comparison) -> str:
    """Names the pair in the address: the first runs of its arms."""
    return f"{pair.baseline.runs[0].run.number}-{pair.candidate.runs[0].run.number}"


def _row(pair: Comparison, base_epoch: str) -> dict[str, object]:
    cold, warm = pays_off_cells(pair)
    arm = pair.candidate
    cache: Cache | None = "cold" if arm.excess_seconds("cold") is not None else None
    return {
        "Model": pair.workload.model,
        "Machine": [pair.machine],
        "Batch": pair.workload.batch_size,
        "Variant": [arm.variant.name],
        "Speedup": pair.speedup.ratio,
        "95 % interval": speedup_cells(pair)[1],
        "Pays off from": cold,
        "Warm cache": warm,
        base_epoch: pair.baseline.steady_seconds,
        "Variant epoch": arm.steady_seconds,
        "First epoch": arm.first_seconds(cache) or EMPTY_CELL,
        "Compiling": arm.compile_seconds(cache) or EMPTY_CELL,
        "Runs": f"{len(pair.baseline.runs)} + {len(arm.runs)}",
    }


def varying_conditions(pairs: Sequence[Comparison]) -> list[str]:
    """For each pair, in words, the facts without a column that tell it from others like it.

    Precision where it is not the same everywhere, the rest of the workload where a model has
    several, and what belongs to a machine (torch, threads in use) where a machine has several.
    """
    facts_of = [
        (
            ("everywhere", {"precision": pair.workload.precision}),
            (f"model {pair.workload.model}", _workload(pair)),
            (f"machine {pair.machine}", _of_machine(pair)),
        )
        for pair in pairs
    ]
    seen: dict[tuple[str, str], set[object]] = defaultdict(set)
    for groups in facts_of:
        for group, facts in groups:
            for name, value in facts.items():
                seen[group, name].add(value)
    return [
        ", ".join(
            _condition(name, value)
            for group, facts in groups
            for name, value in facts.items()
            if len(seen[group, name]) > 1
        )
        for groups in facts_of
    ]


def _workload(pair: Comparison) -> dict[str, object]:
    shown = ("task", "model", "batch_size", "precision")
    return {name: value for name, value in pair.workload if name not in shown}


def _of_machine(pair: Comparison) -> dict[str, object]:
    environment = pair.candidate.runs[0].run.environment
    return {
        "torch": pair.torch,
        "device": pair.device,
        "threads in use": environment and environment.threads,
        "device name": environment and environment.device_name,
        "machine id": pair.machine_id,
    }


def _condition(name: str, value: object) -> str:
    if name == "precision":
        return str(value)
    return f"{name} {'default' if value is None else value}"


def matrix(pairs: Sequence[Comparison], failed: Sequence[Run], machines: Sequence[str]) -> None:
    """Model x machine as badges: the change of speed and the epoch from which it pays off.

    Give one pair a cell, and the failed runs that would have had one.
    """
    columns = [name for name in machines if any(name == pair.machine for pair in pairs)]
    rows: dict[str, dict[str, str]] = {}
    for pair in pairs:
        cells = rows.setdefault(pair.workload.model, dict.fromkeys(columns, ""))
        cells[pair.machine] = cells[pair.machine] or _badge(pair)
    for run in failed:
        cells = rows.setdefault(run.spec.workload.model, dict.fromkeys(columns, ""))
        if run.machine in columns and not cells[run.machine]:
            cells[run.machine] = f":red-badge[failed] {plain(run.failure or '')}"
    shown = dict(list(rows.items())[:MOST_MATRIX_ROWS])
    table: dict[str, list[str]] = {"": [plain(model) for model in shown]}
    for name in columns:
        place = machines.index(name) % len(HEADS)
        table[f"{HEADS[place]} {plain(name)}"] = [cells[name] for cells in shown.values()]
    st.table(table, border="horizontal", hide_index=True, alt="Speedup by model and machine")
    if len(rows) > MOST_MATRIX_ROWS:
        st.caption(f"{len(rows) - MOST_MATRIX_ROWS} more models: narrow the filter to see them.")


def _badge(pair: Comparison) -> str:
    speedup = pair.speedup
    if speedup.verdict == "no difference shown":
        return ":gray-badge[none shown]"
    if not pair.differs:
        return ":gray-badge[first look] none seen"
    ends = (pair.band.low, pair.band.high) if pair.band else (speedup.low, speedup.high)
    sign = "+" if speedup.ratio > 1 else "−"
    change = f"{sign}{percent_text(speedup.ratio, *ends).rsplit(' ', 1)[0]}"
    if speedup.kind == "first look":
        return f":gray-badge[{change}] first look"
    color = "green" if speedup.verdict == "faster" else "red"
    even = pays_off_cells(pair)[0]
    epoch = even.rsplit(" ", 1)[-1]
    if even.endswith(f"epoch {epoch}"):
        even = f"from {epoch}"
    return f":{color}-badge[{change}] {even}"
