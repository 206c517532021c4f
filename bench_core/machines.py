"""Machines side by side: speedups formed within each, absolute seconds and money across them.

A speedup is of one machine. Seconds across machines compare whole machines, which differ in more
than the device: `differences` names it. Pure, and quick with thousands of comparisons: what it
needs of them is no bootstrap, and intervals between machines are formed where they are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from bench_core import stats
from bench_core.comparison import Comparison
from bench_core.geomeans import Means, Place, by_machine, place_names, shared_by, workload_key
from bench_core.measured import Arm, Measured
from bench_core.pairing import USUAL, Cause, Comparisons, LeftOut, setting_of
from bench_core.run import NOT_STATED, Run
from bench_core.spec import Cache, Workload

NOT_MEASURED = "not measured"
# What an empty cell says of a run that was left out, where it is not how the run ended.
SHORT_REASONS: Mapping[Cause, str] = {
    "no steady state": "no steady state",
    "no other arm": "",
    "measured by itself": "",
    "results differ": "results differ",
    "wrong baseline": "results of the baseline are wrong",
    "nothing compiled": "nothing was compiled",
}
# What a price is of in inference: as many samples.
MANY = 1_000_000
# What an epoch or a call takes time for: arms that differ in it do other work.
WORK: Mapping[str, Callable[[Workload], object]] = {
    "model": lambda work: work.model,
    "image size": lambda work: work.image_size,
    "samples": lambda work: work.samples_done,
    "gradients": lambda work: work.backward,
}
# A start that costs may hold: of no cache where no arm compiles. The dearest first.
Start = Literal["cold", "off", "warm", "of no cache"]
CACHES: tuple[Cache, ...] = ("cold", "off", "warm")
# An arm on a machine, by its name.
Spot = tuple[Place, str]
# What may differ between runs of a workload in one place: torch's version, and threads in use.
Conditions = tuple[str | None, int | None]


@dataclass(frozen=True)
class Row:
    """One workload on every machine that has it.

    `arms` have a steady state, a place's baseline first; `pairs` are by their candidate arm, which
    is formed within its machine. `why` says of an arm that has none what became of its runs.
    """

    workload: Workload
    arms: dict[Spot, Arm] = field(default_factory=dict)
    pairs: dict[Spot, Comparison] = field(default_factory=dict)
    why: dict[Spot, str] = field(default_factory=dict)

    @cached_property
    def places(self) -> set[Place]:
        return {place for place, _ in self.arms}

    @cached_property
    def words(self) -> list[str]:
        """Of the workload that all arms share, but for those that no source states."""
        first, *others = (arm.runs[0].run.words for arm in self.arms.values())
        return [word for word in first if all(word in words for words in others)]

    @cached_property
    def varied(self) -> set[str]:
        """Names of what its arms differ in, beside the variant alone."""
        return {name for arm in self.arms.values() for name, _ in arm.setting}

    @cached_property
    def arm_names(self) -> list[str]:
        """Of all machines, each once, baselines first."""
        of_pairs = [pair.baseline.name for pair in self.pairs.values()]
        return list(dict.fromkeys([*of_pairs, *(name for _, name in self.arms)]))

    @cached_property
    def candidates(self) -> list[str]:
        return list(dict.fromkeys(name for _, name in self.pairs))

    def why_no_pair(self, place: Place, candidate: str) -> str:
        """Why that arm has no speedup there: its own reason, else its baseline's."""
        if own := self.why.get((place, candidate)):
            return own
        for base in dict.fromkeys(pair.baseline.name for pair in self.pairs.values()):
            if why := self.why.get((place, base)):
                return f"{base}: {why}"
        return NOT_MEASURED

    def why_no_seconds(self, place: Place, arm: str) -> str:
        """Why that arm has no seconds there."""
        return self.why.get((place, arm)) or NOT_MEASURED

    @property
    def model_name(self) -> str:
        return "several models" if "model" in self.varied else self.workload.model_name

    @cached_property
    def unlike(self) -> str:
        """Why its seconds are not of the same work everywhere; empty where they are."""
        if self.workload.unit == "epoch" and any("samples" in run.unstated for run in self.runs):
            return "how many samples an epoch has is not stated"
        works = [arm.runs[0].run.spec.workload for arm in self.arms.values()]
        differ = [name for name, of in WORK.items() if len({of(work) for work in works}) > 1]
        return f"arms differ in {', '.join(differ)}" if differ else ""

    @property
    def same_work(self) -> bool:
        return not self.unlike

    @cached_property
    def times_steps(self) -> bool:
        """Whether what is called an epoch is one step of a training, by a run's source."""
        return any(run.source and run.source.epoch_is_step for run in self.runs)

    @property
    def runs(self) -> Iterator[Run]:
        return (one.run for arm in self.arms.values() for one in arm.runs)


