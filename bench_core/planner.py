"""What a speedup is worth to somebody who starts so many times a day, for so long each time.

Pure: a comparison in, seconds a day and sentences out. Start-up counts in full for every start:
from a cold cache, or from a warm one where the starts share what was compiled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench_core.comparison import SCATTER, Comparison, ends_text, two_digits
from bench_core.spec import Cache
from bench_core.stats import RUNS_FOR_A_VERDICT, Band, saved_after
from bench_core.units import NO_BREAK, counted, duration_text

DAY = 24 * 3600.0
# What times of more than a second are rounded to.
EVEN_SECONDS = (1, 10, 60, 600, 3600, 36_000)


@dataclass(frozen=True)
class Saved:
    """Seconds a day (negative: lost) and their 95 % interval; a first look has none."""

    seconds: float
    ends: Band | None


@dataclass(frozen=True)
class Worth:
    """What is saved a day in one sentence, and what it rests on."""

    answer: str
    detail: str


def saved_a_day(pair: Comparison, count: int, starts: int, shared: bool) -> Saved | None:
    """What the candidate saves a day over `starts` starts of `count` epochs (iterations) each.

    `shared`: the compile cache is kept between starts, so each is a warm one; else each is cold.
    None: a start was not measured. ValueError: fewer than one epoch or one start.
    """
    for name, value in ((f"{pair.unit}s a start", count), ("starts a day", starts)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    cache = _cache(pair, shared)
    debt = _debt(pair, cache)
    if debt is None:
        return None
    gain = pair.baseline.steady_seconds - pair.candidate.steady_seconds
    view = pair.outlook(cache)
    once = saved_after(view, count) if view else None
    ends = Band(starts * once.low, starts * once.high) if once else None
    return Saved(starts * (count * gain - debt), ends)


def worth(pair: Comparison, count: int, starts: int, shared: bool) -> Worth:
    """`saved_a_day` in words."""
    saved = saved_a_day(pair, count, starts, shared)
    cache = _cache(pair, shared)
    debt = _debt(pair, cache)
    if saved is None or debt is None:
        return Worth(*_missing(pair, shared))
    whole = starts * count * pair.baseline.steady_seconds
    # What equal arms may lie apart is no gain and no loss; the start-up beside it is one.
    noise = math.expm1(pair.floor) * whole if pair.floor and pair.below_floor else None
    ends = saved.ends
    half = (ends.high - ends.low) / 2 if ends else max(SCATTER * whole, noise or 0.0)
    on_noise = noise is not None and starts * abs(debt) <= noise
    told = _verdict(saved.seconds, ends, half, on_noise)
    model = pair.workload.model_name
    each = f"{counted(count, pair.unit)}{' each' if starts > 1 else ''}"
    answer = (
        f"{model} on {pair.machine}, {pair.candidate.name} instead of {pair.baseline.name}, "
        f"{counted(starts, 'start')} a day of {each}: {told}."
    )
    detail = [_start_text(pair, cache, debt), _pays_text(pair, cache)]
    if whole > DAY:
        long = duration_text(whole)
        detail.append(f"With {pair.baseline.name} that is {long} of work, more than one day.")
    return Worth(answer, " ".join(detail))


def _debt(pair: Comparison, cache: Cache) -> float | None:
    """What a start of the candidate costs beyond one of the baseline; None: not measured."""
    before = pair.baseline.excess_seconds(pair.baseline_start(cache))
    after = pair.candidate.excess_seconds(cache if pair.candidate.variant.cache else None)
    return None if before is None or after is None else after - before


def _cache(pair: Comparison, shared: bool) -> Cache:
    """Where each start begins; without a cold start measured, one without any cache is as dear."""
    if shared:
        return "warm"
    return "cold" if pair.candidate.excesses("cold") else "off"


def _missing(pair: Comparison, shared: bool) -> tuple[str, str]:
    name = pair.candidate.name
    start = "warm" if shared else "cold"
    answer = f"A start of {name} from a {start} cache was not measured on {pair.machine}."
    if shared and pair.candidate.variant.execution == "export_aot":
        return answer, f"{name} compiles anew every time; plan without a shared cache."
    way_out = "a second repeat starts from one" if shared else "the first repeat starts from one"
    return answer, f"Measure {name} again with cache {start}: {way_out}."


def _verdict(saved: float, ends: Band | None, half: float, on_noise: bool) -> str:
    """`saves 5 min 20 s a day (95 %: 4 min 50 s to 5 min 50 s)`, or what is open.

    `on_noise`: which side it falls on is decided by less than equal arms lie apart.
    """
    amount, verb = _amount(abs(saved), half), "saves" if saved > 0 else "costs"
    if ends is None:
        runs = f"a first look, without an interval before {RUNS_FOR_A_VERDICT} runs an arm"
        if abs(saved) <= half:
            least = _amount(half, half)
            return f"no difference seen, less than the {least} that equal processes scatter; {runs}"
        return f"{verb} about {amount} a day; {runs}"
    low, high = (_amount(abs(end), half) for end in (ends.low, ends.high))
    if ends.low <= 0 <= ends.high:
        return f"no difference shown, between {low} lost and {high} saved a day (95{NO_BREAK}%)"
    if on_noise:
        return (
            f"no difference shown, {amount} a day would rest on less than what equal arms may "
            "lie apart on this machine"
        )
    near, far = (low, high) if saved > 0 else (high, low)
    return f"{verb} {amount} a day (95{NO_BREAK}%: {near} to {far})"


def _amount(seconds: float, half: float) -> str:
    """As many digits as the interval's half width leaves: 443 s plus or minus 40 s is 7 min 20 s.

    An end that is not 0 never reads as if it were.
    """
    if half <= 0:
        return duration_text(seconds)
    digits, exponent = f"{half:e}".split("e")
    step = 10.0 ** (int(exponent) - (digits[0] == "1"))
    step = max((even for even in EVEN_SECONDS if even <= step), default=step)
    rounded = round(seconds / step) * step or min(seconds, step)
    if step < 1 or rounded < 1 or rounded >= 120:
        return duration_text(rounded)
    return f"{rounded:.0f}{NO_BREAK}s"


def _start_text(pair: Comparison, cache: Cache, debt: float) -> str:
    """What one start costs beyond one of the baseline."""
    where = {"cold": " from a cold cache", "warm": " from a warm cache", "off": " without a cache"}
    known = pair.candidate.variant.cache and pair.candidate.runs[0].run.states("cache")
    start = f"A start{where[cache] if known else ''}"
    if debt <= 0:
        return f"{start} costs no more than one of {pair.baseline.name}."
    return f"{start} costs {duration_text(debt)} more than one of {pair.baseline.name}."


def _pays_text(pair: Comparison, cache: Cache) -> str:
    """From how many epochs a start on it pays."""
    if not pair.differs:
        seen = "seen" if pair.speedup.kind == "first look" else "shown"
        return f"No difference is {seen} once steady, so no number of {pair.unit}s is sure to pay."
    even = pair.break_even(cache)
    assert even is not None  # both starts were measured
    ends = pair.break_even_interval(cache)
    within = f" (95{NO_BREAK}%: {ends_text(ends, even.kind)})" if ends else ""
    epoch = even.epoch or 0
    number = counted(int(two_digits(epoch)) if even.projected else epoch, pair.unit)
    match even.kind:
        case "at once":
            return f"It pays from the first {pair.unit} on."
        case "never":
            return f"It never pays, however many {pair.unit}s a start."
        case "ahead until":
            return f"It pays up to {number} a start only{within}."
        case _:
            return f"It pays from {number} a start on{within}."
