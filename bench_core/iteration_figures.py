"""Figures of single iterations while they come in: percentiles so far, and how they scatter.

Pure, as figures.py. Steady latencies in, by arm, in seconds; whatever is drawn is bounded.
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


def running_percentiles(
    latencies: Mapping[str, Sequence[float]], *, title: str = "", uirevision: str = "kept"
) -> go.Figure:
    """Percentiles 50 (thick) and 90 (thin) over the iterations so far, an arm's runs in a row."""
    figure = go.Figure()
    styles = arm_styles(list(latencies))
    shown = {arm: np.asarray(values, dtype=float) for arm, values in latencies.items()}
    curves = {arm: _percentiles_so_far(values) for arm, values in shown.items() if len(values)}
    highest = max((float(high.max()) for _, _, high in curves.values()), default=1.0)
    size, unit = axis_unit(highest)
    for arm, (counts, middle, high) in curves.items():
        for q, values, width in ((50, middle, 2.2), (90, high, 1.0)):
            figure.add_scatter(
                x=counts,
                y=values / size,
                name=label(arm),
                legendgroup=arm,
                showlegend=q == 50,
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


def latency_shares(
    latencies: Mapping[str, Sequence[float]], *, title: str = "", uirevision: str = "kept"
) -> go.Figure:
    """Per cent of an arm's iterations that end within a time: a steep line is an even latency.

    The slowest half of a per cent may lie to the right of the chart; a double click shows it. With
    long tails the times are on a logarithmic axis.
    """
    figure = go.Figure()
    styles = arm_styles(list(latencies))
    shown = {arm: np.asarray(values, float) for arm, values in latencies.items() if len(values)}
    shares = np.concatenate([np.linspace(0, 98, 99), np.linspace(98.1, 100, 20)])
    curves = {arm: np.percentile(values, shares) for arm, values in shown.items()}
    usual = [float(np.median(values)) for values in shown.values()]
    size, unit = axis_unit(max(usual, default=1.0))
    for arm, values in curves.items():
        figure.add_scatter(
            x=values / size,
            y=shares,
            name=label(arm),
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
        low = min(float(values[0]) for values in curves.values()) / size
        high = max(float(np.percentile(values, 99.5)) for values in shown.values()) / size
        room = 0.05 * (high - low)
        figure.update_xaxes(range=[max(0.0, low - room), high + room])
        if high > LONG_TAIL * low > 0:
            log_seconds_x(figure, unit, low, high)
            figure.update_xaxes(uirevision=f"{uirevision} decades")
    return figure
