"""The columns of the minimal CSV, and how a cell in each of them is read.

Whatever is none of these becomes a ValueError in a sentence; the reader adds line and column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from bench_core.events import Environment, Failure
from bench_core.run import Status
from bench_core.spec import MODEL_NAME, NAMED_MODELS, Cache, Workload
from bench_core.table_file import TableFile, not_known, shortened

NEEDED = ("device", "model", "variant", "batch_size", "epoch", "epoch_seconds")
WORKLOAD = tuple(Workload.model_fields)
ENVIRONMENT = tuple(
    name
    for name in Environment.model_fields
    if name not in ("event", "machine", "machine_id", "threads")
)
# What tells runs apart, and what is an epoch's own.
OF_RUN = ("device", "variant", "machine", "cache", "repeat", "label", *WORKLOAD, *ENVIRONMENT)
PEAKS = {
    "peak_memory_bytes": 1.0,
    "peak_memory_mb": 1e6,
    "peak_memory_mib": 2.0**20,
    "peak_memory_gb": 1e9,
    "peak_memory_gib": 2.0**30,
}
AMOUNTS = ("compile_seconds", "data_wait_seconds", "evaluation_seconds")
OF_EPOCH = ("epoch_seconds", *AMOUNTS, "accuracy", "loss", *PEAKS, "started_at")
ROLES = tuple(dict.fromkeys((*NEEDED, *OF_RUN, *OF_EPOCH, "status", "reason")))
OTHER_NAMES = {"run": "repeat"}

# Words of a default that would mean "not known" elsewhere; as `export --columns` tells them.
OWN_WORDS = {"evaluate": ("none",), "threads": ("", "none", "default")}

# No time, size or count of a run comes near the ends of these.
SHORTEST_SECONDS, LARGEST_AMOUNT = 1e-9, 1e10
LARGEST_BYTES = 1e15
LONGEST_TEXT = 200
YEAR_2100 = 4_102_444_800

PRECISIONS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16"}
TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
# How a run ended, by what people write.
ENDED: Mapping[str, tuple[Status, Failure | None]] = {
    **dict.fromkeys(
        ("", "done", "ok", "success", "succeeded", "completed", "finished", "passed", "pass"),
        ("done", None),
    ),
    **dict.fromkeys(("stopped", "cancelled", "canceled", "aborted"), ("stopped", None)),
    "interrupted": ("interrupted", None),
    **{word: ("failed", word) for word in get_args(Failure)},
    **dict.fromkeys(
        ("failed", "fail", "failure", "crash", "crashed", "exception"), ("failed", "error")
    ),
    **dict.fromkeys(("oom", "cuda out of memory"), ("failed", "out of memory")),
    **dict.fromkeys(("timeout", "time out"), ("failed", "timed out")),
    "compilation failed": ("failed", "compile error"),
    "nan": ("failed", "nan loss"),
}
FAILED = {word for word, (status, _) in ENDED.items() if status == "failed"} - {"nan"}


def role_of(name: str) -> str | None:
    """The role of a column by its name, whatever its case and joints."""
    word = re.sub(r"[\s_\-]+", "_", name.strip().lower())
    word = OTHER_NAMES.get(word, word)
    return word if word in ROLES else None


def is_stated(role: str, cell: str) -> bool:
    """Whether a cell says anything; a default that is written down is stated."""
    return not not_known(cell) or cell.strip().lower() in OWN_WORDS.get(role, ())


def sayable(header: Sequence[str]) -> tuple[str, ...]:
    """Facts that no column states and that can be said of all rows, by the column's name."""
    there = {role_of(name) for name in header}
    return tuple(name for name in ("cache", *WORKLOAD, *ENVIRONMENT) if name not in there)


def readings(table: TableFile) -> dict[str, Callable[[str], Any]]:
    """How a cell that is not empty is read, by role; of all that tells runs apart."""
    found: dict[str, Callable[[str], Any]] = {}
    for kind, names in ((Workload, WORKLOAD), (Environment, ENVIRONMENT)):
        for name in names:
            found[name] = _reading(kind.model_fields[name].annotation, table)
    return found | {
        "device": text_in,
        "machine": text_in,
        "label": text_in,
        "variant": text_in,
        "model": lambda cell: model_in(text_in(cell)),
        "precision": _precision,
        "cache": lambda cell: _word(cell, get_args(Cache)),
        "dataset": text_in,
        "threads": lambda cell: _threads(table, cell),
        "repeat": table.whole,
    }


def epoch_readings(table: TableFile) -> dict[str, Callable[[str], Any]]:
    """The same of what is an epoch's own: seconds, bytes, a share, a time of day."""
    return {
        "epoch_seconds": partial(seconds_in, table),
        **dict.fromkeys(AMOUNTS, partial(amount_in, table)),
        "accuracy": partial(share_in, table),
        "loss": table.number_or_none,
        **{role: partial(bytes_in, table, unit) for role, unit in PEAKS.items()},
        "started_at": partial(time_in, table),
    }


def _reading(annotation: Any, table: TableFile) -> Callable[[str], Any]:
    union = get_origin(annotation) in (UnionType, Union)
    [kind] = set(get_args(annotation)) - {NoneType} if union else (annotation,)
    if get_origin(kind) is Literal:
        return lambda cell: _word(cell, get_args(kind))
    return {bool: _truth, int: table.whole, float: table.number, str: text_in}[kind]


