"""Experiments with planted times, written through the store's own methods. No torch, no waiting.

`planted_experiment(store)` queues an experiment and measures it on paper: times follow `SHAPES`,
the form that published measurements have (a first epoch that is long because of compiling, then a
few per cent of difference), with scatter between processes and between epochs. The same call gives
the same times. What a run's clock would have shown is set afterwards, in the file itself.
"""

from __future__ import annotations

import math
import random
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench_core.events import (
    Activity,
    Aftermath,
    CompileWindow,
    Environment,
    Epoch,
    Finding,
    Parity,
    Prepared,
)
from bench_core.measured import Measured, measure
from bench_core.run import Run, Status
from bench_core.spec import Experiment, Measurement, Precision, Protocol, Rung, Variant
from bench_core.store import Store

EAGER = Variant()
COMPILE = Variant(execution="compile")
GIB = 2**30


@dataclass(frozen=True)
class Shape:
    """How an arm behaves: seconds of a steady epoch, and what the first epoch takes on top."""

    steady_seconds: float
    compile_seconds: float = 0.0
    warm_compile_seconds: float = 2.4
    warmup_seconds: float = 0.0
    process_scatter: float = 0.003
    epoch_scatter: float = 0.004
    wait_share: float = 0.06


# (machine, model) -> eager and compile. Each answer that the product knows occurs once.
SHAPES: dict[tuple[str, str], tuple[Shape, Shape]] = {
    ("T4", "resnet101"): (Shape(66.2, warmup_seconds=1.2), Shape(61.1, compile_seconds=70.0)),
    ("T4", "resnet50"): (Shape(34.1, warmup_seconds=0.9), Shape(32.4, compile_seconds=47.5)),
    ("T4", "resnet18"): (Shape(14.75, warmup_seconds=0.6), Shape(14.72, compile_seconds=38.2)),
    ("T4", "vgg16"): (Shape(58.9, warmup_seconds=1.1), Shape(54.6, compile_seconds=31.0)),
    ("A100", "resnet18"): (Shape(3.02, warmup_seconds=0.5), Shape(3.14, compile_seconds=33.4)),
    ("A100", "resnet101"): (Shape(10.4, warmup_seconds=0.7), Shape(8.88, compile_seconds=62.3)),
    ("CPU", "small_cnn"): (Shape(1.9, warmup_seconds=0.2), Shape(1.31, compile_seconds=5.8)),
}
# Inference: seconds of a call with batch 1 by execution, its first call on top, what precedes it.
LATENCIES: dict[str, Shape] = {
    "eager": Shape(0.0460, warmup_seconds=0.17),
    "compile": Shape(0.0550, compile_seconds=31.0),
    "compile_frozen": Shape(0.0370, compile_seconds=36.0, warm_compile_seconds=12.0),
    "export_aot": Shape(0.0400, warmup_seconds=0.02),
    "jit_trace_frozen": Shape(0.0450, warmup_seconds=0.4),
    "onednn_graph": Shape(0.0330, warmup_seconds=0.9),
}
EXECUTION_SECONDS = {"export_aot": 41.0, "jit_trace_frozen": 1.1, "onednn_graph": 1.3}
EFFECTIVE = {
    "compile": Finding(asked="compile", got="1 graph compiled", met=True),
    "compile_frozen": Finding(asked="frozen weights", got="frozen", met=True),
    "onednn_graph": Finding(asked="oneDNN Graph", got="22 fused groups", met=True),
}
# Of an eager training step, by kind of work: a ResNet at 224 px.
SHARES = {
    "convolution": 0.74,
    "matmul": 0.03,
    "optimizer": 0.05,
    "copies": 0.02,
    "fusable": 0.14,
    "other": 0.02,
}
# A function's call: a constant, and what an element of its input costs.
FUNCTION_LATENCIES = {"eager": (6e-6, 1.6e-9), "compile": (12e-6, 0.7e-9)}
ITERATIONS_A_BLOCK = 25
# What another precision or layout makes of a training epoch.
RUNG_FACTORS = {"bf16": 0.62, "channels_last": 0.93}
DEVICES = {"T4": ("cuda:0", "Tesla T4"), "A100": ("cuda:0", "NVIDIA A100-SXM4-40GB")}


