"""The four metrics of the live page, each with a second line that says what the number rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import streamlit as st

from bench_core.comparison import Comparison
from bench_core.measured import PERCENTILES, Arm, cache_found
from bench_core.progress import clock_text
from bench_core.stats import RUNS_FOR_A_VERDICT
from bench_core.units import (
    NO_BREAK,
    counted,
    estimate_text,
    percent_interval_text,
    rate_text,
    seconds_text,
)
from pages.parts.live_charts import steady_seconds
from pages.parts.live_reading import Cell, Reading, cell_names
from pages.parts.text import plain


def draw_metrics(cell: Cell, reading: Reading, needs: Mapping[int, float]) -> None:
    pair = cell.candidate
    unended = any(one.run.status in ("running", "queued") for one in cell.measured)
    of_several = len({*cell_names(reading.experiment, reading.runs).values()}) > 1
    words = [cell.name] if of_several else []
    if pair and len(cell.comparisons) > 1:
        words.append(f"{pair.candidate.name} against {pair.baseline.name}")
    if words:
        st.caption(plain(f"{', '.join(words)}:"))
    with st.grid(4, min_column_width=150, gap="small"):
        so_far = "So far" if unended else "Difference"
        _metric(so_far, *_so_far(cell, pair, needs), SO_FAR[cell.unit])
        if cell.unit == "epoch":
            _metric("Pays off from", *_pays_off(pair, unended), PAYS_OFF)
            _metric("Steady epoch", *_steady(cell, pair), STEADY)
            _metric("Compiling", *_compiling(cell, pair, reading.now, unended), COMPILING)
        else:
            thing = cell.measured[0].run.spec.workload.thing
            _metric("First call", *_first_call(cell, pair, reading.now), FIRST_CALL)
            _metric("p90 · p99", *_tails(cell, pair), TAILS)
            _metric(f"{thing.capitalize()}s per second", *_rate(cell, pair), RATE)


SO_FAR = {
    unit: f"{what} of the other variant against the baseline's, with the 95 % interval over runs. "
    "8.4 % faster is the same as a speedup of 1.084×. Below "
    f"{RUNS_FOR_A_VERDICT} runs an arm it is a first look: processes differ, so no verdict yet."
    for unit, what in (("epoch", "Steady epochs"), ("iteration", "The median steady iteration"))
}
PAYS_OFF = (
    "The epoch by whose end all compile time is paid back, from a cold compile cache where that "
    "was measured. From then on the compiled training is ahead. An evaluation is timed apart."
)
STEADY = (
    "Median seconds of the epochs after start-up: after the first epoch, the last compile and the "
    "last change of speed."
)
COMPILING = (
    "Seconds inside the compiler's own start and end while training, and what was compiled, of the "
    "arm's first run from a cold cache."
)
FIRST_CALL = (
    "The first call, with compiling, tracing or exporting before it, from a cold compile cache "
    "where that was measured. Starting the process and building the model are not in it."
)
TAILS = (
    "Nine in ten, and 99 in a hundred, of all steady iterations end within these times: what "
    "start-up and compiling took is not among them. Empty where a run has fewer than "
    f"{PERCENTILES[90]}, or {PERCENTILES[99]}, of them."
)
RATE = (
    "Batch size, or the size of a function's input, over the median steady iteration: one call "
    "after the other, none at the same time."
)


def _metric(label: str, value: str, below: str, help: str) -> None:
    """Value and second line are Markdown to Streamlit; a variant's name may hold anything."""
    st.metric(
        plain(label),
        plain(value) or None,
        delta=plain(below) or None,
        delta_color="off",
        delta_arrow="off",
        border=True,
        height="stretch",
        help=help,
    )


def _so_far(cell: Cell, pair: Comparison | None, needs: Mapping[int, float]) -> tuple[str, str]:
    if pair is None:
        return "", _why_no_answer(cell, needs)
    speedup = pair.speedup
    if pair.band:
        fewest = min(speedup.baseline_runs, speedup.candidate_runs)
        below = f"first look, {counted(fewest, 'run')} an arm"
    else:
        below = f"95 %: {percent_interval_text(speedup.low, speedup.high)}"
    if not pair.differs:
        return "none seen" if pair.band else "none shown", below
    return pair.verdict_text.removeprefix("first look: "), below


def _why_no_answer(cell: Cell, needs: Mapping[int, float]) -> str:
    if len(cell.arms) == 1:
        return "only one variant"
    wait = 0.0
    for arm, runs in cell.arms.items():
        unfailed = [one for one in runs if one.run.status != "failed"]
        if any(one.steady.first is not None for one in unfailed):
            continue
        first = next((one.run.number for one in runs if one.run.number in needs), None)
        if first is None:
            statuses = {one.run.status for one in runs}
            ending = next((ENDINGS[status] for status in ENDINGS if status in statuses), None)
            return f"{arm}: {ending or 'no steady state'}"
        wait += needs[first]
    return f"first answer in {estimate_text(wait)}"


ENDINGS = {"failed": "failed", "stopped": "stopped early", "interrupted": "interrupted"}


def _pays_off(pair: Comparison | None, unended: bool) -> tuple[str, str]:
    if pair is None:
        return "", "needs 3 steady epochs an arm" if unended else "nothing to compare"
    if not pair.differs:
        return "", "within the noise so far" if pair.band else "no difference shown"
    even = pair.break_even_cold or pair.break_even_warm
    if even is None:
        return "", "start-up not measured"
    from_warm = pair.break_even_cold is None
    match even.kind:
        case "never":
            return "never", "slower once steady"
        case "at once":
            return "at once", "warm cache" if from_warm else "never behind"
        case "ahead until":
            return "never", f"ahead until epoch {even.epoch} only"
    assert even.epoch is not None
    below = "projected" if even.projected else "measured"
    if from_warm:
        return f"epoch {even.epoch}", f"{below}, warm cache"
    warm = pair.break_even_warm
    if warm and warm.kind in ("at once", "epoch"):
        soon = f"epoch {warm.epoch}" if warm.epoch else "at once"
        below = f"projected, warm: {warm.epoch or 0}" if even.projected else f"warm cache: {soon}"
    return f"epoch {even.epoch}", below


