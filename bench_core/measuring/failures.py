"""Every way a measurement can fail, as one word of events.Failure and one plain sentence.

Imports no torch: a missing torch is one of the failures. Torch's exceptions are known here by
their class names, which have been steadier over its versions than the modules they live in.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path

from bench_core.events import Failed, Failure
from bench_core.measuring.compile_activity import gist_of
from bench_core.spec import RunSpec, SpecError

LONGEST_REASON = 600
# The loops of inference.py that call the model.
CLOCKS = ("_on_host_clock", "_on_device_clock")


class CannotMeasure(Exception):
    """Found before torch would have stumbled over it; the text is the sentence."""

    failure: Failure = "error"


class ModelError(CannotMeasure):
    failure: Failure = "model error"


class DataMissing(CannotMeasure):
    failure: Failure = "data missing"


class DeviceMissing(CannotMeasure):
    failure: Failure = "device missing"


class CompileRefused(CannotMeasure):
    failure: Failure = "compile error"


class LossIsNan(CannotMeasure):
    failure: Failure = "nan loss"


class NotEnoughMemory(CannotMeasure):
    failure: Failure = "out of memory"


def failed(
    error: BaseException,
    spec: RunSpec | None,
    phase: str,
    epoch: int | None = None,
    compiling: str | None = None,
) -> Failed:
    """The event for an exception.

    `compiling` is the trigger of the compile window that the exception ended, if it ended one.
    """
    inference = spec is not None and spec.workload.task == "infer"
    where = _where(phase, epoch, compiling, "block of iterations" if inference else "epoch")
    try:
        failure, reason = _judged(list(_chain(error)), spec, where, compiling)
    except Exception:  # an exception whose own text cannot be had
        failure, reason = "error", f"{type(error).__name__} {where}; it cannot say why"
    return Failed(
        failure=failure,
        reason=_as_unicode(_shortened(reason)),
        phase=where,
        traceback=_as_unicode("".join(traceback.format_exception(error))[-20_000:]),
    )


def _as_unicode(text: str) -> str:
    """Without the lone surrogates that a path which is not UTF-8 leaves in a text."""
    return text.encode("utf-8", "replace").decode()


def _where(phase: str, epoch: int | None, compiling: str | None, pass_: str) -> str:
    if compiling == "LAZY_BACKWARD":
        return "while compiling the backward graph"
    if compiling == "CUDAGRAPH_RECORDING":
        return "while recording a CUDA graph"
    if compiling:
        return "while compiling the forward graph"
    if phase == "epoch":
        return f"in the first {pass_}" if epoch == 1 else f"in {pass_} {epoch}"
    return {
        "data": "while the data was prepared",
        "model": "while the model was built",
        "priming": "while the warm cache was filled",
        "after timing": "after the timing",
    }.get(phase, f"in phase {phase}")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and everything that led to it; Dynamo keeps the cause in inner_exception."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop(0)
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting += [
            getattr(current, "inner_exception", None),
            current.__cause__,
            None if current.__suppress_context__ else current.__context__,
        ]


def _judged(
    chain: list[BaseException],
    spec: RunSpec | None,
    where: str,
    compiling: str | None,
) -> tuple[Failure, str]:
    error = chain[0]
    for cause in chain:
        if _is_out_of_memory(cause):
            return "out of memory", _out_of_memory(cause, spec, where)
    for cause in chain:
        if isinstance(cause, CannotMeasure):
            return cause.failure, str(cause)
    if isinstance(error, SpecError):
        return "error", f"the spec cannot be read: {error}"
    for cause in chain:
        if tool := _missing_tool(cause):
            return "compiler missing", (
                f"torch.compile needs {tool}, and it was not found {where}; install it "
                f"({TOOLS[tool]}) or measure with backend 'aot_eager'"
            )
    for cause in chain:
        names = _class_names(cause)
        # A branch on a tensor's value is a UserError instead of an Unsupported under fullgraph.
        one_graph = spec is not None and spec.variant.fullgraph
        if "Unsupported" in names or ("UserError" in names and one_graph):
            return "graph break", (
                f"the model is not one graph, as fullgraph=True demands: {gist_of(str(cause))}; "
                f"change {_user_line(cause)} or leave fullgraph off, which splits the graph there"
            )
        if "TorchRuntimeError" in names:  # the model's own operators refuse these inputs
            return "model error", f"the model failed {where}: {_first_line(cause)}"
    if compiling or any("TorchDynamoException" in _class_names(cause) for cause in chain):
        return "compile error", (
            f"torch.compile failed {where}: {_said(chain)}; the log has the whole text"
            + (
                ", and a run with backend 'aot_eager' shows whether it is Inductor that fails"
                if spec is not None and spec.variant.backend == "inductor"
                else ""
            )
        )
    if _in_step(error):
        return "model error", (
            f"the model or its loss raised {type(error).__name__} {where}: {_first_line(error)}"
        )
    return "error", f"{type(error).__name__} {where}: {_first_line(error)}"


TOOLS = {
    "a C++ compiler": "Debian: apt-get install g++; macOS: xcode-select --install",
    "the program openssl": "Debian: apt-get install openssl",
    "Triton": "pip install triton",
}


def _missing_tool(error: BaseException) -> str | None:
    names = _class_names(error)
    if "InvalidCxxCompiler" in names:
        return "a C++ compiler"
    if isinstance(error, FileNotFoundError):
        program = str(error.filename)
        if program == "openssl":
            return "the program openssl"
        if any(word in program for word in ("g++", "c++", "clang", "gcc")):
            return "a C++ compiler"
    return "Triton" if names & {"TritonMissing", "TritonUnavailableError"} else None


def _is_out_of_memory(error: BaseException) -> bool:
    said = str(error)
    return (
        isinstance(error, MemoryError)
        or "OutOfMemoryError" in _class_names(error)
        or "DefaultCPUAllocator: can't allocate memory" in said
        or "DefaultCPUAllocator: not enough memory" in said
    )


def _out_of_memory(error: BaseException, spec: RunSpec | None, where: str) -> str:
    if isinstance(error, NotEnoughMemory) or spec is None:
        return str(error)
    work, batch = spec.workload, spec.workload.batch_size
    if work.is_function:
        return (
            f"out of memory {where} with inputs of size {batch} on {spec.device} "
            f"({_first_line(error)}); take a smaller size"
        )
    way_out = "take a smaller batch or image" if batch > 1 else "take a smaller image or model"
    return (
        f"out of memory {where} with batch size {batch} at {work.image_size} px on "
        f"{spec.device} ({_first_line(error)}); {way_out}, or precision bf16"
    )


def _class_names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _in_step(error: BaseException) -> bool:
    """Raised under a step, the evaluation or a call: by the model, its loss or its update."""
    steps = {"training.py": ("plain", "scaled", "evaluate"), "inference.py": CLOCKS}
    return any(
        frame.f_code.co_name in steps.get(Path(frame.f_code.co_filename).name, ())
        for frame, _ in traceback.walk_tb(error.__traceback__)
    )


def _said(chain: list[BaseException]) -> str:
    """The innermost named cause, which says more than the wrappers around it."""
    innermost = chain[0]
    while inner := getattr(innermost, "inner_exception", None):
        innermost = inner
    return f"{type(innermost).__name__}: {_first_line(innermost)}"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def _user_line(error: BaseException) -> str:
    """FILE:LINE in the user's code where Dynamo stopped, from the text it made of its stack."""
    places = re.findall(r'File "([^"]+)", line (\d+)', str(error))
    return ":".join(places[-1]) if places else "the model"


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 4] + " ..."
