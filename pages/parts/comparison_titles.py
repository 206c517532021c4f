"""Titles of Compare's charts: each states what its chart shows, computed. Plain text."""

from __future__ import annotations

from collections.abc import Sequence

from bench_core.comparison import COMPILE, Comparison, ends_text
from bench_core.latency_figures import Latencies
from bench_core.stats import Band
from bench_core.units import count_text, place_text, rate_text, seconds_text
from pages.parts.comparison_words import nothing_shown_text, speedup_cells
from pages.parts.kinds import model_text


def batch_title(pairs: Sequence[Comparison], absolute: bool) -> str:
    """What the chosen machine's comparisons at several batch sizes show."""
    ordered = sorted(pairs, key=lambda pair: pair.workload.batch_size)
    if absolute:
        best = min(ordered, key=lambda pair: pair.candidate.steady_seconds)
        name = best.candidate.name
        return (
            f"{name[0].upper()}{name[1:]} takes {seconds_text(best.candidate.steady_seconds)} "
            f"an {best.unit} at {best.workload.size_text}, "
            f"{best.baseline.name} {seconds_text(best.baseline.steady_seconds)}"
        )
    if len(ordered) == 1:
        return f"{speedup_cells(ordered[0])[0]} at {ordered[0].workload.size_text}"
    best = max(ordered, key=lambda pair: pair.speedup.ratio)
    worst = min(ordered, key=lambda pair: pair.speedup.ratio)
    where = f"on {best.machine}"
    sizes = "input size" if best.workload.is_function else "batch size"
    low, high = best.speedup.low, worst.speedup.high
    if low is None or high is None:
        return f"First look at {len(ordered)} {sizes}s {where}"
    if low <= high:
        return f"No change with the {sizes} shown {where}"
    most, least = (
        f"{speedup_cells(pair)[0]} at {pair.workload.size_text}" for pair in (best, worst)
    )
    return f"{most}, {least} {where}"


def even_title(pair: Comparison) -> str:
    """When the chosen pair is even."""
    arm = "" if pair.candidate.variant == COMPILE else f" with {pair.candidate.name}"
    start = f"{model_text(pair.workload.model)} on {pair.machine}{arm}"
    if not pair.differs:
        return f"{start}: {nothing_shown_text(pair)}"
    warm_only = pair.break_even_cold is None
    even = pair.break_even_warm if warm_only else pair.break_even_cold
    if even is None:
        return f"{start}: how start-up pays off was not measured"
    cache = " from a warm cache" if warm_only else ""
    place = place_text(pair.unit, even.epoch or 0, even.projected)
    match even.kind:
        case "never":
            return f"{start} is never even{cache}"
        case "at once":
            return f"{start} is ahead from the start{cache}"
        case "ahead until":
            return f"{start} is ahead until {place}, then slower{cache}"
        case _:
            ends = pair.break_even_interval("warm" if warm_only else pair.first_start or "cold")
            return f"{start} is even at {place}{_between(ends)}{cache}"


def _between(ends: Band | None) -> str:
    """`, between 12 and 16`; nothing where both ends are one epoch, or for a first look."""
    low, _, high = (ends_text(ends) if ends else "").partition(" to ")
    return f", between {low} and {high}" if high else ""


def latency_title(points: Sequence[Latencies]) -> str:
    """Which arm has the shortest median at which batch size. What differs little is no verdict."""
    sizes = sorted({point.batch_size for point in points})
    shortest = {
        size: min((one for one in points if one.batch_size == size), key=lambda one: one.p50)
        for size in sizes
    }
    arms: dict[str, list[int]] = {}
    for size, point in shortest.items():
        arms.setdefault(point.arm, []).append(size)
    if len(sizes) == 1:
        [point] = shortest.values()
        return f"Shortest median latency: {point.arm}, {seconds_text(point.p50)}"
    if len(arms) == 1:
        return f"Shortest median latency: {shortest[sizes[0]].arm} at every batch size"
    where = (f"{arm} at batch {_listed(sizes)}" for arm, sizes in arms.items())
    return f"Shortest median latency: {', '.join(where)}"


def _listed(sizes: Sequence[int]) -> str:
    *others, last = [count_text(size) for size in sizes]
    return f"{', '.join(others)} and {last}" if others else last


def throughput_title(points: Sequence[Latencies], baseline: str, thing: str = "image") -> str:
    """`Most images a second: 42.9 with onednn_graph at batch 32; eager at most 30.7`."""
    most = max(points, key=_throughput)
    words = f"Most {thing}s a second: {rate_text(_throughput(most))} with {most.arm}"
    words += f" at batch {count_text(most.batch_size)}"
    ours = [_throughput(point) for point in points if point.arm == baseline]
    if most.arm != baseline and ours:
        words += f"; {baseline} at most {rate_text(max(ours))}"
    return words


def _throughput(point: Latencies) -> float:
    return point.batch_size / point.p50


def first_title(points: Sequence[Latencies], arm: str, baseline: str) -> str:
    """What the wait for an arm's first answer costs, counted in steady calls of the baseline."""
    ours = next((point for point in points if point.arm == arm), None)
    base = next((point for point in points if point.arm == baseline), None)
    if ours is None or ours.first_seconds is None or base is None:
        return "How long the first answer takes was not measured"
    wait = f"The first answer takes {seconds_text(ours.first_seconds)} with {arm}"
    calls = ours.first_seconds / base.p50
    if calls < 2:
        return wait
    return f"{wait}, as long as {count_text(float(f'{calls:.1e}'))} calls of {baseline}"


def precision_title(points: Sequence[Latencies]) -> str:
    """Which arm is fastest of all, with its precision, and which within the other precisions."""
    fastest = {
        precision: min((one for one in points if one.precision == precision), key=lambda p: p.p50)
        for precision in dict.fromkeys(point.precision for point in points)
    }
    first, *others = sorted(fastest.values(), key=lambda point: point.p50)
    words = f"Shortest median of all: {first.arm} in {first.precision}, {seconds_text(first.p50)}"
    for point in others:
        words += f"; within {point.precision} {point.arm}, {seconds_text(point.p50)}"
    return words
