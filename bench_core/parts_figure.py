"""Where the time of an epoch goes: a stacked bar an arm, and the baseline's step by its work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from bench_core.chart_frame import GRID, ORANGE, framed, label
from bench_core.comparison import Comparison
from bench_core.time_parts import BETWEEN, Parts
from bench_core.units import seconds_text

# Areas only: two of them are too pale for lines. Each brings the colour of its text.
COLORS = {
    "model steps": ("#4E7CA1", "#FFFFFF"),
    "data wait": ("#C9A227", "#111923"),
    "evaluation": ("#9AA5B1", "#111923"),
    "compiling": (ORANGE, "#111923"),
}
# Shades of the steps: the dark ones compile leaves as they are.
KIND_COLORS = {
    "convolution": ("#2F5878", "#FFFFFF"),
    "matmul": ("#3D6A8D", "#FFFFFF"),
    "optimizer": ("#54768F", "#FFFFFF"),
    "copies": ("#86A9C4", "#111923"),
    "fusable": ("#A9C3D8", "#111923"),
    "other": ("#C6D6E3", "#111923"),
    BETWEEN: ("#DFE7EE", "#111923"),
}
KIND_NAMES = {"matmul": "matrix products", "optimizer": "optimiser"}
# Narrower parts, in per cent of the axis, have no room for their label, or for its name.
LEAST_LABELLED = 7.0
LEAST_NAMED = 22.0


def by_part(split: Parts) -> dict[str, float]:
    """Seconds by the name that the chart gives each part."""
    return {
        "model steps": split.steps,
        "data wait": split.data_wait,
        "evaluation": split.evaluation or 0.0,
        "compiling": split.compiling,
    }


def time_parts(
    arms: Sequence[tuple[str, Parts]],
    shares: Mapping[str, float] | None = None,
    *,
    unit: str = "epoch",
    title: str = "",
    uirevision: str = "kept",
) -> go.Figure:
    """Parts of each arm's mean epoch in per cent of the first arm's, which is the baseline.

    `shares` of the baseline's step by kind of work are drawn below it, as long as its steps.
    """
    rows = [label(name) for name, _ in arms]
    whole = arms[0][1].epoch + (arms[0][1].evaluation or 0.0)
    figure = go.Figure()
    for part, (color, ink) in COLORS.items():
        seconds = [by_part(split)[part] for _, split in arms]
        if any(seconds):
            percent = [100 * one / whole for one in seconds]
            figure.add_bar(
                y=rows,
                x=percent,
                # On the hatch no label can be read.
                text=[
                    f"{one:.0f}\u00a0%" if one >= LEAST_LABELLED and part != "compiling" else ""
                    for one in percent
                ],
                customdata=[seconds_text(one) for one in seconds],
                name=part,
                orientation="h",
                marker={"color": color, "pattern": {"shape": "/" if part == "compiling" else ""}},
                textfont={"color": ink},
                hovertemplate="%{customdata}, %{x:.1f} %",
            )
    if shares:
        steps = 100 * arms[0][1].steps / whole
        inside = f"{rows[0]}, its steps"
        for kind, (color, ink) in KIND_COLORS.items():
            share = shares.get(kind, 0.0)
            if not share:
                continue
            name, wide = KIND_NAMES.get(kind, kind), steps * share
            words = f"{name} {wide:.0f}\u00a0%" if wide >= LEAST_NAMED else f"{wide:.0f}\u00a0%"
            figure.add_bar(
                y=[inside],
                x=[wide],
                text=[words if wide >= LEAST_LABELLED else ""],
                name=name,
                orientation="h",
                marker={"color": color},
                textfont={"color": ink},
                showlegend=False,  # there are too many of them: named in the bar and on hover
                hovertemplate="%{x:.1f} %",
            )
        rows.insert(1, inside)
    framed(figure, title, uirevision, f"% of the {rows[0]} {unit}", "")
    figure.update_traces(textangle=0, constraintext="none", textposition="inside")
    figure.update_traces(insidetextanchor="middle", cliponaxis=False)
    figure.update_layout(barmode="stack", hovermode="y unified", legend_traceorder="normal")
    figure.update_xaxes(rangemode="tozero", showgrid=True, gridcolor=GRID)
    figure.update_yaxes(categoryorder="array", categoryarray=rows[::-1], showgrid=False)
    return figure


# As the end of a sentence: `7 % of it is saved in the steps`.
PLACES = {
    "model steps": "in the model's steps",
    "data wait": "in the wait for data",
    "evaluation": "in testing",
}


def parts_title(pair: Comparison, before: Parts, after: Parts) -> str:
    """The finding: where the baseline's time is, and where the candidate saves or adds most."""
    whole = before.epoch + (before.evaluation or 0.0)
    seconds, now = by_part(before), by_part(after)
    most = max(PLACES, key=lambda part: seconds[part])
    other = max((part for part in PLACES if part != most), key=lambda part: seconds[part])
    where = f"{_percent(seconds[most] / whole)} {PLACES[most]}"
    if seconds[other] >= 0.05 * whole:
        where += f", {_percent(seconds[other] / whole)} {PLACES[other]}"
    saved = {part: (seconds[part] - now[part]) / whole for part in PLACES}
    part = max(saved, key=lambda name: abs(saved[name]))
    change = (
        f"{pair.candidate.name} {'saves' if saved[part] > 0 else 'adds'} "
        f"{_percent(abs(saved[part]))} of it {PLACES[part]}"
    )
    if round(100 * abs(saved[part])) == 0:
        change = f"{pair.candidate.name} changes none of it"
    model = pair.workload.model_name
    return f"{model}, {pair.baseline.name} on {pair.machine}: {where}; {change}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"