@dataclass(frozen=True, slots=True)
class Contender:
    """The best arm of a machine for a workload, by `amount`: seconds, or money."""

    place: Place
    arm: Arm
    amount: float


@dataclass(frozen=True)
class Across:
    """At least two machines (or devices of one) side by side.

    `places` are in the order of the machines, so of their colours, `names` what they are called.
    `rows`: those on most machines first. `older` counts comparisons that are not shown because
    their workload was measured later on their machine under other conditions. In a row and place
    all arms are of one torch and number of threads.
    """

    places: tuple[Place, ...]
    names: Mapping[Place, str]
    rows: tuple[Row, ...]
    older: int

    @cached_property
    def means(self) -> dict[str, Means]:
        """Geometric means of the speedups by machine, for each candidate arm that two have."""
        by_arm: dict[str, list[Comparison]] = {}
        for row in self.rows:
            for (_, name), pair in row.pairs.items():
                by_arm.setdefault(name, []).append(pair)
        found = {name: by_machine(pairs, self.names) for name, pairs in by_arm.items()}
        return {
            name: means
            for name, means in found.items()
            if len({(p.machine, p.device, p.machine_id) for p in by_arm[name]}) > 1
        }

    @cached_property
    def common(self) -> tuple[list[Place], list[Row]]:
        """Machines that share a workload with another, and the rows that all of these have.

        Of rows that are the same work everywhere.
        """
        found = {
            place: {at for at, row in enumerate(self.rows) if place in row.places and row.same_work}
            for place in self.places
        }
        kept, shared = shared_by(found)
        return kept, [self.rows[at] for at in sorted(shared)]

    @cached_property
    def standing(self) -> list[tuple[Place, float]]:
        """Machines of `common`, the fastest first, with how many times as long each takes.

        Geometric means over the common rows of the fastest arm on each; the first has 1.0.
        """
        kept, rows = self.common
        if len(kept) < 2 or not rows:
            return []
        best = [{one.place: one.amount for one in fastest(row)} for row in rows]
        means = {place: stats.geometric_mean([of[place] for of in best]) for place in kept}
        least = min(means.values())
        return sorted(((place, mean / least) for place, mean in means.items()), key=lambda p: p[1])

    @cached_property
    def facts(self) -> dict[str, dict[Place, str]]:
        """What belongs to a machine, by name and place: its values, each once."""
        found: dict[Place, dict[str, dict[str, None]]] = {place: {} for place in self.places}
        # Thousands of runs of a file share one environment.
        told: set[tuple[Place, int, tuple[str, ...]]] = set()
        for row in self.rows:
            for (place, _), arm in row.arms.items():
                for one in arm.runs:
                    key = place, id(one.run.environment), one.run.unstated
                    if key not in told:
                        told.add(key)
                        for name, value in _facts(one.run):
                            found[place].setdefault(name, {})[value] = None
        names = dict.fromkeys(name for facts in found.values() for name in facts)
        return {
            name: {place: ", ".join(facts[name]) for place, facts in found.items() if name in facts}
            for name in names
        }

    @property
    def differences(self) -> list[str]:
        """Names of facts, besides the device itself, in which machines differ."""
        return [
            name
            for name, values in self.facts.items()
            if name not in ("device", "processor") and len(set(values.values())) > 1
        ]


