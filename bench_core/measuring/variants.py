"""How a module is executed: one function for each `execution` word of the spec."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from bench_core.measuring.failures import CompileRefused
from bench_core.spec import Variant


def _eager(module: nn.Module, variant: Variant) -> nn.Module:
    return module


def _compile(module: nn.Module, variant: Variant) -> nn.Module:
    # torch.compile writes into the options it is given.
    try:
        return torch.compile(module, **copy.deepcopy(variant.arguments))
    except (RuntimeError, TypeError) as error:
        said = str(error).split(", known options are")[0]  # 644 names follow
        raise CompileRefused(f"torch.compile does not take {variant.name!r}: {said}") from error


EXECUTIONS: dict[str, Callable[[nn.Module, Variant], nn.Module]] = {
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
