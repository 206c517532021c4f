"""Words from elsewhere (labels, model files, reasons) as words: never as Markdown."""

from __future__ import annotations

import re

# Every ASCII punctuation may be escaped in Markdown. An underscore inside a word means nothing.
_MARKDOWN = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|[\\`*{}\[\]()#+.!|~<>$:&=@^\"'-]")


def plain(text: str) -> str:
    """The text escaped for Markdown, on one line: `*net*` shows as `*net*`."""
    return _MARKDOWN.sub(lambda found: "\\" + found.group(), " ".join(text.split()))
