"""The colour and the mark of a machine: by its place in the store, as in the charts.

Their symbols and lines are chart_frame.MACHINE_STYLES, in the same order.
"""

from __future__ import annotations

from typing import NamedTuple

from bench_core.chart_frame import MACHINE_STYLES


class Look(NamedTuple):
    """A machine in text and in tables: Streamlit's colour of Markdown and of a chip, and a mark."""

    text: str
    chip: str
    symbol: str


# Streamlit has names for the first colours only: a chip takes the chart's own then.
LOOKS = (
    Look("blue", "blue", "●"),
    Look("violet", "violet", "◆"),
    Look("yellow", "yellow", "■"),
    Look("green", MACHINE_STYLES[3].color, "▲"),
    Look("gray", MACHINE_STYLES[4].color, "✖"),
)
# By the symbols of the charts.
SYMBOLS = {style.symbol: of.symbol for style, of in zip(MACHINE_STYLES, LOOKS, strict=True)}


def mark(place: int) -> str:
    """A machine's dot as Markdown."""
    of = LOOKS[place % len(LOOKS)]
    return f":{of.text}[{of.symbol}]"


def chip_colors(count: int) -> list[str]:
    """Colours of so many machines, in their order, for a column of chips."""
    return [chip_color(place) for place in range(count)]


def chip_color(place: int) -> str:
    return LOOKS[place % len(LOOKS)].chip
