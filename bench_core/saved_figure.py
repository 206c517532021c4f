"""The figure of seconds saved: a candidate against its baseline, all compile time counted. Pure.

Seconds in, whatever unit fits out; its title goes into `layout.meta`, as in figures.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from bench_core import stats
from bench_core.chart_frame import (
    BAND,
    add_mark,
    arm_styles,
    axis_unit,
    epoch_ticks,
    framed,
    label,
    line_look,
    thinned,
)
from bench_core.comparison import Comparison
from bench_core.figures import mean_series
from bench_core.spec import Cache
from bench_core.stats import BreakEven
from bench_core.units import place_text

# Between a band's points it is as good as straight.
MOST_BAND_POINTS = 60


@dataclass(frozen=True, slots=True)
class Saved:
    """Seconds by which a candidate is ahead of its baseline at each epoch's or iteration's end.

    `gain_seconds`: what a further steady epoch adds; with it the line goes on, dotted. `even`: the
    break-even that is marked. `low` and `high` are the ends of a band around the line.
    """

    arm: str
    seconds: Sequence[float]
    warm: bool = False
    gain_seconds: float | None = None
    even: BreakEven | None = None
    unit: str = "epoch"
    outlook: stats.Outlook | None = None
    even_ends: stats.Band | None = None

    @classmethod
    def of(cls, pair: Comparison, cache: Cache | None) -> Saved | None:
        """The candidate's runs that started from `cache` (None: all) against the baseline's."""
        after = mean_series(pair.candidate, cache)
        before = mean_series(pair.baseline, pair.baseline_start(cache))
        if not after or not before:
            return None
        # Of runs that found their cache partly warm no start can be told.
        known = cache is not None or pair.candidate.variant.cache is None
        even = break_even_from(pair, cache) if pair.differs else None
        return cls(
            arm=pair.candidate.name,
            seconds=stats.seconds_saved(before, after),
            warm=cache == "warm",
            gain_seconds=pair.baseline.steady_seconds - pair.candidate.steady_seconds,
            even=even,
            unit=pair.unit,
            outlook=pair.outlook(cache) if known else None,
            even_ends=pair.break_even_interval(cache or "cold") if even else None,
        )

    @classmethod
    def from_cold(cls, pair: Comparison) -> Saved | None:
        """From a cold cache, else without any; None where neither was measured."""
        if pair.candidate.variant.cache is None:  # it has no cache to start from
            return cls.of(pair, None)
        return cls.of(pair, "cold") or cls.of(pair, "off")

    @property
    def name(self) -> str:
        return f"{self.arm}, warm cache" if self.warm else self.arm

    def at(self, epoch: int) -> float | None:
        """Seconds ahead at the end of `epoch`, measured or projected."""
        if epoch <= len(self.seconds):
            return self.seconds[epoch - 1] if epoch else 0.0
        if self.gain_seconds is None or not len(self.seconds):
            return None
        return self.seconds[-1] + (epoch - len(self.seconds)) * self.gain_seconds


def break_even_from(pair: Comparison, cache: Cache | None) -> BreakEven | None:
    """None also for runs that found their cache partly warm, of which no start can be told."""
    if cache is None and pair.candidate.variant.cache:
        return None
    return pair.break_even(cache or "cold")


def seconds_saved(
    curves: Sequence[Saved],
    *,
    baseline: str = "eager",
    epochs: int | None = None,
    title: str = "",
    uirevision: str = "kept",
) -> go.Figure:
    """Seconds saved so far against the baseline, all compile time counted: a J when it pays off.

    Bands are 95 %, by `stats.saved_after`. The break-even of the first curve from a cold cache is
    marked where it was measured, or where the projection reaches it up to `epochs`, with its 95 %
    interval as a bar on the line of no difference.
    """
    figure = go.Figure()
    styles = arm_styles([baseline, *(curve.arm for curve in curves)])
    measured = max((len(curve.seconds) for curve in curves), default=0)
    last = max(epochs or 1, measured)
    ends = [abs(end) for curve in curves for end in (*curve.seconds, curve.at(last) or 0.0)]
    size, unit = axis_unit(max(ends, default=0.0) or 1.0)
    zero = styles[baseline]
    figure.add_scatter(
        x=np.array([0, last]),
        y=np.array([0.0, 0.0]),
        name=label(baseline),
        mode="lines",
        line={"color": zero.color, "width": 2},
        hoverinfo="skip",
    )
    projecting = False
    for curve in curves:
        style = styles[curve.arm]
        if curve.warm:
            style = style._replace(dash="dash")
        saved = np.concatenate([[0.0], np.asarray(curve.seconds, dtype=float)]) / size
        at = thinned(saved)
        if curve.outlook:
            around = np.unique(np.linspace(1, last, MOST_BAND_POINTS).round())
            bands = [stats.saved_after(curve.outlook, float(epoch)) for epoch in around]
            edges = [np.array([one.high for one in bands]), np.array([one.low for one in bands])]
            figure.add_scatter(
                x=np.concatenate([around, around[::-1]]),
                y=np.concatenate([edges[0], edges[1][::-1]]) / size,
                mode="lines",
                fill="toself",
                fillcolor=BAND,
                line={"width": 0},
                legendgroup=curve.name,
                showlegend=False,
                hoverinfo="skip",
            )
        figure.add_scatter(
            x=at,
            y=saved[at],
            name=label(curve.name),
            legendgroup=curve.name,
            hovertemplate=f"%{{y:.4~g}} {unit}<extra>{label(curve.name)}</extra>",
            **line_look(style, 2.4, len(at), mode="lines"),
        )
        end = curve.at(last)
        if end is not None and len(curve.seconds) < last:
            figure.add_scatter(
                x=np.array([len(curve.seconds), last]),
                y=np.array([saved[-1], end / size]),
                name="projected",
                legendgroup="projected",
                legendrank=2000,
                showlegend=not projecting,
                mode="lines",
                line={"color": style.color, "width": 1.6, "dash": "dot"},
                hoverinfo="skip",
            )
            projecting = True
    # One mark: a second one lies on the first curve more often than not.
    for curve in sorted(curves, key=lambda curve: curve.warm)[:1]:
        even = curve.even
        if even is None or even.epoch is None or even.epoch > last:
            continue
        if curve.even_ends and curve.even_ends.low < last:
            figure.add_scatter(
                x=np.array([curve.even_ends.low, min(curve.even_ends.high, last)]),
                y=np.zeros(2),
                mode="lines",
                line={"color": styles[curve.arm].color, "width": 7},
                opacity=0.45,
                showlegend=False,
                hoverinfo="skip",
            )
        words = "ahead until" if even.kind == "ahead until" else "even at"
        place = place_text(curve.unit, even.epoch, even.epoch > len(curve.seconds))
        # On the line of no difference, like its interval: it comes of medians, the curve of sums.
        add_mark(
            figure,
            even.epoch,
            0.0,
            f"{words} {place}",
            styles[curve.arm].color,
            right=even.epoch < last * 0.7,
        )
    framed(figure, title, uirevision, curves[0].unit if curves else "epoch", f" {unit}")
    figure.update_xaxes(range=[-last * 0.015, last * 1.02], **epoch_ticks(last))
    return figure