def environment(machine: str = "T4", **changed: Any) -> Environment:
    """A plausible machine of that label: `T4`, `A100`, or a CPU under any other name."""
    on_gpu = machine in DEVICES
    fields: dict[str, Any] = {
        "machine": machine,
        "machine_id": f"planted-{machine.lower()}",
        "device_name": DEVICES[machine][1] if on_gpu else "Intel(R) Xeon(R) @ 2.20GHz",
        "compute_capability": {"T4": "7.5", "A100": "8.0"}.get(machine),
        "multiprocessors": {"T4": 40, "A100": 108}.get(machine),
        "device_memory_bytes": {"T4": 15 * GIB, "A100": 40 * GIB}.get(machine),
        "cuda": "12.8" if on_gpu else None,
        "cudnn": "9.10.2" if on_gpu else None,
        "driver": "570.86" if on_gpu else None,
        "cpu_name": "Intel(R) Xeon(R) @ 2.20GHz",
        "cpu_cores": 2,
        "cpu_affinity": 2,
        "cpu_isa": "avx2",
        "memory_bytes": 13 * GIB,
        "torch": "2.14.1",
        "torchvision": "0.29.1",
        "python": "3.11.9",
        "os": "Linux 6.1",
        "threads": 2,
        "tf32_convolution": True if on_gpu else None,
        "tf32_matmul": False if on_gpu else None,
        "compiler": "g++ 12.2.0",
        "bench_version": "1",
        **changed,
    }
    return Environment(**fields)


def planted_experiment(
    store: Store,
    *,
    models: Sequence[str] = ("resnet101",),
    batch_sizes: Sequence[int] = (16,),
    variants: Sequence[Variant] = (EAGER, COMPILE),
    repeats: int = 3,
    epochs: int = 10,
    machine: str = "T4",
    measured: int | None = None,
    ended_ago_seconds: float = 3600.0,
    shapes: dict[tuple[str, str], tuple[Shape, Shape]] = SHAPES,
    workload: dict[str, Any] | None = None,
    iterations: int = 120,
    precisions: Sequence[Precision] = ("fp32",),
    rungs: Sequence[Rung] = (),
    protocol: Protocol = "sequential",
    until_sure: float | None = None,
) -> Experiment:
    """Queue an experiment and measure its first `measured` runs (all, unless named).

    The last one ended `ended_ago_seconds` ago by its own clock. Runs beyond `measured` stay queued:
    `plant_run` takes the next of them.
    """
    workload = workload or {}
    infers = workload.get("task") == "infer"
    experiment = Experiment(
        models=tuple(models),
        batch_sizes=tuple(batch_sizes),
        variants=tuple(variants),
        rungs=tuple(rungs),
        repeats=repeats,
        device=DEVICES[machine][0] if machine in DEVICES else "cpu",
        precisions=tuple(precisions),
        measurement=Measurement(
            epochs=epochs, iterations=iterations, protocol=protocol, until_sure=until_sure
        ),
        workload=workload if infers else {"samples": 1000, **workload},
    )
    store.queue(experiment)
    count = len(experiment.runs()) if measured is None else measured
    clock = time.time() - 1e7  # moved to its place once the length is known
    runs = []
    for _ in range(count):
        run = plant_run(store, experiment.id, machine=machine, started_at=clock, shapes=shapes)
        clock = (run.ended_at or clock) + 2.0
        runs.append(run)
    if runs:
        shift = time.time() - ended_ago_seconds - (runs[-1].ended_at or clock)
        _move_clock(store, [run.number for run in runs], shift)
    return experiment


def measured_in(store: Store) -> list[Measured]:
    """All that is stored, with what can be said of each run."""
    runs = store.runs()
    epochs = store.epochs([run.number for run in runs])
    return [measure(run, epochs[run.number]) for run in runs]


