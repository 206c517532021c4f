"""The command line's `import`: several files, each whole or not at all, and what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bench_core import imports, step_file
from bench_core.imported import IGNORE, Answers, Question
from bench_core.store import Store
from bench_core.table_file import BadFile, TableFile, open_table
from bench_core.units import count_text, counted

State = Literal["imported", "ready", "known", "refused"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one file; `ready` is imported, had it been meant.

    `taken` are questions that nobody answered, whose suggestion was taken.
    """

    file: str
    state: State
    note: str = ""
    family: str = ""
    rows: int = 0
    new: int = 0
    known: int = 0
    machines: tuple[str, ...] = ()
    taken: tuple[Question, ...] = ()

    @property
    def lines(self) -> Iterator[str]:
        """As a terminal shows it."""
        if self.state == "refused":
            yield f"{self.file}: refused, and nothing of it was stored. {self.note}"
            return
        if self.state == "known":
            yield f"{self.file}: known. {self.note or 'all of its runs are here already'}"
            return
        runs = f"{counted(self.new, 'new run')}, {count_text(self.known)} known"
        would = "would import" if self.state == "ready" else "imported"
        on = f" on {', '.join(self.machines)}" if self.machines else ""
        yield f"{self.file}: {would} {runs}{on} ({self.family}, {counted(self.rows, 'row')})"
        for one in self.taken:
            because = f": {one.why}" if one.why else ""
            yield f"  {one.key} {one.suggestion}{because}; --set '{one.key}=...' to change"

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "state": self.state,
            "family": self.family,
            "rows": self.rows,
            "new": self.new,
            "known": self.known,
            "note": self.note,
            "machines": list(self.machines),
            "taken": {one.key: {"value": one.suggestion, "why": one.why} for one in self.taken},
        }


class NothingAsks(ValueError):
    """Something was said that no file asks for."""


def bring(
    store: Store, paths: Sequence[Path], answers: Answers, dry_run: bool = False
) -> Iterator[Outcome]:
    """Import files in their order; a file that is refused holds up none of the others.

    Files of single steps go with the one results file among them, and are told after it.
    NothingAsks, before anything is stored: a key of the answers that no file asks for.
    """
    tables: list[TableFile | Outcome] = []
    for path in paths:
        try:
            tables.append(open_table(path.name, path))
        except BadFile as error:
            tables.append(Outcome(path.name, "refused", str(error)))
    opened = [table for table in tables if isinstance(table, TableFile)]
    _check_asked(opened, answers)
    steps = [table for table in opened if step_file.is_of(table.header)]
    whole = [table for table in opened if "schema_version" in table.header]
    for table in tables:
        if isinstance(table, Outcome):
            yield table
        elif table in steps and len(whole) == 1:
            continue
        else:
            of_it = steps if whole == [table] else []
            outcome = _brought(store, table, answers, of_it, dry_run)
            yield outcome
            yield from (_with_owner(one, outcome) for one in of_it)


def _with_owner(steps: TableFile, owner: Outcome) -> Outcome:
    """What became of a file of single steps, which comes and goes with its results file."""
    match owner.state:
        case "refused":
            return Outcome(
                steps.name, "refused", f"Its steps are those of {owner.file}, which was refused"
            )
        case "known":
            note = (
                f"its steps are left out: {owner.file} brought no new run, and the steps of runs "
                "that are here stay as they are"
            )
            return Outcome(steps.name, "known", note)
    return Outcome(steps.name, "known", f"its steps go with {owner.file}")


def _check_asked(tables: Sequence[TableFile], answers: Answers) -> None:
    asked: set[str] = set()
    looked = False
    for table in tables:
        try:
            asked |= imports.keys_of(table, answers)
        except BadFile:
            continue  # it is refused when its turn comes
        looked = True
    if looked and (strange := [key for key in answers if key not in asked]):
        may = f"they ask for {', '.join(sorted(asked))}" if asked else "their columns say all"
        raise NothingAsks(f"--set {strange[0]}: no file asks for it; {may}")


def _brought(
    store: Store, table: TableFile, answers: Answers, steps: Sequence[TableFile], dry_run: bool
) -> Outcome:
    look = imports.look(store, table, answers)
    if look.state == "refused":
        return Outcome(table.name, "refused", look.note, look.family)
    if unanswered := imports.open_questions(look.questions, answers):
        note = " ".join(_to_say(question) for question in unanswered)
        return Outcome(table.name, "refused", f"Say first: {note}", look.family)
    if look.state == "known":
        return Outcome(table.name, "known", look.note, look.family, look.rows, 0, look.known)
    taken = tuple(
        question
        for question in look.questions
        if not answers.get(question.key) and question.suggestion != IGNORE
    )
    machines = tuple(dict.fromkeys(label for _, label in look.machines))
    facts = (look.family, look.rows, look.new, look.known, machines, taken)
    ready = Outcome(table.name, "ready", look.note, *facts)
    if dry_run:
        return ready
    try:
        found = imports.take_in(store, table, answers, steps)
    except BadFile as error:
        return Outcome(table.name, "refused", str(error), look.family)
    if not found.new:  # another process was faster
        return Outcome(table.name, "known", "", look.family, look.rows, 0, found.known)
    return replace(ready, state="imported", new=found.new, known=found.known)


def _to_say(question: Question) -> str:
    choices = "|".join(question.choices) or "..."
    return f"--set '{question.key}={choices}' ({question.text.rstrip('?')})"
