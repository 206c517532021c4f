"""Where the time of an eager step goes: three profiled steps after the timing.

Shares of the device's own time (CUDA) or of the CPU's own time, by the kind of operator; they sum
to 1. Loading is not in them: the batches are loaded before.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from bench_core.events import covered
from bench_core.measuring.training import Step

KINDS = ("convolution", "matmul", "optimizer", "copies", "fusable", "other")
# Operators by what a compiler can do about them. The first two stay in the same libraries;
# recurrent layers are their matrix products there.
CONVOLUTION = re.compile(r"(?:^|_)conv(?:olution|\dd|_|$)")
MATMUL = re.compile(
    r"(?:^|_|add|badd)(?:mm|bmm|mv)(?:_|$)|attention"
    r"|(?:^|_)(?:v?dot|addr|ger|matmul|(?:bi)?linear|einsum)_?(?:$|_backward|_pointwise)"
    r"|(?:cudnn|miopen|mkldnn)_rnn|^(?:lstm|gru|rnn_tanh|rnn_relu)$"
)
COPIES = ("copy_", "to", "_to_copy", "clone", "contiguous", "pin_memory", "_pin_memory")
# Making, viewing and freeing tensors, and the autograd machinery: no kernel to fuse.
BOOKKEEPING = (
    "empty", "view", "_unsafe_view", "_reshape_alias", "view_as", "as_strided", "as_strided_",
    "reshape", "t", "transpose", "permute", "expand", "expand_as", "detach", "detach_", "alias",
    "select", "slice", "unsqueeze", "squeeze", "resize_", "set_", "result_type", "is_nonzero",
    "item", "_local_scalar_dense", "lift_fresh", "unbind", "split", "chunk", "narrow", "unflatten",
    "empty_like", "empty_strided", "new_empty", "new_empty_strided", "flatten", "ones_like",
    "movedim", "numpy_T",
)  # fmt: skip


class Profiled(NamedTuple):
    """`step_seconds`: a mean watched step, slower than an unwatched one. `device_busy_seconds`: how
    long the device worked in it: a GPU's kernels, a CPU's operators. The rest is the host's.
    """

    shares: dict[str, float]
    step_seconds: float
    device_busy_seconds: float


def profiled(step: Step, batches: Iterable[Any], device: torch.device) -> Profiled:
    """Run `step` on the batches, watched."""
    batches = list(batches)
    watched, seconds = watch(step, batches, device)
    events = watched.events()
    if device.type == "cuda":
        kernels = [
            (event.time_range.start, event.time_range.end)
            for event in events
            # An annotation spans its kernels and the pauses between them.
            if event.device_type == torch.autograd.DeviceType.CUDA
            and not getattr(event, "is_user_annotation", False)
        ]
        busy = covered(kernels)
    else:
        busy = sum(event.self_cpu_time_total for event in events)
    steps = len(batches)
    return Profiled(shares(events, device), seconds / steps, busy / 1e6 / steps)


def watch(step: Step, batches: Sequence[Any], device: torch.device) -> tuple[profile, float]:
    """The profile of all batches, and the seconds that they took."""
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
        seconds = time.perf_counter() - began
    return profiler, seconds


def shares(events: Iterable[Any], device: torch.device) -> dict[str, float]:
    """Parts of the events' own time by KINDS. Zeros where nothing took time."""
    own_time = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    times: Counter[str] = Counter()
    for event in events:
        # Kernels are counted in their caller.
        if event.device_type == torch.autograd.DeviceType.CPU:
            times[kind_of(event)] += getattr(event, own_time)
    total = sum(times.values()) or 1
    return {kind: times[kind] / total for kind in KINDS}


def kind_of(event: Any) -> str:
    above = event
    while above is not None:
        # Not by the operator: what updates parameters is no part of the compiled module.
        if above.name.startswith(("Optimizer.step#", "Optimizer.zero_grad#")):
            return "optimizer"
        above = above.cpu_parent
    library, _, operator = event.name.rpartition("::")
    if library not in ("aten", "torchvision", "mkldnn"):
        return "other"
    if operator.startswith("_amp_"):  # the gradient scaler's, before and after the update
        return "optimizer"
    if CONVOLUTION.search(operator):
        return "convolution"
    if MATMUL.search(operator):
        return "matmul"
    if operator in COPIES:
        return "copies"
    return "other" if operator in BOOKKEEPING else "fusable"
