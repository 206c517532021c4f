"""A picture as SVG: our own layout, so that nothing needs to be installed to draw or to keep it.

Fused boxes stand in a frame one below the other. Each box carries `data-box` and, where a click
opens something, `data-opens`; the page reads these. All texts are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from bench_core.graph_layout import Layout, Point, Size, layout
from bench_core.graph_picture import Box, Picture

CHARACTER = 6.6  # mean width of one at FONT_SIZE
FONT_SIZE = 12
BOX_HEIGHT = 28.0
INSIDE = 14.0
ROW = 34.0  # from box to box within a frame
FRAME_PAD = 8.0
FRAME_LABEL = 16.0
MARGIN = 6.0
LEAST_WIDTH = 60.0
EDGE = "#7A8594"
FRAME = "#E0590B"
MARKER = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{EDGE}"/></marker></defs>'
)
FONT = "'Source Sans', 'Source Sans 3', Helvetica, Arial, sans-serif"


def svg(picture: Picture) -> str:
    """A whole document with its size; transparent, for light and dark grounds."""
    stacks: dict[str, list[Box]] = {}
    for box in picture.boxes:
        stacks.setdefault(box.frame or f"\1{box.name}", []).append(box)
    widths = _widths(picture.boxes)
    sizes = {
        name: _stack_size(boxes, picture.frames.get(name, ""), widths)
        for name, boxes in stacks.items()
    }
    stack_of = {box.name: name for name, boxes in stacks.items() for box in boxes}
    edges = [(stack_of[one], stack_of[other]) for one, other in picture.edges]
    found = layout(sizes, list(dict.fromkeys((a, b) for a, b in edges if a != b)))
    parts = _frames(stacks, sizes, found, picture)
    for name, boxes in stacks.items():
        x, y = found.centers[name]
        top = y - sizes[name].height / 2
        framed = not name.startswith("\1")
        for number, box in enumerate(boxes):
            at = top + (FRAME_PAD + number * ROW if framed else 0.0)
            parts.append(_box(box, x, at, widths[box.name]))
            if number and (boxes[number - 1].name, box.name) in picture.edges:
                parts.append(_edge(((x, at - ROW + BOX_HEIGHT), (x, at))))
    return document(found, parts)


def document(placed: Layout, boxes: Iterable[str]) -> str:
    """The file: the arrows of a layout, and above them its boxes."""
    width, height = placed.size.width + 2 * MARGIN, placed.size.height + 2 * MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-MARGIN:.0f} {-MARGIN:.0f} {width:.0f} {height:.0f}" font-family="{FONT}" '
        f'font-size="{FONT_SIZE}">'
    )
    return "\n".join([head, MARKER, *map(_edge, placed.routes.values()), *boxes, "</svg>"])


def width_of(text: str) -> float:
    """Of such a document, in pixels."""
    found = re.search(r'<svg [^>]*?width="(\d+)"', text)
    return float(found[1]) if found else 0.0


def _widths(boxes: Sequence[Box]) -> dict[str, float]:
    """By the label; those that stand for modules are all as wide as the widest of them."""
    own = {box.name: max(LEAST_WIDTH, len(box.label) * CHARACTER + 2 * INSIDE) for box in boxes}
    modules = max((own[box.name] for box in boxes if box.opens), default=0.0)
    return {box.name: modules if box.opens else own[box.name] for box in boxes}


def _stack_size(boxes: Sequence[Box], label: str, widths: dict[str, float]) -> Size:
    widest = max(widths[box.name] for box in boxes)
    if not label:
        return Size(widest, BOX_HEIGHT)
    widest = max(widest, len(label) * CHARACTER * 0.85)
    rows = (len(boxes) - 1) * ROW + BOX_HEIGHT
    return Size(widest + 2 * FRAME_PAD, rows + FRAME_PAD + FRAME_LABEL)


def _edge(points: Sequence[Point]) -> str:
    """A line that leaves and reaches boxes from above and below, and bends between layers."""
    (x, y), *others = points
    path = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in others:
        if abs(to_x - x) < 0.5:
            path.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            half = (y + to_y) / 2
            path.append(f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return (
        f'<path d="{" ".join(path)}" fill="none" stroke="{EDGE}" stroke-width="1.2" '
        'marker-end="url(#arrow)"/>'
    )


def _frames(
    stacks: dict[str, list[Box]], sizes: dict[str, Size], found: Layout, picture: Picture
) -> list[str]:
    parts = []
    for name in stacks:
        if name.startswith("\1"):
            continue
        (x, y), (width, height) = found.centers[name], sizes[name]
        left, bottom = x - width / 2, y + height / 2
        parts.append(
            f'<rect x="{left:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="8" fill="none" stroke="{FRAME}"/>'
            f'<text x="{x + width / 2 - 6:.1f}" y="{bottom - 4:.1f}" text-anchor="end" '
            f'font-size="10" fill="{FRAME}">{escape(picture.frames[name])}</text>'
        )
    return parts


def _box(box: Box, x: float, top: float, width: float) -> str:
    facts = f'data-box="{escape(box.name)}"'
    if box.opens:
        facts += f' data-opens="{escape(box.opens)}" tabindex="0" role="button"'
    dash = ' stroke-dasharray="4 3" stroke-width="2"' if box.dashed else ""
    stroke = box.ink if box.dashed else EDGE if box.fill == "none" else box.fill
    return (
        f'<g class="box" {facts}><title>{escape(box.tip)}</title>'
        f'<rect x="{x - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" '
        f'height="{BOX_HEIGHT:.0f}" rx="7" fill="{box.fill}" stroke="{stroke}"{dash}/>'
        f'<text x="{x:.1f}" y="{top + BOX_HEIGHT / 2 + 4:.1f}" text-anchor="middle" '
        f'fill="{box.ink}">{escape(box.label)}</text></g>'
    )
