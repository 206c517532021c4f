"""Our own CSV in: the inverse of result_csv.

Rows of one run stand together; what identifies it stands on each of them, its other facts on any.
Whatever cannot be what its column holds is refused with BadFile, and so is a file of a later
version. Nothing that comes in is measured any more: a run that was waiting or running when its file
was written is `interrupted` here, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, get_args, get_type_hints

from bench_core.epoch_columns import joined, numbers
from bench_core.events import (
    Activity,
    Aftermath,
    Environment,
    Epoch,
    Failure,
    Phase,
    Prepared,
)
from bench_core.imported import IGNORE, Answers, Family, ImportedRun, Question
from bench_core.result_cells import (
    BadCell,
    Cells,
    Places,
    Plan,
    bad_cell,
    converter,
    made,
    plan_of,
    values,
)
from bench_core.result_csv import (
    COLUMNS,
    EPOCH_COLUMNS,
    FACT_COLUMNS,
    IDENTITY,
    PARTS,
    RUN_FACTS,
    SCHEMA_VERSION,
    restored,
)
from bench_core.result_epochs import epoch_reader
from bench_core.result_lines import blocks
from bench_core.run import Run, Status
from bench_core.source import Source, Stated
from bench_core.spec import (
    Experiment,
    Frozen,
    Measurement,
    RunSpec,
    SpecError,
    Variant,
    Workload,
)
from bench_core.table_file import BadFile, Row, TableFile

ID = re.compile(r"[0-9a-f]{12}")
# A file without one of these is no whole file: what they say decides what may be compared.
NEEDED = tuple(dict.fromkeys((*IDENTITY, "epoch", *Workload.model_fields, *Variant.model_fields)))
# How a run ended that had not ended when its file was written.
UNFINISHED = {
    "queued": "it was still queued when its file was written: nothing of it had been measured",
    "running": "it was still running when its file was written: what it had measured is here",
}
# What a run cannot bring along, or need not.
NOT_HERE: dict[str, Any] = dict.fromkeys(
    (
        *("failure", "reason", "traceback", "phase", "phase_epoch", "phase_since"),
        *("compiling_since", "started_at", "ended_at", "child_pid", "child_created"),
        "priming_seconds",
    )
) | {"number": 0}
# By column: the words that are allowed in it.
WORDS = {"status": get_args(Status), "failure": get_args(Failure), "phase": get_args(Phase)}
OWN_NAMES = {name: name for name in COLUMNS}
# Runs share workloads, machines and experiments: so many of each are kept at hand.
KEPT = 1024


def missing(header: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in ("schema_version", "run_id") if name not in header)


def questions(table: TableFile, answers: Answers) -> Sequence[Question]:
    """Only of columns that are none of ours: somebody added them, or changed a name."""
    strange = [name for name in table.header if name and name not in COLUMNS]
    if not strange:
        return ()
    shown = ", ".join(strange[:5]) + (", ..." if len(strange) > 5 else "")
    text = f"{table.name} has columns that this dashboard does not know: {shown}. Leave them out?"
    return (Question("columns", text, IGNORE, (IGNORE,)),)


def read(table: TableFile, answers: Answers) -> Iterator[ImportedRun]:
    """Yield the file's runs in its order, read as they are asked for. Raises BadFile."""
    at = _places(table.header)
    check_row, add_epoch, run_of = (
        _row_checker(table, at),
        _epoch_adder(table, at),
        _run_reader(table, at),
    )
    run_at = at["run_id"]
    last_lines: dict[str, int] = {}
    for run_id, parts in groupby(blocks(table), lambda part: part[0].first.cells[run_at]):
        first_part = block, _ = next(parts)
        first = row = block.first
        if not run_id:
            raise BadFile("is empty, and every row names its run", row.line, "run_id")
        if run_id in last_lines:
            raise BadFile(
                f"run {run_id} has rows up to line {last_lines[run_id]} already, and rows of one "
                "run must stand together; sort the file by run_id and epoch",
                row.line,
                "run_id",
            )
        run = _Rows(row.line, list(row.cells))
        try:
            _check_version(run.cells[at["schema_version"]])
            _check_id("run_id", run_id)
            for block, epochs in chain((first_part,), parts):
                row = block.first
                check_row(run, row)
                if epochs and numbers(epochs, "epoch")[0] == run.count + 1:
                    run.add(epochs)
                    continue
                for row in (block.first, *table.cut(block)):
                    check_row(run, row)
                    add_epoch(run, row)
            last_lines[run_id] = block.last_line
            row = first  # what is wrong from here on is of the whole run
            yield run_of(run.cells, run.line, joined(run.epochs))
        except BadCell as error:
            raise BadFile(str(error), row.line, error.column) from None


