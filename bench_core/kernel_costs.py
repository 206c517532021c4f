"""Time of calls in generated code, tied to kernels and shared out among the model's modules.

Pure. A kernel fuses operators of several modules, and a module's operators may lie in several
kernels. A module's compiled seconds are therefore an estimate, by the number of operators, whose
sums are those that were measured. Graphs of equal code run one generated module, whose seconds
they have in equal parts. Eager's seconds are shared out to nobody: they stand beside the kernels
that compute the same modules, all of them together.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from bench_core.captured import Cost, Kernel, ModuleCost
from bench_core.graph import Node, Part
from bench_core.spec import Frozen

Side = tuple[int, Part]  # a generated module: Dynamo's graph, and its forward or backward
Place = tuple[str, Part]  # a module of the model in one direction
GRAPHS_NUMBER = re.compile(r"^# AOT ID: .*\n", re.MULTILINE)


class CallCost(Frozen):
    """Seconds of a steady step in one line of a generated module, known by `sha256_of` its text.

    Those of all generated modules with this text.
    """

    sha256: str
    line: int
    seconds: float


def sha256_of(text: str) -> str:
    """Of the text without the graph's number, as measuring/generated_code.py has it."""
    return hashlib.sha256(GRAPHS_NUMBER.sub("", text).strip().encode()).hexdigest()


def shared_out(
    cost: Cost,
    kernels: Sequence[Kernel],
    calls: Sequence[CallCost],
    nodes: Mapping[Side, Sequence[Node]],
    texts: Mapping[Side, str],
) -> tuple[Cost, list[Kernel]]:
    """The cost with its modules' compiled seconds, and the kernels with theirs, eager's beside.

    `nodes` are those of after_passes, `texts` the generated modules as the graphs part kept them.
    A module that was generated otherwise the second time leaves its kernels without seconds.
    """
    sides: dict[str, list[Side]] = defaultdict(list)
    for side, text in texts.items():
        sides[sha256_of(text)].append(side)
    by_line = {
        (*side, call.line): call.seconds / len(sides[call.sha256])
        for call in calls
        for side in sides.get(call.sha256, ())
    }
    timed = [
        kernel.changed(
            seconds=sum(seconds)
            if (seconds := [by_line[key] for key in _calls_of(kernel) if key in by_line])
            else None,
            eager_seconds=None,
            together_seconds=None,
            together=1,
        )
        for kernel in kernels
    ]
    weights = [_operators_of(kernel, timed, nodes) for kernel in timed]
    seconds_in: dict[tuple[str, Part, int], list[float | None]] = defaultdict(list)
    for kernel, weight in zip(timed, weights, strict=True):
        # What holds no operator of its own copies tensors for others: time without a counterpart.
        shares = weight or dict.fromkeys(kernel.modules[-1:] or ("",), 1)
        for module, count in shares.items():
            seconds_in[module, kernel.part, kernel.number].append(
                None if kernel.seconds is None else kernel.seconds * count / sum(shares.values())
            )
    eager = {(one.module, one.part): one.eager_seconds for one in cost.modules}
    places = [
        {(module, kernel.part) for module in weight}
        for kernel, weight in zip(timed, weights, strict=True)
    ]
    with_eager = list(timed)
    for group in _sharing_modules(places):
        for number in group:
            with_eager[number] = _beside_eager(
                timed[number],
                [timed[one] for one in group],
                set().union(*(places[one] for one in group)),
                eager,
            )
    modules = [
        ModuleCost(
            module=module,
            part=part,
            number=number,
            seconds=None if None in spent else sum(filter(None, spent)),
            eager_seconds=eager.get((module, part)),
        )
        for (module, part, number), spent in seconds_in.items()
    ]
    in_kernels = {place[:2] for place in seconds_in}
    modules += [
        ModuleCost(module=module, part=part, eager_seconds=spent)
        for (module, part), spent in eager.items()
        if (module, part) not in in_kernels
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


def _sharing_modules(places: Sequence[Collection[Place]]) -> list[list[int]]:
    """The kernels' numbers in groups: no module of one is computed in another one as well.

    What computes no module is in none.
    """
    groups: list[tuple[list[int], set[Place]]] = []
    for number, own in enumerate(places):
        if not own:
            continue
        members, joined = [number], set(own)
        apart = []
        for group in groups:
            if group[1].isdisjoint(own):
                apart.append(group)
            else:
                members += group[0]
                joined |= group[1]
        groups = [*apart, (members, joined)]
    return [sorted(members) for members, _ in groups]


def _beside_eager(
    kernel: Kernel,
    group: Sequence[Kernel],
    places: Collection[Place],
    eager: Mapping[Place, float | None],
) -> Kernel:
    """Eager's seconds for all modules of the group; none where a kernel of it was not timed."""
    known = [spent for place in places if (spent := eager.get(place)) is not None]
    seconds = [one.seconds for one in group if one.seconds is not None]
    if not known or len(seconds) < len(group):
        return kernel
    return kernel.changed(
        eager_seconds=sum(known), together_seconds=sum(seconds), together=len(group)
    )
