"""The epochs of a run as columns: one blob a field, as the store keeps those of an imported run.

A million Epoch objects take longer to make than to read. So columns stay blobs until somebody asks
for one, or for an epoch, and are not even read before. How a column is packed: 8-byte floats, one
an epoch, NaN for what is not known; steps are seven of them an epoch; lists of single times are how
long each is, then all of their values; windows are JSON by the epoch's place. A field of which
nothing is known has None.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from math import isnan, nan
from operator import attrgetter
from typing import Any, overload

import numpy as np
from pydantic import TypeAdapter

from bench_core.events import CompileWindow, Epoch, StepSummary

# By field of Epoch.
Packed = Mapping[str, bytes | str | None]
# One value an epoch.
NUMBERS = (
    *("epoch", "started_at", "wall_seconds", "data_wait_seconds", "compile_seconds", "samples"),
    *("loss", "evaluation_seconds", "evaluation_compile_seconds", "accuracy"),
    *("peak_memory_bytes", "peak_reserved_bytes", "foreign_cpu_share"),
)
WHOLE = ("epoch", "samples", "peak_memory_bytes", "peak_reserved_bytes")
LISTS = ("step_seconds", "device_seconds")
FIELDS = (*NUMBERS, "compile_windows", "steps", *LISTS)
STEPS = tuple(StepSummary.model_fields)
UNKNOWN_STEPS = (nan,) * len(STEPS)
_values_of = attrgetter(*STEPS)
_windows = TypeAdapter(dict[int, tuple[CompileWindow, ...]])


class EpochColumns(Sequence[Epoch]):
    """So many epochs. `read` is called when something of them is wanted, each time.

    The values have been checked by whoever packed them.
    """

    __slots__ = ("_count", "_read")

    def __init__(self, count: int, read: Callable[[], Packed]) -> None:
        self._count = count
        self._read = read

    @property
    def packed(self) -> Packed:
        return self._read()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Epoch: ...
    @overload
    def __getitem__(self, place: slice) -> list[Epoch]: ...
    def __getitem__(self, place: int | slice) -> Epoch | list[Epoch]:
        if isinstance(place, int):
            range(self._count)[place]  # a loop over a sequence ends by its IndexError
        return list(self)[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(self._count)

    def __iter__(self) -> Iterator[Epoch]:
        if not self._count:
            return
        packed = self.packed
        columns = [_unpacked(packed, name, self._count) for name in FIELDS]
        for values in zip(*columns, strict=True):
            fields = dict(zip(FIELDS, values, strict=True))
            if fields["steps"]:
                steps = dict(zip(STEPS, fields["steps"], strict=True))
                fields["steps"] = StepSummary.model_construct(**steps)
            yield Epoch.model_construct(**fields)


def column(epochs: Sequence[Epoch], name: str) -> list[Any]:
    """One field of all epochs, in order, without making an epoch where there are columns.

    Of `steps` the values alone, in the order of StepSummary.
    """
    if isinstance(epochs, EpochColumns):
        return _unpacked(epochs.packed, name, len(epochs)) if epochs else []
    if name == "steps":
        return [epoch.steps and _values_of(epoch.steps) for epoch in epochs]
    return [getattr(epoch, name) for epoch in epochs]


def numbers(epochs: Sequence[Epoch], name: str) -> np.ndarray:
    """`column` of a field of one number, for arithmetic: NaN where it is not known."""
    if not isinstance(epochs, EpochColumns):
        return np.array([getattr(epoch, name) for epoch in epochs], dtype=float)  # None is NaN
    blob = epochs.packed[name] if epochs else None
    return np.frombuffer(blob) if isinstance(blob, bytes) else np.full(len(epochs), nan)


def packed(epochs: Sequence[Epoch]) -> Packed:
    if isinstance(epochs, EpochColumns) and epochs:
        return epochs.packed
    windows = {at: epoch.compile_windows for at, epoch in enumerate(epochs)}
    steps = column(epochs, "steps")
    return {
        **{name: _packed_numbers(column(epochs, name)) for name in NUMBERS},
        "compile_windows": packed_windows(windows),
        "steps": _packed_numbers([*chain.from_iterable(one or UNKNOWN_STEPS for one in steps)])
        if any(steps)
        else None,
        **{name: _packed_lists(column(epochs, name)) for name in LISTS},
    }


def joined(parts: Sequence[Sequence[Epoch]]) -> Sequence[Epoch]:
    """The epochs of all parts, in their order."""
    if len(parts) == 1 and isinstance(parts[0], EpochColumns):
        return parts[0]
    if not any(isinstance(part, EpochColumns) for part in parts):
        return list(chain.from_iterable(parts))
    found = [(len(part), packed(part)) for part in parts]
    whole: dict[str, bytes | str | None] = {}
    for name in FIELDS:
        blobs = [(count, of[name]) for count, of in found]
        if not any(blob for _, blob in blobs):
            whole[name] = None
        elif name in NUMBERS or name == "steps":
            width = len(STEPS) if name == "steps" else 1
            whole[name] = b"".join(blob or _nothing(count * width) for count, blob in blobs)  # type: ignore[misc]
        else:
            values = [*chain.from_iterable(column(part, name) for part in parts)]
            if name == "compile_windows":
                whole[name] = packed_windows(dict(enumerate(values)))
            else:
                whole[name] = _packed_lists(values)
    return EpochColumns(sum(count for count, _ in found), lambda: whole)


def _nothing(count: int) -> bytes:
    return array("d", [nan]).tobytes() * count


def _packed_numbers(values: list[Any]) -> bytes | None:
    try:
        return array("d", values).tobytes()
    except TypeError:  # not all of them are known
        if values.count(None) == len(values):
            return None
    return array("d", [nan if value is None else value for value in values]).tobytes()


def packed_windows(windows: dict[int, tuple[CompileWindow, ...]]) -> str | None:
    some = {at: of_epoch for at, of_epoch in windows.items() if of_epoch}
    return _windows.dump_json(some).decode() if some else None


def _packed_lists(lists: Sequence[Sequence[float]]) -> bytes | None:
    if not any(lists):
        return None
    return array("d", [*map(len, lists), *chain.from_iterable(lists)]).tobytes()


def _unpacked(of: Packed, name: str, count: int) -> list[Any]:
    blob = of[name]
    if isinstance(blob, str):
        windows = _windows.validate_json(blob)
        return [windows.get(at, ()) for at in range(count)]
    if blob is None:
        return [None if name in (*NUMBERS, "steps") else ()] * count
    values = array("d", blob)
    if name in LISTS:
        return _lists(values, count)
    if name == "steps":
        each = iter(_known(values))
        return [
            None if first is None else (int(first), *rest)
            for first, *rest in zip(*[each] * len(STEPS), strict=True)
        ]
    if name in WHOLE:
        return [value if value is None else int(value) for value in _known(values)]
    return _known(values)


def _known(values: array[float]) -> list[Any]:
    known = values.tolist()
    return [None if isnan(one) else one for one in known] if isnan(sum(known)) else known


def _lists(values: array[float], count: int) -> list[tuple[float, ...]]:
    found, begin = [], count
    for length in map(int, values[:count]):
        found.append(tuple(values[begin : begin + length]))
        begin += length
    return found
