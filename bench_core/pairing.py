"""Which runs may be compared, and the answer that a comparison gives.

A ratio is formed only between runs that agree in everything but the variant: every field of the
workload, the device, the machine, the torch version, the threads in use and the number of
parameters. Pure: runs and epochs in, comparisons and their words out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Literal

from bench_core import stats
from bench_core.measured import Arm, Measured
from bench_core.run import Run
from bench_core.spec import COMPILES, Cache, Variant, Workload
from bench_core.units import (
    count_text,
    counted,
    duration_text,
    percent_interval_text,
    percent_text,
    seconds_text,
)

EAGER = Variant()
# Above these the times say more about the machine's other work than about the variant.
LOUD_NEIGHBOURS = 0.1
WIDE_SPREAD = 0.15
RUNS_APART = 1.2
# Equal processes on a quiet machine differ by about this much.
SCATTER = 0.02
# How long somebody trains, or serves, who asks what it saves.
LONG_RUN = {"epoch": 100, "iteration": 10_000}


@dataclass(frozen=True)
class Comparison:
    """A baseline and a candidate arm that differ in the variant alone."""

    workload: Workload
    device: str
    machine: str
    machine_id: str
    torch: str
    baseline: Arm
    candidate: Arm

    @property
    def unit(self) -> Literal["epoch", "iteration"]:
        """What the seconds are of, and what a break-even counts."""
        return self.workload.unit

    @cached_property
    def speedup(self) -> stats.Speedup:
        return stats.speedup(self.baseline.medians, self.candidate.medians)

    @cached_property
    def band(self) -> stats.Band | None:
        """For a first look: how far single times move the ratio. Not an interval over runs."""
        if self.speedup.kind != "first look":
            return None
        arms = [
            [
                seconds / m.steady.median_seconds * arm.steady_seconds
                for m in arm.runs
                if m.steady.median_seconds is not None
                for seconds in m.steady_seconds
            ]
            for arm in (self.baseline, self.candidate)
        ]
        return stats.first_look_band(arms[0], arms[1])

    def break_even(self, cache: Cache) -> stats.BreakEven | None:
        """From which epoch or iteration the candidate is ahead when it starts from `cache`.

        A variant that compiles nothing has no cache, so its start is neither cold nor warm.
        """
        before = self.baseline.excess_seconds(None)
        after = self.candidate.excess_seconds(cache if self.candidate.variant.cache else None)
        if before is None or after is None:
            return None
        epochs = min(
            len(m.series_seconds) for arm in (self.baseline, self.candidate) for m in arm.runs
        )
        return stats.break_even(
            before, after, self.baseline.steady_seconds, self.candidate.steady_seconds, epochs
        )

    @cached_property
    def break_even_cold(self) -> stats.BreakEven | None:
        """From an empty cache, or without any, which costs a start at least as much."""
        return self.break_even("cold") or self.break_even("off")

    @cached_property
    def break_even_warm(self) -> stats.BreakEven | None:
        return self.break_even("warm") if self.candidate.variant.cache else None

    @property
    def shows_difference(self) -> bool:
        return self.speedup.verdict in ("faster", "slower")

    @property
    def differs(self) -> bool:
        """A difference is shown; in a first look, seen beyond what equal processes scatter."""
        if self.band:
            outside = not self.band.low <= 1 <= self.band.high
            # Thousands of latencies narrow the band below what the next process would change.
            return outside and abs(math.log(self.speedup.ratio)) > SCATTER
        return self.shows_difference

    @property
    def verdict_text(self) -> str:
        """`8.4 % faster`, `no difference shown`, or what a first look saw."""
        speedup = self.speedup
        if speedup.kind == "first look":
            if self.band is None or not self.differs:
                return "first look: no difference seen"
            # The band knows nothing of other processes, so its digits would claim too much.
            low, high = speedup.ratio * (1 - SCATTER), speedup.ratio * (1 + SCATTER)
            return f"first look: {percent_text(speedup.ratio, low, high)}"
        if speedup.verdict == "no difference shown":
            return "no difference shown"
        return percent_text(speedup.ratio, speedup.low, speedup.high)

    @property
    def headline(self) -> str:
        """The answer in one line that stands alone."""
        arm = "" if self.candidate.variant == COMPILE else f" with {self.candidate.variant.name}"
        model = self.workload.model.removeprefix("function:")
        start = f"{model}{arm} on {self.machine}: {self.verdict_text}"
        return f"{start} once steady" if self.shows_difference else start

    @property
    def detail(self) -> str:
        """Interval, break-even and what it means in seconds, as sentences."""
        parts = (
            self._interval_text,
            self.pays_off_text,
            self._seconds_text,
            self.unmet_text,
            self.noise_text,
        )
        return " ".join(filter(None, parts))

    @property
    def _interval_text(self) -> str:
        speedup = self.speedup
        if speedup.kind == "first look":
            runs = counted(min(speedup.baseline_runs, speedup.candidate_runs), "run")
            band = self.band
            within = percent_interval_text(band.low, band.high) if band else ""
            if band and self.differs:
                within += " faster" if band.low > 1 else " slower"
            return (
                f"Only {runs} in an arm: no verdict before {stats.RUNS_FOR_A_VERDICT}. "
                f"Within these runs: {within}."
            )
        interval = percent_interval_text(speedup.low, speedup.high)
        if speedup.verdict == "no difference shown":
            return f"{interval[0].upper()}{interval[1:]} (95 %)."
        return f"95 % interval {interval}."

    @property
    def pays_off_text(self) -> str:
        """`Pays off from epoch 14, or from epoch 1 when the compile cache is warm.`"""
        if not self.differs:
            return ""
        cold, warm = self.break_even_cold, self.break_even_warm
        start = cold or warm
        if start is None:
            return ""
        match start.kind:
            case "never" if self.speedup.kind == "first look":
                return "As seen here it would never pay off."
            case "never":
                return "Never pays off."
            case "ahead until":
                return f"Ahead until {self._place(start)} only, then behind for good."
            case "at once":
                text = "Pays off at once"
            case "epoch":
                text = f"Pays off from {self._place(start)}" + (
                    " (projected)" if start.projected else ""
                )
        if cold is None:
            text += " when the compile cache is warm"
        elif warm and warm.kind in ("at once", "epoch") and warm != cold:
            from_warm = "at once" if warm.kind == "at once" else f"from {self._place(warm)}"
            text += f", or {from_warm} when the compile cache is warm"
        return f"{text}."

    def _place(self, even: stats.BreakEven) -> str:
        number = float(even.epoch or 0)
        if even.projected:  # two digits: what lies far ahead is not known to the last one
            number = float(f"{number:.1e}") if number >= 100 else number
        return f"{self.unit} {count_text(number)}"

    @property
    def _seconds_text(self) -> str:
        return (
            f"A steady {self.unit} takes {seconds_text(self.candidate.steady_seconds)} against "
            f"{seconds_text(self.baseline.steady_seconds)}."
        )

    @property
    def noise_text(self) -> str:
        """What speaks against these times: other programs, runs or single times that scatter."""
        runs = [*self.baseline.runs, *self.candidate.runs]
        foreign = [
            epoch.foreign_cpu_share
            for m in runs
            for epoch in (m.epochs[m.steady.first :] if m.unit == "epoch" else m.epochs)
            if epoch.foreign_cpu_share is not None
        ]
        if foreign and fmean(foreign) >= LOUD_NEIGHBOURS:
            return (
                f"Other programs used {fmean(foreign):.0%} of this machine's cores meanwhile: "
                "measure again on a quiet machine."
            )
        for arm in (self.baseline, self.candidate):
            apart = max(arm.medians) / min(arm.medians)
            if apart >= RUNS_APART:
                return (
                    f"Runs of {arm.variant.name} differ by {apart:.1f} times: measure again on a "
                    "quiet machine."
                )
        spread = max(m.steady.spread or 0.0 for m in runs)
        if spread >= WIDE_SPREAD:
            way_out = {
                "epoch": "take more samples an epoch",
                "iteration": "take a larger batch, or measure on a quieter machine",
            }[self.unit]
            return f"Single {self.unit}s scatter by {spread:.0%}: {way_out}."
        return ""

    @property
    def unmet_text(self) -> str:
        """What the candidate asked for and did not get."""
        texts = [f"Asked for {f.asked}, got: {f.got}." for f in self.candidate.unmet]
        return " ".join(texts)

    @property
    def saving_text(self) -> str:
        """`Over 100 epochs it saves 7 min 26 s of 1 h 50 min.`, from the cold start if measured."""
        count = LONG_RUN[self.unit]
        starts = [self.candidate.excess_seconds(cache) for cache in ("cold", "off", None)]
        after = next((excess for excess in starts if excess is not None), None)
        before = self.baseline.excess_seconds(None)
        if before is None or after is None:
            return ""
        whole = before + count * self.baseline.steady_seconds
        saved = whole - after - count * self.candidate.steady_seconds
        verb = "saves" if saved >= 0 else "costs"
        of = "of" if saved >= 0 else "on top of"
        return (
            f"Over {count_text(count)} {self.unit}s it {verb} {duration_text(abs(saved))} {of} "
            f"{duration_text(whole)}."
        )


COMPILE = Variant(execution="compile")


@dataclass(frozen=True)
class LeftOut:
    """Runs that took part in no ratio, and why."""

    runs: tuple[Run, ...]
    reason: str


@dataclass(frozen=True)
class Comparisons:
    pairs: tuple[Comparison, ...]
    left_out: tuple[LeftOut, ...]


def comparisons(measured: Iterable[Measured], baseline: Variant = EAGER) -> Comparisons:
    """Every candidate arm beside the baseline arm of the same workload on the same machine.

    In the order of the candidates' first runs. A run without a steady state, and an arm without
    a partner, is left out with the reason.
    """
    cells: dict[tuple[object, ...], dict[Variant, list[Measured]]] = defaultdict(dict)
    left_out: list[LeftOut] = []
    for one in sorted(measured, key=lambda one: one.run.number):
        if one.run.status in ("queued", "running"):
            left_out.append(LeftOut((one.run,), f"{one.run.status}: not ended yet"))
        elif one.run.status == "failed":
            left_out.append(LeftOut((one.run,), f"failed: {one.run.failure}. {one.run.reason}"))
        elif one.run.activity and _compiled_nothing(one.run):
            left_out.append(
                LeftOut(
                    (one.run,),
                    f"asked for {one.run.spec.variant.execution}, but nothing was compiled: it ran "
                    f"as eager{_seconds_of(one)}",
                )
            )
        elif one.steady.median_seconds is None:
            left_out.append(LeftOut((one.run,), f"no steady state: {one.steady.reason}"))
        else:
            arms = cells[tuple(_conditions(one.run).items())]
            arms.setdefault(one.run.spec.variant.arm, []).append(one)
    pairs = []
    for arms in cells.values():
        if baseline not in arms:
            for runs in arms.values():
                reason = f"no {baseline.name} run of the same workload on the same machine"
                left_out.append(LeftOut(tuple(m.run for m in runs), reason))
            continue
        if len(arms) == 1:
            reason = f"no other variant than {baseline.name} of the same workload on this machine"
            left_out.append(LeftOut(tuple(m.run for m in arms[baseline]), reason))
        wrong = Arm(baseline, tuple(arms[baseline])).parity
        if wrong and wrong.verdict == "differs":
            every = tuple(m.run for runs in arms.values() for m in runs)
            reason = f"the results of the baseline {baseline.name} are wrong: {wrong.text}"
            left_out.append(LeftOut(every, reason))
            continue
        for variant, runs in arms.items():
            if variant == baseline:
                continue
            pair = _pair(Arm(baseline, tuple(arms[baseline])), Arm(variant, tuple(runs)))
            if pair.candidate.parity and pair.candidate.parity.verdict == "differs":
                left_out.append(LeftOut(tuple(m.run for m in runs), _wrong_text(pair)))
            else:
                pairs.append(pair)
    pairs.sort(key=lambda pair: pair.candidate.runs[0].run.number)
    return Comparisons(tuple(pairs), tuple(left_out))


def _pair(baseline: Arm, candidate: Arm) -> Comparison:
    run = candidate.runs[0].run
    environment = run.environment
    return Comparison(
        workload=run.spec.workload,
        device=run.spec.device,
        machine=run.machine,
        machine_id=environment.machine_id if environment else "",
        torch=environment.torch if environment else "",
        baseline=baseline,
        candidate=candidate,
    )


def _wrong_text(pair: Comparison) -> str:
    """Why a variant whose results differ has no speedup: its two times, and by how much."""
    parity = pair.candidate.parity
    assert parity is not None
    return (
        f"its results differ from eager's, so no speedup is formed: {parity.text} Its "
        f"{pair.unit} takes {seconds_text(pair.candidate.steady_seconds)}, that of "
        f"{pair.baseline.variant.name} {seconds_text(pair.baseline.steady_seconds)}"
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


def _conditions(run: Run) -> dict[str, object]:
    """All that must agree before a ratio is formed, by the name a person is told."""
    conditions: dict[str, object] = dict(run.spec.workload)
    conditions["device"] = run.spec.device
    if run.environment:
        conditions["machine"] = (run.environment.machine, run.environment.machine_id)
        conditions["device_name"] = run.environment.device_name
        conditions["torch"] = run.environment.torch
        conditions["threads in use"] = run.environment.threads
    if run.prepared:
        conditions["parameters"] = run.prepared.parameters
        conditions["model file"] = run.prepared.model_sha256
    return conditions


def differences(baseline: Run, candidate: Run) -> Mapping[str, tuple[object, object]]:
    """What two runs differ in beside the variant: empty when a ratio may be formed."""
    ours, theirs = _conditions(candidate), _conditions(baseline)
    return {
        name: (ours.get(name), theirs.get(name))
        for name in {**ours, **theirs}
        if ours.get(name) != theirs.get(name)
    }