def text_in(cell: str) -> str:
    """On one line, without what cannot be printed."""
    text = "".join(c for c in " ".join(cell.split()) if c.isprintable())
    if len(text) > LONGEST_TEXT:
        raise ValueError(
            f"a text of {len(text)} characters, at most {LONGEST_TEXT} are read: "
            f"{shortened(text)!r}"
        )
    return text


def _squashed(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _word(cell: str, allowed: Sequence[str]) -> str:
    words = {_squashed(word): word for word in allowed}
    found = words.get(_squashed(cell))
    if found is None:
        raise ValueError(
            f"must be one of {', '.join(allowed)}, got {shortened(cell)!r}; leave the cell empty "
            "where none of them fits"
        )
    return found


def _precision(cell: str) -> str:
    word = _squashed(cell.removeprefix("torch."))
    return _word(
        PRECISIONS.get(word, word), get_args(Workload.model_fields["precision"].annotation)
    )


def _truth(cell: str) -> bool:
    word = cell.strip().lower()
    if word not in TRUTHS:
        raise ValueError(f"must be true or false, got {shortened(cell)!r}")
    return TRUTHS[word]


def _threads(table: TableFile, cell: str) -> int | None:
    """None is PyTorch's own choice."""
    return None if cell.strip().lower() in OWN_WORDS["threads"] else table.whole(cell)


def model_in(text: str) -> str:
    """As the spec names it; a model that the spec does not know is `other:NAME`."""
    prefix, colon, name = text.partition(":")
    family = prefix.lower() if colon else "torchvision"
    known = {_squashed(model): model for model in NAMED_MODELS}
    if family == "torchvision" and _squashed(name or text) in known:
        return known[_squashed(name or text)]
    if colon and MODEL_NAME.fullmatch(f"{family}:{name}"):
        return f"{family}:{name}"
    if colon and family in ("torchbench", "huggingface", "other", "function"):
        return f"{family}:{name.strip()}"
    return f"other:{text}"


def dataset_in(text: str) -> dict[str, str]:
    """The data set's fields; one that the spec does not know is a folder of that name."""
    known = {
        _squashed(word): word for word in get_args(Workload.model_fields["dataset"].annotation)
    }
    if word := known.get(_squashed(text)):
        return {"dataset": word}
    return {"dataset": "imagefolder", "dataset_path": text}


def seconds_in(table: TableFile, cell: str) -> float:
    """Of an epoch. Failures have none."""
    way_out = "leave the cell empty and say status failed"
    if not_known(cell):
        raise ValueError(f"{cell.strip()!r} is no time; {way_out}")
    value = table.number(cell)
    if value <= 0:
        raise ValueError(f"{cell.strip()} is no time; {way_out}")
    if not SHORTEST_SECONDS <= value <= LARGEST_AMOUNT:
        raise ValueError(f"{shortened(cell)!r} is no time in seconds that an epoch can take")
    return value


def amount_in(table: TableFile, cell: str) -> float | None:
    """Seconds; None where they are not known."""
    value = table.number_or_none(cell)
    if value is not None and not 0 <= value <= LARGEST_AMOUNT:
        raise ValueError(
            f"must be a number from 0 to {LARGEST_AMOUNT:.0e}, got {shortened(cell)!r}"
        )
    return value


def share_in(table: TableFile, cell: str) -> float | None:
    """From 0 to 1; None where it is not known."""
    value = table.number_or_none(cell)
    if value is not None and not 0 <= value <= 1:
        hint = f"; write {value / 100:g} for {value:g} %" if 1 < value <= 100 else ""
        raise ValueError(f"must be a share from 0 to 1, got {shortened(cell)!r}{hint}")
    return value


def bytes_in(table: TableFile, unit_bytes: float, cell: str) -> int | None:
    value = table.number_or_none(cell)
    if value is None:
        return None
    if not 0.5 < value * unit_bytes < LARGEST_BYTES:
        raise ValueError(f"is no amount of memory that a device has: {shortened(cell)!r}")
    return round(value * unit_bytes)


def time_in(table: TableFile, cell: str) -> float | None:
    """Unix seconds, or a date and time, which without a zone is UTC."""
    if not_known(cell):
        return None
    try:
        value = table.number(cell)
    except ValueError:
        try:
            at = datetime.fromisoformat(cell.strip())
            value = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            value = -1.0
    if not 0 <= value < YEAR_2100:
        raise ValueError(
            "must be seconds since 1970, or a time such as 2026-02-01T12:00:00Z, got "
            f"{shortened(cell)!r}"
        )
    return value


def ended_in(cell: str) -> tuple[Status, Failure | None, str]:
    """How a run ended: `oom`, or `failed: ` and a sentence. The last is the sentence."""
    word, _, sentence = (part.strip() for part in cell.partition(":"))
    found = ENDED.get(" ".join(re.split(r"[\s_\-]+", word.lower())).strip())
    if found is None:
        raise ValueError(
            f"{shortened(cell.strip())!r} is no status that is known: write done, failed, oom, "
            "timeout, stopped or interrupted, and the reason after a colon"
        )
    return *found, text_in(sentence[:LONGEST_TEXT])
