"""A table in a text file, whatever its encoding, separator and line ends.

Nothing is known here of what the columns mean. A file that is no table, or too large, is refused
with BadFile before anything is made of it. Streaming: memory does not grow with the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LARGEST_BYTES = 300_000_000
MOST_COLUMNS = 2_000


class BadFile(ValueError):
    """A file that is refused whole, in a sentence with line, column and the way out."""

    def __init__(self, text: str, line: int | None = None, column: str | None = None) -> None:
        place = [f"line {line}"] if line is not None else []
        place += [f"column {column}"] if column is not None else []
        super().__init__(f"{', '.join(place)}: {text}" if place else text)
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Row:
    """Cells by place, and the number of the line in the file that the row begins on (from 1)."""

    line: int
    cells: list[str]


@dataclass(frozen=True, slots=True)
class TableFile:
    """An opened table. `rows()` may be called again and again, and reads the file each time.

    `name` has no folders. `header` is stripped of blanks; `number(cell)` reads a number in the
    file's own notation (a decimal comma where the separator is not one).
    """

    name: str
    path: Path | bytes
    size: int
    sha256: str
    header: tuple[str, ...]

    def rows(self) -> Iterator[Row]:
        raise NotImplementedError

    def number(self, cell: str) -> float:
        raise NotImplementedError


def open_table(name: str, source: Path | bytes) -> TableFile:
    """Look at a file on disk, or one that a browser sent. Raises BadFile."""
    raise NotImplementedError
