"""Whatever file is thrown at an import: a sentence that says what is wrong, and nothing is stored.

What is strange but right is imported as it stands. `test_table_file` has the tables, and
`test_fuzz_imports` the accidents that nobody thought of.
"""

from __future__ import annotations

import csv
import gzip
import io
import sqlite3
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench_core import imports, minimal_csv, result_csv, table_file
from bench_core.imports import Look
from bench_core.store import Store
from bench_core.table_file import BadFile, open_table
from tests.planted import planted_experiment

HEADER = "device,model,variant,batch_size,epoch,epoch_seconds"
RUN = "cuda:0,resnet18,eager,16,{},{}\n"
GOOD = f"{HEADER},machine\n" + "".join(f"cuda:0,resnet18,eager,16,{n},10,T4\n" for n in (1, 2, 3))
TIMM = "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(tmp_path_factory.mktemp("hostile") / "bench.db") as store:
        yield store


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Our own CSV of two runs."""
    file = io.StringIO(newline="")
    with Store(tmp_path_factory.mktemp("results") / "bench.db") as planted:
        planted_experiment(planted, repeats=1, epochs=4)
        runs = planted.runs()
        epochs = planted.epochs([run.number for run in runs])
        result_csv.write(file, runs, epochs, planted.experiments())
    return file.getvalue()


def look_at(store: Store, content: bytes, name: str = "results.csv") -> Look:
    """As pages and command line do. Nothing is stored, and a refused file cannot be taken in."""
    try:
        table = open_table(name, content)
    except BadFile as error:
        return Look(name, "refused", str(error))
    look = imports.look(store, table)
    assert not store.runs() and not store.imports()
    if look.state == "refused" and "no row" not in look.note:
        with pytest.raises(BadFile):
            imports.take_in(store, table)
        assert not store.runs() and not store.imports()
    return look


def excel() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
    return file.getvalue()


def with_cell(row: str) -> bytes:
    return f"{HEADER}\n{RUN.format(1, 10)}{row}\n".encode()


HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "the file is empty"),
    "blank lines": (b"\r\n\r\n", "nothing but blank lines"),
    "only a header": (f"{HEADER}\n".encode(), "a header and no row"),
    "only the header of timm": (TIMM.encode(), "a header and no row"),
    "no table": (b"it took about ten seconds\n", "line 1: no latency column"),
    "a column short": (GOOD.replace("batch_size", "bs").encode(), "missing batch_size"),
    "an Excel workbook": (excel(), "this is an Excel workbook"),
    "a page for a login": (b"<!DOCTYPE html><html><title>Sign in", "this is an HTML page"),
    "a database": (b"SQLite format 3\0" + bytes(100), "an SQLite database"),
    "a program": (b"\x7fELF" + bytes(range(256)), "a program"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(100), "a PNG picture"),
    "noise": (bytes(range(255, 0, -1)) * 40, "binary or damaged"),
    "a NUL": (GOOD.encode().replace(b"T4", b"T\0", 1), "line 2: a NUL character"),
    "half a character": (b"\xef\xbb\xbf" + GOOD.encode() + b"\xc3", "not of a text in UTF-8"),
    "half of a gzip": (gzip.compress(GOOD.encode())[:-9], "gzip file is cut off or damaged"),
    "a million columns": (b"x," * 10**6, "line 1: 1000001 columns"),
    "a row of a million": (GOOD.encode() + b"9," * 10**6, "line 5: 1000001 columns"),
    "no line ends": (HEADER.encode() * 400_000, "line 1: is longer than 16 million characters"),
    "an open quote": (GOOD.encode() + b'"cuda:0,x\n' * 3, "line 5: "),
    "half a file": (GOOD.encode()[:-9], "line 4: 4 cells where the header has 7"),
    "too many cells": (with_cell("cuda:0,x,eager,16,2,10,11"), "line 3: 7 cells where"),
    "twice a column": (f"{HEADER},epoch\n".encode(), "line 1, column epoch: the columns 5 and 7"),
    "twice by another name": (f"{HEADER},Epoch\n".encode(), "line 1, column Epoch: epoch stands"),
    "twice an epoch": (with_cell(RUN.format(1, 9)[:-1]), "line 3, column epoch: epoch 1 of the"),
    "decimal comma": (with_cell('cuda:0,resnet18,eager,16,2,"9,5"'), "line 3, column epoch_seco"),
    "underscores": (with_cell(RUN.format(2, "1_0")[:-1]), "line 3, column epoch_seconds: '1_0'"),
    "hexadecimal": (with_cell(RUN.format(2, "0x1p3")[:-1]), "line 3, column epoch_seconds"),
    "another alphabet": (with_cell(RUN.format(2, "１０")[:-1]), "line 3, column epoch_seconds"),
    "no time": (with_cell(RUN.format(2, "0")[:-1]), "line 3, column epoch_seconds: 0 is no time"),
    "beyond floats": (with_cell(RUN.format(2, "1e999")[:-1]), "line 3, column epoch_seconds"),
    "a huge epoch": (with_cell(RUN.format("9" * 400, 1)[:-1]), "line 3, column epoch"),
    "a huge batch": (
        with_cell(f"cuda:0,x,eager,{'9' * 30},1,10"),
        "line 3, column batch_size: batch_size must be at most",
    ),
    "a formula for a number": (with_cell(RUN.format(2, "=1+1")[:-1]), "line 3, column epoch_sec"),
    "a timm row without a time": (TIMM.encode() + b"resnet18,224,1,fast,1,1\n", "line 2, column"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_in_a_sentence(store: Store, kind: str) -> None:
    content, words = HOSTILE[kind]
    name = "benchmark-infer-amp-nchw-pt291-cu128-4090.csv" if "timm" in kind else "results.csv"
    look = look_at(store, content, name)
    assert (look.state, words in look.note) == ("refused", True), look


def test_a_row_of_our_own_csv_cut_off_anywhere_is_refused(store: Store, results: str) -> None:
    last = results.rstrip().rindex("\r\n")
    cuts = range(last + 10, len(results) - 10, 40)
    assert len(cuts) > 5
    for cut in cuts:
        look = look_at(store, results[:cut].encode())
        assert look.state == "refused" and look.note.startswith("line "), look


def test_a_gzip_bomb_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_file, "LARGEST_BYTES", 5_000_000)
    bomb = gzip.compress(f"{HEADER}\n".encode() + b"\n" * 6_000_000)
    assert len(bomb) < 20_000
    assert "unpacked it has more than 5 MB" in look_at(store, bomb, "results.csv.gz").note


def test_a_name_with_folders_stays_a_name(store: Store) -> None:
    look = look_at(store, GOOD.encode(), "../../../etc/cron.d/results.csv")
    assert (look.file, look.state) == ("results.csv", "ready")


TEXTS = {
    "formula": '=HYPERLINK("http://evil.example";"results")',
    "command": "@SUM(1+1)*cmd|' /C calc'!A0",
    "Markdown": "[results](http://evil.example) **T4** :red[x] $a$",
    "script": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "SQL": "'); DROP TABLE runs; --",
    "format": "{0.__class__} %s %n ${HOME}",
    "path": "../../../etc/passwd",
    "escape": "\x1b[31mT4\x07\u202e4T",
    "apostrophe": "'=1+1",
}
TEXT_COLUMNS = ("model", "machine", "device_name", "torch", "label", "dataset", "cpu_name")


@pytest.mark.parametrize("kind", TEXTS)
def test_a_strange_text_is_imported_as_a_text(kind: str, tmp_path: Path) -> None:
    text = TEXTS[kind]
    header = HEADER.split(",")
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow([*header, *(name for name in TEXT_COLUMNS if name not in header)])
    for epoch in (1, 2, 3, 4):
        writer.writerow(["cuda:0", text, "eager", 16, epoch, 10, *[text] * 6])
    table = open_table("results.csv", file.getvalue().encode())
    kept = "".join(c for c in text if c.isprintable())
    with Store(tmp_path / "bench.db") as store:
        assert imports.look(store, table).state == "ready"
        assert imports.take_in(store, table).new == 1
        [run] = store.runs()
    assert run.spec.workload.model == f"other:{kept}"
    assert (run.machine, run.environment.torch) == (kept, kept)
    assert (run.spec.measurement.label, run.spec.workload.dataset_path) == (kept, kept)
    with sqlite3.connect(tmp_path / "bench.db") as db:
        assert db.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    db.close()


@pytest.mark.parametrize("kind", TEXTS)
def test_a_strange_text_for_a_device_or_a_variant_is_a_question(store: Store, kind: str) -> None:
    text = " ".join(TEXTS[kind].split())
    file = io.StringIO(newline="")
    csv.writer(file).writerows([HEADER.split(","), [text, "resnet18", text, 16, 1, 10]])
    look = look_at(store, file.getvalue().encode())
    assert look.state == "asks"
    kept = "".join(c for c in text if c.isprintable())
    assert f"variant:{kept}" in {question.key for question in look.questions}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-16-le"])
def test_what_excel_and_notepad_make_of_a_file_is_read(store: Store, encoding: str) -> None:
    semicolons = GOOD.replace(",10,", ",10.5,").replace(",", ";").replace(".", ",")
    for text in (GOOD, "sep=;\r\n" + semicolons, GOOD.replace(",", "\t").replace("\n", "\r")):
        look = look_at(store, text.encode(encoding))
        assert (look.state, look.new, look.rows) == ("ready", 1, 3), look


def test_the_template_is_none_of_these(store: Store) -> None:
    assert look_at(store, minimal_csv.TEMPLATE.encode()).state == "ready"
