"""Rows of our CSV that differ from the one before in the numbers of an epoch only, read at once.

A file of a million rows consists of them. Cut into cells and looked at one by one they take four
times as long, so they stay text until all those of a run are turned into columns together. Whatever
is not as we write it is left to `result_file`, row by row, which finds out what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bench_core.epoch_columns import Columns
from bench_core.events import Epoch
from bench_core.result_cells import LARGEST_NUMBER, LARGEST_WHOLE
from bench_core.result_csv import EPOCH_COLUMNS, EPOCH_NAMES, IDENTITY, STEP_COLUMNS, TIMES
from bench_core.table_file import Block, Row, TableFile

SEPARATOR = ","
BEFORE_FACTS = (*IDENTITY, *EPOCH_COLUMNS)
FIELDS = {
    EPOCH_NAMES.get(name, name): name
    for name in Epoch.model_fields
    if name not in ("event", *TIMES)
}
WHOLE = ("epoch", "epoch_samples", "peak_memory_bytes", "peak_reserved_bytes", "step_count")
# Never empty.
KNOWN = {
    EPOCH_NAMES.get(name, name)
    for name, of in Epoch.model_fields.items()
    if of.is_required() and name != "loss"
}


def blocks(table: TableFile) -> Iterator[Block]:
    """The rows of a file in its order, those that `columns_of` may read still as text."""
    as_written = table.separator == SEPARATOR and table.header[: len(BEFORE_FACTS)] == BEFORE_FACTS
    return table.blocks(*(_uncut(table) if as_written else (0, 0)))


def rest(table: TableFile, block: Block) -> Iterator[Row]:
    """The rows of a block below its first, cut into cells."""
    return table.cut(block, *_uncut(table))


def _uncut(table: TableFile) -> tuple[int, int]:
    """How many cells identify a row, and how many facts there are."""
    return len(IDENTITY), len(table.header) - len(BEFORE_FACTS)


def columns_of(alike: Sequence[str], first_epoch: int) -> Columns | None:
    """Training epochs, from `first_epoch` on, as columns; None where one of them needs care."""
    text = SEPARATOR.join(alike)
    # What `float` takes and we do not: nan, inf, 1_000, another alphabet's digits, less than 0.
    if not (alike and text.isascii()) or any(one in text for one in ("n", "N", "_", " ", ",-")):
        return None
    cells, width, count = text.split(SEPARATOR), len(EPOCH_COLUMNS), len(alike)
    # With that and an epoch's number at the start of each, no row has more cells or fewer.
    if len(cells) != width * count:
        return None
    found: dict[str, Sequence[Any]] = {"loss": (None,) * count, "step_seconds": ((),) * count}
    steps = []
    for place, name in enumerate(EPOCH_COLUMNS):
        column = cells[place::width]
        if name == "compile_windows":
            if column.count("[]") < count:
                return None
            continue
        convert, largest = (int, LARGEST_WHOLE) if name in WHOLE else (float, LARGEST_NUMBER)
        try:
            values = list(map(convert, column))
        except ValueError:
            if name in KNOWN or column.count("") < count:
                return None
            continue
        if sum(values) > largest < max(values):
            return None
        if name in STEP_COLUMNS:
            steps.append(values)
        elif name in FIELDS:
            found[FIELDS[name]] = values
        else:
            return None  # single times, which a training epoch does not have
    if found["epoch"] != list(range(first_epoch, first_epoch + count)):
        return None
    if not all(found["wall_seconds"]):
        return None
    if steps:
        if len(steps) != len(STEP_COLUMNS):
            return None
        found["steps"] = list(zip(*steps, strict=True))
    return found
