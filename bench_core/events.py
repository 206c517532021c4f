"""What a measuring process reports: one JSON line an event, on its real stdout.

The worker's side of the talk is plain words on the child's stdin: first the RunSpec as one line,
then `go` for each epoch, at last `stop` (end of input means the same). Seconds are wall seconds
unless a name says otherwise; offsets count from the start of the epoch they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from bench_core.spec import Frozen, RunSpec

# One word for each way a run can fail; `failed` runs carry one of them and a sentence.
Failure = Literal[
    "out of memory",
    "timed out",
    "killed",
    "compiler missing",
    "compile error",
    "graph break",
    "model error",
    "data missing",
    "device missing",
    "nan loss",
    "error",
]
Phase = Literal[
    "starting",
    "waiting",
    "environment",
    "data",
    "model",
    "priming",
    "epoch",
    "after timing",
]


class Environment(Frozen):
    """Where the run happens, read in the process that measures. Bytes and MHz as named.

    A measuring process states all but what its kind of device lacks. Of an imported run nothing
    else than the machine may be known.
    """

    event: Literal["environment"] = "environment"
    machine: str
    machine_id: str
    device_name: str | None = None
    compute_capability: str | None = None
    multiprocessors: int | None = None
    device_memory_bytes: int | None = None
    cuda: str | None = None
    cudnn: str | None = None
    driver: str | None = None
    cpu_name: str | None = None
    cpu_cores: int | None = None
    cpu_affinity: int | None = None
    cpu_isa: str | None = None
    memory_bytes: int | None = None
    torch: str | None = None
    torchvision: str | None = None
    python: str | None = None
    os: str | None = None
    threads: int | None = None
    tf32_convolution: bool | None = None
    tf32_matmul: bool | None = None
    compiler: str | None = None
    bench_version: str | None = None


class PhaseStarted(Frozen):
    event: Literal["phase"] = "phase"
    phase: Phase
    epoch: int | None = None


class Prepared(Frozen):
    """Model and data stand on the device; the next `go` starts epoch 1.

    `execution_seconds` went into making the variant before its first call: tracing, freezing,
    exporting. torch.compile does its work in the first call.
    """

    event: Literal["prepared"] = "prepared"
    parameters: int
    weights: str
    model_sha256: str | None = None
    steps_per_epoch: int
    remainder: int
    setup_seconds: float
    execution_seconds: float = 0.0


class Primed(Frozen):
    """The warm cache was filled by an untimed epoch of the same compile."""

    event: Literal["primed"] = "primed"
    seconds: float


class CompileStarted(Frozen):
    event: Literal["compile_started"] = "compile_started"
    trigger: str


class CompileWindow(Frozen):
    """One stay inside the compiler, bounded by its own start and end callbacks.

    `iteration` is its index in the block's `step_seconds`, in inference only.
    """

    event: Literal["compile_window"] = "compile_window"
    trigger: str
    offset_seconds: float
    seconds: float
    iteration: int | None = None


class StepSummary(Frozen):
    """What a results file keeps of a training epoch's single steps. Seconds."""

    count: int
    sum: float
    min: float
    p5: float
    p50: float
    p95: float
    max: float


class Epoch(Frozen):
    """One pass over the data. `wall_seconds` excludes the evaluation.

    `step_seconds` has one entry a step (forward, backward, optimiser, copy to the device),
    without the wait for data before it; those waits add up to `data_wait_seconds`.

    In inference it is a block of iterations: as many as fit into about half a second, and
    `step_seconds` are their latencies by the wall clock, the device's work waited for. On a GPU
    `device_seconds` are the same iterations by the device's own events.

    `steps` stands in an imported epoch whose file sums its steps up instead of naming them.
    """

    event: Literal["epoch"] = "epoch"
    epoch: int
    started_at: float
    wall_seconds: float
    data_wait_seconds: float
    compile_seconds: float
    compile_windows: tuple[CompileWindow, ...] = ()
    step_seconds: tuple[float, ...]
    samples: int
    loss: float | None
    evaluation_seconds: float | None = None
    evaluation_compile_seconds: float | None = None
    accuracy: float | None = None
    peak_memory_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    foreign_cpu_share: float | None = None
    device_seconds: tuple[float, ...] = ()
    steps: StepSummary | None = None


