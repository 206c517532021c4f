"""The other ways PyTorch has to capture a model, tried on the same model: does it, and if not, why.

Not timed. Dynamo stands beside them: it is the only one that splits a model where it cannot go on.
"""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from bench_core.measuring.capture_subject import Subject
from bench_core.measuring.compile_activity import gist_of
from bench_core.measuring.graph_stages import TORCHS, Fields

LONGEST_REASON = 300


def tried(subject: Subject) -> Iterator[Fields]:
    """One after the other, for any of them may take a while."""
    for way, capture in WAYS.items():
        yield {"way": way, **_attempt(capture, subject)}


def _attempt(capture: Callable[[Subject], Fields], subject: Subject) -> Fields:
    try:
        with warnings.catch_warnings(record=True) as caught, subject.calling():
            warnings.simplefilter("always", torch.jit.TracerWarning)
            torch.jit.TracerWarning.ignore_lib_warnings()
            found = capture(subject)
    except Exception as error:
        return {"captured": False, "reason": _reason(error), "place": _place(error)}
    decided = [one for one in caught if issubclass(one.category, torch.jit.TracerWarning)]
    if decided:
        place = f"{Path(decided[0].filename).name}:{decided[0].lineno}"
        reason = "traced path only: the example input decided what is no tensor to the tracer"
        return {**found, "captured": False, "reason": reason, "place": place}
    return {**found, "captured": True}


def _script(subject: Subject) -> Fields:
    return _one(sum(1 for _ in _torchscript_nodes(torch.jit.script(subject.model))))


def _trace(subject: Subject) -> Fields:
    # Its own check would run the model again, and dropout makes that differ.
    traced = torch.jit.trace(subject.model, subject.arguments, check_trace=False)
    return _one(sum(1 for _ in _torchscript_nodes(traced)))


def _torchscript_nodes(scripted: Any) -> Iterator[Any]:
    graph = getattr(scripted, "inlined_graph", scripted.graph)
    yield from (node for node in graph.nodes() if node.kind().startswith(("aten::", "prim::Call")))


def _symbolic_trace(subject: Subject) -> Fields:
    return _one(_operators(torch.fx.symbolic_trace(subject.model).graph))


def _export(subject: Subject) -> Fields:
    model = subject.model
    if not isinstance(model, torch.nn.Module):
        model = _Called(model)
    return _one(_operators(torch.export.export(model, subject.arguments).graph))


class _Called(torch.nn.Module):
    """torch.export takes modules only."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def _one(operators: int) -> Fields:
    return {"graphs": 1, "operators": operators}


def _operators(graph: torch.fx.Graph) -> int:
    return sum(node.op.startswith("call_") for node in graph.nodes)


WAYS: dict[str, Callable[[Subject], Fields]] = {
    "torch.jit.script": _script,
    "torch.jit.trace": _trace,
    "torch.fx.symbolic_trace": _symbolic_trace,
    "torch.export": _export,
}


def _reason(error: Exception) -> str:
    said = gist_of(str(error)).split(" (unhinted")[0]
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 4]} ..."


def _place(error: Exception) -> str:
    """`model.py:7`: the last line that is not torch's, on the way to the error or in its text."""
    frames = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    named = re.findall(r'File "([^"]+)", line (\d+)', str(error))
    for file, line in reversed([*frames, *named]):
        if not file.startswith((TORCHS, str(Path(__file__).parent), "<")):
            return f"{Path(file).name}:{line}"
    return ""