def across(
    found: Comparisons, measured: Iterable[Measured] = (), machines: Sequence[str] = ()
) -> Across | None:
    """The comparisons by workload and machine; None for fewer than two machines or devices.

    `measured`: the runs that they are of, where arms without a partner are wanted too: they have
    seconds and no speedup. `machines`: labels in their fixed order. Give one kind of workload. Of
    comparisons of one machine and workload those measured last count. Equal arms (A/A) have no
    place here, nor have runs whose machine is not known.
    """
    names = found.pairs[0].axis if found.pairs else USUAL.names
    if "side" in names:
        return None
    rows: dict[Hashable, Row] = {}
    older = 0
    paired = []
    for pair in sorted(found.pairs, key=lambda pair: pair.candidate.runs[0].run.number):
        run = pair.candidate.runs[0].run
        if run.machine:
            paired.append((workload_key(run, (*names, *pair.overridden)), Place.of(run), run, pair))
    newest = {(key, place): _conditions(run) for key, place, run, _ in paired}
    for key, place, run, pair in paired:
        row = rows.setdefault(key, Row(run.spec.workload))
        spot = place, pair.candidate.name
        if _conditions(run) != newest[key, place]:
            older += 1
            row.why[spot] = f"measured earlier, {_told(_conditions(run))}"
            continue
        older += spot in row.pairs
        row.pairs[spot] = pair
        row.arms[place, pair.baseline.name] = pair.baseline
        row.arms[spot] = pair.candidate
    lone = [
        (workload_key(run, names), Place.of(run), run, arm)
        for run, arm in _lone_arms(found.left_out, measured, names)
    ]
    newest_lone = {(key, place): _conditions(run) for key, place, run, _ in lone}
    for key, place, run, arm in lone:
        if (key, place) not in newest and _conditions(run) == newest_lone[key, place]:
            row = rows.setdefault(key, Row(run.spec.workload))
            row.arms[place, arm.name] = arm
    places = {place for row in rows.values() for place in row.places}
    if len(places) < 2:
        return None
    _tell_why(rows, found.left_out, names)
    order = {label: at for at, label in enumerate(machines)}
    ordered = tuple(sorted(places, key=lambda place: (order.get(place.machine, len(order)), place)))
    runs = {place: arm.runs[0].run for row in rows.values() for (place, _), arm in row.arms.items()}
    return Across(
        ordered,
        place_names(runs[place] for place in ordered),
        tuple(sorted(rows.values(), key=lambda row: -len(row.places))),
        older,
    )


def _conditions(run: Run) -> Conditions:
    environment = run.environment
    return (environment.torch, environment.threads) if environment else (None, None)


def _told(under: Conditions) -> str:
    torch, threads = under
    return f"torch {torch or NOT_STATED}, threads {NOT_STATED if threads is None else threads}"


def _arm_of(run: Run, names: tuple[str, ...], runs: Sequence[Measured] = ()) -> Arm:
    setting = () if names == ("variant",) else setting_of(run.spec, names)
    return Arm(run.spec.variant.arm, tuple(runs), setting)


def _lone_arms(
    left_out: Sequence[LeftOut], measured: Iterable[Measured], names: tuple[str, ...]
) -> Iterator[tuple[Run, Arm]]:
    """Arms that are sound and have nothing to be held against, in the order of their runs.

    A baseline by itself is one too; without a median it has no seconds to show.
    """
    partnerless = (left for left in left_out if left.cause in ("no baseline", "no other arm"))
    alone = {run.number for left in partnerless for run in left.runs}
    arms: dict[Hashable, list[Measured]] = {}
    for one in measured:
        run = one.run
        if run.machine and run.number in alone and one.steady.median_seconds is not None:
            setting, under = setting_of(run.spec, names), _conditions(run)
            key = workload_key(run, names), Place.of(run), setting, under
            arms.setdefault(key, []).append(one)
    for runs in arms.values():
        yield runs[0].run, _arm_of(runs[0].run, names, runs)


def _tell_why(
    rows: Mapping[Hashable, Row], left_out: Sequence[LeftOut], names: tuple[str, ...]
) -> None:
    for left in left_out:
        for run in left.runs:
            row = rows.get(workload_key(run, names)) if run.machine else None
            reason = _short(left, run)
            if row is None or not reason:
                continue
            spot = Place.of(run), _arm_of(run, names).name
            if run.status == "failed" or spot not in row.why:
                row.why[spot] = reason


