"""Results of timm's benchmark.py: one row a model, its mean step in milliseconds.

What the columns do not say stands in the file's name alone, eager or compiled too:
`benchmark-infer-amp-nchw-pt291-cu128-4090-dynamo.csv`. timm calls the model 10 times before it
times 40 steps, each with the device's work waited for, without gradients in inference.
Source: benchmark.py of github.com/huggingface/pytorch-image-models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bench_core.file_words import Fact, facts_of
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
from bench_core.spec import Task
from bench_core.table_file import BadFile, TableFile

KEY, TITLE = "timm", "timm's benchmark"
TASKS: dict[Task, tuple[str, ...]] = {
    "infer": ("infer_step_time", "infer_batch_size", "infer_img_size"),
    "train": ("train_step_time", "train_batch_size", "train_img_size"),
}
STEPS = f"timm times single steps: {STEP_IS_EPOCH}"
RESIDENT = "timm feeds one batch of random numbers that stays on the device"


def missing(header: Sequence[str]) -> tuple[str, ...]:
    lacking = (
        tuple(name for name in ("model", *columns) if name not in header)
        for columns in TASKS.values()
    )
    return min(lacking, key=len)


def questions(table: TableFile, answers: Answers) -> Sequence[Question]:
    named = facts_of(table.name)
    device = answers.get("device") or (named["device"].value if "device" in named else "")
    if "precision" in named and named["precision"].value == "amp":
        named["precision"] = (
            Fact("bf16", "amp in the file's name, which is bfloat16 autocast on a CPU")
            if device == "cpu"
            else Fact("fp16", "amp in the file's name, which is float16 autocast on a GPU")
        )
    named.setdefault("torch", Fact(NOT_STATED, "the file's name says no pt291 or the like"))
    keys = ("machine", "device", "precision", "memory_layout", "torch", "variant")
    return [question(key, named.get(key)) for key in keys]


def read(table: TableFile, answers: Answers) -> Iterator[ImportedRun]:
    asked = questions(table, answers)
    said = settled(asked, answers)
    inferred = reasons(asked, said)
    named = facts_of(table.name)
    places = cells_of(table)
    runs = ForeignRuns(table, KEY)
    tasks = [task for task, columns in TASKS.items() if set(columns) <= places.keys()]
    for row in table.rows():
        cells = Cells(table, row, places)
        for task in tasks:
            if task == tasks[0] or cells.text(f"{task}_step_time"):
                yield _run(runs, cells, task, said, inferred, named)


def _run(
    runs: ForeignRuns,
    cells: Cells,
    task: Task,
    said: Mapping[str, str],
    inferred: Mapping[str, str],
    named: Mapping[str, Fact],
) -> ImportedRun:
    seconds = cells.seconds(f"{task}_step_time", 1e-3)
    batch_size = cells.whole(f"{task}_batch_size")
    if seconds is not None and batch_size is None:
        raise BadFile("is empty; fill it in", cells.row.line, f"{task}_batch_size")
    of_task = {"pipeline": RESIDENT, "dataset": RESIDENT}
    if task == "train":
        of_task["samples"] = STEPS
    device_name = named["machine"].value if "machine" in named else None
    return runs.run(
        cells.row.line,
        said["machine"],
        said["device"],
        variant_of(said),
        {
            "task": task,
            "model": model_of(cells.needed("model"), "timm"),
            "pipeline": "resident",
            "dataset": "synthetic",
            "batch_size": batch_size,
            "image_size": cells.whole(f"{task}_img_size"),
            "precision": said["precision"],
            "memory_layout": said["memory_layout"],
        },
        Stated(steady_seconds=seconds) if seconds else None,
        environment={
            "device_name": device_name,
            "torch": said["torch"],
            "cuda": named["cuda"].value if "cuda" in named and said["device"] != "cpu" else None,
        },
        inferred={**inferred, **of_task},
        reason="" if seconds else cells.text("error") or "its row holds no time, and no reason",
    )


FAMILY = Family(KEY, TITLE, missing, questions, read)
