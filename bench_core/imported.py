"""What the readers of results files share: a run, a question, a schema.

Text, numbers and the models of a run only: no file is opened here and nothing is stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bench_core.events import Epoch
from bench_core.run import Run
from bench_core.table_file import BadFile, TableFile

# What a person (or the command line's --set) said, by the key of the question.
Answers = Mapping[str, str]
# The answer of a column that is left out.
IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A run as a file tells it. Its number is 0 and it has no import_id: the store gives both.

    `experiment` is the experiment's JSON, where the file holds it.
    """

    run: Run
    epochs: Sequence[Epoch] = ()
    experiment: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A fact that no column states: the key of its answer, and what is taken when nobody answers.

    Without a `suggestion` nothing can be imported before there is an answer; `why` says where it
    comes from. `choices` are all that are allowed; empty is free text.
    """

    key: str
    text: str
    suggestion: str | None = None
    choices: tuple[str, ...] = ()
    why: str = ""


def said_in(words: Iterable[str]) -> dict[str, str]:
    """Answers from `key=value` words. ValueError: one is none."""
    said = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise ValueError(f"must be KEY=VALUE, got {word!r}")
        said[key] = value
    return said


def settled(questions: Sequence[Question], answers: Answers) -> dict[str, str]:
    """What holds by key: what was said, else what is suggested. BadFile: said what is no choice."""
    found = {}
    for question in questions:
        value = answers.get(question.key) or question.suggestion
        if value is None:
            continue  # nothing is read before there is an answer
        if question.choices and value not in question.choices:
            allowed = ", ".join(question.choices)
            raise BadFile(f"{question.key} must be one of {allowed}, got {value!r}")
        found[question.key] = value
    return found


def machine_id_of(label: str) -> str:
    """Of a machine that is known by its label alone: files that give the same label meet."""
    known_as = " ".join(label.lower().split())
    return f"label-{hashlib.sha256(known_as.encode()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class Family:
    """One schema of results files.

    `missing(header)` names the columns that a file lacks to be of it; empty is: it is of it.
    `questions` looks at the file's name, header and rows; `read` yields its runs and raises
    BadFile at the first row that cannot be one. `sayable(header)` are keys of answers that nothing
    asks for: facts that may be said of all rows.
    """

    key: str
    title: str
    missing: Callable[[Sequence[str]], tuple[str, ...]]
    questions: Callable[[TableFile, Answers], Sequence[Question]]
    read: Callable[[TableFile, Answers], Iterator[ImportedRun]]
    sayable: Callable[[Sequence[str]], tuple[str, ...]] = lambda header: ()


@dataclass(frozen=True, slots=True)
class Import:
    """One file that was taken in: a row of the store. `at` is in Unix seconds."""

    id: str
    at: float
    file: str
    sha256: str
    family: str
    runs: int


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a file: how many of its runs were new, and how many were here already.

    `record` is None for a file that brought nothing new.
    """

    record: Import | None
    new: int
    known: int


State = Literal["ready", "asks", "known", "refused"]
