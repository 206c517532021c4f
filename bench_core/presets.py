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
from bench_core.measured import FIRST_ITERATIONS
from bench_core.model_sizes import size_of
from bench_core.run import Run
from bench_core.spec import COMPILES, Execution, Experiment, Measurement, RunSpec, Variant

EAGER = Variant()
COLD = Variant(execution="compile", cache="cold")
WARM = Variant(execution="compile", cache="warm")
INFER = {"task": "infer"}


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


def _article_inference(device: str) -> Experiment:
    on_cpu = device == "cpu"
    return Experiment(
        preset="article-inference",
        models=("resnet18", "resnet50", "resnet101", "vgg16"),
        batch_sizes=(1,) if on_cpu else (1, 16),
        variants=(EAGER, COLD),
        repeats=1,
        device=device,
        workload=INFER,
        measurement=Measurement(iterations=100 if on_cpu else 500),
    )


def _article_inference_mode(device: str) -> Experiment:
    return Experiment(
        preset="article-inference-mode",
        models=("resnet18",),
        batch_sizes=(1,),
        variants=(EAGER, COLD),
        repeats=1,
        device=device,
        workload={**INFER, "grad_mode": "inference_mode", "compile_in_grad_mode": True},
        measurement=Measurement(iterations=100),
    )


def _article_yolov7(device: str) -> Experiment:
    return Experiment(
        preset="article-yolov7",
        models=("yolov7",),
        batch_sizes=(1,),
        variants=(EAGER, COLD),
        repeats=1,
        device=device,
        workload={**INFER, "image_size": 640},
        measurement=Measurement(iterations=50 if device == "cpu" else 500),
    )


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


def _cpu_inference(device: str) -> Experiment:
    words: tuple[Execution, ...] = (
        "eager",
        "compile",
        "compile_frozen",
        "onednn_graph",
        "jit_trace_frozen",
        "export_aot",
    )
    return Experiment(
        preset="cpu-inference",
        models=("resnet18",),
        batch_sizes=(1, 8),
        precisions=("fp32", "bf16"),
        variants=tuple(
            Variant(execution=word) for word in words if device == "cpu" or word != "onednn_graph"
        ),
        repeats=3,
        device=device,
        workload=INFER,
    )


