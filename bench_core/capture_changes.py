"""What changed between two captures: counts, kernels and generated code side by side.

Pure. Kernels are told apart by what they compute, not by their names, whose numbers shift when one
kernel more is generated.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from bench_core.captured import Capture, Kernel
from bench_core.graph import STAGES, short_operator

# Beyond so many lines difflib takes minutes; beyond so many of a diff nobody reads on.
MOST_COMPARED_LINES = 6_000
MOST_DIFF_LINES = 1_500


class Change(NamedTuple):
    """A count in both captures; None where one has not that stage or figure."""

    what: str
    first: int | None
    second: int | None

    @property
    def more(self) -> int | None:
        """How many more the second has."""
        known = self.first is not None and self.second is not None
        return self.second - self.first if known else None  # type: ignore[operator]


class Fused(NamedTuple):
    """How many kernels each capture has that compute just this."""

    kind: str
    part: str
    operators: str
    first: int
    second: int


def asked_otherwise(first: Capture, second: Capture) -> list[str]:
    """What was asked for differently: `batch_size 16, then 32`; also the torch that compiled."""
    found = []
    for one, other in (
        (first.spec.workload, second.spec.workload),
        (first.spec.variant, second.spec.variant),
    ):
        for name, value in dict(one).items():
            if name != "samples" and (now := getattr(other, name)) != value:
                found.append(f"{name} {_word(value)}, then {_word(now)}")
    seeds = first.spec.measurement.seed, second.spec.measurement.seed
    if seeds[0] != seeds[1]:
        found.append(f"seed {seeds[0]}, then {seeds[1]}")
    if first.spec.device != second.spec.device:
        found.append(f"device {first.spec.device}, then {second.spec.device}")
    if first.torch != second.torch:
        found.append(f"torch {first.torch}, then {second.torch}")
    return found


def _word(value: object) -> str:
    return "unset" if value is None else str(value)


def changes(first: Capture, second: Capture) -> list[Change]:
    """Every count that either capture has, equal ones too."""
    rows = [
        Change("Graphs", _graphs(first), _graphs(second)),
        Change("Graph breaks", _breaks(first), _breaks(second)),
    ]
    for stage, words in STAGES.items():
        name = f"{words.component}, {words.title[0].lower()}{words.title[1:]}: operators"
        rows.append(Change(name, first.operators(stage), second.operators(stage)))
    rows += [
        Change("Joined by fusion", fused_away(first), fused_away(second)),
        Change("Generated kernels", *_of_code(first, second, "kernels")),
        Change("Calls of generated kernels", *_of_code(first, second, "kernel_calls")),
        Change("Calls of libraries", *_of_code(first, second, "extern_calls")),
        Change("Lines of generated code", *_of_code(first, second, "lines")),
    ]
    return [row for row in rows if row.first is not None or row.second is not None]


def _graphs(capture: Capture) -> int | None:
    return len(capture.frames) or None


def _breaks(capture: Capture) -> int | None:
    return capture.graph_breaks if capture.frames else None


def fused_away(capture: Capture) -> int | None:
    """Loops and calls that fusion joined to another one."""
    before, after = capture.operators("before_fusion"), capture.operators("after_fusion")
    return None if before is None or after is None else before - after


def _of_code(first: Capture, second: Capture, name: str) -> tuple[int | None, int | None]:
    one, other = (
        sum(getattr(code, name) for code in capture.code) if capture.code else None
        for capture in (first, second)
    )
    return one, other


def computes(kernel: Kernel) -> str:
    """`native_batch_norm, relu`: each operator once; a call by its name where none is known."""
    words = dict.fromkeys(map(short_operator, kernel.operators))
    return ", ".join(words) or kernel.name


def fusions(first: Iterable[Kernel], second: Iterable[Kernel]) -> list[Fused]:
    """The kernels whose number differs, those with the greatest difference first."""
    counts: tuple[Counter[tuple[str, str, str]], ...] = tuple(
        Counter((one.kind, one.part, computes(one)) for one in kernels)
        for kernels in (first, second)
    )
    found = [
        Fused(*key, counts[0][key], counts[1][key])
        for key in dict.fromkeys([*counts[0], *counts[1]])
        if counts[0][key] != counts[1][key]
    ]
    return sorted(found, key=lambda one: (-abs(one.second - one.first), one.part, one.operators))


class Diff(NamedTuple):
    """A unified diff, and what was left out of it as a sentence; empty when nothing was."""

    text: str
    left_out: str


def code_diff(first: str, second: str, names: tuple[str, str] = ("first", "second")) -> Diff:
    """What changed in the text. Bounded: the sentence says where it ends."""
    before, after = first.splitlines(), second.splitlines()
    longest = max(len(before), len(after))
    notes = []
    if longest > MOST_COMPARED_LINES:
        notes.append(
            f"Only the first {MOST_COMPARED_LINES} of up to {longest} lines are compared: "
            "download both to compare the rest."
        )
        before, after = before[:MOST_COMPARED_LINES], after[:MOST_COMPARED_LINES]
    found = list(difflib.unified_diff(before, after, *names, lineterm=""))
    if len(found) > MOST_DIFF_LINES:
        notes.append(
            f"Only the first {MOST_DIFF_LINES} of {len(found)} lines of the diff are shown."
        )
        found = found[:MOST_DIFF_LINES]
    return Diff("\n".join(found), " ".join(notes))
