"""Rows of the store and the models they are of: values in, values out. No SQL and no file."""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
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
EPOCH_NAMES = (
    *("epoch", "started_at", "wall_seconds", "data_wait_seconds", "compile_seconds"),
    *("compile_windows", "samples", "loss", "evaluation_seconds", "evaluation_compile_seconds"),
    *("accuracy", "peak_memory_bytes", "peak_reserved_bytes", "foreign_cpu_share", "steps"),
)
STEP_NAMES = ("step_seconds", "device_seconds")
STEADY_NAMES = {
    "steady_first": "first",
    "steady_median_seconds": "median_seconds",
    "steady_spread": "spread",
    "steady_count": "count",
    "steady_reason": "reason",
}
DERIVED_NAMES = (*STEADY_NAMES, *(name for name in Derived.__slots__ if name != "steady"))
NO_WINDOWS = "[]"
_windows = TypeAdapter(tuple[CompileWindow, ...])
_steps = struct.Struct(f"<q{len(STEPS) - 1}d")  # the count, and seconds
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


def epoch_rows(number: int, epochs: Sequence[Epoch]) -> Iterator[tuple[Any, ...]]:
    """Values of the run's number, EPOCH_NAMES and STEP_NAMES: a row for each epoch."""
    columns = [
        TO_ROW[name](column(epochs, name)) if name in TO_ROW else column(epochs, name)
        for name in (*EPOCH_NAMES, *STEP_NAMES)
    ]
    return zip(repeat(number, len(epochs)), *columns, strict=True)


def epoch_columns(names: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> Columns:
    """Rows of those names as columns; without single steps there are none."""
    found: dict[str, Sequence[Any]] = dict(zip(names, zip(*rows, strict=True), strict=False))
    for name, convert in FROM_ROW.items():
        if name in found:
            found[name] = convert(found[name])
    if found and "step_seconds" not in found:
        found["step_seconds"] = ((),) * len(found["epoch"])
    return found


def _dumped(windows: Iterable[tuple[CompileWindow, ...]]) -> list[str]:
    return [_windows.dump_json(some).decode() if some else NO_WINDOWS for some in windows]


def _packed(steps: Iterable[Any]) -> list[bytes | None]:
    return [values and _steps.pack(*values) for values in steps]


def _blobs(series: Iterable[Sequence[float]]) -> list[bytes]:
    return [array("d", seconds).tobytes() if seconds else b"" for seconds in series]


def _loaded(texts: Iterable[str]) -> list[tuple[CompileWindow, ...]]:
    return [() if text == NO_WINDOWS else _windows.validate_json(text) for text in texts]


def _unpacked(blobs: Iterable[bytes | None]) -> list[Any]:
    return [blob and _steps.unpack(blob) for blob in blobs]


def _numbers(blobs: Iterable[bytes]) -> list[tuple[float, ...]]:
    return [tuple(array("d", blob)) if blob else () for blob in blobs]


Convert = Callable[[Any], Sequence[Any]]
TO_ROW: Mapping[str, Convert] = {
    "compile_windows": _dumped,
    "steps": _packed,
    **dict.fromkeys(STEP_NAMES, _blobs),
}
FROM_ROW: Mapping[str, Convert] = {
    "compile_windows": _loaded,
    "steps": _unpacked,
    **dict.fromkeys(STEP_NAMES, _numbers),
}


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