@dataclass(slots=True)
class _Rows:
    """The rows of one run so far: the line it begins on, the cells of the first row with the facts
    that stand on others, and the epochs."""

    line: int
    cells: list[str]
    count: int = 0
    epochs: list[Sequence[Epoch]] = field(default_factory=list)

    def add(self, epochs: Sequence[Epoch]) -> None:
        self.epochs.append(epochs)
        self.count += len(epochs)


def _row_checker(table: TableFile, at: Places) -> Callable[[_Rows, Row], None]:
    """What holds a row against its run, and takes the facts that stand on it. Raises BadCell."""
    identity_of = _cells_at([at[name] for name in IDENTITY])
    facts_of = _cells_at([at[name] for name in FACT_COLUMNS if name in at])
    nothing = facts_of([""] * len(table.header))

    def check_row(run: _Rows, row: Row) -> None:
        if identity_of(row.cells) != identity_of(run.cells):
            _raise_other(row.cells, run.cells, at, run.line)
        told = facts_of(row.cells)
        if told != nothing and told != facts_of(run.cells):
            _merge(row.cells, run.cells, at)

    return check_row


def _epoch_adder(table: TableFile, at: Places) -> Callable[[_Rows, Row], None]:
    """What takes a row's epoch into its run, if it has one. Raises BadCell."""
    epoch_of, epoch_at = epoch_reader(at, table.number), at["epoch"]

    def add_epoch(run: _Rows, row: Row) -> None:
        if row.cells[epoch_at]:
            run.add((epoch_of(row.cells, run.count + 1),))
        else:
            _check_no_epoch(row.cells, at)

    return add_epoch


def _places(header: Sequence[str]) -> Places:
    at = {name: place for place, name in enumerate(header) if name in COLUMNS}
    lacking = [name for name in NEEDED if name not in at]
    if lacking:
        raise BadFile(
            f"the file is not whole, it lacks the columns {', '.join(lacking)}: export it again", 1
        )
    return at


def _cells_at(places: Sequence[int]) -> Callable[[Cells], Sequence[str]]:
    """Takes these cells of a row: a slice where they stand side by side, as we write them."""
    together = range(places[0], places[0] + len(places))
    return itemgetter(
        *([slice(together.start, together.stop)] if [*together] == places else places)
    )


def _check_version(cell: str) -> None:
    try:
        version = float(cell)
    except ValueError:
        version = 0.0
    if version > SCHEMA_VERSION:
        raise BadCell(
            f"the file was written by a later version of this program: its layout is {cell}, known "
            f"here up to {SCHEMA_VERSION}; update this program",
            "schema_version",
        )
    if version not in range(1, SCHEMA_VERSION + 1):
        raise bad_cell("schema_version", f"a number from 1 to {SCHEMA_VERSION}", cell)


def _raise_other(cells: Cells, first: Cells, at: Places, line: int) -> None:
    column = next(name for name in IDENTITY if cells[at[name]] != first[at[name]])
    raise BadCell(
        f"must be the same on every row of a run, got {cells[at[column]]!r} and on line {line} "
        f"{first[at[column]]!r}",
        column,
    )


def _merge(cells: Cells, into: list[str], at: Places) -> None:
    """Facts that stand on another row of the run than its first."""
    for name in FACT_COLUMNS:
        if name in at and (cell := cells[at[name]]):
            if into[at[name]] not in ("", cell):
                raise BadCell(
                    f"must be the same on every row of a run or empty, got {cell!r} and before it "
                    f"{into[at[name]]!r}",
                    name,
                )
            into[at[name]] = cell


def _check_no_epoch(cells: Cells, at: Places) -> None:
    for name in EPOCH_COLUMNS:
        if name in at and cells[at[name]]:
            raise BadCell(f"is empty, while {name} is {cells[at[name]]!r}", "epoch")


