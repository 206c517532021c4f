"""Thousands of imported runs made at once, as a results file of several machines would hold them.

A cell (model, batch size, precision, layout, machine) has eager and compile with three repeats;
times follow planted shapes. The same numbers give the same runs. No torch, no waiting.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

from bench_core.events import Activity, CompileWindow, Epoch, Prepared, StepSummary
from bench_core.imported import ImportedRun
from bench_core.run import Run
from bench_core.source import Source
from bench_core.spec import Measurement, RunSpec, Variant, Workload
from tests.planted import COMPILE, EAGER, environment

MACHINES = ("T4", "A100", "CPU", "laptop")
MODELS = ("resnet18", "resnet50", "resnet101", "vgg16", "small_cnn", "yolov7", "timm:vit", "timm:x")
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
REPEATS = 3
START = 1.7e9


def many_runs(count: int, epochs: int, salt: str = "") -> Iterator[ImportedRun]:
    """`count` runs of `epochs` epochs each; another `salt` gives other runs, with other ids."""
    cells = product(
        MODELS, BATCHES, ("fp32", "bf16", "fp16"), ("contiguous", "channels_last"), MACHINES
    )
    arms = product(cells, range(1, REPEATS + 1), (EAGER, COMPILE))
    for place, (cell, repeat, variant) in enumerate(islice(arms, count)):
        yield _run(cell, repeat, variant, epochs, f"{salt} {place}", START + 1000.0 * place)


def _run(
    cell: tuple[Any, ...], repeat: int, variant: Variant, epochs: int, key: str, at: float
) -> ImportedRun:
    model, batch, precision, layout, machine = cell
    chance = random.Random(key)
    on = environment(machine)
    spec = RunSpec(
        workload=Workload(
            model=model, batch_size=batch, precision=precision, memory_layout=layout, samples=1024
        ),
        variant=variant.changed(cache="cold") if variant.execution == "compile" else variant,
        device="cuda:0" if machine in ("T4", "A100") else "cpu",
        measurement=Measurement(epochs=epochs, repeat=repeat),
    )
    experiment = hashlib.sha256(f"{key.split()[0]} {machine} {model}".encode()).hexdigest()[:12]
    steady = 10 * chance.gauss(1, 0.01) * (0.93 if variant.execution == "compile" else 1)
    compiling = 40.0 if variant.execution == "compile" else 0.0
    run = Run(
        number=0,
        id=hashlib.sha256(key.encode()).hexdigest()[:12],
        experiment_id=experiment,
        spec=spec,
        status="done",
        failure=None,
        reason=None,
        traceback=None,
        phase="after timing",
        phase_epoch=None,
        phase_since=None,
        compiling_since=None,
        created_at=at,
        started_at=at,
        ended_at=at + steady * epochs,
        child_pid=None,
        child_created=None,
        priming_seconds=None,
        environment=on,
        prepared=_prepared(model),
        activity=Activity(graphs=1, cache_misses=2, compile_seconds=40.0) if compiling else None,
        aftermath=None,
        source=Source(file="many.csv", family="this dashboard's CSV", line=2),
    )
    return ImportedRun(
        run, [_epoch(n, steady, compiling, at, chance) for n in range(1, epochs + 1)]
    )


def _prepared(model: str) -> Prepared:
    return Prepared(
        parameters=1000 + len(model),
        weights="random",
        steps_per_epoch=64,
        remainder=0,
        setup_seconds=3.1,
    )


def _epoch(number: int, steady: float, compiling: float, at: float, chance: random.Random) -> Epoch:
    first = compiling if number == 1 else 0.0
    wall = steady * chance.gauss(1, 0.01) + first
    step = wall / 64
    windows = (CompileWindow(trigger="DYNAMO", offset_seconds=0.2, seconds=first),) if first else ()
    return Epoch.model_construct(
        epoch=number,
        started_at=at + steady * number,
        wall_seconds=wall,
        data_wait_seconds=wall * 0.06,
        compile_seconds=first,
        compile_windows=windows,
        step_seconds=(),
        samples=1024,
        loss=6.9 * 0.99**number,
        peak_memory_bytes=3_900_000_000 + number,
        foreign_cpu_share=0.01 * chance.random(),
        steps=StepSummary.model_construct(
            count=64,
            sum=wall,
            min=step * 0.9,
            p5=step * 0.95,
            p50=step,
            p95=step * 1.1,
            max=step * 2,
        ),
    )
