"""The hot loop of training. Nothing in here watches, logs or asks the device for a value.

`train_epoch` is given a step and batches and returns when things happened; it neither knows nor
cares what the step does, so its own cost can be measured with a step that does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench_core.measuring.variants import AUTOCAST, records_cuda_graphs
from bench_core.spec import RunSpec, Workload

Step = Callable[[Tensor, Tensor], Tensor]
Criterion = Callable[[Any, Tensor], Tensor]
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
}


@dataclass(frozen=True)
class Timings:
    """One pass over the batches. `began_ns` and `ended_ns` are perf_counter_ns."""

    began_ns: int
    ended_ns: int
    step_seconds: tuple[float, ...]
    data_wait_seconds: float
    mean_loss: float


def train_epoch(step: Step, batches: Iterable[Any], device: torch.device, steps: int) -> Timings:
    """Run `step` on every batch. `steps` is how many there are; a GPU's events are made before.

    The wait for data is the host's time in the loader, the start of its workers included. On a GPU
    it overlaps with the device's work, so that waits and steps may add up to more than the epoch.
    """
    if device.type == "cpu":
        return _on_host_clock(step, batches)
    return _on_device_clock(step, batches, device, steps)


def _on_host_clock(step: Step, batches: Iterable[Any]) -> Timings:
    total = torch.zeros(())
    stamps: list[int] = []
    now, stamp = time.perf_counter_ns, stamps.append
    stamp(now())
    for images, labels in batches:
        stamp(now())
        total += step(images, labels)
        stamp(now())
    stamp(now())
    fetched, done = stamps[1:-1:2], stamps[2:-1:2]
    return Timings(
        began_ns=stamps[0],
        ended_ns=stamps[-1],
        step_seconds=tuple((b - a) / 1e9 for a, b in zip(fetched, done, strict=True)),
        data_wait_seconds=(sum(stamps[1::2]) - sum(stamps[0::2])) / 1e9,
        mean_loss=_mean(total, len(done)),
    )


def _on_device_clock(
    step: Step, batches: Iterable[Any], device: torch.device, steps: int
) -> Timings:
    gpu = {"cuda": torch.cuda, "mps": torch.mps}[device.type]
    events = [gpu.Event(enable_timing=True) for _ in range(2 * steps)]
    before, after = events[::2], events[1::2]
    total = torch.zeros((), device=device)
    now, waits, done = time.perf_counter_ns, 0, 0
    gpu.synchronize()
    began = asked = now()
    for images, labels in batches:
        waits += now() - asked
        before[done].record()
        total += step(images, labels)
        after[done].record()
        done += 1
        asked = now()
    waits += now() - asked
    gpu.synchronize()
    ended = now()
    return Timings(
        began_ns=began,
        ended_ns=ended,
        step_seconds=tuple(
            a.elapsed_time(b) / 1e3 for a, b in zip(before[:done], after[:done], strict=True)
        ),
        data_wait_seconds=waits / 1e9,
        mean_loss=_mean(total, done),
    )


def _mean(total: Tensor, steps: int) -> float:
    return total.item() / steps if steps else float("nan")


def step_of(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    criterion: Criterion,
    spec: RunSpec,
    device: torch.device,
) -> Step:
    """One optimiser step: copy to the device, forward, loss, backward, update. Returns the loss."""
    place = placement(spec.workload, device)
    loss_of = loss_function(module, criterion, spec.workload, device)

    def plain(images: Tensor, labels: Tensor) -> Tensor:
        images, labels = place(images, labels)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(images, labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    scaler = torch.amp.GradScaler(device.type, enabled=spec.workload.precision == "fp16")

    def scaled(images: Tensor, labels: Tensor) -> Tensor:
        images, labels = place(images, labels)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(images, labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    step = scaled if spec.workload.precision == "fp16" else plain
    if not records_cuda_graphs(spec.variant, device.type):
        return step

    def announced(images: Tensor, labels: Tensor) -> Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        return step(images, labels)

    return announced


def placement(
    workload: Workload, device: torch.device
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Moves a batch to the device in the memory layout asked for."""
    if workload.memory_layout == "contiguous":

        def place(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
            return images.to(device, non_blocking=True), labels.to(device, non_blocking=True)

        return place

    def place_channels_last(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return (
            images.to(device, non_blocking=True, memory_format=torch.channels_last),
            labels.to(device, non_blocking=True),
        )

    return place_channels_last


def loss_function(
    module: nn.Module, criterion: Criterion, workload: Workload, device: torch.device
) -> Step:
    """Forward and loss, under autocast for bf16 and fp16."""

    def loss_of(images: Tensor, labels: Tensor) -> Tensor:
        return criterion(module(images), labels)

    dtype = AUTOCAST.get(workload.precision)
    if dtype is None:
        return loss_of

    def autocast_loss_of(images: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(device.type, dtype):
            return criterion(module(images), labels)

    return autocast_loss_of


def evaluate(
    module: nn.Module, batches: Iterable[Any], workload: Workload, device: torch.device
) -> tuple[float, float]:
    """Seconds and accuracy of one pass in eval mode without gradients, through the arm's module."""
    place = placement(workload, device)
    dtype = AUTOCAST.get(workload.precision)
    hits = torch.zeros((), dtype=torch.int64, device=device)
    samples = 0
    began = time.perf_counter_ns()
    module.eval()
    with torch.no_grad(), torch.autocast(device.type, dtype, enabled=dtype is not None):
        for images, labels in batches:
            images, labels = place(images, labels)
            hits += (module(images).argmax(1) == labels).sum()
            samples += len(labels)
    accuracy = hits.item() / samples  # waits for the device
    module.train()
    return (time.perf_counter_ns() - began) / 1e9, accuracy