class Activity(Frozen):
    """What the compiler did in this process so far (training; evaluation's part is apart)."""

    event: Literal["activity"] = "activity"
    graphs: int = 0
    frames_compiled: int = 0
    frames_total: int = 0
    graph_breaks: tuple[str, ...] = ()
    recompiles: tuple[str, ...] = ()
    recompile_limit_hit: bool = False
    cache_hits: int = 0
    cache_misses: int = 0
    cache_bypasses: int = 0
    autograd_cache_hits: int = 0
    autograd_cache_misses: int = 0
    kernels: int | None = None
    cudagraph_skips: int = 0
    compile_seconds: float = 0.0
    phase_seconds: dict[str, float] = Field(default_factory=dict)


def covered(stretches: Iterable[tuple[float, float]]) -> float:
    """Length of what is covered by at least one of (start, end): windows and kernels overlap."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(stretches):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def measured_by(spec: RunSpec, epoch: Epoch) -> int:
    """What an event adds to `RunSpec.is_done_after`: an epoch, or its iterations."""
    return 1 if spec.workload.task == "train" else len(epoch.step_seconds)


class Finding(Frozen):
    """What was asked for beside what really happened, each a few words."""

    asked: str
    got: str
    met: bool

    @property
    def text(self) -> str:
        """`mode max-autotune: too few multiprocessors (not met)`."""
        return f"{self.asked}: {self.got}{'' if self.met else ' (not met)'}"


class Parity(Frozen):
    """Whether the variant computes what eager computes, from the same state and the same batch.

    Differences are relative to eager: of the loss, of the norm of all gradients (median over
    batches), of the outputs. `closer to fp64 than eager`: they disagree, and a run in fp64 sides
    with the variant. `text` says it in a sentence; for `not checked` it is the reason.
    """

    verdict: Literal["same", "closer to fp64 than eager", "differs", "not checked"]
    text: str
    loss_difference: float | None = None
    gradient_difference: float | None = None
    output_difference: float | None = None


class GraphBreak(Frozen):
    """Where Dynamo had to end a graph: `place` is `model.py:7 in forward`, empty if not known."""

    reason: str
    place: str
    times: int


class Aftermath(Frozen):
    """Read when the timing is over. Shares are parts of the profiled steps' device time.

    `device_busy_seconds` is how long the device worked in a mean profiled step: a GPU's kernels, a
    CPU's operators. `breaks` are those of the whole process, an evaluation's included.
    """

    event: Literal["aftermath"] = "aftermath"
    loader_only_seconds: float | None = None
    shares: dict[str, float] | None = None
    profiled_step_seconds: float | None = None
    device_busy_seconds: float | None = None
    breaks: tuple[GraphBreak, ...] = ()
    gpu: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    effective: tuple[Finding, ...] | None = None
    parity: Parity | None = None


class Failed(Frozen):
    event: Literal["failed"] = "failed"
    failure: Failure
    reason: str
    phase: str
    traceback: str = ""


class Finished(Frozen):
    event: Literal["finished"] = "finished"


Event = Annotated[
    Environment
    | PhaseStarted
    | Prepared
    | Primed
    | CompileStarted
    | CompileWindow
    | Epoch
    | Activity
    | Aftermath
    | Failed
    | Finished,
    Field(discriminator="event"),
]
_events: TypeAdapter[Event] = TypeAdapter(Event)


class NotAnEvent(ValueError):
    """A line on the event stream that is no event: a library printed where it should not."""


def parse(line: str | bytes) -> Event:
    """One line as an event. Raises NotAnEvent with the start of the line."""
    try:
        return _events.validate_json(line)
    except (ValidationError, ValueError) as error:
        raise NotAnEvent(f"not an event: {line[:200]!r}") from error
