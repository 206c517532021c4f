"""Reasons to distrust a number, each with its figures and the next step to take.

A closed list: KINDS. Pure: runs and comparisons in, sentences out. Nothing is kept from the reader:
what stands here is shown beside the number that it concerns, and no number is withheld for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal, get_args

import numpy as np

from bench_core import pairing
from bench_core.comparison import Comparison
from bench_core.epoch_columns import column
from bench_core.measured import FIRST_ITERATIONS, Arm, Measured, cache_found
from bench_core.source import SPREAD, SYNCHRONISED
from bench_core.stats import RUNS_FOR_A_VERDICT
from bench_core.units import NO_BREAK, counted, seconds_text, value_text

# The weightiest first: in this order they are shown.
Kind = Literal[
    "differs besides",
    "too few runs",
    "unsynchronised",
    "no spread",
    "epoch is a step",
    "runs apart",
    "other programs",
    "other GPU process",
    "throttled",
    "low clock",
    "spread",
    "drift",
    "compiled late",
    "ended early",
    "no turns taken",
    "not got",
    "cache",
    "not checked",
    "not stated",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

WIDE_SPREAD = 0.15
RUNS_APART = 1.2
# Above this the times say more about the machine's other work than about the variant.
LOUD_NEIGHBOURS = 0.1
# Equal processes differ by more than this, so a smaller drift explains nothing.
LEAST_DRIFT = 0.01
# A trend is one at 0.6 % by Mann and Kendall, over so many medians at most: neighbouring calls are
# alike, and each for itself would count as evidence.
TREND_SIGMAS, TREND_BLOCKS = 2.75, 30
LOW_CLOCK = 0.9
# Bits of NVML's nvmlClocksThrottleReasons. Idle (1) and clocks that were set (2) are no throttling.
IDLE_OR_SET = 0x1 | 0x2
THROTTLING = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "heat, by the driver",
    0x40: "heat, by the hardware",
    0x80: "power brake",
}


@dataclass(frozen=True)
class Doubt:
    """`label` fits a chip; `text` is a sentence with figures and `step` what to do, both without
    their full stop. `size` tells the worse of two of one kind."""

    kind: Kind
    label: str
    text: str
    step: str
    size: float = 0.0

    @property
    def sentence(self) -> str:
        """Stands alone: `Runs of eager differ by 3.0 times. Measure again on a quiet machine.`"""
        return f"{self.text}. {self.step[0].upper()}{self.step[1:]}."


def doubts_of_run(one: Measured) -> tuple[Doubt, ...]:
    """What speaks against the times of one run, the weightiest first.

    A run that has not ended has none yet, and one that failed no times to doubt.
    """
    if one.run.status in ("queued", "running", "failed"):
        return ()
    return worst(found for find in OF_A_RUN.values() if (found := find(one)))


def doubts_of_pair(pair: Comparison) -> tuple[Doubt, ...]:
    """What speaks against a comparison: each kind once, of its runs the worst.

    Three runs an arm need scipy (stats.ScipyMissing).
    """
    found = [find(pair) for find in OF_A_PAIR.values()]
    for one in (*pair.baseline.runs, *pair.candidate.runs):
        found += [find(one) for kind, find in OF_A_RUN.items() if kind not in OF_A_PAIR]
    return worst(filter(None, found))


def doubts_text(pair: Comparison) -> str:
    """The doubts as sentences; empty without any."""
    return " ".join(doubt.sentence for doubt in doubts_of_pair(pair))


def worst(found: Iterable[Doubt]) -> tuple[Doubt, ...]:
    """Each kind once, the worst of its own, in the order of KINDS."""
    kept: dict[Kind, Doubt] = {}
    for doubt in found:
        if doubt.kind not in kept or doubt.size > kept[doubt.kind].size:
            kept[doubt.kind] = doubt
    return tuple(kept[kind] for kind in KINDS if kind in kept)


# Of a run


def _spread(one: Measured) -> Doubt | None:
    spread = one.steady.spread or 0.0
    if spread < WIDE_SPREAD:
        return None
    step = {
        "epoch": "take more samples an epoch",
        "iteration": "take a larger batch, or measure on a quieter machine",
    }[one.unit]
    text = f"Single {one.unit}s of {_who(one)} scatter by {_percent(spread)}"
    return Doubt("spread", f"scatter {_percent(spread)}", text, step, spread)


def trend(seconds: Sequence[float]) -> float | None:
    """By how much the last third is slower than the first (0.03: 3 %), negative: faster.

    None where that is less than LEAST_DRIFT, or no trend beyond the scatter (Mann 1945, Kendall
    1975: how many pairs of values rise and how many fall). Quiet series, of neighbours correlated
    by 0.3 too, are called in at most 5 % (by simulation, in the test).
    """
    values = np.log(np.asarray(seconds, dtype=float))
    if len(values) > TREND_BLOCKS:
        parts = np.array_split(values, TREND_BLOCKS)
        values = np.array([median(part.tolist()) for part in parts])
    count = len(values)
    if count < 3:
        return None
    rises = np.sign(values[None, :] - values[:, None])[np.triu_indices(count, 1)].sum()
    sigma = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    third = -(-count // 3)
    drift = float(np.expm1(np.median(values[-third:]) - np.median(values[:third])))
    certain = abs(rises) - 1 >= TREND_SIGMAS * sigma
    return drift if certain and abs(drift) > LEAST_DRIFT else None


def _drift(one: Measured) -> Doubt | None:
    """A trend in the steady part, or a steady part that began with a slow-down."""
    step = "measure again with the arms taking turns, so that it hits both alike"
    first, level = one.steady.first, one.steady.median_seconds
    if first is None or level is None:
        return None
    quiet_from = _quiet_from(one)
    before = one.series_seconds[quiet_from:first]
    slower = level / median(before) - 1 if before else 0.0
    if slower > LEAST_DRIFT:
        text = (
            f"From {one.unit} {first + 1} on those of {_who(one)} take {_percent(slower)} longer "
            "than before"
        )
        return Doubt("drift", f"drift +{_percent(slower)}", text, step, slower)
    drift = trend(one.steady_seconds)
    if drift is None:
        return None
    change = f"{_percent(abs(drift))} {'longer' if drift > 0 else 'less'}"
    text = f"The last steady {one.unit}s of {_who(one)} take {change} than the first"
    sign = "+" if drift > 0 else "\u2212"
    return Doubt("drift", f"drift {sign}{_percent(abs(drift))}", text, step, abs(drift))


def _quiet_from(one: Measured) -> int:
    """Index after which nothing was compiled and the opening is over."""
    busy = [at for at, seconds in enumerate(one.series_compile_seconds) if seconds]
    return max(1 if one.unit == "epoch" else FIRST_ITERATIONS, busy[-1] + 1 if busy else 0)


def _compiled_late(one: Measured) -> Doubt | None:
    """A compile after the first epoch, or the first calls. That of evaluation is its own."""
    if one.unit == "epoch":
        series, opening = column(one.epochs, "compile_seconds"), 1
    else:
        series, opening = one.series_compile_seconds, FIRST_ITERATIONS
    late = [at + 1 for at, seconds in enumerate(series) if seconds and at >= opening]
    if not late:
        return None
    seconds = math.fsum(series[opening:])
    where = f"{one.unit} {late[-1]}"
    often = f" ({len(late)} times in all)" if len(late) > 1 else ""
    text = f"{_who(one, start=True)} compiled again in {where}{often}, {seconds_text(seconds)}"
    return Doubt(
        "compiled late",
        f"compiled in {where}",
        text,
        "see the reasons of the recompiles on the card of the run; one shape for all batches, or "
        "dynamic=False, may spare them",
        seconds,
    )


def _throttled(one: Measured) -> Doubt | None:
    reasons = _gpu(one).get("throttle_reasons") or 0
    names = [name for bit, name in THROTTLING.items() if reasons & bit]
    if not names:
        return None
    text = f"The device was held back when {_who(one)} ended ({', '.join(names)})"
    step = "let it cool down, lock its clocks (nvidia-smi -lgc) and measure again"
    return Doubt("throttled", f"throttled: {names[0]}", text, step, len(names))


def _low_clock(one: Measured) -> Doubt | None:
    gpu = _gpu(one)
    clock, most = gpu.get("sm_clock_mhz"), gpu.get("sm_clock_max_mhz")
    if not clock or not most or (gpu.get("throttle_reasons") or 0) & IDLE_OR_SET:
        return None
    share = clock / most
    if share >= LOW_CLOCK:
        return None
    text = f"The device ran at {clock} of {most}{NO_BREAK}MHz when {_who(one)} ended"
    step = "lock its clocks (nvidia-smi -lgc), so that both arms have the same"
    return Doubt("low clock", f"clock {_percent(share)}", text, step, 1 - share)


def _gpu(one: Measured) -> dict[str, int]:
    return (one.run.aftermath.gpu if one.run.aftermath else None) or {}


def _other_programs(one: Measured) -> Doubt | None:
    told = column(one.epochs, "foreign_cpu_share")
    first = one.steady.first if one.unit == "epoch" else None
    shares = [share for share in told[first:] if share is not None]
    share = fmean(shares) if shares else 0.0
    if share < LOUD_NEIGHBOURS:
        return None
    text = f"Other programs used {_percent(share)} of this machine's cores during {_who(one)}"
    step = "measure again on a quiet machine"
    return Doubt("other programs", f"other programs {_percent(share)}", text, step, share)


def _other_gpu_process(one: Measured) -> Doubt | None:
    """Runs that took turns see their partners there, which wait."""
    others = _gpu(one).get("other_processes") or 0
    if not others or one.run.round:
        return None
    count = counted(others, "other process", "other processes")
    text = f"{count} held the device when {_who(one)} ended"
    return Doubt("other GPU process", count, text, "end it (nvidia-smi shows it)", others)


def _cache(one: Measured) -> Doubt | None:
    run = one.run
    asked, found = run.spec.variant.cache, cache_found(run)
    if asked == found or run.activity is None:
        return None
    was = found or "partly warm"
    hits = counted(run.activity.cache_hits, "hit")
    misses = counted(run.activity.cache_misses, "miss", "misses")
    text = f"{_who(one, start=True)} asked for a {asked} compile cache and had a {was} one"
    step = "measure again; its start-up counts as what it was found to be"
    if found is None:
        step = "measure again; its start-up counts neither as cold nor as warm"
    return Doubt("cache", f"cache {was}", f"{text} ({hits}, {misses})", step)


def _unsynchronised(one: Measured) -> Doubt | None:
    if SYNCHRONISED not in one.run.unstated or one.run.spec.device == "cpu":
        return None
    text = f"The source of {_who(one)} does not state whether the device's work was waited for"
    step = "time the same with a synchronise at both ends, or measure it here"
    return Doubt("unsynchronised", "synchronised?", text, step)


def _no_spread(one: Measured) -> Doubt | None:
    """An import that states means only, or one time for all of its epochs."""
    if not one.run.unstated or (SPREAD not in one.run.unstated and one.steady.spread != 0.0):
        return None
    text = f"The source of {_who(one)} states no single {one.unit}s, so their scatter is unknown"
    return Doubt("no spread", "no spread", text, "import single times, or measure it here")


def _epoch_is_a_step(one: Measured) -> Doubt | None:
    run = one.run
    if not (run.source and run.source.epoch_is_step):
        return None
    size = "" if "batch_size" in run.unstated else f" of {run.spec.workload.batch_size} samples"
    text = (
        f"The source of {_who(one)} times single steps: what is called an epoch is one step{size}"
    )
    step = "read epochs as steps, in the start's pay-off and in costs too"
    return Doubt("epoch is a step", "an epoch is one step", text, step)


def _not_stated(one: Measured) -> Doubt | None:
    return _unstated(f"The source of {_who(one)}", one.run.unstated)


def _unstated(source: str, names: Sequence[str]) -> Doubt | None:
    names = [name for name in names if name not in (SYNCHRONISED, SPREAD)]
    if not names:
        return None
    told = ", ".join(name.replace("_", " ") for name in names)
    text = f"{source} does not state: {told}"
    step = "find out and state it with the import, or measure it here"
    return Doubt("not stated", counted(len(names), "fact") + " unstated", text, step, len(names))


def _no_turns_taken(one: Measured) -> Doubt | None:
    note = one.run.protocol_note
    if not note:
        return None
    text = f"{_who(one, start=True)} was to take turns; {note.rstrip('.')}"
    return Doubt("no turns taken", "no turns taken", text, "mend that and measure again")


def _ended_early(one: Measured) -> Doubt | None:
    run = one.run
    if run.status not in ("stopped", "interrupted"):
        return None
    done, whole = len(one.series_seconds), run.spec.is_done_after
    # How many another tool was to measure no file says.
    told = counted(done if run.by_another_tool else whole, one.unit)
    of = "" if run.by_another_tool else f"{done} of "
    text = f"{_who(one, start=True)} was {run.status} after {of}{told}"
    return Doubt("ended early", run.status, text, "queue it again", 1 - done / whole)


def _not_got(one: Measured) -> Doubt | None:
    unmet = Arm(one.run.spec.variant, (one,)).unmet
    if not unmet:
        return None
    texts = [f"{finding.asked} (got: {finding.got.rstrip('.')})" for finding in unmet]
    text = f"{_who(one, start=True)} did not get {', '.join(texts)}"
    step = "read its times as those of what it got"
    return Doubt("not got", f"not got: {unmet[0].asked}", text, step, len(unmet))


def _not_checked(one: Measured) -> Doubt | None:
    return _unchecked(Arm(one.run.spec.variant, (one,)), _who(one))


def _unchecked(arm: Arm, who: str) -> Doubt | None:
    """Without a verdict, or where no run came as far as the check."""
    if arm.variant.execution == "eager":
        return None
    if arm.parity:
        if arm.parity.verdict != "not checked":
            return None
        why = arm.parity.text.strip().rstrip(".")
    elif any(m.run.aftermath for m in arm.runs):
        return None
    elif all(m.run.source for m in arm.runs):
        text = f"Whether {who} computes what eager computes is not stated by its source"
        step = "measure it here, where results are checked"
        return Doubt("not checked", "results not checked", text, step)
    else:
        why = "the check comes after the timing"
    text = f"The results of {who} were not held against eager's, {why}"
    return Doubt("not checked", "results not checked", text, "let a run come to its end")


# Of a pair


def _differs_besides(pair: Comparison) -> Doubt | None:
    if not pair.overridden:
        return None
    runs = pair.baseline.runs[0].run, pair.candidate.runs[0].run
    values = pairing.differences(*runs)
    told = [
        f"{name} {value_text(values[name][0])} against {value_text(values[name][1])}"
        if name in values
        else name
        for name in pair.overridden
    ]
    text = f"{pair.candidate.name} and {pair.baseline.name} differ in more: {', '.join(told)}"
    label = f"differs in {', '.join(pair.overridden)}"
    step = "measure both alike, for the ratio mixes up the effects"
    return Doubt("differs besides", label, text, step, len(pair.overridden))


def _too_few_runs(pair: Comparison) -> Doubt | None:
    count = min(len(pair.baseline.runs), len(pair.candidate.runs))
    if count >= RUNS_FOR_A_VERDICT:
        return None
    arm = min((pair.baseline, pair.candidate), key=lambda arm: len(arm.runs))
    text = f"{arm.name} has {counted(count, 'run')}, and processes differ"
    step = f"repeat until each arm has {RUNS_FOR_A_VERDICT} runs"
    label = f"{counted(count, 'run')} an arm"
    return Doubt("too few runs", label, text, step, RUNS_FOR_A_VERDICT - count)


def _runs_apart(pair: Comparison) -> Doubt | None:
    """Where arms took turns both may move: then the ratios of the pairs count."""
    groups = {f"Runs of {arm.name}": arm.medians for arm in (pair.baseline, pair.candidate)}
    turns = pair.took_turns
    if len(turns) >= RUNS_FOR_A_VERDICT:
        before, after = (
            [m.steady.median_seconds or 0.0 for m in side] for side in zip(*turns, strict=True)
        )
        ratios = [one / other for one, other in zip(before, after, strict=True)]
        groups = {"The pairs' speedups": ratios}
    apart, what = max((max(values) / min(values), what) for what, values in groups.items())
    if apart < RUNS_APART:
        return None
    text = f"{what} differ by {apart:.1f} times"
    return Doubt("runs apart", f"runs {apart:.1f}\u00d7 apart", text, _QUIET, apart)


_QUIET = "measure again on a quiet machine"


def _pair_not_stated(pair: Comparison) -> Doubt | None:
    runs = (*pair.baseline.runs, *pair.candidate.runs)
    names = dict.fromkeys((*pair.unstated, *(name for m in runs for name in m.run.unstated)))
    return _unstated(f"A source of {pair.candidate.name} against {pair.baseline.name}", list(names))


def _pair_not_checked(pair: Comparison) -> Doubt | None:
    return _unchecked(pair.candidate, pair.candidate.name)


OF_A_RUN: dict[Kind, Callable[[Measured], Doubt | None]] = {
    "unsynchronised": _unsynchronised,
    "no spread": _no_spread,
    "epoch is a step": _epoch_is_a_step,
    "other programs": _other_programs,
    "other GPU process": _other_gpu_process,
    "throttled": _throttled,
    "low clock": _low_clock,
    "spread": _spread,
    "drift": _drift,
    "compiled late": _compiled_late,
    "ended early": _ended_early,
    "no turns taken": _no_turns_taken,
    "not got": _not_got,
    "cache": _cache,
    "not checked": _not_checked,
    "not stated": _not_stated,
}
# What a pair judges by itself is not taken from its runs.
OF_A_PAIR: dict[Kind, Callable[[Comparison], Doubt | None]] = {
    "differs besides": _differs_besides,
    "too few runs": _too_few_runs,
    "runs apart": _runs_apart,
    "not checked": _pair_not_checked,
    "not stated": _pair_not_stated,
}


def _who(one: Measured, start: bool = False) -> str:
    return f"{'Run' if start else 'run'} {one.run.number} ({one.run.spec.variant.name})"


def _percent(share: float) -> str:
    decimals = 1 if share < 0.1 else 0
    return f"{100 * share:.{decimals}f}{NO_BREAK}%"
