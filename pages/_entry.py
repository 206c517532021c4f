"""The frame around every page: page config, navigation, and whether something runs now.

Started by app.py for each session and rerun; the chosen page runs inside it. Each page's address
differs from its file's name, so that Streamlit never takes the file for a page of its own.
"""

from pathlib import Path

import streamlit as st

from bench_core.store import StoreError
from pages.parts.running import running_now

HERE = Path(__file__).resolve().parent

# A picture of our own: without it each page fetches its icon from another host as favicon.
st.set_page_config(
    page_title="Does torch.compile pay off?",
    page_icon=str(HERE / "icon.png"),
    layout="wide",
)

unreadable = None
try:
    running = running_now()
except StoreError as error:
    running, unreadable = False, error

page = st.navigation(
    [
        st.Page(HERE / "overview.py", title="Overview", icon=":material/verified:", default=True),
        st.Page(HERE / "run.py", title="Run", icon=":material/play_circle:", url_path="launch"),
        st.Page(
            HERE / "live.py",
            title="Live · running" if running else "Live",
            icon=":material/sync:" if running else ":material/monitoring:",
            url_path="watch",
        ),
        st.Page(
            HERE / "compare.py",
            title="Compare",
            icon=":material/balance:",
            url_path="comparison",
        ),
        st.Page(
            HERE / "compiler.py",
            title="Compiler",
            icon=":material/account_tree:",
            url_path="graphs",
        ),
        st.Page(
            HERE / "results.py", title="Results", icon=":material/table_rows:", url_path="runs"
        ),
        st.Page(
            HERE / "claims.py",
            title="Claims",
            icon=":material/fact_check:",
            url_path="published",
        ),
    ],
    position="top",
)
if unreadable:
    st.title("The results file cannot be opened", anchor=False)
    st.text(str(unreadable))
else:
    page.run()
