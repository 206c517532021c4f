"""An experiment whose rungs stand one on top of the other: what each adds, and what all give.

Pure: measured runs in; comparisons and words out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

from bench_core.comparison import Comparison
from bench_core.measured import Arm, Measured
from bench_core.pairing import Axis, Floors, comparisons, noise_floors, setting_of
from bench_core.spec import Experiment, RunSpec
from bench_core.units import ratio_text

HEAD = ("Rung", "By itself", "In all", "Steady seconds")


@dataclass(frozen=True)
class Step:
    """A rung on one workload. `alone` is against the rung below it, `whole` against the first.

    Both are None for the first rung, and where a run is missing.
    """

    name: str
    run: RunSpec
    alone: Comparison | None
    whole: Comparison | None

    @property
    def arm(self) -> Arm | None:
        pair = self.alone or self.whole
        return pair.candidate if pair else None

    @property
    def text(self) -> str:
        """`channels_last: 4.1 % faster by itself; in all 1.12x`."""
        if self.alone is None and self.whole is None:
            return f"{self.name}: not measured yet"
        words = [f"{self.alone.verdict_text} by itself"] if self.alone else []
        words += [f"in all {_whole_text(self.whole)}"] if self.whole else []
        return f"{self.name}: {'; '.join(words)}"


def ladder(
    measured: Iterable[Measured], experiment: Experiment, floors: Floors | None = None
) -> list[Step]:
    """The rungs of each workload of the experiment, from the first up, workload by workload.

    `floors`: None takes those of the runs at hand. ValueError: an experiment without rungs.
    """
    if not experiment.rungs:
        raise ValueError(
            f"experiment {experiment.id} has no rungs to climb, but the variants "
            f"{', '.join(variant.name for variant in experiment.variants)}; compare these"
        )
    every = list(measured)
    floors = noise_floors(every) if floors is None else floors
    runs, names, count = experiment.runs(), experiment.axis, len(experiment.rungs)
    steps = []
    for start in range(0, len(runs), count * experiment.repeats):
        rungs = runs[start : start + count]
        cell = _of_one_place([one for one in every if _stands_on(one, rungs)], names)
        for place, rung in enumerate(rungs):
            below = rungs[max(place - 1, 0)]
            steps.append(
                Step(
                    rung_names(experiment)[place],
                    rung,
                    _against(cell, names, below, rung, floors) if place else None,
                    _against(cell, names, rungs[0], rung, floors) if place else None,
                )
            )
    return steps


def _stands_on(one: Measured, rungs: list[RunSpec]) -> bool:
    """Whether it is a run of one of these rungs, from whatever cache it started."""
    spec = one.run.spec
    return any(
        (spec.workload, spec.variant.arm, spec.device, spec.measurement.side)
        == (rung.workload, rung.variant.arm, rung.device, rung.measurement.side)
        for rung in rungs
    )


def _of_one_place(cell: list[Measured], names: tuple[str, ...]) -> list[Measured]:
    """The runs of the machine, device and torch with most of the rungs; the newest of several.

    What a rung adds and what all give together would else be of two machines in one row.
    """
    places: dict[object, list[Measured]] = defaultdict(list)
    for one in cell:
        if one.steady.median_seconds is not None:
            ran = one.run.environment
            places[ran and (ran.machine_id, ran.torch), one.run.spec.device].append(one)
    return max(
        places.values(),
        key=lambda ones: (
            len({setting_of(one.run.spec, names) for one in ones}),
            max(one.run.number for one in ones),
        ),
        default=[],
    )


def _against(
    cell: list[Measured], names: tuple[str, ...], base: RunSpec, rung: RunSpec, floors: Floors
) -> Comparison | None:
    """The comparison of the two rungs; the newest where threads or the like tell several apart."""
    found = comparisons(cell, Axis(names, setting_of(base, names)), floors).pairs
    wanted = setting_of(rung, names)
    fitting = [pair for pair in found if pair.candidate.setting == wanted]
    if names == ("variant",):
        fitting = [pair for pair in found if pair.candidate.variant == rung.variant.arm]
    return fitting[-1] if fitting else None


def arm_names(experiment: Experiment) -> list[str]:
    """Each rung in full: `eager, bf16, channels_last`, `eager A`."""
    return [
        Arm(run.variant.arm, (), setting_of(run, experiment.axis)).name
        for run in experiment.runs()[: len(experiment.rungs)]
    ]


def rung_names(experiment: Experiment) -> list[str]:
    """What each rung changes against the one below it; the first is named in full.

    `eager, fp32, contiguous`, `channels_last`, `bf16`, `compile`.
    """
    names = experiment.axis
    found = []
    below: dict[str, object] = {}
    for run in experiment.runs()[: len(experiment.rungs)]:
        here = dict(setting_of(run, names))
        new = {name: value for name, value in here.items() if below.get(name, "") != value}
        found.append(Arm(run.variant.arm, (), tuple(new.items())).name)
        below = here
    return found


def rows(steps: Iterable[Step]) -> list[tuple[str, str, str, float | None]]:
    """The table under HEAD, a rung a row: name, verdict by itself, ratio in all, steady seconds."""
    told = list(steps)
    return [
        (
            step.name,
            step.alone.verdict_text if step.alone else "",
            _whole_text(step.whole) if step.whole else "",
            _steady(step, told),
        )
        for step in told
    ]


def _steady(step: Step, steps: list[Step]) -> float | None:
    """That of the first rung is what the others are held against."""
    if step.arm:
        return step.arm.steady_seconds
    above = takewhile(lambda one: one.name != step.name, steps[steps.index(step) + 1 :])
    first = next((one.whole.baseline for one in above if one.whole), None)
    return first.steady_seconds if first and step.name == steps[0].name else None


def _whole_text(pair: Comparison) -> str:
    """`1.12×`, `1.12× (first look)`, or that there is nothing to tell."""
    if not pair.differs:
        return pair.verdict_text
    speedup = pair.speedup
    ratio = ratio_text(speedup.ratio, speedup.low, speedup.high)
    return f"{ratio} (first look)" if speedup.kind == "first look" else ratio
