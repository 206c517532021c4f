"""Loss curves, which the comparison page draws beside the times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
