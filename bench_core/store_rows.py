"""Rows of the store and the models they are of: values in, values out. No SQL and no file."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from bench_core.epoch_columns import FIELDS, LISTS, NUMBERS, packed
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
EPOCH_NAMES = (*NUMBERS, "compile_windows")
STEADY_NAMES = {
    "steady_first": "first",
    "steady_median_seconds": "median_seconds",
    "steady_spread": "spread",
    "steady_count": "count",
    "steady_reason": "reason",
}
DERIVED_NAMES = (*STEADY_NAMES, *(name for name in Derived.__slots__ if name != "steady"))
_windows = TypeAdapter(tuple[CompileWindow, ...])
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


def imported_row(run: Run, import_id: str) -> tuple[Any, ...]:
    """The values of IMPORTED_NAMES."""
    values = [getattr(run, name) for name in IMPORTED_NAMES[:-1]] + [import_id]
    values[IMPORTED_NAMES.index("unstated")] = json.dumps(run.unstated)
    return tuple(one.to_json() if isinstance(one, Frozen) else one for one in values)


def epoch_row(epoch: Epoch) -> tuple[Any, ...]:
    """The values of EPOCH_NAMES and LISTS."""
    return (
        *(getattr(epoch, name) for name in NUMBERS),
        _windows.dump_json(epoch.compile_windows).decode(),
        *(array("d", getattr(epoch, name)).tobytes() for name in LISTS),
    )


def epoch_of(names: Sequence[str], row: Sequence[Any]) -> Epoch:
    """The inverse, of the columns that were asked for; without single steps there are none."""
    fields: dict[str, Any] = dict(zip(names, row, strict=True))
    text = fields["compile_windows"]
    fields["compile_windows"] = _windows.validate_json(text) if text != "[]" else ()
    for name in LISTS:
        fields[name] = tuple(array("d", fields.get(name, b"")))
    return Epoch.model_construct(**fields)  # checked when it was written


def packed_row(epochs: Sequence[Epoch]) -> tuple[Any, ...]:
    """The values of FIELDS: each field of all epochs of a run."""
    of = packed(epochs)
    return tuple(of[name] for name in FIELDS)


def derived_row(derived: Derived) -> tuple[Any, ...]:
    """The values of DERIVED_NAMES."""
    return tuple(
        getattr(derived.steady, STEADY_NAMES[name])
        if name in STEADY_NAMES
        else getattr(derived, name)
        for name in DERIVED_NAMES
    )


def derived_of(row: Sequence[Any]) -> Derived:
    steady, tested = SteadyState(*row[: len(STEADY_NAMES)]), bool(row[-1])
    return Derived(steady, *row[len(STEADY_NAMES) : -1], tested=tested)  # type: ignore[misc]
