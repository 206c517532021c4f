"""Figures of inference: latencies, throughput, the first call, precisions. Pure, as figures.py.

Seconds in, whatever unit fits out. Titles go into `layout.meta`, as everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go

from bench_core.chart_frame import GRAY, Style, arm_styles, axis_unit, framed, label, line_look
from bench_core.measured import Arm
from bench_core.spec import Workload
from bench_core.units import NO_BREAK, count_text, seconds_text

# Of the way from one size to the next, how much the arms of one size may take up.
SPREAD = 0.5
FEWEST_PIXELS_APART = 0.06  # of the axis, between two ticks
ROOM_FOR_NOTES = 1.5


@dataclass(frozen=True, slots=True)
class Latencies:
    """An arm's steady latencies at one batch size (of a function: size of its input). Seconds.

    Each is the geometric mean over the runs of that percentile of a run: the process is the unit,
    and `p50` is what a speedup compares. A tail is None where a run has too few iterations for it.
    `first_seconds`: the wait for the first answer, from a cold cache if that was measured. `note`
    is a word or two that stand beside its bar.
    """

    arm: str
    batch_size: int
    p50: float
    p90: float | None
    p99: float | None
    first_seconds: float | None = None
    precision: str = "fp32"
    note: str = ""

    @property
    def longest(self) -> float:
        return max(self.p50, self.p90 or 0.0, self.p99 or 0.0)

    @classmethod
    def of(cls, arm: Arm, workload: Workload, note: str = "") -> Latencies:
        known = arm.known_percentiles()
        return cls(
            arm=arm.name,
            batch_size=workload.batch_size,
            p50=arm.steady_seconds,
            p90=known[90],
            p99=known[99],
            first_seconds=arm.first_seconds(arm.start_shown),
            precision=workload.precision,
            note=note,
        )


# By batch size


def latency_by_batch(
    points: Sequence[Latencies],
    *,
    size_word: str = "batch size",
    tails: bool = True,
    title: str = "",
    uirevision: str = "kept",
) -> go.Figure:
    """Median latency by size on logarithmic axes, a line an arm.

    With `tails` the arms of one size stand beside each other: a bar from the median to the
    90th percentile, a dash at the 99th.
    """
    figure = go.Figure()
    arms = _by_arm(points)
    styles = arm_styles(list(arms))
    sizes = sorted({point.batch_size for point in points})
    for place, (arm, mine) in enumerate(arms.items()):
        style = styles[arm]
        aside = _aside(sizes, place, len(arms)) if tails else 1.0
        at = np.array([point.batch_size for point in mine]) * aside
        medians = np.array([point.p50 for point in mine])
        # Lines between arms that stand beside each other would cross without a meaning.
        mode = "markers" if tails else "lines+markers"
        look = line_look(style, 2, len(at), mode=mode)
        figure.add_scatter(
            x=at,
            y=medians,
            error_y={
                "type": "data",
                "symmetric": False,
                "array": _numbers(point.p90 for point in mine) - medians,
                "arrayminus": np.zeros(len(mine)),
                "color": style.color,
                "thickness": 2.5,
                "width": 0,
                "visible": tails,
            },
            name=label(arm),
            legendgroup=arm,
            customdata=[_percentiles_text(point) for point in mine],
            hovertemplate=f"%{{customdata}}<extra>{label(arm)}</extra>",
            **{**look, "marker": {**look["marker"], "size": 6}},
        )
        if tails:
            figure.add_scatter(
                x=at,
                y=_numbers(point.p99 for point in mine),
                mode="markers",
                marker={
                    "symbol": "line-ew-open",
                    "size": 8,
                    "color": style.color,
                    "line": {"width": 1.6, "color": style.color},
                },
                name=label(arm, "p99"),
                legendgroup=arm,
                showlegend=False,
                hoverinfo="skip",
            )
    framed(figure, title, uirevision, size_word, "")
    figure.update_layout(hovermode="closest")
    figure.update_xaxes(_sizes_axis(sizes))
    ends = [end for point in points for end in (point.p50, point.longest if tails else point.p50)]
    figure.update_yaxes(_seconds_axis(ends))
    return figure


def throughput_by_batch(
    points: Sequence[Latencies], *, title: str = "", uirevision: str = "kept"
) -> go.Figure:
    """Images per second by batch size at the median latency, a line an arm."""
    figure = go.Figure()
    arms = _by_arm(points)
    styles = arm_styles(list(arms))
    for arm, mine in arms.items():
        figure.add_scatter(
            x=np.array([point.batch_size for point in mine]),
            y=np.array([point.batch_size / point.p50 for point in mine]),
            name=label(arm),
            hovertemplate=f"%{{y:.3~g}} a second<extra>{label(arm)}</extra>",
            **line_look(styles[arm], 2, len(mine)),
        )
    framed(figure, title, uirevision, "batch size", "/s")
    figure.update_xaxes(_sizes_axis(sorted({point.batch_size for point in points})))
    figure.update_yaxes(rangemode="tozero")
    return figure


def _by_arm(points: Sequence[Latencies]) -> dict[str, list[Latencies]]:
    """Each arm's points by size, the arms in the order in which they are given."""
    arms: dict[str, list[Latencies]] = {point.arm: [] for point in points}
    for point in sorted(points, key=lambda point: point.batch_size):
        arms[point.arm].append(point)
    return arms


