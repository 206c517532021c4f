"""Captures of what torch.compile makes of a model: taken in processes of their own, kept as files.

    data/caches/captures/KEY/capture.json    the summary (captured.Capture), for a page's head
                             kernels.json    the kernels, with their time once it was measured
                             graphs/ code/   one file a graph or generated module
                             trace.json.gz   a Chrome trace of the profiled steps
                             log.txt         what the compilers printed

A capture changes no timed result: its process is never a timed one, its cache folders are its own
and are removed, and it takes its turn on the machine like a measurement. Everything is cached by
what can change it: workload, variant, device, the versions of torch, torchvision and timm, a model
file's content. Pages call `find`, `start` and `state`, which return at once; the command line calls
`take`, which waits.
`python -m bench_core.captures` takes one whose spec comes as a line on stdin.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path

import psutil

from bench_core import capture_part, whole_file
from bench_core.capabilities import takes_images
from bench_core.captured import (
    PARTS,
    Capture,
    GraphFile,
    Kernel,
    PartName,
)
from bench_core.file_lock import LOOK_SECONDS, locked
from bench_core.graph import Graph
from bench_core.paths import CHECKOUT, caches_dir, machine_lock, models_dir, settings
from bench_core.spec import COMPILES, Frozen, Measurement, RunSpec, SpecError, Workload

POLL_SECONDS = 0.2
FORM = 5  # of what is kept: a new one leaves older captures unread


class CannotCapture(ValueError):
    """There is nothing to capture, or nothing can be. The text says why and the way out."""


class CaptureBusy(RuntimeError):
    """Somebody takes this capture already."""


class State(Frozen):
    """A capture that is being taken: the part, its phase, and since when (seconds since 1970)."""

    part: PartName
    phase: str
    since: float
    pid: int
    created: float


# Which capture a run belongs to


def objection(spec: RunSpec) -> str:
    """Why this run has no capture; empty when it has one."""
    execution = spec.variant.execution
    if spec.workload.is_foreign:
        return f"{spec.workload.model} is known from imported results only: choose another model"
    if execution not in COMPILES:
        return (
            f"a capture shows what torch.compile makes of a model, got execution {execution!r}; "
            f"choose {' or '.join(COMPILES)}"
        )
    if spec.variant.disable:
        return "disable=True switches torch.compile off: leave it out"
    return ""


def essence(spec: RunSpec) -> RunSpec:
    """The run without what changes no graph: data set, loader, number of samples, cache, length.

    Raises CannotCapture.
    """
    if said := objection(spec):
        raise CannotCapture(said)
    work = spec.workload
    without_images = set() if takes_images(work.model) else {"image_size"}
    kept = {
        name: getattr(work, name)
        for name in (
            "task", "model", "image_size", "batch_size", "precision", "tf32", "memory_layout",
            "optimizer", "learning_rate", "threads", "grad_mode", "compile_in_grad_mode",
            "backward",
        )
        if name not in without_images
    }  # fmt: skip
    return RunSpec(
        workload=Workload(**kept, pipeline="resident", samples=work.batch_size),
        variant=spec.variant.changed(cache="cold"),
        measurement=Measurement(weights="random", seed=spec.measurement.seed),
        device=spec.device,
    )


def key_of(spec: RunSpec) -> str:
    """Names the folder: another one when torch, torchvision, timm, a model file or the form is."""
    spec = essence(spec)
    facts = [spec.to_json(), *map(_version, ("torch", "torchvision", "timm")), str(FORM)]
    kind, _, name = spec.workload.model.partition(":")
    if kind == "file" or name.endswith(".py"):
        with contextlib.suppress(OSError):
            facts.append(hashlib.sha256((models_dir() / name).read_bytes()).hexdigest())
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def folder_of(key: str) -> Path:
    return caches_dir() / "captures" / key


# Reading what is kept


def find(spec: RunSpec) -> Capture | None:
    """The kept capture of such a run with this torch, whole or in part. Raises CannotCapture."""
    return read(key_of(spec))


def read(key: str) -> Capture | None:
    try:
        return Capture.from_json((folder_of(key) / "capture.json").read_bytes())
    except (OSError, SpecError):  # one of an older form counts as none
        return None


def stored() -> list[Capture]:
    """All that are kept, the newest first."""
    keys = [file.parent.name for file in folder_of("").glob("*/capture.json")]
    return sorted(filter(None, map(read, keys)), key=lambda one: (-one.captured_at, one.key))


def read_graph(capture: Capture, file: GraphFile) -> Graph:
    return Graph.from_json(read_file(capture, file.file))


def read_kernels(capture: Capture) -> tuple[Kernel, ...]:
    """In the order of their first call, graph by graph, forward before backward."""
    return capture_part.kernels_in(folder_of(capture.key))


def read_file(capture: Capture, name: str) -> str:
    """A code file, torch's own text of a graph, the log."""
    return (folder_of(capture.key) / name).read_text(encoding="utf-8", errors="replace")


def source_of(capture: Capture, kernel: Kernel) -> str:
    """The kernel's definition, or the call of the library, as it stands in the code."""
    lines = read_file(capture, kernel.file).splitlines()
    return "\n".join(lines[kernel.first_line - 1 : kernel.last_line])


def title_of(capture: Capture) -> str:
    """`resnet18, training, batch 16, 224 px, compile on cpu`."""
    spec = capture.spec
    work = spec.workload
    task = "training" if work.task == "train" else "inference"
    size = [f"{work.image_size} px"] if takes_images(work.model) else []
    seed = [f"seed {spec.measurement.seed}"] if spec.measurement.seed else []
    words = [work.model_name, task, *work.words, *size, *seed, spec.variant.name]
    return f"{', '.join(words)} on {spec.device}"


