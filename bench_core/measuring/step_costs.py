"""Where a steady step's time goes, by line of the generated code, and by module in eager mode.

The generated modules are the ones that run anyway: around each call they make stands a mark for the
profiler. In eager mode hooks mark the modules, and a backward operator belongs to the module whose
forward made it (torch's sequence numbers). Both slow a step down, so a step is timed without them
first, and what they find is scaled to it: estimates.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from bench_core.measuring import generated_code, private_names
from bench_core.measuring.graph_stages import Fields
from bench_core.measuring.machine_load import SHORTEST_SECONDS

STEPS = 5
MARK, MODULE, STEADY = "bench_core:", "module:", "steady steps"
BACKWARD_SCOPE = 1  # of RecordScope::BACKWARD_FUNCTION
Step = Callable[[], Any]


class Watched(NamedTuple):
    """Profiled steps. `seconds` are one's without profiler and marks, `watched_seconds` with."""

    profiler: profile
    seconds: float
    watched_seconds: float

    @property
    def scale(self) -> float:
        """From microseconds of all watched steps to seconds of an unwatched one."""
        return self.seconds / self.watched_seconds / STEPS / 1e6


class Generated(NamedTuple):
    """One generated module of this process."""

    sha256: str
    calls: tuple[generated_code.Call, ...]


def unwatched_seconds(step: Step, device: torch.device) -> float:
    """Of one step: the median of a few, of short ones of more."""
    spent: list[float] = []
    while len(spent) < STEPS or sum(spent) < SHORTEST_SECONDS:
        _wait(device)
        began = time.perf_counter()
        step()
        _wait(device)
        spent.append(time.perf_counter() - began)
    return median(spent)


def watch(step: Step, device: torch.device, seconds: float) -> Watched:
    """Profile it. `seconds` are those of a step that is not watched."""
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    _wait(device)
    with profile(activities=activities) as profiler:
        step()  # the profiler's own start falls into it
        _wait(device)
        with record_function(STEADY):
            began = time.perf_counter()
            for _ in range(STEPS):
                step()
            _wait(device)
            watched_seconds = time.perf_counter() - began
    return Watched(profiler, seconds, watched_seconds / STEPS)


def _steady_events(watched: Watched) -> list[Any]:
    """What the CPU did in the steps that were timed: none of the first step's."""
    events = [
        event
        for event in watched.profiler.events()
        if event.device_type == torch.autograd.DeviceType.CPU
    ]
    began = next(event.time_range.start for event in events if event.name == STEADY)
    return [event for event in events if event.time_range.start > began]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# Compiled


@contextmanager
def marked_code() -> Iterator[list[Generated]]:
    """Marks around the calls in all generated modules of this process; taken away at the end."""
    found = []
    with ExitStack() as stack:
        modules = private_names.find("modules_of_code")
        for module in list(modules) if isinstance(modules, list) else []:
            text = Path(module.__file__).read_text(encoding="utf-8")
            try:
                calls, codes = generated_code.parse(text).calls, generated_code.watched(text)
            except SyntaxError:
                continue
            if not calls:
                continue
            sha256 = generated_code.sha256_of(text)
            setattr(module, generated_code.RECORD, _recorder(sha256))
            for function in _functions(module, codes):
                stack.callback(setattr, function, "__code__", function.__code__)
                function.__code__ = codes[function.__name__]
            found.append(Generated(sha256, calls))
        yield found


def _recorder(sha256: str) -> Callable[[str], record_function]:
    return lambda line: record_function(f"{MARK}{sha256}:{line}")


def _functions(module: Any, names: Any) -> Iterator[Any]:
    """The module's own, and those of the class whose method is `call`."""
    runner = getattr(getattr(module, "call", None), "__self__", None)
    for home in filter(None, (module, type(runner) if runner is not None else None)):
        for name in names:
            function = vars(home).get(name)
            if isinstance(function, FunctionType):
                yield function


def call_seconds(watched: Watched, device: torch.device) -> dict[tuple[str, int], float]:
    """Seconds of a step by generated module and line."""
    seconds: defaultdict[tuple[str, int], float] = defaultdict(float)
    for event in _steady_events(watched):
        if event.name.startswith(MARK):
            _, sha256, line = event.name.split(":")
            seconds[sha256, int(line)] += _total(event, device) * watched.scale
    return dict(seconds)


def _total(event: Any, device: torch.device) -> float:
    return event.device_time_total if device.type == "cuda" else event.cpu_time_total


# Eager


@contextmanager
def marked_modules(model: Any) -> Iterator[None]:
    """Each module's forward is a range of its name. A function is marked by its caller."""
    with ExitStack() as stack:
        for name, module in model.named_modules() if isinstance(model, torch.nn.Module) else ():
            ranges: list[Any] = []

            def enter(*_: Any, name: str = name, ranges: list[Any] = ranges) -> None:
                ranges.append(record_function(MODULE + name))
                ranges[-1].__enter__()

            def leave(*_: Any, ranges: list[Any] = ranges) -> None:
                ranges.pop().__exit__(None, None, None)

            stack.callback(module.register_forward_pre_hook(enter).remove)
            stack.callback(module.register_forward_hook(leave).remove)
        yield


def module_seconds(watched: Watched, device: torch.device) -> list[Fields]:
    """Seconds of a step by module and direction: the operators' own, without Python's.

    What is in no module (loss, optimiser) is left out; of a function everything is in it.
    """
    own = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    events = _steady_events(watched)
    made_in: dict[int, str] = {}
    for event in events:
        module = _module_of(event)
        if module is not None and event.sequence_nr >= 0:
            made_in[event.sequence_nr] = module
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for event in events:
        if event.name.startswith(MODULE):
            continue
        module, part = _module_of(event), "forward"
        if module is None:
            module, part = made_in.get(_backward_of(event)), "backward"
        if module is not None:
            seconds[module, part] += getattr(event, own) * watched.scale
    return [
        {"module": module, "part": part, "eager_seconds": spent}
        for (module, part), spent in seconds.items()
    ]


def _module_of(event: Any) -> str | None:
    while event is not None:
        if event.name.startswith(MODULE):
            return event.name.removeprefix(MODULE)
        event = event.cpu_parent
    return None


def _backward_of(event: Any) -> int:
    """The sequence number of the forward operator whose gradient this is a part of; or -1."""
    while event is not None:
        if event.scope == BACKWARD_SCOPE or event.name.startswith("autograd::engine::evaluate"):
            return event.sequence_nr
        event = event.cpu_parent
    return -1


# The trace


def keep_trace(watched: Watched, name: str) -> str:
    """The Chrome trace, packed, in the folder that BENCH_CAPTURE_FOLDER names; its name there."""
    folder = os.environ.get("BENCH_CAPTURE_FOLDER")
    if not folder:
        return ""
    with tempfile.NamedTemporaryFile(suffix=".json") as plain:
        watched.profiler.export_chrome_trace(plain.name)
        with open(plain.name, "rb") as source, gzip.open(Path(folder) / name, "wb") as packed:
            shutil.copyfileobj(source, packed)
    return name
