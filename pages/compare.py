"""Compare: which variant is faster, where, and from which epoch it pays off.

Choices, then the answer as the title, then the table; the row that was clicked is the pair of the
charts below. The address holds every choice, so a link shows the same view. A ratio is formed by
bench_core.pairing only, between runs that differ in nothing but the variant.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import streamlit as st

from bench_core.measured import Measured
from bench_core.pairing import EAGER, Comparison, LeftOut, comparisons, differences
from bench_core.run import Run
from bench_core.spec import Experiment
from bench_core.store import Store
from pages.parts import comparison_charts as charts
from pages.parts.comparison_table import comparison_table, matrix, pair_id
from pages.parts.comparison_words import (
    answer,
    difference_text,
    differing_facts,
    left_out_text,
    pair_name,
)
from pages.parts.draft import link_of, values_of
from pages.parts.measured import measured_runs
from pages.parts.text import plain

PAGES = Path(__file__).resolve().parent
VIEW_ONLY = os.environ.get("BENCH_VIEW_ONLY") == "1"


def clear_filter() -> None:
    st.session_state.update(machines=[], models=[], batches=[], precisions=[])


def show_all_runs() -> None:
    for name in ("runs", "experiment"):
        st.query_params.pop(name, None)


def new_run_button() -> None:
    if not VIEW_ONLY and st.button("New run", type="primary", icon=":material/add:"):
        st.switch_page(PAGES / "run.py")


@st.dialog("Runs that are left out", width="large")
def left_out_dialog(left_out: Sequence[LeftOut]) -> None:
    show_left_out(left_out)


def show_left_out(left_out: Sequence[LeftOut]) -> None:
    """Plain cells: reasons hold words of compilers and of users' files."""
    st.dataframe(
        {
            "Runs": [", ".join(str(run.number) for run in left.runs) for left in left_out],
            "What": [left.runs[0].title for left in left_out],
            "Machine": [left.runs[0].machine for left in left_out],
            "Why": [left.reason for left in left_out],
        },
        hide_index=True,
        height="content" if len(left_out) <= 10 else 380,
        column_config={
            "Runs": st.column_config.TextColumn(width=64),
            "What": st.column_config.TextColumn(width=240),
            "Machine": st.column_config.TextColumn(width=80),
            "Why": st.column_config.TextColumn(width=300),
        },
        alt="Runs that take part in no comparison, and why",
    )


def no_ratio(one: Measured, other: Measured) -> None:
    """Two chosen runs that cannot be set against each other: in what they differ, and a way out."""
    baseline, candidate = one.run, other.run
    if candidate.spec.variant.arm == EAGER:
        baseline, candidate = candidate, baseline
    found = differences(baseline, candidate)
    with st.container(border=True):
        if not found:
            st.markdown("**No ratio: these runs are repeats of one variant**")
            st.markdown("Tick one run of another variant as well, or all runs of both variants.")
            return
        st.markdown("**No ratio: these runs differ in more than the variant**")
        badges = [
            f":yellow-badge[{plain(difference_text(name, values))}]"
            for name, values in found.items()
        ]
        st.markdown(" ".join(badges))
        st.markdown("A speedup would mix up the effects.")
        work = baseline.spec.workload
        changed = [name for name in found if name in type(work).model_fields]
        if len(changed) < len(found):
            st.markdown(
                "Measure both on one machine, with one version of torch and as many threads."
            )
        elif not VIEW_ONLY:
            variant = candidate.spec.variant
            wanted = " and ".join(f"{name} {getattr(work, name)}" for name in changed)
            if st.button(f"Queue {plain(variant.name)} with {plain(wanted)}", type="primary"):
                experiment = Experiment(
                    models=(work.model,),
                    batch_sizes=(work.batch_size,),
                    precisions=(work.precision,),
                    variants=(variant.arm,),
                    device=baseline.spec.device,
                    workload=dict(work),
                    measurement=baseline.spec.measurement,
                )
                link = link_of(values_of(experiment), experiment.variants, "custom")
                st.switch_page(PAGES / "run.py", query_params=link)


