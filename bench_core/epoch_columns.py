"""The epochs of a run as columns: what a table on disk or in a file holds, before it is looked at.

A million Epoch objects take longer to make than to read. So columns stay columns until somebody
asks for an epoch, and are not even read before somebody asks for one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, overload

from bench_core.events import Epoch, StepSummary

# By field of Epoch, all equally long; a field without a column has its default, so a required one
# has a column. `steps` holds the values of a StepSummary in its own order, or None.
Columns = Mapping[str, Sequence[Any]]
DEFAULTS = {name: of.default for name, of in Epoch.model_fields.items()}
STEPS = tuple(StepSummary.model_fields)
_values_of = attrgetter(*STEPS)


class EpochColumns(Sequence[Epoch]):
    """So many epochs. `read` is called when a column is wanted, each time: it keeps what it likes.

    The values have been checked by whoever made the columns.
    """

    __slots__ = ("_count", "_read")

    def __init__(self, count: int, read: Callable[[], Columns]) -> None:
        self._count = count
        self._read = read

    @property
    def columns(self) -> Columns:
        return self._read()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Epoch: ...
    @overload
    def __getitem__(self, place: slice) -> list[Epoch]: ...
    def __getitem__(self, place: int | slice) -> Epoch | list[Epoch]:
        if isinstance(place, slice):
            return list(self)[place] if range(self._count)[place] else []
        if not -self._count <= place < self._count:
            raise IndexError(place)  # a loop over a sequence ends by it
        return _epoch({name: values[place] for name, values in self.columns.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(self._count)

    def __iter__(self) -> Iterator[Epoch]:
        if not self._count:
            return
        columns = self.columns
        names = tuple(columns)
        for values in zip(*columns.values(), strict=True):
            yield _epoch(dict(zip(names, values, strict=True)))


def joined(parts: Sequence[Sequence[Epoch]]) -> Sequence[Epoch]:
    """The epochs of all parts, in their order."""
    if not any(isinstance(part, EpochColumns) for part in parts):
        return list(chain.from_iterable(parts))
    names: set[str] = set()
    for part in parts:
        if isinstance(part, EpochColumns):
            names |= part.columns.keys()
        else:
            names |= {name for epoch in part for name, value in epoch if value != DEFAULTS[name]}
    columns: dict[str, list[Any]] = {name: [] for name in names if name != "event"}
    for part in parts:
        for name, values in columns.items():
            values += column(part, name)
    return EpochColumns(sum(map(len, parts)), lambda: columns)


def column(epochs: Sequence[Epoch], name: str) -> Sequence[Any]:
    """One field of all epochs, in order, without making an epoch where there are columns."""
    if not isinstance(epochs, EpochColumns):
        if name == "steps":
            return [epoch.steps and _values_of(epoch.steps) for epoch in epochs]
        return [getattr(epoch, name) for epoch in epochs]
    if not epochs:
        return ()
    columns = epochs.columns
    if name in columns:
        return columns[name]
    return [DEFAULTS[name]] * len(epochs)


def _epoch(fields: dict[str, Any]) -> Epoch:
    if steps := fields.get("steps"):
        fields["steps"] = StepSummary.model_construct(**dict(zip(STEPS, steps, strict=True)))
    return Epoch.model_construct(**fields)
