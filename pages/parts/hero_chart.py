"""The chart of the newest answer: seconds saved so far, from a cold start if one was measured."""

from __future__ import annotations

import streamlit as st

from bench_core.chart_frame import CONFIG
from bench_core.chart_titles import training_caption
from bench_core.figures import Saved, seconds_saved
from bench_core.pairing import Comparison
from pages.parts.text import plain

HEIGHT = 195
LONGEST_PROJECTION = 4  # times what was measured; a longer one would flatten it


def hero_chart(pair: Comparison) -> None:
    arm, baseline = pair.candidate.variant.name, pair.baseline.variant.name
    curve = Saved.from_cold(pair) or Saved.of(pair, "warm") or Saved.of(pair, None)
    if curve is None:
        return
    reach = len(curve.seconds)
    if curve.even and curve.even.epoch and curve.even.epoch <= LONGEST_PROJECTION * reach:
        reach = max(reach, round(curve.even.epoch * 1.15))
    figure = seconds_saved([curve], baseline=baseline, epochs=reach)
    figure.update_layout(height=HEIGHT, margin_t=10)
    caption = training_caption(
        f"Seconds that {arm} has saved so far against {baseline}",
        (*pair.baseline.runs, *pair.candidate.runs),
    )
    caption += " The band is the 95 % interval." if curve.low else ""
    st.caption(plain(caption))
    # A finger cannot hover: the toolbar would lie on the line for good.
    config = {**CONFIG, "displayModeBar": False}
    st.plotly_chart(figure, key="hero", config=config, alt=plain(caption))
