"""Any other table with a column of times: whoever imports it says what its columns are.

Each time is taken as that of one call, in training of one step. Columns that vary and mean nothing
known tell cases apart: rows that differ there are never the same workload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench_core.column_questions import ARM, COLUMN, VARIANT, is_time_of_a_run, questions
from bench_core.column_roles import (
    TIMES,
    UNIT_SECONDS,
    is_time,
    plain_text,
    precision_of,
    task_of,
    unit_in,
    words_of,
)
from bench_core.device_names import device_of, short_name
from bench_core.foreign_run import Cells, ForeignRuns, cells_of, model_of, reasons, variant_of
from bench_core.imported import IGNORE, Answers, Family, ImportedRun, settled
from bench_core.source import STEP_IS_EPOCH, SYNCHRONISED, Stated
from bench_core.spec import COMPILES, SpecError, Variant, Workload
from bench_core.table_file import BadFile, TableFile

KEY, TITLE = "columns", "a table of times"
STEPS = f"times are taken as those of single steps: {STEP_IS_EPOCH}"
# Rows that are single epochs or calls are no results of whole runs.
SINGLES = {"epoch", "step", "iteration", "iter"}
# Cells that are read as one of a few words, by role.
READABLE = {"precision": precision_of, "device": device_of, "task": task_of}
WHOLE = ("batch_size", "image_size", "samples", "threads", "loader_workers")


def missing(header: Sequence[str]) -> tuple[str, ...]:
    singles = any(words_of(name) and {*words_of(name)} <= SINGLES for name in header)
    return () if any(map(is_time, header)) and not singles else ("a column of times",)


@dataclass(frozen=True, slots=True)
class Mapped:
    """A table whose columns are known: headers by role, arms by header, facts of the whole file."""

    roles: Mapping[str, tuple[str, ...]]
    arms: Mapping[str, Variant]
    variants: Mapping[str, Variant]
    said: Mapping[str, str]
    inferred: Mapping[str, str]

    def one(self, role: str) -> str | None:
        return next(iter(self.roles.get(role, ())), None)


def read(table: TableFile, answers: Answers) -> Iterator[ImportedRun]:
    mapped = _mapped(table, answers)
    runs, places = ForeignRuns(table, KEY), cells_of(table)
    for row in table.rows():
        cells = Cells(table, row, places)
        timed = list(_timed(mapped, cells))
        for header, variant, task in timed:
            yield _run(runs, mapped, cells, header, variant, task)


def _mapped(table: TableFile, answers: Answers) -> Mapped:
    asked = questions(table, answers)
    said = settled(asked, answers)
    roles: dict[str, tuple[str, ...]] = {}
    for key, role in said.items():
        if key.startswith(COLUMN) and role != IGNORE:
            header = key.removeprefix(COLUMN)
            roles[role] = (*roles.get(role, ()), header)
            if len(roles[role]) > 1 and role not in (*TIMES, "case"):
                both = ", ".join(roles[role])
                raise BadFile(f"two columns are {role}: {both}; leave one of them out ({IGNORE})")
    arms = {
        key.removeprefix(ARM): variant_of(said, key)
        for key, text in said.items()
        if key.startswith(ARM) and text != IGNORE
    }
    if not arms and not any(role in roles for role in TIMES):
        raise BadFile("no column of times is left: name one with arm:HEADER or column:HEADER=time")
    variants = {
        key.removeprefix(VARIANT): variant_of(said, key) for key in said if key.startswith(VARIANT)
    }
    told = [one for one in asked if said.get(one.key) != IGNORE]
    return Mapped(roles, arms, variants, said, reasons(told, said))


def _timed(mapped: Mapped, cells: Cells) -> Iterator[tuple[str, Variant, str | None]]:
    """The columns of a row that hold times, of which variant, and the task that this says."""
    for header, variant in mapped.arms.items():
        yield header, _with_mode(mapped, cells, variant), None
    headers = [(name, task) for role, task in TIMES.items() for name in mapped.roles.get(role, ())]
    if not headers:
        return
    column = mapped.one("variant")
    said = mapped.variants[cells.needed(column)] if column else variant_of(mapped.said)
    variant = _with_mode(mapped, cells, said)
    filled = [one for one in headers if cells.text(one[0])]
    # A row without any time is one run that failed.
    for header, task in filled or headers[:1]:
        yield header, variant, task


def _with_mode(mapped: Mapped, cells: Cells, variant: Variant) -> Variant:
    column = mapped.one("mode")
    mode = cells.text(column) if column else None
    if column is None or not mode or mode == "default" or variant.mode:
        return variant
    if variant.execution not in COMPILES:
        return variant
    try:
        return Variant(**{**dict(variant), "mode": mode})
    except SpecError as error:
        raise BadFile(str(error), cells.row.line, column) from None


def _run(
    runs: ForeignRuns,
    mapped: Mapped,
    cells: Cells,
    header: str,
    variant: Variant,
    task: str | None,
) -> ImportedRun:
    said = mapped.said
    unit = _unit_seconds(mapped, header)
    seconds = cells.seconds(header, unit)
    device = _word(mapped, cells, "device")
    workload = _workload(mapped, cells, task)
    inferred = dict(mapped.inferred)
    if workload["task"] == "train":
        inferred["samples"] = STEPS
    start, peak = mapped.one("start_time"), mapped.one("peak_memory_mb")
    compiled = variant.execution != "eager"
    stated = None
    if seconds is not None:
        stated = Stated(
            steady_seconds=seconds,
            start_seconds=_start_seconds(mapped, cells, start) if start and compiled else None,
            peak_memory_bytes=cells.bytes(peak, 1e6) if peak else None,
        )
    machine = mapped.one("machine")
    device_name = plain_text(cells.needed(machine)) if machine else None
    torch = mapped.one("torch")
    text = mapped.one("variant")
    return runs.run(
        cells.row.line,
        short_name(device_name) if device_name else said["machine"],
        device,
        variant,
        workload,
        stated,
        environment={
            "device_name": device_name,
            "torch": cells.text(torch) if torch else said["torch"],
            "threads": cells.whole("threads") if "threads" in mapped.roles else None,
        },
        unstated=[] if device == "cpu" else [SYNCHRONISED],
        inferred=inferred,
        reason="" if stated else f"its row holds no time in {header}",
        variant_text=cells.text(text) if text else header,
    )


def _unit_seconds(mapped: Mapped, header: str) -> float:
    """The file's unit, unless its headers name several."""
    used = [key for key, value in mapped.said.items() if is_time_of_a_run(key, value)]
    named = {unit_in(key) for key in used} - {None}
    unit = unit_in(header) if len(named) > 1 else None
    return UNIT_SECONDS[unit or mapped.said["unit"]]


