"""Ready-made experiments, and roughly how long an experiment takes.

The estimate needs nothing but the spec: where this machine has measured the same or a similar
workload it starts from that, and from the models' sizes otherwise. It is a guess for a person
who waits, right within a factor of two or so, and never a result.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench_core.capabilities import usable_cores
from bench_core.events import Epoch
from bench_core.model_sizes import size_of
from bench_core.run import Run
from bench_core.spec import Experiment, Measurement, RunSpec, Variant

EAGER = Variant()
COLD = Variant(execution="compile", cache="cold")
WARM = Variant(execution="compile", cache="warm")


@dataclass(frozen=True)
class Preset:
    """`experiment(device)` makes a new one, with an id of its own; a CPU gets fewer samples."""

    key: str
    title: str
    caption: str
    experiment: Callable[[str], Experiment]


def _demo(device: str) -> Experiment:
    return Experiment(
        preset="demo",
        models=("small_cnn", "pointwise_cnn"),  # the second answer is the one to look at
        batch_sizes=(32,),
        variants=(EAGER, COLD, WARM),
        repeats=1,
        device=device,
        workload={"image_size": 32, "samples": 512, "pipeline": "cached"},
        measurement=Measurement(epochs=10),
    )


def _article(device: str) -> Experiment:
    return Experiment(
        preset="article",
        models=("resnet18", "resnet50", "resnet101", "vgg16"),
        batch_sizes=(16,),
        variants=(EAGER, COLD),
        repeats=1,
        device=device,
        workload=_as_published(160 if device == "cpu" else 10_000),
        measurement=Measurement(epochs=10),
    )


def _article_long(device: str) -> Experiment:
    return Experiment(
        preset="article-resnet101-100",
        models=("resnet101",),
        batch_sizes=(16,),
        variants=(EAGER, COLD),
        repeats=1,
        device=device,
        workload=_as_published(80 if device == "cpu" else 10_000),
        measurement=Measurement(epochs=100),
    )


def _as_published(samples: int) -> dict[str, object]:
    return {
        "dataset": "cifar10",
        "pipeline": "on_the_fly",
        "samples": samples,
        "drop_last": False,
        "image_size": 224,
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "evaluate": "variant",
    }


def _batch_size_sweep(device: str) -> Experiment:
    on_cpu = device == "cpu"
    return Experiment(
        preset="batch-size-sweep",
        models=("resnet18",) if on_cpu else ("resnet50",),
        batch_sizes=(8, 16, 32) if on_cpu else (8, 16, 32, 64, 128, 256),
        variants=(EAGER, COLD),
        repeats=3,
        device=device,
        workload={
            "image_size": 96 if on_cpu else 224,
            "samples": 128 if on_cpu else 2048,
            "pipeline": "cached",
        },
        measurement=Measurement(epochs=6),
    )


def _custom(device: str) -> Experiment:
    # The spec's own defaults, so that a command line without a preset means the same.
    return Experiment(
        models=("small_cnn",) if device == "cpu" else ("resnet50",),
        batch_sizes=(16,),
        variants=(EAGER, COLD),
        device=device,
    )


PRESETS: dict[str, Preset] = {
    preset.key: preset
    for preset in (
        Preset(
            "demo",
            "Demo",
            "Two small networks, one where compile hardly pays and one where it does, in two "
            "to three minutes on two cores. One run an arm: a first look.",
            _demo,
        ),
        Preset(
            "article",
            "Article",
            "The published protocol: ResNet18, 50, 101 and VGG16 on CIFAR-10 at 224 px, batch 16, "
            "10 epochs, Adam, nothing dropped, testing through the arm's own module, one run an "
            "arm. 10,000 samples an epoch on a GPU; 160 on a CPU, which take some hours.",
            _article,
        ),
        Preset(
            "article-resnet101-100",
            "Article, 100 epochs",
            "The published long run: ResNet101 over 100 epochs. 10,000 samples an epoch on a GPU; "
            "80 on a CPU, which take some hours.",
            _article_long,
        ),
        Preset(
            "batch-size-sweep",
            "Batch-size sweep",
            "One model over growing batch sizes: where does compile start to pay? ResNet50, 8 to "
            "256, on a GPU; ResNet18 at 96 px, 8 to 32, on a CPU.",
            _batch_size_sweep,
        ),
        Preset(
            "custom",
            "Custom",
            "Your own choice of models and settings. Three runs an arm: enough for a verdict.",
            _custom,
        ),
    )
}


# How long it takes

# Billions of multiply-adds a second that training reaches, and seconds until a process is ready.
CPU_CORE_SPEED, GPU_SPEED = 35.0, 3000.0
CPU_OPTIMIZER_SECONDS, GPU_OPTIMIZER_SECONDS = 0.0033, 0.00002  # a million parameters and step
CPU_STEP_OVERHEAD, GPU_STEP_OVERHEAD = 0.004, 0.008
CPU_START_SECONDS, GPU_START_SECONDS = 4.5, 9.0
COMPILE_SECONDS, LAYER_COMPILE_SECONDS = 10.0, 0.75  # cold, of a training step, on two cores
WARM_COMPILE_SHARE = 0.08
LOADING_SECONDS = 0.0035  # one image, decoded and resized to 224 px
EVALUATION_SHARE = 0.4

# A spec, its steady seconds a step, and its compile seconds (None: not compiled, or not known).
KnownRun = tuple[RunSpec, float, float | None]


def estimate_seconds(experiment: Experiment, known_runs: Sequence[KnownRun] = ()) -> float:
    """Wall seconds from the start of the first run to the end of the last."""
    return sum(seconds_of_runs(experiment.runs(), known_runs))


def seconds_of_runs(runs: Sequence[RunSpec], known_runs: Sequence[KnownRun] = ()) -> list[float]:
    """Wall seconds of each run, in the order in which they will be measured.

    A warm run fills its cache first, unless an earlier run of the list has compiled the same.
    """
    seconds, compiled = [], set()
    for run in runs:
        filled = run.cache_key in compiled
        seconds.append(_run_seconds(run, known_runs, filled))
        if run.variant.execution == "compile" and run.variant.cache != "off":
            compiled.add(run.cache_key)
    return seconds


def known_run(run: Run, epochs: Sequence[Epoch]) -> KnownRun | None:
    """What an ended run teaches the estimate; None where it has too few quiet epochs."""
    quiet = [epoch for epoch in epochs[1:] if not epoch.compile_windows]
    if len(quiet) < 2 or run.prepared is None or not run.prepared.steps_per_epoch:
        return None
    step = statistics.median(
        (epoch.wall_seconds - epoch.compile_seconds) / run.prepared.steps_per_epoch
        for epoch in quiet
    )
    spent = sum(epoch.compile_seconds for epoch in epochs)
    return run.spec, step, spent if run.spec.variant.execution == "compile" else None


def _run_seconds(run: RunSpec, known_runs: Sequence[KnownRun], cache_filled: bool) -> float:
    work, variant, measurement = run.workload, run.variant, run.measurement
    epoch = work.steps_per_epoch * _calibrated(run, known_runs, _known_step, table_step_seconds)
    if work.evaluate != "none":
        epoch *= 1 + EVALUATION_SHARE
    epochs = measurement.epochs * epoch
    if measurement.max_seconds is not None:
        epochs = min(epochs, measurement.max_seconds + epoch)
    start = CPU_START_SECONDS if run.device == "cpu" else GPU_START_SECONDS
    total = start + epochs
    if work.pipeline == "cached":
        total += work.samples * _loading_seconds(run)
    if variant.execution == "compile" and not variant.disable:
        cold = _calibrated(run, known_runs, _known_compile, table_compile_seconds)
        if work.evaluate != "none":
            cold *= 1 + EVALUATION_SHARE
        if variant.cache == "off":
            cold *= 1.5
        if variant.cache == "warm":
            total += cold * WARM_COMPILE_SHARE + (0 if cache_filled else start + cold + epoch)
        else:
            total += cold
    return min(total, measurement.timeout_seconds)


def table_step_seconds(run: RunSpec) -> float:
    """Seconds of one training step from the table of sizes alone."""
    work = run.workload
    size = size_of(work.model)
    on_cpu = run.device == "cpu"
    speed = CPU_CORE_SPEED * (work.threads or usable_cores()) if on_cpu else GPU_SPEED
    if work.precision != "fp32" and not on_cpu:
        speed *= 2
    images = (
        3 * size.multiply_adds * work.batch_size * (work.image_size / 224) ** 2
    )  # backward is two forward
    update = CPU_OPTIMIZER_SECONDS * 2 / usable_cores() if on_cpu else GPU_OPTIMIZER_SECONDS
    step = images / speed + update * size.parameters
    step += CPU_STEP_OVERHEAD if on_cpu else GPU_STEP_OVERHEAD
    if work.pipeline == "on_the_fly":
        loading = work.batch_size * _loading_seconds(run)
        step = max(step, loading / work.loader_workers) if work.loader_workers else step + loading
    return step


def table_compile_seconds(run: RunSpec) -> float:
    """Seconds of a cold compile of the training step from the table of sizes alone."""
    seconds = COMPILE_SECONDS + LAYER_COMPILE_SECONDS * size_of(run.workload.model).layers
    if run.variant.backend != "inductor":
        return seconds * 0.2
    return seconds * (3 if (run.variant.mode or "").startswith("max-autotune") else 1)


def _loading_seconds(run: RunSpec) -> float:
    return LOADING_SECONDS * max(0.1, (run.workload.image_size / 224) ** 2)


def _known_step(known: KnownRun) -> float | None:
    return known[1]


def _known_compile(known: KnownRun) -> float | None:
    # From a warm cache it says little of a cold compile.
    return known[2] if known[0].variant.cache == "cold" else None


def _calibrated(
    run: RunSpec,
    known_runs: Sequence[KnownRun],
    measured: Callable[[KnownRun], float | None],
    table: Callable[[RunSpec], float],
) -> float:
    """The table's value, corrected by how far it is off for the runs most like this one."""
    here = [
        (known[0], value / table(known[0]))
        for known in known_runs
        if known[0].device == run.device and (value := measured(known))
    ]
    same_model = [
        (spec, factor) for spec, factor in here if spec.workload.model == run.workload.model
    ]
    same_work = [(spec, factor) for spec, factor in same_model if spec.workload == run.workload]
    same_run = [(spec, factor) for spec, factor in same_work if spec.variant.arm == run.variant.arm]
    closest: Iterable[float] = [factor for _, factor in same_run or same_work or same_model or here]
    return table(run) * statistics.median(closest or [1.0])
