"""Plotly figures from measured numbers. Pure: no store, no page, no clock.

What is drawn is bounded, and each figure carries its title, which states what is found, in
`layout.meta`: plotly's own titles do not wrap. Seconds in, whatever unit fits out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from bench_core import stats
from bench_core.chart_frame import (
    GRAY,
    MOST_POINTS,
    Style,
    add_mark,
    arm_styles,
    axis_unit,
    framed,
    label,
    line_look,
    log_y,
    stretch_medians,
    thinned,
)
from bench_core.comparison import Comparison
from bench_core.measured import Arm, Measured
from bench_core.spec import Cache
from bench_core.stats import BreakEven
from bench_core.units import count_text, interval_text, seconds_text

# Between a band's points it is as good as straight.
MOST_BAND_POINTS = 60
BAND = "rgba(224,89,11,.14)"
# A first call so much longer than the others is drawn on a logarithmic axis.
FAR_ABOVE = 20.0

# By epoch, or in inference by iteration


@dataclass(frozen=True, slots=True)
class Line:
    """One run by epoch: wall seconds of epochs 1, 2, ... and the compiler's part of each.

    In inference by iteration; the first one holds what was spent on tracing or exporting before
    it, as part of its compile seconds: it is the wait for the first answer.
    """

    arm: str
    seconds: Sequence[float]
    compile_seconds: Sequence[float] = ()
    name: str = ""  # tells runs of one arm apart: `repeat 2, warm cache`
    unit: str = "epoch"

    @classmethod
    def of(cls, measured: Measured, arm: str = "") -> Line:
        """`arm`: its name where that is more than the variant's."""
        spec = measured.run.spec
        words = [f"repeat {spec.measurement.repeat}"]
        if spec.variant.cache and measured.run.states("cache"):
            words.append(f"{spec.variant.cache} cache")
        eager = spec.variant.execution == "eager"  # it makes nothing, in no time
        before = 0.0 if eager else measured.execution_seconds
        return cls(
            arm=arm or spec.variant.name,
            seconds=_with_first(measured.series_seconds, before),
            compile_seconds=_with_first(measured.series_compile_seconds, before),
            name=", ".join(words),
            unit=measured.unit,
        )


def _with_first(series: Sequence[float], more: float) -> Sequence[float]:
    return [series[0] + more, *series[1:]] if series and more else series


def mean_series(arm: Arm, cache: Cache | None = None) -> list[float]:
    """The arm's mean epochs from `cache`; of iterations the first is the wait for an answer."""
    series, first = arm.mean_series(cache), arm.first_seconds(cache)
    if series and first is not None and arm.runs[0].unit == "iteration":
        series[0] = first
    return series


def _unit_of(drawn: Sequence[Line | Saved]) -> str:
    return drawn[0].unit if drawn else "epoch"


