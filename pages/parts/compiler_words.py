"""What a capture says in words: the answer, its stages with their counts, and what is missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench_core.captured import Capture, Kernel
from bench_core.doubts import LOUD_NEIGHBOURS
from bench_core.graph import Part, Stage, short_operator
from bench_core.units import NO_BREAK, TIMES, count_text, counted

PART_WORDS: dict[Part, str] = {
    "both": "Joint",
    "forward": "Forward",
    "backward": "Backward",
}
CAPTURE_PARTS = {
    "graphs": "the graphs",
    "cost": "what they cost",
    "warm": "the start from a warm cache",
}


def answer(capture: Capture, kernels: Sequence[Kernel]) -> tuple[str, str]:
    """The finding as a title, and the sentences that say what it means."""
    return _title(capture), " ".join(filter(None, (_graphs(capture), _ceiling(capture, kernels))))


def _title(capture: Capture) -> str:
    before = _by_part(capture, "before_fusion")
    calls = sum(code.kernel_calls for code in capture.code)
    if before and capture.code:
        made = calls + capture.extern_calls
        if sum(before.values()) <= made:  # lowering joined them before fusion could
            before = _by_part(capture, "after_passes") or before
        operations = " + ".join(
            f"{count_text(count)} {part}" if len(before) > 1 else count_text(count)
            for part, count in before.items()
        )
        noun = "operation" if sum(before.values()) == 1 else "operations"
        return f"{operations} {noun} became {_calls(calls, capture.extern_calls)}."
    captured = capture.operators("dynamo")
    if captured is None:
        return "Nothing of the model was captured."
    graphs = counted(len(capture.frames), "graph")
    if capture.spec.variant.backend != "inductor":
        backend = capture.spec.variant.backend
        return f"{graphs} of {counted(captured, 'operator')}; backend {backend} writes no kernels."
    return f"{counted(captured, 'operator')} were captured in {graphs}; no code was generated."


def _by_part(capture: Capture, stage: Stage) -> dict[Part, int]:
    """Operators of all graphs of the stage, forward and backward apart."""
    found: dict[Part, int] = {}
    for file in capture.at(stage):
        found[file.part] = found.get(file.part, 0) + file.operators
    return found


def nothing_to_fuse(capture: Capture) -> bool:
    """Whether lowering joined operators, and fusion found nothing more to join."""
    before = capture.operators("before_fusion")
    lowered = capture.operators("after_passes") or 0
    return 0 < (before or 0) < lowered and before == capture.operators("after_fusion")


def _calls(generated: int, of_libraries: int) -> str:
    if not of_libraries:
        return (
            "one generated kernel" if generated == 1 else f"{generated} calls of generated kernels"
        )
    if not generated:
        return counted(of_libraries, "library call")
    return (
        f"{counted(generated + of_libraries, 'kernel call')}: {count_text(generated)} of generated "
        f"kernels and {count_text(of_libraries)} of libraries"
    )


def _graphs(capture: Capture) -> str:
    if not capture.frames:
        return ""
    breaks = capture.graph_breaks
    graphs = "One graph" if len(capture.frames) == 1 else counted(len(capture.frames), "graph")
    return f"{graphs}, {counted(breaks, 'break') if breaks else 'no breaks'}."


def _ceiling(capture: Capture, kernels: Sequence[Kernel]) -> str:
    """What the library calls leave to win, were all else free: an estimate from profiled steps."""
    cost = capture.cost
    if cost is None or not cost.step_seconds:
        return ""
    share = cost.extern_seconds / cost.step_seconds
    step = "step" if capture.spec.workload.task == "train" else "call"
    if share < 0.005:
        return f"Library calls take next to nothing of the {step}."
    text = (
        f"Calls of libraries{_heaviest(kernels)} stay as they were: {100 * share:.0f}{NO_BREAK}% "
        f"of the {step} is in them"
    )
    most = cost.eager_step_seconds / cost.extern_seconds
    if most <= 1:
        return f"{text}."
    digits = 1 if most < 10 else 0
    return (
        f"{text}, so about {most:.{digits}f}{TIMES} is the most to expect: an estimate from "
        "profiled steps."
    )


def _heaviest(kernels: Sequence[Kernel]) -> str:
    """` (mostly convolution)`: what the libraries are called for, if they were timed."""
    seconds: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        if kernel.kind == "extern":
            seconds[short_operator(kernel.name).removesuffix("_backward")] += kernel.seconds or 0.0
    if not any(seconds.values()):
        return ""
    name = max(seconds, key=seconds.__getitem__)
    return f" (mostly {name})"


class Tab(NamedTuple):
    """A place of the stage switch: the stages before and after, and its name with its counts."""

    key: str
    name: str
    before: Stage | None
    after: Stage | None
    help: str


TABS = (
    Tab("dynamo", "Dynamo", None, "dynamo", "Python bytecode became graphs of operators."),
    Tab("aot", "AOTAutograd", "dynamo", "joint", "Operators became simpler ones, with gradients."),
    Tab("passes", "Passes", "before_passes", "after_passes", "TorchInductor replaced operators."),
    Tab("fusion", "Fusion", "before_fusion", "after_fusion", "Loops over memory were joined."),
    Tab("code", "Code", None, None, "C++ or Triton was written for what is left."),
)


def tab_label(tab: Tab, capture: Capture) -> str:
    """`Fusion · 421 → 203`; a stage that is not there says so."""
    if tab.key == "code":
        if not capture.code:
            return f"{tab.name} · none"
        return f"{tab.name} · {counted(capture.kernels, 'kernel')}"
    counts = [
        capture.operators(stage)
        for stage in ((tab.before, tab.after) if tab.key != "aot" else (tab.after,))
        if stage
    ]
    told = [count_text(count) for count in counts if count is not None]
    if not told:
        return f"{tab.name} · none"
    if tab.key == "dynamo":
        return f"{tab.name} · {counted(counts[0] or 0, 'operator')}"
    return f"{tab.name} · {' → '.join(dict.fromkeys(told) if len(set(told)) == 1 else told)}"


def absences(capture: Capture) -> Iterator[str]:
    """What is not there and why, a sentence each; plain text."""
    for name, failed in capture.failures.items():
        how = "Captured in part" if name == "graphs" and capture.graphs else "Not captured"
        yield f"{how}: {CAPTURE_PARTS[name]}. {failed.reason}"
    for one in capture.missing:
        yield f"Absent: {one.what}. {one.reason}"
    if capture.frames and not capture.at("joint") and capture.spec.variant.backend != "inductor":
        yield (
            "Only TorchDynamo's graphs are shown: the later stages are TorchInductor's, and the "
            f"backend here is {capture.spec.variant.backend}."
        )


def disturbance(capture: Capture) -> str:
    """That other programs ran while steps were timed, if they used much; empty otherwise."""
    share = (capture.cost.foreign_cpu_share if capture.cost else None) or 0.0
    if share < LOUD_NEIGHBOURS:
        return ""
    return (
        f"While the steps were timed, other programs used {100 * share:.0f}{NO_BREAK}% of the CPU: "
        "take it again on a quiet machine."
    )


def eager_text(kernel: Kernel) -> str:
    """What eager needs for the same modules: `1.9×`, `same`, `1.9× (3)` of three kernels."""
    if not kernel.together_seconds or kernel.eager_seconds is None:
        return ""
    ratio = kernel.eager_seconds / kernel.together_seconds
    text = "same" if 0.9 < ratio < 1.1 else f"{ratio:.2g}{TIMES}"
    return f"{text} ({kernel.together})" if kernel.together > 1 else text
