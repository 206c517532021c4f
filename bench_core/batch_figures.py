"""Figures by batch size: speedups with their interval, and the seconds that they are of. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from bench_core.chart_frame import GRAY, Style, arm_styles, axis_unit, error_bars, framed, label
from bench_core.units import interval_text, seconds_text


@dataclass(frozen=True, slots=True)
class SpeedupPoint:
    """A speedup at one batch size; `series` is the machine or the arm whose style it takes.

    `low` and `high` are the interval's ends; a first look has none and is drawn hollow.
    """

    series: str
    batch_size: int
    ratio: float
    low: float | None = None
    high: float | None = None


def speedup_by_batch(
    points: Sequence[SpeedupPoint],
    styles: Mapping[str, Style],
    *,
    noise: tuple[float, float] | None = None,
    title: str = "",
    uirevision: str = "kept",
) -> go.Figure:
    """Speedup by batch size on logarithmic axes, with its interval; `noise` is a grey band."""
    figure = go.Figure()
    if noise:
        figure.add_hrect(*noise, fillcolor="rgba(128,138,150,.16)", line_width=0, layer="below")
    figure.add_hline(1.0, line={"color": GRAY, "width": 1.5})
    series = list(dict.fromkeys(point.series for point in points))
    for place, name in enumerate(series):
        mine = sorted((p for p in points if p.series == name), key=lambda p: p.batch_size)
        style = styles[name]
        hollow = [point.low is None or point.high is None for point in mine]
        # Beside each other, so that one error bar does not hide the next.
        aside = 1.02 ** (place - (len(series) - 1) / 2)
        figure.add_scatter(
            x=np.array([point.batch_size for point in mine]) * aside,
            y=np.array([point.ratio for point in mine]),
            error_y=error_bars([(p.ratio, p.low, p.high) for p in mine], style.color, 4),
            name=label(name),
            mode="lines+markers",
            line={"color": style.color, "width": 2, "dash": style.dash},
            marker={
                "color": style.color,
                "size": 9,
                "symbol": [f"{style.symbol}-open" if h else style.symbol for h in hollow],
                "line": {"width": [2 if h else 0 for h in hollow]},
            },
            customdata=[
                "first look" if h else interval_text(p.low, p.high)
                for p, h in zip(mine, hollow, strict=True)
            ],
            hovertemplate=f"%{{y:.4~g}}\u00d7, %{{customdata}}<extra>{label(name)}</extra>",
        )
    sizes = sorted({point.batch_size for point in points})
    framed(figure, title, uirevision, "batch size", "\u00d7")
    figure.update_layout(hovermode="closest")
    figure.update_xaxes(type="log", tickvals=sizes, ticktext=[str(size) for size in sizes])
    if len(sizes) == 1:  # plotly would blow the small shift up to the whole width
        figure.update_xaxes(range=[math.log10(sizes[0] / 2), math.log10(sizes[0] * 2)])
    ends = [end for p in points for end in (p.ratio, p.low, p.high) if end is not None]
    low, high = min([*ends, 0.98]), max([*ends, 1.02])
    room = (high / low) ** 0.08
    figure.update_yaxes(
        type="log",
        range=[float(np.log10(low / room)), float(np.log10(high * room))],
        tickformat=".2f",
    )
    return figure


@dataclass(frozen=True, slots=True)
class SecondsBar:
    """The median steady epoch of one arm at one batch size."""

    arm: str
    batch_size: int
    seconds: float


def absolute_seconds_by_batch(
    bars: Sequence[SecondsBar], *, title: str = "", uirevision: str = "kept"
) -> go.Figure:
    """Seconds of a steady epoch by batch size, a bar an arm: what a ratio alone does not tell."""
    figure = go.Figure()
    styles = arm_styles([bar.arm for bar in bars])
    size, unit = axis_unit(max((bar.seconds for bar in bars), default=1.0))
    sizes = sorted({bar.batch_size for bar in bars})
    for place, (arm, style) in enumerate(styles.items()):
        same_color = sum(other.color == style.color for other in list(styles.values())[:place])
        mine = sorted((bar for bar in bars if bar.arm == arm), key=lambda bar: bar.batch_size)
        figure.add_bar(
            x=[str(bar.batch_size) for bar in mine],
            y=np.array([bar.seconds for bar in mine]) / size,
            name=label(arm),
            marker={"color": _paler(style.color, same_color)},
            text=[seconds_text(bar.seconds) for bar in mine],
            textposition="outside",
            textangle=0,
            constraintext="none",
            cliponaxis=False,
            hovertemplate=f"%{{text}}<extra>{label(arm)}</extra>",
        )
    framed(figure, title, uirevision, "batch size", f" {unit}")
    figure.update_xaxes(type="category", categoryarray=[str(size) for size in sizes])
    return figure


def _paler(color: str, times: int) -> str:
    """Areas have no dash to tell arms of one colour apart."""
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{0.65**times:.2f})"
