"""The answer that a comparison gives: two arms, their speedup, break-even, outlook, and the words.

Pure: arms in, numbers and sentences out. Which runs may be compared is pairing's to say.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from bench_core import stats
from bench_core.measured import Arm, Measured
from bench_core.run import NOT_STATED
from bench_core.spec import Cache, Variant, Workload
from bench_core.units import (
    NO_BREAK,
    count_text,
    counted,
    duration_text,
    percent_interval_text,
    percent_text,
    seconds_text,
    value_text,
)

EAGER = Variant()
COMPILE = Variant(execution="compile")
# Equal processes on a quiet machine differ by about this much.
SCATTER = 0.02
# So far cold starts are taken to scatter where one was measured: five cold compiles of small_cnn in
# fresh processes on two quiet cores took 29.6 to 33.4 s, 4.3 % by their standard deviation.
START_SCATTER = 0.05
# How long somebody trains, or serves, who asks what it saves.
LONG_RUN = {"epoch": 100, "iteration": 10_000}


@dataclass(frozen=True)
class Comparison:
    """A baseline and a candidate arm that differ in what is compared alone.

    `workload` is the candidate's. `axis` names what differs on purpose, `overridden` what differs
    besides and was accepted by a person, `unstated` facts that neither side's source states.
    `floor` is how far equal arms may lie apart on this machine and device (0.02: 2 %), where that
    was measured.
    """

    workload: Workload
    device: str
    machine: str
    machine_id: str
    torch: str | None
    baseline: Arm
    candidate: Arm
    axis: tuple[str, ...] = ("variant",)
    floor: float | None = None
    overridden: tuple[str, ...] = ()
    unstated: tuple[str, ...] = ()

    @property
    def unit(self) -> Literal["epoch", "iteration"]:
        """What the seconds are of, and what a break-even counts."""
        return self.workload.unit

    def states(self, *names: str) -> bool:
        """Whether every run of both arms states these facts."""
        runs = (*self.baseline.runs, *self.candidate.runs)
        return all(one.run.states(*names) for one in runs)

    @property
    def words(self) -> list[str]:
        """The workload's, but for those that no source states."""
        return self.candidate.runs[0].run.words

    @cached_property
    def took_turns(self) -> tuple[tuple[Measured, Measured], ...]:
        """Baseline and candidate runs that were measured side by side, by turns."""
        before = {m.run.round: m for m in self.baseline.runs if m.run.round}
        return tuple((before[m.run.round], m) for m in self.candidate.runs if m.run.round in before)

    @cached_property
    def until_sure(self) -> bool:
        """Whether the width of the interval decided how many runs there are."""
        runs = (*self.baseline.runs, *self.candidate.runs)
        return any(m.run.spec.measurement.until_sure for m in runs)

    @cached_property
    def speedup(self) -> stats.Speedup:
        """Over the pairs where the arms took turns often enough, else over all runs."""
        arms = self.baseline.medians, self.candidate.medians
        if len(self.took_turns) >= stats.RUNS_FOR_A_VERDICT:
            before, after = (
                [m.steady.median_seconds or 0.0 for m in side]
                for side in zip(*self.took_turns, strict=True)
            )
            return stats.paired_speedup(before, after, until_sure=self.until_sure)
        return stats.speedup(*arms, until_sure=self.until_sure)

    @cached_property
    def band(self) -> stats.Band | None:
        """For a first look: how far single times move the ratio. Not an interval over runs.

        None where an arm's source states no single times.
        """
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
        return stats.first_look_band(arms[0], arms[1]) if all(arms) else None

    def baseline_start(self, cache: Cache | None) -> Cache | None:
        """The start of the baseline beside a candidate from `cache`: alike, where it compiles too.

        None is any, of a baseline without a cache.
        """
        return (cache or "cold") if self.baseline.variant.cache else None

    def break_even(self, cache: Cache) -> stats.BreakEven | None:
        """From which epoch or iteration the candidate is ahead when it starts from `cache`.

        A variant that compiles nothing has no cache, so its start is neither cold nor warm.
        """
        before = self.baseline.excess_seconds(self.baseline_start(cache))
        after = self.candidate.excess_seconds(cache if self.candidate.variant.cache else None)
        if before is None or after is None:
            return None
        epochs = min(m.count for arm in (self.baseline, self.candidate) for m in arm.runs)
        # Of stated times no epoch was counted: what they promise is projected wherever it lies.
        return stats.break_even(
            before, after, self.baseline.steady_seconds, self.candidate.steady_seconds, epochs
        )

    def outlook(self, cache: Cache | None) -> stats.Outlook | None:
        """What the runs leave open about gain and start-up from `cache`; None for a first look."""
        before = self.baseline.excesses(self.baseline_start(cache))
        after = self.candidate.excesses(cache if self.candidate.variant.cache else None)
        if not before or not after:
            return None
        return stats.outlook(
            self.speedup, self.baseline.steady_seconds, before, after, START_SCATTER
        )

    @cached_property
    def first_start(self) -> Cache | None:
        """The dearest start that was measured: cold, else without a cache, else warm."""
        starts: tuple[Cache, ...] = ("cold", "off", "warm")
        return next((cache for cache in starts if self.candidate.excesses(cache)), None)

    def break_even_interval(self, cache: Cache) -> stats.Band | None:
        """The 95 % interval of the break-even: 0 is at once, infinity never. None: a first look."""
        view = self.outlook(cache)
        return stats.break_even_interval(view) if view else None

    @cached_property
    def break_even_cold(self) -> stats.BreakEven | None:
        """From an empty cache, or without any, which costs a start at least as much."""
        return self.break_even("cold") or self.break_even("off")

    @cached_property
    def break_even_warm(self) -> stats.BreakEven | None:
        return self.break_even("warm") if self.candidate.variant.cache else None

    @property
    def below_floor(self) -> bool:
        """Whether equal arms may lie as far apart on this machine and device as these two."""
        return self.floor is not None and abs(math.log(self.speedup.ratio)) <= self.floor

    @property
    def shows_difference(self) -> bool:
        return self.speedup.verdict in ("faster", "slower") and not self.below_floor

    @property
    def verdict(self) -> stats.Verdict | None:
        """The speedup's, but what equal arms may lie apart is no difference; None: a first look."""
        shown = self.speedup.verdict is None or self.shows_difference
        return self.speedup.verdict if shown else "no difference shown"

    @property
    def differs(self) -> bool:
        """A difference is shown; in a first look, seen beyond what equal processes scatter."""
        if self.speedup.kind == "first look":
            band = self.band
            outside = (band is None or not band.low <= 1 <= band.high) and not self.below_floor
            # Thousands of latencies narrow the band below what the next process would change.
            return outside and abs(math.log(self.speedup.ratio)) > SCATTER
        return self.shows_difference

    @property
    def verdict_text(self) -> str:
        """`8.4 % faster`, `no difference shown`, or what a first look saw."""
        speedup = self.speedup
        if speedup.kind == "first look":
            if not self.differs:
                return "first look: no difference seen"
            # The band knows nothing of other processes, so its digits would claim too much.
            low, high = speedup.ratio * (1 - SCATTER), speedup.ratio * (1 + SCATTER)
            return f"first look: {percent_text(speedup.ratio, low, high)}"
        if not self.shows_difference:
            return "no difference shown"
        return percent_text(speedup.ratio, speedup.low, speedup.high)

    @property
    def model_text(self) -> str:
        """`resnet50`, `resnet50 (bf16, channels_last)`: with what both arms have of the unusual."""
        model = self.workload.model_name
        unusual = [w for name, w in self.workload.unusual.items() if name not in self.axis]
        return f"{model} ({', '.join(unusual)})" if unusual else model

    @property
    def headline(self) -> str:
        """The answer in one line that stands alone."""
        if self.axis != ("variant",):
            arm = f", {self.candidate.name} against {self.baseline.name},"
        else:
            arm = "" if self.candidate.variant == COMPILE else f" with {self.candidate.name}"
        model = self.model_text
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
        )
        return " ".join(filter(None, parts))

    @property
    def _interval_text(self) -> str:
        speedup = self.speedup
        if speedup.kind == "first look":
            runs = counted(min(speedup.baseline_runs, speedup.candidate_runs), "run")
            band = self.band
            if band is None:
                return (
                    f"Only {runs} in an arm, without single times: no verdict before "
                    f"{stats.RUNS_FOR_A_VERDICT}."
                )
            within = percent_interval_text(band.low, band.high)
            if self.differs and not within.endswith("fast"):
                within += " faster" if band.low > 1 else " slower"
            return (
                f"Only {runs} in an arm: no verdict before {stats.RUNS_FOR_A_VERDICT}. "
                f"Within these runs: {within}."
            )
        interval = percent_interval_text(speedup.low, speedup.high)
        if speedup.verdict == "no difference shown":
            return f"{interval[0].upper()}{interval[1:]} (95 %)."
        if self.below_floor and self.floor is not None:
            side = "faster" if speedup.ratio > 1 else "slower"
            return (
                f"{interval} {side} (95 %), but equal arms may "
                f"lie {floor_text(self.floor)} apart on this machine."
            )
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
                notes = [self._ends_text("cold" if cold else "warm")]
                notes += ["projected"] if start.projected else []
                within = ", ".join(filter(None, notes))
                text = f"Pays off from {self._place(start)}" + (f" ({within})" if within else "")
        if cold is None:
            text += " when the compile cache is warm"
        elif warm and warm.kind in ("at once", "epoch") and warm != cold:
            from_warm = "at once" if warm.kind == "at once" else f"from {self._place(warm)}"
            text += f", or {from_warm} when the compile cache is warm"
        return f"{text}."

    def _ends_text(self, cache: Cache) -> str:
        """`95 %: 11 to 19`, `95 %: 11 to never`; nothing for a first look."""
        ends = self.break_even_interval(cache)
        if cache == "cold" and ends is None:
            ends = self.break_even_interval("off")
        text = ends_text(ends) if ends else ""
        return f"95{NO_BREAK}%: {text}" if " to " in text else ""  # else it is the number itself

    def _place(self, even: stats.BreakEven) -> str:
        number = float(even.epoch or 0)
        return f"{self.unit} {count_text(two_digits(number) if even.projected else number)}"

    @property
    def _seconds_text(self) -> str:
        return (
            f"A steady {self.unit} takes {seconds_text(self.candidate.steady_seconds)} against "
            f"{seconds_text(self.baseline.steady_seconds)}."
        )

    @property
    def unmet_text(self) -> str:
        """What the candidate asked for and did not get."""
        texts = [f"Asked for {f.asked}, got: {f.got}." for f in self.candidate.unmet]
        return " ".join(texts)

    @property
    def saving_text(self) -> str:
        """What it comes to for who trains or serves as long as LONG_RUN."""
        return self.saving_over(LONG_RUN[self.unit])

    def seconds_over(self, count: int) -> tuple[float, float] | None:
        """Wall seconds of so many epochs or iterations of both arms from the dearest start."""
        start = self.first_start
        before = self.baseline.excess_seconds(self.baseline_start(start))
        after = self.candidate.excess_seconds(start)
        if before is None or after is None:
            return None
        return (
            before + count * self.baseline.steady_seconds,
            after + count * self.candidate.steady_seconds,
        )

    def saving_over(self, count: int) -> str:
        """`Over 100 epochs it saves 7 min 26 s (7 min 3 s to 7 min 49 s) of 1 h 50 min.`

        Without the interval for a first look; empty where no start is known.
        """
        seconds = self.seconds_over(count)
        if seconds is None:
            return ""
        before, after = seconds
        over, within = f"Over {counted(count, self.unit)} it", ""
        view = self.outlook(self.first_start)
        if view is not None:
            ends = stats.saved_after(view, count)
            if ends.low <= 0 <= ends.high:
                costs, saves = duration_text(-ends.low), duration_text(ends.high)
                return f"{over} may cost {costs} or save {saves} of {duration_text(before)} (95 %)."
            near, far = sorted((abs(ends.low), abs(ends.high)))
            within = f" ({duration_text(near)} to {duration_text(far)})"
        verb, of = ("saves", "of") if before >= after else ("costs", "on top of")
        saved = duration_text(abs(before - after))
        return f"{over} {verb} {saved}{within} {of} {duration_text(before)}."


