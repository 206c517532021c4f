"""What a chosen pair is worth: epochs a start and starts a day in, time won or lost a day out."""

from __future__ import annotations

import streamlit as st

from bench_core.comparison import LONG_RUN, Comparison
from bench_core.planner import worth
from pages.parts.in_address import put_into_address, whole_number
from pages.parts.text import plain

MOST = {"epoch": 100_000, "iteration": 10**9}
MOST_STARTS = 10_000


def planner_card(pair: Comparison) -> None:
    """The card "What it is worth to you". Its inputs are in the address."""
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown("**What it is worth to you**")
        told = st.container(gap="xsmall")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            count = whole_number(
                f"{pair.unit.capitalize()}s a start",
                f"planner_{pair.unit}s",
                LONG_RUN[pair.unit],
                MOST[pair.unit],
            )
            starts = whole_number("Starts a day", "planner_starts", 1, MOST_STARTS)
            st.session_state.setdefault("planner_shared", "planner_shared" in st.query_params)
            shared = st.toggle(
                "Cache kept between starts",
                key="planner_shared",
                disabled=pair.candidate.variant.cache is None,
                help="Kept on a disk that all starts share, each start finds it warm; else each "
                "compiles anew.",
            )
            put_into_address("planner_shared", "true" if shared else "")
        found = worth(pair, count, starts, shared)
        told.markdown(plain(found.answer))
        told.markdown(f":small[:gray[{plain(found.detail)}]]")
