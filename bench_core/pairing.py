"""Which runs may be compared along an axis, and what else they differ in.

A ratio is formed only between runs that agree in everything but the axis (the variant, unless
said otherwise): every field of the workload, the device, the machine, the torch version, the
threads in use and the number of parameters. No axis frees how many samples an epoch or a call
handles. Fields of the measurement never block. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bench_core.comparison import EAGER, Comparison
from bench_core.measured import Arm, Measured
from bench_core.neighbours import (
    Conditions,
    Neighbour,
    difference_texts,
    nearest_to,
    neighbourhood,
    unlike,
)
from bench_core.run import NOT_STATED, Run
from bench_core.spec import COMPILES, Experiment, RunSpec, Variant, Workload
from bench_core.stats import RUNS_FOR_A_VERDICT, ScipyMissing
from bench_core.units import seconds_text

# What an arm is told by: the values of the axis's names, in their order.
Setting = tuple[tuple[str, object], ...]
# What differs of itself where an axis does.
FOLLOWS = {
    "threads": ("threads in use",),
    "model": ("parameters", "model file"),
}

# An axis of these may change how much an epoch or a call does; no axis frees how much that is.
OF_LENGTH = {"samples", "batch_size", "drop_last"}
DONE = "samples done in an epoch or call"
UNLIKE_WORK = ", so their seconds are of unlike work; compare other arms within each"


@dataclass(frozen=True)
class Axis:
    """What a comparison varies, and the arm that the others are held against.

    `names`: `variant`, `side` (of an A/A experiment) or fields of the workload. Without a
    `baseline` it is the arm that was measured first.
    """

    names: tuple[str, ...] = ("variant",)
    baseline: Setting | None = None

    @classmethod
    def against(cls, variant: Variant) -> Axis:
        """The usual one: every other variant against this one."""
        return cls(("variant",), (("variant", variant),))

    @classmethod
    def of(cls, experiment: Experiment) -> Axis:
        """The axis of an experiment; eager, or else its first arm, is the baseline."""
        if not experiment.rungs:
            variants = [variant.arm for variant in experiment.variants]
            return cls.against(EAGER if EAGER in variants else variants[0])
        return cls(experiment.axis, setting_of(experiment.runs()[0], experiment.axis))

    @property
    def baseline_name(self) -> str:
        """Empty where the first arm measured is the baseline."""
        return self.arm(self.baseline, ()).name if self.baseline else ""

    def arm(self, setting: Setting, runs: Sequence[Measured]) -> Arm:
        """The arm that those runs are."""
        found = dict(setting).get("variant") or (runs[0].run.spec.variant.arm if runs else EAGER)
        assert isinstance(found, Variant)
        return Arm(found, tuple(runs), () if self.names == ("variant",) else setting)


def setting_of(spec: RunSpec, names: Sequence[str]) -> Setting:
    """The run's values of an axis's names."""
    facts = {"variant": spec.variant.arm, "side": spec.measurement.side}
    work = spec.workload
    return tuple((name, facts[name] if name in facts else getattr(work, name)) for name in names)


USUAL = Axis.against(EAGER)
# How far equal arms may lie apart, by machine, device and kind of work: train, infer or function.
# As a logarithm: 0.02 is about 2 %.
Floors = Mapping[tuple[str, str, str], float]


# What keeps a run out of every ratio.
Cause = Literal[
    "not ended",
    "failed",
    "nothing measured",
    "nothing compiled",
    "no steady state",
    "no baseline",
    "no other arm",
    "wrong baseline",
    "results differ",
    "measured by itself",
]


@dataclass(frozen=True)
class LeftOut:
    """Runs that took part in no ratio, and why. `kind` is the reason without its figures.

    `lacks`: of the cause `no baseline`, the name of the arm that is not there.
    """

    runs: tuple[Run, ...]
    cause: Cause
    reason: str
    kind: str = ""
    lacks: str = ""


@dataclass(frozen=True)
class Comparisons:
    pairs: tuple[Comparison, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def left_out_alike(self) -> list[tuple[str, str, str, list[Run]]]:
        """What was left out as title, machine, reason and the runs that share them."""
        alike: dict[tuple[str, str, str], list[Run]] = {}
        for left in self.left_out:
            first = left.runs[0]
            alike.setdefault((first.title, first.machine, left.reason), []).extend(left.runs)
        return [(*told, runs) for told, runs in alike.items()]

    @property
    def left_out_kinds(self) -> dict[str, list[LeftOut]]:
        """What was left out by kind of reason, the kind with the most runs first."""
        kinds: dict[str, list[LeftOut]] = {}
        for left in self.left_out:
            kinds.setdefault(left.kind or left.reason, []).append(left)
        by_size = sorted(kinds, key=lambda kind: -sum(len(left.runs) for left in kinds[kind]))
        return {kind: kinds[kind] for kind in by_size}


# Its runs, by the number that `_Settings` gives an arm's setting.
Cell = dict[int, list[Measured]]


def comparisons(
    measured: Iterable[Measured], axis: Axis = USUAL, floors: Floors | None = None
) -> Comparisons:
    """Every candidate arm beside the baseline arm that differs from it along the axis alone.

    In the order of the candidates' first runs. A run without a steady state, an arm without a
    partner, and a run beside arms that took turns, is left out with the reason. `floors`: None
    takes those of the runs at hand.
    """
    runs = sorted(measured, key=lambda one: one.run.number)
    if floors is None:
        floors = noise_floors(runs)
    cells: dict[Conditions, Cell] = defaultdict(dict)
    left_out: list[LeftOut] = []
    settings = _Settings(axis.names)
    for one in runs:
        useless = _useless(one)
        if useless:
            left_out.append(LeftOut((one.run,), *useless))
            continue
        cell = cells[tuple(conditions_of(one.run, axis).items())]
        cell.setdefault(settings.of(one.run.spec), []).append(one)
    pairs = []
    wanted = settings.number(axis.baseline) if axis.baseline else None
    no_baseline = f"no {axis.baseline_name} run of the same workload"
    kind = "variant" if axis.names == ("variant",) else "arm"
    for here, near in neighbourhood(cells):
        cell = cells[here.conditions]
        base = next(iter(cell)) if wanted is None else wanted
        if base not in cell:
            nearest = nearest_to(here, near, base, has_it=True)
            lacks = axis.baseline_name
            left_out += [
                _without_partner(ones, no_baseline, "on the same machine", here, nearest, lacks)
                for ones in cell.values()
            ]
            continue
        if len(cell) == 1:
            nearest = nearest_to(here, near, base, has_it=False)
            what = f"no other {kind} than {settings.name(axis, base, cell)} of the same workload"
            left_out.append(_without_partner(cell[base], what, "on this machine", here, nearest))
            continue
        arms = {number: axis.arm(settings.known[number], ones) for number, ones in cell.items()}
        baseline = arms[base]
        wrong = baseline.parity
        if wrong and wrong.verdict == "differs":
            every = tuple(m.run for arm in arms.values() for m in arm.runs)
            reason = f"the results of the baseline {baseline.name} are wrong: {wrong.text}"
            left_out.append(LeftOut(every, "wrong baseline", reason))
            continue
        for arm in arms.values():
            if arm is baseline:
                continue
            # The floor is what equal arms make of it: they are not held against themselves.
            pair = _pair(baseline, arm, axis.names, {} if "side" in axis.names else floors)
            if arm.parity and arm.parity.verdict == "differs":
                every = tuple(m.run for m in arm.runs)
                left_out.append(LeftOut(every, "results differ", _wrong_text(pair)))
            else:
                pairs.append(pair)
    pairs.sort(key=lambda pair: pair.candidate.runs[0].run.number)
    left_out += _beside_pairs(pairs)
    return Comparisons(tuple(pairs), tuple(left_out))


class _Settings:
    """Every setting once, and its number: variants are slow to make and to hash."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.known: list[Setting] = []
        self.numbers: dict[Setting, int] = {}
        self.of_values: dict[object, int] = {}
        self.names_of: dict[int, str] = {}

    def number(self, setting: Setting) -> int:
        if setting not in self.numbers:
            self.numbers[setting] = len(self.known)
            self.known.append(setting)
        return self.numbers[setting]

    def of(self, spec: RunSpec) -> int:
        facts = (vars(spec.workload), vars(spec.measurement))
        values = tuple(next((of[name] for of in facts if name in of), None) for name in self.names)
        key = (values, repr(vars(spec.variant)) if "variant" in self.names else "")
        if key not in self.of_values:
            self.of_values[key] = self.number(setting_of(spec, self.names))
        return self.of_values[key]

    def name(self, axis: Axis, number: int, cell: Mapping[int, Sequence[Measured]]) -> str:
        """Of the arm in a cell; an arm that its variant tells has the same one in every cell."""
        if number not in self.names_of or "variant" not in self.names:
            self.names_of[number] = axis.arm(self.known[number], cell[number]).name
        return self.names_of[number]


