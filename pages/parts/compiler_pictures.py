"""The stage switch and the pictures: before beside after, opened by clicks; their downloads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import streamlit as st

from bench_core import captures
from bench_core.captured import Capture, GraphFile, Kernel
from bench_core.graph import STAGES, Graph, Node, Part, Stage
from bench_core.graph_dot import dot
from bench_core.graph_picture import Color, Picture, calls_picture, picture
from bench_core.graph_svg import svg, width_of
from bench_core.node_costs import node_seconds
from bench_core.units import counted
from pages.parts.compiler_fx import fx_drawing
from pages.parts.compiler_words import PART_WORDS, TABS, Tab, nothing_to_fuse, tab_label
from pages.parts.graph_view import download, graph_view
from pages.parts.in_address import from_address, put_into_address
from pages.parts.text import plain

HEIGHT = 620
MOST_BREAKS = 12
NARROW = 420.0  # pictures as wide as this at most leave room for a third card beside them
COLORS: dict[Color, str] = {"time": "By time", "group": "By kind"}
state = st.session_state


def stage_switch(capture: Capture) -> Tab:
    """The stage that is looked at; those that were not reached say `none`."""
    names = {tab.key: tab for tab in TABS}
    usual = "fusion" if capture.at("after_fusion") else "dynamo"
    from_address("stage", usual, names)
    chosen = st.pills(
        "Stage",
        list(names),
        format_func=lambda key: tab_label(names[key], capture),
        required=True,
        key="stage",
        label_visibility="collapsed",
        wrap=True,
    )
    put_into_address("stage", chosen if chosen and chosen != usual else "")
    if _trains(capture):
        st.caption("These counts are of forward and backward together; Dynamo sees the forward.")
    return names[chosen or usual]


def pictures(
    capture: Capture,
    kernels: Sequence[Kernel],
    tab: Tab,
    third: Callable[[], None] | None = None,
) -> None:
    """Two cards, and the third one beside them. What a click opens is opened in both."""
    numbers = sorted({file.number for file in capture.graphs})
    parts = _parts(capture, tab)
    number, part = numbers[0] if numbers else 0, parts[0]
    color: Color = "group"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if len(parts) > 1:
            from_address("part", parts[0], parts)
            chosen = st.segmented_control(
                "Direction",
                parts,
                format_func=PART_WORDS.__getitem__,
                required=True,
                key="part",
                label_visibility="collapsed",
            )
            part = chosen or parts[0]
            put_into_address("part", part if part != parts[0] else "")
        if len(numbers) > 1 and tab.key != "dynamo":
            number = _graph_field(numbers)
        if any(kernel.seconds for kernel in kernels):
            from_address("color", "time", COLORS)
            shade = st.segmented_control(
                "Colour",
                list(COLORS),
                format_func=COLORS.__getitem__,
                required=True,
                key="color",
                label_visibility="collapsed",
                help="By time: darker takes more of the step. By kind: dark blue is left to a "
                "library, loops of one colour in a frame become one, a dashed box is computed "
                "again in the backward.",
            )
            color = "group" if shade == "group" else "time"
            put_into_address("color", color if color != "time" else "")
        _opened_pills()
    sides = [
        _drawn(capture, kernels, color, file) if file else None
        for file in _sides(capture, tab, number, part)
    ]
    if tab.key == "dynamo":
        _dynamo(capture, kernels, color, third)
        return
    if tab.key == "fusion" and nothing_to_fuse(capture):
        st.caption(
            "Nothing was left to fuse: element by element, TorchInductor made one loop of several "
            "operators as soon as it made loops of them."
        )
    beside = third and all(side is None or side.start_width <= NARROW for side in sides)
    columns = st.columns(3 if beside else 2, gap="small")
    for column, side, slot in zip(columns, sides, ("before", "after"), strict=False):
        with column, st.container(border=True, gap="xsmall", height="stretch"):
            _card(capture, side, slot)
    if third:
        where = columns[2] if beside else st.container()
        with where, st.container(border=True, gap="xsmall", height="stretch"):
            third()


def _parts(capture: Capture, tab: Tab) -> list[Part]:
    """Which directions a stage has: AOTAutograd's joint graph, then its two halves."""
    if tab.key == "dynamo" or not _trains(capture):
        return ["forward"]
    return ["both", "forward", "backward"] if tab.key == "aot" else ["forward", "backward"]


def _sides(
    capture: Capture, tab: Tab, number: int, part: Part
) -> tuple[GraphFile | None, GraphFile | None]:
    def of(stage: Stage | None, *parts: Part) -> GraphFile | None:
        found = capture.at(stage) if stage else []
        return next((one for one in found if one.number == number and one.part in parts), None)

    if tab.key == "dynamo":
        return None, of("dynamo", "forward")
    if tab.key == "aot":
        if part == "both" or not _trains(capture):
            return of("dynamo", "forward"), of("joint", "both", "forward")
        return of("joint", "both"), of("before_passes", part)
    return of(tab.before, part), of(tab.after, part)


def _dynamo(
    capture: Capture,
    kernels: Sequence[Kernel],
    color: Color,
    below: Callable[[], None] | None,
) -> None:
    """The graphs in the order of the calls with their breaks, and the one that is chosen."""
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, gap="xsmall", height="stretch"):
        breaks = counted(capture.graph_breaks, "break") if capture.graph_breaks else "no breaks"
        st.markdown(f"**Graphs in call order** :gray[{len(capture.frames)}, {breaks}]")
        shown = calls_picture(capture.frames)
        if shown.left_out:
            st.caption(shown.left_out)
        _view(svg(shown), f"calls {capture.key}", "calls", "Dynamo's graphs and what ended them")
        _breaks(capture)
        if below:
            below()
    with right, st.container(border=True, gap="xsmall", height="stretch"):
        files = capture.at("dynamo")
        file = files[0] if files else None
        if len(files) > 1:
            number = _graph_field([one.number for one in files])
            file = next(one for one in files if one.number == number)
        _card(capture, _drawn(capture, kernels, color, file) if file else None, "captured")