def _function_by_size(device: str) -> Experiment:
    return Experiment(
        preset="function-by-size",
        models=("function:sin_cos",),
        batch_sizes=tuple(10**power for power in range(2, 8)),
        variants=(EAGER, COLD),
        repeats=1,
        device=device,
        workload=INFER,
        measurement=Measurement(iterations=300),
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
            "article-inference",
            "Article, inference",
            "The same networks at inference, one call after the other. The article saw no gain on "
            "a T4 and a crash on an A100. Batch 1 and 16 on a GPU; 1 on a CPU. A first look.",
            _article_inference,
        ),
        Preset(
            "article-inference-mode",
            "Article, the crash",
            "What crashed on the article's A100: torch.compile called inside of inference_mode "
            "(PyTorch issue 101151, mended in 2023). ResNet18, batch 1: does it run here?",
            _article_inference_mode,
        ),
        Preset(
            "article-yolov7",
            "Article, YOLOv7",
            "YOLOv7 at 640 px, one image a call. The article saw it work, with a small gain. "
            "A first look.",
            _article_yolov7,
        ),
        Preset(
            "batch-size-sweep",
            "Batch-size sweep",
            "One model over growing batch sizes: where does compile start to pay? ResNet50, 8 to "
            "256, on a GPU; ResNet18 at 96 px, 8 to 32, on a CPU.",
            _batch_size_sweep,
        ),
        Preset(
            "cpu-inference",
            "CPU inference",
            "Every way to run ResNet18 on a CPU: eager, compile, frozen, oneDNN Graph, TorchScript "
            "and exported, at fp32 and bf16, batch 1 and 8, three runs an arm. On a GPU without "
            "oneDNN Graph.",
            _cpu_inference,
        ),
        Preset(
            "function-by-size",
            "Function by size",
            "sin and cos of 100 to 10 million numbers: from what size on does fusing pay? A first "
            "look at the forward; its gradients are a custom run with backward.",
            _function_by_size,
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

# Billions of multiply-adds a second that a step reaches, and seconds until a process is ready.
CPU_CORE_SPEED, GPU_SPEED = 35.0, 3000.0
CPU_OPTIMIZER_SECONDS, GPU_OPTIMIZER_SECONDS = 0.0033, 0.00002  # a million parameters and step
# What a training step, a model's call and a function's call cost however small they are.
CPU_OVERHEADS, GPU_OVERHEADS = (0.004, 0.001, 0.00001), (0.008, 0.003, 0.00005)
CPU_ELEMENT_SECONDS, GPU_ELEMENT_SECONDS = 3e-9, 1e-11  # of a function's input, on one core
CPU_START_SECONDS, GPU_START_SECONDS = 4.5, 9.0
COMPILE_SECONDS, LAYER_COMPILE_SECONDS = 10.0, 0.75  # cold, of a training step, on two cores
FORWARD_COMPILE_SHARE, FUNCTION_COMPILE_SECONDS = 0.6, 8.0
TRACING_SECONDS = 1.5
# What a filled cache leaves to do. Frozen weights bypass it: only C++ files are found again.
WARM_COMPILE_SHARE, WARM_FROZEN_SHARE = 0.08, 0.35
LOADING_SECONDS = 0.0035  # one image, decoded and resized to 224 px
EVALUATION_SHARE = 0.4
FEWEST_ITERATIONS = 5  # that teach anything, after the first ones

# A spec, its steady seconds a step (inference: a call), and its seconds of compiling, tracing or
# exporting (None: nothing of the kind, or not known).
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
        if run.variant.execution in COMPILES and run.variant.cache != "off":
            compiled.add(run.cache_key)
    return seconds


def known_run(run: Run, epochs: Sequence[Epoch]) -> KnownRun | None:
    """What an ended run teaches the estimate; None where it has too little quiet time."""
    if run.prepared is None or not run.prepared.steps_per_epoch:
        return None
    infers = run.spec.workload.task == "infer"
    step = _quiet_call(epochs) if infers else _quiet_step(epochs, run.prepared.steps_per_epoch)
    if step is None:
        return None
    spent = sum(epoch.compile_seconds for epoch in epochs) + run.prepared.execution_seconds
    return run.spec, step, None if run.spec.variant.execution == "eager" else spent


def _quiet_step(epochs: Sequence[Epoch], steps_per_epoch: int) -> float | None:
    quiet = [epoch for epoch in epochs[1:] if not epoch.compile_windows]
    if len(quiet) < 2:
        return None
    return statistics.median(
        (epoch.wall_seconds - epoch.compile_seconds) / steps_per_epoch for epoch in quiet
    )


def _quiet_call(blocks: Sequence[Epoch]) -> float | None:
    """With the wait for its input. The first block may be the only one: calls can be that short."""
    quiet = [block for block in blocks if not block.compile_windows]
    calls = [seconds for block in quiet for seconds in block.step_seconds][FIRST_ITERATIONS:]
    if len(calls) < FEWEST_ITERATIONS:
        return None
    waiting = sum(block.data_wait_seconds for block in quiet)
    return statistics.median(calls) + waiting / (len(calls) + FIRST_ITERATIONS)


def _run_seconds(run: RunSpec, known_runs: Sequence[KnownRun], cache_filled: bool) -> float:
    work, variant, measurement = run.workload, run.variant, run.measurement
    unit = _calibrated(run, known_runs, _known_step, table_step_seconds)
    if work.task == "train":
        unit *= work.steps_per_epoch
    if work.evaluate != "none":
        unit *= 1 + EVALUATION_SHARE
    timed = run.is_done_after * unit
    if measurement.max_seconds is not None:
        timed = min(timed, measurement.max_seconds + unit)
    start = CPU_START_SECONDS if run.device == "cpu" else GPU_START_SECONDS
    total = start + timed
    if work.pipeline == "cached":
        total += work.samples * _loading_seconds(run)
    if variant.execution == "eager" or variant.disable:
        return min(total, measurement.timeout_seconds)
    alike = [known for known in known_runs if known[0].variant.execution == variant.execution]
    cold = _calibrated(run, alike, _known_compile, table_compile_seconds)
    if work.evaluate != "none":
        cold *= 1 + EVALUATION_SHARE
    if variant.cache == "off":
        cold *= 1.5
    if variant.cache == "warm":
        share = WARM_FROZEN_SHARE if variant.execution == "compile_frozen" else WARM_COMPILE_SHARE
        total += cold * share + (0 if cache_filled else start + cold + unit)
    else:
        total += cold
    return min(total, measurement.timeout_seconds)


def table_step_seconds(run: RunSpec) -> float:
    """Seconds of one training step, or of one call at inference, from the sizes alone."""
    work = run.workload
    on_cpu = run.device == "cpu"
    cores = work.threads or usable_cores()
    training, call, function = CPU_OVERHEADS if on_cpu else GPU_OVERHEADS
    backward = 3 if work.task == "train" or work.backward else 1  # it is two forward
    if work.is_function:
        element = CPU_ELEMENT_SECONDS / cores if on_cpu else GPU_ELEMENT_SECONDS
        return backward * (function + element * work.batch_size)
    size = size_of(work.model)
    speed = CPU_CORE_SPEED * cores if on_cpu else GPU_SPEED
    if work.precision != "fp32" and not on_cpu:
        speed *= 2
    images = backward * size.multiply_adds * work.batch_size * (work.image_size / 224) ** 2
    step = images / speed + (training if work.task == "train" else call)
    if work.task == "train":
        update = CPU_OPTIMIZER_SECONDS * 2 / usable_cores() if on_cpu else GPU_OPTIMIZER_SECONDS
        step += update * size.parameters
    if work.pipeline == "on_the_fly":
        loading = work.batch_size * _loading_seconds(run)
        step = max(step, loading / work.loader_workers) if work.loader_workers else step + loading
    return step


def table_compile_seconds(run: RunSpec) -> float:
    """Seconds of a cold compile, of tracing or of exporting, from the sizes alone."""
    work, variant = run.workload, run.variant
    if variant.execution in ("jit_trace_frozen", "onednn_graph"):
        return TRACING_SECONDS
    if work.is_function:
        seconds = FUNCTION_COMPILE_SECONDS
    else:
        seconds = COMPILE_SECONDS + LAYER_COMPILE_SECONDS * size_of(work.model).layers
        if work.task == "infer" and not work.backward:
            seconds *= FORWARD_COMPILE_SHARE
    if variant.backend not in (None, "inductor"):  # export_aot names none and uses Inductor
        return seconds * 0.2
    return seconds * (3 if (variant.mode or "").startswith("max-autotune") else 1)


def _loading_seconds(run: RunSpec) -> float:
    return LOADING_SECONDS * max(0.1, (run.workload.image_size / 224) ** 2)


def _known_step(known: KnownRun) -> float | None:
    return known[1]


def _known_compile(known: KnownRun) -> float | None:
    # From a warm cache it says little of a cold compile.
    return known[2] if known[0].variant.cache in (None, "cold") else None


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
        if known[0].device == run.device
        and known[0].workload.is_function == run.workload.is_function
        and (value := measured(known))
    ]
    same_model = [
        (spec, factor) for spec, factor in here if spec.workload.model == run.workload.model
    ]
    same_work = [(spec, factor) for spec, factor in same_model if spec.workload == run.workload]
    same_run = [(spec, factor) for spec, factor in same_work if spec.variant.arm == run.variant.arm]
    closest: Iterable[float] = [factor for _, factor in same_run or same_work or same_model or here]
    return table(run) * statistics.median(closest or [1.0])
