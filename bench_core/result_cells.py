"""What the cells of our CSV must hold: text in, checked values out, and models made of them.

A `Plan` says which cells make a model: the converters are chosen once a file, by the annotations of
the model's fields, and called once a cell. Empty cells are left out: the field keeps its default.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from bench_core.result_csv import restored
from bench_core.spec import Frozen, SpecError

# No time, size or count of a run comes near these; beyond the second a float skips whole numbers.
LARGEST_NUMBER = 1e10
SHORTEST_SECONDS = 1e-9
LARGEST_WHOLE = 2**53
LONGEST_SHOWN = 80

Kind = TypeVar("Kind", bound=Frozen)

# From cell to value; ValueError: it is none. And what it must be, in words.
Converter = tuple[Callable[[str], Any], str]
# Field, place in the row, column, converter, what it must be.
Plan = list[tuple[str, int, str, Callable[[str], Any], str]]
Cells = Sequence[str]
# Place in the row, by column.
Places = Mapping[str, int]


class BadCell(ValueError):
    """A cell, or several together, that cannot be what they must. The reader adds the line."""

    def __init__(self, text: str, column: str | None = None) -> None:
        super().__init__(text)
        self.column = column


def converter(annotation: Any, number: Callable[[str], float]) -> Converter:
    """What reads a field of that type. `number` knows the file's own notation."""
    union = get_origin(annotation) in (UnionType, Union)
    [kind] = set(get_args(annotation)) - {NoneType} if union else (annotation,)
    if kind is bool:
        return boolean, "true or false"
    if kind is int:
        return lambda cell: whole(cell, number), "a whole number from 0 on"
    if kind is float:
        return lambda cell: figure(cell, number), f"a number from 0 to {LARGEST_NUMBER:.0e}"
    if kind is str or get_origin(kind) is Literal:
        return restored, "a text"
    return from_json, "JSON"


def figure(cell: str, number: Callable[[str], float]) -> float:
    value = number(cell)
    if not 0 <= value <= LARGEST_NUMBER:
        raise ValueError
    return value


def whole(cell: str, number: Callable[[str], float]) -> int:
    """Spreadsheets and pandas write 16 as 16.0 too."""
    value = int(cell) if cell.isdecimal() and len(cell) < 17 else number(cell)
    if not (0 <= value <= LARGEST_WHOLE and value == int(value)):
        raise ValueError
    return int(value)


def finite(cell: str, number: Callable[[str], float]) -> float:
    value = number(cell)
    if not math.isfinite(value):
        raise ValueError
    return value


def boolean(cell: str) -> bool:
    return {"true": True, "false": False}[cell.casefold()]


def from_json(cell: str) -> Any:
    try:
        value = json.loads(cell, parse_constant=_no_number)
        if "\\u" in cell:
            json.dumps(value, ensure_ascii=False).encode()  # half a character has no bytes
    except RecursionError:
        raise ValueError from None
    return value


def _no_number(word: str) -> float:
    raise ValueError(word)


def values(cells: Cells, plan: Plan) -> dict[str, Any]:
    """The known fields. Raises BadCell."""
    found = {}
    for field, place, column, convert, what in plan:
        if cell := cells[place]:
            try:
                found[field] = convert(cell)
            except (ValueError, KeyError, OverflowError):
                raise bad_cell(column, what, cell) from None
    return found


def bad_cell(column: str, what: str, cell: str) -> BadCell:
    shown = cell if len(cell) <= LONGEST_SHOWN else cell[: LONGEST_SHOWN - 3] + "..."
    return BadCell(f"must be {what}, got {shown!r}", column)


def made(kind: type[Kind], fields: Mapping[str, Any], columns: Mapping[str, str]) -> Kind:
    """The model of these fields. `columns` are theirs, by field. Raises BadCell."""
    try:
        return kind(**fields)
    except SpecError as error:
        # The sentence begins with the field's name where it is about one.
        raise BadCell(
            str(error), columns.get(re.split("[ :]", str(error), maxsplit=1)[0])
        ) from None


def plan_of(
    kind: type[Frozen], columns: Mapping[str, str], at: Places, number: Callable[[str], float]
) -> Plan:
    """The fields that have a column in this file. `columns` are theirs, by field."""
    return [
        (field, at[column], column, *converter(kind.model_fields[field].annotation, number))
        for field, column in columns.items()
        if column in at
    ]
