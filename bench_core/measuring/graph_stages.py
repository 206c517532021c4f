"""Torch's graphs and TorchInductor's scheduler as plain dicts, as bench_core.graph reads them.

Dicts, since this process knows nothing of the program but its specs and events.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

TORCHS = str(Path(torch.__file__).parent)
LARGEST_TEXT = 2_000_000
Fields = dict[str, Any]


# Graphs of torch.fx


def fx_nodes(graph: Any, made_in_forward: Iterable[str] = ()) -> list[Fields]:
    """The nodes of a torch.fx.Graph in their order.

    `made_in_forward` names the operators of the forward: one of that name in a backward is
    computed again there.
    """
    recomputed = set(made_in_forward)
    return [_fx_node(node, recomputed) for node in graph.nodes]


def _fx_node(node: Any, recomputed: set[str]) -> Fields:
    own, forwards = _module_of(node, "nn_module_stack"), _module_of(node, "fwd_nn_module_stack")
    backward = node.meta.get("partitioner_tag") in ("is_backward", "must_be_in_backward")
    return _without_empty(
        name=node.name,
        op=node.op,
        target=target_name(node.target),
        module=own or forwards,
        inputs=tuple(dict.fromkeys(one.name for one in node.all_input_nodes)),
        backward=backward or bool(forwards and not own),
        recomputed=node.op == "call_function" and node.name in recomputed,
        place=place_of(node.meta.get("stack_trace")),
    )


def _without_empty(**fields: Any) -> Fields:
    return {name: value for name, value in fields.items() if value or name in ("name", "op")}


def target_name(target: Any) -> str:
    """`aten.convolution.default`, `torch.conv2d`, `operator.add`."""
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    name = getattr(target, "__name__", None) or str(target)
    home = getattr(target, "__module__", None) or ""
    home = {"_operator": "operator", "torch.nn.functional": "F"}.get(home, home)
    return f"{home}.{name}" if home else name


def _module_of(node: Any, key: str) -> str:
    """`layer1.0.conv1` of the innermost module that the node was traced in."""
    stack = node.meta.get(key)
    if not stack:
        return ""
    path = list(stack.values())[-1][0]
    return module_path(path)


def module_path(path: str) -> str:
    """What Dynamo calls `L['self'].layer1[0].conv1` and torch.export `layer1.0.conv1`."""
    path = re.sub(r"^L\[['\"]\w+['\"]\]", "", path)
    path = re.sub(r"\._modules\[['\"]([^'\"]+)['\"]\]", r".\1", path)
    path = re.sub(r"\[['\"]?([^'\"\]]+)['\"]?\]", r".\1", path)
    path = re.sub(r"getattr\((.*), ?['\"](\w+)['\"]\)", r"\1.\2", path)
    return path.removeprefix(".").removeprefix("_orig_mod").removeprefix(".")


def place_of(stack_trace: str | None) -> str:
    """`resnet.py:93`: the innermost line that is not torch's own."""
    found = re.findall(r'File "([^"]+)", line (\d+)', stack_trace or "")
    own = [(file, line) for file, line in found if not file.startswith(TORCHS)]
    return f"{Path(own[-1][0]).name}:{own[-1][1]}" if own else ""


def fx_text(graph_module: Any) -> str:
    """Torch's own printout, cut where it would fill a disk."""
    try:
        text = graph_module.print_readable(print_output=False)
    except Exception as error:  # it formats what users put into their graphs
        text = f"torch could not print this graph: {type(error).__name__}: {error}"
    return text[:LARGEST_TEXT]


def fx_drawing(graph_module: Any) -> str:
    """What torch.fx's own FxGraphDrawer draws, as DOT; empty where pydot is not installed."""
    if importlib.util.find_spec("pydot") is None:
        return ""
    from torch.fx.passes.graph_drawer import FxGraphDrawer

    drawer = FxGraphDrawer(graph_module, "graph", ignore_parameters_and_buffers=True)
    return drawer.get_dot_graph().to_string()


def operators(nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names of the operators among these nodes."""
    return [node["name"] for node in nodes if node["op"].startswith("call_")]


# TorchInductor's scheduler


def scheduled(nodes: Iterable[Any], known: Mapping[str, Fields]) -> list[Fields]:
    """The scheduler's nodes, before or after fusion. `known` are the operators of after_passes."""
    nodes = list(nodes)
    makers = {buffer: node.get_name() for node in nodes for buffer in node.get_buffer_names()}
    return [_scheduled(node, makers, known) for node in nodes]


def _scheduled(node: Any, makers: Mapping[str, str], known: Mapping[str, Fields]) -> Fields:
    members = [one.get_name() for one in node.get_nodes()]
    made_from = {name for one in node.get_nodes() for name in _origins(one)}
    origins = _own_of([name for name in known if name in made_from], node, known)
    read = [makers[dep.name] for dep in node.read_writes.reads if dep.name in makers]
    name = node.get_name()
    return _without_empty(
        name=name,
        op=_kind(node),
        target=_called(node) or _sum_of(known[one]["target"] for one in origins),
        module=_main_module(known[one] for one in origins),
        inputs=tuple(dict.fromkeys(one for one in read if one != name)),
        members=tuple(members) if members != [name] else (),
        origins=tuple(origins),
        backward=any(known[one].get("backward") for one in origins),
        recomputed=bool(origins) and all(known[one].get("recomputed") for one in origins),
        place=next((known[one]["place"] for one in origins if known[one].get("place")), ""),
    )


def _kind(node: Any) -> str:
    """One of a library's several results is a node of its own, and no second call."""
    if type(node).__name__ == "NopKernelSchedulerNode" or _is_result(node):
        return "nop"
    return "extern" if node.is_extern() else "loop"


def _is_result(node: Any) -> bool:
    return type(node.node).__name__ == "MultiOutput"


def _called(node: Any) -> str:
    """What the library calls it: `extern_kernels.convolution`."""
    if not node.is_extern():
        return ""
    inner = node.node
    if _is_result(node):
        return "one of several results"
    overload = getattr(inner, "op_overload", None)
    return str(getattr(inner, "python_kernel_name", None) or overload or type(inner).__name__)


def _origins(node: Any) -> list[str]:
    return [one.name for one in node.node.get_origins()] if node.node is not None else []


def _own_of(origins: list[str], node: Any, known: Mapping[str, Fields]) -> list[str]:
    """A library's call is made from one operator; torch names those that it reads from as well."""
    overload = getattr(node.node, "op_overload", None) if node.is_extern() else None
    named = [name for name in origins if _packet(known[name]["target"]) == _packet(str(overload))]
    return named[-1:] or origins


def _packet(target: str) -> str:
    """`aten.mm` of `aten.mm.default` and `aten.mm.out`."""
    return target.rpartition(".")[0]


def _sum_of(targets: Iterable[str]) -> str:
    """`native_batch_norm, relu`: what a loop computes, each once."""
    short = [re.sub(r"^\w+\.(\w+)\.\w+$", r"\1", target) for target in targets]
    return ", ".join(dict.fromkeys(short))


def _main_module(nodes: Iterable[Fields]) -> str:
    """The module that most of the operators belong to; of equals the last."""
    counts = Counter(node["module"] for node in nodes if node.get("module"))
    most = max(counts.values(), default=0)
    return next((one for one in reversed(counts) if counts[one] == most), "")
