"""What may be said of all rows of a file of the upload: facts that none of its columns states."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable

import streamlit as st

from bench_core import imports
from bench_core.facts_here import facts_like
from bench_core.imported import said_in
from bench_core.imports import Look
from bench_core.run import Run
from bench_core.table_file import TableFile
from pages.parts.text import plain

HINT = "dataset=synthetic samples=1024"


def further_facts(runs: Iterable[Run], table: TableFile, bare: Look, key: str) -> dict[str, str]:
    """One optional field; the facts that were chosen or typed, by column.

    What was measured here of the same models may be chosen. `bare` is the look at the file before
    any fact was said of it.
    """
    here = facts_like(runs, bare.works, bare.lacks)
    said = st.selectbox(
        f"{plain(table.name)}: conditions that no column states",
        list(here),
        index=None,
        format_func=lambda text: here.get(text, text),
        placeholder="Choose those of a run here, or type them" if here else HINT,
        accept_new_options=True,
        key=f"{key}_facts",
        help="Optional, and it holds for all rows. A machine stands beside another only where "
        "both state the same of a workload, and the file does not state "
        f"{plain(', '.join(bare.lacks))}. Typed as `{HINT}`; columns in the file say it too, and "
        "`python -m bench_core export --columns` lists them.",
    )
    try:
        return facts_in(said or "", imports.family_of(table).sayable(table.header))
    except ValueError as error:
        st.markdown(f":red[:material/error:] {plain(str(error))}")
        return {}


def facts_in(said: str, allowed: Collection[str]) -> dict[str, str]:
    """Facts as they are typed, by column. ValueError: one is none, or none of the allowed."""
    facts = said_in(shlex.split(said))
    if strange := [name for name in facts if name not in allowed]:
        raise ValueError(f"{strange[0]} is no fact that the file lacks: {', '.join(allowed)}")
    return facts
