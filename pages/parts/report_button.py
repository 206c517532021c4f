"""The button that downloads what Compare shows as one HTML file."""

from __future__ import annotations

import time
from collections.abc import Sequence

import streamlit as st

from bench_core.comparison import LONG_RUN, Comparison
from bench_core.diagnosis import diagnose, with_steps
from bench_core.pairing import Comparisons
from bench_core.planner import worth
from bench_core.report import report_html
from bench_core.store import Store
from pages.parts.comparison_words import answer
from pages.parts.measured import measured_runs


def report_button(found: Comparisons, chosen: Comparison, machines: Sequence[str]) -> None:
    """Nothing is made before it is pressed: the file has all of plotly in it, 5 MB."""
    plan = (
        int(st.session_state.get(f"planner_{chosen.unit}s", LONG_RUN[chosen.unit])),
        int(st.session_state.get("planner_starts", 1)),
        bool(st.session_state.get("planner_shared", False)),
    )
    address = st.context.url or ""

    def made() -> str:
        with Store() as store:
            numbers = [m.run.number for m in (*chosen.baseline.runs, *chosen.candidate.runs)]
            pair = with_steps(chosen, store.epochs(numbers, steps=True))
            causes = diagnose(pair, measured_runs(store, store.runs()))
        value = worth(chosen, *plan)
        return report_html(
            found,
            chosen,
            machines,
            address=address,
            answer=answer(found),
            causes=causes,
            worth=(value.answer, value.detail),
        )

    st.download_button(
        "Report",
        data=made,
        file_name=f"compile-report-{time.strftime('%Y-%m-%d')}.html",
        mime="text/html",
        on_click="ignore",
        icon=":material/description:",
        help="One HTML file with this answer, its charts and how it was measured. It opens "
        "without a network.",
    )
