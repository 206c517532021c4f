"""What a workload is called: its kind, which is never mixed with another in one answer, and what
else its runs are told apart by."""

from __future__ import annotations

from bench_core.spec import Workload

KINDS = ("Training", "Inference", "Functions")


def kind_of(work: Workload) -> str:
    """One of KINDS."""
    if work.task == "train":
        return "Training"
    return "Functions" if work.is_function else "Inference"


def model_text(model: str) -> str:
    """Without the kind, which is plain from elsewhere: `sin_cos`."""
    return model.removeprefix("function:")


def workload_words(work: Workload) -> list[str]:
    """`batch 16`; `batch 16`, `bf16`, `channels_last`; in inference `batch 1`, `fp32`."""
    words = [work.size_text, *work.unusual.values()]
    if kind_of(work) == "Inference" and "precision" not in work.unusual:
        words.insert(1, work.precision)
    return words
