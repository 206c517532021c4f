"""What a workload is called: its kind is never mixed with another in one answer."""

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
