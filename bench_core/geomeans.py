"""Geometric means of speedups that may be set beside each other: over the same workloads only.

A mean over one variant's models and a mean over another's differ by the models, whatever the
variants do. So where there are several variants (or machines), each mean is over the workloads
that all of them have, and what that leaves out is told. Pure.

Source: Fleming and Wallace 1986, "How not to lie with statistics", on the geometric mean.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from bench_core.comparison import Comparison
from bench_core.stats import geometric_mean
from bench_core.units import counted


@dataclass(frozen=True, slots=True)
class Mean:
    """The geometric mean speedup of one variant (or machine) over `workloads` workloads."""

    name: str
    ratio: float
    workloads: int


@dataclass(frozen=True, slots=True)
class Means:
    """Means over the same workloads, the fastest first; none where none is shared.

    `left_out`: what takes no part, as clauses that stand alone. `first_looks`: they are of first
    looks, for there is no verdict yet; a first look takes no part in the mean of verdicts.
    """

    means: tuple[Mean, ...]
    left_out: tuple[str, ...] = ()
    first_looks: bool = False


def by_variant(pairs: Sequence[Comparison]) -> Means:
    """One mean a candidate arm, over the workloads on machines that every one of them has.

    Give pairs of one kind: training, inference of models, or functions.
    """
    return _means(pairs, lambda pair: pair.candidate.name, _workload_and_machine, "variant")


def by_machine(pairs: Sequence[Comparison]) -> Means:
    """One mean a machine and device, over the workloads that were measured on all of them.

    Named by the machine, and by what tells it from others of that name. Give pairs of one candidate
    arm.
    """
    names = {(pair.machine, pair.device, pair.machine_id) for pair in pairs}

    def name(pair: Comparison) -> str:
        alike = {one for one in names if one[0] == pair.machine}
        more = [
            value
            for place, value in ((1, pair.device), (2, pair.machine_id))
            if len({one[place] for one in alike}) > 1
        ]
        return f"{pair.machine} ({', '.join(more)})" if more else pair.machine

    return _means(pairs, name, _workload, "machine")


def _means(
    pairs: Sequence[Comparison],
    series: Callable[[Comparison], str],
    key: Callable[[Comparison], Hashable],
    noun: str,
) -> Means:
    judged = [pair for pair in pairs if pair.speedup.verdict]
    looks = len(pairs) - len(judged)
    left_out = []
    if judged and looks:
        is_one = "is in no mean" if looks == 1 else "are in no mean"
        left_out.append(f"{counted(looks, 'first look')} {is_one}")
    found: dict[str, dict[Hashable, float]] = {}
    for pair in judged or pairs:
        # Of two versions of torch on one machine the one measured last.
        found.setdefault(series(pair), {})[key(pair)] = pair.speedup.ratio
    if not found:
        return Means(())
    shared = set.intersection(*(set(ratios) for ratios in found.values()))
    if not shared:
        left_out.append(f"no workload has all {len(found)} {noun}s, so they have no common mean")
        return Means((), tuple(left_out), not judged)
    for name, ratios in found.items():
        more = len(ratios) - len(shared)
        if more:
            are, them = ("is", "it") if more == 1 else ("are", "them")
            left_out.append(
                f"{counted(more, 'workload')} of {name} {are} left out: not every {noun} has {them}"
            )
    means = [
        Mean(name, geometric_mean([ratios[one] for one in shared]), len(shared))
        for name, ratios in found.items()
    ]
    means.sort(key=lambda mean: -mean.ratio)
    return Means(tuple(means), tuple(left_out), not judged)


def _workload(pair: Comparison) -> Hashable:
    """What is executed, and how where that is no axis, but for what the arms differ in."""
    varied = {*pair.axis, *pair.overridden}
    facts: dict[str, object] = {**dict(pair.workload), "variant": pair.candidate.variant}
    prepared = pair.candidate.runs[0].run.prepared
    facts["model file"] = prepared and prepared.model_sha256
    return tuple((name, value) for name, value in facts.items() if name not in varied)


def _workload_and_machine(pair: Comparison) -> Hashable:
    environment = pair.candidate.runs[0].run.environment
    threads = environment.threads if environment and "threads" not in pair.axis else None
    return _workload(pair), pair.machine_id, pair.device, pair.torch, threads
