"""A picture in the DOT language, for Graphviz and whatever reads its files."""

from __future__ import annotations

from bench_core.graph_picture import Picture

HEAD = (
    'rankdir=TB bgcolor="transparent" ranksep=0.25 nodesep=0.2',
    'node [shape=box style="rounded,filled" fontname="Helvetica" fontsize=10 color="#7A8594"]',
    'edge [color="#7A8594" arrowsize=0.6]',
)


def dot(picture: Picture) -> str:
    """A digraph; fused groups are clusters."""
    lines = ["digraph {", *(f"  {line}" for line in HEAD)]
    by_frame: dict[str, list[str]] = {}
    for box in picture.boxes:
        style = "rounded" if box.fill == "none" else "rounded,filled"
        facts = {
            "label": box.label,
            "tooltip": box.tip,
            "fillcolor": "transparent" if box.fill == "none" else box.fill,
            "fontcolor": box.ink,
            "style": f"{style},dashed" if box.dashed else style,
        }
        told = " ".join(f"{name}={_quoted(value)}" for name, value in facts.items())
        by_frame.setdefault(box.frame, []).append(f"{_quoted(box.name)} [{told}]")
    for number, (frame, boxes) in enumerate(by_frame.items()):
        if not frame:
            lines += [f"  {box}" for box in boxes]
            continue
        lines.append(f"  subgraph cluster_{number} {{")
        label = _quoted(picture.frames.get(frame, frame))
        lines.append(f'    label={label} color="#E0590B" fontcolor="#E0590B" fontsize=9')
        lines.append("    labelloc=b labeljust=r style=rounded")
        lines += [f"    {box}" for box in boxes]
        lines.append("  }")
    lines += [f"  {_quoted(one)} -> {_quoted(other)}" for one, other in picture.edges]
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
