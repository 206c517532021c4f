"""The button that downloads what Compare shows as one HTML file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import streamlit as st

from bench_core.cause import Cause
from bench_core.comparison import LONG_RUN, Comparison
from bench_core.diagnosis import diagnose
from bench_core.machines import Across
from bench_core.pair_figures import has_series
from bench_core.pairing import Comparisons
from bench_core.planner import worth
from bench_core.report import report_html
from bench_core.store import Store
from pages.parts.comparison_charts import of_any_size
from pages.parts.comparison_words import answer
from pages.parts.diagnosis_card import others_of, with_stored_steps


def report_button(
    found: Comparisons,
    chosen: Comparison,
    machines: Sequence[str],
    address: str,
    across: Across | None,
) -> None:
    """Nothing is made before it is pressed: the file has all of plotly in it, 5 MB.

    `address`: the one that is shared, with all choices. `across`: its machines side by side.
    """
    epochs = int(st.session_state.get("machines_epochs", LONG_RUN["epoch"]))
    plan = (
        int(st.session_state.get(f"planner_{chosen.unit}s", LONG_RUN[chosen.unit])),
        int(st.session_state.get("planner_starts", 1)),
        bool(st.session_state.get("planner_shared", False)),
    )

    st.download_button(
        "Report",
        data=partial(report_of, found, chosen, machines, address, plan, across, epochs),
        file_name=f"compile-report-{time.strftime('%Y-%m-%d')}.html",
        mime="text/html",
        on_click="ignore",
        icon=":material/description:",
        help="One HTML file with this answer, its charts and how it was measured. It opens "
        "without a network.",
    )


def report_of(
    found: Comparisons,
    chosen: Comparison,
    machines: Sequence[str],
    address: str,
    plan: tuple[int, int, bool],
    across: Across | None = None,
    epochs: int = LONG_RUN["epoch"],
) -> str:
    """The HTML. `plan`: epochs (iterations) a start, starts a day, whether they share a cache.

    `epochs`: of the training that a cost across machines is of.
    """
    with Store() as store:
        prices = store.prices()
        causes: Sequence[Cause] = ()
        # A stated time has no parts to look into, nor epochs that state no wait for data.
        if has_series(chosen) and chosen.states("data_wait_seconds"):
            causes = diagnose(with_stored_steps(chosen, store), others_of(chosen, store))
    # Equal arms are worth nothing.
    value = None if "side" in chosen.axis else worth(chosen, *plan)
    return report_html(
        found,
        chosen,
        machines,
        address=address,
        answer=answer(found),
        causes=causes,
        worth=(value.answer, value.detail) if value else (),
        of_sizes=of_any_size(chosen, found.pairs),
        across=across,
        prices=prices,
        epochs=epochs,
    )
