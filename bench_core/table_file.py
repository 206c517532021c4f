"""A table in a text file, whatever its encoding, separator and line ends.

Nothing is known here of what the columns mean. A file that is no table, or too large, is refused
with BadFile before anything is made of it. Streaming: memory does not grow with the file.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import math
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO, TypeVar, cast

from bench_core.text_encoding import NotText, TextCheck, encoding_of, file_kind, single_byte

if TYPE_CHECKING:
    from _csv import Reader as CsvReader

# A million rows of our own CSV are 435 MB.
LARGEST_BYTES = 600_000_000
MOST_COLUMNS = 2_000
# The latencies of a block of inference are one cell of about two million characters.
LONGEST_LINE = 2**24
LONGEST_NAME = 100
SEPARATORS = ",;\t"
# What people and programs write for "not known".
NOT_KNOWN = frozenset(
    ("", "-", "--", "n/a", "na", "nan", "none", "null", "inf", "+inf", "-inf", "infinity")
)
# Large enough for its sum to be made beside the look at it.
CHUNK_BYTES = 2**22

# By default a cell ends the csv module's patience at 131 072 characters.
csv.field_size_limit(LONGEST_LINE)
# What the csv module finds wrong, by the start of its words.
CSV_ERRORS = {
    "field larger": "a cell is longer than 16 million characters: a quote that opens on this line "
    "is never closed; close it, or export the file again",
    "unexpected end": "a quote that opens on this line is never closed: the file is cut off or "
    "damaged; export it again",
    "'": "text follows a closing quote; write a quote inside of a cell twice",
}

# `float` takes more than these: nan, 1_000, other alphabets' digits.
_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# Thousands that a blank parts, also one that does not break and a thin one.
_GROUPED = re.compile(r"([+-]?[0-9]{1,3}(?:[ \u00a0\u2009\u202f][0-9]{3})+)((?:[.,][0-9]+)?)")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
T = TypeVar("T")


class BadFile(ValueError):
    """A file that is refused whole, in a sentence with line, column and the way out."""

    def __init__(self, text: str, line: int | None = None, column: str | None = None) -> None:
        place = [f"line {line}"] if line is not None else []
        place += [f"column {shortened(column)}"] if column is not None else []
        super().__init__(f"{', '.join(place)}: {text}" if place else text)
        self.line = line
        self.column = column


@dataclass(slots=True)  # frozen it would take twice as long to make, a million times
class Row:
    """Cells by place, and the number of the line in the file that the row begins on (from 1)."""

    line: int
    cells: list[str]


@dataclass(frozen=True, slots=True)
class Block:
    """A row, and the lines right below it that begin with the same cells and end in empty ones."""

    first: Row
    head: bytes  # the text that they begin with
    alike: list[bytes]  # each a row without quotes, less its `tail` and line end, in UTF-8
    tail: bytes
    begins: int  # the line of the first of them

    @property
    def last_line(self) -> int:
        return self.begins + len(self.alike) - 1 if self.alike else self.first.line


@dataclass(frozen=True, slots=True)
class TableFile:
    """An opened table. `rows()` may be called again and again, and reads the file each time.

    `name` has no folders, `size` is in bytes as the file lies there, `sha256` that of its content,
    unpacked. `header` is stripped of blanks; a name in it may be empty where no cell below is
    filled. `number(cell)` reads a number in the file's own notation (a decimal comma where the
    separator is not one). `plain`: in UTF-8 without a mark, its lines end in LF or CR LF.
    """

    name: str
    path: Path | bytes
    size: int
    sha256: str
    header: tuple[str, ...]
    encoding: str = "utf-8"
    plain: bool = False
    separator: str = ","
    header_line: int = 1
    packed: bool = False

    def rows(self) -> Iterator[Row]:
        """The rows below the header that hold something, all as wide as it. Raises BadFile."""
        return (block.first for block in self.blocks())

    def blocks(self, same: int = 0, empty: int = 0, most: int = 0) -> Iterator[Block]:
        """`rows`, but up to `most` that begin with the same `same` cells as one above, and whose
        last `empty` cells are so, stay text.

        Cutting a row into cells takes longer than all else that is done with it. `cut` makes rows
        of them; as long as nobody calls it, how many cells they have is not known. Of a table that
        is not `plain` all are cut.
        """
        most = most if self.plain else 0
        width = len(self.header)
        tail = self.separator.encode() * empty
        nameless = [place for place, name in enumerate(self.header) if not name]
        with _binary(self.path, self.packed) as file:
            text = file if self.plain else _text(file, self.encoding)
            lines = _Lines(text, self.separator)
            reader = csv.reader(lines, delimiter=self.separator, strict=True)
            begins = 1
            try:
                for cells in reader:
                    line, begins = begins, lines.count + 1
                    if line <= self.header_line or not any(cells):
                        continue
                    if len(cells) != width:
                        if not any(map(str.strip, cells)):
                            continue
                        _fit(cells, width, line)
                    for place in nameless:
                        _check_nameless(cells[place], place, line)
                    head = self.separator.join([*cells[:same], ""]).encode() if most else b""
                    alike = lines.alike(head, tail, most) if most else []
                    yield Block(Row(line, cells), head, alike, tail, begins)
                    begins += len(alike)
            except csv.Error as error:
                raise _bad_csv(error, begins) from None
            except (OSError, EOFError, UnicodeError, zlib.error) as error:
                raise BadFile(
                    f"it cannot be read to its end ({error}); try again", begins
                ) from None

    def cut(self, block: Block) -> Iterator[Row]:
        """The rows of a block below its first. Raises BadFile."""
        for line, text in enumerate(block.alike, block.begins):
            cells = (text + block.tail).decode().split(self.separator)
            if len(cells) != len(self.header):
                _fit(cells, len(self.header), line)
            yield Row(line, cells)

    def read(self, row: Row, place: int, reading: Callable[[str], T]) -> T:
        """A cell through `reading`; the ValueError it may raise becomes a BadFile of that place."""
        try:
            return reading(row.cells[place])
        except ValueError as error:
            raise BadFile(str(error), row.line, self.header[place]) from None

    def number(self, cell: str) -> float:
        """A finite number. ValueError: it is none, or may be read in two ways.

        A point is always decimal. A comma is where the separator is a semicolon or a tab, and
        blanks may part the thousands there. `1,234` of a file with tabs may be either: refused.
        """
        text = cell.strip()
        if not _PLAIN.fullmatch(text):
            text = _plain(text, self.separator)
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"{shortened(cell)!r} is too large for a number")
        return value

    def number_or_none(self, cell: str) -> float | None:
        """None for a cell that says "not known": empty, nan, inf, None, NULL, n/a, -."""
        return None if not_known(cell) else self.number(cell)

    def whole(self, cell: str) -> int:
        """A whole number; programs write `1024.0` too. ValueError: it is none."""
        value = self.number(cell)
        if not value.is_integer():
            raise ValueError(f"{shortened(cell)!r} is not a whole number")
        return int(value)


def not_known(cell: str) -> bool:
    return cell.strip().lower() in NOT_KNOWN


def shortened(text: str, most: int = 40) -> str:
    """A text from a file as a sentence can hold it."""
    return text if len(text) <= most else text[: most - 1] + "…"


def open_table(name: str, source: Path | bytes) -> TableFile:
    """Look at a file on disk, or one that a browser sent. Raises BadFile."""
    try:
        size = source.stat().st_size if isinstance(source, Path) else len(source)
        if size > LARGEST_BYTES:
            raise BadFile(
                f"it has {_megabytes(size)}, and at most {_megabytes(LARGEST_BYTES)} are read; "
                "split it, or leave columns out"
            )
        with _binary(source, False) as file:
            packed = file.read(2) == b"\x1f\x8b"
        sha256, check = _checked(source, packed)
        with _binary(source, packed) as file:
            separator, header_line, header = _header(_text(file, check.encoding))
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise BadFile("the gzip file is cut off or damaged; pack or download it again") from None
    except OSError as error:
        raise BadFile(f"it cannot be read: {error.strerror or error}") from None
    except NotText as error:
        raise BadFile(str(error), error.line) from None
    return TableFile(
        name=_short_name(name),
        path=source,
        size=size,
        sha256=sha256,
        header=header,
        encoding=check.encoding,
        plain=check.encoding == "utf-8" and not check.lone_returns,
        separator=separator,
        header_line=header_line,
        packed=packed,
    )


def _short_name(name: str) -> str:
    """Without folders and what cannot be printed; the end says more than the beginning."""
    last = re.split(r"[/\\]", name)[-1]
    return "".join(c for c in last if c.isprintable()).strip()[-LONGEST_NAME:] or "table.csv"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB".replace(",", " ")


def _binary(source: Path | bytes, packed: bool) -> BinaryIO:
    file = source.open("rb") if isinstance(source, Path) else io.BytesIO(source)
    return cast(BinaryIO, gzip.open(file)) if packed else file


def _text(file: BinaryIO, encoding: str) -> TextIO:
    return io.TextIOWrapper(file, encoding=encoding, newline="")


def _chunks(source: Path | bytes, packed: bool) -> Iterator[bytes]:
    with _binary(source, packed) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _checked(source: Path | bytes, packed: bool) -> tuple[str, TextCheck]:
    """Read all of it once: the sum of its content, and what was seen of its encoding and lines."""
    digest = hashlib.sha256()
    check: TextCheck | None = None
    size = 0
    with ThreadPoolExecutor(1) as beside:
        for chunk in _chunks(source, packed):
            size += len(chunk)
            if size > LARGEST_BYTES:
                raise BadFile(
                    f"unpacked it has more than {_megabytes(LARGEST_BYTES)}, the most that is "
                    "read; split it, or leave columns out"
                )
            summed = beside.submit(digest.update, chunk)
            if check is None:
                encoding = encoding_of(chunk)
                kind = file_kind(chunk, encoding)
                if kind:
                    raise BadFile(kind)
                check = TextCheck(encoding, LONGEST_LINE)
            check.feed(chunk)
            summed.result()
    if check is None:
        raise BadFile("the file is empty")
    check.feed(b"", last=True)
    if not check.failed:
        return digest.hexdigest(), check
    again = TextCheck(single_byte(_chunks(source, packed)), LONGEST_LINE)
    for chunk in _chunks(source, packed):
        again.feed(chunk)
    return digest.hexdigest(), again


def _header(text: TextIO) -> tuple[str, int, tuple[str, ...]]:
    """The separator, the line that the header begins on, and its names."""
    separator = ""
    for number, line in enumerate(text, 1):
        said = re.fullmatch(r'"?sep=(.)"?', line.strip(" \r\n"))
        if said and not separator:
            separator = said[1]
            if separator not in SEPARATORS:
                raise BadFile(
                    f"the separator {separator!r} is not read; save the file with commas, "
                    "semicolons or tabs",
                    number,
                )
            continue
        if line.strip():
            break
    else:
        raise BadFile("the file holds nothing but blank lines")
    separator = separator or max(SEPARATORS, key=lambda one: _count(line, one))
    reader = _reader(chain((line,), text), separator, number)
    try:
        names = [name.strip() for name in next(reader)]
    except csv.Error as error:
        raise _bad_csv(error, number) from None
    while names and not names[-1]:
        names.pop()
    if not names:
        raise BadFile("the header names no column", number)
    _check_header(names, number)
    return separator, number, tuple(names)


def _check_header(names: Sequence[str], line: int) -> None:
    if "\n" in "".join(names) or "\r" in "".join(names):
        raise BadFile("a column's name goes over several lines; write it on one", line)
    places: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if name and name in places:
            raise BadFile(
                f"the columns {places[name]} and {place} have one name; rename one or take it out",
                line,
                name,
            )
        places[name] = place


class _Lines:
    """Lines as the csv module wants them: counted, each looked at before it becomes a list of a
    million cells. Some may be taken out before they get there."""

    def __init__(self, lines: Iterable[str | bytes], separator: str, first: int = 1) -> None:
        self.count = first - 1
        self._lines = iter(lines)
        self._separator = separator
        self._end = b""
        self._back = deque[bytes]()
        self._inside = False

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        found = self._back.popleft() if self._back else next(self._lines)
        if isinstance(found, str):
            line = found
        else:
            line, self._end = found.decode(), b"\r\n" if found.endswith(b"\r\n") else b"\n"
        self.count += 1
        if len(line) > MOST_COLUMNS:
            columns = 1 + _count(line, self._separator, self._inside)
            if columns > MOST_COLUMNS:
                raise BadFile(
                    f"{columns} columns, and at most {MOST_COLUMNS} are read; leave out those "
                    "that are not needed",
                    self.count,
                )
        if '"' in line:
            self._inside ^= line.count('"') % 2 == 1
        return line

    def alike(self, head: bytes, tail: bytes, most: int) -> list[bytes]:
        """The next lines, of bytes, less `tail` and their end.

        As long as they begin and end like that, and hold no quote.
        """
        found: list[bytes] = []
        tail += self._end
        more = -len(tail)
        # A line that was looked at before goes to the csv module.
        lines = () if self._back else islice(cast(Iterator[bytes], self._lines), most)
        for line in lines:
            if not (line.startswith(head) and line.endswith(tail)):
                self._back.append(line)
                break
            found.append(line[:more])
        if b'"' in b"".join(found):
            first = next(place for place, line in enumerate(found) if b'"' in line)
            self._back.extendleft(line + tail for line in reversed(found[first:]))
            del found[first:]
        self.count += len(found)
        return found


def _reader(lines: Iterable[str], separator: str, first: int = 1) -> CsvReader:
    """The csv module's reader. `first` is the number of the first line in the file."""
    return csv.reader(_Lines(lines, separator, first), delimiter=separator, strict=True)


