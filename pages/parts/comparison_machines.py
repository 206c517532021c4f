"""Across machines: the answer, what it leaves out, prices, and a view of the numbers.

Stands on Compare where more than one machine (or device of one) is in view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from bench_core.machine_words import (
    cheapest_text,
    conditions,
    headline,
    incomplete,
    left_out_sentences,
    means_sentences,
    prices_text,
    same_work,
    side_by_side,
    state_text,
    whole_machines_text,
)
from bench_core.machines import Across, Row
from bench_core.machines_apart import apart_sentences
from bench_core.store import Store
from bench_core.units import count_text, counted
from pages.parts.comparison_machine_table import machines_table
from pages.parts.comparison_machine_views import View, ViewName, machines_chart
from pages.parts.in_address import whole_number
from pages.parts.run_table import ROWS_WITHOUT_SCROLLING
from pages.parts.text import plain

MOST_ROWS = 50
MOST_MISSING = 500
MOST_MEANS = 3
MOST_APART = 2
MOST_FACTS = 4
LONG_TRAINING = 100
MOST_EPOCHS = 100_000
MOST_PRICE = 1e6  # an hour, in whatever currency


def machines_section(across: Across, machines: Sequence[str], view_only: bool) -> None:
    """`machines`: all labels of the store in their fixed order, which is that of their colours."""
    with Store() as store:
        prices = store.prices()
    every = side_by_side(across)
    rows = every[:MOST_ROWS]
    with st.container(border=True, gap="xsmall"):
        st.markdown(f"**Across machines: {plain(headline(across))}**")
        for sentence in apart_sentences(across, MOST_FACTS)[:MOST_APART]:
            st.markdown(plain(sentence))
        for sentence in means_sentences(across)[:MOST_MEANS]:
            st.markdown(plain(sentence))
        name = _choose(across, every, prices) if rows else None
        with st.container(horizontal=True, vertical_alignment="center"):
            _left_out_button(across)
            if same_work(rows) and not view_only:  # else no seconds could become money
                _prices_popover(across, prices)
        if name is None:
            return
        if name != "Speedup":
            every = same_work(every)
            rows = every[:MOST_ROWS]
        count = LONG_TRAINING
        if name == "Cost" and rows[0].workload.unit == "epoch":
            count = whole_number(
                "Epochs of a training", "machines_epochs", LONG_TRAINING, MOST_EPOCHS
            )
        if name == "Cost":
            st.markdown(plain(cheapest_text(across, prices, count)))
        view = View(name, across, rows, machines, prices, count)
        chart, table = st.columns([1, 1.3], gap="small")
        with chart:
            machines_chart(view)
        with table:
            machines_table(view)
            notes = [prices_text(across, prices)] if name == "Cost" else []
            notes += [whole_machines_text(across)] if name != "Speedup" else []
            if len(every) > MOST_ROWS:
                more = counted(len(every) - MOST_ROWS, "more workload")
                notes.append(f"{more}: narrow the filter to see others. Means are over all.")
            if notes:
                st.caption(plain(" ".join(notes)))


def _choose(across: Across, rows: Sequence[Row], prices: Mapping[str, float]) -> ViewName | None:
    comparable = bool(same_work(rows))
    there: dict[ViewName, bool] = {
        "Speedup": any(row.pairs for row in rows),
        "Fastest": comparable,
        "Seconds": comparable,
        "Throughput": comparable,
        "Cost": comparable and bool(prices_text(across, prices)),
    }
    views = [name for name, shown in there.items() if shown]
    if not views:
        return None
    if st.session_state.get("across", views[0]) not in views:
        del st.session_state["across"]  # a price was taken back
    return st.segmented_control(
        "What is shown across machines",
        views,
        default=views[0],
        required=True,
        key="across",
        bind="query-params",
        label_visibility="collapsed",
    )


# Prices


def _prices_popover(across: Across, prices: Mapping[str, float]) -> None:
    with st.popover("Prices", icon=":material/payments:"):
        st.caption(
            "What an hour on each machine costs, all in one currency of yours: costs are in the "
            "same. Empty or 0 is no price."
        )
        for machine_id in dict.fromkeys(place.machine_id for place in across.places):
            of = next(place for place in across.places if place.machine_id == machine_id)
            key = f"price_{machine_id}"
            price = prices.get(machine_id)
            st.session_state.setdefault(key, price and min(price, MOST_PRICE))
            st.number_input(
                f"{plain(of.machine)} an hour",
                min_value=0.0,
                max_value=MOST_PRICE,
                step=0.1,
                format="%g",
                placeholder="no price",
                key=key,
                on_change=_keep_price,
                args=(machine_id, key),
            )


def _keep_price(machine_id: str, key: str) -> None:
    """Nothing, or 0, is no price."""
    with Store() as store:
        store.set_price(machine_id, st.session_state[key] or None)


# What is left out


def _left_out_button(across: Across) -> None:
    missing = len(incomplete(across))
    if st.button(
        f"{counted(missing, 'workload')} incomplete" if missing else "What machines differ in",
        type="tertiary",
        icon=":material/info:",
        key="machines_left_out",
    ):
        _left_out_dialog(across)


@st.dialog("Across machines", width="large")
def _left_out_dialog(across: Across) -> None:
    """What the means leave out, what is missing where and why, and what machines differ in."""
    if sentences := left_out_sentences(across):
        st.markdown(f"**Geometric means:** {plain(' '.join(sentences))}")
    for sentence in apart_sentences(across):
        st.markdown(plain(sentence))
    missing = incomplete(across)
    if missing:
        shown = missing[:MOST_MISSING]
        st.markdown("**Workloads that are not complete on every machine**")
        st.dataframe(
            [
                {
                    "Workload": ", ".join(filter(None, [row.model_name, *row.words, words])),
                    **{across.names[place]: state_text(row, place) for place in across.places},
                }
                for row, words in zip(shown, conditions(shown), strict=True)
            ],
            hide_index=True,
            height="content" if len(shown) <= ROWS_WITHOUT_SCROLLING else 420,
            alt="Workloads that are not complete on every machine, and why",
        )
        if len(missing) > MOST_MISSING:
            st.caption(f"and {count_text(len(missing) - MOST_MISSING)} more")
    st.markdown("**What belongs to each machine**")
    st.dataframe(
        [
            {"Fact": name, **{across.names[place]: of.get(place, "") for place in across.places}}
            for name, of in across.facts.items()
        ],
        hide_index=True,
        height="content",
        alt="Facts of each machine",
    )
