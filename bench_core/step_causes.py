"""Causes in the data, in what a step consists of, and in the machine.

Each function gives a cause where it holds, and nothing where it does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean

from bench_core.cause import Case, Cause, percent
from bench_core.remedies import Remedy
from bench_core.time_parts import LIBRARY, busy_share, loader_seconds, parts
from bench_core.units import counted, percent_text, ratio_text, seconds_text

# Below these parts of an epoch, or of a step, nothing is worth a line.
LEAST_WAIT = 0.05
LEAST_SHARE = 0.10
# Below this part of a step in which the GPU works it mostly waits for the host.
BUSY = 0.75
# Compute capability of the first GPUs with TF32.
AMPERE = 8.0


def data_wait(case: Case) -> Iterator[Cause]:
    work, before, after = case.pair.workload, case.before, case.after
    if work.task == "infer":
        return
    arm = case.eager or case.pair.baseline
    share, loading = before.data_wait / before.epoch, loader_seconds(arm)
    limit = ratio_text(case.ceilings.data)
    if share < LEAST_WAIT and not (work.loader_workers and (loading or 0) > before.epoch / 2):
        return
    title = f"Waiting for data is {percent(share)} of the {case.pair.baseline.name} epoch"
    if work.loader_workers and loading:
        title = f"The loader alone takes {seconds_text(loading)} of an epoch's "
        title += seconds_text(parts(arm).epoch)
        text = (
            f"{counted(work.loader_workers, 'worker')} load during the steps, and the wait of "
            f"{percent(share)} is only what they do not manage meanwhile. Yet no model can make "
            f"the epoch more than {limit} faster. The loader alone was measured, the ceiling is "
            "an estimate."
        )
    elif work.loader_workers:
        text = "The loader alone was not timed, so nobody knows how fast an epoch could be."
    else:
        text = (
            "Without loader workers compile can only shrink the steps: a model of no cost would "
            f"make the epoch at most {limit} faster. An estimate from the measured wait."
        )
    if share >= LEAST_WAIT:
        ratio = before.steps / after.steps
        text += f" The steps alone are {percent_text(ratio, ratio * 0.95, ratio * 1.05)}."
    # A model file may bring its own batches, which no worker can make.
    may_have_workers = not work.model.startswith(("file:", "yolov7")) and not work.loader_workers
    yield Cause(
        kind="data wait",
        title=title,
        text=text,
        sure="estimate",
        seconds=after.data_wait,
        next_step="Keep the transformed images in memory, or load them in more processes.",
        remedies=(
            *(
                case.remedy("cached data", pipeline="cached", loader_workers=0)
                if work.pipeline == "on_the_fly"
                else case.remedy("resident data", pipeline="resident", loader_workers=0)
            ),
            *(case.remedy("2 loader workers", loader_workers=2) if may_have_workers else ()),
        ),
    )


def library_kernels(case: Case) -> Iterator[Cause]:
    shares, limits = case.shares, case.ceilings
    kept = sum(shares.get(kind, 0.0) for kind in LIBRARY)
    if kept < LEAST_SHARE or limits.step is None or limits.touchable is None:
        return
    if not case.compile_alone:
        return
    named = {"convolution": "convolution", "matmul": "matrix products"}
    told = [
        f"{percent(shares[kind])} {word}"
        for kind, word in named.items()
        if shares.get(kind, 0.0) >= 0.005
    ]
    text = (
        "torch.compile leaves these to the same libraries. It can touch "
        f"{percent(limits.touchable)} of this step: at most about {ratio_text(limits.step)}. An "
        "estimate: other memory layouts and fused kernels can beat it."
    )
    if limits.epoch and case.pair.workload.task == "train" and limits.epoch < 0.98 * limits.step:
        text += f" With the data, at most about {ratio_text(limits.epoch)} for the epoch."
    remedies: tuple[Remedy, ...] = ()
    if shares.get("convolution", 0.0) >= LEAST_SHARE:
        remedies = case.remedy("channels_last", memory_layout="channels_last")
    yield Cause(
        kind="library kernels",
        title=f"{' and '.join(told)} in the eager step: work of libraries",
        text=text,
        sure="estimate",
        seconds=kept * case.before.steps,
        next_step="Try what makes the libraries themselves faster, in both arms: another memory "
        "layout, a lower precision.",
        remedies=remedies,
    )


def optimizer(case: Case) -> Iterator[Cause]:
    share = case.shares.get("optimizer", 0.0)
    if share < LEAST_SHARE:
        return
    yield Cause(
        kind="optimizer",
        title=f"The optimiser is {percent(share)} of the eager step",
        text="It is no part of the compiled module, so compile leaves it as it is. It costs the "
        "same for any batch (the share was profiled; what a larger batch brings is an estimate).",
        sure="estimate",
        seconds=share * case.before.steps,
        next_step="Take a larger batch: fewer updates an epoch.",
        remedies=case.larger_batch(),
    )


def copies(case: Case) -> Iterator[Cause]:
    share = case.shares.get("copies", 0.0)
    if share < LEAST_SHARE:
        return
    yield Cause(
        kind="copies",
        title=f"Copies are {percent(share)} of the eager step",
        text="Between devices, layouts and types. Compile can fuse those inside the model, not "
        "that of a batch to its device (an estimate from the profiled steps).",
        sure="estimate",
        seconds=share * case.before.steps,
        next_step="Keep a batch on the device, to see the step without its copy.",
        remedies=case.remedy("resident data", pipeline="resident", loader_workers=0),
    )


def evaluation(case: Case) -> Iterator[Cause]:
    before, after = case.before.evaluation, case.after.evaluation
    if before is None or after is None:
        return
    counted_in = case.pair.candidate.runs[0].evaluation
    compiling = fmean(
        math.fsum(epoch.evaluation_compile_seconds or 0.0 for epoch in one.epochs)
        for one in case.pair.candidate.runs
    )
    text = (
        f"It takes {seconds_text(after)} against {seconds_text(before)}, "
        f"{'counted' if counted_in else 'not counted'} in the speedup."
    )
    if compiling:
        text += (
            f" In eval mode the model is compiled once more: {seconds_text(compiling)} in the runs."
        )
    yield Cause(
        kind="evaluation",
        title=f"Testing adds {percent(after / case.after.epoch)} to an epoch of "
        f"{case.pair.candidate.name}",
        text=text,
        sure="measured",
        seconds=compiling / case.after.count + (after if counted_in else 0.0),
        next_step="Measure without testing, to see the training alone.",
        remedies=case.remedy("no testing", evaluate="none"),
    )


def launch_bound(case: Case) -> Iterator[Cause]:
    busy = busy_share(case.eager) if case.eager else None
    if busy is None or busy >= BUSY or not case.pair.device.startswith("cuda"):
        return
    variant = case.pair.candidate.variant
    remedies = case.larger_batch()
    if variant.execution == "compile" and variant.mode is None and variant.options is None:
        remedies += case.remedy("CUDA graphs", candidate=variant.changed(mode="reduce-overhead"))
    yield Cause(
        kind="launch-bound",
        title=f"The GPU works {percent(busy)} of the eager step: {case.pair.workload.size_text} "
        "keeps it waiting",
        text="The rest of the step it waits for the host to launch kernels. Fewer, larger kernels "
        "and CUDA graphs shorten that (an estimate: profiled kernels against unwatched steps).",
        sure="estimate",
        seconds=(1 - busy) * case.after.steps,
        next_step="Give the GPU more to do at once, or record the launches as CUDA graphs.",
        remedies=remedies,
    )


def threads(case: Case) -> Iterator[Cause]:
    environment = case.pair.candidate.runs[0].run.environment
    used = environment and environment.threads
    cores = environment and environment.cpu_affinity
    if not used or not cores or used <= cores:
        return
    yield Cause(
        kind="threads",
        title=f"{counted(used, 'thread')} on {counted(cores, 'core')}",
        text="More threads than cores take turns on them, in both arms. Not priced.",
        sure="not priced",
        seconds=None,
        next_step=f"Measure both arms with {counted(cores, 'thread')}.",
        remedies=case.remedy(counted(cores, "thread"), threads=cores),
    )


def tf32(case: Case) -> Iterator[Cause]:
    environment = case.pair.candidate.runs[0].run.environment
    if environment is None or case.pair.workload.precision != "fp32":
        return
    if float(environment.compute_capability or 0) < AMPERE:
        return
    uses = {
        "convolution": environment.tf32_convolution,
        "matmul": environment.tf32_matmul,
    }
    off = [kind for kind, on in uses.items() if on is False and case.shares.get(kind, 1.0) >= 0.02]
    if not off:
        return
    share = sum(case.shares.get(kind, 0.0) for kind in off)
    words = {"convolution": "convolutions", "matmul": "matrix products"}
    named = " and ".join(words[kind] for kind in off)
    text = f"This GPU has TF32, and {named} run in full fp32 in both arms."
    if case.shares:
        text += f" They are {percent(share)} of the eager step: at most that much can change."
    yield Cause(
        kind="TF32",
        title=f"TF32 is off for {named}",
        text=f"{text} An estimate." if case.shares else f"{text} Not priced.",
        sure="estimate" if case.shares else "not priced",
        seconds=share * case.before.steps if case.shares else None,
        next_step="Allow TF32 in both arms.",
        remedies=case.remedy("TF32 on", tf32="on"),
    )
