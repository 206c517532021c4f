"""Performance files of PyTorch's dynamo runner (benchmarks/dynamo): a row holds both arms.

Milliseconds of a call of the compiled arm, medians that take turns with eager's, the device's work
waited for; eager's are `speedup` times as long. `compilation_latency` is the first calls of the
compiled arm less those of eager, in seconds. A model that failed has zeros.
Source: benchmarks/dynamo/common.py of github.com/pytorch/pytorch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench_core.events import Activity
from bench_core.file_words import PRECISIONS, Fact
from bench_core.foreign_run import (
    Cells,
    ForeignRuns,
    cells_of,
    model_of,
    question,
    reasons,
    variant_of,
)
from bench_core.imported import Answers, Family, ImportedRun, Question, settled
from bench_core.run import NOT_STATED
from bench_core.source import STEP_IS_EPOCH, Stated
from bench_core.spec import Variant
from bench_core.table_file import BadFile, TableFile

KEY, TITLE = "dynamo", "PyTorch's dynamo runner"
NEEDED = ("dev", "name", "batch_size", "speedup", "abs_latency")
NAME = re.compile(
    r"(?P<backend>[a-z0-9_]+?)_(?P<suite>torchbench|huggingface|timm_models|timm)_"
    r"(?P<dtype>float32|float16|bfloat16|amp_bf16|amp_fp16|amp)_"
    r"(?P<mode>inference|training)_(?P<device>[a-z]+)_performance"
)
SUITES = {
    "torchbench": "torchbench",
    "huggingface": "huggingface",
    "timm_models": "timm",
    "timm": "timm",
}
DTYPES = {**PRECISIONS, "amp_bf16": "bf16", "amp_fp16": "fp16"}
# What the runs of PyTorch's nightly benchmarks call their arms.
BACKENDS = {
    "inductor": "compile",
    "inductor_no_cudagraphs": "compile",
    "inductor_with_cudagraphs": 'compile:{"mode":"reduce-overhead"}',
    "inductor_max_autotune": 'compile:{"mode":"max-autotune"}',
    "inductor_dynamic": 'compile:{"dynamic":true}',
    "inductor_freezing": "compile_frozen",
    "inductor_aot_inductor": "export_aot",
    "aot_eager": 'compile:{"backend":"aot_eager"}',
    "cudagraphs": 'compile:{"backend":"cudagraphs"}',
    "eager": 'compile:{"backend":"eager"}',
}
DEVICES = {"cpu": "cpu", "cuda": "cuda:0", "mps": "mps"}
STEPS = f"the runner times single steps: {STEP_IS_EPOCH}"
RESIDENT = "the runner feeds one batch that stays on the device"
EAGER_START = "compilation_latency is what the first calls took beyond eager's, whose start is 0"
# psutil's share is in per cent and the runner takes it for a part of one.
CPU_PEAK = "on cpu the runner writes 100 times the memory that was used: divided by 100"


def missing(header: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in NEEDED if name not in header)


def questions(table: TableFile, answers: Answers) -> Sequence[Question]:
    named = _named(table.name)
    if "precision" in named and named["precision"].value == "amp":
        on_cpu = "_cpu_" in table.name.lower()
        autocast = "bfloat16 autocast on a CPU" if on_cpu else "float16 autocast on a GPU"
        why = f"amp in the file's name, which is {autocast}"
        named["precision"] = Fact("bf16" if on_cpu else "fp16", why)
    named["torch"] = Fact(NOT_STATED, "nothing in the file says it")
    suites = tuple(dict.fromkeys((*SUITES.values(), "other")))
    suite = named.get("suite", Fact("other", "the file's name says none"))
    return [
        *(question(key, named.get(key)) for key in ("machine", "task", "precision", "torch")),
        question("variant", named.get("variant")),
        Question(
            "suite", f"From which set of models? ({suite.why})", suite.value, suites, suite.why
        ),
    ]


def _named(name: str) -> dict[str, Fact]:
    match = NAME.match(name.lower())
    if not match:
        return {}
    values = {
        "task": "infer" if match["mode"] == "inference" else "train",
        "precision": DTYPES.get(match["dtype"], match["dtype"]),
        "variant": BACKENDS.get(match["backend"]),
        "suite": SUITES[match["suite"]],
    }
    words = {
        "task": match["mode"],
        "precision": match["dtype"],
        "variant": match["backend"],
        "suite": match["suite"],
    }
    return {
        key: Fact(value, f"{words[key]} in the file's name")
        for key, value in values.items()
        if value
    }


def read(table: TableFile, answers: Answers) -> Iterator[ImportedRun]:
    asked = questions(table, answers)
    said = settled(asked, answers)
    inferred = {**reasons(asked, said), "pipeline": RESIDENT}
    if said["task"] == "train":
        inferred["samples"] = STEPS
    compiled = variant_of(said)
    places = cells_of(table)
    runs = ForeignRuns(table, KEY)
    for row in table.rows():
        yield from _pair(runs, Cells(table, row, places), said, inferred, compiled)


def _pair(
    runs: ForeignRuns,
    cells: Cells,
    said: Mapping[str, str],
    inferred: Mapping[str, str],
    compiled: Variant,
) -> Iterator[ImportedRun]:
    """Eager and compiled of one row; of a model that failed the compiled run alone."""
    device = DEVICES.get(cells.needed("dev"))
    if device is None:
        known = ", ".join(DEVICES)
        got = cells.needed("dev")
        raise BadFile(f"must be one of {known}, got {got!r}", cells.row.line, "dev")
    on_cpu = device == "cpu"
    giga = 1e7 if on_cpu else 1e9
    batch_size, tag = cells.whole("batch_size"), cells.text("tag")
    workload: dict[str, Any] = {
        "task": said["task"],
        "model": model_of(cells.needed("name"), said["suite"]),
        "pipeline": "resident",
        "batch_size": batch_size or None,
        "precision": said["precision"],
    }
    more: dict[str, Any] = {
        "environment": {"torch": said["torch"]},
        "label": tag or "",
    }
    place = (cells.row.line, said["machine"], device)
    speedup, latency = cells.number("speedup"), cells.number("abs_latency")
    if not (batch_size and speedup and latency):
        told_of = ", ".join(
            f"{name} {cells.raw(name) or 'empty'}"
            for name in ("batch_size", "speedup", "abs_latency")
        )
        reason = f"its row says {told_of}, and zeros are how the runner writes a failure"
        yield runs.run(
            *place,
            compiled,
            workload,
            None,
            inferred=inferred,
            variant_text=said["variant"],
            reason=reason,
            **more,
        )
        return
    seconds = cells.seconds("abs_latency", 1e-3)
    if seconds is None or speedup < 0:
        raise BadFile(f"must be above 0, got {speedup:g}", cells.row.line, "speedup")
    start = cells.number("compilation_latency")
    told = dict(inferred)
    if on_cpu and cells.number("eager_peak_mem"):
        told["peak_memory_bytes"] = CPU_PEAK
    if start is not None and start >= 0:
        told["start_seconds"] = EAGER_START
    else:
        start = None
    eager = Stated(
        steady_seconds=seconds * speedup,
        start_seconds=None if start is None else 0.0,
        peak_memory_bytes=cells.bytes("eager_peak_mem", giga),
    )
    yield runs.run(*place, Variant(), workload, eager, inferred=told, variant_text="eager", **more)
    candidate = Stated(
        steady_seconds=seconds,
        start_seconds=start,
        peak_memory_bytes=cells.bytes("dynamo_peak_mem", giga),
    )
    yield runs.run(
        *place,
        compiled,
        workload,
        candidate,
        inferred=told,
        variant_text=said["variant"],
        activity=_activity(cells, start),
        **more,
    )


def _activity(cells: Cells, start: float | None) -> Activity | None:
    """What the row counts. No graph beside calls that were captured is a count that was not taken:
    it must not read as if nothing had been compiled."""
    graphs = cells.whole("unique_graphs")
    if graphs is None or (graphs == 0 and cells.whole("calls_captured") != 0):
        return None
    breaks = cells.whole("graph_breaks") or 0
    return Activity(
        graphs=graphs,
        graph_breaks=("the file states no reason",) * min(breaks, 1000),
        cudagraph_skips=cells.whole("cudagraph_skips") or 0,
        compile_seconds=start or 0.0,
    )


FAMILY = Family(KEY, TITLE, missing, questions, read)