def epoch_seconds(
    lines: Sequence[Line], *, epochs: int | None = None, title: str = "", uirevision: str = "kept"
) -> go.Figure:
    """Seconds per epoch, a line a run; what of it was compiling is hatched, on top of the rest.

    Several runs of an arm share its colour and are thinner. `epochs`: how far the axis reaches.
    In inference latencies by iteration, on a logarithmic axis where a first one is far above the
    others; of many the medians of stretches, with all of the spikes pale behind them.
    """
    figure = go.Figure()
    styles = arm_styles([line.arm for line in lines])
    of_iterations = _unit_of(lines) == "iteration"
    longest = max((max(line.seconds) for line in lines if len(line.seconds)), default=1.0)
    size, unit = axis_unit(longest if of_iterations else max(longest, 1.0))
    last = max([epochs or 1, *(len(line.seconds) for line in lines)])
    runs_of = {arm: sum(line.arm == arm for line in lines) for arm in styles}
    # Beside each other hundreds of lines cost as much as one long one.
    most = max(60, min(MOST_POINTS, 2400 // max(1, len(lines))))
    hatched = "of which compiling or tracing" if of_iterations else "of which compiling"
    named: set[str] = set()
    for line in lines:
        seconds = np.asarray(line.seconds, dtype=float) / size
        compiling = np.zeros(len(seconds))
        compiling[: len(line.compile_seconds)] = np.asarray(line.compile_seconds) / size
        # What is left of it stands above 0 for a logarithmic axis, whatever two clocks say.
        compiling = np.minimum(compiling, 0.999 * seconds)
        busy = np.flatnonzero(compiling > 0)
        if not len(seconds):
            continue
        style = styles[line.arm]
        at = thinned(seconds, most, keep=busy)
        for shown in busy if len(busy) <= most else at[compiling[at] > 0]:
            figure.add_bar(
                x=np.array([shown + 1]),
                y=np.array([compiling[shown]]),
                base=np.array([seconds[shown] - compiling[shown]]),
                width=max(0.7, last / 60),
                name=hatched,
                legendgroup="compiling",
                legendrank=2000,
                showlegend="compiling" not in named,
                marker={
                    "color": style.color,
                    "pattern": {"shape": "/", "fillmode": "replace", "size": 6, "solidity": 0.35},
                    "line": {"color": style.color, "width": 1},
                },
                hovertemplate=f"%{{y:.4~g}} {unit}",
            )
            named.add("compiling")
        width = 2 if runs_of[line.arm] == 1 else 1.2
        drawn = at, seconds[at]
        if of_iterations and len(seconds) > most:
            # Each spike has its place behind; alone they would hide the times between them.
            figure.add_scatter(
                x=at + 1,
                y=seconds[at],
                legendgroup=line.arm,
                showlegend=False,
                opacity=0.35,
                hoverinfo="skip",
                **line_look(style, 1, len(at), mode="lines"),
            )
            drawn = stretch_medians(seconds, most // 2)
        figure.add_scatter(
            x=drawn[0] + 1,
            y=drawn[1],
            name=label(line.arm),
            legendgroup=line.arm,
            showlegend=line.arm not in named,
            hovertemplate=f"%{{y:.4~g}} {unit}<extra>{label(line.arm, line.name)}</extra>",
            **line_look(style, width, len(drawn[0])),
        )
        named.add(line.arm)
    framed(figure, title, uirevision, _unit_of(lines), f" {unit}")
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(range=[0.5 - last * 0.012, last + 0.5 + last * 0.012], **_epoch_ticks(last))
    figure.update_yaxes(rangemode="tozero")
    if of_iterations and any(_starts_far_above(line) for line in lines):
        log_y(figure)
        # A revision of its own: a zoom in seconds would be read as one in decades.
        figure.update_yaxes(uirevision=f"{uirevision} decades")
    return figure


def _starts_far_above(line: Line) -> bool:
    return len(line.seconds) > 1 and line.seconds[0] > FAR_ABOVE * float(np.median(line.seconds))


def _epoch_ticks(last: int) -> dict[str, Any]:
    """Whole epochs or iterations only."""
    if last <= 6:
        return {"tickmode": "linear", "tick0": 0, "dtick": 1}
    return {"nticks": 8, "tickformat": ",d"}


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


def place_text(unit: str, number: int, projected: bool) -> str:
    """`epoch 14`, `about iteration 3 900`: what lies far ahead is not known to the last digit."""
    if not projected:
        return f"{unit} {count_text(number)}"
    return f"about {unit} {count_text(float(f'{number:.1e}') if number >= 100 else number)}"


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
        height = curve.at(even.epoch)
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
        if height is not None:
            words = "ahead until" if even.kind == "ahead until" else "even at"
            place = place_text(curve.unit, even.epoch, even.epoch > len(curve.seconds))
            add_mark(
                figure,
                even.epoch,
                height / size,
                f"{words} {place}",
                styles[curve.arm].color,
                right=even.epoch < last * 0.7,
            )
    framed(figure, title, uirevision, _unit_of(curves), f" {unit}")
    figure.update_xaxes(range=[-last * 0.015, last * 1.02], **_epoch_ticks(last))
    return figure


def cumulative_seconds(
    lines: Sequence[Line],
    *,
    even: BreakEven | None = None,
    even_ends: stats.Band | None = None,
    epochs: int | None = None,
    title: str = "",
    uirevision: str = "kept",
) -> go.Figure:
    """Seconds since the first epoch began, a line a run, the baseline first.

    A ring marks where the last line first crosses the baseline's, as measured. The verdict is
    `even`, an upright line, and its interval `even_ends` a band. Where arms differ little the lines
    lie on each other: `seconds_saved` shows the difference.
    """
    figure = go.Figure()
    styles = arm_styles([line.arm for line in lines])
    totals = [np.concatenate([[0.0], np.cumsum(line.seconds)]) for line in lines]
    size, unit = axis_unit(max((total[-1] for total in totals), default=0.0) or 1.0)
    last = max([epochs or 1, *(len(line.seconds) for line in lines)])
    for line, total in zip(lines, totals, strict=True):
        at = thinned(total)
        figure.add_scatter(
            x=at,
            y=total[at] / size,
            name=label(line.arm),
            hovertemplate=f"%{{y:.5~g}} {unit}<extra>{label(line.arm, line.name)}</extra>",
            **line_look(styles[line.arm], 2, len(at), mode="lines"),
        )
    if even and even.epoch and even.epoch <= last:
        figure.add_vline(even.epoch, line={"color": GRAY, "width": 1, "dash": "dot"})
    if even_ends and even_ends.low < last:
        # A logarithmic axis has no 0.
        ends = max(even_ends.low, 0.5), min(even_ends.high, last)
        figure.add_vrect(*ends, fillcolor=BAND, line_width=0, layer="below")
    crossing = _first_crossing(lines)
    if crossing > 1:
        height = float(totals[-1][crossing]) / size
        color = styles[lines[-1].arm].color
        right = crossing < last * 2 / 3
        place = place_text(_unit_of(lines), crossing, projected=False)
        add_mark(figure, crossing, height, f"first ahead at {place}", color, right)
    framed(figure, title, uirevision, _unit_of(lines), f" {unit}")
    figure.update_xaxes(range=[-last * 0.015, last * 1.02], **_epoch_ticks(last))
    figure.update_yaxes(rangemode="tozero")
    return figure


def _first_crossing(lines: Sequence[Line]) -> int:
    """The epoch by whose end the last line is ahead of the first for the first time; 0: none."""
    if len(lines) < 2 or not len(lines[0].seconds) or not len(lines[-1].seconds):
        return 0
    saved = stats.seconds_saved(lines[0].seconds, lines[-1].seconds)
    return next(iter(stats.crossings(saved)), 0)


def step_times(
    steps: Mapping[str, Sequence[float]], *, title: str = "", uirevision: str = "kept"
) -> go.Figure:
    """Seconds of single steps by arm, lines only, thinned without losing the extremes.

    A step more than 2.5 times the usual one (it compiled, or warmed up) lies above the chart, or
    it would flatten all others; a double click shows it.
    """
    figure = go.Figure()
    styles = arm_styles(list(steps))
    shown = {
        arm: np.asarray(seconds, dtype=float) for arm, seconds in steps.items() if len(seconds)
    }
    usual = [float(np.median(seconds)) for seconds in shown.values()]
    # `1 050 ms` keeps the digits that differ where `1.05 s` loses them.
    size, unit = axis_unit(max(usual, default=1.0) / 10)
    reach = [seconds[seconds <= 2.5 * max(usual)] for seconds in shown.values()]
    for arm, seconds in shown.items():
        at = thinned(seconds)
        figure.add_scatter(
            x=at + 1,
            y=seconds[at] / size,
            name=label(arm),
            hovertemplate=f"%{{y:.4~g}} {unit}<extra>{label(arm)}</extra>",
            # At one pixel a dash is a row of specks.
            **line_look(styles[arm]._replace(dash="solid"), 1, len(at), mode="lines"),
        )
    framed(figure, title, uirevision, "step", f" {unit}")
    if sum(map(len, reach)) < sum(map(len, shown.values())):
        low = min(float(part.min()) for part in reach) / size
        high = max(float(part.max()) for part in reach) / size
        figure.update_yaxes(range=[max(0, low - 0.05 * high), high * 1.08], uirevision="clipped")
    else:
        # A revision of its own: plotly would keep `autorange: false` and draw nothing.
        figure.update_yaxes(autorange=True, uirevision="whole")
    return figure


# By batch size


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
            error_y={
                "type": "data",
                "symmetric": False,
                "array": np.array([p.high - p.ratio if p.high else np.nan for p in mine]),
                "arrayminus": np.array([p.ratio - p.low if p.low else np.nan for p in mine]),
                "color": style.color,
                "thickness": 1.4,
                "width": 4,
            },
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


def spark(seconds: Sequence[float], steady_seconds: float, most: int = 40) -> list[float]:
    """A run for a table's cell: its series over the steady value, to be drawn from 0 to 2.5."""
    ratios = np.asarray(seconds, dtype=float) / steady_seconds
    return [float(ratio) for ratio in ratios[thinned(ratios, most)]]
