"""What is kept of one capture: what torch.compile made of a model, stage by stage.

`Capture` is small and read at once; graphs, code and kernels are files beside it (captures.py).
All times are seconds. A part that failed says why, and what was reached before it stands.
"""

from __future__ import annotations

from typing import Literal

from bench_core.events import Environment, Failed
from bench_core.graph import Part, Stage
from bench_core.spec import Frozen, RunSpec

# The parts of a capture in their order, each in a process of its own. `graphs` builds no kernel;
# `cost` does, from an empty cache, and profiles steady steps; `warm` starts from the filled cache.
PartName = Literal["graphs", "cost", "warm"]
PARTS: tuple[PartName, ...] = ("graphs", "cost", "warm")
FX_DRAWING = "torch.fx's own drawing of a graph"  # as a Missing calls it


class GraphFile(Frozen):
    """Where a graph is kept, and how large it is.

    `text` is torch's own printout of it, `drawing` the DOT of torch.fx's FxGraphDrawer, if any.
    """

    stage: Stage
    part: Part
    number: int
    file: str
    text: str = ""
    drawing: str = ""
    nodes: int
    operators: int


class CodeFile(Frozen):
    """One generated module, as TorchInductor wrote it: kernels, then the calls in their order."""

    number: int
    part: Part
    file: str
    kernels: int
    kernel_calls: int
    extern_calls: int
    lines: int


class Break(Frozen):
    """Why Dynamo had to end a graph, and at which line of the user's: `model.py:7`."""

    reason: str
    place: str = ""
    function: str = ""
    line: str = ""


class Frame(Frozen):
    """One graph of Dynamo's, in the order of the calls. `breaks` are those that ended it."""

    number: int
    compile_id: str = ""
    function: str = ""
    place: str = ""
    nodes: int
    operators: int
    guards: int | None = None
    breaks: tuple[Break, ...] = ()


class Decomposition(Frozen):
    """An operator that was replaced by others while AOTAutograd traced.

    `source`: whose definition it is: PrimTorch's (`torch._refs`, `torch._decomp`, ...) or
    TorchInductor's own. `made`: the operators that stood in the graph instead of `calls`.
    """

    operator: str
    source: str
    calls: int
    made: int
    seconds: float


class Kernel(Frozen):
    """A generated kernel (`C++`, `Triton`), or one call of a library (`extern`).

    A kernel has one entry, however often it is called. `first_line` and `last_line` are those of
    its definition in the code file, or the line of the call; `calls` are the lines of its calls.
    `nodes` are those of after_fusion, `origins` of after_passes. Seconds are of a steady step, all
    calls together. A kernel may compute parts of several modules, so eager's time stands beside
    whole modules only: `eager_seconds` is eager's for all modules, in the same direction, that the
    kernel and those it shares modules with compute; `together` says how many kernels these are,
    itself included, and `together_seconds` is their time.
    """

    number: int
    part: Part
    name: str
    kind: Literal["C++", "Triton", "extern"]
    file: str
    first_line: int
    last_line: int
    calls: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    seconds: float | None = None
    eager_seconds: float | None = None
    together_seconds: float | None = None
    together: int = 1


class Phase(Frozen):
    """A component's stretch of the first call, counted from its start; it may come back later.

    `seconds` are its own, without what stands within the stretch as another phase: the seconds of
    all phases add up to the first call's.
    """

    name: str
    began_seconds: float
    ended_seconds: float
    seconds: float


class Timeline(Frozen):
    """The first call from its start to its end, from an empty or a filled cache."""

    cache: Literal["cold", "warm"]
    first_call_seconds: float
    phases: tuple[Phase, ...] = ()


class ModuleCost(Frozen):
    """Seconds a steady step spends in a module in one direction, compiled and in eager mode.

    `seconds` are those in the kernels of Dynamo's graph `number`; eager's are of all graphs. None
    of a kernel means no number; no seconds that one of its kernels there was not timed.
    """

    module: str
    part: Part
    number: int | None = None
    seconds: float | None = None
    eager_seconds: float | None = None


class Cost(Frozen):
    """Where a steady step's time goes: seconds of a step that nobody watches, in estimated shares.

    `step_seconds` and `eager_step_seconds` are medians without a profiler. It slows steps down,
    eager ones most, for more is marked there: so what it finds in `steps` further ones is told as
    a share of these. `kernel_seconds` and `extern_seconds` are the parts in generated code and in
    libraries it calls; the rest is outside of the compiled code or between its kernels: loss,
    optimiser, Python. `foreign_cpu_share` is what other programs used of the machine's CPUs
    meanwhile, 0 to 1; None where nobody could say.
    """

    steps: int
    step_seconds: float
    eager_step_seconds: float
    kernel_seconds: float
    extern_seconds: float
    foreign_cpu_share: float | None = None
    modules: tuple[ModuleCost, ...] = ()
    trace: str = ""


class Alternative(Frozen):
    """Another way to capture the same model: did it, in how many graphs, and if not, why."""

    way: str
    captured: bool
    graphs: int = 0
    operators: int | None = None
    reason: str = ""
    place: str = ""


class Missing(Frozen):
    """A stage or a figure that is not there, and why."""

    what: str
    reason: str


class Capture(Frozen):
    """The summary. `parts` names what is done; `failures` what was not reached in a part."""

    key: str
    spec: RunSpec
    torch: str = ""
    captured_at: float = 0.0
    environment: Environment | None = None
    parameters: int = 0
    parts: tuple[PartName, ...] = ()
    failures: dict[PartName, Failed] = {}
    missing: tuple[Missing, ...] = ()
    seconds: dict[PartName, float] = {}
    frames: tuple[Frame, ...] = ()
    graphs: tuple[GraphFile, ...] = ()
    code: tuple[CodeFile, ...] = ()
    ir_nodes_before_fusion: int | None = None
    decompositions: tuple[Decomposition, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    cost: Cost | None = None

    def at(self, stage: Stage, part: Part | None = None) -> list[GraphFile]:
        """The graphs of a stage, in the order of Dynamo's graphs."""
        return [
            graph for graph in self.graphs if graph.stage == stage and part in (None, graph.part)
        ]

    def operators(self, stage: Stage) -> int | None:
        """Operators of all graphs of a stage; None when there is no such graph."""
        found = self.at(stage)
        return sum(graph.operators for graph in found) if found else None

    @property
    def kernels(self) -> int:
        """Generated kernels: definitions in the output code."""
        return sum(code.kernels for code in self.code)

    @property
    def extern_calls(self) -> int:
        return sum(code.extern_calls for code in self.code)

    @property
    def decomposition_seconds(self) -> float:
        """What they took of AOTAutograd's time while the graphs were captured.

        No stretch of a timed first call: a table of decompositions that is watched would change
        the keys of the caches, so they are timed in a process of their own.
        """
        return sum(one.seconds for one in self.decompositions)

    @property
    def graph_breaks(self) -> int:
        return sum(len(frame.breaks) for frame in self.frames)
