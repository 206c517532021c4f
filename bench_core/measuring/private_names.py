"""The names inside torch that a capture reads, which torch does not promise to keep.

One table, so that another torch shows at once what it lacks: a name that is gone costs the stages
that it serves, and nothing else. Found in torch 2.14.1.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import torch


class Name(NamedTuple):
    """Where it is, and what is missing without it, in words of the page."""

    module: str
    attribute: str
    serves: str


TABLE = {
    "compile_fx": Name(
        "torch._inductor.compile_fx", "compile_fx", "everything that follows TorchDynamo"
    ),
    "compile_fx_inner": Name(
        "torch._inductor.compile_fx", "compile_fx_inner", "everything that follows TorchDynamo"
    ),
    "list_mode_options": Name("torch._inductor", "list_mode_options", "the variant's mode"),
    "inductor_config": Name(
        "torch._inductor.config", "patch", "everything that follows TorchDynamo"
    ),
    "functorch_config": Name("torch._functorch.config", "patch", "the backward graph"),
    "force_non_lazy_backward_lowering": Name(
        "torch._functorch.config", "force_non_lazy_backward_lowering", "the backward graph"
    ),
    "enable_autograd_cache": Name(
        "torch._functorch.config", "enable_autograd_cache", "a capture after another one"
    ),
    "joint_custom_post_pass": Name(
        "torch._inductor.config", "joint_custom_post_pass", "the joint graph"
    ),
    "post_grad_custom_pre_pass": Name(
        "torch._inductor.config", "post_grad_custom_pre_pass", "the graph before the passes"
    ),
    "post_grad_custom_post_pass": Name(
        "torch._inductor.config", "post_grad_custom_post_pass", "the graph after the passes"
    ),
    "_pre_fusion_custom_pass": Name(
        "torch._inductor.config", "_pre_fusion_custom_pass", "the nodes before fusion"
    ),
    "_post_fusion_custom_pass": Name(
        "torch._inductor.config", "_post_fusion_custom_pass", "the nodes after fusion"
    ),
    "compile_to_module": Name(
        "torch._inductor.graph", "GraphLowering.compile_to_module", "the generated code"
    ),
    "codegen": Name("torch._inductor.graph", "GraphLowering.codegen", "the generated code"),
    "cpp_kernels": Name(
        "torch._inductor.codegen.cpp", "CppScheduling.define_kernel", "what C++ kernels consist of"
    ),
    "triton_kernels": Name(
        "torch._inductor.codegen.triton",
        "TritonScheduling.define_kernel",
        "what Triton kernels consist of",
    ),
    "select_decomp_table": Name(
        "torch._inductor.decomposition", "select_decomp_table", "the decompositions"
    ),
    "get_proxy_mode": Name(
        "torch.fx.experimental.proxy_tensor", "get_proxy_mode", "the decompositions"
    ),
    "ir_nodes_pre_fusion": Name(
        "torch._inductor.metrics", "ir_nodes_pre_fusion", "Inductor's own count of its nodes"
    ),
    "graph_break_reasons": Name("torch._dynamo.utils", "graph_break_reasons", "the graph breaks"),
    "compilation_metrics": Name(
        "torch._dynamo.utils", "get_compilation_metrics", "the number of guards"
    ),
    "current_compile_id": Name(
        "torch._guards", "CompileContext.current_compile_id", "the number of guards"
    ),
    "event_logger": Name(
        "torch._dynamo.utils", "get_chromium_event_logger", "the phases of the first call"
    ),
    "event_start": Name(
        "torch._dynamo.utils", "ChromiumEventLogger.log_event_start", "the phases of the first call"
    ),
    "event_end": Name(
        "torch._dynamo.utils", "ChromiumEventLogger.log_event_end", "the phases of the first call"
    ),
    "modules_of_code": Name(
        "torch._inductor.codecache", "PyCodeCache.modules", "the time of each kernel"
    ),
}


def find(key: str) -> Any | None:
    """What the name stands for, or None where this torch has no such name."""
    holder = holder_of(key)
    found = getattr(holder, TABLE[key].attribute.split(".")[-1], ...)
    if found is ...:
        return None
    # A switch may hold None or False: then the name is there all the same.
    return True if found is None or found is False else found


def holder_of(key: str) -> Any | None:
    """The module or class that the name stands in."""
    name = TABLE[key]
    try:
        holder: Any = importlib.import_module(name.module)
        for part in name.attribute.split(".")[:-1]:
            holder = getattr(holder, part)
    except (ImportError, AttributeError):
        return None
    return holder


def missing(*keys: str) -> list[dict[str, str]]:
    """What this torch cannot show, with the reason; of all names when none is given."""
    return [
        {
            "what": TABLE[key].serves,
            "reason": f"torch {torch.__version__} has no {TABLE[key].module}."
            f"{TABLE[key].attribute}; it was read from torch 2.14.1",
        }
        for key in keys or TABLE
        if find(key) is None
    ]