def plant_run(
    store: Store,
    experiment_id: str,
    *,
    machine: str = "T4",
    epochs: int | None = None,
    status: Status = "done",
    started_at: float | None = None,
    shapes: dict[tuple[str, str], tuple[Shape, Shape]] = SHAPES,
    failure: str | None = None,
    reason: str | None = None,
    traceback: str | None = None,
    aftermath: Aftermath | None = None,
) -> Run:
    """Claim the experiment's next queued run and measure `epochs` of it (all, unless named).

    In inference an epoch is a block: the first call alone, then 25 iterations each.

    `status="running"` leaves it in the middle of the next epoch, its clock at now; any other
    status ends it. Returns the run as stored.
    """
    run = store.claim(experiment_id)
    assert run is not None, f"experiment {experiment_id} has no queued run left"
    if run.spec.measurement.protocol == "paired":
        work = run.spec.workload
        turns = (work.model, work.batch_size, work.precision, run.spec.measurement.repeat)
        store.set_round([run.number], f"{experiment_id} {' '.join(map(str, turns))}")
    shape = shape_of(run, machine, shapes)
    count = blocks_of(run) if epochs is None else epochs
    store.set_environment(run.number, environment(machine))
    store.set_prepared(
        run.number,
        Prepared(
            parameters=44_549_160,
            weights="random",
            steps_per_epoch=run.spec.workload.steps_per_epoch,
            remainder=run.spec.workload.remainder,
            setup_seconds=3.1,
            execution_seconds=EXECUTION_SECONDS.get(run.spec.variant.execution, 0.0),
        ),
    )
    priming = shape.compile_seconds if run.spec.variant.cache == "warm" else 0.0
    if priming:
        store.set_priming_seconds(run.number, priming)
    planned = [planted_epoch(run, shape, number) for number in range(1, count + 1)]
    length = 5.0 + priming + sum(epoch.wall_seconds for epoch in planned)
    if started_at is None:
        started_at = time.time() - length - (0.4 * shape.steady_seconds)
    clock = started_at + 5.0 + priming
    for epoch in planned:
        plant_epoch(store, run, epoch.epoch, started_at=clock, machine=machine, shapes=shapes)
        clock += epoch.wall_seconds
    if run.spec.variant.backend and count:
        warm = run.spec.variant.cache == "warm"
        store.set_activity(
            run.number,
            Activity(
                graphs=1,
                frames_compiled=1,
                frames_total=1,
                kernels=199,
                cache_hits=2 if warm else 0,
                cache_misses=0 if warm else 2,
                compile_seconds=sum(epoch.compile_seconds for epoch in planned),
            ),
        )
    if status == "running":
        store.set_phase(run.number, "epoch", count + 1)
        _set_clock(store, run.number, started_at=started_at, phase_since=clock, ended_at=None)
    else:
        if status == "done":
            store.set_aftermath(run.number, aftermath or planted_aftermath(run, shape))
        store.finish(run.number, status, failure=failure, reason=reason, traceback=traceback)
        _set_clock(store, run.number, started_at=started_at, phase_since=clock, ended_at=clock + 1)
    stored = store.run(run.number)
    assert stored is not None
    return stored


def plant_epoch(
    store: Store,
    run: Run,
    number: int,
    *,
    started_at: float | None = None,
    machine: str = "T4",
    shapes: dict[tuple[str, str], tuple[Shape, Shape]] = SHAPES,
) -> Epoch:
    """One more epoch of a running run, ended now unless `started_at` says otherwise."""
    epoch = planted_epoch(run, shape_of(run, machine, shapes), number)
    epoch = epoch.changed(
        started_at=time.time() - epoch.wall_seconds if started_at is None else started_at
    )
    store.add_epoch(run.number, epoch)
    store.set_phase(run.number, "epoch", number + 1)
    return epoch


def shape_of(
    run: Run, machine: str, shapes: dict[tuple[str, str], tuple[Shape, Shape]] = SHAPES
) -> Shape:
    """The arm's shape; another batch size than 16 keeps the epoch and changes nothing else."""
    work, execution = run.spec.workload, run.spec.variant.execution
    if work.is_function:
        start, element = FUNCTION_LATENCIES[execution]
        compiling = 0.0 if execution == "eager" else 8.0
        return Shape(start + element * work.batch_size, compile_seconds=compiling)
    if work.task == "infer":
        one = LATENCIES[execution]
        factor = work.batch_size**0.9 * (0.65 if work.precision == "bf16" else 1.0)
        return replace(one, steady_seconds=one.steady_seconds * factor)
    eager, compiled = shapes[machine, work.model]
    shape = compiled if run.spec.variant.execution == "compile" else eager
    factor = math.prod(
        RUNG_FACTORS.get(value, 1.0) for value in (work.precision, work.memory_layout)
    )
    return replace(shape, steady_seconds=shape.steady_seconds * factor)


