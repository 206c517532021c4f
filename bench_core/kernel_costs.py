"""Time of calls in generated code, tied to kernels and shared out among the model's modules.

Pure. A kernel fuses operators of several modules, and a module's operators may lie in several
kernels, so its time is divided by the number of operators of each: an estimate, whose sums are
those that were measured.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

from bench_core.captured import Cost, Kernel, ModuleCost
from bench_core.graph import Node, Part
from bench_core.spec import Frozen

Side = tuple[int, Part]  # a generated module: Dynamo's graph, and its forward or backward


class CallCost(Frozen):
    """Seconds of a steady step in one line of a generated module, known by its text's sha256."""

    sha256: str
    line: int
    seconds: float


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.strip().encode()).hexdigest()


def shared_out(
    cost: Cost,
    kernels: Sequence[Kernel],
    calls: Sequence[CallCost],
    nodes: Mapping[Side, Sequence[Node]],
    texts: Mapping[Side, str],
) -> tuple[Cost, list[Kernel]]:
    """The cost with its modules' compiled seconds, and the kernels with theirs and eager's.

    `nodes` are those of after_passes, `texts` the generated modules as the graphs part kept them.
    A module that was generated otherwise the second time leaves its kernels without seconds.
    """
    sides = {sha256_of(text): side for side, text in texts.items()}
    by_line = {
        (*sides[call.sha256], call.line): call.seconds for call in calls if call.sha256 in sides
    }
    timed = [
        kernel.changed(
            seconds=sum(seconds)
            if (seconds := [by_line[key] for key in _calls_of(kernel) if key in by_line])
            else None
        )
        for kernel in kernels
    ]
    weights = [_operators_of(kernel, timed, nodes) for kernel in timed]
    operators: dict[tuple[str, Part], int] = defaultdict(int)
    seconds_in: dict[tuple[str, Part], float] = defaultdict(float)
    for kernel, weight in zip(timed, weights, strict=True):
        for module, count in weight.items():
            operators[module, kernel.part] += count
        # What holds no operator of its own copies tensors for others: time without a counterpart.
        shares = weight or dict.fromkeys(kernel.modules[-1:] or ("",), 1)
        for module, count in shares.items():
            seconds_in[module, kernel.part] += (
                (kernel.seconds or 0.0) * count / sum(shares.values())
            )
    eager = {(one.module, one.part): one.eager_seconds for one in cost.modules}
    with_eager = [
        kernel.changed(eager_seconds=_eager_of(kernel, weight, operators, eager))
        for kernel, weight in zip(timed, weights, strict=True)
    ]
    modules = [
        ModuleCost(
            module=module,
            part=part,
            seconds=seconds_in.get((module, part), 0.0),
            eager_seconds=eager.get((module, part)),
        )
        for module, part in dict.fromkeys([*seconds_in, *eager])
    ]
    return cost.changed(modules=tuple(modules)), with_eager


def _calls_of(kernel: Kernel) -> list[tuple[int, Part, int]]:
    return [(kernel.number, kernel.part, line) for line in kernel.calls]


def _operators_of(
    kernel: Kernel, kernels: Sequence[Kernel], nodes: Mapping[Side, Sequence[Node]]
) -> dict[str, int]:
    """How many operators of each module the kernel computes.

    A loop that changes the layout for a library's call names its operator; the call computes it.
    """
    side = kernel.number, kernel.part
    computed = set(kernel.origins)
    if kernel.kind != "extern":
        computed -= {
            name
            for other in kernels
            if other.kind == "extern" and (other.number, other.part) == side
            for name in other.origins
        }
    found: dict[str, int] = defaultdict(int)
    for node in nodes.get(side, ()):
        if node.name in computed and node.is_operator:
            found[node.module] += 1
    return found


def _eager_of(
    kernel: Kernel,
    weight: Mapping[str, int],
    operators: Mapping[tuple[str, Part], int],
    eager: Mapping[tuple[str, Part], float | None],
) -> float | None:
    known = [
        (eager.get((module, kernel.part)), count / operators[module, kernel.part])
        for module, count in weight.items()
    ]
    if not known or any(seconds is None for seconds, _ in known):
        return None
    return sum(seconds * share for seconds, share in known if seconds is not None)
