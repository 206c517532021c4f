"""Claims about one model: each comparison under the conditions settles them by a rule, or not.

A claim whose range meets our 95 % interval holds. One of no effect, whose range holds 1, holds only
where the whole interval lies inside of it: few runs scatter, and would show anything to have none.
"Slower" and "can be faster" must be shown; they do not hold where the interval leaves room for less
than 2 % of it. What lies between is `not settled`, which counts as not measured. Of several
comparisons half must hold. A first look (fewer than 3 runs an arm) judges nothing. Whether
something fails, one run can tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from textwrap import shorten
from typing import NamedTuple

from bench_core import stats
from bench_core.claim_evidence import Evidence, Judgement, Status, conditions_text, few
from bench_core.claims import Claim
from bench_core.comparison import START_SCATTER, Comparison
from bench_core.measured import Measured, cache_found
from bench_core.units import (
    NO_BREAK,
    counted,
    interval_text,
    percent_interval_text,
    percent_text,
    ratio_text,
)

# An effect so small is none, as a ratio.
NOTABLE = 0.02
LONGEST_REASON = 160


class Figure(NamedTuple):
    ratio: float
    low: float
    high: float


def _steady(claim: Claim, pair: Comparison) -> Figure | None:
    speedup = pair.speedup
    return Figure(speedup.ratio, speedup.low or 0.0, speedup.high or math.inf)


def _first_epoch(claim: Claim, pair: Comparison) -> Figure | None:
    """A cold first epoch of compile by its own steady ones; None where all started warm.

    Student's t over the cold runs; with fewer than 3 of them over the steady state of all runs,
    widened by what cold starts are taken to scatter.
    """
    cold = [one for one in pair.candidate.runs if cache_found(one.run) == "cold"]
    firsts = [one.first_seconds or 0.0 for one in cold]
    steady = [one.steady.median_seconds or 0.0 for one in cold]
    if not cold:
        return None
    if len(cold) < stats.RUNS_FOR_A_VERDICT:
        steady = pair.candidate.medians
        firsts = [fmean(firsts)] * len(steady)
    found = stats.paired_speedup(firsts, steady)
    if len(cold) >= stats.RUNS_FOR_A_VERDICT or found.half_width is None:
        return Figure(found.ratio, found.low or 0.0, found.high or math.inf)
    half = math.hypot(found.half_width, 1.96 * START_SCATTER / math.sqrt(len(cold)))
    return Figure(found.ratio, found.ratio * math.exp(-half), found.ratio * math.exp(half))


def _over_epochs(claim: Claim, pair: Comparison) -> Figure | None:
    """Mean epochs over so many, a cold start counted; None where none was measured."""
    start = pair.first_start
    view = pair.outlook(start) if start in ("cold", "off") else None
    if view is None or claim.epochs is None:
        return None
    band, seconds = stats.mean_speedup(view, claim.epochs), pair.seconds_over(claim.epochs)
    return Figure(seconds[0] / seconds[1], band.low, band.high) if seconds else None


def meets(claim: Claim, pair: Comparison, figure: Figure) -> bool | None:
    if not claim.meets(figure.low, figure.high):
        return False
    return None if claim.meets(1, 1) and not claim.holds(figure.low, figure.high) else True


def _slower(claim: Claim, pair: Comparison, figure: Figure) -> bool | None:
    if pair.speedup.verdict == "slower" and pair.shows_difference:
        return True
    return False if figure.low > 1 - NOTABLE else None


def _faster(claim: Claim, pair: Comparison, figure: Figure) -> bool | None:
    if pair.speedup.verdict == "faster" and pair.shows_difference:
        return True
    return False if figure.high < 1 + NOTABLE else None


def gain_words(claim: Claim, figure: Figure) -> str:
    """`5.1 % faster, 95 %: 4.2–6.0 %`."""
    interval = percent_interval_text(figure.low, figure.high)
    if figure.low <= 1 <= figure.high:
        return f"no difference shown, 95{NO_BREAK}%: {interval}"
    return f"{percent_text(*figure)}, 95{NO_BREAK}%: {interval}"


def _over_words(claim: Claim, figure: Figure) -> str:
    return f"{gain_words(claim, figure)}, over {claim.epochs} epochs"


def _times_words(claim: Claim, figure: Figure) -> str:
    ratio = ratio_text(*figure).removesuffix("×")
    return (
        f"the first epoch takes {ratio} times as long as a steady one, 95{NO_BREAK}%: "
        f"{interval_text(figure.low, figure.high)}"
    )


class Rule(NamedTuple):
    """How one comparison settles a claim: its figure, the verdict (None: not settled), the words.

    `once`: it holds as soon as one comparison shows it.
    """

    figure: Callable[[Claim, Comparison], Figure | None]
    settle: Callable[[Claim, Comparison, Figure], bool | None]
    words: Callable[[Claim, Figure], str]
    once: bool = False


RULES: dict[str, Rule] = {
    "steady speedup": Rule(_steady, meets, gain_words),
    "no effect": Rule(_steady, meets, gain_words),
    "no gain": Rule(_steady, meets, gain_words),
    "slower": Rule(_steady, _slower, gain_words),
    "first epoch": Rule(_first_epoch, meets, _times_words),
    "over epochs": Rule(_over_epochs, meets, _over_words),
    "can be faster": Rule(_steady, _faster, gain_words, once=True),
    "works with a gain": Rule(_steady, meets, gain_words),
}


def by_comparisons(claim: Claim, found: Evidence) -> Judgement | None:
    """Each comparison under the conditions settles the claim by its kind's rule, or does not."""
    rule = RULES[claim.kind]
    pairs = found.pairs
    if not pairs:
        return None
    name = _names(pairs)
    sure = [pair for pair in pairs if pair.speedup.kind != "first look"]
    if not sure:
        told = few([f"{name(pair)}: {pair.verdict_text}" for pair in pairs], "; ")
        return Judgement(
            claim,
            "not measured",
            f"{told}. A verdict needs {stats.RUNS_FOR_A_VERDICT} runs an arm.",
            conditions_text(pairs),
            pairs,
        )
    figures = [(pair, figure) for pair in sure if (figure := rule.figure(claim, pair))]
    if not figures:
        told = "Only warm starts were measured; this claim is about a cold one."
        return Judgement(claim, "not measured", told, conditions_text(sure), tuple(sure))
    verdicts = [rule.settle(claim, *one) for one in figures]
    settled = [verdict for verdict in verdicts if verdict is not None]
    words = [f"{name(pair)}: {rule.words(claim, figure)}" for pair, figure in figures]
    used = tuple(pair for pair, _ in figures)
    ours = f"{few(words, '; ')}."
    status: Status = "not measured"
    if not settled:
        ours = f"Not settled, more runs would tell. {ours}"
    else:
        needed = 1 if rule.once else len(settled) / 2
        status = "holds here" if sum(settled) >= needed else "does not hold here"
        if len(figures) > 1:
            ours = f"Holds in {sum(settled)} of {counted(len(figures), 'comparison')}. {ours}"
    conditions = conditions_text(used)
    wide = rule.settle is meets and claim.kind != "first epoch" and not claim.meets(1, 1)
    if status == "holds here" and wide and all(f.low <= 1 <= f.high for _, f in figures):
        conditions += "; no difference at all would fit too, more runs would tell"
    return Judgement(claim, status, ours, conditions, used)