def _aside(sizes: Sequence[int], place: int, arms: int) -> float:
    nearest = min((big / small for small, big in pairwise(sizes)), default=4.0)
    return float(nearest ** (SPREAD * (place - (arms - 1) / 2) / arms))


# One size


def latency_bars(
    points: Sequence[Latencies], *, title: str = "", uirevision: str = "kept"
) -> go.Figure:
    """A bar an arm up to its median latency, a tick at the 90th percentile, a dot at the 99th.

    The median and the note stand right of them.
    """
    figure = go.Figure()
    size, unit = axis_unit(max((point.p50 for point in points), default=1.0))
    rows = [label(point.arm) for point in points]
    _add_bars(figure, points, rows, size)
    for name, symbol, pixels, ends in (
        ("p90", "line-ns-open", 13, [point.p90 for point in points]),
        ("p99", "circle", 5, [point.p99 for point in points]),
    ):
        figure.add_scatter(
            x=_numbers(ends) / size,
            y=rows,
            mode="markers",
            name=name,
            marker={
                "symbol": symbol,
                "size": pixels,
                "color": GRAY,
                "line": {"width": 2, "color": GRAY},
            },
            hoverinfo="skip",
        )
    framed(figure, title, uirevision, "", f" {unit}")
    _lying(figure, points, rows, [point.longest / size for point in points], unit)
    return figure


def latency_by_precision(
    points: Sequence[Latencies], *, title: str = "", uirevision: str = "kept"
) -> go.Figure:
    """A bar an arm and precision up to its median latency, fp32 on top.

    The median stands right of it with its note, which is for its own precision.
    """
    figure = go.Figure()
    size, unit = axis_unit(max((point.p50 for point in points), default=1.0))
    ordered = sorted(points, key=lambda point: (point.precision != "fp32", point.precision))
    rows = [label(f"{point.precision} · {point.arm}") for point in ordered]
    _add_bars(figure, ordered, rows, size)
    framed(figure, title, uirevision, "", f" {unit}")
    _lying(figure, ordered, rows, [point.p50 / size for point in ordered], unit)
    figure.update_layout(showlegend=False)
    return figure


def _add_bars(
    figure: go.Figure, points: Sequence[Latencies], rows: Sequence[str], size: float
) -> None:
    styles: dict[str, Style] = arm_styles([point.arm for point in points])
    figure.add_bar(
        x=np.array([point.p50 for point in points]) / size,
        y=list(rows),
        orientation="h",
        name="median",
        # The colours are the arms', which the rows name: the legend's is none of them.
        marker={"color": [styles[point.arm].color for point in points]},
        showlegend=False,
        customdata=[_percentiles_text(point) for point in points],
        hovertemplate="%{customdata}<extra>%{y}</extra>",
    )


def _lying(
    figure: go.Figure,
    points: Sequence[Latencies],
    rows: Sequence[str],
    ends: Sequence[float],
    unit: str,
) -> None:
    """Names on the left, the first on top; medians and notes right of where each row ends."""
    figure.add_scatter(
        x=np.array(ends),
        y=list(rows),
        mode="text",
        text=[
            "  " + " · ".join(filter(None, (seconds_text(point.p50), label(point.note))))
            for point in points
        ],
        textposition="middle right",
        textfont={"size": 12},
        cliponaxis=False,
        showlegend=False,
        hoverinfo="skip",
    )
    figure.update_layout(hovermode="closest")
    reach = max(ends, default=1.0) * ROOM_FOR_NOTES
    figure.update_xaxes(ticksuffix=f" {unit}", range=[0, reach], nticks=6)
    figure.update_yaxes(ticksuffix="", **_rows_axis(rows))


