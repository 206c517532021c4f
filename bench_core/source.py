"""Where an imported run comes from, and what its source states in the place of single times."""

from __future__ import annotations

from pydantic import Field

from bench_core.spec import Frozen

# Facts in `Run.unstated` that are no field of the spec: whether the device's work was waited for
# before the clock was read, and how far single epochs or calls scatter.
SYNCHRONISED, SPREAD = "synchronised", "spread"
# How `Source.inferred` says it of the samples of an epoch.
STEP_IS_EPOCH = "an epoch is one step here"


class Source(Frozen):
    """The file that a run was read from, and how.

    `file` is its name without folders, `family` the schema it was read by, `line` where the run
    begins in it, `variant` what the file calls the variant. `inferred` says of facts that no column
    states where they come from: `{"precision": "amp in the file's name"}`.
    """

    file: str
    family: str
    line: int | None = None
    variant: str | None = None
    inferred: dict[str, str] = Field(default_factory=dict)

    @property
    def epoch_is_step(self) -> bool:
        """Whether the source times single steps of a training: no pass over any data."""
        return self.inferred.get("samples", "").endswith(STEP_IS_EPOCH)


class Stated(Frozen):
    """What a source states of a run without single times. Seconds and bytes.

    `steady_seconds` is its mean or median time of one epoch or iteration, `start_seconds` what the
    start cost on top (compiling), where it says so.
    """

    steady_seconds: float = Field(gt=0)
    start_seconds: float | None = Field(default=None, ge=0)
    peak_memory_bytes: int | None = Field(default=None, gt=0)
