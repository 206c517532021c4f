"""Seconds of a step by node of a graph, from those of the kernels. Pure; estimates.

A kernel's time is shared out evenly among those of the graph's nodes that it was made from: what is
measured is the kernel. Boxes of a picture sum these up. A sum over all nodes is that of the graph's
kernels, but for those that nothing in the graph stands for: the nodes that a kernel was made from
are after_passes', and an earlier graph has not all of them; Dynamo's has the modules only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from bench_core.captured import Cost, Kernel
from bench_core.graph import Graph


def node_seconds(graph: Graph, kernels: Sequence[Kernel], cost: Cost | None) -> dict[str, float]:
    """Empty where nothing was timed, or where the stage's nodes cannot be tied to kernels."""
    own = [
        kernel
        for kernel in kernels
        if kernel.number == graph.number
        and kernel.seconds is not None
        and graph.part in ("both", kernel.part)
    ]
    match graph.stage:
        case "after_fusion":
            return _shared([(kernel.nodes, kernel.seconds or 0.0) for kernel in own])
        case "before_fusion":
            members: dict[str, list[str]] = defaultdict(list)
            for node in graph.nodes:
                members[node.group or node.name].append(node.name)
            fused = _shared([(kernel.nodes, kernel.seconds or 0.0) for kernel in own])
            return _shared([(members[group], spent) for group, spent in fused.items()])
        case "dynamo":
            return _by_module(graph, cost)
        case _:
            names = {node.name for node in graph.nodes}
            return _shared(
                [
                    ([name for name in kernel.origins if name in names], kernel.seconds or 0.0)
                    for kernel in own
                ]
            )


def _shared(parts: Sequence[tuple[Sequence[str], float]]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for names, seconds in parts:
        for name in names:
            found[name] += seconds / len(names)
    return dict(found)


def _by_module(graph: Graph, cost: Cost | None) -> dict[str, float]:
    """TorchDynamo's operators are others than those of the kernels: only modules are common."""
    operators = Counter(node.module for node in graph.nodes if node.is_operator)
    spent: dict[str, float] = defaultdict(float)
    for one in cost.modules if cost else ():
        if one.number == graph.number:
            spent[one.module] += one.seconds or 0.0
    return {
        node.name: spent[node.module] / operators[node.module]
        for node in graph.nodes
        if node.is_operator and spent.get(node.module)
    }
