"""What changed between the capture that is shown and another one that is kept."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from bench_core import captures
from bench_core.capture_changes import asked_otherwise, changes, code_diff, fusions
from bench_core.captured import Capture
from bench_core.units import MINUS, count_text
from pages.parts.in_address import from_address, put_into_address
from pages.parts.text import plain


def changes_card(capture: Capture, kept: Sequence[Capture]) -> None:
    others = {one.key: captures.title_of(one) for one in kept if one.key != capture.key}
    with st.container(border=True, gap="small"):
        st.markdown("**What changed between two captures**")
        if not others:
            st.caption(
                "Capture this model with another variant, batch size or precision as well: then "
                "the two stand here side by side."
            )
            return
        titles = {capture.key: captures.title_of(capture), **others}
        left, right = st.columns(2, gap="small")
        keys = list(titles)
        from_address("first", capture.key, keys)
        first = left.selectbox("First", keys, format_func=titles.__getitem__, key="first")
        others_left = [key for key in keys if key != first]
        from_address("second", None, others_left)
        second = right.selectbox(
            "Second",
            others_left,
            placeholder="Choose another capture",
            format_func=titles.__getitem__,
            key="second",
            index=None,
        )
        put_into_address("first", first if first != capture.key else "")
        put_into_address("second", second or "")
        if second is None:
            return
        one, other = captures.read(first), captures.read(second)
        if one and other:
            _draw(one, other)


def _draw(first: Capture, second: Capture) -> None:
    asked = asked_otherwise(first, second)
    st.markdown(f"Asked for differently: {plain('; '.join(asked))}." if asked else "")
    rows = changes(first, second)
    left, right = st.columns([1, 1.15], gap="small")
    with left:
        st.dataframe(
            pd.DataFrame(
                [
                    {
                        "What": row.what,
                        "First": row.first,
                        "Second": row.second,
                        "Difference": _more_text(row.more),
                    }
                    for row in rows
                ]
            ),
            hide_index=True,
            height="content",
            placeholder="",
            column_config={
                "What": st.column_config.TextColumn(pinned=True, width=280),
                "First": st.column_config.NumberColumn(width=70),
                "Second": st.column_config.NumberColumn(width=70),
                "Difference": st.column_config.TextColumn(width=80),
            },
            alt="Graphs, breaks, operators and kernels of both captures",
        )
    with right:
        found = fusions(captures.read_kernels(first), captures.read_kernels(second))
        if not found:
            st.caption("Both have the same kernels.")
        else:
            st.dataframe(
                pd.DataFrame(
                    [
                        {
                            "Kernels that compute": row.operators,
                            "First": row.first,
                            "Second": row.second,
                            "Made by": "a library" if row.kind == "extern" else row.kind,
                            "Direction": row.part,
                        }
                        for row in found
                    ]
                ),
                hide_index=True,
                height=min(460, 38 + 35 * len(found)),
                column_config={
                    "Kernels that compute": st.column_config.TextColumn(pinned=True, width=300)
                },
                alt="Kernels that only one of the captures has, or one has more often",
            )
    _code(first, second)


def _more_text(more: int | None) -> str:
    if not more:
        return "" if more is None else "same"
    return f"+{count_text(more)}" if more > 0 else f"{MINUS}{count_text(-more)}"


def _code(first: Capture, second: Capture) -> None:
    """Only when it is asked for: long texts take a second to compare."""
    both = [
        (one, other)
        for one in first.code
        for other in second.code
        if (one.number, one.part) == (other.number, other.part)
    ]
    if not both:
        st.caption("Only one of them has generated code to compare.")
        return
    names = [f"graph {one.number}, {one.part}" for one, _ in both]
    chosen = st.selectbox(
        "Compare the code of",
        range(len(both)),
        index=None,
        format_func=names.__getitem__,
        placeholder="Choose a module",
        key="diff",
        width=260,
    )
    if chosen is None:
        return
    one, other = both[chosen]
    found = code_diff(
        captures.read_file(first, one.file),
        captures.read_file(second, other.file),
        ("first", "second"),
    )
    if not found.text:
        st.caption("The code is the same, line for line.")
    else:
        st.code(found.text, language="diff", height=420)
    if found.left_out:
        st.caption(found.left_out)
