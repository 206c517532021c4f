"""FxGraphDrawer's drawing as SVG, from the DOT text that it wrote: its boxes with all their rows in
its colours, in our own layout, so that Graphviz need not be installed. Pure.
"""

from __future__ import annotations

import re
from html import escape

from bench_core.graph_layout import Size, layout
from bench_core.graph_svg import CHARACTER, INSIDE, document

ROW = 16.0
PAD = 5.0  # above the first row and below the last one of a field
INK, LINE, UNKNOWN = "#111923", "#747F8B", "#D3D3D3"
_BOX = re.compile(r'^(\S+) \[label="\{(.*)\}", .*?fillcolor="?(\w+)"?')
_ARROW = re.compile(r"^(\S+) -> (\S+);")
# X11's colours that a browser does not know; those without a number it does.
COLORS = {
    "CadetBlue1": "#98F5FF",
    "DarkOliveGreen1": "#CAFF70",
    "DarkSeaGreen1": "#C1FFC1",
    "Khaki1": "#FFF68F",
    "LavenderBlush1": "#FFF0F5",
    "LemonChiffon1": "#FFFACD",
    "MistyRose1": "#FFE4E1",
    "MistyRose2": "#EED5D2",
    "PaleTurquoise2": "#AEEEEE",
    "PeachPuff1": "#FFDAB9",
    "Thistle1": "#FFE1FF",
    "Thistle3": "#CDB5CD",
    "Wheat1": "#FFE7BA",
    "Yellow2": "#EEEE00",
}

Fields = list[list[str]]


def fx_svg(dot: str) -> str:
    """A whole document; empty where no box of FxGraphDrawer's is found in `dot`."""
    boxes: dict[str, tuple[Fields, str]] = {}
    arrows: list[tuple[str, str]] = []
    for line in dot.splitlines():
        if found := _BOX.match(line):
            boxes[found[1]] = _fields(found[2]), found[3]
        elif found := _ARROW.match(line):
            arrows.append((found[1], found[2]))
    if not boxes:
        return ""
    sizes = {name: _size(fields) for name, (fields, _) in boxes.items()}
    arrows = [(one, other) for one, other in arrows if one in boxes and other in boxes]
    placed = layout(sizes, arrows)
    drawn = (
        _box(fields, color, *placed.centers[name], sizes[name])
        for name, (fields, color) in boxes.items()
    )
    return document(placed, drawn)


def _fields(label: str) -> Fields:
    r"""The rows of each field: `|` divides fields, `\n` and `\l` rows, `\` hides what follows."""
    fields = [re.split(r"\\[nl]", text) for text in re.split(r"(?<!\\)\|", label)]
    return [[re.sub(r"\\(.)", r"\1", row) for row in rows if row] for rows in fields]


def _size(fields: Fields) -> Size:
    rows = [row for field in fields for row in field]
    widest = max(map(len, rows), default=0) * CHARACTER
    return Size(widest + 2 * INSIDE, len(rows) * ROW + len(fields) * 2 * PAD)


def _box(fields: Fields, color: str, x: float, y: float, size: Size) -> str:
    left, top = x - size.width / 2, y - size.height / 2
    fill = COLORS.get(color, UNKNOWN if color[-1].isdigit() else color)
    parts = [
        f'<g class="box"><rect x="{left:.1f}" y="{top:.1f}" width="{size.width:.1f}" '
        f'height="{size.height:.1f}" rx="7" fill="{fill}" stroke="{LINE}"/>'
    ]
    for number, rows in enumerate(fields):
        if number:
            parts.append(
                f'<path d="M{left:.1f} {top:.1f}h{size.width:.1f}" stroke="{LINE}" fill="none"/>'
            )
        for row in rows:
            top += ROW
            parts.append(
                f'<text x="{x:.1f}" y="{top + PAD - 4:.1f}" text-anchor="middle" '
                f'fill="{INK}">{escape(row)}</text>'
            )
        top += 2 * PAD
    return "".join([*parts, "</g>"])
