"""When an experiment that is measured until sure has enough, and how sure it came to be.

It ends on the width of the interval and never on significance: stopping as soon as a difference
shows calls a false one in most A/A trials. Pure: runs in, numbers of runs and words out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench_core.comparison import Comparison
from bench_core.measured import Measured
from bench_core.pairing import Axis, comparisons, setting_of
from bench_core.run import ENDED
from bench_core.spec import FEWEST_UNTIL_SURE, Experiment
from bench_core.stats import ScipyMissing
from bench_core.units import NO_BREAK


def spare_runs(experiment: Experiment, measured: Sequence[Measured]) -> list[int]:
    """The queued runs of a cell that need not be measured any more, by number; mostly none.

    All of them once every candidate's interval is narrow enough, and where no arm is left to
    compare; those of an arm without a usable run. Only between repeats, after three of them at
    least. `measured` are all runs of one cell.
    """
    queued = [one for one in measured if one.run.status == "queued"]
    begun = [one for one in measured if one.run.status != "queued"]
    repeats = {one.run.spec.measurement.repeat for one in begun}
    to_come = {one.run.spec.measurement.repeat for one in queued}
    if len(repeats) < FEWEST_UNTIL_SURE or repeats & to_come:
        return []
    if any(one.run.status not in ENDED for one in begun):
        return []
    pairs = _pairs(experiment, begun)
    try:
        sure = all(_is_sure(pair, experiment.measurement.until_sure) for pair in pairs)
    except ScipyMissing:  # without an interval it is never sure
        return []
    if sure:  # or no pair at all
        return [one.run.number for one in queued]
    names = experiment.axis
    needed = {
        setting_of(one.run.spec, names)
        for pair in pairs
        for one in (*pair.baseline.runs, *pair.candidate.runs)
    }
    return [one.run.number for one in queued if setting_of(one.run.spec, names) not in needed]


def outcome_text(experiment: Experiment, measured: Sequence[Measured]) -> str:
    """`sure after 4 of at most 12 pairs: ±1.8 %`, once a cell has no run to wait for; else empty.

    Of several candidates the least sure. `measured` are all runs of one cell.
    """
    wanted = experiment.measurement.until_sure
    if not wanted or any(one.run.status not in ENDED for one in measured):
        return ""
    pairs = _pairs(experiment, measured)
    try:
        widths = [pair.speedup.half_width for pair in pairs]
    except ScipyMissing as missing:
        return f"not sure: {missing}"
    if not pairs:
        return "not sure: no two arms can be compared"
    counts = [min(pair.speedup.baseline_runs, pair.speedup.candidate_runs) for pair in pairs]
    place = min(range(len(pairs)), key=counts.__getitem__)
    by_turns = all(pair.speedup.kind == "paired" for pair in pairs)
    whats = ("pair", "pairs") if by_turns else ("run an arm", "runs an arm")
    known = [width for width in widths if width is not None]
    if len(known) < len(pairs):
        count = counts[place]
        return f"not sure after {count} {whats[count != 1]}: an interval needs {FEWEST_UNTIL_SURE}"
    width = max(known)
    counted = f"{counts[widths.index(width)]}"
    most = experiment.repeats
    if all(_is_sure(pair, wanted) for pair in pairs):
        return f"sure after {counted} of at most {most} {whats[most != 1]}: ±{_percent(width)}"
    asked = f"asked for ±{wanted:g}{NO_BREAK}%"
    return f"not sure after {counted} {whats[counted != '1']}: ±{_percent(width, wanted)}, {asked}"


def _pairs(experiment: Experiment, measured: Sequence[Measured]) -> tuple[Comparison, ...]:
    return comparisons(measured, Axis.of(experiment), floors={}).pairs


def _is_sure(pair: Comparison, wanted: float | None) -> bool:
    width = pair.speedup.half_width
    return wanted is not None and width is not None and width <= math.log1p(wanted / 100)


def _percent(half_width: float, above: float = 0.0) -> str:
    """One digit, two where the first is a 1; more where it would not show that it is `above`."""
    share = 100 * math.expm1(half_width)
    if share <= 0:
        return f"0{NO_BREAK}%"
    exponent = math.floor(math.log10(share))
    decimals = max(0, -exponent + (share / 10**exponent < 2))
    while above and decimals < 6 and round(share, decimals) <= above:
        decimals += 1
    return f"{share:.{decimals}f}{NO_BREAK}%"
