"""How a module is executed: one function for each `execution` word of the spec."""

from __future__ import annotations

import copy
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from bench_core.events import Finding
from bench_core.measuring.compile_activity import gist_of
from bench_core.measuring.failures import CompileRefused
from bench_core.spec import RunSpec, Variant

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
# Made from one batch before the first call. Their code holds the casts of autocast; another one
# around the call would have TorchScript add its own.
MADE_AHEAD = ("export_aot", "jit_trace_frozen", "onednn_graph")


class Made(NamedTuple):
    """What is called in place of a model (or function), and what showed while it was made."""

    callee: Any
    findings: tuple[Finding, ...] = ()


# Made from the model, the spec and, ahead of the first call, one batch's inputs on the device.
Make = Callable[[Any, RunSpec, Any], Made]


def _eager(callee: Any, spec: RunSpec, inputs: Any) -> Made:
    return Made(callee)


def _compile(callee: Any, spec: RunSpec, inputs: Any) -> Made:
    # torch.compile writes into the options it is given.
    try:
        return Made(torch.compile(callee, **copy.deepcopy(spec.variant.arguments)))
    except (RuntimeError, TypeError) as error:
        said = str(error).split(", known options are")[0]  # 644 names follow
        name = spec.variant.name
        raise CompileRefused(f"torch.compile does not take {name!r}: {said}") from error


def _compile_frozen(callee: Any, spec: RunSpec, inputs: Any) -> Made:
    from torch._inductor import config

    if not config.freezing:
        raise CompileRefused(
            "execution compile_frozen needs TORCHINDUCTOR_FREEZING=1 in the environment in which "
            f"torch is imported, got {os.environ.get('TORCHINDUCTOR_FREEZING')!r}; set it before "
            "the measuring process is started by hand, or queue the run: the worker sets it"
        )
    return _compile(callee, spec, inputs)


def _jit_trace_frozen(callee: Any, spec: RunSpec, inputs: Any) -> Made:
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always", torch.jit.TracerWarning)
        torch.jit.TracerWarning.ignore_lib_warnings()  # torch.nn's own checks of shapes
        try:
            # Its own check would run the model again; parity compares the outputs later.
            traced = torch.jit.trace(_casting(callee, spec), inputs, check_trace=False)
            frozen = torch.jit.freeze(traced)
        except RuntimeError as error:
            raise CompileRefused(
                f"torch.jit.trace and freeze do not take {spec.workload.model}: "
                f"{gist_of(str(error))}; choose execution compile, which runs as eager what it "
                "cannot take"
            ) from error
    left = sum(1 for _ in frozen.parameters())
    weights = Finding(
        asked="frozen weights",
        got=f"{left} weights left outside the code" if left else "frozen",
        met=not left,
    )
    return Made(frozen, (weights, *_decided_by_the_example(caught)))


def _onednn_graph(callee: Any, spec: RunSpec, inputs: Any) -> Made:
    torch.jit.enable_onednn_fusion(True)
    return _jit_trace_frozen(callee, spec, inputs)


def _export_aot(callee: Any, spec: RunSpec, inputs: Any) -> Made:
    from torch import _inductor

    if not hasattr(_inductor, "aoti_compile_and_package"):
        raise CompileRefused(
            "execution export_aot needs torch._inductor.aoti_compile_and_package, which torch "
            f"{torch.__version__} lacks; take torch 2.6 or later, or execution compile"
        )
    # The loader unpacks the package into a folder of its own.
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        try:
            exported = torch.export.export(_casting(callee, spec), (inputs,))
        except Exception as error:  # it has no class of its own
            raise CompileRefused(
                f"torch.export does not take {spec.workload.model} as one graph: "
                f"{gist_of(str(error)).split(' (unhinted')[0]}{_where(error)}; choose execution "
                "compile, which splits it there"
            ) from error
        package = _inductor.aoti_compile_and_package(
            exported, package_path=str(Path(folder) / "model.pt2")
        )
        loaded = _inductor.aoti_load_package(package)
    return Made(loaded)


EXECUTIONS: dict[str, Make] = {
    "eager": _eager,
    "compile": _compile,
    "compile_frozen": _compile_frozen,
    "export_aot": _export_aot,
    "jit_trace_frozen": _jit_trace_frozen,
    "onednn_graph": _onednn_graph,
}


class _Casting(nn.Module):
    """Autocast as a part of the model, so that a trace or an export holds the casts.

    Its cache of casted weights is off, because TorchScript does not run with it.
    """

    def __init__(self, model: nn.Module, device_type: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.device_type, self.dtype = model, device_type, dtype

    def forward(self, inputs: Any) -> Any:
        with torch.autocast(self.device_type, self.dtype, cache_enabled=False):
            return self.model(inputs)


def _casting(model: nn.Module, spec: RunSpec) -> nn.Module:
    dtype = AUTOCAST.get(spec.workload.precision)
    if dtype is None:
        return model
    return _Casting(model, torch.device(spec.device).type, dtype).train(model.training)


def _decided_by_the_example(caught: list[warnings.WarningMessage]) -> list[Finding]:
    """One finding for each line of the model whose outcome the tracer took for a constant."""
    places = [
        f"{Path(warning.filename).name}:{warning.lineno}"
        for warning in caught
        if issubclass(warning.category, torch.jit.TracerWarning)
    ]
    return [
        Finding(
            asked="the whole model",
            got=f"traced path only: the branch at {place} was decided by the example input",
            met=False,
        )
        for place in dict.fromkeys(places)
    ]


def _where(error: Exception) -> str:
    """` at FILE:LINE`, the last line outside torch on the way to the error."""
    torchs = str(Path(torch.__file__).parent)
    files = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith((torchs, __file__))
    ]
    return f" at {Path(files[-1][0]).name}:{files[-1][1]}" if files else ""


def records_cuda_graphs(variant: Variant, device_type: str) -> bool:
    """Whether Inductor will replay CUDA graphs, so that each step has to announce itself."""
    options = variant.options or {}
    return device_type == "cuda" and (
        variant.mode in ("reduce-overhead", "max-autotune")
        or variant.backend == "cudagraphs"
        or bool(options.get("triton.cudagraphs"))
    )
