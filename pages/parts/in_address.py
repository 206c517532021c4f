"""Inputs whose value stands in the page's address, for cards that move on the page.

Not by bind="query-params": what precedes a card moves it on the page, and the browser drops the
binding of an input that was moved.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import streamlit as st


def whole_number(
    label: str, key: str, usual: int, most: int, *, width: int = 150, help: str | None = None
) -> int:
    """A number from 1 to `most`, which is in the address unless it is the usual one."""
    asked = st.query_params.get(key, "")
    short = asked.isascii() and asked.isdigit() and len(asked) <= len(str(most))
    valid = short and 1 <= int(asked) <= most
    st.session_state.setdefault(key, int(asked) if valid else usual)
    number = st.number_input(label, min_value=1, max_value=most, key=key, width=width, help=help)
    put_into_address(key, str(number) if number != usual else "")
    return number


def from_address(key: str, usual: Any, options: Collection[Any]) -> None:
    """Give an input that is drawn next the value of the address, where it is one of the options.

    Not bind="query-params" where options have words: it writes these, with their counts.
    """
    asked = st.query_params.get(key, "")
    named = {str(option): option for option in options}
    st.session_state.setdefault(key, named.get(asked, usual))
    if st.session_state[key] not in options:
        st.session_state[key] = usual


def put_into_address(key: str, value: str) -> None:
    """Nothing where the value is empty."""
    if not value:
        st.query_params.pop(key, None)
    elif st.query_params.get(key) != value:
        st.query_params[key] = value