def _names(pairs: Sequence[Comparison]) -> Callable[[Comparison], str]:
    """Names a comparison by its model, and by what else tells it from the others."""
    facts: tuple[Callable[[Comparison], str], ...] = (
        lambda pair: pair.machine,
        lambda pair: pair.workload.size_text,
        lambda pair: pair.workload.precision,
    )
    telling = [fact for fact in facts if len({fact(pair) for pair in pairs}) > 1]
    return lambda pair: ", ".join([pair.workload.model, *(fact(pair) for fact in telling)])


# Runs without failure


def works(one: Measured) -> bool:
    """It ran, compiled something, and its results are eager's."""
    run = one.run
    parity = run.aftermath.parity if run.aftermath else None
    return (
        run.status != "failed"
        and bool(one.epochs)
        and not (run.activity and run.activity.graphs == 0)
        and not (parity and parity.verdict == "differs")
    )


def failed_words(failed: Sequence[Measured]) -> str:
    """`resnet18: compile error. No C++ compiler ...`, each reason once."""
    told = []
    for one in failed:
        run = one.run
        why = f"{run.failure}. {run.reason or ''}".strip()
        if run.status != "failed":
            why = "compiled nothing, or its results differ from eager's."
        told.append(f"{run.spec.workload.model}: {shorten(why, LONGEST_REASON, placeholder='...')}")
    return few(list(dict.fromkeys(told)), " ")


def crashed(claim: Claim, found: Evidence) -> Judgement | None:
    """Whether compiled runs fail where eager ran; one run is enough to see it."""
    runs = found.compiled
    if not runs:
        return None
    failed = [one for one in runs if one.run.status == "failed"]
    told = f"{len(failed)} of {counted(len(runs), 'compiled run')} failed."
    return Judgement(
        claim,
        "holds here" if 2 * len(failed) >= len(runs) else "does not hold here",
        f"{told} {failed_words(failed)}".strip(),
        conditions_text(found.pairs),
        found.pairs,
        tuple(one.run for one in runs),
    )


def works_with_gain(claim: Claim, found: Evidence) -> Judgement | None:
    runs = found.compiled
    failed = [one for one in runs if not works(one)]
    if not failed:
        return by_comparisons(claim, found)
    told = f"{len(failed)} of {counted(len(runs), 'compiled run')} did not work."
    return Judgement(
        claim,
        "does not hold here",
        f"{told} {failed_words(failed)}",
        conditions_text(found.pairs),
        found.pairs,
        tuple(one.run for one in runs),
    )
