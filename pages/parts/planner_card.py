"""What a chosen pair is worth: epochs a start and starts a day in, time won or lost a day out."""

from __future__ import annotations

import streamlit as st

from bench_core.comparison import LONG_RUN, Comparison
from bench_core.planner import worth
from pages.parts.text import plain

MOST = {"epoch": 100_000, "iteration": 10**9}
MOST_STARTS = 10_000


def planner_card(pair: Comparison) -> None:
    """The card "What it is worth to you". Its inputs are in the address."""
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown("**What it is worth to you**")
        told = st.container(gap="xsmall")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            count = st.number_input(
                f"{pair.unit.capitalize()}s a start",
                min_value=1,
                max_value=MOST[pair.unit],
                value=LONG_RUN[pair.unit],
                key=f"planner_{pair.unit}s",
                bind="query-params",
                width=150,
            )
            starts = st.number_input(
                "Starts a day",
                min_value=1,
                max_value=MOST_STARTS,
                value=1,
                key="planner_starts",
                bind="query-params",
                width=150,
            )
            shared = st.toggle(
                "Cache kept between starts",
                key="planner_shared",
                bind="query-params",
                disabled=pair.candidate.variant.cache is None,
                help="Kept on a disk that all starts share, each start finds it warm; else each "
                "compiles anew.",
            )
        found = worth(pair, count, starts, shared)
        told.markdown(plain(found.answer))
        told.markdown(f":small[:gray[{plain(found.detail)}]]")
