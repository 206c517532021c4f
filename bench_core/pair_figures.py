"""Figures of whole comparisons, one or several, for the page and for the report. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from bench_core.batch_figures import SpeedupPoint, speedup_by_batch
from bench_core.chart_frame import (
    GRAY,
    GRID,
    Style,
    error_bars,
    framed,
    label,
    log_seconds_x,
    machine_styles,
    on_log_axes,
)
from bench_core.chart_titles import training_caption
from bench_core.comparison import Comparison
from bench_core.saved_figure import Saved, seconds_saved

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


def has_series(pair: Comparison) -> bool:
    """Whether every run of the pair has single epochs or calls, not a stated time alone."""
    return all(one.epochs for arm in (pair.baseline, pair.candidate) for one in arm.runs)


def saved(pair: Comparison, title: str) -> tuple[go.Figure, str]:
    """Seconds saved against the baseline, from a cold and from a warm cache. Needs a series."""
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


# Of machines side by side


@dataclass(frozen=True, slots=True)
class MachinePoint:
    """A number above 0 of a workload on a machine; `low` and `high` end its interval if it has one.

    `row` is the workload, `place` the machine's name, `text` the number as people read it. Hollow
    is a first look, pale what the others are held against. `key` tells rows of one name apart.
    """

    row: str
    place: str
    value: float
    text: str
    low: float | None = None
    high: float | None = None
    hollow: bool = False
    pale: bool = False
    key: int = 0


def dots_by_machine(
    points: Sequence[MachinePoint],
    styles: Mapping[str, Style],
    *,
    suffix: str,
    line_at: float | None = None,
    title: str = "",
) -> go.Figure:
    """A row a workload, a dot a machine beside each other, on a logarithmic axis.

    `styles` by the points' `place`, in the order of the dots in a row. `suffix`: ` s` makes an axis
    of times. `line_at` is where nothing changes.
    """
    rows = {row: at for at, row in enumerate(dict.fromkeys((p.row, p.key) for p in points))}
    figure = go.Figure()
    for at in range(1, len(rows)):
        figure.add_hline(at - 0.5, line={"color": GRID, "width": 1})
    if line_at is not None:
        figure.add_vline(line_at, line={"color": GRAY, "width": 1.5})
    for place, (name, style) in enumerate(styles.items()):
        aside = 0.6 * (place - (len(styles) - 1) / 2) / max(len(styles), 2)
        full = any(point.place == name and not point.pale for point in points)
        for pale in (True, False):
            mine = [point for point in points if point.place == name and point.pale == pale]
            if not mine:
                continue
            figure.add_scatter(
                x=np.array([point.value for point in mine]),
                y=np.array([rows[point.row, point.key] + aside for point in mine]),
                error_x=error_bars([(p.value, p.low, p.high) for p in mine], style.color, 3),
                name=label(name),
                legendgroup=name,
                showlegend=not pale or not full,
                mode="markers",
                opacity=0.5 if pale else 1.0,
                marker={
                    "color": style.color,
                    "size": 7 if pale else 10,
                    "symbol": [f"{style.symbol}-open" if p.hollow else style.symbol for p in mine],
                    "line": {"width": [2 if point.hollow else 0 for point in mine]},
                },
                customdata=[label(point.row, point.text) for point in mine],
                hovertemplate=f"%{{customdata}}<extra>{label(name)}</extra>",
            )
    framed(figure, title, "kept", "", suffix)
    figure.update_layout(hovermode="closest")
    ends = [end for p in points for end in (p.value, p.low, p.high) if end is not None]
    ends += [line_at] if line_at is not None else []
    low, high = min(ends), max(ends)
    if suffix == " s":
        log_seconds_x(figure, "s", low, high * 1.01)
    elif high / low > 4:
        on_log_axes(figure, y=False)
    else:
        room = max((high / low) ** 0.06, 1.01)
        figure.update_xaxes(
            type="log",
            range=[float(np.log10(low / room)), float(np.log10(high * room))],
            nticks=6,
        )
    figure.update_xaxes(title=None, showgrid=True, gridcolor=GRID, ticksuffix=suffix)
    figure.update_yaxes(
        tickvals=list(range(len(rows))),
        ticktext=[label(row) for row, _ in rows],
        range=[len(rows) - 0.4, -0.6],
        showgrid=False,
        ticksuffix="",
        ticklabelstandoff=4,
    )
    return figure