def first_against_steady(
    points: Sequence[Latencies], *, title: str = "", uirevision: str = "kept"
) -> go.Figure:
    """The wait for the first answer (hollow) beside a steady call (filled), a row an arm.

    On a logarithmic axis: they lie up to four powers of ten apart.
    """
    figure = go.Figure()
    styles = arm_styles([point.arm for point in points])
    shown = [point for point in points if point.first_seconds]
    for point in shown:
        color = styles[point.arm].color
        figure.add_scatter(
            x=np.array([point.p50, point.first_seconds]),
            y=[label(point.arm)] * 2,
            mode="lines+markers",
            line={"color": color, "width": 2},
            marker=_ring(color, ["circle", "circle-open"]),
            showlegend=False,
            customdata=[
                f"steady: {seconds_text(point.p50)}",
                f"first: {seconds_text(point.first_seconds)}",
            ],
            hovertemplate=f"%{{customdata}}<extra>{label(point.arm)}</extra>",
        )
    for name, symbol in (("a steady call", "circle"), ("the first answer", "circle-open")):
        figure.add_scatter(
            x=[None], y=[None], mode="markers", name=name, marker=_ring(GRAY, symbol)
        )
    framed(figure, title, uirevision, "", "")
    figure.update_layout(hovermode="closest")
    ends = [end for point in shown for end in (point.p50, point.first_seconds or point.p50)]
    figure.update_xaxes(_seconds_axis(ends))
    figure.update_yaxes(_rows_axis([label(point.arm) for point in shown]))
    return figure


def _ring(color: str, symbol: Any) -> dict[str, Any]:
    return {"color": color, "size": 9, "symbol": symbol, "line": {"width": 2, "color": color}}


# Axes


def _rows_axis(rows: Sequence[str]) -> dict[str, Any]:
    """Every row with its name, the first on top."""
    names = list(dict.fromkeys(rows))[::-1]
    return {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": names,
        "tickmode": "array",
        "tickvals": names,
        "ticktext": names,
        "range": [-0.6, len(names) - 0.4],
        "showgrid": False,
        "ticklabelstandoff": 4,
    }


def _sizes_axis(sizes: Sequence[int]) -> dict[str, Any]:
    """Logarithmic, a tick at each size; a tick that would lie on the one before is left out."""
    apart = max((sizes[-1] / sizes[0]) ** FEWEST_PIXELS_APART, 1.05)
    shown = [sizes[0]]
    for size in sizes[1:]:
        if size / shown[-1] >= apart:
            shown.append(size)
    nearest = min((big / small for small, big in pairwise(sizes)), default=4.0)
    room = math.log10(nearest) / 2
    return {
        "type": "log",
        "tickvals": shown,
        "ticktext": [count_text(size) for size in shown],
        "range": [math.log10(sizes[0]) - room, math.log10(sizes[-1]) + room],
    }


def _seconds_axis(values: Iterable[float]) -> dict[str, Any]:
    """Logarithmic, each tick in the unit that fits it: `10 µs`, `1 ms`."""
    ends = np.array(list(values) or [1.0])
    room = max(float(ends.max() / ends.min()) ** 0.06, 1.1)
    low, high = float(ends.min()) / room, float(ends.max()) * room
    digits = (1, 2, 5) if high / low < 300 else (1,)
    ticks = [digit * 10.0**power for power in range(-9, 7) for digit in digits]
    shown = [tick for tick in ticks if low <= tick <= high]
    return {
        "type": "log",
        "tickvals": shown,
        "ticktext": [_tick_text(tick) for tick in shown],
        "range": [math.log10(low), math.log10(high)],
    }


def _tick_text(seconds: float) -> str:
    units = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
    # A power of ten may be a hair less than one.
    size, unit = next((size, unit) for size, unit in units if seconds >= 0.999 * size)
    value = seconds / size
    return f"{count_text(value) if value >= 1000 else f'{value:g}'}{NO_BREAK}{unit}"


def _percentiles_text(point: Latencies) -> str:
    ends = {"median": point.p50, "p90": point.p90, "p99": point.p99}
    return ", ".join(f"{name} {seconds_text(end)}" for name, end in ends.items() if end)


def _numbers(values: Iterable[float | None]) -> np.ndarray:
    """What is not known is drawn as nothing."""
    return np.array([np.nan if value is None else value for value in values])
