"""What all charts share: the colours with their meanings, the frame, and how much is drawn.

Each colour has one meaning in the whole product: a chart is by arm or by machine, never by both.
Every mark brings its own colour and is drawn on nothing, so one figure serves light, dark and an
exported page.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

# Beyond these a chart is slow to draw; markers cost most.
MOST_POINTS = 300
MOST_MARKERS = 60
MOST_LOG_TICKS = 8

# For st.plotly_chart(config=CONFIG); the live chart has the same in its own code.
CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "displayModeBar": "hover",
    "modeBarButtonsToRemove": [
        "select2d",
        "lasso2d",
        "autoScale2d",
        "zoom2d",
        "pan2d",
        "zoomIn2d",
        "zoomOut2d",
    ],
    "showSendToCloud": False,
    "plotlyServerURL": "",
}


class Style(NamedTuple):
    """How a line looks. The symbol tells lines apart where the colour cannot."""

    color: str
    dash: str
    symbol: str


GRAY = "#7A8594"
ORANGE = "#E0590B"
GRID = "rgba(128,138,150,.18)"
BAND = "rgba(224,89,11,.14)"  # ORANGE, of an interval around a line
# A plain dash means a warm cache, dots a projection: arms are told apart by other patterns, and
# executions, whose times are too noisy for patterns, by colours of their own.
ARM_STYLES = {
    "eager": Style(GRAY, "solid", "circle"),
    "compile": Style(ORANGE, "solid", "circle"),
    "compile reduce-overhead": Style(ORANGE, "dashdot", "diamond"),
    "compile max-autotune": Style(ORANGE, "longdashdot", "square"),
    "compile max-autotune-no-cudagraphs": Style(ORANGE, "16px,3px,3px,3px,3px,3px", "triangle-up"),
    "compile lite": Style(ORANGE, "10px,3px,2px,3px", "x"),
    "compile_frozen": Style("#A0694B", "solid", "square"),
    "export_aot": Style("#C13BB5", "solid", "diamond"),
    "jit_trace_frozen": Style("#1E9E8A", "solid", "triangle-up"),
    "onednn_graph": Style("#6A5ACD", "solid", "x"),
}
# Compiled arms with other arguments, in the order in which they are drawn, in the colour of their
# execution. The first is solid unless the same without arguments is beside it.
OTHER_ARM_STYLES = (
    Style(ORANGE, "dashdot", "cross"),
    Style(ORANGE, "longdashdot", "star"),
    Style(ORANGE, "10px,3px,2px,3px", "hexagon"),
)
# By order of the machine's first run in the store, never by its place in a filter.
MACHINE_STYLES = (
    Style("#2B7FD0", "solid", "circle"),
    Style("#B0457F", "solid", "diamond"),
    Style("#A8800A", "solid", "square"),
    Style("#0F9577", "solid", "triangle-up"),
    Style("#6A5ACD", "solid", "x"),
)


def arm_styles(arms: Sequence[str]) -> dict[str, Style]:
    """The look of each arm by its name (`Arm.name`), whichever others are drawn beside it.

    A name without an execution (`fp32`, `threads 8`) is of a pair along another axis, whose
    baseline comes first.
    """
    styles: dict[str, Style] = {}
    others: Counter[str] = Counter()  # by colour, where patterns tell them apart
    for place, arm in enumerate(dict.fromkeys(arms)):
        execution = re.split("[ ,]", arm)[0]
        if arm in ARM_STYLES or (not place and execution not in ARM_STYLES):
            styles[arm] = ARM_STYLES.get(arm, ARM_STYLES["eager"])
            continue
        color = ARM_STYLES.get(execution, OTHER_ARM_STYLES[0]).color
        style = OTHER_ARM_STYLES[others[color] % len(OTHER_ARM_STYLES)]
        styles[arm] = style._replace(color=color)
        if not others[color] and execution not in set(arms) - {arm}:
            styles[arm] = styles[arm]._replace(dash="solid")
        others[color] += 1
    return styles


def machine_styles(machines: Sequence[str]) -> dict[str, Style]:
    """The look of each machine. Give `Store.machines()`: all of them, in their fixed order."""
    return {
        machine: MACHINE_STYLES[place % len(MACHINE_STYLES)]
        for place, machine in enumerate(machines)
    }


def thinned(
    values: Sequence[float] | np.ndarray,
    most: int = MOST_POINTS,
    keep: Sequence[int] | np.ndarray = (),
) -> np.ndarray:
    """Indices, in order, of at most `most` points that draw the same line.

    Ends, the extremes of each stretch and the indices in `keep` stay (of more than half of `most`
    to keep, those with the greatest values).
    """
    seconds = np.asarray(values, dtype=float)
    count = len(seconds)
    if count <= most:
        return np.arange(count)
    kept = np.unique(np.asarray(keep, dtype=int))
    if len(kept) > most // 2:
        kept = kept[np.argsort(seconds[kept])[-(most // 2) :]]
    stretches = np.array_split(np.arange(count), max(1, (most - len(kept) - 2) // 2))
    lows = [part[np.argmin(seconds[part])] for part in stretches]
    highs = [part[np.argmax(seconds[part])] for part in stretches]
    return np.unique(np.concatenate([[0, count - 1], kept, lows, highs]).astype(int))


def stretch_medians(values: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The middle index and the median of each of at most `most` stretches of equal length."""
    stretches = np.array_split(np.arange(len(values)), min(most, len(values)))
    middles = [part[len(part) // 2] for part in stretches]
    return np.array(middles), np.array([np.median(values[part]) for part in stretches])


# The frame that all figures share


# The longest time that an axis shows in a unit, the seconds of one unit, and its name.
TIME_UNITS = (
    (1e-4, 1e-6, "µs"),
    (1.0, 1e-3, "ms"),
    (1000.0, 1.0, "s"),
    (3 * 3600.0, 60.0, "min"),
    (math.inf, 3600.0, "h"),
)


def axis_unit(longest_seconds: float) -> tuple[float, str]:
    """How many seconds one of the axis' units has, and its name."""
    return next((size, name) for longest, size, name in TIME_UNITS if longest_seconds < longest)


def framed(figure: go.Figure, title: str, uirevision: str, x: str, suffix: str) -> go.Figure:
    """The figure in the frame of all. `x`: the axis' title; `suffix`: y's unit, such as ` s`."""
    figure.update_layout(
        # Streamlit's own template has placeholder colours that only its frontend resolves.
        template=go.layout.Template(),
        meta={"title": title},
        uirevision=uirevision,
        margin={"l": 4, "r": 10, "t": 22, "b": 4},
        hovermode="x unified",
        barcornerradius=2,
        bargap=0.25,
        separators=".\u202f",
        showlegend=True,
        # Below and in the container's measure it makes room for itself and wraps on a phone.
        legend={
            "orientation": "h",
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
            "itemsizing": "trace",
            "font": {"size": 12},
        },
        xaxis={
            "title": {"text": x, "font": {"size": 12}},
            "showgrid": False,
            "zeroline": False,
            "showline": True,
            "linecolor": "rgba(128,138,150,.55)",
            "ticks": "outside",
            "ticklen": 4,
            "automargin": True,
            "spikethickness": 1,
            "spikedash": "solid",
        },
        yaxis={
            "gridcolor": GRID,
            "zeroline": False,
            "ticklabelstandoff": 6,
            "nticks": 6,
            "automargin": True,
            "ticksuffix": suffix,
            "separatethousands": True,
        },
    )
    return figure


def epoch_ticks(last: int) -> dict[str, Any]:
    """Whole epochs or iterations only."""
    if last <= 6:
        return {"tickmode": "linear", "tick0": 0, "dtick": 1}
    return {"nticks": 8, "tickformat": ",d"}


def line_look(style: Style, width: float, points: int, **changed: Any) -> dict[str, Any]:
    """A line of so many points, `width` in pixels, with markers where these are few."""
    look: dict[str, Any] = {
        "mode": "lines+markers" if points <= MOST_MARKERS else "lines",
        "line": {"color": style.color, "width": width, "dash": style.dash},
        "marker": {"color": style.color, "symbol": style.symbol, "size": 5 if width >= 2 else 4},
    }
    return {**look, **changed}


def error_bars(
    ends: Sequence[tuple[float, float | None, float | None]], color: str, width: int
) -> dict[str, Any]:
    """`error_x` or `error_y` of values with the ends of their intervals: value, low, high.

    A value whose interval is not known has no bar.
    """
    return {
        "type": "data",
        "symmetric": False,
        "array": np.array([high - value if high else np.nan for value, _, high in ends]),
        "arrayminus": np.array([value - low if low else np.nan for value, low, _ in ends]),
        "color": color,
        "thickness": 1.4,
        "width": width,
    }


def add_mark(figure: go.Figure, x: float, y: float, text: str, color: str, right: bool) -> None:
    """A ring on a line with a few words beside it, on the side where there is room."""
    figure.add_scatter(
        x=np.array([x]),
        y=np.array([y]),
        mode="markers",
        marker={"size": 9, "symbol": "circle-open", "color": color, "line": {"width": 2}},
        showlegend=False,
        hoverinfo="skip",
    )
    figure.add_annotation(
        x=x,
        y=y,
        text=text,
        ax=34 if right else -34,
        ay=26 if right else -28,
        xanchor="left" if right else "right",
        font={"size": 12},
        arrowwidth=1,
        arrowcolor=GRAY,
        arrowhead=0,
        standoff=5,
    )


def label(*words: str) -> str:
    """Names may come from files, and plotly reads a few tags in labels."""
    text = ", ".join(word for word in words if word)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def on_log_axes(figure: go.Figure, *, y: bool = True) -> go.Figure:
    """The figure on logarithmic axes; `y=False` for values that may be negative."""
    figure.update_xaxes(_log_axis([trace.x for trace in figure.data], ""))
    if y:
        log_y(figure)
    for note in figure.layout.annotations:  # plotly wants their places as logarithms
        note.x = math.log10(note.x)
        note.y = math.log10(note.y) if y else note.y
    return figure


def log_seconds_x(figure: go.Figure, unit: str, low: float, high: float) -> None:
    """The x axis from `low` to `high`, both above 0, as a logarithmic one of times in `unit`."""
    room = (high / low) ** 0.04
    ends = [math.log10(low / room), math.log10(high * room)]
    figure.update_xaxes({**_log_axis([[low, high]], f" {unit}"), "autorange": False, "range": ends})


def log_y(figure: go.Figure) -> None:
    """The y axis as a logarithmic one. What is drawn must lie above 0; no annotation is moved."""
    # A bar may stand on a base: its top and its foot are what is drawn.
    drawn = [_values(trace.y) + _values(getattr(trace, "base", None)) for trace in figure.data]
    drawn += [_values(trace.base) for trace in figure.data if trace.type == "bar"]
    figure.update_yaxes(_log_axis(drawn, figure.layout.yaxis.ticksuffix or ""))


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
    if len(inside) > MOST_LOG_TICKS:
        inside = [tick for tick in inside if math.log10(tick).is_integer()]
    words = [_tick_text(tick, suffix) for tick in inside]
    return {**axis, "tickmode": "array", "tickvals": inside, "ticktext": words}


def _tick_text(tick: float, suffix: str) -> str:
    """`50 ms` also on an axis of seconds: over several decades one unit does not fit all."""
    sizes = {name: size for _, size, name in TIME_UNITS[:3]}
    if suffix.strip() not in sizes:
        return f"{tick:g}{suffix}"
    seconds = tick * sizes[suffix.strip()]
    name = "s" if seconds >= 1 else "ms" if seconds >= 0.999e-3 else "µs"
    return f"{seconds / sizes[name]:g}\u00a0{name}"
