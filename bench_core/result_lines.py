"""Rows of our CSV that differ from the one before in the numbers of an epoch only, read at once.

A file of a million rows consists of them. Cut into cells and looked at one by one they take four
times as long, so they stay text until all those of a run are turned into columns together. Whatever
is not as we write it is left to `result_file`, row by row, which finds out what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import from_json

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
# JSON's words, blanks and mappings, and numbers below 0: rare, and looked at one by one.
NOT_OURS = (*"ntf {", ",-")
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
    text = SEPARATOR.join(["", *alike, ""])
    if not alike or any(one in text for one in NOT_OURS):
        return None
    # Numbers, and `[]` for no windows: with a word for "not known" it is a list in JSON, whose
    # reader is five times as fast as `float`, exact, and takes no spelling of a number but the one.
    for _ in range(2):
        text = text.replace(",,", ",null,")
    try:
        cells = from_json(f"[{text[1:-1]}]", allow_inf_nan=False)
    except ValueError:
        return None
    width, count = len(EPOCH_COLUMNS), len(alike)
    # With that and an epoch's number at the start of each, no row has more cells or fewer.
    if len(cells) != width * count or cells[::width] != [*range(first_epoch, first_epoch + count)]:
        return None
    found: dict[str, Sequence[Any]] = {"loss": (None,) * count, "step_seconds": ((),) * count}
    steps = []
    for place, name in enumerate(EPOCH_COLUMNS):
        column = cells[place::width]
        if name == "compile_windows":
            if column.count([]) < count:
                return None
            continue
        try:
            total = sum(column)
        except TypeError:
            if name in KNOWN or column.count(None) < count:
                return None
            continue
        largest = LARGEST_WHOLE if name in WHOLE else LARGEST_NUMBER
        if total > largest < max(column) or (name in WHOLE and type(total) is not int):
            return None
        if name not in WHOLE:
            column = list(map(float, column))
        if name in STEP_COLUMNS:
            steps.append(column)
        elif name in FIELDS:
            found[FIELDS[name]] = column
        else:
            return None  # single times, which a training epoch does not have
    if not all(found["wall_seconds"]):
        return None
    if steps:
        if len(steps) != len(STEP_COLUMNS):
            return None
        found["steps"] = list(zip(*steps, strict=True))
    return found