def like(run: Run, chosen: Comparison) -> bool:
    """Whether the run's variant, batch size and precision are those of the chosen pair."""
    work, wanted = run.spec.workload, chosen.workload
    return (
        run.spec.variant.arm == chosen.candidate.variant
        and work.batch_size == wanted.batch_size
        and work.precision == wanted.precision
    )


header = st.container(
    horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
)
header.title("Compare", anchor=False, width="content")

with Store() as store:
    runs = store.runs(st.query_params.get("experiment"))
    machines = store.machines()
    picked = set(st.query_params.get("runs", "").split(",")) - {""}
    if picked:
        runs = [run for run in runs if str(run.number) in picked]
    measured = measured_runs(store, runs)

if picked or "experiment" in st.query_params:
    with st.container(horizontal=True, vertical_alignment="center"):
        only = f"{len(runs)} chosen runs" if picked else "one experiment"
        st.caption(f"Only {only} of the results.", width="content")
        st.button(
            "Show all", type="tertiary", icon=":material/filter_alt_off:", on_click=show_all_runs
        )

# Nothing chosen in a row of pills means all of it.
ended = [one for one in measured if one.epochs]
arms = list(dict.fromkeys(one.run.spec.variant.arm for one in ended))
arms.sort(key=lambda arm: arm != EAGER)
names = [arm.name for arm in arms]
with st.container(horizontal=True, vertical_alignment="center"):
    here = {one.run.machine for one in ended}
    chosen_machines = st.pills(
        "Machines",
        [machine for machine in machines if machine in here],
        selection_mode="multi",
        format_func=plain,
        key="machines",
        bind="query-params",
        label_visibility="collapsed",
    )
    chosen_models = st.pills(
        "Models",
        list(dict.fromkeys(one.run.spec.workload.model for one in ended)),
        selection_mode="multi",
        format_func=plain,
        key="models",
        bind="query-params",
        label_visibility="collapsed",
        wrap=True,
    )
    rest = st.container(width="content")
    # The label of the popover is its state, which is in the address before its widgets are drawn.
    state = {
        key: st.session_state.get(key, st.query_params.get_all(key))
        for key in ("batches", "precisions")
    }
    asked_baseline = st.session_state.get("baseline", st.query_params.get("baseline", "eager"))
    batches = ", ".join(str(batch) for batch in state["batches"])
    words = [f"batch {batches}" if batches else "all batch sizes", *state["precisions"]]
    label = f"{', '.join(words)} · against {asked_baseline}"
    with rest, st.popover(plain(label), icon=":material/tune:", key="rest"):
        chosen_batches = st.pills(
            "Batch sizes",
            sorted({one.run.spec.workload.batch_size for one in ended}),
            selection_mode="multi",
            key="batches",
            bind="query-params",
        )
        chosen_precisions = st.pills(
            "Precision",
            sorted({one.run.spec.workload.precision for one in ended}),
            selection_mode="multi",
            key="precisions",
            bind="query-params",
        )
        chosen_baseline = st.selectbox(
            "Baseline",
            names or ["eager"],
            key="baseline",
            bind="query-params",
            help="The arm that every other variant is compared with.",
        )

matching = [
    one
    for one in measured
    if (not chosen_machines or one.run.machine in chosen_machines)
    and (not chosen_models or one.run.spec.workload.model in chosen_models)
    and (not chosen_batches or one.run.spec.workload.batch_size in chosen_batches)
    and (not chosen_precisions or one.run.spec.workload.precision in chosen_precisions)
]
baseline = arms[names.index(chosen_baseline)] if chosen_baseline in names else EAGER
found = comparisons(matching, baseline)

