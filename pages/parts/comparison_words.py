"""Comparisons in words: the page's answer, the table's cells, the charts' titles. Plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench_core.pairing import Comparison, Comparisons
from bench_core.run import Run
from bench_core.stats import BreakEven
from bench_core.units import interval_text, percent_text, ratio_text, seconds_text


def answer(found: Comparisons) -> tuple[str, str]:
    """The title and the line below it. Needs one comparison at least."""
    pairs = found.pairs
    if len(pairs) == 1:
        only = pairs[0]
        saving = only.saving_text if only.shows_difference else ""
        return only.headline, " ".join(filter(None, (only.detail, saving)))
    judged = [pair for pair in pairs if pair.speedup.verdict]
    faster = [pair for pair in judged if pair.speedup.verdict == "faster"]
    slower = [pair for pair in judged if pair.speedup.verdict == "slower"]
    of = f"{len(judged)} comparisons" if len(judged) > 1 else "1 comparison"
    if not judged:
        title = f"A first look at {len(pairs)} comparisons: no verdict before 3 runs an arm"
    elif faster:
        most = max(faster, key=lambda pair: pair.speedup.ratio)
        title = f"Faster in {len(faster)} of {of}, most {_where(most)}: {_per_cent(most)}"
    elif slower:
        most = min(slower, key=lambda pair: pair.speedup.ratio)
        title = f"Slower in {len(slower)} of {of}, most {_where(most)}: {_per_cent(most)}"
    else:
        title = f"No difference shown in {of}"
    detail = f"Geometric mean {ratio_text(found.geometric_mean)} over {len(pairs)} comparisons"
    looks = len(pairs) - len(judged)
    if judged and looks:
        detail += f", {looks} of them a first look without a verdict"
    detail += "."
    return title, f"{detail} Slower in {len(slower)}." if faster and slower else detail


def left_out_text(found: Comparisons) -> str:
    """`2 runs are left out`, or nothing."""
    count = sum(len(left.runs) for left in found.left_out)
    return f"{count} {'run is' if count == 1 else 'runs are'} left out" if count else ""


def _where(pair: Comparison) -> str:
    return f"on {pair.machine} with {pair.workload.model}"


def _per_cent(pair: Comparison) -> str:
    speedup = pair.speedup
    return percent_text(speedup.ratio, speedup.low, speedup.high).rsplit(" ", 1)[0]


def pair_name(pair: Comparison) -> str:
    """`resnet101 on T4, batch 16, compile against eager`."""
    arms = f"{pair.candidate.variant.name} against {pair.baseline.variant.name}"
    return f"{pair.workload.model} on {pair.machine}, batch {pair.workload.batch_size}, {arms}"


def speedup_cells(pair: Comparison) -> tuple[str, str]:
    """The ratio and its interval; a first look has the band of its epochs, and says so."""
    speedup, band = pair.speedup, pair.band
    if band is not None:
        ratio = ratio_text(speedup.ratio, band.low, band.high)
        return ratio, f"first look {interval_text(band.low, band.high)}"
    ratio = ratio_text(speedup.ratio, speedup.low, speedup.high)
    return ratio, interval_text(speedup.low, speedup.high)


def pays_off_cells(pair: Comparison) -> tuple[str, str]:
    """From which epoch it pays off, from a cold and from a warm cache."""
    if pair.speedup.verdict == "no difference shown":
        return "no difference shown", ""
    if not pair.differs:
        return "no difference seen", ""
    return _even(pair.break_even_cold), _even(pair.break_even_warm)


def _even(even: BreakEven | None) -> str:
    if even is None:
        return ""
    match even.kind:
        case "epoch":
            return f"about epoch {even.epoch}" if even.projected else f"epoch {even.epoch}"
        case "ahead until":
            return f"ahead until {even.epoch}"
        case _:
            return even.kind


def batch_title(pairs: Sequence[Comparison], absolute: bool) -> str:
    """What the chosen machine's comparisons at several batch sizes show."""
    ordered = sorted(pairs, key=lambda pair: pair.workload.batch_size)
    if absolute:
        best = min(ordered, key=lambda pair: pair.candidate.steady_seconds)
        name = best.candidate.variant.name
        return (
            f"{name[0].upper()}{name[1:]} takes {seconds_text(best.candidate.steady_seconds)} "
            f"an epoch at batch {best.workload.batch_size}, "
            f"{best.baseline.variant.name} {seconds_text(best.baseline.steady_seconds)}"
        )
    if len(ordered) == 1:
        return f"{speedup_cells(ordered[0])[0]} at batch {ordered[0].workload.batch_size}"
    best = max(ordered, key=lambda pair: pair.speedup.ratio)
    worst = min(ordered, key=lambda pair: pair.speedup.ratio)
    where = f"on {best.machine}"
    low, high = best.speedup.low, worst.speedup.high
    if low is None or high is None:
        return f"First look at {len(ordered)} batch sizes {where}"
    if low <= high:
        return f"No change with the batch size shown {where}"
    best_size, worst_size = best.workload.batch_size, worst.workload.batch_size
    return (
        f"{speedup_cells(best)[0]} at batch {best_size}, {speedup_cells(worst)[0]} at batch "
        f"{worst_size} {where}"
    )


def even_title(pair: Comparison) -> str:
    """When the chosen pair is even."""
    start = f"{pair.workload.model} on {pair.machine}"
    if not pair.differs:
        return f"{start}: no difference {'shown' if pair.speedup.verdict else 'seen'}"
    warm_only = pair.break_even_cold is None
    even = pair.break_even_warm if warm_only else pair.break_even_cold
    if even is None:
        return f"{start}: how start-up pays off was not measured"
    cache = " from a warm cache" if warm_only else ""
    match even.kind:
        case "never":
            return f"{start} is never even{cache}"
        case "at once":
            return f"{start} is ahead from the start{cache}"
        case "ahead until":
            return f"{start} is ahead until epoch {even.epoch}, then slower{cache}"
        case _:
            about = "about " if even.projected else ""
            return f"{start} is even at {about}epoch {even.epoch}{cache}"


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
