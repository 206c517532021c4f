"""What a workload is called: its kind, which is never mixed with another in one answer, and what
else its runs are told apart by."""

from __future__ import annotations

from bench_core.spec import Workload
from bench_core.units import NO_BREAK, count_text

KINDS = ("Training", "Inference", "Functions")


def kind_of(work: Workload) -> str:
    """One of KINDS."""
    if work.task == "train":
        return "Training"
    return "Functions" if work.is_function else "Inference"


def model_text(model: str) -> str:
    """Without the kind, which is plain from elsewhere: `sin_cos`."""
    return model.removeprefix("function:")


def size_text(work: Workload) -> str:
    """`batch 16`; of a function, whose input has that size, `n = 10 000`."""
    if work.is_function:
        return f"n{NO_BREAK}={NO_BREAK}{count_text(work.batch_size)}"
    return f"batch {work.batch_size}"


def thing_of(work: Workload) -> str:
    """What a second has many of. A model from a file may be fed anything."""
    kind = work.model.partition(":")[0]
    return {"function": "element", "file": "sample"}.get(kind, "image")


def workload_words(work: Workload) -> list[str]:
    """`batch 16` in training, where precisions are rarely mixed; `batch 1`, `bf16` in inference."""
    words = [size_text(work)]
    if kind_of(work) == "Inference":
        words.append(work.precision)
    return words
