"""How runs ended: the answers, and the failures with the way on. Drawn when a run ends."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import streamlit as st

from bench_core import worker
from bench_core.comparison import Comparison
from bench_core.pairing import Axis, Comparisons, comparisons
from bench_core.run import ENDED, Run
from bench_core.spec import Experiment
from bench_core.stats import RUNS_FOR_A_VERDICT
from bench_core.store import Store
from bench_core.units import bytes_text, counted
from bench_core.until_sure import outcome_text
from pages.parts.live_reading import Reading, cell_names, stored_floors
from pages.parts.text import plain

PAGES = Path(__file__).resolve().parents[1]
MOST_FAILURES = 3
# More answers than these get a line a cell, without their details.
MOST_DETAILED = 3
FIRST_LOOK = "first look: "


def draw_answers(reading: Reading) -> None:
    """The answer of each model and batch size whose runs have all ended."""
    pairs = _ended(reading).pairs
    if not pairs:
        return
    names = cell_names(reading.experiment, reading.runs)
    cells: dict[str, list[Comparison]] = {}
    for pair in pairs:
        cells.setdefault(names[pair.candidate.runs[0].run.number], []).append(pair)
    with st.container(border=True, gap="xsmall"):
        if len(pairs) <= MOST_DETAILED:
            several = len(set(names.values())) > 1
            for cell, found in cells.items():
                for pair in found:
                    st.markdown(f"{_icon(pair)} **{plain(pair.headline)}**")
                    st.caption(plain(f"{cell}: " * several + pair.detail))
        else:
            _draw_short(cells)
        st.page_link(
            PAGES / "compare.py",
            label="Compare",
            icon=":material/balance:",
            query_params={"experiment": reading.experiment.id},
        )


def _draw_short(cells: Mapping[str, Sequence[Comparison]]) -> None:
    """A line a cell, its arms from the fastest on: many answers in full would fill the page."""
    lines = []
    for cell, pairs in cells.items():
        ordered = sorted(pairs, key=lambda pair: -pair.speedup.ratio)
        words = [
            f"{pair.candidate.name} {pair.verdict_text.removeprefix(FIRST_LOOK)}"
            for pair in ordered
        ]
        lines.append(f"{_icon(ordered[0])} **{plain(cell)}**: {plain(', '.join(words))}")
    st.markdown("  \n".join(lines))
    looks = [pair for pairs in cells.values() for pair in pairs if pair.band]
    if looks:
        runs = min(min(p.speedup.baseline_runs, p.speedup.candidate_runs) for p in looks)
        st.caption(
            f"A first look, {counted(runs, 'run')} an arm: no verdict before {RUNS_FOR_A_VERDICT}."
        )


def _icon(pair: Comparison) -> str:
    return VERDICT_ICONS.get(pair.verdict or "", FIRST_LOOK_ICON)


def _ended(reading: Reading) -> Comparisons:
    """Comparisons of the models and batch sizes that have no run to wait for."""
    names = cell_names(reading.experiment, reading.runs)
    unended = {names[run.number] for run in reading.runs if run.status not in ENDED}
    ended = [one for one in reading.measured if names[one.run.number] not in unended]
    return comparisons(ended, Axis.of(reading.experiment), stored_floors())


def draw_left_out(reading: Reading) -> None:
    """Runs without a part in the answers, and why. Failed ones have a card of their own."""
    reasons: dict[str, list[int]] = {}
    for left in _ended(reading).left_out:
        for run in left.runs:
            if run.status != "failed":
                reason = left.reason if run.status == "done" else run.reason or left.reason
                reasons.setdefault(reason, []).append(reading.runs.index(run) + 1)
    if reasons:
        lines = [f"{_who(places)}: {plain(reason)}" for reason, places in reasons.items()]
        st.caption("Not compared. " + "  \n".join(lines))


def _who(places: list[int]) -> str:
    first, last = places[0], places[-1]
    if len(places) == 1:
        return f"Run {first}"
    if len(places) > 2 and last - first == len(places) - 1:
        return f"Runs {first} to {last}"
    return f"Runs {', '.join(map(str, places[:-1]))} and {last}"


def draw_protocol(reading: Reading) -> None:
    """How sure the answers came to be, and why arms did not take turns that were to."""
    names = cell_names(reading.experiment, reading.runs)
    several = len(set(names.values())) > 1
    lines = []
    for cell in dict.fromkeys(names.values()):
        measured = [one for one in reading.measured if names[one.run.number] == cell]
        if outcome := outcome_text(reading.experiment, measured):
            lines.append(f"{cell}: {outcome}" if several else outcome[0].upper() + outcome[1:])
    notes: dict[str, list[int]] = {}
    for place, run in enumerate(reading.runs, start=1):
        if run.protocol_note:
            notes.setdefault(run.protocol_note, []).append(place)
    lines += [f"{_who(places)}: {note}" for note, places in notes.items()]
    if lines:
        st.caption("  \n".join(map(plain, lines)))


FIRST_LOOK_ICON = ":gray[:material/search:]"
VERDICT_ICONS = {
    "faster": ":green[:material/trending_up:]",
    "slower": ":red[:material/trending_down:]",
    "no difference shown": ":gray[:material/trending_flat:]",
}


def draw_failures(reading: Reading, view_only: bool) -> None:
    """A card a failure; runs that failed alike share one."""
    alike: dict[tuple[str, str | None, str | None], list[Run]] = {}
    for run in reading.runs:
        if run.status == "failed":
            alike.setdefault((run.title, run.failure, run.reason), []).append(run)
    groups = list(alike.values())[::-1]
    for runs in groups[:MOST_FAILURES]:
        _failure(reading, runs, view_only)
    if len(groups) > MOST_FAILURES:
        st.page_link(
            PAGES / "results.py",
            label=f"{len(groups) - MOST_FAILURES} more kinds of failure",
            query_params={"experiment": reading.experiment.id},
        )


def _failure(reading: Reading, runs: list[Run], view_only: bool) -> None:
    run, places = runs[-1], [reading.runs.index(run) + 1 for run in runs]
    with st.container(border=True, gap="xsmall"):
        st.markdown(
            f":red[:material/error:] **{_who(places)} failed: {plain(run.failure or 'error')}**"
        )
        facts = [run.title, run.machine or run.spec.device]
        if run.environment:
            memory = run.environment.device_memory_bytes or run.environment.memory_bytes
            facts.append(f"{bytes_text(memory)} of memory")
        goes_on = any(other.status in ("running", "queued") for other in reading.runs)
        st.caption(plain(" · ".join(facts)) + ("  \nThe other runs go on." if goes_on else ""))
        if run.reason:
            st.markdown(plain(run.reason))
        if run.failure == "out of memory" and not view_only and not reading.replay:
            _smaller_batch(reading.experiment, run)
        if run.traceback:
            with st.expander("Show the traceback", type="compact"):
                st.code(run.traceback, language=None, wrap_lines=True)


def _smaller_batch(experiment: Experiment, run: Run) -> None:
    work = run.spec.workload
    half = work.batch_size // 2
    if not half:
        return
    # One id for one offer: a second press, or a second tab, queues nothing more.
    text = f"{experiment.id} {work.model} {work.precision} {half}"
    smaller = experiment.changed(
        id=hashlib.sha256(text.encode()).hexdigest()[:12],
        preset="custom",
        models=(work.model,),
        batch_sizes=(half,),
        precisions=(work.precision,),
    )
    size = smaller.runs()[0].workload.size_text
    with Store() as store:
        queued = store.experiment(smaller.id) is not None
    if queued:
        st.page_link(
            PAGES / "live.py",
            label=f"Queued with {size}: watch it",
            icon=":material/arrow_forward:",
            query_params={"experiment": smaller.id},
        )
    else:
        st.button(
            f"Queue it with {size}",
            icon=":material/add:",
            key=f"smaller_{smaller.id}",
            on_click=queue(smaller),
            help="Queues all variants with this size, as an experiment of their own.",
        )


def queue(experiment: Experiment) -> Callable[[], None]:
    def put() -> None:
        with Store() as store:
            store.queue(experiment)
        worker.ensure()

    return put
