"""Figures of a whole comparison with their captions, for the page and for the report. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from bench_core.chart_frame import machine_styles
from bench_core.chart_titles import training_caption
from bench_core.comparison import Comparison
from bench_core.figures import Saved, SpeedupPoint, seconds_saved, speedup_by_batch

# A projection much longer than the measured epochs would flatten them. Iterations are cheap: a
# break-even far beyond the few that were measured is the usual answer.
LONGEST_PROJECTION = {"epoch": 4.0, "iteration": math.inf}
MANY_ITERATIONS = 100_000


def speedup_by_size(
    chosen: Comparison, alike: Sequence[Comparison], machines: Sequence[str], title: str
) -> tuple[go.Figure, str]:
    """Speedup by size, a line a machine, over the chosen pair's noise floor if it has one.

    `alike`: comparisons that differ from the chosen one in size and machine at most. `machines`:
    all of the store in the order of their first run, which gives them their colours.
    """
    points = [
        SpeedupPoint(
            pair.machine,
            pair.workload.batch_size,
            pair.speedup.ratio,
            pair.speedup.low,
            pair.speedup.high,
        )
        for pair in alike
    ]
    first_looks = any(pair.speedup.kind == "first look" for pair in alike)
    caption = f"{chosen.workload.model}, {chosen.candidate.name}: speedup " + (
        "with 95 % interval. Hollow: a first look without one."
        if first_looks
        else "with 95 % interval; above 1 is faster."
    )
    noise = None
    if chosen.floor:
        noise = (math.exp(-chosen.floor), math.exp(chosen.floor))
        caption += f" Grey band: {chosen.machine}'s own noise (A/A)."
    return speedup_by_batch(points, machine_styles(machines), noise=noise, title=title), caption


def saved(pair: Comparison, title: str) -> tuple[go.Figure, str]:
    """Seconds saved against the baseline, from a cold and from a warm cache."""
    curves = [curve for curve in (Saved.from_cold(pair), Saved.of(pair, "warm")) if curve]
    if not curves and (every := Saved.of(pair, None)):
        curves = [every]
    measured = max(len(curve.seconds) for curve in curves)
    evens = [curve.even.epoch for curve in curves if curve.even and curve.even.epoch]
    longest = LONGEST_PROJECTION[pair.unit] * measured
    reach = round(max([measured, *(1.15 * even for even in evens if even <= longest)]))
    figure = seconds_saved(curves, baseline=pair.baseline.name, epochs=reach, title=title)
    if reach >= MANY_ITERATIONS:
        figure.update_xaxes(tickformat="~s")  # 1M: whole numbers would run into each other
    band = ", with the 95 % band" if curves[0].outlook else ""
    runs = (*pair.baseline.runs, *pair.candidate.runs)
    return figure, training_caption("Seconds saved so far against the baseline", runs, band)
