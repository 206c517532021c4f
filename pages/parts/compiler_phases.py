"""Cards of a capture: phases of the first call, decompositions, other ways to capture."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from bench_core.captured import Capture, Phase
from bench_core.chart_frame import CONFIG
from bench_core.phase_figure import PHASE_WORDS, phase_timeline, phase_title
from bench_core.units import counted, seconds_text
from pages.parts.text import plain


def phases_card(capture: Capture) -> None:
    with st.container(border=True, gap="xsmall"):
        if not capture.timelines:
            st.markdown("**The phases of the first call** :gray[not measured]")
            return
        title = phase_title(capture.timelines)
        told = {phase.name: PHASE_WORDS.get(phase.name, "") for phase in _phases(capture)}
        help_text = "\n".join(f"- {plain(name)}: {words}" for name, words in told.items() if words)
        st.markdown(f"**{plain(title)}**", help=help_text or None)
        caches = " and ".join(
            f"{line.cache} cache {seconds_text(line.first_call_seconds)}"
            for line in capture.timelines
        )
        st.caption(
            f"Seconds from the start of the first call: {caches}. A row a phase; its number counts "
            "each moment once, also where phases nest."
        )
        st.plotly_chart(
            phase_timeline(capture.timelines, title), key="phases", config=CONFIG, alt=title
        )


def _phases(capture: Capture) -> list[Phase]:
    return [phase for line in capture.timelines for phase in line.phases]


def alternatives(capture: Capture) -> None:
    """Which other ways capture the model, and why not."""
    if not capture.alternatives:
        return
    done = sum(one.captured for one in capture.alternatives)
    st.markdown(f"**{done} of {len(capture.alternatives)} ways capture this model**")
    for one in capture.alternatives:
        icon = ":green[:material/check:]" if one.captured else ":red[:material/close:]"
        counts = [counted(one.graphs, "graph")] if one.graphs else []
        if one.operators is not None:
            counts.append(counted(one.operators, "operator"))
        text = f"{icon} {plain(one.way)} :gray[{', '.join(counts)}]"
        if why := " · ".join(filter(None, (one.reason, one.place))):
            text += f"  \n:small[{plain(why)}]"
        st.markdown(text)


def decompositions_card(capture: Capture) -> None:
    """What PrimTorch and TorchInductor replaced while AOTAutograd traced."""
    if not capture.decompositions:
        return
    made = sum(one.made for one in capture.decompositions)
    calls = sum(one.calls for one in capture.decompositions)
    with st.container(border=True, gap="xsmall"):
        st.markdown(f"**Decompositions: {calls} operators became {made}**")
        st.caption(
            f"They took {seconds_text(capture.decomposition_seconds)} when the graphs were "
            "captured. The first call's phases are of another process, where they are a part of "
            "AOTAutograd."
        )
        st.dataframe(
            pd.DataFrame(
                [
                    {
                        "Operator": one.operator,
                        "Whose definition": one.source,
                        "Calls": one.calls,
                        "Became": one.made,
                        "Time": seconds_text(one.seconds),
                    }
                    for one in capture.decompositions
                ]
            ),
            hide_index=True,
            height=min(320, 38 + 35 * len(capture.decompositions)),
            column_config={"Operator": st.column_config.TextColumn(pinned=True, width=320)},
            alt="Operators that were replaced by simpler ones",
        )
