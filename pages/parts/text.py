"""Words from elsewhere (labels, model files, reasons) as words: never as Markdown."""

from __future__ import annotations

import re

# Every ASCII punctuation may be escaped in Markdown. An underscore inside a word means nothing.
_MARKDOWN = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|[\\`*{}\[\]()#+.!|~<>$:&=@^\"'-]")
# What Streamlit makes links, icons and arrows of after the escapes are gone: parted by a joiner
# that has no width.
_AFTER_MARKDOWN = re.compile(
    r"(?<=www)(?=\.)|(?<=:)(?=//|material/)|(?<=@)|(?<=[-<>~])(?=[-=>])", re.IGNORECASE
)
# The spaces that keep a number and its unit on one line stay what they are.
_SPACE = re.compile(r"[^\S\u00a0\u202f]+")
WORD_JOINER = "\u2060"


def plain(text: str) -> str:
    """The text escaped for Markdown, on one line: `*net*` shows as `*net*`."""
    parted = _AFTER_MARKDOWN.sub(WORD_JOINER, _SPACE.sub(" ", text).strip())
    return _MARKDOWN.sub(lambda found: "\\" + found.group(), parted)
