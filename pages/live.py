"""Live: an experiment while it is measured, its end, and its replay.

Everything comes from the store and the address (`/watch?experiment=ID`), so a refresh, a second
tab and a restarted server show the same. One timer draws the clocks; when an epoch, some blocks of
iterations or a run have ended it draws the whole page again. Without anything to wait for there is
no timer.
"""

import os
import time
from pathlib import Path

import streamlit as st

from bench_core.ladder import arm_names
from bench_core.run import Run
from bench_core.spec import Experiment
from bench_core.store import Store
from bench_core.time_left import measuring_seconds
from bench_core.units import count_text, counted, duration_text
from pages.parts import live_cards, live_charts
from pages.parts.kinds import model_text
from pages.parts.live_endings import draw_answers, draw_failures, draw_left_out, draw_protocol
from pages.parts.live_metrics import draw_metrics
from pages.parts.live_reading import (
    Reading,
    cell_names,
    cell_of,
    followed_cell,
    read,
)
from pages.parts.running import wake_worker
from pages.parts.text import plain
from pages.parts.when import reader_zone, when_text

PAGES = Path(__file__).resolve().parent
VIEW_ONLY = os.environ.get("BENCH_VIEW_ONLY") == "1"
FOLLOW = "follow"


def newest(store: Store) -> Experiment | None:
    """What a person who names nothing wants to see: what runs, what comes next, what was last."""
    for run in (*store.running(), *store.queued()):
        return store.experiment(run.experiment_id)
    last = store.last_measured()
    if last:
        return store.experiment(last.experiment_id)
    return next(iter(store.experiments(limit=1)), None)


def stop(numbers: list[int]) -> None:
    with Store() as store:
        for number in numbers:
            store.stop(number=number)


def empty_queue(numbers: list[int]) -> None:
    with Store() as store:
        for run in store.queued():
            if run.number in numbers:  # one that has started meanwhile goes on
                store.stop(number=run.number)


# Not in the address: a timer's request that is on its way brings the old address back.
def start_replay(experiment_id: str) -> None:
    st.session_state.replaying = (experiment_id, time.time())


def end_replay() -> None:
    st.session_state.pop("replaying", None)


def replay_since(experiment: Experiment) -> float | None:
    experiment_id, since = st.session_state.get("replaying", ("", 0.0))
    return since if experiment_id == experiment.id else None


def title_of(reading: Reading) -> str:
    """`resnet101 on T4: eager against compile`, `resnet18 inference on CPU: eager against ...`."""
    experiment, work = reading.experiment, reading.runs[0].spec.workload
    models = ", ".join(map(model_text, experiment.models))
    if len(experiment.models) > 2:
        models = f"{len(experiment.models)} models"
    if work.task == "infer" and not work.is_function:
        models += " inference"
    machine = next((run.machine for run in reading.runs if run.machine), experiment.device)
    names = arm_names(experiment) if experiment.rungs else [v.name for v in experiment.variants]
    first, *others = dict.fromkeys(names)
    arms = [first, *others] if len(others) <= 2 else [first, f"{len(others)} others"]
    return f"{models} on {machine}: {' against '.join(arms)}"


def conditions_of(reading: Reading) -> str:
    """`batch 16 · fp32 · 1 000 samples an epoch · 30 epochs · 2 runs an arm`."""
    experiment, spec = reading.experiment, reading.runs[0].spec
    work = spec.workload
    words = [work.size_text, work.precision]
    if work.task == "train":
        words.append(f"{count_text(work.samples)} samples an epoch")
    else:
        words.append("forward and backward" if work.backward else str(work.grad_mode))
    words += [
        counted(spec.is_done_after, work.unit),
        f"{'at most ' * bool(experiment.measurement.until_sure)}"
        f"{counted(experiment.repeats, 'run')} an arm",
    ]
    if experiment.measurement.protocol == "paired":
        words.append("arms take turns")
    return " · ".join(words)


def header(title: str) -> st.delta_generator.DeltaGenerator:
    row = st.container(
        horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
    )
    row.title(plain(title), anchor=False, width="content")
    return row.container(horizontal=True, width="content", vertical_alignment="center")


def new_run_button(primary: bool) -> None:
    if not VIEW_ONLY and st.button(
        "New run",
        type="primary" if primary else "secondary",
        icon=":material/add:",
        key="new_run",
    ):
        st.switch_page(PAGES / "run.py")


asked = st.query_params.get("experiment")
with Store() as store:
    experiment = store.experiment(asked) if asked else newest(store)
    reading = read(store, experiment, replay_since(experiment)) if experiment else None

if asked and not (experiment and reading and reading.runs):
    header("Live")
    with st.container(border=True):
        st.markdown(
            "**There is no such experiment**  \nIt was deleted, or it lies in another data "
            "folder. The address names it as:"
        )
        st.text(asked)
        with st.container(horizontal=True):
            if st.button("Watch the newest", icon=":material/monitoring:"):
                st.switch_page(PAGES / "live.py")
            if st.button("Results", icon=":material/table_rows:"):
                st.switch_page(PAGES / "results.py")
    st.stop()

