"""Figures of single iterations while they come in: percentiles so far, and how they scatter.

Pure, as figures.py. Steady latencies of each run in, by arm, in seconds, a line a run: pooled they
would show percentiles that no run has. Whatever is drawn is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from bench_core.chart_frame import arm_styles, axis_unit, framed, label, log_seconds_x

# Of so many first iterations the percentiles are drawn.
PERCENTILE_POINTS = 60
# From the fastest to the slowest iterations that are shown.
LONG_TAIL = 8
SHARE_TICKS = (0, 25, 50, 75, 90, 100)


Latencies = Mapping[str, Sequence[Sequence[float]]]


def _runs_of(latencies: Latencies) -> list[tuple[str, bool, np.ndarray]]:
    """Arm, whether it is the first run of it, and its latencies; without those that have none."""
    return [
        (arm, place == 0, np.asarray(values, dtype=float))
        for arm, runs in latencies.items()
        for place, values in enumerate(filter(len, runs))
    ]


def running_percentiles(
    latencies: Latencies, *, title: str = "", uirevision: str = "kept"
) -> go.Figure:
    """Percentiles 50 (thick) and 90 (thin) over the iterations of each run so far."""
    figure = go.Figure()
    styles = arm_styles(list(latencies))
    curves = [
        (arm, first, *_percentiles_so_far(values)) for arm, first, values in _runs_of(latencies)
    ]
    highest = max((float(high.max()) for *_, high in curves), default=1.0)
    size, unit = axis_unit(highest)
    for arm, first, counts, middle, high in curves:
        for q, values, width in ((50, middle, 2.2), (90, high, 1.0)):
            figure.add_scatter(
                x=counts,
                y=values / size,
                name=label(arm),
                legendgroup=arm,
                showlegend=first and q == 50,
                mode="lines",
                line={"color": styles[arm].color, "width": width},
                hovertemplate=f"%{{y:.4~g}} {unit}<extra>{label(arm)} p{q}</extra>",
            )
    framed(figure, title, uirevision, "iteration", f" {unit}")
    figure.update_xaxes(tickformat=",d")
    return figure


def _percentiles_so_far(latencies: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of iterations, and percentiles 50 and 90 of the first so many.

    The numbers grow by a factor, so the cost stays within a few times that of the last one.
    """
    few = min(5, len(latencies))
    counts = np.unique(np.geomspace(few, len(latencies), PERCENTILE_POINTS).astype(int))
    found = np.array([np.percentile(latencies[:count], (50, 90)) for count in counts])
    return counts, found[:, 0], found[:, 1]


def latency_shares(latencies: Latencies, *, title: str = "", uirevision: str = "kept") -> go.Figure:
    """Per cent of a run's iterations that end within a time: a steep line is an even latency.

    The slowest half of a per cent may lie to the right of the chart; a double click shows it. With
    long tails the times are on a logarithmic axis.
    """
    figure = go.Figure()
    styles = arm_styles(list(latencies))
    shown = _runs_of(latencies)
    shares = np.concatenate([np.linspace(0, 98, 99), np.linspace(98.1, 100, 20)])
    curves = [(arm, first, np.percentile(values, shares)) for arm, first, values in shown]
    usual = [float(np.median(values)) for *_, values in shown]
    size, unit = axis_unit(max(usual, default=1.0))
    for arm, first, values in curves:
        figure.add_scatter(
            x=values / size,
            y=shares,
            name=label(arm),
            legendgroup=arm,
            showlegend=first,
            mode="lines",
            line={"color": styles[arm].color, "width": 2},
            hovertemplate=f"%{{y:.4~g}} % within %{{x:.4~g}} {unit}<extra>{label(arm)}</extra>",
        )
    framed(figure, title, uirevision, "", " %")
    figure.update_layout(hovermode="closest")
    words = [f"{share} %" for share in SHARE_TICKS]
    figure.update_yaxes(range=[-2, 103], tickvals=SHARE_TICKS, ticktext=words)
    figure.update_xaxes(ticksuffix=f" {unit}", nticks=6)
    if curves:
        low = min(float(values[0]) for *_, values in curves) / size
        high = max(float(np.percentile(values, 99.5)) for *_, values in shown) / size
        room = 0.05 * (high - low)
        figure.update_xaxes(range=[max(0.0, low - room), high + room])
        if high > LONG_TAIL * low > 0:
            log_seconds_x(figure, unit, low, high)
            figure.update_xaxes(uirevision=f"{uirevision} decades")
    return figure