def blocks_of(run: Run) -> int:
    """Epochs of a whole run; in inference its blocks."""
    if run.spec.workload.task == "train":
        return run.spec.measurement.epochs
    return 1 + -(-(run.spec.measurement.iterations - 1) // ITERATIONS_A_BLOCK)


def planted_aftermath(run: Run, shape: Shape) -> Aftermath:
    work = run.spec.workload
    if work.task == "train":
        step = shape.steady_seconds * (1 - shape.wait_share) / work.steps_per_epoch
        eager = run.spec.variant.execution == "eager"
        return Aftermath(
            loader_only_seconds=shape.steady_seconds / 4,
            shares=SHARES if eager else None,
            profiled_step_seconds=1.2 * step if eager else None,
            device_busy_seconds=0.95 * step if eager else None,
        )
    finding = EFFECTIVE.get(run.spec.variant.execution)
    same = Parity(verdict="same", text="its outputs agree with eager's", output_difference=2e-7)
    return Aftermath(
        effective=(finding,) if finding else (),
        parity=None if run.spec.variant.execution == "eager" else same,
    )


def planted_block(run: Run, shape: Shape, number: int) -> Epoch:
    """Block `number` of an inference run, started at 0; the same for the same spec."""
    work, measurement = run.spec.workload, run.spec.measurement
    key = f"{work.to_json()} {run.spec.variant.name} {measurement.repeat}"
    steady = shape.steady_seconds * random.Random(key).gauss(1.0, shape.process_scatter)
    chance = random.Random(f"{key} {number}")
    done = 0 if number == 1 else 1 + (number - 2) * ITERATIONS_A_BLOCK
    count = 1 if number == 1 else min(ITERATIONS_A_BLOCK, measurement.iterations - done)
    latencies = [
        steady * chance.gauss(1.0, shape.epoch_scatter) * (1.3 if chance.random() < 0.02 else 1.0)
        for _ in range(count)
    ]
    compiling = 0.0
    windows: tuple[CompileWindow, ...] = ()
    if number == 1:
        warm = run.spec.variant.cache == "warm"
        if shape.compile_seconds:
            compiling = shape.warm_compile_seconds if warm else shape.compile_seconds
            windows = (
                CompileWindow(
                    trigger="DYNAMO", offset_seconds=0.01, seconds=compiling, iteration=0
                ),
            )
        latencies[0] += compiling + shape.warmup_seconds
    return Epoch(
        epoch=number,
        started_at=0.0,
        wall_seconds=sum(latencies),
        data_wait_seconds=0.0,
        compile_seconds=compiling,
        compile_windows=windows,
        step_seconds=tuple(latencies),
        samples=count * work.batch_size,
        loss=None,
        peak_memory_bytes=int(0.9e9),
        foreign_cpu_share=0.01,
    )


def planted_epoch(run: Run, shape: Shape, number: int) -> Epoch:
    """Epoch `number` of that run, started at 0; the same for the same spec."""
    work = run.spec.workload
    if work.task == "infer":
        return planted_block(run, shape, number)
    key = f"{work.model} {work.batch_size} {run.spec.variant.name} {run.spec.measurement.repeat}"
    key += f" {run.spec.measurement.side}" if run.spec.measurement.side else ""
    process = random.Random(key).gauss(1.0, shape.process_scatter)
    chance = random.Random(f"{key} {number}")
    steady = shape.steady_seconds * process * chance.gauss(1.0, shape.epoch_scatter)
    warm = run.spec.variant.cache == "warm"
    compiling = 0.0
    if number == 1 and shape.compile_seconds:
        compiling = shape.warm_compile_seconds if warm else shape.compile_seconds
    warming_up = shape.warmup_seconds if number == 1 else 0.0
    steps = work.steps_per_epoch
    step = steady * (1 - shape.wait_share) / steps
    step_seconds = [
        step * chance.gauss(1.0, 0.012) * (1.08 if chance.random() < 0.008 else 1.0)
        for _ in range(steps)
    ]
    step_seconds[0] += compiling + warming_up
    waiting = steady * shape.wait_share
    windows: tuple[CompileWindow, ...] = ()
    if compiling:
        forward = 0.7 * compiling
        windows = (
            CompileWindow(trigger="DYNAMO", offset_seconds=0.2, seconds=forward),
            CompileWindow(
                trigger="LAZY_BACKWARD",
                offset_seconds=0.2 + forward,
                seconds=compiling - forward,
            ),
        )
    return Epoch(
        epoch=number,
        started_at=0.0,
        wall_seconds=sum(step_seconds) + waiting,
        data_wait_seconds=waiting,
        compile_seconds=compiling,
        compile_windows=windows,
        step_seconds=tuple(step_seconds),
        samples=steps * work.batch_size if work.drop_last else work.samples,
        loss=6.9 * 0.9**number,
        peak_memory_bytes=int(3.9e9),
        foreign_cpu_share=0.01,
    )


def _set_clock(
    store: Store, number: int, *, started_at: float, phase_since: float, ended_at: float | None
) -> None:
    """What the run's clock showed: the store itself only ever writes the present time."""
    with sqlite3.connect(store.path) as db:
        db.execute(
            "UPDATE runs SET created_at = ?, started_at = ?, phase_since = ?, ended_at = ? "
            "WHERE number = ?",
            (started_at - 1, started_at, phase_since, ended_at, number),
        )
    db.close()


def _move_clock(store: Store, numbers: Sequence[int], shift: float) -> None:
    with sqlite3.connect(store.path) as db:
        for number in numbers:
            db.execute(
                "UPDATE runs SET created_at = created_at + :shift, started_at = started_at + "
                ":shift, phase_since = phase_since + :shift, ended_at = ended_at + :shift "
                "WHERE number = :number",
                {"shift": shift, "number": number},
            )
            db.execute(
                "UPDATE epochs SET started_at = started_at + ? WHERE run_number = ?",
                (shift, number),
            )
    db.close()
