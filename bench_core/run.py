"""What is stored of one run. Times are raw; whatever can be computed from them is not here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench_core.events import Activity, Aftermath, Environment, Prepared
from bench_core.source import Source, Stated
from bench_core.spec import RunSpec

Status = Literal["queued", "running", "done", "stopped", "interrupted", "failed"]
ENDED: tuple[Status, ...] = ("done", "stopped", "interrupted", "failed")
# In the place of a fact of `Run.unstated`, wherever people read or choose it.
NOT_STATED = "not stated"


@dataclass(frozen=True, slots=True)
class Run:
    """One row of the store. Times of day are Unix seconds; empty means not known (yet).

    `round` names the runs that took turns, one epoch each; None for a run measured by itself.
    `protocol_note` says why the protocol that was asked for was not kept. `unstated` names the
    facts of the spec and the environment that the source of an imported run does not state: what
    stands there is a default, and no statement. `cell` tells the runs of an experiment apart that
    are not held against each other: its arms and their repeats share one.

    `import_id` names the import that brought a run here; `source` is the file it comes from, and
    `stated` what that says in the place of epochs, for a run that has none.

    `phase` is `waiting` with a `phase_epoch`, the epochs so far, while another arm of its round has
    its turn; without one while another measurement occupies the machine.
    """

    number: int
    id: str
    experiment_id: str
    spec: RunSpec
    status: Status
    failure: str | None
    reason: str | None
    traceback: str | None
    phase: str | None
    phase_epoch: int | None
    phase_since: float | None
    compiling_since: float | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    child_pid: int | None
    child_created: float | None
    priming_seconds: float | None
    environment: Environment | None
    prepared: Prepared | None
    activity: Activity | None
    aftermath: Aftermath | None
    round: str | None = None
    protocol_note: str | None = None
    unstated: tuple[str, ...] = ()
    cell: int | None = None
    import_id: str | None = None
    source: Source | None = None
    stated: Stated | None = None

    @property
    def waits_for_its_turn(self) -> bool:
        return self.status == "running" and self.phase == "waiting" and self.phase_epoch is not None

    @property
    def machine(self) -> str:
        return self.environment.machine if self.environment else ""

    @property
    def by_another_tool(self) -> bool:
        """What this program measures it states in full, another tool's file never does."""
        return bool(self.unstated)

    @property
    def only_a_file_knows_it(self) -> bool:
        """Whether nothing can measure it again: its time is stated, or its model a mere name."""
        return self.stated is not None or self.spec.workload.is_foreign

    def states(self, *names: str) -> bool:
        """Whether all of these facts of the spec are known, not just defaults standing there.

        What a page shows as a fact it asks here first: `cache`, `precision`, `data_wait_seconds`.
        """
        taken = self.source.inferred if self.source else {}
        if not self.unstated and not taken:
            return True  # of thousands of runs, each asked for each field
        return not any(
            name in self.unstated or taken.get(name, "").startswith(NOT_STATED) for name in names
        )

    @property
    def words(self) -> list[str]:
        """The workload's, but for those that its source does not state."""
        work = self.spec.workload
        unknown = {
            word
            for name, word in (("batch_size", work.size_text), ("precision", work.precision))
            if not self.states(name)
        }
        return [word for word in work.words if word not in unknown]

    @property
    def arm_with_cache(self) -> str:
        """The variant's name and, where it is known, the cache that it starts from."""
        variant = self.spec.variant
        return variant.name_with_cache if self.states("cache") else variant.name

    @property
    def title(self) -> str:
        return self._title(self.spec.variant.name)

    @property
    def title_with_cache(self) -> str:
        """Tells a cold start from a warm one."""
        return self._title(self.arm_with_cache)

    def _title(self, variant: str) -> str:
        work = self.spec.workload
        size = [work.size_text] if self.states("batch_size") else []
        return ", ".join([work.model_name, variant, *size])
