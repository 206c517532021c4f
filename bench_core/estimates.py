"""Roughly how long an experiment takes, and how much memory a run holds.

The estimate needs nothing but the spec: where this machine has measured the same or a similar
workload it starts from that, and from the models' sizes otherwise. It is a guess for a person
who waits, right within a factor of two or so, and never a result.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from bench_core.capabilities import usable_cores
from bench_core.epoch_columns import column
from bench_core.events import Epoch
from bench_core.measured import FIRST_ITERATIONS
from bench_core.model_sizes import size_of
from bench_core.run import Run
from bench_core.spec import COMPILES, Experiment, RunSpec
from bench_core.units import estimate_text

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
    """Wall seconds from the start of the first run to the end of the last.

    Arms that take turns measure one at a time, so they take as long as one after the other. With
    until_sure it is the most that it can take.
    """
    return sum(seconds_of_runs(experiment.runs(), known_runs))


def length_text(experiment: Experiment, seconds: float) -> str:
    """`about 25 minutes`, `at most about 25 minutes` where it ends when it is sure."""
    bound = "at most " if experiment.measurement.until_sure else ""
    return bound + estimate_text(seconds)


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
    spent = sum(column(epochs, "compile_seconds")) + run.prepared.execution_seconds
    return run.spec, step, None if run.spec.variant.execution == "eager" else spent


def _quiet_step(epochs: Sequence[Epoch], steps_per_epoch: int) -> float | None:
    names = ("wall_seconds", "compile_seconds", "compile_windows")
    later = zip(*(column(epochs, name)[1:] for name in names), strict=True)
    quiet = [wall - compiling for wall, compiling, windows in later if not windows]
    return statistics.median(quiet) / steps_per_epoch if len(quiet) > 1 else None


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


# How much memory it takes

# A process with torch; what compiling adds; activations of a training step by its multiply-adds
# (ResNet50 holds about 90 MB an image of 224 px); a cached image's pixels.
PROCESS_BYTES, COMPILE_BYTES = 0.8e9, 0.6e9
BYTES_A_MULTIPLY_ADD, BYTES_A_PIXEL = 0.022, 3
# Weights, gradients and Adam's two moments in fp32.
TRAINING_BYTES, INFERENCE_BYTES = 16, 4


def memory_together(experiment: Experiment, peaks: Mapping[RunSpec, int] | None = None) -> int:
    """Bytes of the arms of one repeat, alive side by side, where they take the most.

    `peaks`: what runs on this machine took at most, by their spec.
    """
    runs = experiment.runs()
    arms = len(experiment.rungs or experiment.variants)
    repeats = (runs[at : at + arms] for at in range(0, len(runs), arms))
    return max(sum(memory_of_run(run, peaks or {}) for run in repeat) for repeat in repeats)


def memory_of_run(run: RunSpec, peaks: Mapping[RunSpec, int]) -> int:
    """Bytes of one process at its peak: as measured, else by the sizes, corrected as for times."""
    here = [
        (spec, peak / table_memory_bytes(spec))
        for spec, peak in peaks.items()
        if spec.device == run.device and spec.workload.model == run.workload.model
    ]
    same = [factor for spec, factor in here if spec.workload == run.workload]
    return round(table_memory_bytes(run) * max(same or [f for _, f in here] or [1.0]))


def table_memory_bytes(run: RunSpec) -> int:
    """From the sizes alone."""
    work = run.workload
    compiling = 0.0 if run.variant.execution == "eager" else COMPILE_BYTES
    if work.is_function:
        return round(PROCESS_BYTES + compiling + 40 * work.batch_size)  # ten tensors of fp32
    size = size_of(work.model)
    training = work.task == "train" or work.backward
    images = work.batch_size * (work.image_size / 224) ** 2
    activations = 1e9 * size.multiply_adds * images * BYTES_A_MULTIPLY_ADD
    cached = work.samples * BYTES_A_PIXEL * work.image_size**2 if work.pipeline == "cached" else 0
    weights = 1e6 * size.parameters * (TRAINING_BYTES if training else INFERENCE_BYTES)
    held = activations if training else activations / 10
    return round(PROCESS_BYTES + compiling + weights + held + cached)
