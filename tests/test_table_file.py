"""Any text table is opened, and what is none is named as what it is."""

from __future__ import annotations

import csv
import gzip
import io
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from bench_core import table_file
from bench_core.table_file import MOST_COLUMNS, BadFile, TableFile, open_table


def opened(content: str | bytes, name: str = "results.csv") -> TableFile:
    return open_table(name, content.encode() if isinstance(content, str) else content)


def cells_of(table: TableFile) -> list[tuple[int, list[str]]]:
    return [(row.line, row.cells) for row in table.rows()]


def refusal(content: str | bytes) -> str:
    with pytest.raises(BadFile) as caught:
        list(opened(content).rows())
    return str(caught.value)


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"],
)
def test_an_encoding_is_found(encoding: str) -> None:
    text = 'model,label\r\nresnet18,"Größe\r\nfünf"\r\n\r\nvgg16,café\r\n'
    table = opened(text.encode(encoding))
    assert table.header == ("model", "label")
    assert cells_of(table) == [(2, ["resnet18", "Größe\r\nfünf"]), (5, ["vgg16", "café"])]


def test_cyrillic_is_no_western_text() -> None:
    table = opened("model;note\nresnet18;видеокарта\n".encode("cp1251"))
    assert (table.encoding, cells_of(table)) == ("cp1251", [(2, ["resnet18", "видеокарта"])])


def test_one_letter_beyond_ascii_at_the_end_of_a_long_file_is_read() -> None:
    text = "a,b\n" + f"1,{'2' * 9_000}\n" * 200 + "3,é\n"  # more than is read at once
    for encoding in ("utf-8", "cp1252"):
        table = opened(text.encode(encoding))
        assert table.encoding == encoding
        assert cells_of(table)[-1] == (202, ["3", "é"])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_row_has_the_number_of_the_line_that_it_begins_on(end: str) -> None:
    text = end.join(["", "a,b", "1,2", "", '3,"x', 'y"', "  ", "5,6", ""])
    assert [line for line, _ in cells_of(opened(text))] == [3, 5, 8]


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a;b\n1;2\n", ";"),
        ("a\tb\n1\t2\n", "\t"),
        ("a,b\n1,2\n", ","),
        ("sep=;\na;b\n1;2\n", ";"),
        ('"a,x";"b,c,d"\n1;2\n', ";"),
        ('"x;y;z",b\n1,2\n', ","),
    ],
)
def test_the_separator_is_the_headers(text: str, separator: str) -> None:
    table = opened(text)
    assert table.separator == separator
    assert [cells for _, cells in cells_of(table)] == [["1", "2"]]


def test_empty_columns_at_the_end_are_left_out() -> None:
    table = opened("a, b ,,\n1,2,,\n3,4\n,,,\n")
    assert table.header == ("a", "b")
    assert [cells for _, cells in cells_of(table)] == [["1", "2"], ["3", "4"]]


def test_a_name_has_no_folder_and_nothing_that_cannot_be_printed() -> None:
    for name, kept in (
        ("../../etc/passwd", "passwd"),
        ("C:\\runs\\t4.csv", "t4.csv"),
        ("a\x1b[31m\u202e\n.csv", "a[31m.csv"),
        ("x" * 300 + "-dynamo.csv", "x" * 89 + "-dynamo.csv"),
        ("..\\", "table.csv"),
    ):
        assert opened("a,b\n", name).name == kept


def test_gzip_is_opened_and_its_content_has_one_sum(tmp_path: Path) -> None:
    plain = b"a,b\n1,2\n"
    path = tmp_path / "results.csv.gz"
    path.write_bytes(gzip.compress(plain))
    table = open_table(path.name, path)
    assert table.sha256 == opened(plain).sha256
    assert cells_of(table) == cells_of(table) == [(2, ["1", "2"])]


