"""The picture that torch.fx itself draws of a graph: FxGraphDrawer's, with every node in its words.

The browser lays it out, which takes it minutes for thousands of nodes: large ones are downloads.
"""

from __future__ import annotations

from functools import partial

import streamlit as st

from bench_core import captures
from bench_core.captured import FX_DRAWING, Capture, GraphFile
from bench_core.units import counted
from pages.parts.text import plain

DRAWN = ("dynamo", "after_passes")  # the stages that a capture has such a picture of
MOST_NODES = 120


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
        if file.nodes <= MOST_NODES:
            drawing = captures.read_file(capture, file.drawing)
            # Its arrows are black: on paper, whatever the page's ground is.
            on_paper = drawing.replace("rankdir=TB;", 'rankdir=TB; bgcolor="white";', 1)
            st.graphviz_chart(on_paper, width="stretch", alt=f"FxGraphDrawer's {name}")
        else:
            st.caption(
                f"{counted(file.nodes, 'node')} are too many to be laid out in a browser: "
                f"dot -Tsvg {name}.fx.dot draws them (apt-get install graphviz)."
            )
        st.download_button(
            "FxGraphDrawer's DOT",
            data=partial(captures.read_file, capture, file.drawing),
            file_name=f"{name}.fx.dot".replace(":", "-").replace("/", "-"),
            mime="text/vnd.graphviz",
            icon=":material/download:",
            type="tertiary",
            on_click="ignore",
            key=f"download fx {name}",
        )
