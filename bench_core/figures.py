"""Figures of runs by epoch, or in inference by iteration. Pure: no store, no page, no clock.

What is drawn is bounded, and each figure carries its title, which states what is found, in
`layout.meta`: plotly's own titles do not wrap. Seconds in, whatever unit fits out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from bench_core import stats
from bench_core.chart_frame import (
    BAND,
    GRAY,
    MOST_POINTS,
    add_mark,
    arm_styles,
    axis_unit,
    epoch_ticks,
    framed,
    label,
    line_look,
    log_y,
    stretch_medians,
    thinned,
)
from bench_core.measured import Arm, Measured
from bench_core.spec import Cache
from bench_core.stats import BreakEven
from bench_core.units import place_text

# A first call so much longer than the others is drawn on a logarithmic axis.
FAR_ABOVE = 20.0


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


def _unit_of(lines: Sequence[Line]) -> str:
    return lines[0].unit if lines else "epoch"


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
    figure.update_xaxes(range=[0.5 - last * 0.012, last + 0.5 + last * 0.012], **epoch_ticks(last))
    figure.update_yaxes(rangemode="tozero")
    if of_iterations and any(_starts_far_above(line) for line in lines):
        log_y(figure)
        # A revision of its own: a zoom in seconds would be read as one in decades.
        figure.update_yaxes(uirevision=f"{uirevision} decades")
    return figure


def _starts_far_above(line: Line) -> bool:
    return len(line.seconds) > 1 and line.seconds[0] > FAR_ABOVE * float(np.median(line.seconds))


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
    figure.update_xaxes(range=[-last * 0.015, last * 1.02], **epoch_ticks(last))
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


def spark(seconds: Sequence[float], steady_seconds: float, most: int = 40) -> list[float]:
    """A run for a table's cell: its series over the steady value, to be drawn from 0 to 2.5."""
    ratios = np.asarray(seconds, dtype=float) / steady_seconds
    return [float(ratio) for ratio in ratios[thinned(ratios, most)]]