def _steady(cell: Cell, pair: Comparison | None) -> tuple[str, str]:
    if pair:
        before = f"{pair.baseline.name} {seconds_text(pair.baseline.steady_seconds)}"
        return seconds_text(pair.candidate.steady_seconds), before
    known = steady_seconds(cell)
    if cell.baseline in known:
        return "", f"{cell.baseline} {seconds_text(known[cell.baseline])}"
    for arm, seconds in known.items():
        return seconds_text(seconds), arm
    return "", "needs 3 steady epochs"


def _compiling(cell: Cell, pair: Comparison | None, now: float, unended: bool) -> tuple[str, str]:
    """Of the pair's candidate; before a pair of whatever compiles. Seconds and counts of one run.

    What compiles now comes first, with its name where it is another arm.
    """
    compiled = [m for m in cell.measured if m.run.spec.variant.execution == "compile"]
    for one in compiled:
        since = one.run.compiling_since
        if one.run.status == "running" and since:
            name = cell.arm_name(one)
            before = [m.compile_seconds for m in cell.arms[name] if m.compile_seconds]
            last = f"last time {seconds_text(before[-1])}" if before else "now"
            other = pair is not None and name != pair.candidate.name
            return clock_text(now - since), f"{name}, {last}" if other else last
    if pair:
        compiled = [m for m in compiled if cell.arm_name(m) == pair.candidate.name]
    if not compiled:
        return "", "nothing to compile"
    began = [m for m in compiled if m.compile_seconds]
    if not began:
        if any(m.epochs for m in compiled):
            return "", "compiled nothing"
        return "", "comes later" if unended else "no compiled epoch"
    caches = {m.run.number: cache_found(m.run) for m in began}
    empty = [m for m in began if caches[m.run.number] in ("cold", "off")]
    known = [m for m in empty if m.run.activity]
    one = (known or empty or began)[0]
    seconds, cache, activity = one.compile_seconds, caches[one.run.number], one.run.activity
    if not known or activity is None:
        start = "no" if cache == "off" else cache or "partly warm"
        return seconds_text(seconds), f"{start} cache"
    again = len(activity.recompiles)
    recompiles = counted(again, "recompile") if again else "no recompiles"
    return seconds_text(seconds), f"{counted(activity.graphs, 'graph')}, {recompiles}"


# Inference


def _arms(cell: Cell, pair: Comparison | None) -> tuple[Arm | None, Arm | None]:
    """The arm that the cards are of, and the baseline beside it; before a pair what there is.

    Before a pair an arm may hold runs without a steady state: their first call counts.
    """
    if pair:
        return pair.candidate, pair.baseline
    begun = {name: [one for one in runs if one.epochs] for name, runs in cell.arms.items()}
    known = {name: cell.arm(runs) for name, runs in begun.items() if runs}
    baseline = known.pop(cell.baseline, None)
    return next(reversed(known.values()), None), baseline


def _steady_only(arm: Arm | None) -> Arm | None:
    steady = tuple(one for one in arm.runs if one.steady.first is not None) if arm else ()
    return replace(arm, runs=steady) if arm and steady else None


def _beside(baseline: Arm | None, text: str) -> str:
    return f"{baseline.name} {text}" if baseline and text else ""


def _first_call(cell: Cell, pair: Comparison | None, now: float) -> tuple[str, str]:
    for one in cell.measured:
        run = one.run
        if run.status == "running" and run.phase == "epoch" and not one.epochs:
            name = cell.arm_name(one)
            return clock_text(now - (run.phase_since or now)), f"{name}, so far"
    arm, baseline = _arms(cell, pair)
    below = _beside(baseline, seconds_text(baseline.first_seconds()) if baseline else "")
    if arm is None:
        return "", below or "comes first"
    starts = (arm.first_seconds(cache) for cache in ("cold", "off", None))
    first = next((seconds for seconds in starts if seconds is not None), None)
    return seconds_text(first), below or arm.name


def _tails(cell: Cell, pair: Comparison | None) -> tuple[str, str]:
    return _of_steady(cell, pair, _tail_text)


def _rate(cell: Cell, pair: Comparison | None) -> tuple[str, str]:
    size = cell.measured[0].run.spec.workload.batch_size
    return _of_steady(cell, pair, lambda arm: rate_text(size / arm.steady_seconds))


def _of_steady(cell: Cell, pair: Comparison | None, told: Callable[[Arm], str]) -> tuple[str, str]:
    """What is told of the arm, and below it of the baseline, once they have a steady state."""
    arm, baseline = map(_steady_only, _arms(cell, pair))
    below = _beside(baseline, told(baseline) if baseline else "")
    if arm is None:
        return "", below or "needs 3 steady iterations"
    return told(arm), below or arm.name


def _tail_text(arm: Arm) -> str:
    known = arm.known_percentiles()
    return pair_text(known[90], known[99])


def pair_text(low: float | None, high: float | None) -> str:
    """Two times, the unit once if it is one: `55.4 · 71.6 ms`; a dash for one that is not known."""
    if low is None or high is None:
        return f"{seconds_text(low)} · –" if low else ""
    first, second = seconds_text(low), seconds_text(high)
    number, unit = first.split(NO_BREAK)
    return f"{number if second.endswith(NO_BREAK + unit) else first} · {second}"
