"""Our own CSV in: the inverse of result_csv."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench_core.imported import Answers, Family, ImportedRun, Question
from bench_core.table_file import TableFile


def missing(header: Sequence[str]) -> tuple[str, ...]:
    needed = ("schema_version", "run_id")
    return tuple(name for name in needed if name not in header)


def questions(table: TableFile, answers: Answers) -> Sequence[Question]:
    return ()


def read(table: TableFile, answers: Answers) -> Iterator[ImportedRun]:
    raise NotImplementedError


FAMILY = Family("results", "this dashboard's CSV", missing, questions, read)
