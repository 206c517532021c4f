"""Runs with their epochs and steady states, kept between reruns and sessions.

Raw times of a run that has ended never change, and finding its steady state takes about as long
as reading it: 2,000 runs would keep a page waiting for seconds each time something is clicked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from bench_core.measured import Measured, measure
from bench_core.run import ENDED, Run
from bench_core.store import Store

MOST_KEPT = 10_000


@st.cache_resource(show_spinner=False)
def _kept() -> dict[tuple[str, bool], Measured]:
    return {}


def measured_runs(store: Store, runs: Sequence[Run], evaluation: bool = False) -> list[Measured]:
    """The runs in their order, each with its epochs (without single steps).

    `evaluation`: the testing after each epoch counts too.
    """
    kept = _kept()
    if len(kept) > MOST_KEPT:
        kept.clear()
    found = {
        run.number: kept[run.id, evaluation]
        for run in runs
        if run.status in ENDED and (run.id, evaluation) in kept
    }
    wanted = [run for run in runs if run.number not in found]
    epochs = store.epochs([run.number for run in wanted])
    for run in wanted:
        found[run.number] = measure(run, epochs[run.number], evaluation)
        if run.status in ENDED:
            kept[run.id, evaluation] = found[run.number]
    return [replace(found[run.number], run=run) for run in runs]
