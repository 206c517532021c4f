"""The results that come with the program, for a look around before anything is measured here."""

from __future__ import annotations

import streamlit as st

from bench_core import imports
from bench_core.paths import SHIPPED
from bench_core.store import Store
from bench_core.table_file import BadFile, open_table
from bench_core.units import counted
from pages.parts.text import plain


def sample_button() -> None:
    """Imports the sample on a press; nothing is drawn where there is none."""
    files = sorted(SHIPPED.glob("sample*.csv"))
    if not files or not st.button(
        "Load the sample results",
        icon=":material/dataset:",
        help="Runs that this program measured on a CPU: which one, and its whole environment, "
        "stand with each run. They are an import, which can be undone on Results.",
    ):
        return
    try:
        with Store() as store:
            for file in files:
                imports.take_in(store, open_table(file.name, file))
            runs = [run for run in store.runs() if run.import_id]
    except BadFile as error:
        st.markdown(f":red[:material/error:] The sample cannot be read: {plain(str(error))}")
        return
    where = {run.environment.cpu_name or run.machine for run in runs if run.environment}
    st.toast(
        f"{counted(len(runs), 'run')} of the sample imported, measured by this program on "
        f"{plain(', '.join(sorted(where)))}."
    )
    st.rerun()
