"""Doubts as the pages show them: how many, and a line each with its chip."""

from __future__ import annotations

from collections.abc import Sequence

from bench_core.doubts import Doubt
from bench_core.units import NO_BREAK, counted
from pages.parts.text import plain


def doubt_line(doubt: Doubt) -> str:
    """A chip and the sentence with the next step: Markdown."""
    return f":small[:gray-badge[{plain(doubt.label)}] {plain(doubt.sentence)}]"


def doubts_word(doubts: Sequence[Doubt]) -> str:
    """`2 doubts`, `no doubts`."""
    word = counted(len(doubts), "doubt") if doubts else "no doubts"
    return word.replace(" ", NO_BREAK)
