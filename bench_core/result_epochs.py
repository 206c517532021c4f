"""A row of our CSV as an epoch, or what is wrong with it. `result_lines` reads many at once."""

from __future__ import annotations

from collections.abc import Callable

from bench_core.events import CompileWindow, Epoch, StepSummary
from bench_core.result_cells import (
    LARGEST_NUMBER,
    SHORTEST_SECONDS,
    BadCell,
    Cells,
    Places,
    bad_cell,
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
TIME_RANGE = f"from {SHORTEST_SECONDS:.0e} to {LARGEST_NUMBER:.0e}"
LATENCIES = dict(zip(("step_seconds", "device_seconds"), LATENCY_COLUMNS, strict=True))


def epoch_reader(at: Places, number: Callable[[str], float]) -> Callable[[Cells, int], Epoch]:
    """What makes an epoch of a row; it is told the number that the epoch must have.

    Both raise BadCell.
    """
    # They differ from what their type says.
    own = {
        "wall_seconds": (lambda cell: _time(figure(cell, number)), f"a number {TIME_RANGE}"),
        "accuracy": (lambda cell: _share(figure(cell, number)), "a share from 0 to 1"),
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
        if windows_at is not None:
            fields["compile_windows"] = windows_of(cells[windows_at], len(fields["step_seconds"]))
        return made(Epoch, fields, COLUMNS)

    return read_epoch


def _time(value: float) -> float:
    if not value >= SHORTEST_SECONDS:
        raise ValueError
    return value


def _share(value: float) -> float:
    if value > 1:
        raise ValueError
    return value


def _latencies(column: str, cell: str) -> tuple[float, ...]:
    try:
        seconds = from_json(cell)
        if not isinstance(seconds, list) or not {*map(type, seconds)} <= {int, float}:
            raise ValueError
        if not SHORTEST_SECONDS <= min(seconds) <= max(seconds) <= LARGEST_NUMBER:
            raise ValueError
    except ValueError:
        raise bad_cell(column, f"a JSON list of numbers {TIME_RANGE}", cell) from None
    return tuple(map(float, seconds))


def windows_of(cell: str, iterations: int) -> tuple[CompileWindow, ...]:
    """In inference a window names one of the block's iterations. Raises BadCell."""
    if cell in ("", "[]"):
        return ()
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
