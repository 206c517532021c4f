"""Result files in: which schema a file has, what is asked, what it would bring.

A file is looked at first (`look`) and taken in whole or not at all (`take_in`). Its header decides
the schema; what no column states is asked, with a suggestion from the file's name.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bench_core import columns_csv, dynamo_csv, minimal_csv, result_file, step_file, timm_csv
from bench_core.column_roles import is_time
from bench_core.imported import (
    Answers,
    Family,
    Import,
    Imported,
    ImportedRun,
    Question,
    State,
    machine_id_of,
)
from bench_core.run import Run
from bench_core.spec import Workload
from bench_core.store import Store
from bench_core.table_file import BadFile, TableFile
from bench_core.units import counted

# Schemas with columns of their own; the first one that a file has the columns of is taken.
NAMED: tuple[Family, ...] = (
    result_file.FAMILY,
    minimal_csv.FAMILY,
    timm_csv.FAMILY,
    dynamo_csv.FAMILY,
)
# At last any table with a column of times.
FAMILIES = (*NAMED, columns_csv.FAMILY)
MACHINE = "machine:"
# Of the workload: what must agree for a run to stand beside another.
FACTS = frozenset(Workload.model_fields)


@dataclass(frozen=True, slots=True)
class Look:
    """What a file would bring. `note` says what is wrong, or asked, or that the file is known.

    `machines` are labels by machine id; `new` and `known` count runs. `lacks` are facts of the
    workload that some run does not state and that may be said of all rows; `works` its workloads.
    """

    file: str
    state: State
    note: str
    family: str = ""
    rows: int = 0
    new: int = 0
    known: int = 0
    machines: tuple[tuple[str, str], ...] = ()
    questions: tuple[Question, ...] = ()
    lacks: tuple[str, ...] = ()
    works: tuple[Workload, ...] = ()


def family_of(table: TableFile) -> Family:
    """The schema of a file. BadFile: it is none that is known; names the nearest one.

    A file that all but has the columns of a schema is not taken for a table of anything.
    """
    nearest = max(NAMED, key=lambda family: _share(family, table.header))
    lacking = nearest.missing(table.header)
    if step_file.is_of(table.header):
        raise BadFile(
            "it holds single steps; import it together with the results file of the same export"
        )
    for family in FAMILIES:
        if not family.missing(table.header) and (family in NAMED or len(lacking) > 1):
            return family
    if not lacking or _share(nearest, table.header) == 0:
        nearest, lacking = minimal_csv.FAMILY, minimal_csv.FAMILY.missing(table.header)
    no_time = "" if any(map(is_time, table.header)) else "no latency column, and "
    raise BadFile(
        f"{no_time}no schema has these columns. Nearest: {nearest.title}, missing "
        f"{', '.join(lacking)}. Rename the columns, or write the minimal CSV",
        table.header_line,
    )


def _share(family: Family, header: Sequence[str]) -> float:
    """How much of the schema's columns a file has: 0 to 1."""
    return 1 - len(family.missing(header)) / len(family.missing(()))


def look(store: Store, table: TableFile, answers: Answers | None = None) -> Look:
    """Read a whole file and store nothing. Never raises BadFile: a refusal is a Look too."""
    answers = answers or {}
    found: Family | None = None
    try:
        before = store.import_of(table.sha256)
        found = family_of(table)
        questions = tuple(found.questions(table, answers))
        if unanswered := open_questions(questions, answers):
            note = " ".join(question.text for question in unanswered)
            return Look(table.name, "asks", note, found.title, questions=questions)
        known_ids = store.run_ids()
        counts: Counter[bool] = Counter()
        known: list[Run] = []
        machines: dict[str, str] = {}
        unstated: set[str] = set()
        works: dict[Workload, None] = {}
        sayable = found.sayable(table.header)
        rows = 0
        for one in found.read(table, answers):
            counts[one.run.id in known_ids] += 1
            known += [one.run] if one.run.id in known_ids else []
            rows += max(1, len(one.epochs))
            if sayable:
                unstated.update(one.run.unstated)
                works[one.run.spec.workload] = None
            if one.run.environment:
                machines[one.run.environment.machine_id] = one.run.machine
    except BadFile as error:
        title = found.title if found else ""
        return Look(table.name, "refused", str(error), title)
    if not counts:
        return Look(table.name, "refused", "the file has a header and no row", found.title)
    if before and not _is_missing(before, counts):
        note = f"imported already, as {before.file}"
        return Look(table.name, "known", note, found.title, rows, known=counts.total())
    note = _known_text(store, known) if known else ""
    state: State = "ready" if counts[False] else "known"
    if state == "ready" and any(not answers.get(question.key) for question in questions):
        state = "asks"
    return Look(
        table.name,
        state,
        note,
        found.title,
        rows,
        counts[False],
        counts[True],
        tuple(machines.items()),
        questions,
        tuple(name for name in sayable if name in unstated & FACTS),
        tuple(works),
    )


