"""The chart of the newest answer: what training has saved so far, or how long the calls take."""

from __future__ import annotations

from typing import Any

import streamlit as st

from bench_core.chart_frame import CONFIG
from bench_core.chart_titles import training_caption
from bench_core.comparison import Comparison
from bench_core.latency_figures import latency_bars, latency_by_batch
from bench_core.saved_figure import Saved, seconds_saved
from pages.parts.answers import Answer
from pages.parts.comparison_latency import points_of
from pages.parts.text import plain

HEIGHT, HEIGHT_OF_A_ROW, HEIGHT_OF_THE_AXES = 195, 24, 90
LONGEST_PROJECTION = 4  # times what was measured; a longer one would flatten it


def hero_chart(answer: Answer) -> None:
    drawn = _saved(answer.lead) if answer.kind == "Training" else _latencies(answer)
    if drawn is None:
        return
    figure, caption = drawn
    figure.update_layout(margin_t=10)
    st.caption(plain(caption))
    # A finger cannot hover: the toolbar would lie on the line for good.
    config = {**CONFIG, "displayModeBar": False}
    st.plotly_chart(figure, key="hero", config=config, alt=plain(caption))


def _saved(pair: Comparison) -> tuple[Any, str] | None:
    """Seconds saved so far, from a cold start if one was measured."""
    arm, baseline = pair.candidate.name, pair.baseline.name
    curve = Saved.from_cold(pair) or Saved.of(pair, "warm") or Saved.of(pair, None)
    if curve is None:
        return None
    reach = len(curve.seconds)
    if curve.even and curve.even.epoch and curve.even.epoch <= LONGEST_PROJECTION * reach:
        reach = max(reach, round(curve.even.epoch * 1.15))
    figure = seconds_saved([curve], baseline=baseline, epochs=reach)
    figure.update_layout(height=HEIGHT)
    caption = training_caption(
        f"Seconds that {arm} has saved so far against {baseline}",
        (*pair.baseline.runs, *pair.candidate.runs),
    )
    return figure, caption + (" The band is the 95 % interval." if curve.outlook else "")


def _latencies(answer: Answer) -> tuple[Any, str]:
    """Of every arm; of a function by the size of its input."""
    ordered = sorted(answer.pairs, key=lambda pair: -pair.speedup.ratio)
    points = points_of(ordered)
    if answer.of_sizes:
        figure = latency_by_batch(points, size_word="input size n", tails=False)
        figure.update_layout(height=HEIGHT)
        return figure, "Median seconds of a steady call by the size of the input."
    figure = latency_bars(points)
    figure.update_layout(height=HEIGHT_OF_THE_AXES + HEIGHT_OF_A_ROW * len(points))
    return (
        figure,
        "Latency of a steady call. Bar: median, with the speedup against eager beside it.",
    )
