"""What machines side by side say: sentences, the texts of cells, and which rows are shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bench_core.comparison import SCATTER, Comparison
from bench_core.geomeans import Place
from bench_core.machines import (
    MANY,
    NOT_MEASURED,
    Across,
    Contender,
    Row,
    Start,
    ahead,
    cheapest,
    fastest,
)
from bench_core.measured import PLAIN_VALUES
from bench_core.run import NOT_STATED
from bench_core.stats import RUNS_FOR_A_VERDICT, Speedup
from bench_core.units import (
    count_text,
    counted,
    interval_text,
    percent_text,
    ratio_text,
    value_text,
)

# What has a column of its own, or is the same by its nature.
NO_CONDITION = ("task", "model", "batch_size", "precision")


def side_by_side(across: Across) -> list[Row]:
    """Rows that are on two machines at least."""
    return [row for row in across.rows if len(row.places) > 1]


def same_work(rows: Sequence[Row]) -> list[Row]:
    """Rows whose seconds may be set against each other: of the same work on every machine."""
    return [row for row in rows if row.same_work]


def places_of(across: Across, rows: Sequence[Row]) -> list[Place]:
    """Machines that have one of these rows, in their order."""
    return [place for place in across.places if any(place in row.places for row in rows)]


# Sentences


def headline(across: Across) -> str:
    """Which machine is the fastest, by how many times: over the workloads that all have."""
    kept, rows = across.common
    if not across.standing:
        shared = side_by_side(across)
        if shared and not same_work(shared):
            why = " and ".join(dict.fromkeys(row.unlike for row in shared))
            return (
                f"Speedups within each machine only: {why}, so seconds of machines are not set "
                "against each other"
            )
        if shared:
            return f"No workload was measured on all {len(kept)} machines"
        return "No workload was measured on more than one machine"
    if len(rows) == 1:
        return one_row_text(rows[0], across)
    whose = _listed([across.names[place] for place in across.places if place in kept])
    ahead_of = [(across.names[place], times) for place, times in across.standing]
    others = [f"{times_text(times)} {name}" for name, times in ahead_of if times >= 1 + SCATTER]
    equal = [name for name, times in ahead_of if times < 1 + SCATTER]
    over = f"{counted(len(rows), 'workload')} that {whose} share"
    if len(equal) > 1:
        text = f"{_listed(equal)} are about equally fast over the {over}"
    else:
        first = across.standing[0][0]
        wins = sum(fastest(row)[0].place == first for row in rows)
        every = "both" if len(rows) == 2 else f"all {count_text(len(rows))}"
        of = every if wins == len(rows) else f"{count_text(wins)} of the {count_text(len(rows))}"
        text = f"{equal[0]} is the fastest for {of} workloads that {whose} share"
    looks = any(len(one.arm.runs) < RUNS_FOR_A_VERDICT for row in rows for one in fastest(row))
    told = f": {_listed(others)} in the geometric mean" if others else ""
    return f"{text}{told}{', first looks among them' if looks else ''}"


def cheapest_text(across: Across, prices: Mapping[str, float], count: int) -> str:
    """`A100 is the cheapest for all 4 workloads that have a price on two machines.`"""
    ranked = [cheapest(row, prices, count) for row in across.rows]
    firsts = [best[0].place for best in ranked if len(best) > 1]
    if not firsts:
        return ""
    wins = {place: firsts.count(place) for place in across.places if place in firsts}
    most = sorted(wins, key=lambda place: -wins[place])
    counts = [f"{across.names[place]} for {count_text(wins[place])}" for place in most]
    of = counted(len(firsts), "workload")
    return f"Cheapest of the {of} with a price on two machines: {_listed(counts)}."


def one_row_text(row: Row, across: Across) -> str:
    """`resnet101, batch 16: fastest on A100 with compile, 6.88 times as fast as on T4 ...`"""
    first, second = fastest(row)[:2]
    found = ahead((first, second))
    where = [f"{across.names[one.place]} with {one.arm.name}" for one in (first, second)]
    what = ", ".join([row.model_name, *row.words])
    if found.verdict == "no difference shown":
        return f"{what}: no difference shown between {where[0]} and {where[1]}"
    ends = interval_text(found.low, found.high)
    sure = f" (95\u00a0%: {ends})" if ends else " (first look)"
    return f"{what}: fastest on {where[0]}, {times_text(*_ends(found))} {where[1]}{sure}"


def times_text(times: float, low: float | None = None, high: float | None = None) -> str:
    """`5.79 times as fast as`, `31 % faster than`, `about as fast as`."""
    if low is None or high is None:
        low, high = times * (1 - SCATTER), times * (1 + SCATTER)
    if times >= 2:
        return f"{ratio_text(times, low, high)[:-1]} times as fast as"
    if times < 1 + SCATTER:
        return "about as fast as"
    return f"{percent_text(times, low, high)} than"


def means_sentences(across: Across) -> list[str]:
    """The geometric mean speedup on each machine, over the workloads that all of them have."""
    sentences = []
    for arm, found in across.means.items():
        if len(found.means) < 2 or found.means[0].workloads < 2:
            continue
        over = counted(found.means[0].workloads, "workload")
        listed = ", ".join(f"{mean.name} {ratio_text(mean.ratio)}" for mean in found.means)
        looks = " (first looks among them)" if found.first_looks else ""
        sentences.append(
            f"Speedup of {arm} within each machine, geometric mean over the {over} where all have "
            f"it{looks}: {listed}."
        )
    return sentences


def whole_machines_text(across: Across) -> str:
    """What seconds across machines are of, and what differs besides the device."""
    names = [name for name in across.differences if not name.startswith(NOT_STATED)]
    differ = f", which differ here in {_listed(names)} too" if names else ""
    return f"Seconds across machines compare whole machines{differ}."


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def left_out_sentences(across: Across) -> list[str]:
    """What takes no part in the means, and what is not shown."""
    several = len(across.means) > 1
    found = [
        f"{arm}: {clause}" if several else f"{clause[0].upper()}{clause[1:]}"
        for arm, means in across.means.items()
        for clause in means.left_out
    ]
    if across.older:
        are, whose = ("is", "its") if across.older == 1 else ("are", "their")
        found.append(
            f"{counted(across.older, 'comparison')} {are} not shown: {whose} workload was measured "
            "later on that machine under other conditions, such as torch or threads"
        )
    return [f"{sentence}." for sentence in found]


# Cells


def speedup_text(pair: Comparison) -> str:
    """`1.084×`, `1.08× first look`, `0.97× none shown`; no band, which costs a bootstrap."""
    speedup = pair.speedup
    ratio = ratio_text(*_ends(speedup))
    if speedup.verdict is None:
        return f"{ratio} first look"
    return ratio if pair.shows_difference else f"{ratio} none shown"


def _ends(speedup: Speedup) -> tuple[float, float, float]:
    """The ratio between its ends; a first look is not known better than processes scatter."""
    ratio = speedup.ratio
    low, high = speedup.low, speedup.high
    if low is None or high is None:
        return ratio, ratio * (1 - SCATTER), ratio * (1 + SCATTER)
    return ratio, low, high


def ahead_text(contenders: Sequence[Contender]) -> str:
    """`6.88× (6.80–6.95)`, `1.31× first look`, `none shown`; empty without a second machine."""
    if len(contenders) < 2:
        return ""
    found = ahead(contenders)
    if found.verdict == "no difference shown":
        return "none shown"
    ends = interval_text(found.low, found.high)
    return f"{ratio_text(*_ends(found))} {f'({ends})' if ends else 'first look'}"


def times_cell(times: float) -> str:
    """`1.31×` of a ratio that has no interval; empty where there is none."""
    return ratio_text(times, times * (1 - SCATTER), times * (1 + SCATTER))


def money_text(amount: float | None) -> str:
    """Three digits, in whatever money the prices are in: `0.0123`, `12.3`, `1 240`."""
    if amount is None or not math.isfinite(amount):
        return ""
    if amount >= 999.5 or amount == 0:
        return count_text(float(f"{amount:.2e}"))
    decimals = max(0, 2 - math.floor(math.log10(float(f"{amount:.2e}"))))
    return f"{amount:.{decimals}f}"


def why_text(across: Across, places: Sequence[Place], row: Row, arm: str, *, speedup: bool) -> str:
    """`A100: failed: out of memory; CPU: not measured`, for the cells of an arm that are empty."""
    spots, why = (row.pairs, row.why_no_pair) if speedup else (row.arms, row.why_no_seconds)
    return "; ".join(
        f"{across.names[place]}: {why(place, arm)}" for place in places if (place, arm) not in spots
    )


def state_text(row: Row, place: Place) -> str:
    """`measured`, `not measured`, `compile: failed: out of memory`."""
    if place in row.places:
        lacking = [arm for arm in row.arm_names if (place, arm) not in row.arms]
        return (
            ", ".join(f"{arm}: {row.why_no_seconds(place, arm)}" for arm in lacking) or "measured"
        )
    reasons = dict.fromkeys(row.why_no_seconds(place, arm) for arm in row.arm_names)
    return ", ".join(reason for reason in reasons if reason != NOT_MEASURED) or NOT_MEASURED


def incomplete(across: Across) -> list[Row]:
    """Rows that lack an arm on some machine."""
    return [
        row
        for row in across.rows
        if any((place, arm) not in row.arms for place in across.places for arm in row.arm_names)
    ]


def conditions(rows: Sequence[Row]) -> list[str]:
    """For each row, in words, what tells it from others of its model beyond size and precision."""
    facts = [_conditions(row) for row in rows]
    seen: dict[tuple[str, str], set[object]] = {}
    for row, of_row in zip(rows, facts, strict=True):
        for name, value in of_row.items():
            seen.setdefault((row.workload.model, name), set()).add(value)
    return [
        ", ".join(
            str(value)
            if name in PLAIN_VALUES and value != NOT_STATED
            else f"{name} {value_text(value)}"
            for name, value in of_row.items()
            if len(seen[row.workload.model, name]) > 1
        )
        for row, of_row in zip(rows, facts, strict=True)
    ]


def _conditions(row: Row) -> dict[str, object]:
    work = row.workload
    first = next(iter(row.arms.values()))
    varied = [name for name, _ in first.setting]
    unstated = first.runs[0].run.unstated
    facts: dict[str, object] = {
        name: NOT_STATED if name in unstated else value
        for name, value in work
        if name not in (*NO_CONDITION, *varied)
    }
    if work.unit == "iteration":
        facts.pop("samples")
    if varied and "variant" not in varied:
        facts["variant"] = first.variant.name
    prepared = first.runs[0].run.prepared
    facts["model file"] = ((prepared and prepared.model_sha256) or "")[:8]
    return facts


START_WORDS: Mapping[Start | None, str] = {
    "cold": "with start-up from a cold cache",
    "off": "with start-up without a cache",
    "warm": "with start-up from a warm cache",
    "of no cache": "with start-up",
    None: "without start-up",
}


def job_text(row: Row, count: int, start: Start | None) -> str:
    """What a cost is of: `100 epochs with start-up from a cold cache`, `1 000 000 images ...`."""
    work = row.workload
    what = counted(count, "epoch") if work.unit == "epoch" else f"{count_text(MANY)} {work.thing}s"
    return f"{what} {START_WORDS[start]}"


def prices_text(across: Across, prices: Mapping[str, float]) -> str:
    """`Prices of an hour, in your currency: T4 0.35, A100 1.2.`; empty where no machine has one."""
    listed = [
        f"{across.names[place]} {prices[place.machine_id]:,.10g}"
        for place in across.places
        if place.machine_id in prices
    ]
    return f"Prices of an hour, in your currency: {', '.join(listed)}." if listed else ""