def _graph_field(numbers: Sequence[int]) -> int:
    from_address("graph", numbers[0], numbers)
    number = st.selectbox(
        "Graph",
        numbers,
        format_func=lambda one: f"Graph {one}",
        key="graph",
        label_visibility="collapsed",
        width=130,
    )
    put_into_address("graph", str(number) if number != numbers[0] else "")
    return number


def _breaks(capture: Capture) -> None:
    """As text, since a reason is read whole: a cell of a table would cut it."""
    found = [(frame, one) for frame in capture.frames for one in frame.breaks]
    for frame, one in found[:MOST_BREAKS]:
        where = f" at {plain(one.place)}" if one.place else ""
        st.markdown(f"**Graph {frame.number} ends{where}**  \n{plain(one.reason)}")
        if one.line:
            st.code(one.line, language="python", wrap_lines=True)
    if found:
        more = len(found) - MOST_BREAKS
        rest = f"{counted(more, 'more break')} in the picture above. " if more > 0 else ""
        st.caption(
            f"{rest}Change these lines, or keep them out of the compiled part; fullgraph=True "
            "refuses any break that is left."
        )


class Drawn(NamedTuple):
    """A graph with its picture; `start_width` is what it has before anything is opened."""

    file: GraphFile
    graph: Graph
    picture: Picture
    svg: str
    start_width: float


def _drawn(capture: Capture, kernels: Sequence[Kernel], color: Color, file: GraphFile) -> Drawn:
    graph = captures.read_graph(capture, file)
    seconds = node_seconds(graph, kernels, capture.cost)
    whole = capture.cost.step_seconds if capture.cost else None
    opened = frozenset(state.get("opened") or ())
    shown = picture(graph, opened=opened, color=color, seconds=seconds, step_seconds=whole)
    closed = picture(graph, color=color, seconds=seconds, step_seconds=whole) if opened else shown
    text = svg(shown)
    width = width_of(text if closed is shown else svg(closed))
    return Drawn(file, graph, shown, text, width)


def _card(capture: Capture, side: Drawn | None, slot: str) -> None:
    if side is None:
        st.markdown(f"**{slot.capitalize()}** :gray[this stage was not reached]")
        return
    file, words = side.file, STAGES[side.file.stage]
    told = f"{words.component}: {words.text}."
    if file.stage == "before_fusion" and capture.ir_nodes_before_fusion:
        told += f" Its own counter, of all directions: {capture.ir_nodes_before_fusion}."
    count = counted(file.operators, _noun(file.stage))
    part = f", {PART_WORDS[file.part].lower()}" if _trains(capture) else ""
    st.markdown(f"**{words.title}** :gray[{count}{part}]", help=told)
    name = f"{capture.spec.workload.model_name}-{file.stage}-{file.part}-{file.number}"
    _view(side.svg, f"{capture.key} {file.file}", slot, f"{words.title} of {name}")
    if side.picture.left_out:
        st.markdown(f":small[:gray[{plain(side.picture.left_out)}]]")
    _picked(side.graph, slot)
    _downloads(capture, side, name)
    fx_drawing(capture, side.file, name)


def _trains(capture: Capture) -> bool:
    return bool(capture.at("before_passes", "backward"))


def _noun(stage: Stage) -> str:
    return "node" if stage in ("before_fusion", "after_fusion") else "operator"


def _view(text: str, picture_id: str, slot: str, alt: str) -> None:
    graph_view(
        text,
        key=f"graph_{slot}",
        picture=picture_id,
        height=HEIGHT,
        alt=alt,
        on_open=open_module,
        on_pick=partial(pick, slot),
    )


def open_module(module: str) -> None:
    opened = list(state.get("opened") or ())
    if module not in opened:
        state.opened = [*opened, module]


def pick(slot: str, name: str) -> None:
    state.compiler_picked = (slot, name)


def _opened_pills() -> None:
    """What is open, to be closed by a click."""
    opened = list(state.get("opened") or ())
    if opened:
        st.pills(
            "Opened",
            opened,
            format_func=lambda module: f"{plain(module)} ✕",
            selection_mode="multi",
            key="opened",
            label_visibility="collapsed",
            wrap=True,
        )


def _picked(graph: Graph, slot: str) -> None:
    """The node that was clicked last, in words."""
    where, name = state.get("compiler_picked") or ("", "")
    node = next((one for one in graph.nodes if one.name == name), None)
    if where == slot and node:
        st.text(" · ".join(node_words(node)))


def node_words(node: Node) -> list[str]:
    words = [node.name, node.target, node.module, node.place]
    if node.kernel:
        words.append(f"kernel {node.kernel}")
    if node.recomputed:
        words.append("recomputed in the backward")
    return [word for word in words if word]


def _downloads(capture: Capture, side: Drawn, name: str) -> None:
    with st.container(horizontal=True, gap="small"):
        download("SVG", side.svg, f"{name}.svg", "image/svg+xml")
        download("DOT", partial(dot, side.picture), f"{name}.dot", "text/vnd.graphviz")
        if side.file.text:
            text = partial(captures.read_file, capture, side.file.text)
            download("FX text", text, f"{name}.txt")
