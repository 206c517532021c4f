"""How long runs will take on this machine, and how much memory, by those it has measured."""

from __future__ import annotations

from bench_core.capabilities import Capabilities
from bench_core.estimates import KnownRun, known_run
from bench_core.measured import Measured
from bench_core.run import Run
from bench_core.spec import RunSpec
from bench_core.store import Store
from pages.parts.live_cards import needs_of
from pages.parts.live_reading import read
from pages.parts.measured import measured_runs

MOST_RUNS = 100


def known_runs(store: Store, here: Capabilities | None) -> list[KnownRun]:
    """What the newest runs of this machine teach; without `here` those of any machine."""
    found = (known_run(one.run, one.epochs) for one in _newest(store, here))
    return [known for known in found if known]


def known_peaks(store: Store, here: Capabilities | None) -> dict[RunSpec, int]:
    """The most memory that those runs took, in bytes."""
    peaks = {one.run.spec: one.peak_memory_bytes or 0 for one in _newest(store, here)}
    return {spec: peak for spec, peak in peaks.items() if peak}


def _newest(store: Store, here: Capabilities | None) -> list[Measured]:
    ended = [run for run in store.runs(statuses=("done",)) if here is None or ran_on(run, here)]
    return measured_runs(store, ended[-MOST_RUNS:])


def ran_on(run: Run, here: Capabilities) -> bool:
    """Whether this machine is known to be the run's."""
    ran = run.environment
    return ran is not None and (ran.cpu_name, ran.memory_bytes) == (
        here.cpu_name,
        here.memory_bytes,
    )


def seconds_ahead(store: Store) -> float:
    """Until all that is in hand has been measured, told as Live tells it."""
    for run in store.runs(statuses=("running", "queued")):
        experiment = store.experiment(run.experiment_id)
        if experiment:
            return sum(needs_of(store, read(store, experiment, None)).values())
    return 0.0
