"""Where Dynamo had to end a graph in this process, and why, line by line of the user's code."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bench_core.events import GraphBreak
from bench_core.measuring.compile_activity import LIMIT_HIT, gist_of


def graph_breaks() -> tuple[GraphBreak, ...]:
    """The most frequent first; recompiled code breaks again. An evaluation's are among them.

    Reads a list that torch does not promise to keep (torch/_dynamo/utils.py): ImportError or
    AttributeError where it is gone.
    """
    from torch._dynamo.utils import graph_break_reasons

    found = Counter(
        (gist_of(one.reason), _place(one.user_stack))
        for one in graph_break_reasons
        if LIMIT_HIT not in one.reason
    )
    return tuple(
        GraphBreak(reason=reason, place=place, times=times)
        for (reason, place), times in found.most_common()
    )


def _place(stack: list) -> str:
    """`model.py:7 in forward`: the innermost line of the user's."""
    if not stack:
        return ""
    return f"{Path(stack[-1].filename).name}:{stack[-1].lineno} in {stack[-1].name}"
