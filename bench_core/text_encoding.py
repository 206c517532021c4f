"""What kind of file bytes are the beginning of, and which encoding a text is in.

UTF-8, UTF-16 and UTF-32 are told by their marks and their zeros; of the old single-byte encodings
Windows' Cyrillic and Western ones are told apart. Pure: bytes in, words out.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable

# The longer mark first: UTF-32's begins with UTF-16's.
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
LONE_RETURN = re.compile(r"\r[^\n]")
# So many bytes at the beginning say whether every other one is zero.
LOOKED_AT = 4096

_ARCHIVE = "this is {}: unpack it and choose the CSV inside"
_OTHER = "this is {}, not a CSV: save or export the table as CSV"
# How files begin, and what is to be done with them.
KINDS: tuple[tuple[bytes, str], ...] = (
    (b"\xd0\xcf\x11\xe0", _OTHER.format("an old Excel workbook")),
    (b"%PDF", _OTHER.format("a PDF document")),
    (b"\x89PNG", _OTHER.format("a PNG picture")),
    (b"\xff\xd8\xff", _OTHER.format("a JPEG picture")),
    (b"GIF8", _OTHER.format("a GIF picture")),
    (b"SQLite format 3\0", _OTHER.format("an SQLite database")),
    (b"\x7fELF", _OTHER.format("a program (ELF binary)")),
    (b"PAR1", _OTHER.format("a Parquet file")),
    (b"ARROW1", _OTHER.format("an Arrow file")),
    (b"\x93NUMPY", _OTHER.format("a NumPy array")),
    (b"\x1f\x8b", _ARCHIVE.format("a gzip file inside of a gzip file")),
    (b"BZh", _ARCHIVE.format("a bzip2 file")),
    (b"\xfd7zXZ", _ARCHIVE.format("an xz file")),
    (b"\x28\xb5\x2f\xfd", _ARCHIVE.format("a zstd file")),
    (b"7z\xbc\xaf", _ARCHIVE.format("a 7z archive")),
    (b"Rar!", _ARCHIVE.format("a RAR archive")),
)
HTML = "this is an HTML page, probably an error page or a login: download the raw file"


class NotText(ValueError):
    """Bytes that are no text of a known encoding, or no lines."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.line = line


def encoding_of(start: bytes) -> str:
    """By its mark, or by where the zeros of ASCII letters stand; else UTF-8 until that fails."""
    for mark, encoding in MARKS:
        if start.startswith(mark):
            return encoding
    looked_at = start[:LOOKED_AT]
    even, odd = looked_at[0::2], looked_at[1::2]
    if odd and odd.count(0) > 0.7 * len(odd) and not even.count(0):
        return "utf-16-le"
    if odd and even.count(0) > 0.7 * len(even) and not odd.count(0):
        return "utf-16-be"
    return "utf-8"


def file_kind(start: bytes, encoding: str) -> str:
    """What a file is that is no text table, and the way out; empty where it may be one."""
    if start.startswith(b"PK\x03\x04"):
        workbook = b"[Content_Types].xml" in start or b"xl/" in start
        if workbook:
            return _OTHER.format("an Excel workbook")
        return _ARCHIVE.format("a zip archive")
    for magic, text in KINDS:
        if start.startswith(magic):
            return text
    if start[257:262] == b"ustar":
        return _ARCHIVE.format("a tar archive")
    text = start[:LOOKED_AT].decode(encoding, errors="replace").lstrip("\ufeff \t\r\n").lower()
    if text.startswith(("<!doctype html", "<html", "<head", "<body", "<?xml", "<!--", "<svg")):
        return HTML if "html" in text else _OTHER.format("an XML file")
    if text.startswith(("{", "[")):
        return _OTHER.format("JSON")
    if text.startswith("version https://git-lfs"):
        return "this is a pointer of Git LFS, not the file itself: download the raw file"
    return ""


class TextCheck:
    """Whether chunk after chunk is text, in lines of a bearable length.

    `failed` says that UTF-8 without a mark does not fit: another encoding is to be tried.
    `lone_returns` that a CR was seen without the LF behind it. Raises NotText for everything else.
    """

    def __init__(self, encoding: str, longest_line: int) -> None:
        self.encoding = encoding
        self.failed = False
        self.lone_returns = False
        self.longest_line = longest_line
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ends = {"\n": 0, "\r": 0}
        self._last = ""
        self._since_end = 0

    @property
    def line(self) -> int:
        """The line that the text has come to; it ends in CR, LF or both."""
        return max(self._ends.values()) + 1

    def feed(self, chunk: bytes, last: bool = False) -> None:
        if self.failed:
            return
        try:
            text = self._decoder.decode(chunk, last)
        except UnicodeDecodeError as error:
            if self.encoding == "utf-8" and b"\0" not in chunk:
                self.failed = True
                return
            where = self.line + max(error.object[: error.start].count(end) for end in b"\n\r")
            raise NotText(
                f"the bytes there are not of a text in {self.encoding.upper()}: the file is "
                "binary or damaged; export it again as UTF-8",
                where,
            ) from None
        if "\0" in text:
            before = text[: text.index("\0")]
            line = self.line + max(before.count(end) for end in "\n\r")
            raise NotText(
                "a NUL character: the file is binary or damaged; export it again as CSV", line
            )
        lone = LONE_RETURN.search(text) or (self._last == "\r" and (last or text[:1] not in "\n"))
        self.lone_returns = self.lone_returns or bool(lone)
        self._last = text[-1:] or self._last
        self._ends["\n"] += text.count("\n")
        # Counting them takes as long as all else.
        self._ends["\r"] += text.count("\r") if self.lone_returns else 0
        last_end = max(text.rfind("\n"), text.rfind("\r"))
        self._since_end = self._since_end + len(text) if last_end < 0 else len(text) - last_end - 1
        if self._since_end > self.longest_line:
            raise NotText(
                f"is longer than {self.longest_line // 10**6} million characters: a file of rows "
                "is needed",
                self.line,
            )


def single_byte(chunks: Iterable[bytes]) -> str:
    """cp1251 where bytes above ASCII stand in rows of three as Cyrillic letters do, else cp1252.

    Western texts have one or two of them at a time (`Größe`, `°C`); both encodings have letters at
    the same places.
    """
    high = in_rows = 0
    for chunk in chunks:
        if chunk.isascii():
            continue
        high += len(re.findall(rb"[\x80-\xff]", chunk))
        in_rows += sum(map(len, re.findall(rb"[\xc0-\xff\xa8\xb8]{3,}", chunk)))
    return "cp1251" if in_rows > high / 2 else "cp1252"
