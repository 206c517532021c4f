"""Claims about many models or comparisons, with an interval over these.

Their scatter holds that of the processes, so one run an arm will do here; `MANY` of them are needed
instead, or as many as the correlation asks for. What is not settled counts as not measured.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from bench_core import stats
from bench_core.claim_evidence import Evidence, Judgement, Status, conditions_text, few
from bench_core.claim_rules import NOTABLE, Figure, gain_words, works
from bench_core.claims import Claim
from bench_core.comparison import Comparison
from bench_core.correlation import FEWEST_POINTS, WEAK, rank_correlation, share_interval
from bench_core.measured import Measured
from bench_core.time_parts import busy_share
from bench_core.units import (
    EN_DASH,
    NO_BREAK,
    counted,
    interval_text,
    percent_text,
    ratio_text,
)

# Models that a claim about "models" needs before it is judged.
MANY = 10
# How the announcement weighs its two precisions.
AMP_WEIGHT = 0.75
FEWEST_EPOCHS = 4
DESKTOP_GPU = re.compile(r"GeForce|TITAN|RTX ?[345]0[5-9]0", re.IGNORECASE)
SERVER_GPU = re.compile(r"\b(?:A100|A800|A30|H100|H200|GH200|B200|V100|P100|T4|L4|L40S?)\b")
TRANSFORMER = re.compile(
    r"vit|swin|deit|beit|bert|gpt|transformer|\bcait|\bxcit|\bcoat|\btwins|\bt5|llama"
)
CONVOLUTIONAL = re.compile(
    r"resne[xs]?t|vgg|densenet|mobilenet|efficientnet|regnet|squeezenet|mnasnet|shufflenet|"
    r"alexnet|inception|googlenet|convnext|darknet|yolo"
)


def _share(
    claim: Claim, runs: Sequence[Measured], good: Callable[[Measured], bool], words: str
) -> Judgement | None:
    """The share of models for which every run was good, by its Wilson interval."""
    models: dict[str, bool] = {}
    for one in runs:
        model = one.run.spec.workload.model
        models[model] = models.get(model, True) and good(one)
    if not models:
        return None
    count, whole = sum(models.values()), len(models)
    told = f"{count} of {counted(whole, 'model')} {words}"
    used = tuple(one.run for one in runs)
    if whole < MANY:
        return Judgement(claim, "not measured", f"{told} so far.", _many(whole), (), used)
    low, high = share_interval(count, whole).low, share_interval(count, whole).high
    return Judgement(
        claim,
        "holds here" if claim.meets(low, high) else "does not hold here",
        f"{told}: {count / whole:.0%}, 95{NO_BREAK}%: "
        f"{100 * low:.0f}{EN_DASH}{100 * high:.0f}{NO_BREAK}%.",
        few(list(dict.fromkeys(run.machine for run in used))),
        (),
        used,
    )


def _many(count: int, needed: int = MANY) -> str:
    return f"differs in: models ({count} here, at least {needed} are needed)"


def share_that_ran(claim: Claim, found: Evidence) -> Judgement | None:
    return _share(claim, found.compiled, works, "worked")


def captured_whole(claim: Claim, found: Evidence) -> Judgement | None:
    def whole(one: Measured) -> bool:
        seen = one.run.activity
        return bool(seen and not seen.graph_breaks and 1 <= seen.graphs <= 1 + len(seen.recompiles))

    runs = [one for one in found.compiled if one.run.activity]
    return _share(claim, runs, whole, "were captured whole")


def _by_model(pairs: Iterable[Comparison]) -> dict[str, list[Comparison]]:
    groups: dict[str, list[Comparison]] = defaultdict(list)
    for pair in pairs:
        groups[pair.workload.model].append(pair)
    return groups


def _mean_ratio(pairs: Sequence[Comparison]) -> float:
    return stats.geometric_mean([pair.speedup.ratio for pair in pairs])


def mean(claim: Claim, found: Evidence) -> Judgement | None:
    """Geometric mean over models, Student's t over their logarithms."""
    if not found.pairs:
        return None
    ratios, used = [], []
    weighs = "fp32" in claim.precisions and len(claim.precisions) > 1
    for pairs in _by_model(found.pairs).values():
        plain = [pair for pair in pairs if pair.workload.precision == "fp32"]
        mixed = [pair for pair in pairs if pair.workload.precision != "fp32"]
        if weighs and not (plain and mixed):
            continue
        ratios.append(
            _mean_ratio(mixed) ** AMP_WEIGHT * _mean_ratio(plain) ** (1 - AMP_WEIGHT)
            if weighs
            else _mean_ratio(pairs)
        )
        used += pairs
    if len(ratios) < MANY:
        told = "No model with both fp32 and AMP so far."
        if ratios:
            average = percent_text(stats.geometric_mean(ratios))
            told = f"{average} on average over {counted(len(ratios), 'model')} so far."
        return Judgement(claim, "not measured", told, _many(len(ratios)), found.pairs)
    speedup = stats.paired_speedup(ratios, [1.0] * len(ratios))
    figure = Figure(speedup.ratio, speedup.low or 0.0, speedup.high or math.inf)
    return Judgement(
        claim,
        "holds here" if claim.meets(figure.low, figure.high) else "does not hold here",
        f"{counted(len(ratios), 'model')}: {gain_words(claim, figure)} on average.",
        conditions_text(used),
        tuple(used),
    )


