"""Rows read together are what rows read one by one are, and what is wrong has its place."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench_core import result_csv, result_file, result_lines
from bench_core.epoch_columns import EpochColumns
from bench_core.events import CompileWindow, Epoch
from bench_core.imported import ImportedRun
from bench_core.paths import CHECKOUT
from bench_core.store import Store
from bench_core.table_file import BadFile, open_table
from tests.many_runs import many_runs

EPOCHS = 9
WINDOW = CompileWindow(trigger="DYNAMO", offset_seconds=0.25, seconds=1.5)


def written(ones: list[ImportedRun], end: str = "\r\n") -> str:
    file = io.StringIO(newline="")
    runs = [replace(one.run, number=place) for place, one in enumerate(ones)]
    result_csv.write(file, runs, {place: one.epochs for place, one in enumerate(ones)})
    return file.getvalue().replace("\r\n", end)


def read(text: str) -> list[ImportedRun]:
    return list(result_file.read(open_table("many.csv", text.encode()), {}))


def with_cell(text: str, line: int, column: str, cell: str) -> str:
    """Another cell on a line without quotes."""
    lines = text.split("\r\n")
    cells = lines[line - 1].split(",")
    cells[result_csv.COLUMNS.index(column)] = cell
    lines[line - 1] = ",".join(cells)
    return "\r\n".join(lines)


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_rows_that_differ_in_their_numbers_only_are_read_together(end: str) -> None:
    ones = list(many_runs(7, EPOCHS))
    found = read(written(ones, end))
    assert all(isinstance(one.epochs, EpochColumns) for one in found)
    assert [list(one.epochs) for one in found] == [one.epochs for one in ones]
    table = open_table("many.csv", written(ones, end).encode())
    parts = list(result_lines.blocks(table))
    assert [len(block.alike) for block, _ in parts] == [EPOCHS - 1] * 7
    assert all(epochs is not None for _, epochs in parts)


def test_a_compile_in_the_middle_of_a_run_keeps_the_order_of_its_epochs() -> None:
    [one] = many_runs(1, EPOCHS)
    epochs: list[Epoch] = list(one.epochs)
    epochs[4] = epochs[4].changed(compile_windows=(WINDOW,), compile_seconds=1.5)
    [found] = read(written([replace(one, epochs=epochs)]))
    assert list(found.epochs) == epochs
    assert found.epochs[4].compile_windows == (WINDOW,)


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("loss", "-0.25"),
        ("loss", ""),
        ("peak_memory_bytes", "3900000002.0"),
        ("peak_memory_bytes", ""),
        ("accuracy", "0.5"),
        ("foreign_cpu_share", "1e-05"),
    ],
)
def test_an_unusual_cell_is_read_like_any_other(column: str, cell: str) -> None:
    [one] = many_runs(1, EPOCHS)
    [found] = read(with_cell(written([one]), 5, column, cell))
    expected = float(cell) if cell else None
    assert getattr(found.epochs[3], column) == expected
    others = [epoch for place, epoch in enumerate(found.epochs) if place != 3]
    assert others == [epoch for place, epoch in enumerate(one.epochs) if place != 3]


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("wall_seconds", "0.0"),
        ("wall_seconds", ""),
        ("wall_seconds", "nan"),
        ("wall_seconds", "1_0"),
        ("wall_seconds", "1e11"),
        ("wall_seconds", "\u0661"),
        ("data_wait_seconds", "-1.0"),
        ("loss", "inf"),
        ("accuracy", "71.3"),
        ("epoch", "5"),
        ("epoch_samples", "1.5"),
        ("step_count", "many"),
        ("iteration_seconds", "0.5"),
    ],
)
def test_what_is_wrong_among_rows_read_together_has_its_line_and_column(
    column: str, cell: str
) -> None:
    text = with_cell(written(list(many_runs(3, EPOCHS))), EPOCHS + 5, column, cell)
    with pytest.raises(BadFile) as refused:
        read(text)
    assert (refused.value.line, refused.value.column) == (EPOCHS + 5, column)


@pytest.mark.parametrize("change", [lambda line: line[:-1], lambda line: line[:60]])
def test_a_row_that_is_cut_off_among_rows_read_together_has_its_line(change) -> None:
    lines = written(list(many_runs(2, EPOCHS))).split("\r\n")
    lines[5] = change(lines[5])
    with pytest.raises(BadFile, match="^line 6: .* cells where the header has"):
        read("\r\n".join(lines))


def test_cells_that_moved_from_a_row_to_the_next_are_noticed() -> None:
    lines = written(list(many_runs(2, EPOCHS))).split("\r\n")
    head, tail = lines[5][:-1], lines[6] + ","
    lines[5], lines[6] = head, tail
    with pytest.raises(BadFile, match="^line 6: "):
        read("\r\n".join(lines))


def quoted(line: str) -> str:
    cells = line.split(",")
    return ",".join([*cells[:-1], f'"{cells[-1]}"'])


def with_fact(line: str) -> str:
    cells = line.split(",")
    cells[result_csv.COLUMNS.index("device")] = "cuda:0"
    return ",".join(cells)


@pytest.mark.parametrize("lines_end", ["\r\n", "\n"])
@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines[:5], quoted(lines[5]), *lines[6:]],
        lambda lines: [*lines[:5], with_fact(lines[5]), *lines[6:]],
        lambda lines: [*lines[:5], "", *lines[5:]],
        lambda lines: [*lines[:5], lines[5] + "\r", *lines[6:]],
        lambda lines: [*lines[:5], lines[5] + "\r" + lines[6], *lines[7:]],
        lambda lines: [*lines[:5], lines[5] + "\n" + lines[6], *lines[7:]],
        lambda lines: lines,
    ],
    ids=["quotes", "a fact", "a blank line", "CR CR LF", "a lone CR", "another end", "no last end"],
)
def test_lines_not_as_we_write_them_are_read_as_the_csv_module_reads_them(
    change: Callable[[list[str]], list[str]], lines_end: str
) -> None:
    """A file with a mark at its beginning is read row by row."""
    text = lines_end.join(change(written(list(many_runs(3, EPOCHS))).strip().split("\r\n")))
    table = open_table("many.csv", text.encode())
    by_row = list(open_table("many.csv", text.encode("utf-8-sig")).rows())
    found = [
        row
        for block in table.blocks(len(result_csv.IDENTITY), 40, 1000)
        for row in (block.first, *table.cut(block))
    ]
    assert found == by_row
    assert [(one.run, list(one.epochs)) for one in read(text)] == [
        (one.run, list(one.epochs)) for one in read("\ufeff" + text)
    ]


def test_without_arrow_a_file_is_taken_in_all_the_same(tmp_path: Path) -> None:
    """As on a machine with the few packages that the command line needs."""
    file = tmp_path / "many.csv"
    text = written(list(many_runs(7, EPOCHS)))
    file.write_text(text, newline="")
    missing = ("pyarrow", "streamlit", "pandas", "plotly", "scipy")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
        "from bench_core.cli import main; main()"
    )
    subprocess.run(
        [sys.executable, "-c", code, "import", str(file)],
        cwd=CHECKOUT,
        env={**os.environ, "BENCH_DATA": str(tmp_path)},
        check=True,
    )
    with Store(tmp_path / "bench.db") as store:
        runs = store.runs()
        epochs = store.epochs([run.number for run in runs])
    sent = {one.run.id: one.epochs for one in read(text)}
    assert {run.id: list(epochs[run.number]) for run in runs} == {
        name: list(of_run) for name, of_run in sent.items()
    }