def _without_partner(
    runs: Sequence[Measured],
    what: str,
    where: str,
    here: Neighbour,
    nearest: Neighbour | None,
    lacks: str = "",
) -> LeftOut:
    """`no eager run of the same workload: batch_size is 256 here, 1024 there`."""
    these = tuple(m.run for m in runs)
    cause: Cause = "no baseline" if lacks else "no other arm"
    if nearest is None:
        return LeftOut(these, cause, f"{what} {where}", lacks=lacks)
    differ = difference_texts(here, nearest)
    unlike_work = UNLIKE_WORK if DONE in differ else ""
    kind = f"{what}: {', '.join(differ)} {'differs' if len(differ) == 1 else 'differ'}"
    return LeftOut(these, cause, f"{what}: {'; '.join(differ.values())}{unlike_work}", kind, lacks)


def _useless(one: Measured) -> tuple[Cause, str] | None:
    """Why a run can take part in no ratio; None when it can."""
    run = one.run
    if run.status in ("queued", "running"):
        return "not ended", f"{run.status}: not ended yet"
    if run.status == "failed":
        return "failed", f"failed: {run.failure}. {run.reason}"
    if not one.begun:
        return "nothing measured", f"{run.status}: {run.reason or 'nothing was measured'}"
    if run.activity and _compiled_nothing(run):
        return (
            "nothing compiled",
            f"asked for {run.spec.variant.execution}, but nothing was compiled: it ran as "
            f"eager{_seconds_of(one)}",
        )
    if one.steady.median_seconds is None:
        return "no steady state", f"no steady state: {one.steady.reason}"
    return None


