"""What a launch would mean: how many runs, in which order, how long, and what is doubtful."""

from __future__ import annotations

from datetime import datetime, timedelta

import streamlit as st

from bench_core.capabilities import Capabilities
from bench_core.paths import datasets_dir
from bench_core.estimates import length_text, seconds_of_runs
from bench_core.spec import Experiment, RunSpec, Variant, Workload
from bench_core.store import Store
from bench_core.units import count_text, counted, duration_text, estimate_text
from pages.parts.estimates import known_runs, seconds_ahead
from pages.parts.launch_state import choose_last_batch
from pages.parts.text import plain
from pages.parts.when import reader_zone

ROWS_SHOWN = 6
state = st.session_state


def draw_preview(experiment: Experiment, offers: Capabilities | None) -> float:
    """Draw it and return the seconds that it would take."""
    runs = experiment.runs()
    with Store() as store:
        known = known_runs(store, offers)
        waiting = len(store.queued()) + len(store.running())
        before = seconds_ahead(store)
    seconds = seconds_of_runs(runs, known)
    total = sum(seconds)
    st.markdown(
        f"**This will queue {counted(len(runs), 'run')}, {estimate_text(total)}**",
        help="Process starts, compiles and what is timed, from what this machine has measured "
        "before, or from the model's size where it has measured nothing alike: a guess, within "
        "a factor of two or three.",
    )
    work = runs[0].workload
    grid = [counted(len(experiment.models), "function" if work.is_function else "model")]
    size = "input size" if work.is_function else "batch size"
    grid.append(counted(len(experiment.batch_sizes), size))
    if len(experiment.precisions) > 1:
        grid.append(counted(len(experiment.precisions), "precision"))
    grid.append(counted(len(experiment.variants), "variant"))
    grid.append(counted(experiment.repeats, "repeat"))
    told = [f"{counted(runs[0].is_done_after, work.unit)} each", *_conditions(work)]
    behind = f" behind {counted(waiting, 'run')} in the queue" if waiting else ""
    ready = f"Ready {ready_at(before + total)}{behind}."
    st.caption(f"{' × '.join(grid)}; {', '.join(told)}. {ready}")
    if work.dataset == "cifar10" and not (datasets_dir() / "cifar10").is_dir():
        st.caption("CIFAR-10 is not here yet: the first run downloads it (170 MB).")
    draw_order(experiment, runs, seconds)
    if work.task == "train":
        draw_last_batch(experiment)
    if experiment.repeats < 3:
        st.caption(f"{counted(experiment.repeats, 'run')} an arm: a first look. A verdict needs 3.")
    return total


def _conditions(work: Workload) -> list[str]:
    """What the runs share, as far as their kind reads it."""
    if work.is_function:
        words = []
    else:
        words = [f"{work.image_size} px", work.dataset, work.pipeline.replace("_", " ")]
    if work.task == "infer":
        mode = "forward and backward" if work.backward else str(work.grad_mode)
        inside = ["compiled inside of it"] * work.compile_in_grad_mode
        return [*words, mode, *inside]
    return [*words, work.optimizer, *["evaluated after each epoch"] * (work.evaluate != "none")]


def draw_order(experiment: Experiment, runs: list[RunSpec], seconds: list[float]) -> None:
    """The order of the runs, the same in each cell of the grid, and how long each cell takes."""
    cells: dict[tuple[str, int, str], list[int]] = {}
    for place, run in enumerate(runs):
        work = run.workload
        cells.setdefault((work.model, work.batch_size, work.precision), []).append(place)
    first = next(iter(cells.values()))
    arms = {variant.name for variant in experiment.variants if variant.execution != "eager"}
    badges = " ".join(badge(runs[place].variant, len(arms) > 1) for place in first)
    st.markdown(f":small[:gray[Order of runs]]  \n{badges}")
    if len(cells) == 1:
        return
    what, size = ("Function", "n") if runs[0].workload.is_function else ("Model", "Batch")
    rows = []
    for (model, batch_size, precision), places in list(cells.items())[:ROWS_SHOWN]:
        row = {what: plain(model.split(":", 1)[-1])}
        row[size] = count_text(batch_size)
        if len(experiment.precisions) > 1:
            row["Precision"] = precision
        row["About"] = rough(sum(seconds[place] for place in places))
        rows.append(row)
    st.table(rows, border="horizontal", hide_index=True, alt="How long each model takes")
    if len(cells) > ROWS_SHOWN:
        st.caption(f"and {len(cells) - ROWS_SHOWN} more like these")


def rough(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 1:
        return f"{max(10, round(seconds / 10) * 10)}\u00a0s"
    return duration_text(60 * round(minutes)) if minutes >= 3 else f"{minutes:.0f}\u00a0min"


def draw_last_batch(experiment: Experiment) -> None:
    """The three ways to treat a last batch that is smaller than the others."""
    samples = state.run_samples
    ragged = [size for size in experiment.batch_sizes if samples % size and samples > size]
    compiled = [one for one in experiment.variants if one.execution == "compile"]
    if not ragged or not compiled:
        return
    shapes_apart = all(one.dynamic is False for one in compiled)
    state.run_last_batch = (
        "Drop it" if state.run_drop_last else "dynamic=False" if shapes_apart else "Keep it"
    )
    harmful = state.run_last_batch == "Keep it"
    sizes = " and ".join(", ".join(map(str, ragged)).rsplit(", ", 1))
    left = sorted({samples % size for size in ragged})
    lefts = " or ".join(", ".join(map(str, left)).rsplit(", ", 1))
    with st.container(border=True, gap="small"):
        icon = ":yellow[:material/warning:]" if harmful else ":gray[:material/check:]"
        leaves = "leaves" if len(ragged) == 1 else "leave"
        st.markdown(f"{icon} **Batch {sizes} {leaves} a ragged last batch**")
        if harmful:
            st.markdown(
                f"{count_text(samples)} samples end in a batch of {lefts}. torch.compile compiles "
                "again for it, and may then run *every* batch on the slower dynamic graph."
            )
        st.segmented_control(
            "What to do with it",
            ["Drop it", "dynamic=False", "Keep it"],
            required=True,
            key="run_last_batch",
            on_change=choose_last_batch,
            help=f"Drop it: both arms skip the last {lefts} samples. dynamic=False: one more "
            "compile, about as long as the first, then both shapes are fast. Keep it: what you "
            "get by default.",
            wrap=True,
        )


def sentence(problem: str) -> str:
    return problem[0].upper() + problem[1:] + ("" if problem.endswith((".", "?")) else ".")


def ready_at(seconds: float) -> str:
    now = datetime.now(reader_zone())
    then = now + timedelta(seconds=seconds)
    if then.date() == now.date():
        return f"at about {then:%H:%M}"
    if then.date() == now.date() + timedelta(days=1):
        return f"tomorrow at about {then:%H:%M}"
    return f"on {then.day} {then:%b} at about {then:%H:%M}"


def badge(variant: Variant, several: bool) -> str:
    """An arm in its colour; its arguments only where there are `several` beside eager."""
    if variant.execution == "eager":
        return ":gray-badge[eager]"
    name = variant.name.removeprefix("compile ") if several else variant.execution
    cache = {"warm": ", warm", "off": ", no cache"}.get(variant.cache or "", "")
    return f":orange-badge[{plain(name)}{cache}]"
