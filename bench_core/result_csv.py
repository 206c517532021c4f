"""Our CSV: one row an epoch (of inference a block), every stored fact, next to nothing computed.

Columns come from the models (spec.py, events.py), so a new field is a new column. What identifies
a row stands on every row; the other facts of a run stand on its first row only, because repeating
them made files five times as large. A run without an epoch (failed, queued) is one row without
numbers. Neither pandas nor scipy: the command line writes this file where they are not installed.
`result_file` reads it back.

How a cell reads: empty is "not known", numbers have full precision, booleans are `true` and
`false`, lists and mappings are JSON. A text that a spreadsheet would run as a formula gets an
apostrophe in front, and so does one that begins with an apostrophe, and an empty text that is not
the same as "not known": taking one leading apostrophe away restores every text. Only the times of a
training's single steps are summed up (`step_file` holds them): in inference a row is a block of
iterations, and holds every latency.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from bench_core import stats
from bench_core.events import Activity, Aftermath, Environment, Epoch, Prepared, StepSummary
from bench_core.measured import Arm, Measured
from bench_core.result_columns import MEANINGS, SUMMARY_MEANINGS
from bench_core.run import Run
from bench_core.source import Source, Stated
from bench_core.spec import Experiment, Frozen, Measurement, Variant, Workload

# 2: `stated_`, without which a run that has no epochs would seem to have measured nothing.
SCHEMA_VERSION = 2

# A spreadsheet takes a cell that begins with one of these for a formula.
RUN_BY_SPREADSHEETS = ("=", "+", "-", "@", "\t", "\r")

# Where a run's facts come from, and what their columns are called.
PARTS: tuple[tuple[str, type[Frozen], Callable[[Run], Frozen | None]], ...] = (
    ("", Workload, lambda run: run.spec.workload),
    ("", Variant, lambda run: run.spec.variant),
    ("", Measurement, lambda run: run.spec.measurement),
    ("env_", Environment, lambda run: run.environment),
    ("prepared_", Prepared, lambda run: run.prepared),
    ("compiler_", Activity, lambda run: run.activity),
    ("after_", Aftermath, lambda run: run.aftermath),
    ("source_", Source, lambda run: run.source),
    ("stated_", Stated, lambda run: run.stated),
)
RUN_FACTS = (
    "failure",
    "reason",
    "phase",
    "created_at",
    "started_at",
    "ended_at",
    "priming_seconds",
    "round",
    "protocol_note",
    "unstated",
)

# An epoch's fields whose names a run's facts have too.
EPOCH_NAMES = {"samples": "epoch_samples", "started_at": "epoch_started_at"}
# Single times: in training summed up, in inference lists of their own.
TIMES = ("step_seconds", "device_seconds", "steps")
LATENCY_COLUMNS = ("iteration_seconds", "device_seconds")
STEP_COLUMNS = {
    "step_count": "count",
    "step_seconds_sum": "sum",
    "step_seconds_min": "min",
    "step_seconds_p5": "p5",
    "step_seconds_p50": "p50",
    "step_seconds_p95": "p95",
    "step_seconds_max": "max",
}


# What stands on every row of a run.
IDENTITY: dict[str, Callable[[Run], Any]] = {
    "schema_version": lambda run: SCHEMA_VERSION,
    "run_id": lambda run: run.id,
    "experiment_id": lambda run: run.experiment_id,
    "machine": lambda run: run.machine or None,
    "device": lambda run: run.spec.device,
    "model": lambda run: run.spec.workload.model,
    "execution": lambda run: run.spec.variant.execution,
    "variant": lambda run: run.spec.variant.name,
    "cache": lambda run: run.spec.variant.cache,
    "batch_size": lambda run: run.spec.workload.batch_size,
    "precision": lambda run: run.spec.workload.precision,
    "repeat": lambda run: run.spec.measurement.repeat,
    "status": lambda run: run.status,
}


def _epoch_columns() -> tuple[str, ...]:
    fields = [name for name in Epoch.model_fields if name not in ("event", *TIMES)]
    names = tuple(EPOCH_NAMES.get(name, name) for name in fields)
    return (*names, *STEP_COLUMNS, *LATENCY_COLUMNS)


def _fact_columns() -> tuple[str, ...]:
    named = [
        prefix + field
        for prefix, model, _ in PARTS
        for field in model.model_fields
        if field != "event"
    ]
    # The machine's label is on every row already, without the prefix.
    named = [name for name in named if name not in (*IDENTITY, "env_machine")]
    return (*named, *RUN_FACTS, "experiment")


EPOCH_COLUMNS = _epoch_columns()
FACT_COLUMNS = _fact_columns()
COLUMNS = (*IDENTITY, *EPOCH_COLUMNS, *FACT_COLUMNS)


def rows(
    run: Run, epochs: Sequence[Epoch], experiment: Experiment | None = None
) -> Iterator[dict[str, str]]:
    """The run's rows as column name -> cell, known cells only; at least one row.

    Epochs read without their steps leave the step columns empty.
    """
    identity = {name: _cell(value_of(run)) for name, value_of in IDENTITY.items()}
    facts = _facts(run)
    if experiment:
        facts["experiment"] = experiment.to_json()
    if not epochs:
        yield {**identity, **facts}
    for position, epoch in enumerate(epochs):
        latencies = _latencies(epoch) if run.spec.workload.task == "infer" else {}
        yield {
            **identity,
            **_epoch(epoch),
            **latencies,
            **(facts if position == 0 else {}),
        }


def write(
    file: TextIO,
    runs: Iterable[Run],
    epochs: Mapping[int, Sequence[Epoch]],
    experiments: Iterable[Experiment] = (),
) -> None:
    """Write runs with their epochs (by run number) into a text file opened with `newline=""`.

    Of `experiments` those are written that a run belongs to: what a ladder's rungs are is said
    nowhere else.
    """
    by_id = {experiment.id: experiment for experiment in experiments}
    # Rows end in CRLF (RFC 4180): with a bare LF the csv module leaves a lone CR unquoted.
    writer = csv.DictWriter(file, COLUMNS, restval="")
    writer.writeheader()
    for run in runs:
        writer.writerows(rows(run, epochs.get(run.number, ()), by_id.get(run.experiment_id)))


# One row a run, for a spreadsheet: computed from the raw times, so nothing reads it back.
SUMMARY: dict[str, Callable[[Measured], Any]] = {
    "failure": lambda one: one.run.failure,
    "label": lambda one: one.run.spec.measurement.label,
    "torch": lambda one: one.run.environment and one.run.environment.torch,
    "measured_at": lambda one: _iso(one.run.started_at),
    "unit": lambda one: one.unit,
    "measured": lambda one: one.count,
    "first_seconds": lambda one: one.first_seconds,
    "steady_from": lambda one: one.steady_from,
    "steady_count": lambda one: one.steady.count,
    "steady_seconds": lambda one: one.steady.median_seconds,
    "steady_spread": lambda one: one.steady.spread,
    "p50_seconds": lambda one: _percentile(one, 50),
    "p90_seconds": lambda one: _percentile(one, 90),
    "p99_seconds": lambda one: _percentile(one, 99),
    "no_steady_state": lambda one: one.steady.reason,
    "startup_excess_seconds": lambda one: one.excess_seconds,
    "compile_seconds": lambda one: one.compile_seconds if _compiling_is_known(one) else None,
    "execution_seconds": lambda one: one.run.prepared and one.run.prepared.execution_seconds,
    "priming_seconds": lambda one: one.run.priming_seconds,
    "peak_memory_bytes": lambda one: one.peak_memory_bytes,
    "effective": lambda one: _effective(one.run),
    "parity": lambda one: (
        one.run.aftermath and one.run.aftermath.parity and one.run.aftermath.parity.verdict
    ),
    "source_file": lambda one: one.run.source and one.run.source.file,
}


def _compiling_is_known(one: Measured) -> bool:
    """Epochs hold a number of it even where their source states none."""
    source = one.run.source
    return bool(one.count) and not (source and "compile_seconds" in source.inferred)


def _percentile(one: Measured, q: int) -> float | None:
    """Of the steady iterations. A handful of epochs has no percentiles worth the name."""
    if one.unit == "epoch":
        return None
    return Arm(one.run.spec.variant.arm, (one,)).known_percentiles()[q]


def _effective(run: Run) -> str | None:
    found = run.aftermath.effective if run.aftermath else None
    return None if found is None else "; ".join(each.text for each in found)


def write_summary(file: TextIO, measured: Iterable[Measured]) -> None:
    """Write one row a run, steady state and start-up already computed; a file as for `write`.

    What the source of an imported run does not state is empty.
    """
    identity = {name: of for name, of in IDENTITY.items() if name != "schema_version"}
    writer = csv.writer(file)
    writer.writerow([*identity, *SUMMARY])
    for one in measured:
        run = one.run
        values = [of(run) if run.states(name) else None for name, of in identity.items()]
        values += [of(one) for of in SUMMARY.values()]
        writer.writerow([_cell(value) for value in values])


def _iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def defused(text: str) -> str:
    """The text as a spreadsheet shows it without running it; `restored` is the inverse."""
    return "'" + text if text.startswith((*RUN_BY_SPREADSHEETS, "'")) else text


def restored(cell: str) -> str:
    return cell.removeprefix("'")


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return defused(value)
        case bool() | list() | tuple() | dict():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return repr(value)


def _fact(value: Any, usual: Any) -> str:
    """An empty text where "not known" is usual must not read as that."""
    return "'" if value == "" and usual != "" else _cell(value)


def _facts(run: Run) -> dict[str, str]:
    facts = {name: _fact(getattr(run, name), None) for name in RUN_FACTS}
    for prefix, kind, part_of in PARTS:
        part = part_of(run)
        for name, value in part.model_dump().items() if part else ():
            facts[prefix + name] = _fact(value, kind.model_fields[name].default)
    return {name: cell for name, cell in facts.items() if name in FACT_COLUMNS}


def _epoch(epoch: Epoch) -> dict[str, str]:
    cells = {
        EPOCH_NAMES.get(name, name): _cell(value)
        for name, value in epoch
        if name not in ("event", "compile_windows", *TIMES)
    }
    windows = [
        window.model_dump(exclude={"event"}, exclude_none=True) for window in epoch.compile_windows
    ]
    cells["compile_windows"] = _cell(windows)
    if steps := summed_up(epoch.step_seconds) or epoch.steps:
        cells |= {column: _cell(getattr(steps, field)) for column, field in STEP_COLUMNS.items()}
    return cells


def _latencies(block: Epoch) -> dict[str, str]:
    lists = zip(LATENCY_COLUMNS, (block.step_seconds, block.device_seconds), strict=True)
    return {name: _cell(seconds) for name, seconds in lists if seconds}


def summed_up(seconds: Sequence[float]) -> StepSummary | None:
    """Of single steps what a file without them keeps; None without any."""
    if not seconds:
        return None
    p5, p50, p95 = stats.percentiles(seconds, (5, 50, 95))
    return StepSummary(
        count=len(seconds),
        sum=sum(seconds),
        min=min(seconds),
        p5=p5,
        p50=p50,
        p95=p95,
        max=max(seconds),
    )


@dataclass(frozen=True, slots=True)
class Column:
    """One column as the README explains it."""

    name: str
    unit: str
    meaning: str


def columns_table() -> list[Column]:
    """Every column in the order of the file: name, unit, meaning."""
    return [Column(name, _unit(name), MEANINGS.get(name, "")) for name in COLUMNS]


def summary_table() -> list[Column]:
    """The columns of `write_summary` after those that identify the run."""
    units = {"measured_at": ""}  # not the number of seconds that our other times of day are
    return [
        Column(name, units.get(name, _unit(name)), SUMMARY_MEANINGS.get(name, ""))
        for name in SUMMARY
    ]


def _unit(name: str) -> str:
    for ending, unit in (("_seconds", "s"), ("_bytes", "bytes"), ("_at", "Unix seconds")):
        if name.endswith(ending) or f"{ending}_" in name + "_":
            return unit
    return ""
