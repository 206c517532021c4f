"""What the compiler did in this process: its windows as they happen, its counters when asked.

Reads names that torch does not promise to keep. One that is gone leaves its field at the default
and adds a note; it never ends a run. Sources: torch/_dynamo/callback.py, torch/_dynamo/utils.py.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench_core.events import Activity, CompileStarted, CompileWindow
from bench_core.measuring.event_stream import EventStream

LIMIT_HIT = "recompile limit"
LONGEST_GIST_PART = 250
# Activity field -> counters[group][name].
COUNTED = {
    "graphs": ("stats", "unique_graphs"),
    "frames_compiled": ("frames", "ok"),
    "frames_total": ("frames", "total"),
    "cache_hits": ("inductor", "fxgraph_cache_hit"),
    "cache_misses": ("inductor", "fxgraph_cache_miss"),
    "cache_bypasses": ("inductor", "fxgraph_cache_bypass"),
    "autograd_cache_hits": ("aot_autograd", "autograd_cache_hit"),
    "autograd_cache_misses": ("aot_autograd", "autograd_cache_miss"),
    "cudagraph_skips": ("inductor", "cudagraph_skips"),
}


@dataclass
class Reading:
    """Everything the compiler has counted up to now, or between two moments."""

    counts: Counter[str] = field(default_factory=Counter)
    breaks: Counter[str] = field(default_factory=Counter)
    recompiles: list[str] = field(default_factory=list)
    phases: Counter[str] = field(default_factory=Counter)
    kernels: int = 0
    seconds: float = 0.0


class CompilerWatch:
    """Registers itself with Dynamo for the life of the process. Costs nothing between compiles."""

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self.epoch_began_ns = time.perf_counter_ns()
        self.windows: list[tuple[int, int, str]] = []
        self.open: list[tuple[int, str]] = []
        self.broken_off: tuple[str, BaseException] | None = None
        self.notes: list[str] = []
        self.training = Reading()
        self._seen_modules: set[str] = set()
        self._before = Reading()
        self._guarded("the compile callbacks", self._register)

    def _register(self) -> None:
        from torch._dynamo.callback import callback_handler

        callback_handler.register_start_callback(self._started)
        callback_handler.register_end_callback(self._ended)

    def _started(self, args: Any) -> None:
        trigger = args.callback_trigger.name
        self.open.append((time.perf_counter_ns(), trigger))
        self.stream.emit(CompileStarted(trigger=trigger))

    def _ended(self, args: Any) -> None:
        if not self.open:
            return
        ended = time.perf_counter_ns()
        began, trigger = self.open.pop()
        self.windows.append((began, ended, trigger))
        if error := sys.exception():
            self.broken_off = trigger, error
        self.stream.emit(self._event(began, ended, trigger))

    def _event(self, began: int, ended: int, trigger: str) -> CompileWindow:
        return CompileWindow(
            trigger=trigger,
            offset_seconds=max(0.0, (began - self.epoch_began_ns) / 1e9),
            seconds=(ended - began) / 1e9,
        )

    def windows_between(self, began: int, ended: int) -> tuple[CompileWindow, ...]:
        """Windows that touch a stretch of time, clipped to it, in their order."""
        return tuple(
            self._event(max(start, began), min(end, ended), trigger)
            for start, end, trigger in sorted(self.windows)
            if end > began and start < ended
        )

    def seconds_between(self, began: int, ended: int) -> float:
        """Time inside the compiler in a stretch of time; overlapping windows count once."""
        total, reached = 0, began
        for start, end, _ in sorted(self.windows):
            start, end = max(start, reached), min(end, ended)
            if end > start:
                total += end - start
                reached = end
        return total / 1e9

    def ended_by(self, error: BaseException) -> str | None:
        """The trigger of the window that this exception ended, if it ended one."""
        if self.broken_off is None:
            return None
        trigger, cause = self.broken_off
        chain: BaseException | None = error
        while chain is not None and chain is not cause:
            chain = chain.__cause__ or chain.__context__
        return trigger if chain is cause else None

    def settle(self, training: bool) -> Activity:
        """Credit what was counted since the last call to the training, or to something else."""
        now = self._read()
        if training:
            then, sum_ = self._before, self.training
            sum_.counts.update(now.counts - then.counts)
            sum_.breaks.update(now.breaks - then.breaks)
            sum_.phases.update(now.phases)
            sum_.recompiles += now.recompiles
            sum_.kernels += now.kernels
            sum_.seconds += now.seconds - then.seconds
        self._before = now
        return self.activity()

    def activity(self) -> Activity:
        """What the compiler did for the training, up to the last `settle`."""
        read = self.training
        return Activity(
            **{name: read.counts[name] for name in COUNTED},
            graph_breaks=tuple(reason for reason in read.breaks if LIMIT_HIT not in reason),
            recompiles=tuple(read.recompiles),
            recompile_limit_hit=any(LIMIT_HIT in reason for reason in read.breaks),
            kernels=read.kernels,
            compile_seconds=read.seconds,
            phase_seconds=dict(read.phases),
        )

    def _read(self) -> Reading:
        reading = Reading(seconds=sum(end - start for start, end, _ in self.windows) / 1e9)
        self._guarded("the compile counters", lambda: self._read_counters(reading))
        self._guarded("the compile metrics", lambda: self._read_metrics(reading))
        self._guarded("the generated kernels", lambda: self._read_kernels(reading))
        return reading

    def _read_counters(self, reading: Reading) -> None:
        from torch._dynamo.utils import counters

        for name, (group, key) in COUNTED.items():
            reading.counts[name] = counters[group][key]
        for group in ("graph_break", "unimplemented"):
            for reason, times in counters[group].items():
                gist = gist_of(str(reason))  # the same break may stand in both groups
                reading.breaks[gist] = max(reading.breaks[gist], times)

    def _read_metrics(self, reading: Reading) -> None:
        from torch._dynamo.utils import clear_compilation_metrics, get_compilation_metrics

        for metrics in get_compilation_metrics():
            if metrics.recompile_reason:
                reason = gist_of(metrics.recompile_reason.split("(HINT")[0])
                reading.recompiles.append(f"{metrics.compile_id}: {reason}")
            reading.phases.update(_phases(metrics))
        clear_compilation_metrics()  # it keeps only the last 64

    def _read_kernels(self, reading: Reading) -> None:
        from torch._inductor.codecache import PyCodeCache

        for module in PyCodeCache.modules:
            if module.__file__ in self._seen_modules:
                continue
            self._seen_modules.add(module.__file__)
            code = Path(module.__file__).read_text()
            reading.kernels += code.count("async_compile.cpp_pybinding(")
            reading.kernels += code.count("async_compile.triton(")

    def _guarded(self, what: str, read: Callable[[], None]) -> None:
        try:
            read()
        except (ImportError, AttributeError, KeyError, TypeError, OSError) as error:
            note = f"{what} could not be read from this torch ({type(error).__name__}: {error})"
            if note not in self.notes:
                self.notes.append(note)


def gist_of(text: str) -> str:
    """One line of the paragraphs that Dynamo writes: what happened, and its explanation."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    explained = [line.removeprefix("Explanation: ") for line in lines if "Explanation:" in line]
    return ": ".join(part[:LONGEST_GIST_PART].rstrip(". ") for part in [*lines[:1], *explained[:1]])


# How the compiler's clocks nest, outermost first: each phase is its clock less the next one's.
NESTED_CLOCKS = (
    ("dynamo", "dynamo_cumulative_compile_time_us"),
    ("aot_autograd", "aot_autograd_cumulative_compile_time_us"),
    ("aot_autograd", "backward_cumulative_compile_time_us"),  # a late backward has no first two
    ("inductor", "inductor_cumulative_compile_time_us"),
    ("code_generation", "inductor_code_gen_cumulative_compile_time_us"),
    ("kernel_compilers", "triton_compile_time_us"),  # on a CPU the wait for the C++ compiler
)


def _phases(metrics: Any) -> dict[str, float]:
    """Seconds of one compile by phase, without what is nested in each."""
    seconds: dict[str, float] = {}
    around = None
    for phase, clock in NESTED_CLOCKS:
        microseconds = getattr(metrics, clock, None)
        if microseconds is None:
            continue
        if around is not None:
            seconds[around] -= microseconds / 1e6
        seconds[phase] = seconds.get(phase, 0.0) + microseconds / 1e6
        around = phase
    return {phase: max(0.0, length) for phase, length in seconds.items()}