def _known_text(store: Store, known: Sequence[Run]) -> str:
    """What becomes of runs whose id is here; a file that somebody changed is told as such."""
    here = {run.id: run for run in store.runs()}
    others = sum(run.id in here and _is_other(run, here[run.id]) for run in known)
    text = f"{counted(len(known), 'run')} here already"
    if not others:
        return text
    what = "all" if others == len(known) else str(others)
    return (
        f"{text}, {what} of them with another machine, workload or variant than the file says: a "
        "run keeps its id, and what is here stays; for other runs write a minimal CSV"
    )


def _is_other(run: Run, here: Run) -> bool:
    """Without a change a label may differ, and how far the run had come: to no machine yet."""
    places = (run.environment, here.environment)
    elsewhere = len({place.machine_id for place in places if place}) > 1
    return elsewhere or run.spec != here.spec


def keys_of(table: TableFile, answers: Answers) -> set[str]:
    """Keys of answers that the file asks for, or that may be said of it. Raises BadFile."""
    family = family_of(table)
    asked = {question.key for question in family.questions(table, answers)}
    return asked | {*family.sayable(table.header)}


def _is_missing(before: Import, counts: Counter[bool]) -> bool:
    """Whether runs of a file that was imported before are not here, by how many are (True).

    With other answers its runs have other ids: a file that is here whole does not come twice.
    """
    return bool(counts[False]) and before.runs < counts.total()


def open_questions(questions: Sequence[Question], answers: Answers) -> list[Question]:
    """Those without which nothing can be read: nothing is suggested, and nothing was said."""
    return [one for one in questions if one.suggestion is None and not answers.get(one.key)]


def take_in(
    store: Store,
    table: TableFile,
    answers: Answers | None = None,
    steps: Sequence[TableFile] = (),
) -> Imported:
    """Import a file whole: every run that is not here yet. BadFile, and nothing is stored.

    A run whose id is here is not brought, nor is a file that is here whole whatever is answered.
    `steps` are files of single steps of its runs.
    """
    answers = answers or {}
    family = family_of(table)
    if unanswered := open_questions(family.questions(table, answers), answers):
        raise BadFile(" ".join(question.text for question in unanswered))
    if before := store.import_of(table.sha256):
        here = store.run_ids()
        counts = Counter(one.run.id in here for one in family.read(table, answers))
        if not _is_missing(before, counts):
            return Imported(None, 0, counts.total())
    return store.import_runs(table.name, table.sha256, family.title, runs(table, answers, steps))


def runs(
    table: TableFile, answers: Answers | None = None, steps: Sequence[TableFile] = ()
) -> Iterator[ImportedRun]:
    """The runs of a file, without a store. Raises BadFile.

    What `machine:LABEL` answers is what the machine is that the file calls LABEL.
    """
    found = family_of(table).read(table, answers or {})
    for of_steps in steps:
        found = step_file.with_steps(found, of_steps)
    called = {
        key.removeprefix(MACHINE): label
        for key, label in (answers or {}).items()
        if key.startswith(MACHINE)
    }
    return (_on_its_machine(one, called) for one in found) if called else found


def is_known_by_label(machine_id: str, label: str) -> bool:
    """Whether nothing but its label tells the machine, so that two files may mean two machines."""
    return machine_id == machine_id_of(label)


def _on_its_machine(one: ImportedRun, called: Mapping[str, str]) -> ImportedRun:
    """The run on the machine that its file's label was said to mean, under an id of its own."""
    run = one.run
    label = called.get(run.machine)
    if not label or not run.environment:
        return one
    if not is_known_by_label(run.environment.machine_id, run.machine):
        return one
    place = run.environment.changed(machine=label, machine_id=machine_id_of(label))
    run_id = hashlib.sha256(f"{run.id} {place.machine_id}".encode()).hexdigest()[:12]
    return replace(one, run=replace(run, id=run_id, environment=place))
