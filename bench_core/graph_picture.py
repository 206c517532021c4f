"""What is drawn of a graph: boxes and arrows, collapsed by module, opened where asked, bounded.

Pure. graph_places.py says which box a node is in, graph_dot.py writes a picture as DOT,
graph_svg.py lays it out and draws it. Each box brings its own fill and the colour of its text, so
that one picture serves light, dark and paper.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from bench_core.captured import Frame
from bench_core.graph import OPERATORS, Graph, Node, plain_input, plain_kernel, short_operator
from bench_core.graph_places import Drawn, places_of
from bench_core.units import NO_BREAK, counted

Color = Literal["group", "time"]
# A picture with so few nodes is drawn whole; its inputs, too, unless a row of them makes it wide.
MOST_AT_ONCE = 30
MOST_INPUTS = 6
MOST_BOXES = 150
LONGEST_LABEL = 40

PLAIN = ("#56687A", "#FFFFFF")
INPUT = ("none", "#747F8B")
EXTERN = ("#2F5878", "#FFFFFF")  # as where the time goes: what compile leaves as it is
BREAK = ("#D1393F", "#FFFFFF")
# Fused groups in turn; neighbours differ.
GROUPS = ("#B84A08", "#7A4E9E", "#1E7F74", "#8A6D00", "#A3386F", "#4C6A2E")
# By the share of the step in a box, relative to the largest: paler below the limit.
SHADES = (
    (0.1, ("#DDE3E8", "#111923")),
    (0.35, ("#EDB897", "#111923")),
    (0.7, ("#D9824F", "#111923")),
    (1.0, ("#B84A08", "#FFFFFF")),
)


class Box(NamedTuple):
    """`opens` is the module that a click opens, empty where there is nothing in it to open.

    `frame` names the fused group that surrounds it, `nodes` the graph's nodes it stands for.
    """

    name: str
    label: str
    tip: str
    fill: str
    ink: str
    nodes: tuple[str, ...] = ()
    opens: str = ""
    frame: str = ""
    dashed: bool = False


class Picture(NamedTuple):
    """`frames` are the labels of the fused groups; `left_out` is a sentence, empty for nothing."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[str, str], ...]
    frames: Mapping[str, str] = {}
    left_out: str = ""


def picture(
    graph: Graph,
    *,
    opened: Collection[str] = (),
    color: Color = "group",
    seconds: Mapping[str, float] | None = None,
    step_seconds: float | None = None,
) -> Picture:
    """The graph as boxes. `opened` are modules to look into, `seconds` a step's by node."""
    small = len(graph.nodes) <= MOST_AT_ONCE
    with_inputs = small and _inputs(graph) <= MOST_INPUTS
    nodes = [
        node
        for node in graph.nodes
        if node.is_operator or (small and (with_inputs or node.op != "placeholder"))
    ]
    places = places_of(graph.part == "both", nodes, opened, whole=small)
    by_box: dict[Drawn, list[Node]] = defaultdict(list)
    for node in nodes:
        by_box[places[node.name]].append(node)
    found = list(by_box)
    drawn = found[:MOST_BOXES]
    spent = {place.name: _spent(by_box[place], seconds) for place in drawn}
    most = max(spent.values(), default=0.0)
    shared = Counter(node.group for node in graph.nodes if node.group)
    groups = _groups(by_box, drawn) if graph.stage == "before_fusion" else {}
    boxes = []
    for place in drawn:
        inside = by_box[place]
        look = _shade(spent[place.name], most) if color == "time" and seconds else None
        if look is None or not any(node.is_operator for node in inside):
            look = _look(inside, place, shared)
        share = spent[place.name] / step_seconds if step_seconds else 0.0
        boxes.append(
            Box(
                name=place.name,
                label=_label(inside, place, share),
                tip=_tip(inside, place, share),
                fill=look[0],
                ink=look[1],
                nodes=tuple(node.name for node in inside),
                opens=place.opens,
                frame=groups.get(place.name, ""),
                dashed=all(node.recomputed for node in inside),
            )
        )
    return Picture(
        boxes=tuple(boxes),
        edges=_edges(nodes, places, {place.name for place in drawn}, whole=small),
        frames=_frame_labels(groups, by_box),
        left_out=_left_out(graph, len(found), len(drawn), with_inputs),
    )


