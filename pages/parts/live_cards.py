"""What the live page says of the way to the answer: phases, progress, queue and log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from bench_core import worker
from bench_core.estimates import length_text
from bench_core.measured import Arm
from bench_core.pairing import setting_of
from bench_core.progress import Standing, phases, place_text
from bench_core.run import Run
from bench_core.store import Store
from bench_core.time_left import expected_seconds, seconds_left, share_done
from bench_core.units import (
    NO_BREAK,
    counted,
    duration_text,
)
from pages.parts.kinds import model_text
from pages.parts.live_reading import (
    QUEUE_SECONDS,
    Reading,
    kept,
    read,
)
from pages.parts.log_tail import log_tail
from pages.parts.text import plain

SIDE_HEIGHT, ROWS_SHOWN = 300, 7

BADGES: dict[Standing, tuple[str, str]] = {
    "done": ("green", ":material/check: "),
    "now": ("blue", ":material/sync: "),
    "compiling": ("orange", ":material/sync: "),
    "to come": ("gray", ""),
    "failed": ("red", ":material/error: "),
}


def needs_of(store: Store, reading: Reading) -> dict[int, float]:
    """Seconds that each running or queued run of this data folder still needs, by its number.

    In the order in which they are measured.
    """
    ids = tuple(dict.fromkeys(run.experiment_id for run in reading.others))
    key = (tuple((run.number, run.status) for run in reading.others), reading.now // QUEUE_SECONDS)
    others = kept("live_others", key, lambda: _left_of_others(store, ids))
    return dict(sorted({**others, **_left(reading)}.items()))


def _left(reading: Reading) -> dict[int, float]:
    expected = kept(
        f"live_expected_{reading.experiment.id}",
        reading.state,
        lambda: expected_seconds(reading.measured),
    )
    return seconds_left(reading.measured, expected, reading.now)


def _left_of_others(store: Store, ids: Sequence[str]) -> dict[int, float]:
    left: dict[int, float] = {}
    for experiment_id in ids:
        experiment = store.experiment(experiment_id)
        if experiment:
            left.update(_left(read(store, experiment, None)))
    return left


def draw_phases(reading: Reading) -> None:
    """A line a running run; arms that take turns have their name in front."""
    running = reading.taking_turns
    for one in running:
        words = [f"**{plain(_arm_text(one.run, reading))}**"] if len(running) > 1 else []
        for phase in phases(one, reading.now):
            color, icon = BADGES[phase.standing]
            words.append(f":{color}-badge[{icon}{plain(phase.text)}]")
        st.markdown(" ".join(words))


def draw_progress(reading: Reading, needs: Mapping[int, float]) -> None:
    """`Run 2 of 4 · compile · about 12 minutes left`, and a bar over the whole experiment.

    `needs` is `needs_of`: what waits before this experiment is part of the time left.
    """
    runs, running = reading.runs, reading.running
    own = {run.number: needs[run.number] for run in runs if run.number in needs}
    ahead = [number for number in needs if number not in own and number < max(own, default=0)]
    if running:
        words = [place_text(runs, running.run)]
        if len(reading.taking_turns) == 1:
            words.append(plain(running.run.spec.variant.name_with_cache))
        else:
            words.append(f"turn of {plain(_arm_text(running.run, reading))}")
    else:
        words = [f"{place_text(runs, reading.queued[0])} is next"]
        if ahead:
            words.append(f"waiting for {counted(len(ahead), 'run')} of other experiments")
        elif not reading.replay and not worker.alive():
            words.append("the worker is not running")
    seconds = sum(own.values()) + sum(needs[number] for number in ahead)
    words.append(f"{length_text(reading.experiment, seconds)} left")
    st.progress(share_done(reading.measured, own, reading.now), text=" · ".join(words))


# Queue and log


def draw_queue(reading: Reading, needs: Mapping[int, float]) -> None:
    """All that this data folder has in hand, other experiments too, in the order of measuring."""
    waiting = [run for run in (*reading.runs, *reading.others) if run.number in needs]
    if not waiting:
        st.caption("Nothing is running and nothing waits.")
        return
    rows: dict[str, list[object]] = {"": [], "Run": [], "Variant": [], "Starts": []}
    clock, place = 0.0, 0
    starts: dict[tuple[object, ...], float] = {}  # arms that take turns start together
    for run in sorted(waiting, key=lambda run: (run.status != "running", run.number)):
        work = run.spec.workload
        words = [model_text(work.model), work.size_text]
        words += [work.precision] * (work.precision != "fp32")
        rows["Run"].append(" · ".join(words))
        rows["Variant"].append([_arm_text(run, reading)])
        if run.status == "running":
            rows[""].append("now")
            rows["Starts"].append(f"{_minutes(needs[run.number])} left")
        else:
            place += 1
            rows[""].append(str(place))
            start = starts.setdefault(_together(run), clock)
            rows["Starts"].append(f"in {_minutes(start)}" if start else "next")
        clock += needs[run.number]
    arms = list(dict.fromkeys(_arm_text(run, reading) for run in waiting))
    st.dataframe(
        rows,
        hide_index=True,
        height="content" if len(waiting) <= ROWS_SHOWN else SIDE_HEIGHT,
        placeholder="",
        column_config={
            "": st.column_config.TextColumn(width=48),
            "Variant": st.column_config.MultiselectColumn(
                options=arms, color=["gray" if arm == "eager" else "orange" for arm in arms]
            ),
        },
        alt="Runs in the order in which they are measured",
    )


def _together(run: Run) -> tuple[object, ...]:
    """What is claimed at one time: the arms of a repeat that are to take turns, or a run."""
    measurement = run.spec.measurement
    if measurement.protocol == "sequential" or run.protocol_note:
        return (run.number,)
    return run.experiment_id, run.cell, measurement.repeat


def _arm_text(run: Run, reading: Reading) -> str:
    """`eager`, `compile`, `compile, warm`: a cold cache is what a start has by itself."""
    own = run.experiment_id == reading.experiment.id
    names = reading.experiment.axis if own else ("variant",)
    variant = run.spec.variant
    name = Arm(variant.arm, (), setting_of(run.spec, names)).name
    return f"{name}, {variant.cache}" if variant.cache in ("warm", "off") else name


def _minutes(seconds: float) -> str:
    """Short, for a narrow cell: `12 min`, `1 h 16 min`."""
    if seconds < 60:
        return f"under 1{NO_BREAK}min"
    minutes = round(seconds / 60)
    return duration_text(60 * minutes) if minutes > 2 else f"{minutes}{NO_BREAK}min"


def draw_log(run: Run | None) -> None:
    """The end of what compilers and libraries printed; the worker's own words between runs."""
    text = log_tail(run)
    if not text:
        st.caption("Nothing was printed so far." if run else "No log yet.")
        return
    with st.container(height=SIDE_HEIGHT, border=False, autoscroll=True):
        st.code(text, language=None, wrap_lines=True)
