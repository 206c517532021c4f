"""Run: choose what to measure on the left, see what that means on the right, queue it.

The spec and this machine's capabilities judge each choice at once, so there is no form to submit:
what is wrong stands where the number of runs would stand. What is measured comes first: it decides
which presets and fields there are. The experiment's id is made before the
button is drawn, and the button carries it: pressing one drawn button twice queues once.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import streamlit as st

from bench_core import capabilities, worker
from bench_core.estimates import length_text
from bench_core.lacks import lacks_of
from bench_core.presets import PRESETS
from bench_core.spec import Experiment, SpecError, new_id
from bench_core.store import Store
from bench_core.units import bytes_text, counted
from pages.parts import draft, launch_arms, launch_settings, launch_work
from pages.parts.launch_preview import draw_preview, no_room, sentence
from pages.parts.launch_state import (
    KEPT,
    cards,
    chosen_values,
    follow_link,
    load_preset,
    presets_of,
    use_kind,
    variant_fields,
    write_link,
)
from pages.parts.text import plain

PAGES = Path(__file__).resolve().parent
VIEW_ONLY = os.environ.get("BENCH_VIEW_ONLY") == "1"
CONFIRM_SECONDS = 30 * 60
KIND_WORDS = {"training": "Training", "inference": "Inference", "functions": "Function"}
state = st.session_state


def launch(experiment: Experiment) -> None:
    with Store() as store:
        store.queue(experiment)
    state.run_launch_id = new_id()
    worker.ensure()
    st.switch_page(PAGES / "live.py", query_params={"experiment": experiment.id})


def back() -> None:
    state.run_asking = None


@st.dialog("This takes a while", icon=":material/schedule:", on_dismiss=back)
def confirm(experiment: Experiment, seconds: float) -> None:
    runs = len(experiment.runs())
    st.markdown(
        f"**{counted(runs, 'run')}, {length_text(experiment, seconds)}.** This machine measures "
        "one run at a time and should do nothing else meanwhile. You can stop at any time; what "
        "was measured is kept."
    )
    length = "samples, epochs" if experiment.runs()[0].workload.unit == "epoch" else "iterations"
    st.caption(f"Fewer {length} or repeats make it shorter.")
    with st.container(horizontal=True):
        if st.button(f"Queue {counted(runs, 'run')}", type="primary", key="run_confirm"):
            launch(experiment)
        if st.button("Back to the form", key="run_back", on_click=back):
            st.rerun()


offers = capabilities.cached()
unanswered = capabilities.failure() if offers is None else None
if offers is None and unanswered is None:
    capabilities.start_probe()
unreadable_link = follow_link(offers)

with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
    st.title("New run", anchor=False, width="content")
    command_line = st.popover(
        "The same on the command line", icon=":material/terminal:", width="content"
    )
if unreadable_link:
    st.markdown(f":yellow[:material/link_off:] {plain(unreadable_link)}")
first, second = st.columns([1, 2.1], gap="small")
first.segmented_control(
    "Task",
    list(KIND_WORDS),
    format_func=KIND_WORDS.__getitem__,
    key="run_kind",
    required=True,
    on_change=use_kind,
    help="Training by epochs, inference by single calls, or a function over growing inputs.",
    **KEPT,
)
second.pills(
    "Start from",
    presets_of(state.run_kind),
    format_func=lambda key: PRESETS[key].title,
    key="run_preset",
    required=True,
    on_change=load_preset,
    wrap=True,
    **KEPT,
)
st.caption(PRESETS[state.run_preset].caption)
left, right = st.columns([1.76, 1], gap="small")

with left, st.container(border=True):
    launch_work.what_to_measure(offers, unanswered)
with left, st.container(border=True):
    launch_arms.variants(offers)
with left, st.container(border=True):
    launch_arms.how_compared(no_room(offers))
with (
    left,
    st.expander("Fair arms: the same in every variant", icon=":material/balance:"),
    st.grid(2, min_column_width=230),
):
    launch_settings.fair_arms()
if state.run_kind != "functions":
    with left, st.expander("Data", icon=":material/dataset:"):
        launch_settings.data()
with left, st.expander("Limits and label", icon=":material/timer:"):
    launch_settings.limits()

# What is chosen, if it can be run

experiment: Experiment | None = None
try:
    variants = [draft.variant_of(variant_fields(number)) for number in cards()]
    experiment = draft.experiment_of(
        chosen_values(), variants, state.run_preset, state.run_launch_id, state.run_rungs
    )
    write_link(variants, offers)
    lacks = [lacks_of(run, offers) for run in experiment.runs()] if offers else []
    problems = list(dict.fromkeys(lack for of_run in lacks for lack in of_run))
except SpecError as error:
    problems = [str(error)]

with right, st.container(border=True, gap="small"):
    label, seconds = "Queue", 0.0
    if problems:
        st.markdown(f":red[:material/error:] **{plain(sentence(problems[0]))}**")
        for problem in problems[1:]:
            st.markdown(f"**{plain(sentence(problem))}**")
    elif experiment:
        seconds = draw_preview(experiment, offers)
        label = f"Queue {counted(len(experiment.runs()), 'run')}"
    if VIEW_ONLY:
        st.caption(
            "This dashboard is for viewing only (BENCH_VIEW_ONLY), so nothing can be queued here. "
            "The command line above does the same on a machine of your own."
        )
        pressed = False
    else:
        pressed = st.button(
            label,
            type="primary",
            icon=":material/play_arrow:",
            shortcut="Ctrl+Enter",
            width="stretch",
            disabled=bool(problems),
            key=f"run_queue_{state.run_launch_id}",
        )

with right:
    facts = [f"{bytes_text(psutil.virtual_memory().available)} free"]
    facts.append(counted(capabilities.usable_cores(), "core"))
    if offers:
        for name, found in (("openssl", offers.openssl), ("C++ compiler", offers.compiler)):
            mark = "check" if found else "close"
            facts.insert(0, f":material/{mark}: {name if found else f'no {name}'}")
        facts.append(f"torch {plain(offers.torch)}")
    st.caption(" · ".join(facts))

with command_line:
    if experiment:
        st.caption("In the folder of this program, with its Python:")
        st.code(experiment.command, language="bash", wrap_lines=True)
    else:
        st.caption("The form holds nothing that can be run yet.")

if pressed and experiment and not problems:
    if seconds <= CONFIRM_SECONDS:
        launch(experiment)
    state.run_asking = experiment.id
if experiment and not problems and state.get("run_asking") == experiment.id:
    confirm(experiment, seconds)
