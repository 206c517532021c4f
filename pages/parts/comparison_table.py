"""The table of comparisons (a click on a row chooses the pair of the charts), what differs
between the arms, and the matrix."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from bench_core.chart_frame import GRAY
from bench_core.comparison import Comparison
from bench_core.doubts import doubts_of_pair
from bench_core.measured import PLAIN_VALUES
from bench_core.run import NOT_STATED, Run
from bench_core.units import count_text, seconds_text, value_text
from pages.parts.comparison_words import (
    change_text,
    differing_facts,
    even_from_text,
    nothing_shown_text,
    of_machine,
    of_workload,
    pair_name,
    pays_off_cells,
    speedup_cells,
    variant_of,
)
from pages.parts.kinds import kind_of
from pages.parts.machine_colors import chip_colors
from pages.parts.run_table import ROWS_WITHOUT_SCROLLING, chips_width
from pages.parts.text import plain

MOST_MATRIX_ROWS = 40
# Colour and symbol of the machines, as in the charts.
HEADS = (":blue[●]", ":violet[◆]", ":yellow[■]", ":green[▲]", ":gray[✖]")
EMPTY_CELL = float("nan")


def comparison_table(pairs: Sequence[Comparison], machines: Sequence[str]) -> int | None:
    """Draw the comparisons in their order; the position of the clicked one, if any.

    All of one kind of workload, so of one unit.
    """
    baseline, unit = pairs[0].baseline.name, pairs[0].unit
    of_function = pairs[0].workload.is_function
    size = "Input size" if of_function else "Batch"
    base_time = f"{baseline[0].upper()}{baseline[1:]} {unit}" if len(baseline) < 12 else "Baseline"
    along_variant = pairs[0].axis == ("variant",)
    arm = "Variant" if along_variant else "Arm"
    arms = [pair.candidate.name for pair in pairs]
    arm_width = min(190, 40 + 7 * max(map(len, arms)))
    if along_variant:
        arm_width = chips_width(arms, 90 if unit == "epoch" else 130)
    variant_time, first_time = f"{arm} {unit}", FIRST[unit]
    rows = [_row(pair, size, arm, base_time, variant_time, first_time) for pair in pairs]
    frame = pd.DataFrame(rows)
    # On a phone the speedup must be seen without scrolling: what all rows share needs no column.
    one = pairs[0]
    every_row = {arm: plain(one.candidate.name)}
    if one.states("batch_size"):
        every_row = {size: one.workload.size_text} | every_row
    if unit == "iteration" or not along_variant:  # whose table has more or wider columns
        every_row = {
            "Model": plain(one.workload.model),
            "Machine": f"on {plain(one.machine)}",
            **(
                {"Precision": one.workload.precision}
                if unit == "iteration" and one.states("precision")
                else {}
            ),
        } | every_row
    hidden = {name for name in every_row if frame[name].map(str).nunique() == 1}
    said = [words for name, words in every_row.items() if name in hidden]
    if not along_variant and "side" not in one.axis and len({*map(variant_of, pairs)}) == 1:
        said.append(plain(variant_of(one)))
    # On touch the table's toolbar lies on the end of the line above it: that one is short.
    everywhere = f"Every row: {', '.join(said)}.  \n" if said and len(pairs) > 1 else ""
    click = "Click a row to see its charts." if len(pairs) > 1 else "Its charts are below."
    st.caption(everywhere + click)
    if len(pairs) == 1:
        hidden = set()
    if not any(frame["Doubts"]):
        hidden.add("Doubts")
    if kind_of(one.workload) == "Inference":  # the arms' own table has them
        hidden |= {first_time, "Compiling"}
    else:
        hidden.add("Precision")
    conditions = varying_conditions(pairs)
    if any(conditions):
        frame.insert(list(frame).index("95 % interval") + 1, "Conditions", conditions)
    # Styler formats a value without its row. Equal ratios have equal digits but for a coincidence.
    ratios = {pair.speedup.ratio: speedup_cells(pair)[0] for pair in pairs}
    verdicts = [pair.speedup.verdict for pair in pairs]
    nothing_shown = [pair.speedup.verdict is None or nothing_shown_text(pair) for pair in pairs]
    seconds = (base_time, variant_time, first_time, "Compiling")
    formats = {"Speedup": ratios.get, size: count_text, **dict.fromkeys(seconds, seconds_text)}
    style = frame.style.format(formats)
    style = style.apply(
        lambda column: [f"color: {GRAY}" if gray else "" for gray in nothing_shown],
        subset=["Speedup", "95 % interval", "Pays off from"],
    )
    drawn = st.dataframe(
        style,
        # A click is a row's position: other rows are another table.
        key=f"pairs_{hash(tuple(pair_id(pair) for pair in pairs))}",
        on_select="rerun",
        selection_mode="single-cell",
        hide_index=True,
        column_order=[name for name in frame.columns if name not in hidden],
        placeholder="",
        height="content" if len(pairs) <= ROWS_WITHOUT_SCROLLING else 560,
        alt=f"Comparisons with their speedup, its interval and the {unit} from which they pay off",
        column_config={
            "Model": st.column_config.TextColumn(width=124 if of_function else 98, pinned=True),
            "Machine": st.column_config.MultiselectColumn(
                width=chips_width([pair.machine for pair in pairs], 74),
                options=list(machines),
                color=chip_colors(len(machines)),
            ),
            size: st.column_config.NumberColumn(width=52 if size == "Batch" else 84),
            arm: variant_column(arms, width=arm_width),
            "Precision": st.column_config.TextColumn(width=74),
            "Conditions": st.column_config.TextColumn(
                width=118, help="Where rows differ beyond model, machine, batch size and variant."
            ),
            "Speedup": st.column_config.NumberColumn(
                width=74,
                help=f"Steady seconds of {plain(baseline)} / steady seconds of the candidate, "
                "always of the same precision. 1.084× is the same as 8.4 % faster; below 1 it is "
                "slower.",
            ),
            "95 % interval": st.column_config.TextColumn(
                width=112 if all(verdicts) else 140,
                alignment="right",
                help="Over runs, each a process of its own. An interval that holds 1 shows no "
                "difference. With fewer than 3 runs an arm there is none: `first look` is how "
                f"far single {unit}s move the ratio, and no verdict rests on it.",
            ),
            "Pays off from": st.column_config.TextColumn(
                width=158 if unit == "epoch" else 290 if of_function else 190, help=PAYS_OFF[unit]
            ),
            "Warm cache": st.column_config.TextColumn(
                width=84 if unit == "epoch" else 124,
                help="The same when the compile cache was filled before.",
            ),
            base_time: st.column_config.NumberColumn(
                width=86 if unit == "epoch" else 98,
                help=f"Steady seconds of an {unit} of the baseline.",
            ),
            variant_time: st.column_config.NumberColumn(
                width=92 if unit == "epoch" else 104,
                help=f"Steady seconds of an {unit} of the candidate.",
            ),
            first_time: st.column_config.NumberColumn(
                width=80 if unit == "epoch" else 92, help=FIRST_HELP[unit]
            ),
            "Compiling": st.column_config.NumberColumn(
                width=78, help="Seconds inside the compiler, from a cold cache if measured."
            ),
            "Doubts": st.column_config.MultiselectColumn(
                width=150,
                options=list(
                    dict.fromkeys(label for labels in frame["Doubts"] for label in labels)
                ),
                color="gray",
                help="Reasons to distrust the number. In words, with the next step, for the chosen "
                "row below.",
            ),
            "Runs": st.column_config.TextColumn(
                width=54, help="Runs of the baseline + runs of the candidate."
            ),
        },
    )
    cells = drawn.selection.cells
    return cells[0][0] if cells and cells[0][0] < len(pairs) else None


FIRST = {"epoch": "First epoch", "iteration": "First answer"}
FIRST_HELP = {
    "epoch": "The candidate's first epoch, from a cold cache where that was measured.",
    "iteration": "The candidate's first call with what had to come before it: compiling, tracing, "
    "exporting. From a cold cache where that was measured.",
}
PAYS_OFF = {
    "epoch": "The epoch by whose end a cold start, compiling included, is paid back, and its 95 % "
    "interval. `about`: beyond what was measured.",
    "iteration": "The iteration by whose end a cold start is paid back, and its 95 % interval: "
    "compiling, tracing, freezing and exporting included. `about`: beyond what was measured.",
}


def variant_column(names: Sequence[str], **settings: Any) -> Any:
    """Arms as chips: eager grey, whatever compiles orange."""
    options = list(dict.fromkeys(names))
    colors = ["gray" if name.startswith("eager") else "orange" for name in options]
    return st.column_config.MultiselectColumn(options=options, color=colors, **settings)


def pair_id(pair: Comparison) -> str:
    """Names the pair in the address: the first runs of its arms."""
    return f"{pair.baseline.runs[0].run.number}-{pair.candidate.runs[0].run.number}"


def _row(
    pair: Comparison, size: str, arm_head: str, base_time: str, variant_time: str, first_time: str
) -> dict[str, object]:
    cold, warm = pays_off_cells(pair)
    arm = pair.candidate
    cache = arm.start_shown
    return {
        "Model": pair.workload.model,
        "Machine": [pair.machine],
        size: pair.workload.batch_size if pair.states("batch_size") else EMPTY_CELL,
        "Precision": pair.workload.precision if pair.states("precision") else "",
        arm_head: [arm.name],
        "Speedup": pair.speedup.ratio,
        "95 % interval": speedup_cells(pair)[1],
        "Pays off from": cold,
        "Warm cache": warm,
        base_time: pair.baseline.steady_seconds,
        variant_time: arm.steady_seconds,
        "Compiling": arm.compile_seconds(cache) or EMPTY_CELL,
        "Doubts": [doubt.label for doubt in doubts_of_pair(pair)],
        first_time: arm.first_seconds(cache) or EMPTY_CELL,
        "Runs": f"{len(pair.baseline.runs)} + {len(arm.runs)}",
    }


def varying_conditions(pairs: Sequence[Comparison]) -> list[str]:
    """For each pair, in words, the facts without a column that tell it from others like it.

    In training precision where it is not the same everywhere, the rest of the workload where a
    model has several, and what belongs to a machine (torch, threads in use) where a machine has
    several.
    """
    facts_of = [
        (
            ("everywhere", _everywhere(pair)),
            (f"model {pair.workload.model}", _workload(pair)),
            (f"machine {pair.machine}", of_machine(pair)),
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


def _everywhere(pair: Comparison) -> dict[str, object]:
    """Precision in training, whose table has no column of it; what is no axis is a condition."""
    facts: dict[str, object] = {}
    if pair.unit == "epoch" and "precision" not in pair.axis:
        facts["precision"] = pair.workload.precision if pair.states("precision") else NOT_STATED
    if not {"variant", "side"} & set(pair.axis):
        facts["variant"] = variant_of(pair)
    return facts


def _workload(pair: Comparison) -> dict[str, object]:
    shown = {"task", "model", "batch_size", "precision", *pair.axis}
    return {name: value for name, value in of_workload(pair).items() if name not in shown}


def _condition(name: str, value: object) -> str:
    if name in PLAIN_VALUES and value != NOT_STATED:
        return str(value)
    return f"{name} {value_text(value)}"


# The two cards of words


def facts_card(chosen: Comparison) -> None:
    """Facts of specification and environment that differ between the arms, and only those."""
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown("**Only what differs between the arms**")
        st.caption(plain(pair_name(chosen)))
        facts = differing_facts(
            [one.run for one in chosen.baseline.runs], [one.run for one in chosen.candidate.runs]
        )
        heads = ("Fact", chosen.baseline.name, chosen.candidate.name)
        st.table(
            {
                plain(head): [plain(cell) for cell in column]
                for head, column in zip(heads, zip(*facts, strict=True), strict=True)
            },
            border="horizontal",
            hide_index=True,
            alt="Facts of specification and environment that differ between the arms",
        )


def matrix_card(
    chosen: Comparison,
    pairs: Sequence[Comparison],
    failed: Sequence[Run],
    machines: Sequence[str],
) -> None:
    """Model x machine as badges: the change of speed and from where on it pays off.

    On several machines the latter alone: their speedups stand side by side above. Give one pair a
    cell, and the failed runs that would have had one.
    """
    columns = [name for name in machines if any(name == pair.machine for pair in pairs)]
    several = len(columns) > 1
    with st.container(border=True, gap="xsmall", height="stretch"):
        arm, work = chosen.candidate.name, chosen.workload
        precision = [work.precision] if chosen.states("precision") else []
        words = ", ".join(dict.fromkeys([arm, *chosen.words, *precision]))
        cold = ", compiled from a cold cache" if chosen.states("cache") else ""
        if several:
            st.markdown(f"**From which {chosen.unit} it pays off, by model and machine**")
            st.caption(f"{plain(words)}{cold}.")
        else:
            st.markdown("**Change of speed by model and machine**")
            st.caption(f"{plain(words)}, with the {chosen.unit} from which it pays off{cold}.")
        _matrix(pairs, failed, machines, columns, change=not several)
        st.caption(
            "none shown: the 95 % interval holds 0 %, or equal arms lie as far apart. "
            "never: slower once steady."
        )


def _matrix(
    pairs: Sequence[Comparison],
    failed: Sequence[Run],
    machines: Sequence[str],
    columns: Sequence[str],
    *,
    change: bool,
) -> None:
    models = [pair.workload.model for pair in pairs]
    models = list(dict.fromkeys([*models, *(run.spec.workload.model for run in failed)]))
    # Cut before anything is computed: a badge may cost the resampling of an interval.
    rows = {model: dict.fromkeys(columns, "") for model in models[:MOST_MATRIX_ROWS]}
    for pair in pairs:
        cells = rows.get(pair.workload.model)
        if cells is not None and not cells[pair.machine]:
            cells[pair.machine] = _badge(pair, change)
    for run in failed:
        cells = rows.get(run.spec.workload.model)
        if cells is not None and run.machine in columns and not cells[run.machine]:
            cells[run.machine] = f":red-badge[failed] {plain(run.failure or '')}"
    table: dict[str, list[str]] = {"": [plain(model) for model in rows]}
    for name in columns:
        place = machines.index(name) % len(HEADS)
        table[f"{HEADS[place]} {plain(name)}"] = [cells[name] for cells in rows.values()]
    st.table(table, border="horizontal", hide_index=True, alt="Speedup by model and machine")
    if len(models) > len(rows):
        st.caption(f"{len(models) - len(rows)} more models: narrow the filter to see them.")


def _badge(pair: Comparison, with_change: bool) -> str:
    speedup = pair.speedup
    if speedup.verdict == "no difference shown" or (speedup.verdict and pair.below_floor):
        return ":gray-badge[none shown]"
    if not pair.differs:
        return ":gray-badge[first look] none seen"
    verdict = pair.verdict_text.removeprefix("first look: ")
    change = change_text(verdict)
    if change != verdict:  # else `equally fast`
        change = ("+" if speedup.ratio > 1 else "−") + change
    even = even_from_text(pair)
    if speedup.kind == "first look":
        return f":gray-badge[{change if with_change or not even else even}] first look"
    color = "green" if speedup.verdict == "faster" else "red"
    return (
        f":{color}-badge[{change}] {even}" if with_change else f":{color}-badge[{even or change}]"
    )
