"""Where the time of an eager step goes: three profiled steps after the timing.

Shares of the device's own time (CUDA) or of the CPU's own time, by the kind of operator; they sum
to 1. Loading is not in them: the batches are loaded before.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from bench_core.measuring.training import Step

KINDS = ("convolution", "matmul", "optimizer", "copies", "fusable", "other")
# Operators by what a compiler can do about them. The first two stay in the same libraries.
CONVOLUTION = ("conv",)
MATMUL = ("mm", "bmm", "baddbmm", "addbmm", "addmv", "mv", "matmul", "linear", "attention")
COPIES = ("copy_", "to", "_to_copy", "clone", "contiguous", "pin_memory", "cat")
# Making, viewing and freeing tensors, and the autograd machinery: no kernel to fuse.
BOOKKEEPING = (
    "empty", "view", "as_strided", "reshape", "t", "transpose", "permute", "expand", "detach",
    "alias", "select", "slice", "unsqueeze", "squeeze", "resize_", "set_", "result_type",
    "is_nonzero", "item", "_local_scalar_dense", "lift_fresh", "unbind", "split", "narrow",
    "empty_like", "empty_strided", "new_empty", "new_empty_strided", "flatten", "ones_like",
)  # fmt: skip


def shares(step: Step, batches: Iterable[Any], device: torch.device) -> tuple[dict, float]:
    """Shares by kind, and the mean seconds of a profiled step (slower than an unwatched one)."""
    batches = list(batches)
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
        torch.cuda.synchronize(device)
    with profile(activities=activities) as profiler:
        began = time.perf_counter()
        for images, labels in batches:
            step(images, labels)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = (time.perf_counter() - began) / len(batches)
    own_time = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    times: Counter[str] = Counter()
    for event in profiler.events():
        if (
            event.device_type == torch.autograd.DeviceType.CPU
        ):  # kernels are counted in their caller
            times[_kind(event)] += getattr(event, own_time)
    total = sum(times.values()) or 1
    return {kind: times[kind] / total for kind in KINDS}, seconds


def _kind(event: Any) -> str:
    above = event
    while above is not None:
        if above.name.startswith(("Optimizer.step#", "Optimizer.zero_grad#")):
            return "optimizer"
        above = above.cpu_parent
    library, _, operator = event.name.rpartition("::")
    if library not in ("aten", "torchvision", "mkldnn"):
        return "other"
    if any(word in operator for word in CONVOLUTION):
        return "convolution"
    if (
        operator in MATMUL
        or operator.lstrip("_").removeprefix("add") in MATMUL
        or ("attention" in operator)
    ):
        return "matmul"
    if operator in COPIES:
        return "copies"
    return "other" if operator in BOOKKEEPING else "fusable"
