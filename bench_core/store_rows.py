"""Rows of the store and the models they are of: values in, values out. No SQL and no file."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from math import isnan, nan
from typing import Any

from pydantic import TypeAdapter

from bench_core.epoch_columns import STEPS, Columns, column
from bench_core.events import Activity, Aftermath, CompileWindow, Environment, Epoch, Prepared
from bench_core.measured import Derived
from bench_core.run import Run
from bench_core.source import Source, Stated
from bench_core.spec import Frozen, RunSpec, SpecError
from bench_core.stats import SteadyState

# Columns of a run that hold a model's JSON.
PARTS: dict[str, type[Frozen]] = {
    "spec": RunSpec,
    "environment": Environment,
    "prepared": Prepared,
    "activity": Activity,
    "aftermath": Aftermath,
    "source": Source,
    "stated": Stated,
}
RUN_NAMES = tuple(Run.__slots__)
# Of an imported run; the rest is of a run that is measured here.
IMPORTED_NAMES = (
    *("id", "experiment_id", "spec", "status", "failure", "reason", "phase", "created_at"),
    *("started_at", "ended_at", "priming_seconds", "environment", "prepared", "activity"),
    *("aftermath", "round", "protocol_note", "unstated", "source", "stated", "import_id"),
)
# Of an epoch, one value each; the windows and the single times are lists.
NUMBER_NAMES = (
    *("epoch", "started_at", "wall_seconds", "data_wait_seconds", "compile_seconds", "samples"),
    *("loss", "evaluation_seconds", "evaluation_compile_seconds", "accuracy"),
    *("peak_memory_bytes", "peak_reserved_bytes", "foreign_cpu_share"),
)
WHOLE_NAMES = ("epoch", "samples", "peak_memory_bytes", "peak_reserved_bytes")
EPOCH_NAMES = (*NUMBER_NAMES, "compile_windows")
STEP_NAMES = ("step_seconds", "device_seconds")
# Of all epochs of an imported run together.
PACKED_NAMES = (*EPOCH_NAMES, "steps", *STEP_NAMES)
STEADY_NAMES = {
    "steady_first": "first",
    "steady_median_seconds": "median_seconds",
    "steady_spread": "spread",
    "steady_count": "count",
    "steady_reason": "reason",
}
DERIVED_NAMES = (*STEADY_NAMES, *(name for name in Derived.__slots__ if name != "steady"))
_windows = TypeAdapter(tuple[CompileWindow, ...])
_windows_by_place = TypeAdapter(dict[int, tuple[CompileWindow, ...]])
# Rows of runs that were read before, by file and number.
_read: dict[tuple[str, int], tuple[tuple[Any, ...], Run]] = {}
MOST_READ = 50_000


def run_of(file: str, row: tuple[Any, ...]) -> Run:
    """A row of RUN_NAMES as a run. SpecError: a part of it that is none.

    A page reads the same runs again and again: the same row is the same object.
    """
    key = (file, row[0])
    known = _read.get(key)
    if known and known[0] == row:
        return known[1]
    fields = dict(zip(RUN_NAMES, row, strict=True))
    for name, kind in PARTS.items():
        if fields[name] is not None:
            try:
                fields[name] = _part(kind, fields[name])
            except SpecError as error:
                raise SpecError(f"run {row[0]} cannot be read ({name}: {error})") from error
    fields["unstated"] = tuple(json.loads(fields["unstated"]))
    run = Run(**fields)
    if len(_read) >= MOST_READ:
        _read.clear()
    _read[key] = (row, run)
    return run


@lru_cache(maxsize=8192)
def _part(kind: type[Frozen], line: str) -> Frozen:
    """Many runs share an environment."""
    return kind.from_json(line)


def imported_row(run: Run) -> tuple[Any, ...]:
    """The values of IMPORTED_NAMES."""
    values = [getattr(run, name) for name in IMPORTED_NAMES]
    values[IMPORTED_NAMES.index("unstated")] = json.dumps(run.unstated)
    return tuple(one.to_json() if isinstance(one, Frozen) else one for one in values)


def epoch_row(epoch: Epoch) -> tuple[Any, ...]:
    """The values of EPOCH_NAMES and STEP_NAMES."""
    return (
        *(getattr(epoch, name) for name in NUMBER_NAMES),
        _windows.dump_json(epoch.compile_windows).decode(),
        *(array("d", getattr(epoch, name)).tobytes() for name in STEP_NAMES),
    )


def columns_of_rows(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Columns:
    """Rows of those names as columns; without single steps there are none."""
    found: dict[str, Sequence[Any]] = dict(zip(names, zip(*rows, strict=True), strict=False))
    if not found:
        return {}
    found["compile_windows"] = [
        _windows.validate_json(text) if text != "[]" else () for text in found["compile_windows"]
    ]
    for name in STEP_NAMES:
        blobs = found.get(name, (b"",) * len(found["epoch"]))
        found[name] = [tuple(array("d", blob)) for blob in blobs]
    return found


# A column of an imported run is one blob of 8-byte floats; NaN is what is not known.


def packed(epochs: Sequence[Epoch]) -> tuple[Any, ...]:
    """The values of PACKED_NAMES; None for a column of which nothing is known."""
    numbers = [_packed(column(epochs, name)) for name in NUMBER_NAMES]
    windows = {at: some for at, some in enumerate(column(epochs, "compile_windows")) if some}
    steps = column(epochs, "steps")
    nothing = (nan,) * len(STEPS)
    return (
        *numbers,
        _windows_by_place.dump_json(windows).decode() if windows else None,
        _packed([*chain.from_iterable(one or nothing for one in steps)]) if any(steps) else None,
        *(_packed_lists(column(epochs, name)) for name in STEP_NAMES),
    )


def columns_of_packed(count: int, values: Sequence[Any]) -> Columns:
    """The inverse of `packed`."""
    of = dict(zip(PACKED_NAMES, values, strict=True))
    found: dict[str, Sequence[Any]] = {
        name: _unpacked(of[name], count, whole=name in WHOLE_NAMES) for name in NUMBER_NAMES
    }
    windows = _windows_by_place.validate_json(of["compile_windows"] or "{}")
    found["compile_windows"] = [windows.get(at, ()) for at in range(count)]
    steps = iter(_unpacked(of["steps"], count * len(STEPS)))
    found["steps"] = [
        None if first is None else (int(first), *rest)
        for first, *rest in zip(*[steps] * len(STEPS), strict=True)
    ]
    for name in STEP_NAMES:
        found[name] = _unpacked_lists(of[name], count)
    return found


def _packed(values: Sequence[float | None]) -> bytes | None:
    try:
        return array("d", values).tobytes()  # type: ignore[type-var]  # nearly always all are known
    except TypeError:
        if values.count(None) == len(values):
            return None
    return array("d", [nan if value is None else value for value in values]).tobytes()


def _unpacked(blob: bytes | None, count: int, whole: bool = False) -> list[Any]:
    if blob is None:
        return [None] * count
    values: list[Any] = array("d", blob).tolist()
    if isnan(sum(values)):
        values = [None if isnan(value) else value for value in values]
    if whole:
        return [None if value is None else int(value) for value in values]
    return values


def _packed_lists(lists: Sequence[Sequence[float]]) -> bytes | None:
    """How long each is, then all of their values."""
    if not any(lists):
        return None
    return array("d", [*map(len, lists), *chain.from_iterable(lists)]).tobytes()


def _unpacked_lists(blob: bytes | None, count: int) -> list[tuple[float, ...]]:
    if blob is None:
        return [()] * count
    values = array("d", blob)
    found, begin = [], count
    for length in map(int, values[:count]):
        found.append(tuple(values[begin : begin + length]))
        begin += length
    return found


def derived_row(derived: Derived) -> tuple[Any, ...]:
    """The values of DERIVED_NAMES."""
    return tuple(
        getattr(derived.steady, STEADY_NAMES[name])
        if name in STEADY_NAMES
        else getattr(derived, name)
        for name in DERIVED_NAMES
    )


def derived_of(row: Sequence[Any]) -> Derived:
    fields = dict(zip(DERIVED_NAMES[len(STEADY_NAMES) :], row[len(STEADY_NAMES) :], strict=True))
    fields["tested"] = bool(fields["tested"])
    return Derived(SteadyState(*row[: len(STEADY_NAMES)]), **fields)