def delete(key: str) -> None:
    """The capture and all its files; one that is being taken is left alone."""
    with contextlib.suppress(CaptureBusy), _only_one(key):
        # First what makes it one: a page that is drawn meanwhile finds it whole or not at all.
        (folder_of(key) / "capture.json").unlink(missing_ok=True)
        shutil.rmtree(folder_of(key), ignore_errors=True)


# Taking one


def left(capture: Capture) -> list[PartName]:
    """Parts that were not taken or failed; with the graphs all: costs are of their kernels."""
    lacking = [p for p in PARTS if p not in capture.parts or p in capture.failures]
    return list(PARTS) if "graphs" in lacking else lacking


def start(spec: RunSpec, parts: Sequence[PartName] = PARTS) -> None:
    """Take it in the background; nothing when it is being taken already. Raises CannotCapture."""
    spec = essence(spec)
    if state(spec):
        return
    folder = folder_of(key_of(spec))
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "log.txt", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench_core.captures", *parts],
            cwd=CHECKOUT,
            env={**os.environ, **settings()},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdin
    with contextlib.suppress(BrokenPipeError), process.stdin as words:
        words.write(spec.to_json().encode() + b"\n")
    # Collects the exit code, or the ended process stays a zombie of the app.
    threading.Thread(target=process.wait, daemon=True).start()


def state(spec: RunSpec) -> State | None:
    """How far a capture is that is being taken now; None when none is."""
    folder = folder_of(key_of(spec))
    if not folder.is_dir():
        return None
    descriptor = locked(folder / "lock", shared=True)  # two that look see no capture in each other
    if descriptor is not None:
        os.close(descriptor)
        return None
    try:
        return State.from_json((folder / "state.json").read_bytes())
    except (OSError, SpecError):
        return State(part="graphs", phase="starting", since=time.time(), pid=0, created=0.0)


def stop(spec: RunSpec) -> None:
    """End one that is being taken; the parts that are done are kept."""
    now = state(spec)
    if now and now.pid:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(now.pid)
            if abs(process.create_time() - now.created) < 2:
                process.terminate()


def take(
    spec: RunSpec,
    parts: Sequence[PartName] = PARTS,
    watch: Callable[[PartName, str], None] | None = None,
) -> Capture:
    """Take those parts that are `left`, one after the other; each is kept when it is done.

    `watch` is told the part and the phase. A part that fails is a fact of the capture: later parts
    are tried all the same, and it is tried when it is asked for again. Raises CannotCapture,
    CaptureBusy.
    """
    spec = essence(spec)
    key = key_of(spec)
    folder_of(key).mkdir(parents=True, exist_ok=True)
    with _only_one(key):
        capture = read(key) or Capture(key=key, spec=spec)
        cache = caches_dir() / f"capture-{key}"
        wanted = [part for part in left(capture) if part in parts]
        if wanted == ["warm"]:
            wanted = ["cost", "warm"]  # the caches of an earlier day are gone
        told = _Teller(key, watch)
        try:
            for part in wanted:
                with _turn_on_this_machine(partial(told, part, "waiting")):
                    if part == wanted[0]:
                        shutil.rmtree(cache, ignore_errors=True)
                        _remove_remains()
                    capture = capture_part.taken(
                        capture, part, folder_of(key), cache, partial(told, part)
                    )
        finally:
            shutil.rmtree(cache, ignore_errors=True)
            (folder_of(key) / "state.json").unlink(missing_ok=True)
        return capture


class _Teller:
    """Writes down how far it is, for `state`, and tells the one who waits."""

    def __init__(self, key: str, watch: Callable[[PartName, str], None] | None) -> None:
        self.file, self.watch = folder_of(key) / "state.json", watch
        self.created = psutil.Process().create_time()
        self.since: dict[PartName, float] = {}

    def __call__(self, part: PartName, phase: str) -> None:
        since = self.since.setdefault(part, time.time())
        now = State(part=part, phase=phase, since=since, pid=os.getpid(), created=self.created)
        whole_file.write(self.file, now.to_json())
        if self.watch:
            self.watch(part, phase)


@contextlib.contextmanager
def _only_one(key: str) -> Iterator[None]:
    try:
        descriptor = locked(folder_of(key) / "lock", patience_seconds=LOOK_SECONDS)
    except FileNotFoundError:
        descriptor = None
    if descriptor is None:
        raise CaptureBusy(f"capture {key} is being taken already, or there is none")
    try:
        yield
    finally:
        os.close(descriptor)


def _remove_remains() -> None:
    """Compile caches of captures whose process was killed: nobody takes these captures now."""
    for cache in caches_dir().glob("capture-*"):
        key = cache.name.removeprefix("capture-")
        held = _only_one(key) if folder_of(key).is_dir() else contextlib.nullcontext()
        with contextlib.suppress(CaptureBusy), held:
            shutil.rmtree(cache, ignore_errors=True)


@contextlib.contextmanager
def _turn_on_this_machine(waiting: Callable[[], None]) -> Iterator[None]:
    """A compile beside a measurement would spoil its timing."""
    descriptor = locked(machine_lock())
    if descriptor is None:
        waiting()
    while descriptor is None:
        time.sleep(POLL_SECONDS)
        descriptor = locked(machine_lock())
    try:
        yield
    finally:
        os.close(descriptor)


def main(parts: Sequence[str]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    spec = RunSpec.from_json(sys.stdin.readline())
    with contextlib.suppress(CaptureBusy):  # of two presses at once the first one takes it
        take(spec, [part for part in PARTS if part in parts])


if __name__ == "__main__":
    main(sys.argv[1:])
