"""A measuring process from outside: started, spoken to in lines, ended with all its descendants."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

import psutil

from bench_core import events
from bench_core.compile_caches import short_path
from bench_core.paths import CHECKOUT, logs_dir, settings
from bench_core.run import Run
from bench_core.spec import RunSpec
from bench_core.store import Store

POLL_SECONDS = 0.2
TERM_SECONDS = 2.0
# Inherited settings that would change what a run does without standing in its spec.
FOREIGN_SETTINGS = ("TORCHINDUCTOR_", "TORCHDYNAMO_", "TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_")


class Stopped(Exception):
    """Somebody asked for the end of the run."""


class TimedOut(Exception):
    """The run's own deadline passed."""


def check(store: Store, run: Run, deadline: float = float("inf")) -> None:
    """Raise Stopped or TimedOut when it is time to end."""
    if store.stop_requested(run.number):
        raise Stopped
    if time.monotonic() > deadline:
        raise TimedOut


class ChildFailed(Exception):
    """The measuring process reported a failure, or ended without a word."""

    def __init__(self, event: events.Failed) -> None:
        super().__init__(event.reason)
        self.event = event


class Child:
    """A measuring process in a session of its own; leaving the `with` ends all of it."""

    def __init__(
        self, store: Store, run: Run, folder: Path | None = None, priming: bool = False
    ) -> None:
        self._store, self._run = store, run
        self._phase = "starting"
        environment = child_environment(run.spec, run.id, folder)
        if priming:
            environment["BENCH_PRIME"] = "1"
        logs_dir().mkdir(parents=True, exist_ok=True)
        with open(logs_dir() / f"{run.id}.log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench_core.measuring"],
                cwd=CHECKOUT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._created = _create_time(self._process.pid)
        store.set_child(run.number, self._process.pid, self._created)
        # Not a Queue: Ctrl-C in the midst of its `get` may leave its lock taken for good.
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        assert self._process.stdin and self._process.stdout
        self._words = self._process.stdin
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()
        self.say(run.spec.to_json())

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._lines.put(line)
        self._lines.put(None)

    def say(self, line: str) -> None:
        """One line to the child; one that is gone already shows at the end of its events."""
        with contextlib.suppress(BrokenPipeError):
            self._words.write(line.encode() + b"\n")
            self._words.flush()

    def report(self, seconds: float = POLL_SECONDS) -> events.Event | None:
        """The next event; None when there is none within `seconds`. Raises ChildFailed."""
        try:
            line = self._lines.get(timeout=seconds) if seconds else self._lines.get_nowait()
        except queue.Empty:
            if self._process.poll() is None:
                return None
            # It ended, but something it left behind holds its stdout open.
            line = None if self._lines.empty() else self._lines.get()
        if line is None:
            raise ChildFailed(self._ended_without_a_word())
        try:
            event = events.parse(line)
        except events.NotAnEvent as error:
            raise ChildFailed(
                events.Failed(failure="error", reason=str(error), phase=self._phase)
            ) from error
        match event:
            case events.Failed():
                raise ChildFailed(event)
            case events.PhaseStarted():
                self._phase = event.phase
        return event

    def _ended_without_a_word(self) -> events.Failed:
        code = self._process.wait()
        log = (logs_dir() / f"{self._run.id}.log").read_text(errors="replace")
        if code < 0:
            name = signal.Signals(-code).name
            hint = (
                "; if nobody did that, memory ran out and the kernel did: try a smaller batch"
                if name == "SIGKILL"
                else ""
            )
            reason = f"the measuring process was killed by {name} in phase {self._phase}{hint}"
            return events.Failed(
                failure="killed", reason=reason, phase=self._phase, traceback=log[-4000:]
            )
        return events.Failed(
            failure="error",
            reason=f"the measuring process ended with code {code} in phase {self._phase} "
            "and did not say why; its log may",
            phase=self._phase,
            traceback=log[-4000:],
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._words.close()
        if self._process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.2)  # after `finished` it is about to go by itself
        end_processes(self._run.id, self._process.pid, self._created)
        self._process.wait()
        self._keep_last_words()

    def _keep_last_words(self) -> None:
        """A process that was told to end still says what its compiler did."""
        with contextlib.suppress(queue.Empty, events.NotAnEvent):
            while (line := self._lines.get(timeout=POLL_SECONDS)) is not None:
                event = events.parse(line)
                if isinstance(event, events.Activity):
                    self._store.set_activity(self._run.number, event)


def _create_time(pid: int) -> float:
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return 0.0


def _is_that(pid: int, created: float) -> bool:
    """The same process: its create time is counted from the boot, whose time moves a little."""
    return abs(_create_time(pid) - created) < 2.0


def end_processes(run_id: str, pid: int | None, created: float | None) -> None:
    """End a run's process group: SIGTERM, two seconds, SIGKILL; then whatever bears its mark.

    Compile workers may sit in a session of their own; they inherit the run's id all the same.
    """
    if pid and created and _is_that(pid, created):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGTERM)
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            deadline = time.monotonic() + TERM_SECONDS
            while time.monotonic() < deadline and process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.05)
    if pid:
        # The leader may be gone while its children still hold the group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if not created or not psutil.pid_exists(pid) or _is_that(pid, created):
                os.killpg(pid, signal.SIGKILL)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("BENCH_RUN") == run_id:
                process.kill()


def child_environment(spec: RunSpec, run_id: str, folder: Path | None) -> dict[str, str]:
    """The settings that torch reads when it is imported, and the mark that remains are found by."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(FOREIGN_SETTINGS)
    }
    environment |= settings()
    environment["BENCH_RUN"] = run_id
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(CHECKOUT), environment.get("PYTHONPATH")))
    )
    if spec.workload.threads:
        environment["OMP_NUM_THREADS"] = environment["MKL_NUM_THREADS"] = str(spec.workload.threads)
    if folder:
        # A fresh Inductor folder alone is no cold start: precompiled headers lie under TMPDIR.
        for variable, name in (
            ("TORCHINDUCTOR_CACHE_DIR", "inductor"),
            ("TRITON_CACHE_DIR", "triton"),
            ("TMPDIR", "tmp"),
        ):
            (folder / name).mkdir(parents=True, exist_ok=True)
            environment[variable] = str(folder / name)
        environment["TMPDIR"] = str(short_path(folder / "tmp"))
    if spec.variant.execution == "compile_frozen":
        # Read when Inductor is imported; as an option of torch.compile it does nothing.
        environment["TORCHINDUCTOR_FREEZING"] = "1"
    if spec.variant.cache == "off":
        environment["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    return environment