def _trend(
    claim: Claim,
    pairs: Sequence[Comparison],
    x: Callable[[Comparison], float | None],
    group: Callable[[Comparison], tuple[object, ...]],
    what: str,
) -> Judgement | None:
    """Whether the speedup grows with x: Spearman's rank correlation inside of groups."""
    points = [(pair, value) for pair in pairs if (value := x(pair))]
    if not points:
        return None
    used = tuple(pair for pair, _ in points)
    found = rank_correlation(
        [math.log(value) for _, value in points],
        [math.log(pair.speedup.ratio) for pair in used],
        [group(pair) for pair in used],
    )
    if found is None:
        told = (
            f"{counted(len(points), 'comparison')} so far, too few for a correlation with {what}."
        )
        way = f"Needs {FEWEST_POINTS} in which it varies while the rest stays."
        return Judgement(claim, "not measured", told, way, used)
    told = (
        f"Rank correlation of speedup and {what}: {found.rho:+.2f}, 95{NO_BREAK}%: "
        f"{found.low:+.2f} to {found.high:+.2f}."
    ).replace("-", "\u2212")
    status: Status = "not measured"
    if found.low > 0:
        status = "holds here"
    elif found.high < WEAK:
        status = "does not hold here"
    else:
        told = f"Not settled, more comparisons would tell. {told}"
    return Judgement(
        claim, status, told, f"{counted(found.points, 'comparison')}, {conditions_text(used)}", used
    )


def _place(pair: Comparison, *fields: str) -> tuple[object, ...]:
    """Where it was measured, and the fields of its workload that must stay."""
    work = dict(pair.workload)
    return pair.machine_id, pair.device, pair.torch, *(work[name] for name in fields)


def with_batch(claim: Claim, found: Evidence) -> Judgement | None:
    return _trend(
        claim,
        found.pairs,
        lambda pair: float(pair.workload.batch_size),
        lambda pair: _place(pair, "model", "precision", "image_size", "pipeline"),
        "batch size",
    )


def with_parameters(claim: Claim, found: Evidence) -> Judgement | None:
    def parameters(pair: Comparison) -> float | None:
        prepared = pair.candidate.runs[0].run.prepared
        return float(prepared.parameters) if prepared else None

    fields = ("batch_size", "precision", "image_size", "pipeline")
    return _trend(
        claim, found.pairs, parameters, lambda pair: _place(pair, *fields), "parameter count"
    )


def with_load(claim: Claim, found: Evidence) -> Judgement | None:
    return _trend(
        claim,
        found.pairs,
        lambda pair: busy_share(pair.baseline),
        lambda pair: _place(pair, "precision"),
        "the share of a step in which the GPU works",
    )