def _run_reader(
    table: TableFile, at: Places
) -> Callable[[Cells, int, Sequence[Epoch]], ImportedRun]:
    """What makes a run of its cells, the line it begins on and its epochs. Raises BadCell."""
    parts = [(kind, *_part_reader(prefix, kind, table, at)) for prefix, kind, _ in PARTS]
    hints = get_type_hints(Run)
    facts_plan: Plan = [
        (name, at[name], name, *converter(hints[name], table.number))
        for name in ("experiment_id", "status", *RUN_FACTS)
        if name in at
    ]
    id_at, experiment_at = at["run_id"], at.get("experiment")
    experiment_of = lru_cache(KEPT)(_experiment)

    def read_run(cells: Cells, line: int, epochs: Sequence[Epoch]) -> ImportedRun:
        found: dict[type[Frozen], Any] = {
            kind: make(cells_of(cells)) for kind, cells_of, make in parts
        }
        spec = made(
            RunSpec,
            {
                "workload": found[Workload],
                "variant": found[Variant],
                "measurement": found[Measurement],
                "device": restored(cells[at["device"]]),
            },
            OWN_NAMES,
        )
        facts = values(cells, facts_plan)
        facts["id"] = cells[id_at]
        _check_facts(facts)
        facts["unstated"] = tuple(facts.get("unstated", ()))
        if reason := UNFINISHED.get(facts["status"]):
            facts |= {"status": "interrupted", "reason": reason}
        run = Run(
            **{**NOT_HERE, **facts},
            spec=spec,
            environment=found[Environment],
            prepared=found[Prepared],
            activity=found[Activity],
            aftermath=found[Aftermath],
            source=found[Source] or Source(file=table.name, family=FAMILY.key, line=line),
            stated=found[Stated],
        )
        _check_epochs(run, epochs)
        told = cells[experiment_at] if experiment_at is not None else ""
        return ImportedRun(run, epochs, experiment_of(told, run.experiment_id))

    return read_run


def _part_reader(
    prefix: str, kind: type[Frozen], table: TableFile, at: Places
) -> tuple[Callable[[Cells], tuple[str, ...]], Callable[[tuple[str, ...]], Frozen | None]]:
    """What takes the cells of one part of a run, and what makes the part of them."""
    columns = {field: prefix + field for field in kind.model_fields if field != "event"}
    if kind is Environment:
        columns["machine"] = "machine"
    plan = plan_of(kind, columns, at, table.number)
    places = [place for _, place, *_ in plan]
    own_plan: Plan = [(step[0], place, *step[2:]) for place, step in enumerate(plan)]

    @lru_cache(KEPT)
    def make(cells: tuple[str, ...]) -> Frozen | None:
        return made(kind, values(cells, own_plan), columns) if any(cells) else None

    cells_of = (
        itemgetter(*places) if len(places) > 1 else lambda cells: tuple(cells[at] for at in places)
    )
    return cells_of, make


def _check_id(column: str, cell: str) -> None:
    if not ID.fullmatch(cell):
        what = "12 of the digits 0 to 9 and a to f (a spreadsheet may have made it a number)"
        raise bad_cell(column, what, cell)


def _check_facts(facts: Mapping[str, Any]) -> None:
    _check_id("experiment_id", facts.get("experiment_id", ""))
    for name, words in WORDS.items():
        word = facts.get(name)
        if word not in words and not (word is None and name != "status"):
            raise bad_cell(name, f"one of {', '.join(words)}", word or "")
    if "created_at" not in facts:
        raise BadCell("is empty, and every run was queued some time", "created_at")
    unstated = facts.get("unstated", [])
    if not (isinstance(unstated, list) and all(isinstance(name, str) for name in unstated)):
        raise bad_cell("unstated", "a JSON list of texts", str(unstated))


def _check_epochs(run: Run, epochs: Sequence[Epoch]) -> None:
    if (epochs or run.stated) and not run.machine:
        raise BadCell("is empty, and whatever was timed was timed on some machine", "machine")
    if run.spec.workload.task == "infer":
        for epoch in epochs:
            if not epoch.step_seconds:
                raise BadCell(
                    f"is empty in epoch {epoch.epoch}, and a block of inference is its iterations",
                    "iteration_seconds",
                )


def _experiment(told: str, experiment_id: str) -> str | None:
    if not told:
        return None
    try:
        experiment = Experiment.from_json(told)
    except SpecError as error:
        raise BadCell(str(error), "experiment") from None
    if experiment.id != experiment_id:
        raise BadCell(f"is {experiment.id}, and the run is of {experiment_id}", "experiment")
    return told


FAMILY = Family("results", "this dashboard's CSV", missing, questions, read)
