"""Which box of a picture each node of a graph is in: its module's, or one of its own. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from bench_core.graph import Node

MOST_COLLAPSED = 24  # boxes that a picture starts with


class Drawn(NamedTuple):
    """Which box a node is in: the module that it stands for, or the operator itself."""

    name: str
    module: str
    opens: str


def places_of(
    both: bool, nodes: Sequence[Node], opened: Collection[str], whole: bool
) -> dict[str, Drawn]:
    """Which box each node is in, by its name.

    `both`: a module's forward and backward are two boxes. `whole`: each node is one.
    """
    depth = 0 if whole else _depth(nodes)
    places: dict[str, Drawn] = {}
    outside: list[Node] = []
    for node in nodes:
        if whole:
            places[node.name] = Drawn(node.name, node.module, "")
        elif node.module:
            places[node.name] = _place_in_module(node, depth, opened, both and node.backward)
        else:
            outside.append(node)
    return {**places, **_places_outside(outside, nodes, places, opened)}


def _place_in_module(node: Node, depth: int, opened: Collection[str], backward: bool) -> Drawn:
    parts = node.module.split(".")
    while (path := ".".join(parts[:depth])) in opened:
        if depth >= len(parts):
            return Drawn(node.name, node.module, "")
        depth += 1
    return Drawn(f"{path} backward" if backward else path, path, path)


def _depth(nodes: Iterable[Node]) -> int:
    """How deep into the modules the picture starts: as deep as it has room for."""
    modules = {node.module for node in nodes if node.module}
    deepest = max((module.count(".") + 1 for module in modules), default=1)
    fitting = [
        depth
        for depth in range(1, deepest)
        if len({".".join(module.split(".")[:depth]) for module in modules}) <= MOST_COLLAPSED
    ]
    return max(fitting, default=1)


def _places_outside(
    outside: Sequence[Node],
    nodes: Sequence[Node],
    places: Mapping[str, Drawn],
    opened: Collection[str],
) -> dict[str, Drawn]:
    """Operators of no module. Those beside one box only are taken for its own; of the others what
    lies between the same boxes is one box.
    """
    names = {node.name for node in outside}
    readers: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        for name in node.inputs:
            readers[name].append(node.name)
    chain = {name: name for name in names}  # each one's chain, by a node of it

    def root(name: str) -> str:
        while chain[name] != name:
            chain[name] = chain[chain[name]]
            name = chain[name]
        return name

    around: dict[str, set[tuple[str, Drawn]]] = defaultdict(set)
    for node in outside:
        for name in node.inputs:
            if name in names:
                chain[root(node.name)] = root(name)
    for node in outside:
        for name in node.inputs:
            if name in places:
                around[root(node.name)].add(("from", places[name]))
        for name in readers[node.name]:
            if name in places:
                around[root(node.name)].add(("to", places[name]))
    found: dict[str, Drawn] = {}
    numbers: dict[tuple[bool, frozenset[tuple[str, Drawn]]], int] = {}
    for node in outside:
        key = (node.backward, frozenset(around[root(node.name)]))
        beside = {place for _, place in key[1]}
        if len(beside) == 1 and (only := beside.pop()).opens:
            found[node.name] = only
            continue
        number = numbers.setdefault(key, len(numbers) + 1)
        name = f"outside {number}"
        found[node.name] = Drawn(node.name if name in opened else name, "", name)
    counts = Counter(place.name for place in found.values())
    return {
        name: place._replace(name=name, opens="")
        if not place.module and (counts[place.name] == 1 or place.opens in opened)
        else place
        for name, place in found.items()
    }
