"""A cause: one reason for the time that a comparison shows; and the case that causes are read from.

`bench_core.diagnosis` holds the list of all kinds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from bench_core.comparison import EAGER, Comparison
from bench_core.measured import Arm, Measured, cache_found
from bench_core.remedies import Remedy, of_its_workload, remedy
from bench_core.spec import COMPILES
from bench_core.time_parts import Ceilings, Parts, ceilings, parts, step_shares

LARGER_BATCH = 4

Kind = Literal[
    "data wait",
    "library kernels",
    "optimizer",
    "copies",
    "evaluation",
    "start-up",
    "graph breaks",
    "recompiles",
    "ragged batch",
    "cache state",
    "CUDA graphs",
    "launch-bound",
    "threads",
    "TF32",
]


@dataclass(frozen=True)
class Cause:
    """One reason. `seconds`: what it would change of a mean epoch (iteration) at most, None where
    nothing can be said; what is paid once is spread over what was measured.

    `title`, `text` and `next_step` may hold words of a user's files: never Markdown.
    """

    kind: Kind
    title: str
    text: str
    sure: Literal["measured", "estimate", "not priced"]
    seconds: float | None
    next_step: str
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True)
class Case:
    """What the causes are read from, each computed once."""

    pair: Comparison
    others: tuple[Measured, ...]

    @cached_property
    def eager(self) -> Arm | None:
        """The arm whose steps were profiled: the baseline, or eager runs of the same workload."""
        for arm in (self.pair.baseline, self.pair.candidate):
            if arm.variant == EAGER:
                return arm
        alike = [
            one
            for one in of_its_workload(self.others, self.pair)
            if one.run.spec.variant == EAGER and one.steady.median_seconds is not None
        ]
        return Arm(EAGER, tuple(alike)) if alike else None

    @cached_property
    def shares(self) -> dict[str, float]:
        return (step_shares(self.eager) if self.eager else None) or {}

    @cached_property
    def ceilings(self) -> Ceilings:
        return ceilings(self.eager or self.pair.baseline)

    @cached_property
    def before(self) -> Parts:
        return parts(self.pair.baseline)

    @cached_property
    def after(self) -> Parts:
        return parts(self.pair.candidate)

    @cached_property
    def compiled(self) -> list[Measured]:
        """The candidate's runs where torch.compile made them, those from the shown start first."""
        arm = self.pair.candidate
        if arm.variant.execution not in COMPILES:
            return []
        return sorted(arm.runs, key=lambda one: cache_found(one.run) != arm.start_shown)

    @property
    def compile_alone(self) -> bool:
        """Whether torch.compile is all that the arms differ in.

        Another precision or layout makes other kernels of the libraries'.
        """
        return self.pair.axis == ("variant",) and self.pair.candidate.variant.execution == "compile"

    @property
    def an_epoch(self) -> str:
        return f"an {self.pair.unit}"

    def remedy(self, name: str, **changes: Any) -> tuple[Remedy, ...]:
        made = remedy(self.pair, name, self.others, **changes)
        return (made,) if made else ()

    def larger_batch(self) -> tuple[Remedy, ...]:
        size = LARGER_BATCH * self.pair.workload.batch_size
        if self.pair.workload.task == "infer":  # its samples follow from the batch
            return self.remedy(f"batch {size}", batch_size=size, samples=size)
        return self.remedy(f"batch {size}", batch_size=size)


def percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"
