"""Places for the boxes of a picture, layer by layer from top to bottom.

The usual four steps (Sugiyama, Tagawa and Toda 1981): layers by the longest path, points for long
edges on the layers they pass, an order in each layer with few crossings, and places in x that draw
near to the neighbours' without overlap. The last step is a least squares fit with gaps that is
solved exactly by pooling adjacent violators. Units are pixels.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

GAP_X = 18.0
GAP_Y = 26.0
LANE = 12.0  # width of an edge that passes a layer
SWEEPS = 8
ALIKE = 8.0
# Edges over more layers than this together are drawn straight, behind the boxes.
MOST_POINTS = 4_000

Point = tuple[float, float]


class Size(NamedTuple):
    width: float
    height: float


class Layout(NamedTuple):
    """`centers` of the boxes; `routes` of the edges: from the lower edge of one to the next."""

    centers: dict[str, Point]
    routes: dict[tuple[str, str], tuple[Point, ...]]
    size: Size


def layout(sizes: Mapping[str, Size], edges: Sequence[tuple[str, str]]) -> Layout:
    """Of the boxes by name. Edges that close a circle are drawn upwards."""
    names = _in_order(list(sizes), edges)
    place = {name: number for number, name in enumerate(names)}
    forward = [(a, b) if place[a] < place[b] else (b, a) for a, b in edges if a != b]
    layer_of = _layers(names, forward)
    chains = _chains(forward, layer_of)
    width = {name: size.width for name, size in sizes.items()}
    layers: list[list[str]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for name, layer in layer_of.items():
        layers[layer].append(name)
    for chain in chains.values():
        for point in chain[1:-1]:
            layers[layer_of[chain[0]] + chain.index(point)].append(point)
            width[point] = LANE
    up, down = _neighbours(chains)
    layers = _ordered(layers, up, down)
    x = _places_x(layers, up, down, width)
    tops, y = _places_y(layers, sizes)
    left = min((x[name] - width[name] / 2 for name in x), default=0.0)
    right = max((x[name] + width[name] / 2 for name in x), default=0.0)
    rank = {name: number for number, layer in enumerate(layers) for name in layer}
    routes: dict[tuple[str, str], tuple[Point, ...]] = {}
    for a, b in dict.fromkeys(edges):
        if a == b:
            continue
        turned = place[a] > place[b]
        chain = chains[(b, a) if turned else (a, b)]
        first, last = chain[0], chain[-1]
        points = [(x[first] - left, y[first] + sizes[first].height / 2)]
        for point in chain[1:-1]:
            top, bottom = tops[rank[point]]
            points += [(x[point] - left, top), (x[point] - left, bottom)]
        points.append((x[last] - left, y[last] - sizes[last].height / 2))
        routes[a, b] = tuple(reversed(points)) if turned else tuple(points)
    height = max((bottom for _, bottom in tops), default=0.0)
    centers = {name: (x[name] - left, y[name]) for name in sizes}
    return Layout(centers, routes, Size(right - left, height))


def _in_order(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[str]:
    """Each name after those that point to it; in a circle the one that came first begins."""
    waits: dict[str, set[str]] = {name: set() for name in names}
    readers: dict[str, set[str]] = defaultdict(set)
    for a, b in edges:
        if a != b:
            waits[b].add(a)
            readers[a].add(b)
    place = {name: number for number, name in enumerate(names)}
    ready = [place[name] for name in names if not waits[name]]
    heapify(ready)
    left, found = dict.fromkeys(names), []
    while left:
        name = names[heappop(ready)] if ready else next(iter(left))
        if name not in left:
            continue
        del left[name]
        found.append(name)
        for reader in readers[name]:
            waits[reader].discard(name)
            if not waits[reader] and reader in left:
                heappush(ready, place[reader])
    return found


def _layers(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """By the longest path from a start; what starts late moves down to who reads it."""
    into: dict[str, list[str]] = defaultdict(list)
    out: dict[str, list[str]] = defaultdict(list)
    for a, b in edges:
        into[b].append(a)
        out[a].append(b)
    layer: dict[str, int] = {}
    for name in names:  # all edges point forward in this order
        layer[name] = max((layer[one] + 1 for one in into[name]), default=0)
    for name in reversed(names):
        if not into[name] and out[name]:
            layer[name] = min(layer[one] for one in out[name]) - 1
    return layer


def _chains(
    edges: Sequence[tuple[str, str]], layer: Mapping[str, int]
) -> dict[tuple[str, str], list[str]]:
    """Each edge as the points that it passes; the longest ones only where there is room."""
    chains: dict[tuple[str, str], list[str]] = {}
    room = MOST_POINTS
    for a, b in sorted(dict.fromkeys(edges), key=lambda edge: layer[edge[1]] - layer[edge[0]]):
        between = layer[b] - layer[a] - 1
        room -= between
        points = [f"{a}\0{b}\0{number}" for number in range(between)] if room >= 0 else []
        chains[a, b] = [a, *points, b]
    return chains


Neighbours = dict[str, list[str]]


def _neighbours(chains: Mapping[tuple[str, str], Sequence[str]]) -> tuple[Neighbours, Neighbours]:
    up: Neighbours = defaultdict(list)
    down: Neighbours = defaultdict(list)
    for chain in chains.values():
        for a, b in zip(chain, chain[1:], strict=False):
            down[a].append(b)
            up[b].append(a)
    return up, down


def _ordered(layers: list[list[str]], up: Neighbours, down: Neighbours) -> list[list[str]]:
    """By the mean place of the neighbours, down and up in turn; the best of the sweeps."""
    best, fewest = layers, _crossings(layers, down)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        near = up if sweep % 2 == 0 else down
        layers = [list(layer) for layer in layers]
        for at in range(len(layers)) if sweep % 2 == 0 else reversed(range(len(layers))):
            place = {name: number for layer in layers for number, name in enumerate(layer)}
            mean = {
                name: sum(place[one] for one in near[name]) / len(near[name])
                if near[name]
                else float(place[name])
                for name in layers[at]
            }
            layers[at].sort(key=mean.__getitem__)
        if (crossings := _crossings(layers, down)) < fewest:
            best, fewest = layers, crossings
    return best


def _crossings(layers: Sequence[Sequence[str]], down: Neighbours) -> int:
    count = 0
    for layer, below in zip(layers, layers[1:], strict=False):
        place = {name: number for number, name in enumerate(below)}
        ends: list[int] = []
        for name in layer:
            for end in sorted(place[one] for one in down[name] if one in place):
                at = bisect(ends, end)
                count += len(ends) - at
                ends.insert(at, end)
    return count


def _places_x(
    layers: Sequence[Sequence[str]], up: Neighbours, down: Neighbours, width: Mapping[str, float]
) -> dict[str, float]:
    x: dict[str, float] = {}
    for layer in layers:
        at = 0.0
        for name in layer:
            x[name] = at + width[name] / 2
            at += width[name] + GAP_X
        middle = (at - GAP_X) / 2
        for name in layer:
            x[name] -= middle
    apart = {name for name in x if not up[name] and not down[name]}
    for sweep in range(2 * SWEEPS):
        near = up if sweep % 2 == 0 else down
        middle = sum(x.values()) / max(1, len(x))
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted, weights = [], []
            for name in layer:
                # What is alike pulls hardest: chains of boxes and long edges become straight.
                pulls = [
                    (x[one], ALIKE if ("\0" in one) == ("\0" in name) else 1.0)
                    for one in near[name]
                ]
                total = sum(pull for _, pull in pulls)
                alone = middle if name in apart else x[name]
                wanted.append(sum(at * pull for at, pull in pulls) / total if pulls else alone)
                weights.append(max((pull for _, pull in pulls), default=0.1))
            gaps = [
                (width[one] + width[other]) / 2 + GAP_X
                for one, other in zip(layer, layer[1:], strict=False)
            ]
            x.update(zip(layer, _fitted(wanted, weights, gaps), strict=True))
    return x


def _fitted(
    wanted: Sequence[float], weights: Sequence[float], gaps: Sequence[float]
) -> list[float]:
    """Places nearest to the wanted ones, by weighted squares, that keep the gaps."""
    offsets = [0.0]
    for gap in gaps:
        offsets.append(offsets[-1] + gap)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for want, weight, offset in zip(wanted, weights, offsets, strict=False):
        mean, total, members = want - offset, weight, 1
        while pools and pools[-1][0] > mean:
            before, heavy, count = pools.pop()
            mean = (before * heavy + mean * total) / (heavy + total)
            total, members = total + heavy, members + count
        pools.append((mean, total, members))
    means = [mean for mean, _, members in pools for _ in range(members)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]


def _places_y(
    layers: Sequence[Sequence[str]], sizes: Mapping[str, Size]
) -> tuple[list[Point], dict[str, float]]:
    """The top and bottom of each layer, and the middle of each box, which hangs from the top."""
    tops: list[Point] = []
    y: dict[str, float] = {}
    top = 0.0
    for layer in layers:
        height = max((sizes[name].height for name in layer if name in sizes), default=0.0)
        for name in layer:
            if name in sizes:
                y[name] = top + sizes[name].height / 2
        tops.append((top, top + height))
        top += height + GAP_Y
    return tops, y
