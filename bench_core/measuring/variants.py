"""How a module is executed: one function for each `execution` word of the spec."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from bench_core.measuring.failures import CompileRefused
from bench_core.spec import RunSpec, Variant

# What is called in place of a model (or function), made from it, the spec and one batch's inputs.
Make = Callable[[Any, RunSpec, Any], Any]


def _eager(callee: Any, spec: RunSpec, inputs: Any) -> Any:
    return callee


def _compile(callee: Any, spec: RunSpec, inputs: Any) -> Any:
    # torch.compile writes into the options it is given.
    try:
        return torch.compile(callee, **copy.deepcopy(spec.variant.arguments))
    except (RuntimeError, TypeError) as error:
        said = str(error).split(", known options are")[0]  # 644 names follow
        name = spec.variant.name
        raise CompileRefused(f"torch.compile does not take {name!r}: {said}") from error


EXECUTIONS: dict[str, Make] = {
    "eager": _eager,
    "compile": _compile,
}


def records_cuda_graphs(variant: Variant, device_type: str) -> bool:
    """Whether Inductor will replay CUDA graphs, so that each step has to announce itself."""
    options = variant.options or {}
    return device_type == "cuda" and (
        variant.mode in ("reduce-overhead", "max-autotune")
        or variant.backend == "cudagraphs"
        or bool(options.get("triton.cudagraphs"))
    )
