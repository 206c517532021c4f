"""A capture as files for people: DOT, SVG, torch's own text, the generated code, a JSON summary.

`NAME.fx.dot` is what torch.fx's own FxGraphDrawer draws, where pydot was there to write it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Collection, Iterator
from itertools import accumulate
from pathlib import Path

from bench_core import captures
from bench_core.captured import Capture
from bench_core.graph import STAGES, Graph, Stage
from bench_core.graph_dot import dot
from bench_core.graph_picture import Picture, calls_picture, picture
from bench_core.graph_svg import svg

DOT_SECONDS = 30.0


def write(
    capture: Capture, folder: Path, stages: Collection[Stage], *, whole: bool = False
) -> list[Path]:
    """The files' paths. `whole` draws every operator instead of one box a module."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in _texts(capture, stages, whole):
        (folder / name).write_text(text, encoding="utf-8")
        written.append(folder / name)
    if capture.cost and capture.cost.trace:
        written.append(folder / capture.cost.trace)
        shutil.copyfile(captures.folder_of(capture.key) / capture.cost.trace, written[-1])
    return written


def described(capture: Capture, stages: Collection[Stage]) -> Iterator[str]:
    """A line a graph, with its operators at each stage, and below it what ended it and where."""
    frames = {frame.number: frame for frame in capture.frames}
    for number in sorted({*frames, *(file.number for file in capture.graphs)}):
        frame = frames.get(number)
        counts = []
        for stage in stages:
            of_graph = [file for file in capture.at(stage) if file.number == number]
            if of_graph:
                title = STAGES[stage].title
                told = " + ".join(str(file.operators) for file in of_graph)
                counts.append(f"{title[0].lower()}{title[1:]} {told}")
        place = f" at {frame.place}" if frame and frame.place else ""
        sides = " (forward + backward)" if " + " in "".join(counts) else ""
        yield f"graph {number}{place}, operators: {', '.join(counts) or 'none'}{sides}"
        for one in frame.breaks if frame else ():
            where = f" at {one.place}" if one.place else ""
            yield f"  break{where}: {one.reason.splitlines()[0]}"


def _texts(capture: Capture, stages: Collection[Stage], whole: bool) -> Iterator[tuple[str, str]]:
    if len(capture.frames) > 1 or capture.graph_breaks:
        yield from _drawn("calls", calls_picture(capture.frames))
    for file in capture.graphs:
        if file.stage not in stages:
            continue
        graph = captures.read_graph(capture, file)
        name = Path(file.file).stem
        yield from _drawn(name, picture(graph, opened=_modules(graph) if whole else ()))
        if file.text:
            yield f"{name}.txt", captures.read_file(capture, file.text)
        if file.drawing:
            by_fx = captures.read_file(capture, file.drawing)
            yield f"{name}.fx.dot", by_fx
            if by_dot := laid_out(by_fx):
                yield f"{name}.fx.svg", by_dot
    for code in capture.code:
        yield Path(code.file).name, captures.read_file(capture, code.file)
    kernels = [kernel.model_dump(mode="json") for kernel in captures.read_kernels(capture)]
    summary = {**capture.model_dump(mode="json"), "kernels": kernels}
    yield "summary.json", json.dumps(summary, indent=2)


def _modules(graph: Graph) -> set[str]:
    """All modules and those around them."""
    return {
        path
        for node in graph.nodes
        for path in accumulate(node.module.split("."), lambda above, name: f"{above}.{name}")
    }


def _drawn(name: str, drawn: Picture) -> Iterator[tuple[str, str]]:
    text = dot(drawn)
    yield f"{name}.dot", text
    yield f"{name}.svg", laid_out(text) or svg(drawn)


def laid_out(text: str) -> str:
    """By Graphviz where it is installed; empty where it is not, or does not come to an end."""
    if not (program := shutil.which("dot")):
        return ""
    try:
        done = subprocess.run(
            [program, "-Tsvg"], input=text, capture_output=True, text=True, timeout=DOT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
