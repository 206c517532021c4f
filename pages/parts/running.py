"""Whether this machine is measuring something now, and that somebody takes what is queued."""

import os
import time

import streamlit as st

from bench_core import worker
from bench_core.store import Store

WORKER_SECONDS = 15.0


def running_now() -> bool:
    """True while a run is being measured. Calls a worker when there is work and none is alive."""
    with Store() as store:
        running = bool(store.running())
        if running or store.queued():
            wake_worker()
    return running


def wake_worker() -> None:
    """Start a worker where none is alive; one that ends at once is not started every second."""
    if os.environ.get("BENCH_VIEW_ONLY") == "1" or worker.alive():
        return
    last = _last_start()
    if time.monotonic() - last.get("at", -WORKER_SECONDS) >= WORKER_SECONDS:
        last["at"] = time.monotonic()
        worker.ensure()


@st.cache_resource(show_spinner=False)
def _last_start() -> dict[str, float]:
    return {}