def _short(left: LeftOut, run: Run) -> str:
    if run.status == "failed":
        return f"failed: {run.failure}"
    if left.cause == "no baseline":
        return f"no {left.lacks} run"
    return SHORT_REASONS.get(left.cause, run.status)


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    """Facts of the machine that a run was measured on; what is no fact of it is left out."""
    environment = run.environment
    if environment is None:
        return
    unstated = set(run.unstated)
    for name, gate, value in (
        ("device", "device_name", environment.device_name),
        ("torch", "torch", environment.torch),
        ("CUDA", "cuda", environment.cuda),
        ("driver", "driver", environment.driver),
        ("threads", "threads in use", environment.threads),
        ("processor", "cpu_name", environment.cpu_name),
    ):
        if gate in unstated or (value is None and name in ("torch", "threads")):
            yield name, NOT_STATED
        elif value is not None:
            yield name, str(value)
    if rest := [name for name in run.unstated if name not in ("torch", "threads in use")]:
        yield f"{NOT_STATED} by the source", ", ".join(rest)


# The fastest and the cheapest


def _ranked(row: Row, amount: Callable[[Place, Arm], float | None]) -> list[Contender]:
    """The best arm of each machine, the least amount first; None takes no part.

    Empty where the seconds are not of the same work.
    """
    if not row.same_work:
        return []
    best: dict[Place, Contender] = {}
    for (place, _), arm in row.arms.items():
        value = amount(place, arm)
        if value is not None and (place not in best or value < best[place].amount):
            best[place] = Contender(place, arm, value)
    return sorted(best.values(), key=lambda one: one.amount)


def fastest(row: Row) -> list[Contender]:
    """The fastest arm of each machine by its steady seconds, the fastest machine first."""
    return _ranked(row, lambda _, arm: arm.steady_seconds)


def ahead(contenders: Sequence[Contender]) -> stats.Speedup:
    """How many times as fast the first is as the second: whole machines, by their runs' medians.

    With an interval over runs where both have three or more.
    """
    first, second = contenders[:2]
    return stats.speedup(second.arm.medians, first.arm.medians)


def _start_seconds(arm: Arm, start: Start) -> float | None:
    """What such a start takes on top; an arm that compiles nothing has one kind of start."""
    cache = next((cache for cache in CACHES if cache == start), None)
    return arm.excess_seconds(cache if arm.variant.cache else None)


def start_counted(row: Row, prices: Mapping[str, float]) -> Start | None:
    """The dearest start that all arms with a price have: any other would favour some."""
    arms = [arm for (place, _), arm in row.arms.items() if place.machine_id in prices]
    compiled = any(arm.variant.cache for arm in arms)
    starts: tuple[Start, ...] = CACHES if compiled else ("of no cache",)
    known = (s for s in starts if all(_start_seconds(arm, s) is not None for arm in arms))
    return next(known, None)


def cost(place: Place, seconds: float, prices: Mapping[str, float]) -> float | None:
    """`prices`: of an hour, by machine id. Whatever money they are in."""
    price = prices.get(place.machine_id)
    return None if price is None else price * seconds / 3600


def cheapest(row: Row, prices: Mapping[str, float], count: int) -> list[Contender]:
    """The cheapest arm of each machine with a price, the cheapest machine first.

    Of a training of `count` epochs, or of MANY samples in inference, with the start that is
    `start_counted`. Empty for epochs that are single steps: nobody trains by them.
    """
    if row.workload.unit == "epoch" and row.times_steps:
        return []
    counted = start_counted(row, prices)

    def amount(place: Place, arm: Arm) -> float | None:
        work = arm.runs[0].run.spec.workload
        times = count if work.unit == "epoch" else MANY / work.batch_size
        start = _start_seconds(arm, counted) if counted else None
        return cost(place, (start or 0.0) + times * arm.steady_seconds, prices)

    return _ranked(row, amount)


def rate(arm: Arm) -> float | None:
    """Images (samples, elements) a second in the steady state; None where none are stated."""
    work = arm.runs[0].run.spec.workload
    if work.unit == "epoch" and any("samples" in one.run.unstated for one in arm.runs):
        return None
    return work.samples_done / arm.steady_seconds
