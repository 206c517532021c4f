"""Real measuring processes for tests: start one, say words to it, read its events.

`CANONICAL` is the one workload that tests compile, so that the caches filled once for the session
(the fixture `warm_caches`) serve them all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psutil

from bench_core import events
from bench_core.paths import CHECKOUT
from bench_core.spec import Measurement, RunSpec, Variant, Workload

CANONICAL = Workload(model="small_cnn", batch_size=16, samples=64, image_size=32, pipeline="cached")
WARM_COMPILE = RunSpec(
    workload=CANONICAL,
    variant=Variant(execution="compile", cache="warm"),
    measurement=Measurement(epochs=3),
)
EventKind = TypeVar("EventKind")


def eager(**workload: Any) -> RunSpec:
    return RunSpec(workload=CANONICAL.changed(**workload), measurement=Measurement(epochs=3))


def cache_environment(caches: Path, spec: RunSpec) -> dict[str, str]:
    """The variables that make torch.compile use the run's own folder among the warm caches."""
    folder = caches / f"warm-{spec.cache_key}"
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TMPDIR": str(folder / "tmp"),
    }


class MeasuringChild:
    """One process in a session of its own. A context manager: nothing outlives the test."""

    def __init__(self, spec: RunSpec, data: Path, **environment: str) -> None:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench_core.measuring"],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            start_new_session=True,
            env={**os.environ, "BENCH_DATA": str(data), **environment},
        )
        self.events: list[events.Event] = []
        self.say(spec.to_json())

    def __enter__(self) -> MeasuringChild:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                child.kill()
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log_text()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            if stream is not None:
                stream.close()

    def say(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{word}\n" for word in words).encode())
        self.process.stdin.flush()

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def read_until(self, kind: type[EventKind], **values: Any) -> EventKind:
        """Read events up to one of this kind with these values. Fails when the stream ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = events.parse(line)
            self.events.append(event)
            if isinstance(event, kind) and all(
                getattr(event, name) == value for name, value in values.items()
            ):
                return event
        raise AssertionError(f"no {kind.__name__} came; the log says:\n{self.log_text()}")

    def read_to_end(self) -> int:
        """Read all events and wait; the exit code."""
        assert self.process.stdout is not None
        self.events += [events.parse(line) for line in self.process.stdout]
        return self.process.wait()

    def said(self, kind: type[EventKind]) -> list[EventKind]:
        return [event for event in self.events if isinstance(event, kind)]

    def log_text(self) -> str:
        """What libraries printed; still known when the process is gone."""
        if not self.log.closed:
            self.log.seek(0)
            self._log_text = self.log.read().decode(errors="replace")[-5000:]
        return self._log_text


def write_model(data: Path, name: str, code: str) -> None:
    """A user's model file, in the models folder of this data folder."""
    (data / "models").mkdir(exist_ok=True)
    (data / "models" / name).write_text(textwrap.dedent(code))


def measured(spec: RunSpec, data: Path, epochs: int = 3, **environment: str) -> MeasuringChild:
    """A whole run, ended politely."""
    with MeasuringChild(spec, data, **environment) as child:
        child.say(*["go"] * epochs, "stop")
        child.read_to_end()
    return child


@contextmanager
def adopted(spec: RunSpec, data: Path, **environment: str) -> Iterator[Adopted]:
    """A child with one `go`, whose parent is a process that the test may kill."""
    code = f"""
import time
from pathlib import Path
from bench_core.spec import RunSpec
from tests.measuring_child import MeasuringChild
spec = RunSpec.from_json({spec.to_json()!r})
child = MeasuringChild(spec, Path({str(data)!r}), **{environment!r})
child.say("go")
print(child.process.pid, flush=True)
time.sleep(1000)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    try:
        yield Adopted(parent, child)
    finally:
        for process in [*descendants(child), child]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        parent.kill()
        parent.wait()
        parent.stdout.close()


class Adopted(NamedTuple):
    parent: subprocess.Popen[str]
    child: psutil.Process

    def orphan(self) -> list[psutil.Process]:
        """Kill the parent; those of the child's processes that still live five seconds later."""
        family = [self.child, *descendants(self.child)]
        self.parent.kill()
        self.parent.wait()
        _, alive = psutil.wait_procs(family, timeout=5)
        return [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def wait_for(happened: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
