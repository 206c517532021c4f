"""The hot loop of inference: latencies of single iterations, each waited for.

`time_block` is given a call and an endless iterator of inputs and returns when things happened;
it neither knows nor cares what the call does, so its own cost can be measured with an empty one.
"""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from bench_core.measuring.failures import ModelError
from bench_core.measuring.training import placement
from bench_core.measuring.variants import AUTOCAST, MADE_AHEAD, records_cuda_graphs
from bench_core.spec import RunSpec

# A block ends after this long, so that what it measured is told and stored while the next one runs.
BLOCK_SECONDS = 0.5
MOST_ITERATIONS = 2000

Call = Callable[[Any], Any]


@dataclass(frozen=True)
class Block:
    """Some iterations in a row. Stamps are perf_counter_ns; `ended_ns` has one an iteration."""

    began_ns: int
    ended_ns: tuple[int, ...]
    step_seconds: tuple[float, ...]
    device_seconds: tuple[float, ...]
    data_wait_seconds: float

    def iteration_at(self, moment_ns: int) -> int:
        """Index of the iteration that ends at or after a moment, the last one at most."""
        return min(bisect_left(self.ended_ns, moment_ns), len(self.ended_ns) - 1)


def time_block(
    call: Call,
    inputs: Iterator[Any],
    device: torch.device,
    iterations: int,
    seconds: float = BLOCK_SECONDS,
) -> Block:
    """Call on one input after the other until `iterations` are done or `seconds` are over.

    Each iteration is waited for, so a latency is what a caller waits; the wait for its input is
    apart. On a GPU the device's own events stand beside the wall clock.
    """
    iterations = min(iterations, MOST_ITERATIONS)
    if device.type == "cpu":
        return _on_host_clock(call, islice(inputs, iterations), seconds)
    return _on_device_clock(call, islice(inputs, iterations), device, seconds)


def _on_host_clock(call: Call, inputs: Iterator[Any], seconds: float) -> Block:
    stamps: list[int] = []
    now, stamp = time.perf_counter_ns, stamps.append
    began = now()
    over = began + int(seconds * 1e9)
    for one in inputs:
        stamp(now())
        call(one)
        done = now()
        stamp(done)
        if done > over:
            break
    return _block(began, stamps, [])


def _on_device_clock(
    call: Call, inputs: Iterator[Any], device: torch.device, seconds: float
) -> Block:
    gpu = {"cuda": torch.cuda, "mps": torch.mps}[device.type]
    before, after = (gpu.Event(enable_timing=True) for _ in range(2))
    stamps: list[int] = []
    on_device: list[float] = []
    now, stamp = time.perf_counter_ns, stamps.append
    gpu.synchronize()
    began = now()
    over = began + int(seconds * 1e9)
    for one in inputs:
        stamp(now())
        before.record()
        call(one)
        after.record()
        gpu.synchronize()
        done = now()
        stamp(done)
        on_device.append(before.elapsed_time(after) / 1e3)
        if done > over:
            break
    return _block(began, stamps, on_device)


def _block(began: int, stamps: list[int], on_device: list[float]) -> Block:
    started, ended = stamps[0::2], stamps[1::2]
    asked = [began, *ended]
    return Block(
        began_ns=began,
        ended_ns=tuple(ended),
        # A clock may be coarser than an empty function is long.
        step_seconds=tuple(max(1, b - a) / 1e9 for a, b in zip(started, ended, strict=True)),
        device_seconds=tuple(on_device),
        data_wait_seconds=sum(b - a for a, b in zip(asked, started, strict=False)) / 1e9,
    )


def endless(batches: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
    """The inputs of the batches, again and again."""
    while True:
        for inputs, _ in batches:
            yield inputs


def call_of(
    callee: Call, spec: RunSpec, device: torch.device, parameters: Sequence[Tensor]
) -> Call:
    """One iteration on one input: copy to the device unless resident, forward, backward if asked.

    Gradients are those of `parameters`, or of a function's inputs. Autocast is entered in each
    call, as in anybody's code; its cache of casted weights is off in every arm, because TorchScript
    does not run with it.
    """
    work = spec.workload
    call = (lambda inputs: callee(*inputs)) if work.is_function else callee
    dtype = AUTOCAST.get(work.precision)
    if dtype is not None and spec.variant.execution not in MADE_AHEAD:
        call = _under_autocast(call, device, dtype)
    if work.backward:
        call = _with_backward(call, None if work.is_function else parameters)
    if work.pipeline != "resident":
        call = _placed(call, spec, device)
    if records_cuda_graphs(spec.variant, device.type):
        call = _announced(call)
    return call


def _under_autocast(call: Call, device: torch.device, dtype: torch.dtype) -> Call:
    def under_autocast(inputs: Any) -> Any:
        with torch.autocast(device.type, dtype, cache_enabled=False):
            return call(inputs)

    return under_autocast


def _with_backward(call: Call, parameters: Sequence[Tensor] | None) -> Call:
    trained = [parameter for parameter in parameters or () if parameter.requires_grad]

    def with_backward(inputs: Any) -> Any:
        leaves = inputs if parameters is None else trained
        outputs = tensors_of(call(inputs))
        if not outputs:
            raise ModelError("backward needs a tensor to start from, and the model returned none")
        total = sum(output.sum() for output in outputs)
        # Handed back, not added up in the leaves: nothing is left to clear.
        return torch.autograd.grad(total, leaves, allow_unused=True)

    return with_backward


def _placed(call: Call, spec: RunSpec, device: torch.device) -> Call:
    place = placement(spec.workload, device)

    def placed(inputs: Tensor) -> Any:
        return call(place(inputs, inputs)[0])

    return placed


def _announced(call: Call) -> Call:
    def announced(inputs: Any) -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        return call(inputs)

    return announced


def tensors_of(outputs: Any) -> list[Tensor]:
    """All tensors in what a model returns: a tensor, or a sequence or mapping of such."""
    if torch.is_tensor(outputs):
        return [outputs]
    if isinstance(outputs, dict):
        outputs = tuple(outputs.values())
    if isinstance(outputs, list | tuple):
        return [tensor for output in outputs for tensor in tensors_of(output)]
    return []


def grad_mode_of(spec: RunSpec) -> contextlib.AbstractContextManager[Any]:
    """The context that the workload's grad_mode names; enabled in training."""
    modes = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
    return modes.get(spec.workload.grad_mode or "", torch.enable_grad)()
