"""The table of an experiment whose rungs stand one on top of the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import streamlit as st

from bench_core.ladder import HEAD, Step, rows
from bench_core.units import seconds_text
from pages.parts.kinds import model_text
from pages.parts.text import plain


def ladder_card(steps: Sequence[Step]) -> None:
    """What each rung adds to the one below it, and what all give together; a table a workload."""
    with st.container(border=True, gap="xsmall"):
        st.markdown(f"**{plain(ladder_text(steps))}**")
        st.caption(
            "Each rung stands on the one above it. By itself: against that one. In all: against "
            "the first."
        )
        for where, on_one in groupby(steps, _where):
            if len({*map(_where, steps)}) > 1:
                st.markdown(plain(where))
            cells = [
                (name, alone, whole, seconds_text(s)) for name, alone, whole, s in rows(on_one)
            ]
            st.table(
                {
                    head: [plain(cell) for cell in column]
                    for head, column in zip(HEAD, zip(*cells, strict=True), strict=True)
                },
                border="horizontal",
                hide_index=True,
                alt=f"Rungs of the ladder on {where}",
            )


def ladder_text(steps: Sequence[Step]) -> str:
    """`bf16 adds most: 61 % faster by itself`, of all workloads; else what is to come."""
    judged = [step for step in steps if step.alone and step.alone.shows_difference]
    faster = [step for step in judged if step.alone and step.alone.speedup.ratio > 1]
    if not faster:
        return "No rung of the ladder is shown to be faster than the one before it"
    most = max(faster, key=lambda step: step.alone.speedup.ratio if step.alone else 0.0)
    assert most.alone is not None
    return f"{most.name} adds most: {most.alone.verdict_text} by itself"


def _where(step: Step) -> str:
    work = step.run.workload
    return ", ".join([model_text(work.model), *work.words[:1]])
