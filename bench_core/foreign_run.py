"""A run of another tool's results file: what is asked of every such file, and one row as a run.

Such a file states a mean or a median for a whole run in the place of single times. What it does not
state stands in `Run.unstated` and never as a value.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench_core.events import Activity, Environment
from bench_core.file_words import Fact
from bench_core.imported import ImportedRun, Question, machine_id_of
from bench_core.minimal_run import cache_inferred, unstated_of
from bench_core.run import NOT_STATED, Run
from bench_core.source import SPREAD, Source, Stated
from bench_core.spec import (
    FOREIGN_MODEL,
    MODEL_NAME,
    NAMED_MODELS,
    Measurement,
    RunSpec,
    SpecError,
    Variant,
    Workload,
)
from bench_core.table_file import BadFile, Row, TableFile, not_known, shortened
from bench_core.variant_words import variant_named

# Nothing that a run takes or holds comes near it, in seconds or in bytes.
LARGEST_SECONDS, LARGEST_BYTES = 1e7, 1e15
# What can be asked of a whole file, in this order: the text, and all that may be said.
ASKED: dict[str, tuple[str, tuple[str, ...]]] = {
    "machine": ("Which machine was it measured on? A label", ()),
    "device": ("On which device?", ("cpu", "cuda:0", "mps")),
    "task": ("Training, or inference?", ("train", "infer")),
    "precision": ("In which precision?", ("fp32", "bf16", "fp16", NOT_STATED)),
    "memory_layout": ("In which memory layout?", ("contiguous", "channels_last", NOT_STATED)),
    "torch": ("Under which version of PyTorch?", ()),
    "variant": ("How was it run: eager, compile, or compile with arguments?", ()),
}


def question(key: str, fact: Fact | None = None) -> Question:
    """One of ASKED. What is suggested, and why, is the fact's."""
    text, choices = ASKED[key]
    if fact is None:
        return Question(key, text, None, choices)
    return Question(key, f"{text} ({fact.why})", fact.value, choices, fact.why)


def reasons(questions: Sequence[Question], said: Mapping[str, str]) -> dict[str, str]:
    """Where each fact that no column states comes from, as `Source.inferred` keeps it."""
    return {
        one.key: one.why if one.why and said[one.key] == one.suggestion else "said with the import"
        for one in questions
        if said.get(one.key, NOT_STATED) != NOT_STATED
    }


def variant_of(said: Mapping[str, str], key: str = "variant") -> Variant:
    """What was said that rows or a column are. Raises BadFile."""
    try:
        return variant_named(said[key])
    except SpecError as error:
        raise BadFile(f"{key}: {error}") from None


def model_of(name: str, suite: str = "") -> str:
    """`timm:resnet50` where the spec takes such a name, else `other:` and the name."""
    named = f"{suite}:{name}" if suite else name
    known = named in NAMED_MODELS or MODEL_NAME.fullmatch(named) or FOREIGN_MODEL.fullmatch(named)
    return named if known else f"other:{name}"


@dataclass(frozen=True, slots=True)
class Cells:
    """One row by the names of its columns. What is empty or `nan` is None; raises BadFile."""

    table: TableFile
    row: Row
    places: Mapping[str, int]

    def raw(self, column: str) -> str:
        return shortened(self.row.cells[self.places[column]].strip())

    def text(self, column: str) -> str | None:
        if column not in self.places:
            return None
        cell = self.row.cells[self.places[column]].strip()
        return None if not_known(cell) else cell

    def number(self, column: str) -> float | None:
        if column not in self.places:
            return None
        return self.table.read(self.row, self.places[column], self.table.number_or_none)

    def whole(self, column: str) -> int | None:
        if self.text(column) is None:
            return None
        return self.table.read(self.row, self.places[column], self.table.whole)

    def needed(self, column: str) -> str:
        text = self.text(column)
        if text is None:
            raise BadFile("is empty; fill it in, or leave the row out", self.row.line, column)
        return text

    def seconds(self, column: str, unit_seconds: float) -> float | None:
        """A time in seconds; None where there is none. Zero and less are no time."""
        value = self.number(column)
        if value is None:
            return None
        if not 0 < value * unit_seconds < LARGEST_SECONDS:
            raise BadFile(f"must be a time above 0, got {value:g}", self.row.line, column)
        return value * unit_seconds

    def bytes(self, column: str, unit_bytes: float) -> int | None:
        """Rounded; what is empty, zero or less was not measured."""
        value = (self.number(column) or 0.0) * unit_bytes
        return round(value) if 0.5 < value < LARGEST_BYTES else None


def cells_of(table: TableFile) -> Mapping[str, int]:
    return {name: place for place, name in enumerate(table.header) if name}


@dataclass(slots=True)
class ForeignRuns:
    """Makes the runs of one file. A row that comes again is a run of its own."""

    table: TableFile
    family: str
    at: float = field(default_factory=time.time)
    seen: Counter[str] = field(default_factory=Counter)

    def run(
        self,
        line: int,
        machine: str,
        device: str,
        variant: Variant,
        workload: Mapping[str, Any],
        stated: Stated | None,
        *,
        environment: Mapping[str, Any],
        unstated: Sequence[str] = (),
        inferred: Mapping[str, str],
        reason: str = "",
        variant_text: str | None = None,
        activity: Activity | None = None,
        label: str = "",
    ) -> ImportedRun:
        """One run; without `stated` it failed, for a reason. Raises BadFile.

        `workload` and `environment` hold the facts that are known; None is not stated.
        """
        known = {name: value for name, value in workload.items() if value not in (None, NOT_STATED)}
        if "samples" not in known and "batch_size" in known:
            known["samples"] = known["batch_size"]
        try:
            spec = RunSpec(
                workload=Workload(**known),
                variant=variant,
                measurement=Measurement(epochs=1, iterations=1, label=label[:200]),
                device=device,
            )
        except SpecError as error:
            raise BadFile(str(error), line) from None
        where = {name: value for name, value in environment.items() if value != NOT_STATED}
        place = Environment(machine=machine, machine_id=machine_id_of(machine), **where)
        environs = [name for name, value in where.items() if value is not None]
        unstated = (*unstated_of(spec, [*known, *environs]), SPREAD, *unstated)
        content = [spec.to_json(), place.to_json(), stated and stated.to_json(), reason, unstated]
        text = json.dumps([self.family, *content])
        self.seen[text] += 1
        run_id = hashlib.sha256(f"{text} {self.seen[text]}".encode()).hexdigest()[:12]
        return ImportedRun(
            Run(
                number=0,
                id=run_id,
                experiment_id=self.table.sha256[:12],
                spec=spec,
                status="done" if stated else "failed",
                failure=None if stated else "error",
                reason=reason or None,
                traceback=None,
                phase=None,
                phase_epoch=None,
                phase_since=None,
                compiling_since=None,
                created_at=self.at,
                started_at=None,
                ended_at=None,
                child_pid=None,
                child_created=None,
                priming_seconds=None,
                environment=place,
                prepared=None,
                activity=activity,
                aftermath=None,
                unstated=unstated,
                source=Source(
                    file=self.table.name,
                    family=self.family,
                    line=line,
                    variant=variant_text and shortened(variant_text, 200),
                    inferred={**inferred, **cache_inferred(variant, variant_text or "")},
                ),
                stated=stated,
            )
        )
