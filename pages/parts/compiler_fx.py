"""The picture that torch.fx itself draws of a graph: FxGraphDrawer's, with every node in its words.

Laid out here as our own pictures are, so that it zooms and is kept without Graphviz.
"""

from __future__ import annotations

import streamlit as st

from bench_core import captures
from bench_core.captured import FX_DRAWING, Capture, GraphFile
from bench_core.graph_fx import fx_svg
from bench_core.units import counted
from pages.parts.graph_view import download, graph_view
from pages.parts.text import plain

DRAWN = ("dynamo", "after_passes")  # the stages that a capture has such a picture of
MOST_NODES = 300
HEIGHT = 620


def fx_drawing(capture: Capture, file: GraphFile, name: str) -> None:
    """Below a card's own picture, drawn when it is opened."""
    if file.stage not in DRAWN:
        return
    opened = st.expander("As torch.fx draws it", key=f"fx_{file.stage}", on_change="rerun")
    if not opened.open:
        return
    with opened:
        if not file.drawing:
            raised = [one.reason for one in capture.missing if one.what == FX_DRAWING]
            st.caption(
                f"FxGraphDrawer drew nothing: {plain('; '.join(raised))}."
                if raised
                else "FxGraphDrawer was not there when this was captured: it needs the package "
                "pydot. Install it (pip install pydot) and capture again."
            )
            return
        drawing = captures.read_file(capture, file.drawing)
        drawn = fx_svg(drawing) if file.nodes <= MOST_NODES else ""
        if drawn:
            graph_view(
                drawn,
                key=f"fx_view_{file.stage}_{file.part}",
                picture=f"{capture.key} {file.drawing}",
                height=HEIGHT,
                alt=f"FxGraphDrawer's {name}",
                on_open=_nothing,
                on_pick=_nothing,
            )
        elif file.nodes > MOST_NODES:
            st.caption(
                f"{counted(file.nodes, 'node')} with all their rows are too many to be drawn here: "
                f"dot -Tsvg {name}.fx.dot draws them (apt-get install graphviz)."
            )
        with st.container(horizontal=True, gap="small"):
            if drawn:
                download("FxGraphDrawer's SVG", drawn, f"{name}.fx.svg", "image/svg+xml")
            download("FxGraphDrawer's DOT", drawing, f"{name}.fx.dot", "text/vnd.graphviz")


def _nothing(name: str) -> None:
    """Its boxes hold nothing to open or to tell."""
