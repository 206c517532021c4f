"""What a pair comes to over so many epochs, its start-up counted: the article's two numbers too."""

from __future__ import annotations

import math

import streamlit as st

from bench_core import stats
from bench_core.comparison import LONG_RUN, Comparison, ends_text, two_digits
from bench_core.spec import Cache
from bench_core.units import (
    count_text,
    counted,
    duration_text,
    percent_interval_text,
    percent_text,
)
from pages.parts.comparison_words import pair_name
from pages.parts.in_address import whole_number
from pages.parts.text import plain

# The article trained for so many epochs; calls are many.
ALWAYS = {"epoch": (10, 100), "iteration": (10_000,)}
MOST = {"epoch": 100_000, "iteration": 10**9}


def projection_card(pair: Comparison) -> None:
    """A number of epochs in the address, and what the pair comes to over so many."""
    with st.container(border=True, gap="xsmall", height="stretch"):
        told = st.container(gap="xsmall")
        count = whole_number(
            f"Over the first {pair.unit}s",
            f"first_{pair.unit}s",  # a number of epochs is no number of iterations
            LONG_RUN[pair.unit],
            MOST[pair.unit],
            width=160,
            help=f"The mean {pair.unit} over so many, start-up and compiling counted. With more of "
            "them it comes near to the steady speedup.",
        )
        told.markdown(f"**{plain(over_text(pair, count))}**")
        known = pair.first_start and pair.states("cache")
        start = f" from {_a(pair.first_start)} cache" if known else ""
        told.caption(plain(f"{pair_name(pair)}. Mean {pair.unit} with what starting took{start}."))
        for sentence in filter(None, (pair.saving_over(count), even_text(pair))):
            st.markdown(plain(sentence))


def _a(cache: Cache | None) -> str:
    return "no" if cache == "off" else f"a {cache}"


def over_text(pair: Comparison, count: int) -> str:
    """`Over the first 10 epochs 3.1 % slower (2.0–4.2 %), over 100 epochs 7.6 % faster (...)`."""
    counts = sorted({*ALWAYS[pair.unit], count})
    parts = [
        f"over {'the first ' * (not at)}{count_text(number)} {pair.unit}s {mean_text(pair, number)}"
        for at, number in enumerate(counts)
    ]
    return f"{parts[0][0].upper()}{', '.join(parts)[1:]}"


def mean_text(pair: Comparison, count: int) -> str:
    """`7.6 % faster (7.1–8.1 %)`; without an interval where there is a first look only."""
    seconds = pair.seconds_over(count)
    if seconds is None:
        return "not known"
    ratio, view = seconds[0] / seconds[1], pair.outlook(pair.first_start)
    if view is None:
        return f"{percent_text(ratio)} (first look)"
    band = stats.mean_speedup(view, count)
    within = percent_interval_text(band.low, band.high)
    if band.low <= 1 <= band.high:
        return f"no difference shown ({within})"
    return f"{percent_text(ratio, band.low, band.high)} ({within})"


def even_text(pair: Comparison) -> str:
    """`Even at epoch 14 (95 %: 12 to 16): after 868 steps, 15 min 28 s from the start.`"""
    cache = pair.first_start
    if not pair.differs or (cache is None and pair.candidate.variant.cache):
        return ""
    even = pair.break_even(cache or "cold")
    if even is None or even.exact is None or even.epoch is None:
        return ""
    excess = pair.baseline.excess_seconds(pair.baseline_start(cache)) or 0.0
    seconds = excess + even.exact * pair.baseline.steady_seconds
    ends = pair.break_even_interval(cache or "cold")
    within = f" (95 %: {ends_text(ends, even.kind)})" if ends else ""
    number = two_digits(even.epoch) if even.projected else even.epoch
    place = f"{pair.unit} {count_text(number)}"
    words = "Ahead until" if even.kind == "ahead until" else "Even at"
    steps = ""
    if pair.unit == "epoch" and pair.states("samples", "batch_size", "drop_last"):
        exact = math.ceil(even.exact * pair.workload.steps_per_epoch)
        steps = f"{counted(round(two_digits(exact)), 'step')}, "
    return f"{words} {place}{within}: after {steps}{duration_text(seconds)} from the start."
