"""What the drawing of FxGraphDrawer's text promises; the text is as torch 2.14 writes it."""

from __future__ import annotations

import re

from bench_core.graph_fx import fx_svg

LINE = (
    'sin [label="{name=%sin|op_code=call_function\\n|args=(\\lNone,\\n(2, 2),\\n)\\l'
    '|kwargs=\\{a\\|b: <x>\\}}", shape=record, fillcolor=Wheat1, style="filled,rounded"];'
)
DOT = f"""digraph "graph" {{
rankdir=TB;
x [label="{{name=%x|op_code=placeholder\\n}}", shape=record, fillcolor="AliceBlue"];
{LINE}
x -> sin;
x -> gone;
}}"""


def test_each_row_of_each_box_is_drawn_once_and_escaped():
    rows = re.findall(r"<text [^>]*>([^<]*)</text>", fx_svg(DOT))
    assert rows[:2] == ["name=%x", "op_code=placeholder"]
    assert rows[2:] == [
        "name=%sin",
        "op_code=call_function",
        "args=(",
        "None,",
        "(2, 2),",
        ")",
        "kwargs={a|b: &lt;x&gt;}",
    ]


def test_boxes_have_their_colours_and_stand_below_what_they_read():
    drawn = fx_svg(DOT)
    boxes = re.findall(r'<rect x="[^"]+" y="([^"]+)" .*? height="([^"]+)" .*?fill="([^"]+)"', drawn)
    (x_top, x_height, x_fill), (sin_top, _, sin_fill) = boxes
    assert (x_fill, sin_fill) == ("AliceBlue", "#FFE7BA")
    assert float(sin_top) > float(x_top) + float(x_height)
    assert drawn.count("marker-end") == 1, "an arrow to a box that is not there is left out"


def test_a_text_without_such_boxes_draws_nothing():
    assert fx_svg("digraph {\na -> b;\n}\n") == ""
