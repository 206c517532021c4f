"""Two small things the comparison page needs beside figures.py: loss curves, logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from bench_core.chart_frame import MOST_POINTS, arm_styles, framed, label, line_look, thinned


def loss_by_epoch(
    losses: Mapping[str, Sequence[Sequence[float]]], *, title: str = "", uirevision: str = "kept"
) -> go.Figure:
    """Training loss per epoch, a line a run, the runs of an arm in its colour."""
    figure = go.Figure()
    styles = arm_styles(list(losses))
    for arm, runs in losses.items():
        for place, values in enumerate(runs):
            at = thinned(values, MOST_POINTS)
            figure.add_scatter(
                x=at + 1,
                y=np.asarray(values, dtype=float)[at],
                name=label(arm),
                legendgroup=arm,
                showlegend=place == 0,
                hovertemplate=f"%{{y:.4~g}}<extra>{label(arm)}</extra>",
                **line_look(styles[arm], 2 if len(runs) == 1 else 1.2, len(at), mode="lines"),
            )
    return framed(figure, title, uirevision, "epoch", "")


def on_log_axes(figure: go.Figure, *, y: bool = True) -> go.Figure:
    """The figure on logarithmic axes; `y=False` for values that may be negative."""
    figure.update_xaxes(_log_axis([trace.x for trace in figure.data], ""))
    if y:
        # A bar may stand on a base: its top and its foot are what is drawn.
        drawn = [_values(trace.y) + _values(getattr(trace, "base", None)) for trace in figure.data]
        drawn += [_values(trace.base) for trace in figure.data if trace.type == "bar"]
        figure.update_yaxes(_log_axis(drawn, figure.layout.yaxis.ticksuffix or ""))
    for note in figure.layout.annotations:  # plotly wants their places as logarithms
        note.x = math.log10(note.x)
        note.y = math.log10(note.y) if y else note.y
    return figure


def _values(values: Any) -> np.ndarray:
    return np.zeros(1) if values is None else np.asarray(values, dtype=float)


def _log_axis(drawn: Sequence[Any], suffix: str) -> dict[str, Any]:
    """Ticks at 1, 2, 5, 10, ...; plotly's own small digits between the decades are misread."""
    values = np.concatenate([np.asarray(part, dtype=float) for part in drawn])
    values = values[values > 0]
    ticks = [digit * 10.0**power for power in range(-9, 10) for digit in (1, 2, 5)]
    inside = [tick for tick in ticks if len(values) and values.min() <= tick <= values.max()]
    axis = {"type": "log", "range": None, "autorange": True, "rangemode": "normal", "dtick": None}
    if len(inside) < 3:  # less than a decade: plotly's ticks are even there
        return {**axis, "tickmode": "auto"}
    words = [f"{tick:g}{suffix}" for tick in inside]
    return {**axis, "tickmode": "array", "tickvals": inside, "ticktext": words}
