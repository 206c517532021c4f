"""Rows of our CSV that differ from the one before in the numbers of an epoch only, read at once.

A file of a million rows consists of them. Cut into cells and looked at one by one they take ten
times as long, so they stay text until those of many runs are turned into columns together, beside
the thread that makes runs of the ones before. Whatever is not as we write it is left to
`result_file`, row by row, which finds out what is wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bench_core.epoch_columns import FIELDS, NUMBERS, EpochColumns, packed_windows
from bench_core.events import Epoch
from bench_core.result_cells import LARGEST_NUMBER, LARGEST_WHOLE, SHORTEST_SECONDS, BadCell
from bench_core.result_csv import (
    EPOCH_COLUMNS,
    EPOCH_NAMES,
    IDENTITY,
    LATENCY_COLUMNS,
    STEP_COLUMNS,
)
from bench_core.result_epochs import windows_of
from bench_core.table_file import BadFile, Block, TableFile

SEPARATOR = b","
BEFORE_FACTS = (*IDENTITY, *EPOCH_COLUMNS)
WINDOWS = "compile_windows"
WINDOWS_AT = BEFORE_FACTS.index(WINDOWS)
NO_WINDOWS = "[]"
# The columns of numbers, in the order of the fields that they are packed as.
FIGURES = (*(EPOCH_NAMES.get(name, name) for name in NUMBERS), *STEP_COLUMNS)
WHOLE = ("epoch", "epoch_samples", "peak_memory_bytes", "peak_reserved_bytes", "step_count")
LARGEST = np.array([LARGEST_WHOLE if name in WHOLE else LARGEST_NUMBER for name in FIGURES])
LARGEST[FIGURES.index("accuracy")] = 1.0
LEAST = np.array([-LARGEST_NUMBER if name == "loss" else 0.0 for name in FIGURES])
LEAST[FIGURES.index("wall_seconds")] = SHORTEST_SECONDS
WHOLE_AT = [FIGURES.index(name) for name in WHOLE]
STEPS_AT = slice(len(NUMBERS), None)
# Never empty.
KNOWN_AT = [
    NUMBERS.index(name)
    for name in NUMBERS
    if Epoch.model_fields[name].is_required() and name != "loss"
]
# So many rows are read together: 5 MB of text.
ROWS_AT_ONCE = 10_000
# So often, beside whoever takes them in larger portions.
AHEAD = 4


def blocks(table: TableFile) -> Iterator[tuple[Block, EpochColumns | None]]:
    """The rows of a file in its order, with the epochs of a block where all are as we write them.

    They are numbered one by one, from whatever number on. Raises BadFile.
    """
    as_written = (
        table.separator.encode() == SEPARATOR and table.header[: len(BEFORE_FACTS)] == BEFORE_FACTS
    )
    if not as_written or not _has_arrow():
        yield from ((block, None) for block in table.blocks())
        return
    groups = _groups(table)
    with ThreadPoolExecutor(1) as beside:
        coming = deque(beside.submit(next, groups, None) for _ in range(AHEAD))
        while group := coming.popleft().result():
            coming.append(beside.submit(next, groups, None))
            yield from group


def _has_arrow() -> bool:
    """It comes with the dashboard. The command line does without, more slowly."""
    try:
        import pyarrow.csv  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        return False
    return True


def _groups(table: TableFile) -> Iterator[list[tuple[Block, EpochColumns | None]]]:
    facts = len(table.header) - len(BEFORE_FACTS)
    group: list[Block] = []
    rows = 0
    try:
        # Three of four cells are facts, empty below the first row of a run.
        for block in table.blocks(len(IDENTITY), facts, ROWS_AT_ONCE):
            group.append(block)
            rows += 1 + len(block.alike)
            if rows >= ROWS_AT_ONCE:
                yield [*zip(group, _epochs(group), strict=True)]
                group, rows = [], 0
    except BadFile:
        # Something may be wrong in what stands above, too.
        if group:
            yield [*zip(group, _epochs(group), strict=True)]
        raise
    if group:
        yield [*zip(group, _epochs(group), strict=True)]


def _epochs(group: Sequence[Block]) -> list[EpochColumns | None]:
    """The epochs of each block; None for one of a single row, or where a row needs care."""
    several = [block for block in group if block.alike]
    found = iter(_together(several) or [_alone(block) for block in several])
    return [next(found) if block.alike else None for block in group]


def _alone(block: Block) -> EpochColumns | None:
    found = _together([block])
    return found[0] if found else None


def _together(several: Sequence[Block]) -> Sequence[EpochColumns | None] | None:
    """None where a row of them needs care."""
    if not several:
        return None
    try:
        windows = [_windows(block) for block in several]
    except BadCell:
        return None
    counts = np.array([1 + len(block.alike) for block in several])
    figures = _figures(several)
    if figures is None or figures.shape[1] != counts.sum():
        return None
    ends = counts.cumsum()
    begins = ends - counts
    unknown = np.isnan(figures)
    known = np.where(unknown, LEAST[:, None], figures)
    numbered = np.arange(ends[-1]) - np.repeat(begins - figures[0, begins], counts)
    fits = (
        np.array_equal(figures[0], numbered)
        and not unknown[KNOWN_AT].any()
        and (known.min(axis=1) >= LEAST).all()
        and (known.max(axis=1) <= LARGEST).all()
        and (known[WHOLE_AT] == np.floor(known[WHOLE_AT])).all()
        # All of a step's figures, or none.
        and (unknown[STEPS_AT].all(axis=0) == unknown[STEPS_AT].any(axis=0)).all()
    )
    if not fits:
        return None
    some = ~np.logical_and.reduceat(unknown, begins, axis=1)
    return [
        _columns(figures[:, begin:end], some[:, place], of_first)
        for place, (begin, end, of_first) in enumerate(zip(begins, ends, windows, strict=True))
    ]


def _windows(block: Block) -> str | None:
    """Those of the first row, packed; the others have none. Raises BadCell."""
    return packed_windows({0: windows_of(block.first.cells[WINDOWS_AT], 0)})


def _figures(several: Sequence[Block]) -> np.ndarray | None:
    """FIGURES by row, NaN for an empty cell. None: a line is not one of numbers.

    Exact: every digit counts. Of what is a number nothing is taken that `TableFile.number` refuses.
    """
    from pyarrow import (  # large
        ArrowInvalid,
        BufferReader,
        csv,
        float64,
        null,
        string,
    )

    lines: list[bytes] = []
    for block in several:
        cells = block.first.cells[len(IDENTITY) : len(BEFORE_FACTS)]
        cells[EPOCH_COLUMNS.index(WINDOWS)] = NO_WINDOWS
        lines += (block.head + ",".join(cells).encode(), *block.alike)
    text = b"\n".join(lines)
    types = dict.fromkeys(FIGURES, float64()) | dict.fromkeys(LATENCY_COLUMNS, null())
    try:
        found = csv.read_csv(
            BufferReader(text),
            csv.ReadOptions(column_names=BEFORE_FACTS, use_threads=False, block_size=len(text) + 1),
            csv.ParseOptions(quote_char=False),
            csv.ConvertOptions(
                column_types=types | {WINDOWS: string()},
                include_columns=[*FIGURES, WINDOWS, *LATENCY_COLUMNS],
                null_values=[""],
            ),
        )
    except ArrowInvalid:
        return None
    columns = [found[name].chunk(0) for name in FIGURES]
    figures = np.array([column.to_numpy(zero_copy_only=False) for column in columns])
    if np.isnan(figures).sum() != sum(column.null_count for column in columns):
        return None  # the word, not an empty cell
    return figures if found[WINDOWS].unique().to_pylist() == [NO_WINDOWS] else None


def _columns(figures: np.ndarray, some: np.ndarray, windows: str | None) -> EpochColumns:
    """`some` says of which figures anything is known."""
    found: dict[str, bytes | str | None] = dict.fromkeys(FIELDS)
    for name, values, known in zip(NUMBERS, figures, some, strict=False):
        if known:
            found[name] = values.tobytes()
    if some[STEPS_AT].any():
        found["steps"] = figures[STEPS_AT].T.tobytes()
    found[WINDOWS] = windows
    return EpochColumns(figures.shape[1], lambda: found)
