"""Compare: which variant is faster, where, and from which epoch it pays off.

Choices, then the answer as the title, then the table; the row that was clicked is the pair of the
charts below. The address holds every choice, so a link shows the same view. A ratio is formed by
bench_core.pairing only, between runs that differ in nothing but the chosen axis, or in what a
person took in with "Compare anyway".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import streamlit as st

from bench_core.comparison import EAGER
from bench_core.doubts import doubts_of_pair
from bench_core.ladder import ladder
from bench_core.machines import across
from bench_core.measured import Measured
from bench_core.pairing import (
    USUAL,
    Axis,
    Comparisons,
    comparisons,
    noise_floors,
)
from bench_core.store import Store
from bench_core.units import counted
from pages.parts import comparison_latency as latency
from pages.parts.compared import compared
from pages.parts.comparison_cards import cards_of
from pages.parts.comparison_charts import has_loss
from pages.parts.comparison_choices import choose, clear_filter, state_of
from pages.parts.comparison_ladder import ladder_card
from pages.parts.comparison_left_out import left_out_dialog, show_left_out
from pages.parts.comparison_machines import machines_section
from pages.parts.comparison_override import (
    anyway,
    differs_text,
    equal_groups,
    no_ratio,
    set_override,
)
from pages.parts.comparison_table import comparison_table, pair_id
from pages.parts.comparison_words import (
    answer,
    left_out_text,
    pair_name,
    parity_text,
    unmet_sentences,
)
from pages.parts.doubt_words import doubt_line
from pages.parts.in_address import put_into_address
from pages.parts.kinds import KINDS, kind_of
from pages.parts.measured import measured_runs, read_epochs
from pages.parts.report_button import report_button
from pages.parts.text import plain

PAGES = Path(__file__).resolve().parent
PAIRS_A_PAGE = 25
VIEW_ONLY = os.environ.get("BENCH_VIEW_ONLY") == "1"


def show_all_runs() -> None:
    for name in ("runs", "experiment", "override"):
        st.query_params.pop(name, None)


def new_run_button() -> None:
    if not VIEW_ONLY and st.button("New run", type="primary", icon=":material/add:"):
        st.switch_page(PAGES / "run.py")


def kind_in_address(ended: Sequence[Measured]) -> str:
    """The kind of the pair that the address names, else of what was measured last."""
    number = st.query_params.get("pair", "").rsplit("-", 1)[-1]
    named = [one.run for one in ended if str(one.run.number) == number]
    newest = max((one.run for one in ended), key=lambda run: run.ended_at or 0.0)
    return kind_of((named or [newest])[0].spec.workload)


with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
    st.title("Compare", anchor=False, width="content")
    buttons = st.container(horizontal=True, width="content")

experiment_id = st.query_params.get("experiment")
testing = bool(state_of("testing", False))
with Store() as store:
    runs = store.runs(experiment_id)
    machines = store.machines()
    experiment = store.experiment(experiment_id) if experiment_id else None
    experiments = [experiment] if experiment else store.experiments()
    picked = set(st.query_params.get("runs", "").split(",")) - {""}
    if picked:
        runs = [run for run in runs if str(run.number) in picked]
    measured = measured_runs(store, runs, testing)
    # How far equal arms lie apart on a machine holds for whatever is looked at.
    floors = noise_floors(measured_runs(store, store.equal_arms(), testing))

if picked or experiment_id:
    with st.container(horizontal=True, vertical_alignment="center"):
        only = f"{counted(len(runs), 'chosen run')}" if picked else "one experiment"
        st.caption(f"Only {only} of the results.", width="content")
        st.button(
            "Show all", type="tertiary", icon=":material/filter_alt_off:", on_click=show_all_runs
        )

ended = [one for one in measured if one.begun]
kinds = [kind for kind in KINDS if any(kind_of(one.run.spec.workload) == kind for one in ended)]
groups = equal_groups(ended) if picked else []
two_chosen = len(groups) == 2
if len(kinds) > 1 and not two_chosen:
    # Never in one table, chart or mean: epochs, calls of a model and calls of a function.
    kind = st.segmented_control(
        "What is compared",
        kinds,
        default=kind_in_address(ended),
        required=True,
        key="task",
        bind="query-params",
        label_visibility="collapsed",
    )
    kinds = [kind]
    measured = [one for one in measured if kind_of(one.run.spec.workload) == kind]

choice = choose(
    measured,
    machines,
    Axis.of(experiment) if experiment else USUAL,
    [one for one in experiments if any(one.id == m.run.experiment_id for m in measured)],
)
found = compared(choice.matching, choice.axis, floors)
overridden = two_chosen and not found.pairs and st.query_params.get("override") == "1"
if overridden:
    try:
        found = Comparisons((anyway(groups),), ())
    except ValueError as error:
        overridden = False
        st.markdown(f":yellow[:material/warning:] No ratio: {plain(str(error))}.")

if not found.pairs:
    baseline = plain(choice.axis.baseline_name or EAGER.name)
    if two_chosen and all(any(one.steady.median_seconds for one in group) for group in groups):
        no_ratio(groups, VIEW_ONLY)
        st.stop()
    if choice.narrowed and comparisons(measured, choice.axis, floors).pairs:
        st.markdown("No comparison matches.")
        st.button("Clear the filter", icon=":material/filter_alt_off:", on_click=clear_filter)
    else:
        with st.container(border=True):
            if len(groups) == 1 and len(runs) > 1:
                st.markdown(
                    "**No ratio: these runs are repeats of one variant**  \nTick one run of "
                    "another variant as well, or all runs of both variants."
                )
            else:
                other = "variant" if choice.axis.names == ("variant",) else "arm"
                st.markdown(
                    f"**Nothing to compare yet**  \nA comparison needs {baseline} and one other "
                    f"{other} of the same workload on one machine."
                )
            new_run_button()
        if side_by_side := across(found, choice.matching, machines):
            machines_section(side_by_side, machines, VIEW_ONLY)
    if found.left_out:
        with st.expander(f"Why not: {left_out_text(found)}", expanded=bool(picked)):
            show_left_out(found)
    st.stop()

# Best first, first looks last; a function's sizes in their order.
pairs = sorted(found.pairs, key=lambda pair: (pair.speedup.verdict is None, -pair.speedup.ratio))
chosen = pairs[0]
of_functions = chosen.workload.is_function
if of_functions:
    pairs.sort(key=lambda pair: pair.workload.batch_size)
    # The size that the answer names, or the nearest to it.
    chosen = next((pair for pair in pairs if pair.differs and pair.speedup.ratio > 1), pairs[-1])
by_id = {pair_id(pair): pair for pair in pairs}
chosen = by_id.get(st.query_params.get("pair", ""), chosen)
one_workload = (
    not of_functions
    and chosen.unit == "iteration"
    and (len(latency.beside(chosen, pairs)) == len(pairs))
)
title, detail = answer(found)
st.subheader(plain(title), anchor=False)
with st.container(horizontal=True, vertical_alignment="center"):
    st.markdown(plain(detail), width="content")
    left_out = left_out_text(found)
    if left_out and st.button(left_out, type="tertiary", icon=":material/info:", key="left_out"):
        left_out_dialog(found)
if overridden:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":yellow[:material/warning:] {plain(differs_text(chosen))}.", width="content")
        st.button("Take the ratio back", type="tertiary", on_click=set_override, args=(None,))
if choice.axis.names == ("side",):
    st.caption(
        "Equal arms: what they lie apart is this machine's noise, and smaller differences of other "
        "comparisons on it are no verdict."
    )
if experiment and experiment.axis == choice.axis.names and len(experiment.rungs) > 2:
    ladder_card(ladder(choice.matching, experiment, floors))
if of_functions:
    st.caption(
        "A steady call of compiled code against one of eager code. The article wrote "
        "torch.\\_dynamo.optimize: the old spelling of torch.compile."
    )
above = st.container()
# Only what is shown has its intervals and doubts computed, and its epochs read.
sheets = -(-len(pairs) // PAIRS_A_PAGE)
first_shown = 0
if sheets > 1:
    first_shown = (st.pagination(sheets, key="page", bind="query-params") - 1) * PAIRS_A_PAGE
shown = pairs[first_shown : first_shown + PAIRS_A_PAGE]
with Store() as store:
    for pair in (chosen, *shown):
        read_epochs(store, (*pair.baseline.runs, *pair.candidate.runs))
clicked = latency.arms_table(chosen, pairs) if one_workload else comparison_table(shown, machines)
if side_by_side := across(found, choice.matching, machines):
    with above:  # above the table, but made after it, which need not wait for this
        machines_section(side_by_side, machines, VIEW_ONLY)
if clicked is not None:
    chosen = (pairs if one_workload else shown)[clicked]
    put_into_address("pair", pair_id(chosen))

in_epochs = chosen.unit == "epoch"
view, log = "relative", False
with st.container(horizontal=True, vertical_alignment="center"):
    st.markdown(f"**{plain(pair_name(chosen))}**", width="content")
    if in_epochs:
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
# What the candidate of a single pair did not get is in the answer above.
not_told = (chosen.candidate, chosen.baseline)[len(pairs) == 1 :]
for sentence in unmet_sentences(*not_told):
    st.markdown(f":yellow[:material/warning:] {plain(sentence)}")
for doubt in doubts_of_pair(chosen):
    if doubt.kind not in ("not got", "differs besides"):  # told apart
        st.markdown(doubt_line(doubt))
if chosen.candidate.parity and not has_loss(chosen):  # else it stands beside the losses
    st.caption(plain(parity_text(chosen.candidate.parity)))
if not (in_epochs or of_functions or one_workload):
    latency.arms_table(chosen, pairs)

with Store() as store:
    cards = cards_of(chosen, pairs, found.left_out, machines, store, view, log)
    for start in range(0, len(cards), 2):
        row = cards[start : start + 2]
        for column, card in zip(st.columns(len(row), gap="small"), row, strict=True):
            with column:
                card()

with buttons:
    with st.popover("Share", icon=":material/link:"):
        st.caption("This address shows the same choices and the same pair.")
        parameters = [(key, one) for key in st.query_params for one in st.query_params.get_all(key)]
        if "task" not in st.query_params and not two_chosen:
            parameters.append(("task", kinds[0]))  # what is newest will be something else tomorrow
        address = f"{st.context.url}?{urlencode(parameters)}"
        st.code(address, language=None, wrap_lines=True)
    report_button(found, chosen, machines, address, side_by_side)