def override(baseline: Sequence[Measured], candidate: Sequence[Measured]) -> Comparison:
    """Two groups of runs set against each other whatever they differ in, which is then told.

    For a person's deliberate choice only. No noise floor: that is of one machine and kind of work.
    ValueError: an arm without a run with a steady state.
    """
    arms = []
    for name, group in (("baseline", baseline), ("candidate", candidate)):
        steady = tuple(one for one in group if not _useless(one))
        if not steady:
            useless = filter(None, map(_useless, group))
            reasons = "; ".join(dict.fromkeys(reason for _, reason in useless)) or "no run"
            raise ValueError(f"the {name} has no steady run: {reasons}")
        arms.append(Arm(steady[0].run.spec.variant.arm, steady))
    pair = _pair(arms[0], arms[1], ("variant",), {})
    found = differences(arms[0].runs[0].run, arms[1].runs[0].run)
    return replace(pair, overridden=tuple(found))


def _beside_pairs(pairs: Sequence[Comparison]) -> list[LeftOut]:
    """Runs that were measured alone while their arms were compared by turns taken."""
    arms = [arm for pair in pairs for arm in (pair.baseline, pair.candidate)]
    used = {m.run.number for arm in arms for m in arm.runs}
    alone = {m.run.number: m.run for arm in arms for m in arm.alone if m.run.number not in used}
    reason = "measured by itself, while its arm is compared by the pairs that took turns"
    return [LeftOut((run,), "measured by itself", reason) for run in alone.values()]


def _pair(baseline: Arm, candidate: Arm, names: tuple[str, ...], floors: Floors) -> Comparison:
    """Arms that took turns often enough are compared by their pairs; of others the starts count."""
    turns = {m.run.round for m in baseline.runs} & {m.run.round for m in candidate.runs} - {None}
    if len(turns) >= RUNS_FOR_A_VERDICT:
        baseline, candidate = (
            replace(
                arm,
                runs=tuple(m for m in arm.runs if m.run.round in turns),
                alone=tuple(m for m in arm.runs if m.run.round not in turns),
            )
            for arm in (baseline, candidate)
        )
    run = candidate.runs[0].run
    environment = run.environment
    spec = run.spec
    machine_id = environment.machine_id if environment else ""
    return Comparison(
        workload=spec.workload,
        device=spec.device,
        machine=run.machine,
        machine_id=machine_id,
        torch=environment.torch if environment else None,
        baseline=baseline,
        candidate=candidate,
        axis=names,
        floor=floors.get((machine_id, spec.device, _kind(spec.workload))),
        unstated=tuple(sorted({*run.unstated} & {*baseline.runs[0].run.unstated})),
    )


# Noise floor