def zipped(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "a,b\n1,2\n")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"\n \r\n\n", "nothing but blank lines"),
        (b"\xef\xbb\xbf", "nothing but blank lines"),
        (b",,,\n1,2,3,4\n", "the header names no column"),
        (zipped("results.csv"), "this is a zip archive: unpack it"),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), "this is an Excel workbook"),
        (b"%PDF-1.7\n", "this is a PDF document"),
        (b"\x89PNG\r\n\x1a\n", "this is a PNG picture"),
        (b"SQLite format 3\0", "this is an SQLite database"),
        (b"\x7fELF\x02\x01\x01\0", "this is a program (ELF binary)"),
        (
            gzip.compress(gzip.compress(b"a,b\n", mtime=0), mtime=0),
            "a gzip file inside of a gzip file",
        ),
        (
            gzip.compress(b"a,b\n" + bytes(range(256)), mtime=0)[:40],
            "the gzip file is cut off or damaged",
        ),
        (b"\xff\xfe" + "<!DOCTYPE html>".encode("utf-16-le"), "this is an HTML page, probably"),
        (b"\n <html><body>Sign in", "download the raw file"),
        (b'{"epochs": [1]}', "this is JSON"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
        (b"a,b\n1,2\n\0\0,3\n", "line 3: a NUL character"),
        (bytes(range(128, 256)) * 9, "not of a text"),
        (b"\xef\xbb\xbfa,b\n1,\xff\n", "line 2: the bytes there are not of a text in UTF-8"),
        ("a,b\n1,ü".encode("utf-16")[:-1], "not of a text in UTF-16"),
        ("sep=|\na|b\n", "line 1: the separator '|' is not read"),
        ("a,b,a\n1,2,3\n", "line 1, column a: the columns 1 and 3 have one name"),
        ('a,"b\nc"\n1,2\n', "a column's name goes over several lines"),
        ("a,,b\n1,,2\n1,7,2\n", "line 3: '7' stands in column 2, which has no name"),
        ("a,b\n1,2\n3\n", "line 3: 1 cells where the header has 2"),
        ("a,b\n1,2,3\n", "line 2: 3 cells where the header has 2"),
        ('a,b\n1,2\n3,"4\n5,6\n', "line 3: a quote that opens on this line is never closed"),
        ('a,b\n1,"2"x\n', "line 2: text follows a closing quote"),
    ],
)
def test_what_is_no_table_is_named(content: str | bytes, words: str) -> None:
    assert words in refusal(content)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.csv", tmp_path):
        with pytest.raises(BadFile, match="it cannot be read"):
            open_table(path.name, path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.truncate(table_file.LARGEST_BYTES + 1)  # a hole: nothing is written
    with pytest.raises(BadFile, match=r"it has \d{3} MB, and at most \d{3} MB are read"):
        open_table(path.name, path)


def peak_bytes(content: bytes, words: str) -> int:
    tracemalloc.start()
    try:
        assert words in refusal(content)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_gzip_bomb_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_file, "LARGEST_BYTES", 10_000_000)
    bomb = gzip.compress(b"1,2\n" * 25_000_000, 1)
    assert peak_bytes(bomb, "unpacked it has more than 10 MB") < 25_000_000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x," * 1_000_000, f"line 1: 1000001 columns, and at most {MOST_COLUMNS} are read"),
        (b"a,b\n" + b"x," * 1_000_000, f"line 2: 1000001 columns, and at most {MOST_COLUMNS}"),
        (b"a,b\n1," + b"2" * 30_000_000, "line 2: is longer than 16 million characters"),
    ],
)
def test_a_line_of_a_million_columns_is_not_cut_up(content: bytes, words: str) -> None:
    assert peak_bytes(content, words) < 30_000_000


def test_many_separators_inside_of_quotes_are_one_cell() -> None:
    cell = "[" + "0.1, " * 5000 + "0.1]"
    table = opened(f'a,b\n1,"{cell}"\n2,"x\n{cell}"\n')
    assert [cells[1] for _, cells in cells_of(table)] == [cell, f"x\n{cell}"]


def test_every_cell_of_the_csv_module_comes_back() -> None:
    texts = ['say "hi"', "a,b", "line\nbreak", " blanks ", "", "'=1+1", "\ttab", 'x"y', "é\u2028"]
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow([f"c{place}" for place in range(len(texts))])
    writer.writerow(texts)
    assert cells_of(opened(file.getvalue())) == [(2, texts)]


NUMBERS = {"1": 1.0, " 1.5 ": 1.5, "-2e-3": -0.002, ".5": 0.5, "1024.0": 1024.0, "+7": 7.0}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_number_with_a_point_is_read_everywhere(separator: str) -> None:
    table = opened(f"a{separator}b\n")
    assert {cell: table.number(cell) for cell in NUMBERS} == NUMBERS


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1,5", 1.5), ("0,234", 0.234), ("1 234,5", 1234.5), ("-1\u202f234\u202f567,25", -1234567.25)],
)
def test_a_decimal_comma_is_read_where_the_comma_separates_nothing(cell: str, value: float) -> None:
    assert opened("a;b\n").number(cell) == opened("a\tb\n").number(cell) == value
    with pytest.raises(ValueError, match="several ways|not a number"):
        opened("a,b\n").number(cell)


def test_a_comma_that_may_part_thousands_is_refused() -> None:
    assert opened("a;b\n").number("1,234") == 1.234
    with pytest.raises(ValueError, match=r"'1,234' may be 1.234 or 1234; write it"):
        opened("a\tb\n").number("1,234")
    for cell in ("1,234.5", "1.234,5", "1,234,567"):
        with pytest.raises(ValueError, match="may be read in several ways"):
            opened("a;b\n").number(cell)


@pytest.mark.parametrize(
    "cell", ["1_000", "0x10", "nan", "inf", "1e400", "", "１２", "1 2", "12 s", "--1", "1e", ","]
)
def test_what_is_no_finite_number_is_refused(cell: str) -> None:
    with pytest.raises(ValueError, match=r"number|too large"):
        opened("a;b\n").number(cell)


def test_not_known_is_told_from_wrong() -> None:
    table = opened("a,b\n")
    for cell in ("", " ", "NaN", "None", "NULL", "n/a", "-", "inf"):
        assert table.number_or_none(cell) is None
    with pytest.raises(ValueError, match="'unknown' is not a number"):
        table.number_or_none("unknown")


def test_whole_numbers_may_be_written_with_a_point() -> None:
    table = opened("a,b\n")
    assert table.whole("1024.0") == 1024
    with pytest.raises(ValueError, match="'16.5' is not a whole number"):
        table.whole("16.5")


def test_a_bad_cell_is_named_with_line_column_and_a_short_value() -> None:
    table = opened("a,batch_size\n1,16\n2," + "x" * 100 + "\n")
    *_, row = table.rows()
    with pytest.raises(BadFile) as caught:
        table.read(row, 1, table.number)
    assert str(caught.value) == f"line 3, column batch_size: '{'x' * 39}…' is not a number"
    assert (caught.value.line, caught.value.column) == (3, "batch_size")