if not found.pairs:
    if picked and len(measured) == 2 and all(one.steady.median_seconds for one in measured):
        no_ratio(*measured)
        st.stop()
    if len(matching) < len(measured) and comparisons(measured, baseline).pairs:
        st.markdown("No comparison matches.")
        st.button("Clear the filter", icon=":material/filter_alt_off:", on_click=clear_filter)
    else:
        with st.container(border=True):
            st.markdown(
                "**Nothing to compare yet**  \nA comparison needs "
                f"{plain(baseline.name)} and one other variant of the same workload on one machine."
            )
            new_run_button()
    if found.left_out:
        with st.expander(f"Why not: {left_out_text(found)}", expanded=bool(picked)):
            show_left_out(found.left_out)
    st.stop()

# Best first, first looks last.
pairs = sorted(found.pairs, key=lambda pair: (pair.speedup.verdict is None, -pair.speedup.ratio))
title, detail = answer(found)
st.subheader(plain(title), anchor=False)
with st.container(horizontal=True, vertical_alignment="center"):
    st.markdown(plain(detail), width="content")
    left_out = left_out_text(found)
    if left_out and st.button(left_out, type="tertiary", icon=":material/info:", key="left_out"):
        left_out_dialog(found.left_out)
clicked = comparison_table(pairs, machines)

by_id = {pair_id(pair): pair for pair in pairs}
if clicked is not None:
    st.query_params["pair"] = pair_id(pairs[clicked])
chosen: Comparison = by_id.get(st.query_params.get("pair", ""), pairs[0])

with st.container(horizontal=True, vertical_alignment="center"):
    st.markdown(f"**{plain(pair_name(chosen))}**", width="content")
    view = st.segmented_control(
        "Charts",
        ["relative", "absolute"],
        default="relative",
        required=True,
        key="view",
        bind="query-params",
        label_visibility="collapsed",
    )
    log = st.toggle(
        "Log axes",
        key="log",
        bind="query-params",
        help="Logarithmic axes for the charts by epoch. Batch sizes always have them.",
    )
left, right = st.columns(2, gap="small")
with left:
    if view == "absolute":
        charts.seconds_card(chosen, pairs)
    else:
        charts.speedup_card(chosen, pairs, machines)
with right:
    if view == "absolute":
        charts.cumulative_card(chosen, log)
    else:
        charts.saved_card(chosen)
left, right = st.columns(2, gap="small")
with left:
    charts.epochs_card(chosen, log)
with right:
    if charts.has_loss(chosen):
        charts.loss_card(chosen, log)

# The matrix is of one batch size and one variant: those of the chosen pair.
alike = [pair for pair in pairs if like(pair.candidate.runs[0].run, chosen)]
failed = [
    run
    for left in found.left_out
    for run in left.runs
    if run.status == "failed" and like(run, chosen)
]
columns = st.columns(2, gap="small") if len(alike) > 1 or failed else [st.container()]
with columns[0], st.container(border=True, gap="xsmall", height="stretch"):
    st.markdown("**Only what differs between the arms**")
    st.caption(plain(pair_name(chosen)))
    facts = differing_facts(
        [one.run for one in chosen.baseline.runs], [one.run for one in chosen.candidate.runs]
    )
    heads = ("Fact", chosen.baseline.variant.name, chosen.candidate.variant.name)
    st.table(
        {
            plain(head): [plain(cell) for cell in column]
            for head, column in zip(heads, zip(*facts, strict=True), strict=True)
        },
        border="horizontal",
        hide_index=True,
        alt="Facts of specification and environment that differ between the arms",
    )
if len(columns) > 1:
    with columns[1], st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown("**Change of speed by model and machine**")
        arm, work = chosen.candidate.variant.name, chosen.workload
        st.caption(
            f"{plain(arm)}, batch {work.batch_size}, {work.precision}, with the epoch from which "
            "it pays off, compiled from a cold cache."
        )
        matrix(alike, failed, machines)
        st.caption("none shown: the 95 % interval holds 0 %. never: slower once steady.")

with header.popover("Share", icon=":material/link:"):
    st.caption("This address shows the same choices and the same pair.")
    parameters = [(key, one) for key in st.query_params for one in st.query_params.get_all(key)]
    st.code(f"{st.context.url}?{urlencode(parameters)}", language=None, wrap_lines=True)