def _start_seconds(mapped: Mapped, cells: Cells, header: str) -> float | None:
    """In the unit of its own header, which need not be that of the times; else as it was said."""
    return cells.seconds(header, UNIT_SECONDS[unit_in(header) or mapped.said["start_unit"]])


def _word(mapped: Mapped, cells: Cells, role: str) -> str:
    """A cell of the role's column as one of the spec's words; else what was said of the file."""
    column = mapped.one(role)
    if column is None:
        return mapped.said[role]
    cell = cells.needed(column)
    word = READABLE[role](cell)
    if word is None:
        raise BadFile(
            f"{cell!r} is no {role} that is known here; leave the column out ({COLUMN}{column}="
            f"{IGNORE}) and say {role} of the whole file",
            cells.row.line,
            column,
        )
    return word


def _workload(mapped: Mapped, cells: Cells, task: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in Workload.model_fields:
        column = mapped.one(name)
        if column and name not in ("model", *READABLE):
            found[name] = cells.whole(column) if name in WHOLE else cells.text(column)
    found["task"] = task or _word(mapped, cells, "task")
    found["precision"] = _word(mapped, cells, "precision")
    column = mapped.one("model")
    model = cells.needed(column) if column else mapped.said["model"]
    cases = [
        f"{name.rsplit('.')[-1]} {cell}"
        for name in mapped.roles.get("case", ())
        if (cell := cells.text(name))
    ]
    found["model"] = f"other:{model} ({', '.join(cases)})" if cases else model_of(model)
    return found


FAMILY = Family(KEY, TITLE, missing, questions, read)
