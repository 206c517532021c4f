"""The parts of a capture, each for a process of its own: the words that `capture` takes.

What they tell goes out as JSON lines, an `event` each, as bench_core.captured describes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from bench_core.events import Event
from bench_core.measuring import capture_alternatives, graphs
from bench_core.measuring.capture_subject import Subject
from bench_core.measuring.event_stream import EventStream
from bench_core.spec import RunSpec


class Line(dict[str, Any]):
    """What a capture tells, in the form of an event."""

    def to_json(self) -> str:
        return json.dumps(self, default=list)


def tell_to(stream: EventStream) -> graphs.Tell:
    def tell(event: str, fields: dict[str, Any]) -> None:
        stream.emit(cast(Event, Line(event=event, **fields)))

    return tell


def take_graphs(spec: RunSpec, stream: EventStream) -> None:
    subject, tell = Subject(spec, stream), tell_to(stream)
    tell("phase", {"phase": "capturing the graphs"})
    graphs.capture(subject, tell)
    tell("phase", {"phase": "trying other ways to capture"})
    for alternative in capture_alternatives.tried(subject):
        tell("alternative", alternative)


PARTS: dict[str, Callable[[RunSpec, EventStream], None]] = {"graphs": take_graphs}
