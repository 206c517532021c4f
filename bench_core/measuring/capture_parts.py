"""The parts of a capture, each for a process of its own: the words that `capture` takes.

What they tell goes out as JSON lines, an `event` each, as bench_core.captured describes them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, cast

import torch

from bench_core.events import Event, Phase
from bench_core.measuring import (
    capture_alternatives,
    compile_timeline,
    graphs,
    machine_load,
    step_costs,
)
from bench_core.measuring.capture_subject import Subject
from bench_core.measuring.event_stream import EventStream
from bench_core.measuring.variants import EXECUTIONS
from bench_core.spec import RunSpec


class Line(dict[str, Any]):
    """What a capture tells, in the form of an event."""

    def to_json(self) -> str:
        return json.dumps(self, default=list)


def tell_to(stream: EventStream) -> graphs.Tell:
    def tell(event: str, fields: dict[str, Any]) -> None:
        stream.emit(cast(Event, Line(event=event, **fields)))

    return tell


def _enter(stream: EventStream, phase: str) -> None:
    """A capture has phases of its own; a failure names the one that it happened in."""
    stream.phase = cast(Phase, phase)
    tell_to(stream)("phase", {"phase": phase})


def take_graphs(spec: RunSpec, stream: EventStream) -> None:
    subject, tell = Subject(spec, stream), tell_to(stream)
    _enter(stream, "capturing the graphs")
    by_dynamo = graphs.capture(subject, tell)
    tell("alternative", {"way": "TorchDynamo", **by_dynamo})
    _enter(stream, "trying other ways to capture")
    for alternative in capture_alternatives.tried(subject):
        tell("alternative", alternative)


def take_cost(spec: RunSpec, stream: EventStream) -> None:
    """The kernels are built and run: the phases of the first call, then where steps spend time."""
    subject, tell = Subject(spec, stream), tell_to(stream)
    _enter(stream, "building the kernels")
    step = _first_calls(subject, tell, "cold")
    _enter(stream, "profiling steady steps")
    device = subject.device
    cpu_before = machine_load.cpu_use()
    seconds = step_costs.unwatched_seconds(step, device)
    with step_costs.marked_code() as generated:
        watched = step_costs.watch(step, device, seconds)
    eager = subject.step_with(_in_eager(subject))
    eager()
    eager_seconds = step_costs.unwatched_seconds(eager, device)
    with step_costs.marked_modules(subject.model):
        eager_watched = step_costs.watch(eager, device, eager_seconds)
    foreign = machine_load.foreign_cpu_share(cpu_before, machine_load.cpu_use())
    calls = step_costs.call_seconds(watched, device)
    extern = {(one.sha256, call.line) for one in generated for call in one.calls if call.extern}
    extern_seconds = sum(seconds for key, seconds in calls.items() if key in extern)
    kernel_seconds = sum(calls.values()) - extern_seconds
    tell(
        "cost",
        {
            "steps": step_costs.STEPS,
            "step_seconds": watched.seconds,
            "eager_step_seconds": eager_watched.seconds,
            "kernel_seconds": kernel_seconds,
            "extern_seconds": extern_seconds,
            "foreign_cpu_share": foreign,
            "modules": step_costs.module_seconds(eager_watched, device),
            "trace": step_costs.keep_trace(watched, "trace.json.gz"),
            "calls": [
                {"sha256": sha256, "line": line, "seconds": seconds}
                for (sha256, line), seconds in calls.items()
            ],
        },
    )


def take_warm(spec: RunSpec, stream: EventStream) -> None:
    """The first call once more, from the cache that `cost` filled."""
    subject, tell = Subject(spec, stream), tell_to(stream)
    _enter(stream, "starting from the filled cache")
    _first_calls(subject, tell, "warm")


def _first_calls(subject: Subject, tell: graphs.Tell, cache: str) -> step_costs.Step:
    """Two calls through the variant, the first one's phases told; the step for more of them."""
    with subject.making():
        made = EXECUTIONS[subject.spec.variant.execution](subject.model, subject.spec, None)
    step = subject.step_with(made.callee)
    on_gpu = subject.device.type == "cuda"
    with compile_timeline.recorded() as spans:
        began = time.perf_counter_ns()
        step()
        if on_gpu:
            torch.cuda.synchronize(subject.device)
        ended = time.perf_counter_ns()
    step()
    build = "Triton" if on_gpu else "C++/OpenMP"
    tell(
        "timeline",
        {
            "cache": cache,
            "first_call_seconds": (ended - began) / 1e9,
            "phases": compile_timeline.phases(spans, began, ended, build),
        },
    )
    return step


def _in_eager(subject: Subject) -> Any:
    """The model; a function with a mark around it, for it has no modules to hook."""
    if isinstance(subject.model, torch.nn.Module):
        return subject.model

    def marked(*inputs: Any) -> Any:
        with torch.profiler.record_function(step_costs.MODULE):
            return subject.model(*inputs)

    return marked


PARTS: dict[str, Callable[[RunSpec, EventStream], None]] = {
    "graphs": take_graphs,
    "cost": take_cost,
    "warm": take_warm,
}
