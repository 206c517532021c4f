"""What the live page knows at one moment, read from the store; only what changed is read.

Ended runs are kept between readings (measured.py). A running run is read again once its phase
says that there is a new epoch, or after some seconds of new blocks. In a replay the same runs are
shown as they stood earlier.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import streamlit as st

from bench_core.comparison import Comparison
from bench_core.measured import Arm, Measured, measure
from bench_core.pairing import Axis, Floors, comparisons, noise_floors, setting_of
from bench_core.replay import as_of, moment_after
from bench_core.run import ENDED, Run
from bench_core.spec import Experiment
from bench_core.store import Store
from pages.parts.kinds import model_text
from pages.parts.measured import measured_runs

REPLAY_SPEED = 10.0
# How old the forecasts in the queue may grow.
QUEUE_SECONDS = 15.0
STEP_EPOCHS = 3
# Inference has a block about every half second; drawing each would take cores from what is timed.
BLOCK_SECONDS = 3.0
FIRST_BLOCKS = 2
MOST_KEPT = 200
T = TypeVar("T")


def kept(name: str, key: Hashable, build: Callable[[], T]) -> T:
    """What `build` made for this key in this session; made again only when the key is another."""
    slot = st.session_state.get(name)
    if slot is None or slot[0] != key:
        slot = st.session_state[name] = (key, build())
    return slot[1]


@dataclass(frozen=True)
class Reading:
    """An experiment with all of its runs as they stand at `now`, a time of day.

    `others` are the running and queued runs of other experiments; a replay knows none.
    """

    experiment: Experiment
    measured: tuple[Measured, ...]
    others: tuple[Run, ...]
    now: float
    replay: bool

    @property
    def runs(self) -> list[Run]:
        return [one.run for one in self.measured]

    @property
    def taking_turns(self) -> list[Measured]:
        """The running ones: several where arms take turns."""
        return [one for one in self.measured if one.run.status == "running"]

    @property
    def running(self) -> Measured | None:
        """The one whose turn it is."""
        at_rest = {one.run.number: one.run.waits_for_its_turn for one in self.taking_turns}
        return min(self.taking_turns, key=lambda one: at_rest[one.run.number], default=None)

    @property
    def queued(self) -> list[Run]:
        return [run for run in self.runs if run.status == "queued"]

    @property
    def active(self) -> bool:
        return self.replay or any(run.status not in ENDED for run in self.runs)

    @property
    def state(self) -> Hashable:
        """Changes when a run starts or ends."""
        return self.replay, tuple((run.number, run.status) for run in self.runs)

    @property
    def drawn(self) -> Hashable:
        """Changes when the page must be drawn again and not only its clocks."""
        running, speed = self.taking_turns, REPLAY_SPEED if self.replay else 1.0
        seen: Hashable = None
        if running and self.replay:  # epochs may pass faster than a page is drawn
            pause = 1.0 if running[0].unit == "epoch" else BLOCK_SECONDS
            seen = self.now // (pause * speed)
        elif running:
            seen = tuple((one.run.number, len(one.epochs)) for one in running)
        return (
            self.state,
            seen,
            tuple((run.number, run.status) for run in self.others),
            self.now // (QUEUE_SECONDS * speed),
        )


def read(store: Store, experiment: Experiment, replay_since: float | None) -> Reading:
    """The experiment now, or in a replay that was started at `replay_since` (a time of day)."""
    runs = store.runs(experiment.id)
    now = time.time()
    ended = [run for run in runs if run.status in ENDED]
    by_number = {one.run.number: one for one in measured_runs(store, ended)}
    for run in runs:
        if run.number not in by_number:
            by_number[run.number] = _unended(store, run)
    measured = [by_number[run.number] for run in runs]
    moment = None
    if replay_since is not None and len(ended) == len(runs):
        moment = moment_after(runs, max(0.0, now - replay_since) * REPLAY_SPEED)
    if moment is not None:
        return Reading(experiment, tuple(as_of(measured, moment)), (), moment, replay=True)
    unended = store.runs(statuses=("running", "queued"))
    others = tuple(run for run in unended if run.experiment_id != experiment.id)
    return Reading(experiment, tuple(measured), others, now, replay=False)


@st.cache_resource(show_spinner=False)
def _kept_running() -> dict[str, tuple[Hashable, Measured]]:
    return {}


def _unended(store: Store, run: Run) -> Measured:
    if run.status == "queued":
        return measure(run, [])
    runs = _kept_running()
    # An epoch is stored before the phase of the next one is.
    key = (run.phase, run.phase_epoch)
    known = runs.get(run.id)
    if known is None or (known[0] != key and not _too_soon(run, known[1])):
        if len(runs) > MOST_KEPT:
            runs.clear()
        runs[run.id] = (key, measure(run, store.epochs([run.number])[run.number]))
    one = runs[run.id][1]
    return replace(one, run=run)


def _too_soon(run: Run, known: Measured) -> bool:
    """Whether the block that is measured now began shortly after what is known was read."""
    timed = {run.phase, known.run.phase} <= {"epoch", "waiting"}  # it is so by turns
    if known.unit == "epoch" or not timed or len(known.epochs) < FIRST_BLOCKS:
        return False
    return (run.phase_since or 0.0) - (known.run.phase_since or 0.0) < BLOCK_SECONDS


# The runs that belong together


@dataclass(frozen=True)
class Cell:
    """The runs of one model, batch size and precision.

    Comparisons count what a running run has so far.
    """

    name: str
    measured: tuple[Measured, ...]
    axis: Axis
    comparisons: tuple[Comparison, ...]

    @property
    def baseline(self) -> str:
        return self.axis.baseline_name

    @property
    def arms(self) -> dict[str, list[Measured]]:
        """The runs of each arm by its name, in the order of the arms' first runs."""
        arms: dict[str, list[Measured]] = {}
        for one in self.measured:
            arms.setdefault(self.arm_name(one), []).append(one)
        return arms

    def arm_name(self, one: Measured) -> str:
        return self.arm([one]).name

    def arm(self, runs: Sequence[Measured]) -> Arm:
        """The arm that these runs are of."""
        return self.axis.arm(setting_of(runs[0].run.spec, self.axis.names), runs)

    @property
    def unit(self) -> str:
        return self.measured[0].unit

    @property
    def candidate(self) -> Comparison | None:
        """The comparison of the arm that is measured now, else of the fastest one."""
        running = [self.arm_name(m) for m in self.measured if m.run.status == "running"]
        for pair in self.comparisons:
            if pair.candidate.name in running:
                return pair
        return max(self.comparisons, key=lambda pair: pair.speedup.ratio, default=None)

    @property
    def key(self) -> Hashable:
        """Changes when there is something new to draw."""
        return self.name, tuple((m.run.number, m.run.status, len(m.epochs)) for m in self.measured)


