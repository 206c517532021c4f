"""Why a candidate is not faster, or where its gain comes from: a closed list of causes, priced.

A cause has a title with figures, says why in a sentence or two, how sure that is, what it would
change at most, and the next step: where that can be run, as a remedy. Pure; the price of a
recompile needs the single steps of training runs (`with_steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from bench_core import compile_causes, step_causes
from bench_core.cause import Case, Cause, Kind, percent
from bench_core.comparison import EAGER, Comparison
from bench_core.events import Epoch
from bench_core.measured import Measured
from bench_core.remedies import on_its_machine
from bench_core.units import ratio_text, seconds_text

# A ceiling above this limits nothing.
MOST_TELLING = 10.0

KINDS: dict[Kind, Callable[[Case], Iterator[Cause]]] = {
    "data wait": step_causes.data_wait,
    "library kernels": step_causes.library_kernels,
    "optimizer": step_causes.optimizer,
    "copies": step_causes.copies,
    "evaluation": step_causes.evaluation,
    "start-up": compile_causes.start_up,
    "graph breaks": compile_causes.graph_breaks,
    "recompiles": compile_causes.recompiled,
    "ragged batch": compile_causes.ragged_batch,
    "cache state": compile_causes.cache_state,
    "CUDA graphs": compile_causes.cuda_graphs,
    "launch-bound": step_causes.launch_bound,
    "threads": step_causes.threads,
    "TF32": step_causes.tf32,
}


def diagnose(pair: Comparison, others: Sequence[Measured] = ()) -> list[Cause]:
    """The causes that hold for this pair, what would change most first.

    `others` are runs of the store: remedies among them are told as measured instead of offered.
    An A/A comparison has no cause: its arms are equal. Nor has one that a person formed of arms
    which differ in more than an axis: none could be told from the rest.
    """
    if "side" in pair.axis or pair.overridden:
        return []
    case = _case(pair, others)
    found = [cause for find in KINDS.values() for cause in find(case)]
    return sorted(found, key=lambda cause: -(cause.seconds if cause.seconds is not None else -1))


def _case(pair: Comparison, others: Sequence[Measured]) -> Case:
    """Of a large store the few runs that can matter, found by what is quick to compare."""
    work = pair.workload
    near = (
        m for m in others if m.run.spec.workload.model == work.model and on_its_machine(m, pair)
    )
    return Case(pair, tuple(near))


def gain_text(pair: Comparison, others: Sequence[Measured] = ()) -> str:
    """Where a gain comes from: what became shorter, and how much of what compile can touch."""
    case = _case(pair, others)
    before, after = case.before, case.after
    iteration, tests = pair.unit == "iteration", pair.candidate.runs[0].evaluation
    whole = [
        part.steps if iteration else part.epoch + (part.evaluation or 0.0) * tests
        for part in (before, after)
    ]
    if whole[0] <= whole[1]:
        medians = [arm.steady_seconds for arm in (pair.candidate, pair.baseline)]
        return (
            f"A steady {pair.unit} takes {seconds_text(medians[0])} instead of "
            f"{seconds_text(medians[1])} in the median; single slow {pair.unit}s hide that in the "
            f"mean, {seconds_text(whole[1])} against {seconds_text(whole[0])}."
        )
    if iteration:
        text = (
            f"A call takes {seconds_text(after.steps)} instead of {seconds_text(before.steps)} in "
            "the mean"
        )
    else:
        text = (
            f"An epoch is {seconds_text(whole[0] - whole[1])} shorter: the model's steps "
            f"take {seconds_text(after.steps)} instead of {seconds_text(before.steps)}"
        )
        if before.data_wait:
            text += (
                f", the wait for data {seconds_text(after.data_wait)} instead of "
                f"{seconds_text(before.data_wait)}"
            )
        if tests and before.evaluation and after.evaluation:
            text += (
                f", testing {seconds_text(after.evaluation)} instead of "
                f"{seconds_text(before.evaluation)}"
            )
    touchable = case.ceilings.touchable
    did = before.steps - after.steps
    if not (touchable and case.compile_alone and did > 0):
        return f"{text}."
    can = touchable * before.steps
    much = f"{percent(did / can)} of" if did < can else "more than"
    return (
        f"{text}. What the steps gain is {much} the {seconds_text(can)} in them that compile can "
        "touch (an estimate)."
    )


def ceiling_text(pair: Comparison, others: Sequence[Measured] = ()) -> str:
    """How much faster compile can make eager's epoch at most; empty where nothing tells."""
    case = _case(pair, others)
    limit = case.ceilings.epoch
    of_eager = case.compile_alone and pair.baseline.variant == EAGER
    if pair.unit == "iteration" or not of_eager or limit is None or limit >= MOST_TELLING:
        return ""
    if pair.speedup.ratio > limit:
        return (
            f"An estimate from its parts would have allowed {ratio_text(limit)} at most, and was "
            "beaten: compiled code changes what the libraries are asked for."
        )
    return (
        f"Compiling can make this epoch at most about {ratio_text(limit)} faster: an estimate "
        "from its parts."
    )


def with_steps(pair: Comparison, epochs: Mapping[int, Sequence[Epoch]]) -> Comparison:
    """The pair with its runs' epochs from `store.epochs(numbers, steps=True)`."""
    arms = [
        replace(
            arm,
            runs=tuple(replace(m, epochs=tuple(epochs[m.run.number])) for m in arm.runs),
        )
        for arm in (pair.baseline, pair.candidate)
    ]
    return replace(pair, baseline=arms[0], candidate=arms[1])
