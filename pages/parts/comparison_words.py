"""Comparisons in words: the page's answer, the table's cells, parity, facts. Plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bench_core.comparison import SCATTER, Comparison, ends_text, floor_text
from bench_core.events import Parity
from bench_core.geomeans import Means, by_variant
from bench_core.measured import Arm
from bench_core.pairing import Comparisons
from bench_core.run import NOT_STATED, Run
from bench_core.sizes import sizes_text, sizes_that_pay
from bench_core.stats import RUNS_FOR_A_VERDICT, BreakEven
from bench_core.units import (
    EN_DASH,
    count_text,
    counted,
    interval_text,
    percent_text,
    place_text,
    ratio_text,
    seconds_text,
    value_text,
)


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
    shown = [pair for pair in judged if pair.shows_difference]
    faster = [pair for pair in shown if pair.speedup.verdict == "faster"]
    slower = [pair for pair in shown if pair.speedup.verdict == "slower"]
    of = counted(len(judged), "comparison")
    if not judged:
        many = counted(len(pairs), "comparison")
        title = f"A first look at {many}: no verdict before {RUNS_FOR_A_VERDICT} runs an arm"
    elif faster:
        title = f"Faster in {count_text(len(faster))} of {of}, most {_most(faster, pairs)}"
    elif slower:
        title = f"Slower in {count_text(len(slower))} of {of}, most {_most(slower, pairs)}"
    else:
        title = f"No difference shown in {of}"
    told = [f"Slower in {count_text(len(slower))}."] if faster and slower else []
    return title, " ".join([*_means_sentences(pairs), *told])


def _means_sentences(pairs: Sequence[Comparison]) -> list[str]:
    """`Geometric mean 1.05× over 11 comparisons.`, apart for each variant where there are several.

    Means that stand beside each other are over the same workloads, and what is left out is told.
    Those of machines stand in their own section.
    """
    found = by_variant(pairs)
    sentences = []
    if len(found.means) == 1:
        [mean] = found.means
        what = "first look" if found.first_looks else "comparison"
        of = f" of {mean.name}" if len({pair.candidate.name for pair in pairs}) > 1 else ""
        over = counted(mean.workloads, what)
        sentences = [f"Geometric mean{of} {ratio_text(mean.ratio)} over {over}"]
    elif found.means:
        each = f"Geometric means over {counted(found.means[0].workloads, 'workload')} each"
        what = each if found.means[0].workloads > 1 else "Speedups"
        sentences = [f"{what}: {_listed_means(found)}"]
    return [
        f"{text[0].upper()}{text[1:]}." for text in dict.fromkeys([*sentences, *found.left_out])
    ]


def _listed_means(found: Means) -> str:
    parts = [f"{mean.name} {ratio_text(mean.ratio)}" for mean in found.means]
    return ("; " if any("," in part for part in parts) else ", ").join(parts)


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
    are = "is" if count == 1 else "are"
    return f"{counted(count, 'run')} {are} left out" if count else ""


def _most(shown: Sequence[Comparison], pairs: Sequence[Comparison]) -> str:
    """Where a difference is largest, and how large: `on T4 with resnet101: 8.4 %`."""
    most = max(shown, key=lambda pair: abs(math.log(pair.speedup.ratio)))
    return f"{_where(most, pairs)}: {_per_cent(most)}"


def _where(pair: Comparison, pairs: Sequence[Comparison]) -> str:
    """`on T4 with resnet101`, and what else tells it from the other comparisons."""
    words = [f"on {pair.machine} with {pair.workload.model}"]
    for of in (
        lambda one: one.candidate.name,
        lambda one: one.workload.size_text if one.states("batch_size") else "",
        lambda one: one.workload.precision if one.states("precision") else "",
    ):
        if len({of(one) for one in pairs}) > 1 and of(pair) not in ", ".join(words):
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
    return ", ".join([cell_name(pair), arms_text(pair)])


def arms_text(pair: Comparison) -> str:
    """`compile against eager`; along another axis `bf16 against fp32 of compile`."""
    of = "" if "variant" in pair.axis or "side" in pair.axis else variant_of(pair)
    return f"{pair.candidate.name} against {pair.baseline.name}{f' of {of}' if of else ''}"


def variant_of(pair: Comparison) -> str:
    return pair.candidate.variant.name


def cell_name(pair: Comparison) -> str:
    """`resnet101 on T4, batch 16`: what both arms share."""
    words = [word for word in pair.words if word not in pair.candidate.name]
    return ", ".join([f"{pair.workload.model} on {pair.machine}", *words])


def of_workload(pair: Comparison) -> dict[str, object]:
    """What is executed, the contents of a model's file too.

    Samples of inference are so many batches: they do not differ where only the batch does.
    """
    facts: dict[str, object] = dict(pair.workload)
    if pair.unit == "iteration":
        facts["samples"] = pair.workload.steps_per_epoch
    facts |= {name: NOT_STATED for name in facts if not pair.states(name)}
    prepared = pair.candidate.runs[0].run.prepared
    digest = (prepared and prepared.model_sha256) or ""
    facts["model file"] = digest[:8] or NOT_STATED
    return facts


def of_machine(pair: Comparison) -> dict[str, object]:
    """What a comparison is of, apart from its workload and its arms."""
    environment = pair.candidate.runs[0].run.environment
    facts: dict[str, object] = {
        "torch": pair.torch,
        "device": pair.device,
        "threads in use": environment and environment.threads,
        "device name": environment and environment.device_name,
        "machine id": pair.machine_id,
    }
    return {name: NOT_STATED if value is None else value for name, value in facts.items()}


def vary_in(name: str, one: Comparison, other: Comparison) -> bool:
    """Whether two comparisons on one machine differ in that field of the workload at most."""
    return of_machine(one) == of_machine(other) and workloads_vary_in(name, one, other)


def workloads_vary_in(name: str, one: Comparison, other: Comparison) -> bool:
    if name != "model" and one.workload.model != other.workload.model:
        return False  # mostly, and of thousands the rest takes long
    return {**of_workload(one), name: None} == {**of_workload(other), name: None}


def same_arm(one: Comparison, other: Comparison) -> bool:
    """Whether two comparisons are of one candidate arm."""
    ours, theirs = one.candidate, other.candidate
    return (ours.variant, ours.setting) == (theirs.variant, theirs.setting)


def vary_in_size_only(one: Comparison, other: Comparison) -> bool:
    return same_arm(one, other) and vary_in("batch_size", one, other)


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
        return ratio, interval_text(speedup.low, speedup.high) or "first look"
    low, high = speedup.ratio * (1 - SCATTER), speedup.ratio * (1 + SCATTER)
    if low < band.low and band.high < high:
        return ratio_text(speedup.ratio, low, high), "first look"
    ratio = ratio_text(speedup.ratio, band.low, band.high)
    return ratio, f"first look {interval_text(band.low, band.high)}"


def nothing_shown_text(pair: Comparison) -> str:
    """Why a row is grey: `no difference shown`, `below the noise floor, 1.2 %`; else empty."""
    if pair.speedup.verdict == "no difference shown":
        return "no difference shown"
    if pair.below_floor and pair.floor is not None:
        return f"below the noise floor, {floor_text(pair.floor)}"
    return "" if pair.differs else "no difference seen"


def pays_off_cells(pair: Comparison) -> tuple[str, str]:
    """From which epoch or iteration it pays off, from a cold and from a warm cache.

    The cold one with its 95 % interval: `epoch 14 (12–16)`.
    """
    if reason := nothing_shown_text(pair):
        return reason, ""
    even = pair.break_even_cold
    cold, warm = _even(even, pair.unit), _even(pair.break_even_warm, pair.unit)
    if even is None or even.kind not in ("epoch", "ahead until"):
        return cold, warm
    ends = pair.break_even_interval("cold" if pair.break_even("cold") else "off")
    low, _, high = (ends_text(ends, even.kind) if ends else "").partition(" to ")
    return f"{cold} ({low}{EN_DASH}{high})" if high else cold, warm


def even_from_text(pair: Comparison) -> str:
    """For a small cell: `from 14`, `never`, `at once`, `ahead until 9`; by a cold start."""
    even = pair.break_even_cold or pair.break_even_warm
    if even is None or even.kind != "epoch":
        return _even(even, pair.unit)
    return f"from {place_text('', even.epoch or 0, even.projected).replace('  ', ' ').strip()}"


def _even(even: BreakEven | None, unit: str) -> str:
    if even is None:
        return ""
    match even.kind:
        case "epoch":
            return place_text(unit, even.epoch or 0, even.projected)
        case "ahead until":
            return f"ahead until {count_text(even.epoch)}"
        case _:
            return even.kind


def difference_text(name: str, values: tuple[Any, Any]) -> str:
    """`batch_size 32 against 16`: the candidate's value first."""
    candidate, baseline = map(value_text, values)
    return f"{name} {candidate} against {baseline}"


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


def _there(run: Run) -> dict[str, object]:
    """Facts of the environment; threads asked for are one thing, those in use another."""
    facts = dict(run.environment or ())
    return {"threads in use" if name == "threads" else name: facts[name] for name in facts}


def _facts(runs: Sequence[Run]) -> dict[str, dict[str, None]]:
    """Name -> the values of an arm's runs, each once, in order."""
    facts: dict[str, dict[str, None]] = {}
    for run in runs:
        spec = run.spec
        # Eager has no backend, and a machine without a GPU no CUDA: that is no default.
        parts = (
            ([("device", spec.device)], True),
            (spec.workload, True),
            (spec.variant, spec.variant.backend is not None),
            (spec.measurement, True),
            (_there(run).items(), False),
        )
        for part, has_defaults in parts:
            for name, value in part:
                stated = run.states(name)
                if name != "event" and not (stated and value is None and not has_defaults):
                    facts.setdefault(name, {})[value_text(value) if stated else NOT_STATED] = None
    return facts
