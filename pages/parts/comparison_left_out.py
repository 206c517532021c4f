"""Runs that take part in no comparison, and why."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from bench_core.pairing import Comparisons
from pages.parts.run_table import ROWS_WITHOUT_SCROLLING
from pages.parts.text import plain

MOST_LEFT_OUT = 100


@st.dialog("Runs that are left out", width="large")
def left_out_dialog(found: Comparisons) -> None:
    show_left_out(found)


def show_left_out(found: Comparisons) -> None:
    """Escaped cells, which wrap: reasons hold words of compilers and of users' files."""
    rows = found.left_out_alike
    height: Literal["content"] | int = "content" if len(rows) <= ROWS_WITHOUT_SCROLLING else 480
    with st.container(height=height, border=False):
        st.table(
            [
                {
                    "Runs": ", ".join(str(run.number) for run in runs),
                    "What": plain(f"{title} on {machine}" if machine else title),
                    "Why": plain(reason),
                }
                for title, machine, reason, runs in rows[:MOST_LEFT_OUT]
            ],
            border="horizontal",
            hide_index=True,
            alt="Runs that take part in no comparison, and why",
        )
        if len(rows) > MOST_LEFT_OUT:
            st.caption(f"and {len(rows) - MOST_LEFT_OUT} more: narrow the filter to see them.")
