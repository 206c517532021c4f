"""What the columns of an unknown table may hold, by the words of their headers and their values.

Suggestions only: whoever imports such a table confirms them column by column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench_core.device_names import device_of
from bench_core.file_words import PRECISIONS, TASKS, Fact
from bench_core.imported import IGNORE
from bench_core.spec import Workload
from bench_core.table_file import TableFile, not_known, shortened

TIMES = {"time": None, "infer_time": "infer", "train_time": "train"}
# What a column may hold beside the fields of the workload. `case` tells rows apart by a fact that
# is none of these: it goes into the model's name.
ROLES = (
    *TIMES, "start_time", "peak_memory_mb", "variant", "mode", "machine", "device", "torch", "case",
    *Workload.model_fields, IGNORE,
)  # fmt: skip
MOST_VALUES = 50
TIME_WORDS = {
    "time", "times", "latency", "latencies", "seconds", "second", "secs", "sec", "ms", "msec",
    "milliseconds", "duration", "elapsed", "runtime",
}  # fmt: skip
RATES = {"per", "throughput", "rate", "speedup", "ratio"}
UNITS = {
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
}
UNIT_SECONDS = {"s": 1.0, "ms": 1e-3}
MIDDLES = ("median", "p50", "mean", "avg", "average")
# Times that are not of a call: their scatter, their sum, what came before.
BESIDES = {
    "std", "stdev", "stddev", "var", "variance", "min", "max", "p5", "p10", "p90", "p95", "p99",
    "total", "sum", "count", "unit", "load", "loading", "warmup", "start", "end", "created",
}  # fmt: skip
COUNTERS = {"index", "id", "unnamed", "run", "repeat", "seed", "count", "report", "line", "row"}
TASK_WORDS = {**TASKS, "forward-only": "infer", "forward_only": "infer", "fwd": "infer"}


@dataclass(slots=True)
class Column:
    """A header and what was seen below it: at most MOST_VALUES distinct texts that are known."""

    header: str
    place: int
    values: dict[str, None] = field(default_factory=dict)
    empty: bool = False
    is_number: bool = True

    @property
    def words(self) -> list[str]:
        return words_of(self.header)

    @property
    def varies(self) -> bool:
        return len(self.values) + self.empty > 1


def words_of(header: str) -> list[str]:
    """`report.forward.latencyMs`: report, forward, latency, ms."""
    return re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", header).lower())


def columns_of(table: TableFile) -> list[Column]:
    """Every named column with its values. Raises BadFile."""
    columns = [Column(name, place) for place, name in enumerate(table.header) if name]
    for row in table.rows():
        for column in columns:
            cell = row.cells[column.place].strip()
            if cell in column.values:
                continue
            if not_known(cell):
                column.empty = True
                continue
            if column.is_number:
                try:
                    table.number(cell)
                except ValueError:
                    column.is_number = False
            if len(column.values) < MOST_VALUES:
                column.values[cell] = None
    return columns


def is_time(header: str) -> bool:
    words = words_of(header)
    return bool(TIME_WORDS & {*words}) and not RATES & {*words}


def unit_in(header: str) -> str | None:
    return next((UNITS[word] for word in reversed(words_of(header)) if word in UNITS), None)


def arm_in(header: str) -> str | None:
    """The variant that a column of times is of, where its header says so."""
    words = words_of(header)
    compiled = {"compile", "compiled", "dynamo", "inductor"} & {*words}
    if {"eager", "baseline", "uncompiled"} & {*words}:
        return "eager"
    if compiled and {"no", "non", "not", "without"} & {*words}:
        return "eager"
    return "compile" if compiled else None


def role_of(column: Column) -> Fact:
    """What a column that holds no time seems to be."""
    for role, fits in FITS.items():
        if fits(column):
            return Fact(role, "by its header")
    floats = column.is_number and any("." in value for value in column.values)
    if column.varies and not floats and not COUNTERS & {*column.words}:
        return Fact("case", "it varies, and means nothing known here")
    return Fact(IGNORE, "it varies nothing" if not column.varies else "it means nothing known here")


def _all_in(column: Column, readable: Callable[[str], object]) -> bool:
    return bool(column.values) and all(readable(value) is not None for value in column.values)


def _is(*phrases: str) -> Callable[[Column], bool]:
    """Whether the words of the header end with one of these phrases."""
    endings = [phrase.split() for phrase in phrases]
    return lambda column: any(column.words[-len(end) :] == end for end in endings)


def _exactly(*phrases: str) -> Callable[[Column], bool]:
    return lambda column: column.words in [phrase.split() for phrase in phrases]


def precision_of(text: str) -> str | None:
    return PRECISIONS.get(text.lower().removeprefix("torch."))


def task_of(text: str) -> str | None:
    return TASK_WORDS.get(text.lower())


def plain_text(text: str) -> str:
    """Without the brackets of a list of one: `['Tesla T4']`."""
    match = re.fullmatch(r"\[\s*(['\"])(.*)\1\s*\]", text)
    return match[2] if match and match[1] not in match[2] else text


_named_model = _is("model")
_model = _exactly("model name", "name", "network", "arch", "architecture")
_batch = _is("batch size", "batchsize", "bs")
_only_batch = _exactly("batch")
_precision = _is("precision", "dtype")
_device = _is("device")
_task = _is("task", "run type", "phase")
FITS: dict[str, Callable[[Column], bool]] = {
    "model": lambda column: _named_model(column) or _model(column),
    "batch_size": lambda column: (_batch(column) or _only_batch(column)) and column.is_number,
    "precision": lambda column: _precision(column) and _all_in(column, precision_of),
    "device": lambda column: _device(column) and _all_in(column, device_of),
    "machine": _is("gpu", "gpu name", "name gpu", "machine", "host", "hostname"),
    "torch": _is("pt version", "torch version", "pytorch version", "torch", "pytorch"),
    "mode": _is("compile mode", "mode"),
    "variant": _is("variant", "torch compile", "compiled", "compile", "execution"),
    "task": lambda column: _task(column) and _all_in(column, task_of),
    "image_size": _is("image size", "img size", "resolution"),
}


def roles_of(columns: Sequence[Column]) -> dict[str, Fact]:
    """By header; two columns of one role would contradict each other, so the first has it."""
    found: dict[str, Fact] = {}
    taken: set[str] = set()
    for column in columns:
        fact = role_of(column)
        if fact.value in taken:
            fact = Fact("case" if column.varies else IGNORE, f"another column is {fact.value}")
        if fact.value not in ("case", IGNORE):
            taken.add(fact.value)
        found[column.header] = fact
    return found


def shown(column: Column) -> str:
    """A few of its values, to know it by."""
    values = [shortened(value, 24) for value in list(column.values)[:3]]
    return ", ".join(values) + (", …" if len(column.values) > 3 else "") or "empty"
