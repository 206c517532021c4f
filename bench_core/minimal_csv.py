"""The smallest results file: one row an epoch, six columns that a person writes by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench_core.imported import Answers, Family, ImportedRun, Question
from bench_core.table_file import TableFile

NEEDED = ("device", "model", "variant", "batch_size", "epoch", "epoch_seconds")


def missing(header: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in NEEDED if name not in header)


def questions(table: TableFile, answers: Answers) -> Sequence[Question]:
    raise NotImplementedError


def read(table: TableFile, answers: Answers) -> Iterator[ImportedRun]:
    raise NotImplementedError


FAMILY = Family("minimal", "the minimal CSV", missing, questions, read)
