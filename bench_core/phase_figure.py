"""The phases of a first call on a time line: from an empty cache, below it from a filled one."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from bench_core.captured import Timeline
from bench_core.chart_frame import ORANGE, framed, label
from bench_core.units import seconds_text

# What is in no phase of the compiler's.
REST = "first call"
# As the article's picture divides them: what each does, and who does it.
PHASE_WORDS = {
    "TorchDynamo": "captures graphs from Python bytecode",
    "AOTAutograd": "traces the forward and the backward ahead of time, PrimTorch's decompositions "
    "in it",
    "TorchInductor": "lowers, fuses and writes code",
    "Triton": "builds the kernels for the GPU",
    "C++/OpenMP": "builds the kernels for the CPU",
    REST: "all else of the call, the model's own work too",
}
PALE = "rgba(224,89,11,.4)"
ROW_HEIGHT = 44


def phase_timeline(timelines: Sequence[Timeline], title: str) -> go.Figure:
    """A row a phase; in each row the stretches of the cold start, below them the warm one's."""
    ordered = sorted(timelines, key=lambda one: one.cache)  # cold, warm
    rows = list(dict.fromkeys(phase.name for line in ordered for phase in line.phases))
    rows.sort(key=REST.__eq__)
    figure = go.Figure()
    for line in ordered:
        ends: dict[str, int] = {phase.name: place for place, phase in enumerate(line.phases)}
        total = {name: seconds_in(line, name) for name in ends}
        figure.add_bar(
            y=[label(phase.name) for phase in line.phases],
            x=[phase.ended_seconds - phase.began_seconds for phase in line.phases],
            base=[phase.began_seconds for phase in line.phases],
            orientation="h",
            name=f"{line.cache} cache",
            marker={"color": ORANGE if line.cache == "cold" else PALE},
            # The row's sum stands once, behind its last stretch.
            text=[
                seconds_text(total[phase.name]) if ends[phase.name] == place else ""
                for place, phase in enumerate(line.phases)
            ],
            textposition="outside",
            customdata=[
                [seconds_text(phase.began_seconds), seconds_text(phase.seconds)]
                for phase in line.phases
            ],
            hovertemplate="from %{customdata[0]}: %{customdata[1]} of its own",
        )
    framed(figure, title, "kept", "seconds since the first call began", "")
    figure.update_traces(textangle=0, constraintext="none", cliponaxis=False)
    longest = max((line.first_call_seconds for line in timelines), default=0.0)
    figure.update_layout(barmode="group", hovermode="closest", height=96 + ROW_HEIGHT * len(rows))
    figure.update_xaxes(
        range=[0, longest * 1.2], showgrid=True, gridcolor="rgba(128,138,150,.18)", ticksuffix=" s"
    )
    names = [label(name) for name in rows]
    figure.update_yaxes(
        categoryorder="array", categoryarray=names[::-1], showgrid=False, ticksuffix=""
    )
    # Groups are drawn from below: without this the warm start would lie above the cold one.
    figure.update_layout(legend_traceorder="reversed")
    figure.data = tuple(reversed(figure.data))
    return figure


def seconds_in(line: Timeline, name: str) -> float:
    """All stretches of the phase, each moment counted once."""
    return sum(phase.seconds for phase in line.phases if phase.name == name)


def phase_title(timelines: Sequence[Timeline]) -> str:
    """`C++/OpenMP takes 17.6 s of the first call's 23.1 s; a warm cache skips it`."""
    by_cache = {line.cache: line for line in timelines}
    line = by_cache.get("cold") or by_cache["warm"]
    if not line.phases:
        return f"The first call takes {seconds_text(line.first_call_seconds)}"
    longest = max({phase.name for phase in line.phases}, key=lambda name: seconds_in(line, name))
    seconds = seconds_in(line, longest)
    title = (
        f"{longest} takes {seconds_text(seconds)} of the first call's "
        f"{seconds_text(line.first_call_seconds)}"
    )
    warm = by_cache.get("warm")
    if warm is None or warm is line:
        return title if line.cache == "cold" else f"{title}, from a warm cache"
    now = seconds_in(warm, longest)
    if not now:
        return f"{title}; a warm cache skips it"
    return (
        f"{title}; from a warm cache {seconds_text(now)} of {seconds_text(warm.first_call_seconds)}"
    )