def cell_names(experiment: Experiment, runs: Sequence[Run]) -> dict[int, str]:
    """The cell of each run by its number, in words that tell the cells apart."""
    names, differs = {}, experiment.axis
    for run in runs:
        work = run.spec.workload
        # What the arms differ in by themselves tells no cells apart.
        words = [model_text(work.model)]
        words += [work.size_text] * ("batch_size" not in differs)
        words += [work.precision] * (len(experiment.precisions) > 1)
        names[run.number] = " · ".join(words)
    return names


def stored_floors() -> Floors:
    """How far equal arms may lie apart, by all that is stored: only the runs of such are read."""
    with Store() as store:
        return noise_floors(measured_runs(store, store.equal_arms()))


def cell_of(reading: Reading, name: str) -> Cell:
    """The cell of that name, with comparisons of what is measured so far."""
    names = cell_names(reading.experiment, reading.runs)
    measured = tuple(one for one in reading.measured if names[one.run.number] == name)
    key = tuple((m.run.number, m.run.status, len(m.epochs)) for m in measured)
    axis = Axis.of(reading.experiment)

    def compare() -> tuple[Comparison, ...]:
        so_far = [replace(one, run=_as_ended(one.run)) for one in measured]
        return comparisons(so_far, axis, stored_floors()).pairs

    pairs = kept("live_pairs", (reading.experiment.id, key), compare)
    return Cell(name, measured, axis, pairs)


def followed_cell(reading: Reading) -> str:
    """The cell being measured, else the one measured last, else the first in the queue."""
    names = cell_names(reading.experiment, reading.runs)
    running = reading.running
    if running is None:
        begun = [one for one in reading.measured if one.epochs]
        running = begun[-1] if begun else reading.measured[0]
    return names[running.run.number]


def _as_ended(run: Run) -> Run:
    """Comparisons leave out what still runs; here its epochs so far are wanted."""
    return replace(run, status="stopped") if run.status == "running" else run


def latest_steps(store: Store, cell: Cell) -> dict[str, tuple[float, ...]]:
    """Seconds of the single steps in the last three epochs of each arm's latest run.

    Epochs in which something was compiled are left out as long as there are others.
    """
    latest = {cell.arm_name(one): one for one in cell.measured if one.epochs}
    steps: dict[str, tuple[float, ...]] = {}
    for arm, one in latest.items():
        epochs = store.epochs([one.run.number], steps=True)[one.run.number][: len(one.epochs)]
        quiet = [epoch for epoch in epochs if not epoch.compile_seconds] or epochs
        steps[arm] = tuple(
            second for epoch in quiet[-STEP_EPOCHS:] for second in epoch.step_seconds
        )
    return steps