def told_apart(pairs: Sequence[Comparison]) -> list[str]:
    """What tells each pair from others of its name, machine, batch and arms: `image_size 224`."""
    alike: dict[tuple[object, ...], list[dict[str, object]]] = defaultdict(list)
    rows = []
    for pair in pairs:
        run = pair.candidate.runs[0].run
        of = {**vars(pair.workload), "device": pair.device, "torch": pair.torch}
        facts = {name: value for name, value in of.items() if name not in pair.axis}
        facts |= {name: NOT_STATED for name in facts if not run.states(name)}
        name = (pair.model_text, pair.machine, pair.workload.batch_size, pair.candidate.name)
        alike[name].append(facts)
        rows.append((facts, alike[name]))
    return [
        ", ".join(
            f"{name} {value_text(value)}"
            for name, value in facts.items()
            if any(other.get(name) != value for other in others)
        )
        for facts, others in rows
    ]


def floor_text(floor: float) -> str:
    """A noise floor, which is a logarithm, in per cent: `0.9 %`."""
    return f"{100 * math.expm1(floor):.1f}{NO_BREAK}%"


def two_digits(number: float) -> float:
    """What lies far ahead is not known to the last digit."""
    return float(f"{number:.1e}") if number >= 100 else number


def ends_text(ends: stats.Band, kind: str = "epoch") -> str:
    """Ends of a break-even as people read them: `11 to 19`, `at once to 3`, `410 to never`.

    `kind` is the break-even's: ahead until 0 is `never ahead`, until infinity `for good`, and what
    lies within an epoch is ahead until the end of the one before it.
    """
    ahead = kind == "ahead until"
    at_once, never = ("never ahead", "for good") if ahead else ("at once", "never")

    def end(exact: float) -> str:
        if math.isinf(exact):
            return never
        whole = math.floor(exact) if ahead else math.ceil(exact)
        return count_text(two_digits(whole)) if whole > 0 else at_once

    low, high = end(ends.low), end(ends.high)
    return low if low == high else f"{low} to {high}"
