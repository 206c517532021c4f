"""Rows of our CSV that differ from the one before in the numbers of an epoch only, read at once.

A file of a million rows consists of them. Cut into cells and looked at one by one they take four
times as long, so they stay text until all those of a run are turned into columns together. Whatever
is not as we write it is left to `result_file`, row by row, which finds out what is wrong.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

import numpy as np
from pydantic_core import from_json

from bench_core.epoch_columns import FIELDS, NUMBERS, EpochColumns, Packed, packed_windows
from bench_core.events import Epoch
from bench_core.result_cells import LARGEST_NUMBER, LARGEST_WHOLE, BadCell
from bench_core.result_csv import EPOCH_COLUMNS, EPOCH_NAMES, IDENTITY, STEP_COLUMNS
from bench_core.result_epochs import windows_of
from bench_core.table_file import Block, Row, TableFile

SEPARATOR = ","
BEFORE_FACTS = (*IDENTITY, *EPOCH_COLUMNS)
COLUMN_OF = {name: EPOCH_NAMES.get(name, name) for name in NUMBERS}
WINDOWS_AT = EPOCH_COLUMNS.index("compile_windows")
WHOLE = ("epoch", "epoch_samples", "peak_memory_bytes", "peak_reserved_bytes", "step_count")
# Never empty.
KNOWN = [
    EPOCH_COLUMNS.index(COLUMN_OF[name])
    for name in NUMBERS
    if Epoch.model_fields[name].is_required() and name != "loss"
]
# A letter of each of JSON's words, a blank, a number below 0: rare, and looked at one by one.
NOT_OURS = ("u", "a", "y", " ", ",-")  # true and null, false and NaN, Infinity


def blocks(table: TableFile) -> Iterator[Block]:
    """The rows of a file in its order, those that `epochs_of` may read still as text."""
    as_written = table.separator == SEPARATOR and table.header[: len(BEFORE_FACTS)] == BEFORE_FACTS
    return table.blocks(len(IDENTITY) if as_written else 0)


def epochs_of(block: Block, facts: int, first_epoch: int) -> EpochColumns | None:
    """The training epochs of a block's rows, numbered from `first_epoch` on.

    `facts` is how many cells at the end of each line have to be empty. None where a row needs care,
    or where there is only one.
    """
    if not block.alike:
        return None
    # From the first line: how many empty cells end it, what ends the line itself.
    line = block.alike[0].rstrip("\r\n")
    end = block.alike[0][len(line) :]
    empty = len(line) - len(line.rstrip(SEPARATOR))
    width = len(EPOCH_COLUMNS) - (empty - facts)
    tail = SEPARATOR * empty + end
    begin, stop = len(block.head), -len(tail)
    first, windows = _first(block.first, width)
    middles = [one[begin:stop] for one in block.alike if one.endswith(tail)]
    text = SEPARATOR.join([first, *middles])
    if any(one in text for one in NOT_OURS):
        return None
    # Numbers, and `[]` for no windows: with a word for "not known" it is a list in JSON, whose
    # reader is five times as fast as `float`, exact, and takes no spelling of a number but the one.
    gaps = {*re.findall(",{2,}", line[begin : len(line) - empty])}
    for gap in sorted(gaps, key=len, reverse=True):
        # Of many short pieces faster than `replace`.
        text = SEPARATOR.join(["", *["NaN"] * (len(gap) - 1), ""]).join(text.split(gap))
    count = 1 + len(block.alike)
    try:
        cells = from_json(f"[{text}]")
        if len(cells) != width * count or cells[WINDOWS_AT::width].count([]) < count:
            return None
        cells[WINDOWS_AT::width] = [0.0] * count
        table = np.frombuffer(array("d", cells)).reshape(count, width).T
    except (ValueError, TypeError, OverflowError):
        return None
    found = _packed(np.ascontiguousarray(table), first_epoch)
    if found is None:
        return None
    of_all = {**found, "compile_windows": windows}
    return EpochColumns(count, lambda: of_all)


def _first(row: Row, width: int) -> tuple[str, str | None]:
    """The cells of an epoch as text, as far as the other lines have them, and its windows packed.

    A cell beyond them is kept, which makes the row too long.
    """
    cells = row.cells[len(IDENTITY) : len(BEFORE_FACTS)]
    while len(cells) > width and not cells[-1]:
        cells.pop()
    try:
        windows = windows_of(cells[WINDOWS_AT], 0)
    except BadCell:
        return "", None
    cells[WINDOWS_AT] = "[]"
    return SEPARATOR.join(cells), packed_windows({0: windows})


def _packed(table: np.ndarray, first_epoch: int) -> Packed | None:
    """A row of `table` is a column of the file, from the first of EPOCH_COLUMNS on."""
    names, count = EPOCH_COLUMNS[: len(table)], table.shape[1]
    unknown = np.isnan(table)
    known = np.where(unknown, 0.0, table)
    missing = unknown.sum(axis=1)
    largest = [LARGEST_WHOLE if name in WHOLE else LARGEST_NUMBER for name in names]
    whole = known[[at for at, name in enumerate(names) if name in WHOLE]]
    steps = [at for at, name in enumerate(names) if name in STEP_COLUMNS]
    fits = (
        # With their number at the start of each, no row has more cells or fewer.
        np.array_equal(table[0], np.arange(first_epoch, first_epoch + count))
        and len(table) > KNOWN[-1]
        and not missing[KNOWN].any()
        and table[EPOCH_COLUMNS.index("wall_seconds")].all()
        and (known.max(axis=1) <= largest).all()
        and (whole == np.floor(whole)).all()
        # All of a step's figures, or none; no single times, which a training epoch does not have.
        and (missing[steps] == (0 if steps and not missing[steps[0]] else count)).all()
        and len(steps) in (0, len(STEP_COLUMNS))
        and len(table) <= EPOCH_COLUMNS.index(next(reversed(STEP_COLUMNS))) + 1
    )
    if not fits:
        return None
    found: dict[str, bytes | str | None] = dict.fromkeys(FIELDS)
    for name in NUMBERS:
        at = EPOCH_COLUMNS.index(COLUMN_OF[name])
        if at < len(table) and missing[at] < count:
            found[name] = table[at].tobytes()
    if steps and not missing[steps[0]]:
        found["steps"] = table[steps].T.tobytes()
    return found
