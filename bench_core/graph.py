"""A graph that the compiler made on its way from Python to kernels: nodes, edges, groups.

Pure data. The capture process prints graphs as JSON (measuring/graphs.py), captures.py keeps them,
graph_picture.py draws them, graph_dot.py writes them as DOT.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal, NamedTuple

from pydantic import Field

from bench_core.spec import Frozen

Stage = Literal["dynamo", "joint", "before_passes", "after_passes", "before_fusion", "after_fusion"]
Part = Literal["forward", "backward", "both"]


class StageWords(NamedTuple):
    """The component that makes the graph, the graph's name, and a sentence for the page."""

    component: str
    title: str
    text: str


# In the order in which they are made.
STAGES: dict[Stage, StageWords] = {
    "dynamo": StageWords(
        "TorchDynamo",
        "Captured",
        "what TorchDynamo read from the Python bytecode: PyTorch's own functions",
    ),
    "joint": StageWords(
        "AOTAutograd",
        "Traced and decomposed",
        "ATen operators after PrimTorch's decompositions; in training forward and backward in one "
        "graph",
    ),
    "before_passes": StageWords(
        "AOTAutograd",
        "Divided",
        "forward and backward apart, as TorchInductor receives them",
    ),
    "after_passes": StageWords(
        "TorchInductor",
        "After the passes",
        "the same operators after TorchInductor's own replacements",
    ),
    "before_fusion": StageWords(
        "TorchInductor",
        "Before fusion",
        "loops and calls of libraries, one for each operator that is left",
    ),
    "after_fusion": StageWords(
        "TorchInductor",
        "After fusion",
        "loops that pass over memory together, and calls of libraries",
    ),
}
# Of Dynamo's and AOTAutograd's graphs; what else is in them is an input, a constant or the output.
OPERATORS = ("call_function", "call_method", "call_module")
# Of TorchInductor's scheduler: a loop, a call of a library, and what needs no code.
SCHEDULED = ("loop", "extern", "nop")


def short_operator(target: str) -> str:
    """`convolution` of `aten.convolution.default`, `relu` of `F.relu`."""
    parts = target.removeprefix("torch.ops.").split(".")
    overloaded = len(parts) == 3 and parts[0] != "torch"
    return parts[1] if overloaded else parts[-1]


_WEIGHT = re.compile(r"l_self_(?:modules_(.+?)_)?(?:parameters|buffers)_(.+?)_+")


def plain_input(name: str) -> str:
    """`features.0.weight` of `l_self_modules_features_modules_0_parameters_weight_`, TorchDynamo's
    name of it; `x` of `l_x_`; any other name as it is."""
    if found := _WEIGHT.fullmatch(name):
        module, weight = found.groups(default="")
        return ".".join(filter(None, (*module.split("_modules_"), weight)))
    return re.sub(r"^l_(.+?)_+$", r"\1", name)


def plain_kernel(name: str) -> str:
    """`batch_norm_relu` of `cpp_fused_batch_norm_relu_1`: what it computes, in the code's words."""
    return re.sub(r"^(cpp|triton_[a-z]+)_fused_+|_\d+$", "", name).strip("_") or name


class Node(Frozen):
    """One node. `op` is torch.fx's word, or for TorchInductor's scheduler one of SCHEDULED.

    `module` is the path of the innermost module, `layer1.0.conv1`; empty where there is none.
    `inputs` are names of nodes of the same graph. `group` names the node of after_fusion that this
    one was fused into, `kernel` the generated kernel; both only for the scheduler's. `members` and
    `origins` name the nodes of before_fusion and of after_passes that it was made from.
    `recomputed`: the backward computes it again instead of having kept it. `place`: `model.py:7`.
    """

    name: str
    op: str
    target: str = ""
    module: str = ""
    inputs: tuple[str, ...] = ()
    group: str = ""
    kernel: str = ""
    members: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    backward: bool = False
    recomputed: bool = False
    place: str = ""

    @property
    def is_operator(self) -> bool:
        return self.op in OPERATORS or self.op in SCHEDULED

    @property
    def extern(self) -> bool:
        """Whether TorchInductor leaves it to a library: convolutions, matrix products."""
        return self.op == "extern"


class Graph(Frozen):
    """One graph at one stage. `number` counts Dynamo's graphs in the order of their capture."""

    stage: Stage
    part: Part = "forward"
    number: int = 0
    nodes: tuple[Node, ...] = Field(default=())

    @property
    def edges(self) -> list[tuple[str, str]]:
        """From the node that makes a value to the one that reads it."""
        return [(name, node.name) for node in self.nodes for name in node.inputs]

    @property
    def operators(self) -> int:
        return sum(node.is_operator for node in self.nodes)

    @property
    def modules(self) -> Counter[str]:
        """Operators by module, in the order of their first one."""
        return Counter(node.module for node in self.nodes if node.is_operator)

    def to_json(self) -> str:
        return self.model_dump_json(exclude_defaults=True)