if experiment is None or reading is None:
    header("Live")
    with st.container(border=True):
        st.markdown(
            "**Nothing is running on this machine**  \nStart a run to watch its epochs come in "
            "one by one."
        )
        new_run_button(primary=True)
    st.stop()

st.query_params["experiment"] = experiment.id
if not reading.replay:
    end_replay()  # it is over

# Buttons name the runs they were drawn for: a second press never stops the run after that.
with header(title_of(reading)):
    running = [one.run.number for one in reading.taking_turns]
    if reading.replay:
        st.button("End the replay", icon=":material/stop_circle:", on_click=end_replay)
    elif reading.active and not VIEW_ONLY:
        if running:
            with Store() as store:
                stopping = all(map(store.stop_requested, running))
            st.button(
                "Stopping" if stopping else "Stop",
                icon=":material/stop_circle:",
                key="stop",
                on_click=stop,
                args=(running,),
                disabled=stopping,
                help=f"Stops {'this run' if len(running) == 1 else 'the runs that take turns'} "
                "within 5 seconds and frees the device. What was measured is kept.",
            )
        if reading.queued:
            st.button(
                "Empty the queue",
                type="tertiary",
                key="empty",
                on_click=empty_queue,
                args=([run.number for run in reading.queued],),
                help="Takes the waiting runs of this experiment out of the queue. The one that is "
                "measured goes on.",
            )
    elif not reading.active:
        st.button(
            "Replay" if reading.others else "Replay the last experiment",
            icon=":material/replay:",
            key="replay",
            on_click=start_replay,
            args=(experiment.id,),
            help="Shows how it went, ten times faster, from the stored times.",
        )
        new_run_button(primary=False)


def ended_line(reading: Reading) -> str:
    runs = reading.runs
    ends = [run.ended_at for run in runs if run.ended_at]
    spent = measuring_seconds(runs, reading.now)
    words = [counted(len(runs), "run")]
    words += [duration_text(spent)] if spent else []
    words += [f"ended {when_text(max(ends), reader_zone())}"] if ends else []
    line = ", ".join(words)
    return (
        line
        if reading.others
        else f"Nothing is running on this machine. This was the last: {line}."
    )


# What to look at. These stay outside of the timer: a choice must not race with it.
names = list(dict.fromkeys(cell_names(experiment, reading.runs).values()))
spec = reading.runs[0].spec
with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
    choice = FOLLOW
    if len(names) > 1:
        followed = "Running now" if reading.active else "Latest"
        choice = st.pills(
            "Model, batch size and precision",
            [FOLLOW, *names],
            default=FOLLOW,
            required=True,
            format_func=lambda name: followed if name == FOLLOW else plain(name),
            key="cell",
            bind="query-params",
            label_visibility="collapsed",
        )
    elif reading.replay:
        st.badge("replay, ten times faster", icon=":material/replay:", color="gray")
    else:
        st.caption(conditions_of(reading) if reading.active else ended_line(reading))
    second = st.segmented_control(
        "Second chart",
        live_charts.SECOND[spec.workload.unit],
        default=live_charts.SAVED,
        required=True,
        # A key each: a choice of the one is none of the other.
        key={"epoch": "chart", "iteration": "second"}[spec.workload.unit],
        bind="query-params",
        label_visibility="collapsed",
    )
if len(names) > 1:
    if reading.replay:
        st.badge("replay, ten times faster", icon=":material/replay:", color="gray")
    elif not reading.active:
        st.caption(ended_line(reading))

draw_answers(reading)
draw_protocol(reading)
draw_failures(reading, VIEW_ONLY)
draw_left_out(reading)


clocks = st.container()
cell = cell_of(reading, followed_cell(reading) if choice == FOLLOW else choice)
place = f"{experiment.id} {cell.name}"
live_charts.draw_charts(cell, second, spec.is_done_after, place)
left_half, right_half = st.columns(2, gap="small")
with Store() as store, left_half:
    live_charts.draw_single(store, cell, place)
    needs = live_cards.needs_of(store, reading)
with right_half, st.container(border=True, height="stretch"):
    queue_tab, log_tab = st.tabs(["Queue", "Log"], key="side")
    with queue_tab:
        live_cards.draw_queue(reading, needs)
    log = log_tab.container()


@st.fragment(run_every=1 if reading.active else None)
def tick(experiment: Experiment, drawn: Reading) -> None:
    """What changes by the second. All else waits for an epoch or a run to end."""
    with Store() as store:
        now = read(store, experiment, replay_since(experiment))
        if now.drawn != drawn.drawn:
            st.rerun()
        if now.active and not now.replay:
            wake_worker()
        needs = live_cards.needs_of(store, now)
    live_cards.draw_phases(now)
    if now.active:
        live_cards.draw_progress(now, needs)
    draw_metrics(cell_of(now, cell.name), now, needs)
    with log:
        live_cards.draw_log(_logged(now))


def _logged(now: Reading) -> Run | None:
    """Whose log is shown: the running run's, the worker's (None), or that of the last run."""
    if now.running or now.queued:
        return now.running.run if now.running else None
    begun = [run for run in now.runs if run.started_at]
    return begun[-1] if begun else None


with clocks:
    tick(experiment, reading)
