"""Comparisons in words: the page's answer, the table's cells, parity, facts. Plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench_core.comparison import SCATTER, Comparison
from bench_core.events import Parity
from bench_core.figures import place_text
from bench_core.measured import Arm
from bench_core.pairing import Comparisons
from bench_core.run import Run
from bench_core.sizes import sizes_text, sizes_that_pay
from bench_core.stats import BreakEven, geometric_mean
from bench_core.units import counted, interval_text, percent_text, ratio_text, seconds_text
from pages.parts.kinds import workload_words


def answer(found: Comparisons) -> tuple[str, str]:
    """The title and the line below it. Needs one comparison at least."""
    pairs = found.pairs
    if len(pairs) == 1:
        only = pairs[0]
        saving = only.saving_text if only.shows_difference else ""
        return only.headline, " ".join(filter(None, (only.detail, saving)))
    if pairs[0].workload.is_function and all(vary_in_size_only(pair, pairs[0]) for pair in pairs):
        return sizes_text(pairs), _sweep_detail(pairs)
    judged = [pair for pair in pairs if pair.speedup.verdict]
    faster = [pair for pair in judged if pair.speedup.verdict == "faster"]
    slower = [pair for pair in judged if pair.speedup.verdict == "slower"]
    of = f"{len(judged)} comparisons" if len(judged) > 1 else "1 comparison"
    if not judged:
        title = f"A first look at {len(pairs)} comparisons: no verdict before 3 runs an arm"
    elif faster:
        most = max(faster, key=lambda pair: pair.speedup.ratio)
        title = f"Faster in {len(faster)} of {of}, most {_where(most, pairs)}: {_per_cent(most)}"
    elif slower:
        most = min(slower, key=lambda pair: pair.speedup.ratio)
        title = f"Slower in {len(slower)} of {of}, most {_where(most, pairs)}: {_per_cent(most)}"
    else:
        title = f"No difference shown in {of}"
    detail = _means_text(pairs)
    looks = len(pairs) - len(judged)
    detail += "."
    if judged and looks:
        are = "is a first look" if looks == 1 else "are first looks"
        detail += f" {looks} of the comparisons {are} without a verdict."
    return title, f"{detail} Slower in {len(slower)}." if faster and slower else detail


def _means_text(pairs: Sequence[Comparison]) -> str:
    """`Geometric mean 1.05× over 11 comparisons`, apart for each variant where there are several.

    A mean over variants would be the speed of none of them.
    """
    ratios: dict[str, list[float]] = {}
    for pair in pairs:
        ratios.setdefault(pair.candidate.name, []).append(pair.speedup.ratio)
    if len(ratios) == 1:
        mean = ratio_text(geometric_mean(*ratios.values()))
        return f"Geometric mean {mean} over {len(pairs)} comparisons"
    means = sorted(
        ((geometric_mean(of_one), name, len(of_one)) for name, of_one in ratios.items()),
        reverse=True,
    )
    if len({count for _, _, count in means}) == 1:
        each = f" over {counted(means[0][2], 'workload')} each" if means[0][2] > 1 else ""
        what = f"Geometric means{each}" if each else "Speedups"
        return f"{what}: " + ", ".join(f"{name} {ratio_text(mean)}" for mean, name, _ in means)
    return "Geometric means: " + ", ".join(
        f"{name} {ratio_text(mean)} over {count}" for mean, name, count in means
    )


def _sweep_detail(pairs: Sequence[Comparison]) -> str:
    """The comparison at the smallest size from which on it pays, or at the largest, in words."""
    at = sizes_that_pay(pairs).onward
    ordered = sorted(pairs, key=lambda pair: pair.workload.batch_size)
    one = next((pair for pair in ordered if pair.workload.batch_size == at), ordered[-1])
    steady = [seconds_text(arm.steady_seconds) for arm in (one.candidate, one.baseline)]
    words = f"At {one.workload.size_text}: {one.verdict_text}, {steady[0]} against {steady[1]}."
    return " ".join(filter(None, (words, one.pays_off_text)))


def left_out_text(found: Comparisons) -> str:
    """`2 runs are left out`, or nothing."""
    count = sum(len(left.runs) for left in found.left_out)
    return f"{count} {'run is' if count == 1 else 'runs are'} left out" if count else ""


def _where(pair: Comparison, pairs: Sequence[Comparison]) -> str:
    """`on T4 with resnet101`, and what else tells it from the other comparisons."""
    words = [f"on {pair.machine} with {pair.workload.model}"]
    for of in (
        lambda one: one.candidate.name,
        lambda one: one.workload.size_text,
        lambda one: one.workload.precision,
    ):
        if len({of(one) for one in pairs}) > 1:
            words.append(of(pair))
    return ", ".join(words)


def _per_cent(pair: Comparison) -> str:
    speedup = pair.speedup
    return change_text(percent_text(speedup.ratio, speedup.low, speedup.high))


def change_text(verdict: str) -> str:
    """`8.4 %` of `8.4 % faster`, where the side is said already."""
    return verdict.removesuffix(" faster").removesuffix(" slower")


def pair_name(pair: Comparison) -> str:
    """`resnet101 on T4, batch 16, compile against eager`."""
    arms = f"{pair.candidate.name} against {pair.baseline.name}"
    return ", ".join([cell_name(pair), arms])


def cell_name(pair: Comparison) -> str:
    """`resnet101 on T4, batch 16`: what both arms share."""
    return ", ".join([f"{pair.workload.model} on {pair.machine}", *workload_words(pair.workload)])


def of_workload(pair: Comparison) -> dict[str, object]:
    """What is executed, the contents of a model's file too.

    Samples of inference are so many batches: they do not differ where only the batch does.
    """
    facts: dict[str, object] = dict(pair.workload)
    if pair.unit == "iteration":
        facts["samples"] = pair.workload.steps_per_epoch
    prepared = pair.candidate.runs[0].run.prepared
    facts["model file"] = prepared and (prepared.model_sha256 or "")[:8]
    return facts


def of_machine(pair: Comparison) -> dict[str, object]:
    """What a comparison is of, apart from its workload and its arms."""
    environment = pair.candidate.runs[0].run.environment
    return {
        "torch": pair.torch,
        "device": pair.device,
        "threads in use": environment and environment.threads,
        "device name": environment and environment.device_name,
        "machine id": pair.machine_id,
    }


def vary_in(name: str, one: Comparison, other: Comparison) -> bool:
    """Whether two comparisons on one machine differ in that field of the workload at most."""
    return of_machine(one) == of_machine(other) and workloads_vary_in(name, one, other)


def workloads_vary_in(name: str, one: Comparison, other: Comparison) -> bool:
    return {**of_workload(one), name: None} == {**of_workload(other), name: None}


def vary_in_size_only(one: Comparison, other: Comparison) -> bool:
    return one.candidate.variant == other.candidate.variant and vary_in("batch_size", one, other)


# Parity and what was not got


PARITY = {
    "same": "Same result as eager",
    "closer to fp64 than eager": "Closer to the result in fp64 than eager is",
    "differs": "Results differ: no speedup",
    "not checked": "Not checked against eager",
}


def parity_text(parity: Parity) -> str:
    """`Same result as eager: its outputs agree with eager's.`"""
    said = parity.text.strip().rstrip(".")
    return f"{PARITY[parity.verdict]}: {said}." if said else f"{PARITY[parity.verdict]}."


def unmet_text(arm: Arm) -> str:
    """`CUDA graphs (none was recorded)`, for all that an arm asked for and did not get."""
    return ", ".join(f"{finding.asked} ({finding.got})" for finding in arm.unmet)


def unmet_sentences(*arms: Arm) -> list[str]:
    """`compile did not get what it asked for: CUDA graphs (none was recorded)`, for each arm."""
    return [
        f"{arm.name} did not get what it asked for: {unmet_text(arm)}" for arm in arms if arm.unmet
    ]


def speedup_cells(pair: Comparison) -> tuple[str, str]:
    """The ratio and its interval; a first look has the band of its epochs, and says so.

    A band narrower than what processes differ by has no digits worth showing.
    """
    speedup, band = pair.speedup, pair.band
    if band is None:
        ratio = ratio_text(speedup.ratio, speedup.low, speedup.high)
        return ratio, interval_text(speedup.low, speedup.high)
    low, high = speedup.ratio * (1 - SCATTER), speedup.ratio * (1 + SCATTER)
    if low < band.low and band.high < high:
        return ratio_text(speedup.ratio, low, high), "first look"
    ratio = ratio_text(speedup.ratio, band.low, band.high)
    return ratio, f"first look {interval_text(band.low, band.high)}"


def pays_off_cells(pair: Comparison) -> tuple[str, str]:
    """From which epoch or iteration it pays off, from a cold and from a warm cache."""
    if pair.speedup.verdict == "no difference shown":
        return "no difference shown", ""
    if not pair.differs:
        return "no difference seen", ""
    return _even(pair.break_even_cold, pair.unit), _even(pair.break_even_warm, pair.unit)


def _even(even: BreakEven | None, unit: str) -> str:
    if even is None:
        return ""
    match even.kind:
        case "epoch":
            return place_text(unit, even.epoch or 0, even.projected)
        case "ahead until":
            return f"ahead until {even.epoch}"
        case _:
            return even.kind


def difference_text(name: str, values: tuple[Any, Any]) -> str:
    """`batch_size 32 against 16`: the candidate's value first."""
    candidate, baseline = (_value(value) for value in values)
    return f"{name} {candidate} against {baseline}"


def _value(value: Any) -> str:
    if isinstance(value, tuple):  # the machine: its label and its id
        return f"{value[0]} ({value[1]})"
    return "not stated" if value is None else str(value)


def differing_facts(
    baseline: Sequence[Run], candidate: Sequence[Run]
) -> list[tuple[str, str, str]]:
    """Every fact of spec and environment whose values differ between the arms, and only those."""
    ours, theirs = _facts(candidate), _facts(baseline)
    return [
        (name, ", ".join(theirs.get(name, {})), ", ".join(ours.get(name, {})))
        for name in {**theirs, **ours}
        if set(theirs.get(name, {})) != set(ours.get(name, {}))
    ]


def _facts(runs: Sequence[Run]) -> dict[str, dict[str, None]]:
    """Name -> the values of an arm's runs, each once, in order."""
    facts: dict[str, dict[str, None]] = {}
    for run in runs:
        parts = [run.spec.workload, run.spec.variant, run.spec.measurement, run.environment]
        pairs = [("device", run.spec.device)]
        pairs += [pair for part in parts if part is not None for pair in part]
        for name, value in pairs:
            if name != "event":
                shown = "not set" if value is None else str(value)
                facts.setdefault(name, {})[shown] = None
    return facts
