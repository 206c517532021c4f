"""The imports of the store, newest first, each with what takes it back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import streamlit as st

from bench_core.imported import Import
from bench_core.run import Run
from bench_core.store import Store
from bench_core.units import counted
from pages.parts.text import plain
from pages.parts.when import reader_zone, when_text

WITHOUT_SCROLLING = 5
# Whether the list is open, in the session.
OPEN = "imports_open"


def import_list(imports: Sequence[Import], runs: Sequence[Run]) -> None:
    """A popover; nothing where nothing was imported. `runs` are all of the store."""
    if not imports:
        return
    left = Counter(run.import_id for run in runs)
    height: Literal["content", 360] = "content" if len(imports) <= WITHOUT_SCROLLING else 360
    with (
        st.popover(
            counted(len(imports), "import"),
            icon=":material/upload_file:",
            type="tertiary",
            key=OPEN,
            on_change="rerun",
        ),
        st.container(height=height, border=False, width=420),
    ):
        for one in imports:
            _import(one, left[one.id])


def _import(one: Import, left: int) -> None:
    row = st.container(
        horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
    )
    count = counted(one.runs, "run")
    if left < one.runs:
        count = f"{left} of {count} left"
    facts = [when_text(one.at, reader_zone()), one.family, count]
    row.markdown(
        f"**{plain(one.file)}**  \n:small[:gray[{plain(' · '.join(facts))}]]", width="content"
    )
    if row.button(
        "Undo",
        icon=":material/undo:",
        type="tertiary",
        key=f"undo_{one.id}",
        width="content",
        on_click=_close,
    ):
        confirm_undo(one, left)


def _close() -> None:
    """The list would lie over the question."""
    st.session_state[OPEN] = False


@st.dialog("Undo an import", icon=":material/undo:")
def confirm_undo(one: Import, left: int) -> None:
    st.markdown(
        f"**{counted(left, 'run')}** from **{plain(one.file)}** and all that came with "
        f"{'it' if left == 1 else 'them'} will be gone from here. The file itself is not touched: "
        f"upload it again to have {'it' if left == 1 else 'them'} back."
    )
    with st.container(horizontal=True):
        take_out = f"Take {counted(left, 'run')} out"
        if st.button(take_out, type="primary", on_click=undo, args=(one,)):
            st.rerun()
        if st.button("Cancel", key="keep_import"):
            st.rerun()


def undo(one: Import) -> None:
    """Take an import back, and leave a sentence about what became of it for the next run."""
    with Store() as store:
        there = any(other.id == one.id for other in store.imports())
        gone = store.undo_import(one.id)
    name = plain(one.file)
    st.session_state.upload_told = (
        f"{counted(gone, 'run')} from {name} taken out."
        if there
        else f"The import of {name} had been undone already, in another tab."
    )
