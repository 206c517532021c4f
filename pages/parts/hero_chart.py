"""The chart of the newest answer: seconds saved so far, from a cold start if one was measured."""

from __future__ import annotations

from statistics import fmean

import streamlit as st

from bench_core import stats
from bench_core.chart_frame import CONFIG
from bench_core.figures import Saved, seconds_saved
from bench_core.pairing import Arm, Comparison
from bench_core.spec import Cache
from pages.parts.text import plain

HEIGHT = 195
LONGEST_PROJECTION = 4  # times what was measured; a longer one would flatten it


def hero_chart(pair: Comparison) -> None:
    arm, baseline = pair.candidate.variant.name, pair.baseline.variant.name
    curve = saved_curve(pair)
    reach = len(curve.seconds)
    if curve.even and curve.even.epoch and curve.even.epoch <= LONGEST_PROJECTION * reach:
        reach = max(reach, round(curve.even.epoch * 1.15))
    figure = seconds_saved([curve], baseline=baseline, epochs=reach)
    figure.update_layout(height=HEIGHT, margin_t=10)
    caption = f"Seconds that {arm} has saved so far against {baseline}, all compile time counted."
    caption += " The band is the 95 % interval." if curve.low else ""
    st.caption(plain(caption))
    # A finger cannot hover: the toolbar would lie on the line for good.
    config = {**CONFIG, "displayModeBar": False}
    st.plotly_chart(figure, key="hero", config=config, alt=plain(caption))


def saved_curve(pair: Comparison) -> Saved:
    cache: Cache | None = "cold" if pair.candidate.excess_seconds("cold") is not None else None
    candidate, baseline = _mean_epochs(pair.candidate, cache), _mean_epochs(pair.baseline, None)
    saved = stats.seconds_saved(baseline, candidate)
    steady, speedup = pair.baseline.epoch_seconds, pair.speedup
    low: list[float] = []
    high: list[float] = []
    if speedup.low and speedup.high:
        # Start-up is taken as measured; the interval of the ratio grows with each epoch.
        slow, fast = (steady * (1 / speedup.ratio - 1 / end) for end in (speedup.low, speedup.high))
        low = [value + epoch * slow for epoch, value in enumerate(saved, start=1)]
        high = [value + epoch * fast for epoch, value in enumerate(saved, start=1)]
    return Saved(
        arm=pair.candidate.variant.name,
        seconds=saved,
        gain_seconds=steady - pair.candidate.epoch_seconds,
        even=pair.break_even(cache) if cache else pair.break_even_warm,
        low=low,
        high=high,
    )


def _mean_epochs(arm: Arm, cache: Cache | None) -> list[float]:
    """Over the runs that started from `cache` (None: all of them)."""
    runs = [one.wall_seconds for one in arm.runs if cache in (None, one.run.spec.variant.cache)]
    return [fmean(epoch) for epoch in zip(*runs, strict=False)]