def with_epochs(claim: Claim, found: Evidence) -> Judgement | None:
    """In how many comparisons the speedup over all measured epochs beats that over their half."""
    grew, used = [], []
    for pair in found.pairs:
        arms = pair.baseline.mean_series(None), pair.candidate.mean_series(pair.first_start)
        epochs = min(map(len, arms))
        if pair.first_start == "warm" or epochs < FEWEST_EPOCHS:
            continue
        before, after = (list(accumulate(arm)) for arm in arms)
        half = epochs // 2
        grew.append(before[epochs - 1] / after[epochs - 1] > before[half - 1] / after[half - 1])
        used.append(pair)
    if not grew:
        return None
    told = (
        f"The speedup over all measured epochs is above that over their first half in {sum(grew)} "
        f"of {counted(len(grew), 'comparison')}"
    )
    if len(grew) < FEWEST_POINTS:
        way = f"Needs {FEWEST_POINTS} comparisons."
        return Judgement(claim, "not measured", f"{told} so far.", way, tuple(used))
    ends = share_interval(sum(grew), len(grew))
    status: Status = "not measured"
    if ends.low > 0.5:
        status = "holds here"
    elif ends.high < 0.5:
        status = "does not hold here"
    else:
        told = f"Not settled, more comparisons would tell. {told}"
    return Judgement(
        claim,
        status,
        f"{told}, 95{NO_BREAK}%: {100 * ends.low:.0f}{EN_DASH}{100 * ends.high:.0f}{NO_BREAK}%.",
        conditions_text(used),
        tuple(used),
    )


def _two_groups(
    claim: Claim,
    more: Sequence[float],
    less: Sequence[float],
    names: tuple[str, str],
    pairs: Sequence[Comparison],
    paired: bool,
) -> Judgement:
    """Whether one group's speedups are above the other's, one value a model."""
    counts = f"{len(more)} {names[0]}, {len(less)} {names[1]}"
    if min(len(more), len(less)) < stats.RUNS_FOR_A_VERDICT:
        needed = f"At least {stats.RUNS_FOR_A_VERDICT} models of each are needed."
        return Judgement(claim, "not measured", f"{counts} so far.", needed, tuple(pairs))
    found = (stats.paired_speedup if paired else stats.speedup)(more, less)
    low, high = found.low or 0.0, found.high or math.inf
    told = (
        f"Speedup of {names[0]} by that of {names[1]}: {ratio_text(found.ratio, low, high)}, "
        f"95{NO_BREAK}%: {interval_text(low, high)}."
    )
    status: Status = "not measured"
    if found.verdict == "faster":
        status = "holds here"
    elif high < 1 + NOTABLE:
        status = "does not hold here"
    else:
        told = f"Not settled, more models would tell. {told}"
    return Judgement(claim, status, told, f"{counts}; {conditions_text(pairs)}", tuple(pairs))


def desktop_against_server(claim: Claim, found: Evidence) -> Judgement | None:
    """The same workloads on both; a model's value is its geometric mean over these."""
    sides: list[dict[object, list[Comparison]]] = [defaultdict(list), defaultdict(list)]
    for pair in found.pairs:
        ran = pair.candidate.runs[0].run.environment
        for side, kind in zip(sides, (SERVER_GPU, DESKTOP_GPU), strict=True):
            if ran and kind.search(ran.device_name or ""):
                side[pair.workload].append(pair)
    if not any(sides):
        return None
    both = [workload for workload in sides[0] if workload in sides[1]]
    if not both:
        told = "No workload was measured on both a desktop and a server GPU."
        return Judgement(claim, "not measured", told)
    server, desktop = (_by_model(p for work in both for p in side[work]) for side in sides)
    return _two_groups(
        claim,
        [_mean_ratio(server[model]) for model in server],
        [_mean_ratio(desktop[model]) for model in server],
        ("models on server GPUs", "models on desktop GPUs"),
        [pair for side in sides for work in both for pair in side[work]],
        paired=True,
    )


def transformers(claim: Claim, found: Evidence) -> Judgement | None:
    """On the one machine, task and precision that has the most models of the rarer kind."""
    places: dict[object, list[list[Comparison]]] = defaultdict(lambda: [[], []])
    for pair in found.pairs:
        for side, kind in enumerate((TRANSFORMER, CONVOLUTIONAL)):
            if kind.search(pair.workload.model):
                places[_place(pair, "task", "precision")][side].append(pair)
                break
    if not places:
        return None
    kinds = max(
        places.values(), key=lambda sides: (min(len(_by_model(s)) for s in sides), len(sides[0]))
    )
    more, less = ([_mean_ratio(p) for p in _by_model(side).values()] for side in kinds)
    names = ("transformers", "convolutional networks")
    return _two_groups(claim, more, less, names, [*kinds[0], *kinds[1]], paired=False)
