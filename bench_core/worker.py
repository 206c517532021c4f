"""Takes queued runs one after the other and steers a measuring process through each.

Started detached by a page (`ensure`) or in the foreground by the command line (`serve`). One
worker a data folder (a file lock), one measurement a machine (another lock): a neighbour would
spoil the timing. It knows no torch: its child is `python -m bench_core.measuring`, talked to in
lines (events.py). Whatever ends a run, its whole process group goes and its epochs stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench_core import compile_caches, events
from bench_core.child import (
    POLL_SECONDS,
    Child,
    ChildFailed,
    Stopped,
    TimedOut,
    check,
    end_processes,
)
from bench_core.paths import CHECKOUT, data_dir, logs_dir, machine_lock, settings
from bench_core.run import Run
from bench_core.spec import RunSpec
from bench_core.store import Store

IDLE_SECONDS = 600.0
Watch = Callable[[Run, events.Event], None]


class WorkerBusy(RuntimeError):
    """Another worker holds this data folder."""


# Locks and the life of a worker


def _lock(path: Path) -> int | None:
    """The file's lock as an open descriptor, or None when somebody holds it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:  # another user's file in a shared temporary folder
        descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def alive() -> bool:
    """Whether a worker holds this data folder."""
    descriptor = _lock(data_dir() / "worker.lock")
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
    lock = _lock(data_dir() / "worker.lock")
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
                run = store.claim(experiment_id)
                if run:
                    measure(store, run, watch)
                    idle_since = time.monotonic()
                    continue
                if time.monotonic() - idle_since >= idle_seconds:
                    return
                time.sleep(POLL_SECONDS)
    finally:
        os.close(lock)


def _remove_logs(store: Store) -> None:
    """Logs of runs that were deleted."""
    known = {run.id for run in store.runs()}
    for log in logs_dir().glob("*.log"):
        if log.stem != "worker" and log.stem not in known:
            log.unlink(missing_ok=True)


# One run


def measure(store: Store, run: Run, watch: Watch | None = None) -> None:
    """Steer one claimed run from its start to its end, however it ends."""
    spec = run.spec
    try:
        with _turn_on_this_machine(store, run):
            deadline = time.monotonic() + spec.measurement.timeout_seconds
            compile_caches.remove_remains()
            folder, primed = compile_caches.folder_of(store, run)
            try:
                if folder and spec.variant.cache == "warm" and not primed:
                    with Child(store, run, deadline, folder, priming=True) as child:
                        _prime(store, run, child, watch)
                    compile_caches.mark_primed(folder, spec)
                with Child(store, run, deadline, folder) as child:
                    _steer(store, run, child, watch)
                if folder and folder.name.startswith("warm-"):
                    compile_caches.mark_primed(folder, spec)
            finally:
                if folder and not compile_caches.is_primed(folder, spec):
                    shutil.rmtree(folder, ignore_errors=True)
    except Stopped:
        store.finish(run.number, "stopped", reason="stopped on request; what was measured is kept")
    except TimedOut:
        fewer = "epochs or samples" if spec.workload.task == "train" else "iterations"
        reason = (
            f"no end after {spec.measurement.timeout_seconds:g} s (timeout_seconds); allow more "
            f"time, or measure fewer {fewer}"
        )
        event = events.Failed(failure="timed out", reason=reason, phase="")
        _fail(store, run, event, watch)
    except ChildFailed as failed:
        _fail(store, run, failed.event, watch)
    except BaseException as error:
        # Ctrl-C, SIGTERM or a fault of the worker itself: the run must not stay `running`.
        deliberate = isinstance(error, (KeyboardInterrupt, SystemExit))
        store.finish(
            run.number,
            "stopped" if deliberate else "interrupted",
            reason="the worker was told to end; what was measured is kept"
            if deliberate
            else f"the worker failed: {error}; what was measured is kept",
        )
        raise


def _fail(store: Store, run: Run, event: events.Failed, watch: Watch | None) -> None:
    """A run whose timing is over is done, by its epochs or by its seconds: the rest is an extra."""
    epochs = store.epochs([run.number])[run.number]
    measured = sum(events.measured_by(run.spec, epoch) for epoch in epochs)
    stored = store.run(run.number)
    whole = measured >= run.spec.is_done_after
    if whole or (stored and stored.phase == "after timing"):
        timed = "all was timed that was asked for" if whole else _ended_early(run.spec, measured)
        store.finish(
            run.number,
            "done",
            reason=f"{timed}; what comes after the timing failed: {event.reason}",
            traceback=event.traceback,
        )
        return
    store.finish(
        run.number,
        "failed",
        failure=event.failure,
        reason=event.reason,
        traceback=event.traceback,
    )
    if watch:
        watch(run, event)


def _prime(store: Store, run: Run, child: Child, watch: Watch | None) -> None:
    for event in child.reports():
        _note(store, run, event, watch)
        if isinstance(event, events.Primed):
            store.set_priming_seconds(run.number, event.seconds)


def _steer(store: Store, run: Run, child: Child, watch: Watch | None) -> None:
    """One `go` an epoch (a block), until what was asked for or the seconds are used up."""
    wanted = run.spec.measurement
    limit = wanted.max_seconds or float("inf")
    first_go, measured = 0.0, 0
    reason = None
    for event in child.reports():
        match event:
            case events.Prepared():
                _note(store, run, event, watch)
                first_go = time.monotonic()
                child.say("go")
            case events.Epoch():
                _note(store, run, event, watch)
                measured += events.measured_by(run.spec, event)
                whole = measured >= run.spec.is_done_after
                over = time.monotonic() - first_go >= limit
                if over and not whole:
                    reason = _ended_early(run.spec, measured)
                child.say("stop" if over or whole else "go")
            case _:
                _note(store, run, event, watch)
    store.finish(run.number, "done", reason=reason)


def _ended_early(spec: RunSpec, measured: int) -> str:
    limit = spec.measurement.max_seconds
    return f"ended by max_seconds {limit:g} after {spec.workload.unit} {measured}"


def _note(store: Store, run: Run, event: events.Event, watch: Watch | None) -> None:
    """Into the store at once: what stands there survives whatever happens next."""
    match event:
        case events.PhaseStarted():
            store.set_phase(run.number, event.phase, event.epoch)
        case events.Environment():
            store.set_environment(run.number, event)
        case events.Prepared():
            store.set_prepared(run.number, event)
        case events.CompileStarted():
            store.set_compiling(run.number, time.time())
        case events.CompileWindow():
            store.set_compiling(run.number, None)
        case events.Epoch():
            store.add_epoch(run.number, event)
        case events.Activity():
            store.set_activity(run.number, event)
        case events.Aftermath():
            store.set_aftermath(run.number, event)
    if watch:
        watch(run, event)


@contextlib.contextmanager
def _turn_on_this_machine(store: Store, run: Run) -> Iterator[None]:
    """Wait until no other data folder's worker measures on this machine."""
    path = machine_lock()
    lock = _lock(path)
    if lock is None:
        store.set_phase(run.number, "waiting")
        while (lock := _lock(path)) is None:
            check(store, run)
            time.sleep(POLL_SECONDS)
        store.set_phase(run.number, "starting")
    try:
        yield
    finally:
        os.close(lock)
