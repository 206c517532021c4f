"""Geometric means of speedups that may be set beside each other: over the same workloads only.

A mean over one variant's models and a mean over another's differ by the models, whatever the
variants do. So where there are several variants (or machines), each mean is over the workloads
that as many of them as possible share, and what that leaves out is told. Pure.

Source: Fleming and Wallace 1986, "How not to lie with statistics", on the geometric mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from bench_core.comparison import Comparison
from bench_core.run import NOT_STATED, Run
from bench_core.stats import geometric_mean
from bench_core.units import counted

Name = TypeVar("Name", bound=Hashable)
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Mean:
    """The geometric mean speedup of one variant (or machine) over `workloads` workloads."""

    name: str
    ratio: float
    workloads: int


@dataclass(frozen=True, slots=True)
class Means:
    """Means over the same workloads, the fastest first; none where none is shared.

    `left_out`: what takes no part, as clauses that stand alone. `first_looks`: there are first
    looks among them. Of variants that is so where there is no verdict yet, of machines where one
    of them has no verdict; else a first look takes no part in the mean of verdicts.
    """

    means: tuple[Mean, ...]
    left_out: tuple[str, ...] = ()
    first_looks: bool = False


class Place(NamedTuple):
    """Where a run was measured: a machine, and on it a device."""

    machine: str
    device: str
    machine_id: str

    @classmethod
    def of(cls, run: Run) -> Place:
        environment = run.environment
        return cls(run.machine, run.spec.device, environment.machine_id if environment else "")


def place_names(runs: Iterable[Run]) -> dict[Place, str]:
    """The places of runs, each by its machine's label and by what tells it from others of it.

    That is its device, what the device is called, the file it came in, or else a number.
    """
    first: dict[Place, Run] = {}
    for run in runs:
        first.setdefault(Place.of(run), run)
    names = {}
    for label in dict.fromkeys(place.machine for place in first):
        alike = [place for place in first if place.machine == label]
        numbers = list(dict.fromkeys(place.machine_id for place in alike))
        told: dict[Place, tuple[str, ...]] = dict.fromkeys(alike, ())
        for words in (
            {place: place.device for place in alike},
            {place: _device_name(first[place]) for place in alike},
            {place: source.file if (source := first[place].source) else "" for place in alike},
            {place: str(numbers.index(place.machine_id) + 1) for place in alike},
        ):
            if len(set(told.values())) == len(alike):
                break
            if len(set(words.values())) > 1:
                told = {place: (*told[place], words[place]) for place in alike}
        for place, words_of in told.items():
            more = ", ".join(filter(None, words_of))
            names[place] = f"{label} ({more})" if more else label
    return names


def _device_name(run: Run) -> str:
    if run.environment is None or "device_name" in run.unstated:
        return ""
    return run.environment.device_name or ""


def by_variant(pairs: Sequence[Comparison]) -> Means:
    """One mean a candidate arm, over the workloads on machines that every one of them has.

    Give pairs of one kind: training, inference of models, or functions.
    """
    judged = [pair for pair in pairs if pair.speedup.verdict]
    return _means(
        judged or pairs,
        lambda pair: pair.candidate.name,
        _workload_and_machine,
        "variant",
        looks=len(pairs) - len(judged) if judged else 0,
    )


def by_machine(pairs: Sequence[Comparison], names: Mapping[Place, str] | None = None) -> Means:
    """One mean a machine and device, over the workloads that were measured on all of them.

    `names`: None takes `place_names`. Give pairs of one candidate arm. A machine that has first
    looks only would be in no mean of verdicts, so then first looks take part, of every machine.
    """
    called = names or place_names(pair.candidate.runs[0].run for pair in pairs)

    def of(those: Sequence[Comparison], looks: int) -> Means:
        return _means(those, lambda pair: called[place_of(pair)], workload_of, "machine", looks)

    judged = [pair for pair in pairs if pair.speedup.verdict]
    verdicts, every = of(judged, len(pairs) - len(judged)), of(pairs, 0)
    return every if len(every.means) > len(verdicts.means) else verdicts


def place_of(pair: Comparison) -> Place:
    return Place.of(pair.candidate.runs[0].run)


def shared_by(found: Mapping[Name, Collection[Key]]) -> tuple[list[Name], set[Key]]:
    """As many names as share a key, and all keys that these share: none where no two share one.

    Of as many names, those that share most. A single name shares with itself.
    """
    names_of: dict[Key, list[Name]] = {}
    for name, keys in found.items():
        for key in keys:
            names_of.setdefault(key, []).append(name)
    most = max(map(len, names_of.values()), default=0)
    if most < min(2, len(found)):
        return [], set()
    groups = Counter(tuple(names) for names in names_of.values() if len(names) == most)
    [(kept, _)] = groups.most_common(1)
    return list(kept), {key for key, names in names_of.items() if tuple(names) == kept}


def _means(
    pairs: Sequence[Comparison],
    series: Callable[[Comparison], str],
    key: Callable[[Comparison], Hashable],
    noun: str,
    looks: int,
) -> Means:
    """`looks`: how many first looks are not among the pairs."""
    left_out = []
    if looks:
        is_one = "is in no mean" if looks == 1 else "are in no mean"
        left_out.append(f"{counted(looks, 'first look')} {is_one}")
    first_looks = any(not pair.speedup.verdict for pair in pairs)
    found: dict[str, dict[Hashable, float]] = {}
    for pair in pairs:
        # Of two versions of torch on one machine the one measured last.
        found.setdefault(series(pair), {})[key(pair)] = pair.speedup.ratio
    if not found:
        return Means((), tuple(left_out))
    kept, shared = shared_by(found)
    if not shared:
        none = f"no workload has all {len(found)} {noun}s, so they have no common mean"
        # One machine's mean says nothing across machines; one variant's does of that variant.
        first, second = sorted(found, key=lambda name: -len(found[name]))[:2]
        if noun == "machine" or len(found[first]) == len(found[second]):
            return Means((), (*left_out, none), first_looks)
        kept, shared = [first], set(found[first])
    for name, ratios in found.items():
        more = len(ratios) - len(shared)
        if name not in kept:
            others = set().union(*(keys for one, keys in found.items() if one != name))
            why = (
                "it has none of the workloads that the others share"
                if others & {*ratios}
                else f"it shares no workload with another {noun}"
            )
            left_out.append(f"{name} is left out: {why}")
        elif more:
            are, them = ("is", "it") if more == 1 else ("are", "them")
            left_out.append(
                f"{counted(more, 'workload')} of {name} {are} left out: not every {noun} has {them}"
            )
    means = [
        Mean(name, geometric_mean([found[name][one] for one in shared]), len(shared))
        for name in kept
    ]
    means.sort(key=lambda mean: -mean.ratio)
    return Means(tuple(means), tuple(left_out), first_looks)


def workload_of(pair: Comparison) -> Hashable:
    """What is executed, and how where that is no axis, but for what the arms differ in."""
    return workload_key(pair.candidate.runs[0].run, (*pair.axis, *pair.overridden))


def workload_key(run: Run, varied: Sequence[str] = ("variant",)) -> Hashable:
    """The same for a run by itself; `varied` are the names of what arms differ in.

    The samples of inference are only how often it was called. A field that the run's source does
    not state is another workload than one that is stated, whatever its default.
    """
    work = run.spec.workload
    unread = {*varied, "samples"} if work.unit == "iteration" else {*varied}
    # By vars: pydantic's own iteration takes ten times as long, and there are thousands of runs.
    facts = tuple(
        (name, NOT_STATED) if name in run.unstated else (name, value)
        for name, value in vars(work).items()
        if name not in unread
    )
    variant = None if "variant" in unread else run.spec.variant.arm
    digest = None if "model" in unread else run.prepared and run.prepared.model_sha256
    return facts, variant, digest


def _workload_and_machine(pair: Comparison) -> Hashable:
    environment = pair.candidate.runs[0].run.environment
    threads = environment.threads if environment and "threads" not in pair.axis else None
    return workload_of(pair), pair.machine_id, pair.device, pair.torch, threads
