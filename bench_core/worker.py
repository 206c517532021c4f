"""Takes what is queued, a run or a round of runs at a time, and has it measured (steering.py).

Started detached by a page (`ensure`) or in the foreground by the command line (`serve`). One
worker a data folder (a file lock), one measurement a machine (another lock): a neighbour would
spoil the timing. It knows no torch: its child is `python -m bench_core.measuring`, talked to in
lines (events.py).
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from bench_core import until_sure
from bench_core.child import POLL_SECONDS, end_processes
from bench_core.file_lock import LOOK_SECONDS, locked
from bench_core.measured import measure as measure_run
from bench_core.paths import CHECKOUT, data_dir, logs_dir, settings
from bench_core.run import Run
from bench_core.spec import FEWEST_UNTIL_SURE
from bench_core.steering import Watch, measure
from bench_core.store import Store

IDLE_SECONDS = 600.0


class WorkerBusy(RuntimeError):
    """Another worker holds this data folder."""


# Locks and the life of a worker


def alive() -> bool:
    """Whether a worker holds this data folder."""
    descriptor = locked(data_dir() / "worker.lock", shared=True)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def ensure() -> None:
    """Start a detached worker unless one is alive. A second one that races it exits at once."""
    if alive():
        return
    logs_dir().mkdir(parents=True, exist_ok=True)
    with open(logs_dir() / "worker.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench_core", "worker"],
            cwd=CHECKOUT,
            env={**os.environ, **settings()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    # Collects the exit code, or the ended worker stays a zombie of the app.
    threading.Thread(target=process.wait, daemon=True).start()


def code_version() -> str:
    """Changes when any file of this package does."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(f"{path} {path.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()[:12]


def serve(
    experiment_id: str | None = None,
    *,
    idle_seconds: float = IDLE_SECONDS,
    watch: Watch | None = None,
) -> None:
    """Measure what is queued; return after `idle_seconds` without work.

    With `experiment_id` only that experiment's runs are taken. Raises WorkerBusy when another
    worker holds the data folder. When the package's files changed, a worker replaces itself
    by a new one between two runs.
    """
    lock = locked(data_dir() / "worker.lock", patience_seconds=LOOK_SECONDS)
    if lock is None:
        raise WorkerBusy(f"another worker holds {data_dir()}")
    version = code_version()
    try:
        with Store() as store:
            for left in store.interrupt_running():
                end_processes(left.id, left.child_pid, left.child_created)
            _remove_logs(store)
            idle_since = time.monotonic()
            while True:
                if experiment_id is None and code_version() != version:
                    # The lock goes with this program; its children would speak the new one's words.
                    again = ["-m", "bench_core", "worker", "--idle-seconds", str(idle_seconds)]
                    os.execve(
                        sys.executable, [sys.executable, *again], {**os.environ, **settings()}
                    )
                if runs := _next_runs(store, experiment_id):
                    measure(store, runs, watch)
                    idle_since = time.monotonic()
                    continue
                if time.monotonic() - idle_since >= idle_seconds:
                    return
                time.sleep(POLL_SECONDS)
    finally:
        os.close(lock)


def _next_runs(store: Store, experiment_id: str | None) -> list[Run]:
    """Claim what is measured next; what an experiment is sure of already leaves the queue."""
    while ahead := store.next_queued(experiment_id):
        spare = _spare_runs(store, ahead)
        if not spare:
            return store.claim_round(experiment_id)
        store.remove_queued(spare)
    return []


def _spare_runs(store: Store, ahead: Run) -> list[int]:
    measurement = ahead.spec.measurement
    if not measurement.until_sure or measurement.repeat <= FEWEST_UNTIL_SURE:
        return []
    experiment = store.experiment(ahead.experiment_id)
    runs = [run for run in store.runs(ahead.experiment_id) if run.cell == ahead.cell]
    epochs = store.epochs([run.number for run in runs])
    measured = [measure_run(run, epochs[run.number]) for run in runs]
    return until_sure.spare_runs(experiment, measured) if experiment else []


def _remove_logs(store: Store) -> None:
    """Logs of runs that were deleted."""
    known = {run.id for run in store.runs()}
    for log in logs_dir().glob("*.log"):
        if log.stem != "worker" and log.stem not in known:
            log.unlink(missing_ok=True)