def _edges(
    nodes: Sequence[Node], places: Mapping[str, Drawn], drawn: Collection[str], whole: bool
) -> tuple[tuple[str, str], ...]:
    """Constants, which read nothing, are read everywhere: no arrow leaves them in a large one."""
    constants = {
        node.name for node in nodes if node.op in OPERATORS and not node.inputs and not whole
    }
    found = {
        (places[name].name, places[node.name].name): None
        for node in nodes
        for name in node.inputs
        if name in places and name not in constants
    }
    return tuple(
        (one, other) for one, other in found if one != other and one in drawn and other in drawn
    )


def _spent(nodes: Iterable[Node], seconds: Mapping[str, float] | None) -> float:
    return sum((seconds or {}).get(node.name, 0.0) for node in nodes)


def _shade(spent: float, most: float) -> tuple[str, str]:
    share = spent / most if most else 0.0
    return next(look for limit, look in SHADES if share <= limit + 1e-9)


def _look(inside: Sequence[Node], place: Drawn, shared: Counter[str]) -> tuple[str, str]:
    """Its kind; `shared` says of how many nodes each fused group is."""
    if not any(node.is_operator for node in inside):
        return INPUT
    if all(node.extern for node in inside):
        return EXTERN
    if all(node.op == "nop" for node in inside):
        return INPUT
    if place.opens or len(inside) > 1:
        return PLAIN
    [node] = inside
    group = node.group if shared[node.group] > 1 else node.name if len(node.members) > 1 else ""
    return (GROUPS[_number_in(group) % len(GROUPS)], "#FFFFFF") if group else PLAIN


def _number_in(group: str) -> int:
    """The scheduler numbers its nodes, so that neighbours have other numbers."""
    numbers = re.findall(r"\d+", group)
    return int(numbers[0]) if numbers else 0


def _groups(by_box: Mapping[Drawn, Sequence[Node]], drawn: Sequence[Drawn]) -> dict[str, str]:
    """Frames around opened nodes that were fused: more than one box of the same group."""
    single = {
        place.name: by_box[place][0].group
        for place in drawn
        if len(by_box[place]) == 1 and not place.opens and by_box[place][0].group
    }
    counts = Counter(single.values())
    return {name: group for name, group in single.items() if counts[group] > 1}


def _frame_labels(
    groups: Mapping[str, str], by_box: Mapping[Drawn, Sequence[Node]]
) -> dict[str, str]:
    """`7 fused: batch_norm_relu`; the scheduler's own names, op1_op2, say nothing."""
    kernel_of = {node.group: node.kernel for nodes in by_box.values() for node in nodes}
    counts = Counter(groups.values())
    return {
        group: cut(f"{counts[group]} fused{f': {plain_kernel(kernel)}' if kernel else ''}")
        for group in dict.fromkeys(groups.values())
        for kernel in [kernel_of.get(group)]
    }


