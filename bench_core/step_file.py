"""The times of a training's single steps, in a file of their own beside our CSV.

One row a step, in the order of the runs. The results file keeps a summary of them only; imported
together with it, this file gives the steps back.
"""

from __future__ import annotations

import csv
import gzip
import io
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TextIO

from bench_core.events import Epoch
from bench_core.imported import ImportedRun
from bench_core.result_cells import LARGEST_NUMBER
from bench_core.run import Run
from bench_core.table_file import BadFile, Row, TableFile

COLUMNS = ("run_id", "epoch", "step", "seconds", "device_seconds")
# Seconds of an epoch's steps by the wall clock and, where it has them, by the device's own.
Steps = tuple["array[float]", "array[float]"]


def is_of(header: Sequence[str]) -> bool:
    """Whether a file with these columns is one of steps."""
    return set(COLUMNS) <= set(header) and "schema_version" not in header


def write(path: Path, runs: Iterable[tuple[Run, Sequence[Epoch]]]) -> int:
    """Write the steps of the training runs among these; how many. `.gz` in the name compresses."""
    if path.suffix != ".gz":
        with path.open("w", newline="", encoding="utf-8") as file:
            return _write(file, runs)
    # Neither a time nor a name is in it: the same steps make the same file.
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as file,
    ):
        return _write(file, runs)


def _write(file: TextIO, runs: Iterable[tuple[Run, Sequence[Epoch]]]) -> int:
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    count = 0
    for run, epochs in runs:
        if run.spec.workload.task == "infer":
            continue  # the results file holds every latency
        for epoch in epochs:
            steps = zip_longest(epoch.step_seconds, epoch.device_seconds, fillvalue="")
            writer.writerows(
                (run.id, epoch.epoch, step, *times) for step, times in enumerate(steps, 1)
            )
            count += len(epoch.step_seconds)
    return count


def with_steps(runs: Iterable[ImportedRun], table: TableFile) -> Iterator[ImportedRun]:
    """The runs of a results file with the steps that `table` holds of them.

    Raises BadFile, at the end too: the steps of a run or an epoch that did not come by.
    """
    waiting = _read(table)
    for one in runs:
        mine = waiting.pop(one.run.id, {})
        epochs = tuple(
            _with(one.run, epoch, mine.pop(epoch.epoch), table.name)
            if epoch.epoch in mine
            else epoch
            for epoch in one.epochs
        )
        if mine:
            raise BadFile(
                f"{table.name} holds steps of epoch {min(mine)} of run {one.run.id}, and the "
                "results file has no such epoch; take the two files of one export"
            )
        yield replace(one, epochs=epochs)
    if waiting:
        raise BadFile(
            f"{table.name} holds steps of run {next(iter(waiting))}, and the results file has no "
            "such run; take the two files of one export"
        )


def _with(run: Run, epoch: Epoch, steps: Steps, name: str) -> Epoch:
    seconds, device_seconds = steps
    said = epoch.steps
    if run.spec.workload.task == "infer":
        raise BadFile(f"{name} holds steps of run {run.id}, which is inference and has none")
    if said and (said.count, said.min, said.max) != (len(seconds), min(seconds), max(seconds)):
        raise BadFile(
            f"{name} holds {len(seconds)} steps of epoch {epoch.epoch} of run {run.id}, from "
            f"{min(seconds)} to {max(seconds)} s, and by the results file there are {said.count}, "
            f"from {said.min} to {said.max} s; take the two files of one export"
        )
    update = {
        "step_seconds": tuple(seconds),
        "device_seconds": tuple(device_seconds),
        "steps": None,
    }
    return epoch.model_copy(update=update)


def _read(table: TableFile) -> dict[str, dict[int, Steps]]:
    """By run id and epoch; 8 bytes a time, so that a million of them are 8 MB. Raises BadFile."""
    lacking = [name for name in COLUMNS if name not in table.header]
    if lacking:
        raise BadFile(f"a file of steps needs the columns {', '.join(lacking)} too", 1)
    run_at, epoch_at, step_at, seconds_at, device_at = map(table.header.index, COLUMNS)
    found: dict[str, dict[int, Steps]] = {}
    for row in table.rows():
        cells = row.cells
        epoch = _whole(row, "epoch", cells[epoch_at])
        of_run = found.setdefault(cells[run_at], {})
        if epoch not in of_run:
            of_run[epoch] = array("d"), array("d")
        seconds, device_seconds = of_run[epoch]
        if _whole(row, "step", cells[step_at]) != len(seconds) + 1:
            raise BadFile(
                f"must be {len(seconds) + 1}, since steps count from 1 and none is left out, got "
                f"{cells[step_at]!r}",
                row.line,
                "step",
            )
        seconds.append(_seconds(row, "seconds", cells[seconds_at], table.number))
        if cells[device_at]:
            device_seconds.append(_seconds(row, "device_seconds", cells[device_at], table.number))
            if len(device_seconds) != len(seconds):
                raise BadFile("is empty on a row before this one", row.line, "device_seconds")
    return found


def _whole(row: Row, column: str, cell: str) -> int:
    if not (cell.isdecimal() and len(cell) < 10):
        raise BadFile(f"must be a whole number, got {cell[:80]!r}", row.line, column)
    return int(cell)


def _seconds(row: Row, column: str, cell: str, number: Callable[[str], float]) -> float:
    try:
        seconds = number(cell)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LARGEST_NUMBER:
        raise BadFile(
            f"must be a number from 0 to {LARGEST_NUMBER:.0e}, got {cell[:80]!r}", row.line, column
        )
    return seconds
