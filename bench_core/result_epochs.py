"""Rows of our CSV as epochs: what a file of a million rows is read by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite
from operator import itemgetter
from typing import Any

from bench_core.events import CompileWindow, Epoch, StepSummary
from bench_core.result_cells import (
    LARGEST_NUMBER,
    LARGEST_WHOLE,
    BadCell,
    Cells,
    Places,
    bad_cell,
    built,
    figure,
    finite,
    from_json,
    made,
    plan_of,
    values,
)
from bench_core.result_csv import EPOCH_NAMES, LATENCY_COLUMNS, STEP_COLUMNS, TIMES

# By field; windows and single times are lists, read apart.
COLUMNS = {
    field: EPOCH_NAMES.get(field, field)
    for field in Epoch.model_fields
    if field not in ("event", "compile_windows", *TIMES)
}
SUMMARY_COLUMNS = {field: column for column, field in STEP_COLUMNS.items()}
LATENCIES = dict(zip(("step_seconds", "device_seconds"), LATENCY_COLUMNS, strict=True))


# One number each, in the order in which they are read at once: seconds and shares, the first four
# of them always known, and whole numbers, of which the first two are.
FLOATS = (
    *("started_at", "wall_seconds", "data_wait_seconds", "compile_seconds", "evaluation_seconds"),
    *("evaluation_compile_seconds", "accuracy", "foreign_cpu_share"),
)
WHOLE = ("epoch", "samples", "peak_memory_bytes", "peak_reserved_bytes")
LISTS = ("compile_windows", *LATENCY_COLUMNS)
NO_LISTS = ("[]", "", "")
NO_STEPS = ("",) * len(SUMMARY_COLUMNS)
USUAL: dict[str, Any] = {
    name: None if field.is_required() else field.default
    for name, field in Epoch.model_fields.items()
} | {"step_seconds": ()}
EPOCH_FIELDS, SUMMARY_FIELDS = set(Epoch.model_fields), set(StepSummary.model_fields)


def epoch_reader(at: Places, number: Callable[[str], float]) -> Callable[[Cells, int], Epoch]:
    """What makes an epoch of a row; it is told the number that the epoch must have.

    Both raise BadCell. A training epoch that compiled nothing, with its cells as we write them, is
    read at once; every other row carefully, which finds out what is wrong, if anything is.
    """
    careful = _careful_reader(at, number)
    if not at.keys() >= {*COLUMNS.values(), *SUMMARY_COLUMNS.values(), *LISTS}:
        return careful
    floats_of = itemgetter(*(at[COLUMNS[field]] for field in FLOATS))
    whole_of = itemgetter(*(at[COLUMNS[field]] for field in WHOLE))
    steps_of = itemgetter(*(at[column] for column in SUMMARY_COLUMNS.values()))
    lists_of = itemgetter(*(at[column] for column in LISTS))
    loss_at = at["loss"]

    def read_epoch(cells: Cells, count: int) -> Epoch:
        step_cells, loss_cell = steps_of(cells), cells[loss_at]
        if lists_of(cells) != NO_LISTS:
            return careful(cells, count)
        try:
            floats = [float(cell) if cell else None for cell in floats_of(cells)]
            whole = [int(cell) if cell else None for cell in whole_of(cells)]
            steps = [] if step_cells == NO_STEPS else [float(cell) for cell in step_cells]
            loss = float(loss_cell) if loss_cell else None
        except ValueError:
            return careful(cells, count)
        started_at, wall, wait, compiling, evaluation, compiling_it, accuracy, foreign = floats
        epoch, samples, memory, reserved = whole
        if (
            None in (started_at, wall, wait, compiling, samples)
            or epoch != count
            or not wall
            or not _within(floats, LARGEST_NUMBER)
            or not _within(steps, LARGEST_NUMBER)
            or not _within(whole, LARGEST_WHOLE)
            or not isfinite(loss or 0.0)
        ):
            return careful(cells, count)
        summary = None
        if steps:
            taken, total, least, p5, p50, p95, most = steps
            if not taken.is_integer():
                return careful(cells, count)
            summary = {"count": int(taken), "sum": total, "min": least, "p5": p5, "p50": p50}
            summary |= {"p95": p95, "max": most}
        fields = {
            **USUAL,
            "epoch": epoch,
            "started_at": started_at,
            "wall_seconds": wall,
            "data_wait_seconds": wait,
            "compile_seconds": compiling,
            "samples": samples,
            "loss": loss,
            "evaluation_seconds": evaluation,
            "evaluation_compile_seconds": compiling_it,
            "accuracy": accuracy,
            "peak_memory_bytes": memory,
            "peak_reserved_bytes": reserved,
            "foreign_cpu_share": foreign,
            "steps": built(StepSummary, summary, SUMMARY_FIELDS) if summary else None,
        }
        return built(Epoch, fields, EPOCH_FIELDS)

    return read_epoch


def _within(values: Iterable[float | None], largest: float) -> bool:
    for value in values:  # noqa: SIM110 - a generator in `all` takes twice as long
        if value is not None and not 0 <= value <= largest:
            return False
    return True


def _careful_reader(at: Places, number: Callable[[str], float]) -> Callable[[Cells, int], Epoch]:
    # They differ from what their type says.
    own = {
        "wall_seconds": (lambda cell: _above_0(figure(cell, number)), "a number above 0"),
        "loss": (lambda cell: finite(cell, number), "a finite number"),
    }
    plan = [
        (field, place, column, *own.get(field, (convert, what)))
        for field, place, column, convert, what in plan_of(Epoch, COLUMNS, at, number)
    ]
    summary_plan = plan_of(StepSummary, SUMMARY_COLUMNS, at, number)
    latencies_at = [
        (field, column, at[column]) for field, column in LATENCIES.items() if column in at
    ]
    windows_at, epoch_at = at.get("compile_windows"), at["epoch"]

    def read_epoch(cells: Cells, count: int) -> Epoch:
        fields = values(cells, plan)
        if fields["epoch"] != count:
            raise BadCell(
                f"must be {count}, since epochs count from 1 and none is left out, got "
                f"{cells[epoch_at]!r}",
                "epoch",
            )
        fields.setdefault("loss", None)
        for field, column, place in latencies_at:
            if cell := cells[place]:
                fields[field] = _latencies(column, cell)
        if "step_seconds" not in fields:
            fields["step_seconds"] = ()
            if summary := values(cells, summary_plan):
                fields["steps"] = made(StepSummary, summary, SUMMARY_COLUMNS)
        if windows_at is not None and (cell := cells[windows_at]) not in ("", "[]"):
            fields["compile_windows"] = _windows(cell, len(fields["step_seconds"]))
        return made(Epoch, fields, COLUMNS)

    return read_epoch


def _above_0(value: float) -> float:
    if not value > 0:
        raise ValueError
    return value


def _latencies(column: str, cell: str) -> tuple[float, ...]:
    try:
        seconds = from_json(cell)
        if not isinstance(seconds, list) or not {*map(type, seconds)} <= {int, float}:
            raise ValueError
        if not 0 < min(seconds) <= max(seconds) <= LARGEST_NUMBER:
            raise ValueError
    except ValueError:
        raise bad_cell(column, "a JSON list of numbers above 0", cell) from None
    return tuple(map(float, seconds))


def _windows(cell: str, iterations: int) -> tuple[CompileWindow, ...]:
    """In inference a window names one of the block's iterations."""
    try:
        found = tuple(CompileWindow(**window) for window in from_json(cell))
        for window in found:
            if not 0 <= window.seconds <= LARGEST_NUMBER:
                raise ValueError
            if window.iteration is not None and not 0 <= window.iteration < iterations:
                raise ValueError
    except (ValueError, TypeError):  # a SpecError is a ValueError
        what = "a JSON list of windows, each with trigger, offset_seconds, seconds and iteration"
        raise bad_cell("compile_windows", what, cell) from None
    return found
