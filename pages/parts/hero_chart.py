"""The chart of the newest answer: seconds saved so far, from a cold start if one was measured."""

from __future__ import annotations

from statistics import fmean

import plotly.graph_objects as go
import streamlit as st

from bench_core import figures, stats
from bench_core.chart_frame import CONFIG
from bench_core.pairing import Arm, Comparison
from bench_core.spec import Cache
from pages.parts.text import plain

HEIGHT = 230
LONGEST_PROJECTION = 4  # times what was measured; a longer one would flatten it


def hero_chart(pair: Comparison) -> None:
    figure = saved_figure(pair)
    figure.update_layout(height=HEIGHT, margin_t=10)
    band = " The band is the 95 % interval." if pair.speedup.low else ""
    arm = pair.candidate.variant.name
    caption = (
        f"Seconds that {arm} has saved so far against {pair.baseline.variant.name}, all compile "
        f"time counted.{band}"
    )
    st.caption(plain(caption))
    # A finger cannot hover: the toolbar would lie on the line for good.
    st.plotly_chart(
        figure, key="hero", config={**CONFIG, "displayModeBar": False}, alt=plain(caption)
    )


def saved_figure(pair: Comparison) -> go.Figure:
    cache: Cache | None = "cold" if pair.candidate.excess_seconds("cold") is not None else None
    saved = stats.seconds_saved(
        _mean_epochs(pair.baseline, None), _mean_epochs(pair.candidate, cache)
    )
    steady, speedup = pair.baseline.epoch_seconds, pair.speedup
    low: list[float] = []
    high: list[float] = []
    if speedup.low and speedup.high:
        # Start-up is taken as measured; the interval of the ratio grows with each epoch.
        slow, fast = (steady * (1 / speedup.ratio - 1 / end) for end in (speedup.low, speedup.high))
        low = [value + epoch * slow for epoch, value in enumerate(saved, start=1)]
        high = [value + epoch * fast for epoch, value in enumerate(saved, start=1)]
    even = pair.break_even(cache) if cache else pair.break_even_warm
    reach = len(saved)
    if even and even.epoch and even.epoch <= LONGEST_PROJECTION * reach:
        reach = max(reach, round(even.epoch * 1.15))
    curve = figures.Saved(
        arm=pair.candidate.variant.name,
        seconds=saved,
        gain_seconds=steady - pair.candidate.epoch_seconds,
        even=even,
        low=low,
        high=high,
    )
    return figures.seconds_saved([curve], baseline=pair.baseline.variant.name, epochs=reach)


def _mean_epochs(arm: Arm, cache: Cache | None) -> list[float]:
    runs = [one.wall_seconds for one in arm.runs if cache in (None, one.run.spec.variant.cache)]
    return [fmean(epoch) for epoch in zip(*runs, strict=False)]