def _count(line: str, separator: str, inside: bool = False) -> int:
    """Separators outside of quotes of a line that begins `inside` of one or not."""
    return sum(part.count(separator) for part in line.split('"')[inside::2])


def _fit(cells: list[str], width: int, line: int) -> None:
    """Take empty cells beyond the header away. BadFile: others are there, or some are missing."""
    if len(cells) < width:
        raise BadFile(
            f"{len(cells)} cells where the header has {width}: the row is cut off or damaged; "
            "complete it, or export the file again",
            line,
        )
    if any(cell.strip() for cell in cells[width:]):
        raise BadFile(
            f"{len(cells)} cells where the header has {width}; put a cell that holds the "
            "separator in quotes",
            line,
        )
    del cells[width:]


def _check_nameless(cell: str, place: int, line: int) -> None:
    if cell.strip():
        raise BadFile(
            f"{shortened(cell)!r} stands in column {place + 1}, which has no name in the header; "
            "name it or take it out",
            line,
        )


def _bad_csv(error: csv.Error, line: int) -> BadFile:
    told = next((text for start, text in CSV_ERRORS.items() if str(error).startswith(start)), "")
    return BadFile(told or f"it is no table: {error}", line)


def _plain(text: str, separator: str) -> str:
    """A number with a decimal comma or parted thousands as Python reads it."""
    shown = repr(shortened(text))
    if separator != ",":
        grouped = _GROUPED.fullmatch(text)
        if grouped:
            text = "".join(c for c in grouped[1] if not c.isspace()) + grouped[2]
        elif separator == "\t" and _THOUSANDS.fullmatch(text):
            raise ValueError(
                f"{shown} may be {text.replace(',', '.')} or {text.replace(',', '')}; write it "
                "with a decimal point"
            )
        if text.count(",") == 1 and "." not in text:
            text = text.replace(",", ".")
    if _PLAIN.fullmatch(text):
        return text
    if "," in text and re.fullmatch(r"[+-]?[0-9][0-9.,]*", text):
        raise ValueError(
            f"{shown} may be read in several ways; write it with a decimal point and nothing "
            "between the thousands"
        )
    raise ValueError(f"{shown} is not a number" if text else "is empty, and a number is needed")
