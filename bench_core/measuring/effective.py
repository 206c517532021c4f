"""What was asked for beside what really happened, read when the timing is over.

A check looks at one thing and gives a Finding, or None where nothing of the kind was asked for.
Some read names that torch does not promise to keep: whoever calls guards each check by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from bench_core.events import Activity, Environment, Finding
from bench_core.measuring.variants import records_cuda_graphs
from bench_core.spec import COMPILES, RunSpec

# torch/_inductor/utils.py, is_big_gpu: below it max-autotune leaves matrix products alone.
MULTIPROCESSORS_FOR_AUTOTUNING = 68
# The first compute capability with TF32, and with bf16 in more than software.
AMPERE = 8.0


@dataclass(frozen=True)
class Ran:
    """A run whose timing is over: `activity` is an empty one where nothing watched a compiler."""

    spec: RunSpec
    environment: Environment
    activity: Activity = Activity()
    calls: int = 0
    recorded_cuda_graphs: int = 0

    @property
    def on_gpu(self) -> bool:
        return self.spec.device.startswith("cuda")

    @property
    def compute_capability(self) -> float:
        return float(self.environment.compute_capability or 0)


Check = Callable[[Ran], Finding | None]


def _compiled(ran: Ran) -> Finding | None:
    variant, did = ran.spec.variant, ran.activity
    if variant.execution not in COMPILES or variant.disable:
        return None
    as_eager = did.frames_total - did.frames_compiled
    left = f"{as_eager} of {did.frames_total} frames ran as eager"
    if not did.graphs:
        got = "nothing compiled: it ran as eager"
    elif did.recompile_limit_hit:
        got = f"recompile limit hit: {left}"
    elif as_eager:
        got = f"{_count(did.graphs, 'graph')} compiled, {left}"
    else:
        got = f"{_count(did.graphs, 'graph')} compiled"
    met = bool(did.graphs) and not did.recompile_limit_hit and not as_eager
    return Finding(asked="compile", got=got, met=met)


def _one_graph(ran: Ran) -> Finding | None:
    breaks = ran.activity.graph_breaks
    if not breaks:
        return None
    return Finding(
        asked="compile without a graph break",
        got=f"{_count(len(breaks), 'graph break')}: {breaks[0].split(': ')[0]}",
        met=False,
    )


def _read_mode(ran: Ran) -> Finding | None:
    variant = ran.spec.variant
    given = "mode" if variant.mode else "options" if variant.options else None
    if given is None or variant.backend == "inductor":
        return None
    got = f"handed to backend {variant.backend}; only inductor is known to read it"
    return Finding(asked=f"{given} {variant.mode or ''}".strip(), got=got, met=False)


def _cuda_graphs(ran: Ran) -> Finding | None:
    if not records_cuda_graphs(ran.spec.variant, "cuda"):
        return None
    recorded, skipped = ran.recorded_cuda_graphs, ran.activity.cudagraph_skips
    if not ran.on_gpu:
        got = "none: they need a GPU"
    elif skipped:
        got = f"{recorded} recorded, {skipped} skipped"
    else:
        got = f"{recorded} recorded" if recorded else "none was recorded"
    return Finding(asked="CUDA graphs", got=got, met=bool(recorded) and not skipped)


def _autotuned_products(ran: Ran) -> Finding | None:
    wanted, has = (ran.spec.variant.mode or ""), ran.environment.multiprocessors
    if not (wanted.startswith("max-autotune") and ran.environment.cuda and has):
        return None
    enough = has >= MULTIPROCESSORS_FOR_AUTOTUNING
    off = f"off: {has} multiprocessors, it takes {MULTIPROCESSORS_FOR_AUTOTUNING}"
    return Finding(asked="autotuned matrix products", got="on" if enough else off, met=enough)


def _frozen(ran: Ran) -> Finding | None:
    """Frozen weights hang as constants on the modules that Inductor wrote.

    TorchScript's are counted where it freezes.
    """
    if ran.spec.variant.execution != "compile_frozen":
        return None
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.freezing_utils import is_frozen_param

    frozen = any(
        torch.is_tensor(value) and is_frozen_param(value)
        for code in PyCodeCache.modules
        for value in vars(code).values()
    )
    got = "frozen" if frozen else "no weight is a constant in the compiled code"
    return Finding(asked="frozen weights", got=got, met=frozen)


def _fused_groups(ran: Ran) -> Finding | None:
    if ran.spec.variant.execution != "onednn_graph":
        return None
    groups = str(torch.jit.last_executed_optimized_graph()).count("prim::oneDNNFusionGuard")
    got = _count(groups, "fused group") if groups else "no group was fused"
    return Finding(asked="oneDNN Graph", got=got, met=groups > 0)


def _library(ran: Ran) -> Finding | None:
    if ran.spec.variant.execution != "export_aot":
        return None
    got = "loaded and ran" if ran.calls else "loaded, but not called"
    return Finding(asked="a library by AOTInductor", got=got, met=ran.calls > 0)


def _bf16(ran: Ran) -> Finding | None:
    if ran.spec.workload.precision != "bf16":
        return None
    if ran.on_gpu:
        there = ran.compute_capability >= AMPERE
        what = "in hardware" if there else "emulated"
        got = f"{what}: compute capability {ran.environment.compute_capability}"
    elif (ran.environment.os or "").startswith("Linux"):  # elsewhere the flags cannot be read
        flags = [flag for flag in (ran.environment.cpu_isa or "").split(", ") if "bf16" in flag]
        there, got = bool(flags), ", ".join(flags) or "no bf16 instructions: emulated"
    else:
        return None
    return Finding(asked="bf16", got=got, met=there)


def _tf32(ran: Ran) -> Finding | None:
    if ran.spec.workload.tf32 != "on" or not ran.on_gpu:
        return None
    there = ran.compute_capability >= AMPERE
    what = "on" if there else "none"
    got = f"{what}: compute capability {ran.environment.compute_capability}"
    return Finding(asked="TF32", got=got, met=there)


CHECKS: dict[str, Check] = {
    "what was compiled": _compiled,
    "the graph breaks": _one_graph,
    "what the backend made of the mode": _read_mode,
    "CUDA graphs": _cuda_graphs,
    "the autotuning of matrix products": _autotuned_products,
    "frozen weights": _frozen,
    "oneDNN Graph's groups": _fused_groups,
    "AOTInductor's library": _library,
    "bf16 instructions": _bf16,
    "TF32": _tf32,
}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
