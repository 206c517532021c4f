"""What a launch would mean: how many runs, in which order, how long, and what is doubtful."""

from __future__ import annotations

from datetime import datetime, timedelta

import streamlit as st

from bench_core.capabilities import Capabilities
from bench_core.estimates import length_text, memory_together, seconds_of_runs
from bench_core.free_memory import free_bytes
from bench_core.paths import datasets_dir
from bench_core.spec import (
    FEWEST_UNTIL_SURE,
    Experiment,
    RunSpec,
    SpecError,
    Variant,
    Workload,
)
from bench_core.store import Store
from bench_core.units import NO_BREAK, bytes_text, count_text, counted, duration_text
from pages.parts import draft
from pages.parts.estimates import known_peaks, known_runs, seconds_ahead
from pages.parts.launch_state import (
    cards,
    choose_last_batch,
    chosen_values,
    variant_fields,
)
from pages.parts.text import plain
from pages.parts.when import reader_zone

ROWS_SHOWN, REPEATS_SHOWN = 6, 4
state = st.session_state


def no_room(offers: Capabilities | None) -> str:
    """Why the arms could not be alive side by side now; empty where they can, or nobody can tell.

    The worker looks again when their turn has come: another run may hold the memory now.
    """
    values = {**chosen_values(), "protocol": "sequential", "until_sure": None}
    try:
        variants = [draft.variant_of(variant_fields(number)) for number in cards()]
        experiment = draft.experiment_of(
            values, variants, "custom", state.run_launch_id, state.run_rungs
        )
    except SpecError:  # said elsewhere
        return ""
    free = free_bytes(experiment.device, 0)
    with Store() as store:
        needed = memory_together(experiment, known_peaks(store, offers))
    if free is None or needed <= free:
        return ""
    arms = len(experiment.rungs or experiment.variants)
    return (
        f"Taking turns keeps {counted(arms, 'process', 'processes')} alive at once, which need "
        f"about {bytes_text(needed)}; {bytes_text(free)} of memory are free now. Without room when "
        "their turn comes they run one after the other. A smaller batch or fewer arms need less."
    )


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
        f"**This will queue {_up_to(experiment)}{counted(len(runs), 'run')}, "
        f"{length_text(experiment, total)}**",
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
    if experiment.rungs:
        grid.append(counted(len(experiment.rungs), "arm"))
    else:
        grid.append(counted(len(experiment.variants), "variant"))
    grid.append(_up_to(experiment) + counted(experiment.repeats, "repeat"))
    told = [f"{counted(runs[0].is_done_after, work.unit)} each", *_conditions(work)]
    behind = f" behind {counted(waiting, 'run')} in the queue" if waiting else ""
    latest = ", at the latest" if experiment.measurement.until_sure else ""
    ready = f"Ready {ready_at(before + total)}{behind}{latest}."
    st.caption(f"{' × '.join(grid)}; {', '.join(told)}. {ready}")
    if work.dataset == "cifar10" and not (datasets_dir() / "cifar10").is_dir():
        st.caption("CIFAR-10 is not here yet: the first run downloads it (170 MB).")
    draw_order(experiment, runs, seconds)
    if work.task == "train":
        draw_last_batch(experiment)
    if experiment.repeats < 3:
        st.caption(f"{counted(experiment.repeats, 'run')} an arm: a first look. A verdict needs 3.")
    sure = experiment.measurement.until_sure
    if sure and experiment.repeats == FEWEST_UNTIL_SURE:
        st.caption(
            f"Until sure ends after {FEWEST_UNTIL_SURE} repeats at the earliest, and no more are "
            "allowed: allow 10 or more."
        )
    return total


def _up_to(experiment: Experiment) -> str:
    return "up to " if experiment.measurement.until_sure else ""


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
    """The order of the runs, the same in each cell of the grid, and how long each cell takes.

    Arms that take turns stand side by side, one repeat after the other.
    """
    cells: dict[tuple[str, int, str], list[int]] = {}
    for place, run in enumerate(runs):
        work = run.workload
        precision: str = "that of the rung" if experiment.rungs else work.precision
        cells.setdefault((work.model, work.batch_size, precision), []).append(place)
    first = [runs[place] for place in next(iter(cells.values()))]
    count = len(experiment.rungs or experiment.variants)
    if experiment.rungs:
        places = [*range(1, count + 1)]
        order = [at for repeat in range(experiment.repeats) for at in places[:: (-1) ** repeat]]
        badges = [_rung_badge(run, at) for run, at in zip(first, order, strict=True)]
    else:
        arms = {variant.name for variant in experiment.variants if variant.execution != "eager"}
        badges = [badge(run.variant, len(arms) > 1) for run in first]
    more = len(badges) > count * REPEATS_SHOWN
    badges = badges[: count * REPEATS_SHOWN]
    if experiment.measurement.protocol == "paired":
        repeats = (badges[at : at + count] for at in range(0, len(badges), count))
        line = f"{NO_BREAK}:gray[|]{NO_BREAK}"
        # Names are long, so each repeat has a row; the places of rungs are not.
        between = " \u2003 " if experiment.rungs else "  \n"
        shown = between.join(line.join(repeat) for repeat in repeats)
        title = "Order of runs: with a line between them they take turns"
    else:
        shown, title = " ".join(badges), "Order of runs"
    st.markdown(f":small[:gray[{title}]]  \n{shown}{' and so on' * more}")
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
            ["Drop it", *["dynamic=False"] * (not experiment.rungs), "Keep it"],
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


def _rung_badge(run: RunSpec, place: int) -> str:
    """Its place in the list of the arms, or A and B of equal arms."""
    color = "gray" if run.variant.execution == "eager" else "orange"
    return f":{color}-badge[{run.measurement.side or place}]"


def badge(variant: Variant, several: bool) -> str:
    """An arm in its colour; its arguments only where there are `several` beside eager."""
    if variant.execution == "eager":
        return ":gray-badge[eager]"
    name = variant.name.removeprefix("compile ") if several else variant.execution
    cache = {"warm": ", warm", "off": ", no cache"}.get(variant.cache or "", "")
    return f":orange-badge[{plain(name)}{cache}]"