def cut(text: str, most: int = LONGEST_LABEL) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def cut_inside(text: str, most: int) -> str:
    """Both ends of it: names that begin alike are told apart by theirs."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - half]}…{text[-half:]}"


def _label(inside: Sequence[Node], place: Drawn, share: float) -> str:
    operators = [node for node in inside if node.is_operator]
    if place.opens and len(inside) > 1 or (place.opens and place.module):
        name = place.module or "outside of modules"
        words = [cut(name, 28), _counts(operators)]
        if not place.module and operators and operators[0].backward:
            words[0] += ", backward"
        elif place.name.endswith(" backward"):
            words[0] += " backward"
    else:
        node = inside[0]
        words = [cut(_computes(node) if node.is_operator else plain_input(node.name))]
        if node.members:
            words.append(f"{len(node.members)} fused")
        if node.recomputed:
            words.append("recomputed")
    if share >= 0.005:
        words.append(f"{100 * share:.0f}{NO_BREAK}%")
    return " · ".join(words)


def _computes(node: Node) -> str:
    """`var_mean, add +5`: the first operators of a loop, and how many more."""
    if not node.target:  # the scheduler's own, made from no operator: it copies for another one
        if node.op == "nop":
            return "no code"
        return f"in {plain_kernel(node.kernel)}" if node.kernel else node.name
    names = [short_operator(one) for one in node.target.split(", ")]
    more = f" +{len(names) - 2}" if len(names) > 3 else ""
    return (", ".join(names[: 2 if more else 3]) + more) or node.name


def _counts(operators: Sequence[Node]) -> str:
    scheduled = operators and operators[0].op in ("loop", "extern", "nop")
    if not scheduled:
        return counted(len(operators), "operator")
    loops = sum(node.op == "loop" for node in operators)
    calls = sum(node.extern for node in operators)
    words = [counted(loops, "loop")] if loops else []
    if calls:
        words.append(counted(calls, "library call"))
    return ", ".join(words) or counted(len(operators), "result")


def _tip(inside: Sequence[Node], place: Drawn, share: float) -> str:
    """What a pointer over the box is told."""
    node = inside[0]
    if place.opens:
        most = Counter(short_operator(one.target) for one in inside if one.is_operator).most_common(
            6
        )
        lines = [place.module or "outside of modules"]
        lines.append(", ".join(f"{count} × {name}" for name, count in most))
        if any(one.recomputed for one in inside):
            count = sum(one.recomputed for one in inside)
            lines.append(f"{count} of them computed again in the backward")
        lines.append("Click to open")
    else:
        lines = [f"{node.name}: {node.target}" if node.target else node.name]
        if node.module:
            lines.append(node.module)
        if node.place:
            lines.append(node.place)
        if node.kernel:
            lines.append(f"kernel {node.kernel}")
        if node.extern:
            lines.append("left to a library")
        if node.op == "nop":
            lines.append("needs no code of its own")
        if node.recomputed:
            lines.append("computed again in the backward instead of having been kept")
    if share:
        lines.append(f"{100 * share:.1f} % of the step")
    return "\n".join(lines)


def _inputs(graph: Graph) -> int:
    return sum(node.op == "placeholder" for node in graph.nodes)


def _left_out(graph: Graph, found: int, drawn: int, with_inputs: bool) -> str:
    notes = []
    if (inputs := _inputs(graph)) and not with_inputs:
        notes.append(f"{counted(inputs, 'input')} (weights, buffers, data) are not drawn.")
    if found > drawn:
        notes.append(
            f"The first {drawn} of {found} boxes are drawn: close modules, or download the text."
        )
    return " ".join(notes)


def calls_picture(frames: Sequence[Frame]) -> Picture:
    """Dynamo's graphs in the order of the calls, and in red what ended them."""
    boxes: list[Box] = []
    for frame in frames[:MOST_BOXES]:
        place = f" at {frame.place}" if frame.place else ""
        tip = f"{frame.function or 'a graph'}{place}"
        if frame.guards:
            tip += f"\n{counted(frame.guards, 'guard')}, checked before each call"
        boxes.append(
            Box(
                name=f"graph {frame.number}",
                label=f"graph {frame.number} · {counted(frame.operators, 'operator')}",
                tip=tip,
                fill=PLAIN[0],
                ink=PLAIN[1],
            )
        )
        for number, one in enumerate(frame.breaks):
            where = f"{one.place}: " if one.place else ""
            boxes.append(
                Box(
                    name=f"break {frame.number} {number}",
                    label=cut(f"break · {where}{one.reason}", 56),
                    tip="\n".join(filter(None, (one.reason, one.place, one.line))),
                    fill=BREAK[0],
                    ink=BREAK[1],
                )
            )
    names = [box.name for box in boxes]
    left_out = ""
    if len(frames) > MOST_BOXES:
        left_out = f"The first {MOST_BOXES} of {len(frames)} graphs are drawn."
    return Picture(tuple(boxes), tuple(zip(names, names[1:], strict=False)), left_out=left_out)