def noise_floors(measured: Iterable[Measured]) -> dict[tuple[str, str, str], float]:
    """How far equal arms may lie apart, by machine, device and kind of work, from A/A experiments.

    The farthest end of the intervals of their ratios, as a logarithm, in the newest such
    experiment: a smaller difference between other arms may be the machine's. Needs three runs an
    arm, and scipy: without it there is no floor, as there is no verdict that it could take back.
    """
    equal = [one for one in measured if one.run.spec.measurement.side]
    equal.sort(key=lambda one: one.run.number)
    by_experiment: dict[str, list[Measured]] = defaultdict(list)
    for one in equal:
        by_experiment[one.run.experiment_id].append(one)
    floors: dict[tuple[str, str, str], float] = {}
    for runs in by_experiment.values():
        found: dict[tuple[str, str, str], float] = {}
        for pair in comparisons(runs, Axis(("side",), (("side", "A"),)), floors={}).pairs:
            try:
                low, high = pair.speedup.low, pair.speedup.high
            except ScipyMissing:
                return {}
            if low and high:
                key = (pair.machine_id, pair.device, _kind(pair.workload))
                farther = max(abs(math.log(low)), abs(math.log(high)))
                found[key] = max(farther, found.get(key, 0.0))
        floors |= found
    return floors


def _kind(workload: Workload) -> str:
    """What shares a noise floor: calls of a few microseconds scatter otherwise than epochs."""
    return "function" if workload.is_function else workload.task


def _wrong_text(pair: Comparison) -> str:
    """Why a variant whose results differ has no speedup: its two times, and by how much."""
    parity = pair.candidate.parity
    assert parity is not None
    return (
        f"its results differ from eager's, so no speedup is formed: {parity.text} Its "
        f"{pair.unit} takes {seconds_text(pair.candidate.steady_seconds)}, that of "
        f"{pair.baseline.name} {seconds_text(pair.baseline.steady_seconds)}"
    )


def _seconds_of(one: Measured) -> str:
    if one.steady.median_seconds is None:
        return ""
    return f", {seconds_text(one.steady.median_seconds)} an {one.unit}"


def _compiled_nothing(run: Run) -> bool:
    variant = run.spec.variant
    return (
        variant.execution in COMPILES
        and not variant.disable
        and run.activity is not None
        and run.activity.graphs == 0
    )


def conditions_of(run: Run, axis: Axis = USUAL) -> dict[str, object]:
    """All that must agree before a ratio is formed, by the name a person is told."""
    conditions: dict[str, object] = {**vars(run.spec.workload)}
    conditions["unit"] = run.spec.workload.unit  # no axis frees it: an epoch is no call
    if "variant" not in axis.names:
        conditions["variant"] = run.spec.variant.arm
    conditions["device"] = run.spec.device
    if run.environment:
        conditions["machine"] = (run.environment.machine, run.environment.machine_id)
        conditions["device_name"] = _stated(run.environment.device_name)
        conditions["torch"] = _stated(run.environment.torch)
        conditions["threads in use"] = _stated(run.environment.threads)
    if run.prepared:
        conditions["parameters"] = _stated(run.prepared.parameters)
        conditions["model file"] = _stated(run.prepared.model_sha256)
    for name in run.unstated:
        conditions[name] = NOT_STATED
    for name in axis.names:
        for free in (name, *FOLLOWS.get(name, ())):
            conditions.pop(free, None)
    if not OF_LENGTH.isdisjoint(axis.names):
        conditions[DONE] = _samples_done(run)
    return conditions


def _stated(value: object) -> object:
    """What was found where a run was measured; None there is no default but unknown."""
    return NOT_STATED if value is None else value


def _samples_done(run: Run) -> object:
    """Samples that an epoch or a call handles, as far as the run's source states it."""
    work = run.spec.workload
    if work.unit == "iteration":
        return work.batch_size if run.states("batch_size") else NOT_STATED
    if not run.states("samples"):
        return NOT_STATED
    known = run.states("batch_size", "drop_last")
    return work.samples_done if known else f"{work.samples} at most"


def differences(
    baseline: Run, candidate: Run, axis: Axis = USUAL
) -> Mapping[str, tuple[object, object]]:
    """What two runs differ in beside the axis: empty when a ratio may be formed.

    By name the candidate's value and the baseline's. A fact that neither source states agrees; one
    that only one of them states differs.
    """
    return unlike(conditions_of(candidate, axis), conditions_of(baseline, axis))
