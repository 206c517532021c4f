"""What is stored, held against a claim's conditions: which runs and comparisons count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from bench_core.claims import Claim
from bench_core.comparison import COMPILE, EAGER, Comparison
from bench_core.measured import Measured, measure
from bench_core.pairing import comparisons
from bench_core.run import NOT_STATED, Run
from bench_core.units import count_text

Status = Literal["holds here", "does not hold here", "not measured"]
STATUSES: tuple[Status, ...] = get_args(Status)

# What is named in one sentence; the rest is counted.
MOST_NAMED = 4
# These may be the compiler's doing. The others say something of the machine, or of how long the run
# was given.
CRASHES = ("compile error", "graph break", "model error", "error")


@dataclass(frozen=True)
class Judgement:
    """What is stored, beside the claim. Plain text: it may hold words from files.

    `ours` is our figure in a sentence, `conditions` what it was measured under, or what the nearest
    comparison differs in. `pairs` and `runs` are what it rests on.
    """

    claim: Claim
    status: Status
    ours: str
    conditions: str = ""
    pairs: tuple[Comparison, ...] = ()
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """Runs with what can be said of them, and their comparisons against eager.

    `tested` are the same runs with the testing after each epoch counted.
    """

    measured: tuple[Measured, ...]
    pairs: tuple[Comparison, ...]
    tested: tuple[Measured, ...] = ()

    @classmethod
    def of(cls, measured: Iterable[Measured], tested: Iterable[Measured] | None = None) -> Evidence:
        """Without `tested` these are found out here, which takes a while for many runs."""
        kept = tuple(measured)
        if tested is None:
            tested = (
                one
                if one.run.spec.workload.evaluate == "none"
                else measure(one.run, one.epochs, evaluation=True)
                for one in kept
            )
        return cls(kept, comparisons(kept).pairs, tuple(tested))

    @cached_property
    def with_testing(self) -> Evidence:
        if all(one.run.spec.workload.evaluate == "none" for one in self.measured):
            return self
        return Evidence(self.tested, comparisons(self.tested).pairs, self.tested)

    def under(self, claim: Claim) -> Evidence:
        """What agrees with the claim's conditions."""
        return Evidence(
            tuple(one for one in self.measured if not differences(claim, one.run)),
            tuple(
                pair
                for pair in self.pairs
                if pair.candidate.variant == claim.variant
                and not differences(claim, pair.candidate.runs[0].run)
            ),
        )

    @property
    def compiled(self) -> list[Measured]:
        """Runs of compile that got somewhere, or crashed where eager ran the same."""
        ran = {
            (one.run.spec.workload, one.run.machine)
            for one in self.measured
            if one.run.spec.variant == EAGER and one.epochs
        }
        return [
            one
            for one in self.measured
            if one.run.spec.variant.arm == COMPILE
            and (
                one.run.failure in CRASHES and (one.run.spec.workload, one.run.machine) in ran
                if one.run.status == "failed"
                else one.epochs
            )
        ]


# Conditions


def differences(claim: Claim, run: Run) -> dict[str, tuple[str, str]]:
    """What the run differs in from the claim's conditions: by name the run's and the claim's."""
    work, ran = run.spec.workload, run.environment
    device = "CPU" if run.spec.device == "cpu" else (ran.device_name if ran else run.spec.device)
    flags = (ran and ran.cpu_isa) or ""
    # By the name of the fact: how it is called, the run's value, the claim's, whether they agree.
    conditions: dict[str, tuple[str, object, Sequence[object], bool]] = {
        "task": ("task", work.task, [claim.task], claim.task in ("any", work.task)),
        "backward": ("backward", work.backward, [False], not work.backward),
        "model": ("model", work.model, claim.models, claim.takes_model(work.model)),
        "device_name": (
            "device",
            device,
            claim.devices,
            claim.takes_device(run.spec.device, (ran and ran.device_name) or ""),
        ),
        "cpu_isa": ("vector instructions", flags, claim.isa, claim.takes_isa(flags)),
        **{
            name: (name.replace("_", " "), ours, wanted, not wanted or ours in wanted)
            for name, ours, wanted in (
                ("precision", work.precision, claim.precisions),
                ("image_size", work.image_size, claim.image_sizes),
                ("batch_size", work.batch_size, claim.batch_sizes),
                (
                    "compile_in_grad_mode",
                    work.compile_in_grad_mode,
                    [True] * claim.compiles_in_grad_mode,
                ),
            )
        },
    }
    return {
        name: (
            NOT_STATED if fact in run.unstated else str(ours),
            " or ".join(map(str, wanted)),
        )
        for fact, (name, ours, wanted, agree) in conditions.items()
        if not agree or (fact in run.unstated and wanted and "any" not in wanted)
    }


def conditions_text(pairs: Sequence[Comparison]) -> str:
    """What the pairs were measured under: `T4, batch 16, torch 2.14.1, 1 000 samples an epoch`."""
    sizes = sorted({pair.workload.batch_size for pair in pairs})
    samples = sorted({pair.workload.samples for pair in pairs if pair.unit == "epoch"})
    facts = [
        few(list(dict.fromkeys(_machine(pair) for pair in pairs))),
        f"batch {few(list(map(str, sizes)))}" if sizes else "",
        few(list(dict.fromkeys(f"torch {pair.torch}" for pair in pairs if pair.torch))),
        f"{few([count_text(count) for count in samples])} samples an epoch" if samples else "",
    ]
    return ", ".join(filter(None, facts))


def _machine(pair: Comparison) -> str:
    ran = pair.candidate.runs[0].run.environment
    if not (ran and ran.device_name) or pair.device == "cpu" or pair.machine in ran.device_name:
        return pair.machine
    return f"{pair.machine} ({ran.device_name})"


def few(words: Sequence[str], between: str = ", ") -> str:
    """The first of them, and how many more there are: `8, 16 and 32`, `a; b; c and 2 more`."""
    rest = len(words) - MOST_NAMED
    if rest > 0:
        return f"{between.join(words[: MOST_NAMED - 1])} and {rest + 1} more"
    if between != ", " or len(words) < 2:
        return between.join(words)
    return f"{between.join(words[:-1])} and {words[-1]}"
