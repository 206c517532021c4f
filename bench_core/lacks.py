"""What a run asks for that this machine's torch does not offer."""

from __future__ import annotations

import ast
import difflib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from bench_core.capabilities import Capabilities
from bench_core.paths import models_dir
from bench_core.spec import BACKENDS_WITHOUT_OPTIONS, COMPILES, NAMED_FUNCTIONS, RunSpec

OWN_MODELS = ("small_cnn", "pointwise_cnn", "yolov7")
JSON_TYPES = {"bool", "int", "float", "str", "None"}


def lacks_of(run: RunSpec, capabilities: Capabilities) -> list[str]:
    """What this machine cannot do of the run, a sentence each with the way out; empty when all."""
    return [
        *_device_lacks(run, capabilities),
        *_model_lacks(run, capabilities),
        *_execution_lacks(run, capabilities),
    ]


def _device_lacks(run: RunSpec, capabilities: Capabilities) -> Iterator[str]:
    ids = [device.id for device in capabilities.devices]
    if run.device not in ids:
        yield f"device {run.device} is not here; torch sees {', '.join(ids)}"


def _model_lacks(run: RunSpec, capabilities: Capabilities) -> Iterator[str]:
    model = run.workload.model
    if model in OWN_MODELS or model in NAMED_FUNCTIONS:
        return
    kind, _, name = model.partition(":")
    if kind in ("file", "function"):
        if name not in capabilities.model_files:
            what = "model" if kind == "file" else kind
            yield f"there is no {what} file {name} in {models_dir()}; put it there" + _near(
                name, capabilities.model_files
            )
        return
    if kind == "timm":
        yield from _timm_lacks(name, capabilities)
        return
    name = name or kind
    if name not in capabilities.torchvision_models:
        yield (
            f"torchvision {capabilities.torchvision} has no classification model {name!r}"
            + _near(name, capabilities.torchvision_models)
        )


def _timm_lacks(name: str, capabilities: Capabilities) -> Iterator[str]:
    if capabilities.timm is None:
        yield f"model timm:{name} needs timm, which is not installed; run `pip install timm`"
    # What follows a dot names pretrained weights. No names at all: the run will say why.
    elif capabilities.timm_models and name.split(".")[0] not in capabilities.timm_models:
        yield f"timm {capabilities.timm} has no model {name!r}" + _near(
            name, capabilities.timm_models
        )


def _execution_lacks(run: RunSpec, capabilities: Capabilities) -> Iterator[str]:
    variant = run.variant
    if variant.execution == "onednn_graph" and not capabilities.onednn_graph:
        yield (
            f"torch {capabilities.torch} is built without oneDNN Graph here; choose execution "
            "jit_trace_frozen or compile_frozen"
        )
    if variant.execution in COMPILES and not variant.disable:
        yield from _argument_lacks(run, capabilities)
    builds_code = variant.backend == "inductor" or variant.execution == "export_aot"
    if builds_code and not variant.disable and run.device == "cpu":
        if capabilities.compiler is None:
            yield (
                "a compile for the CPU needs a C++ compiler and none was found; install g++ "
                "(apt-get install g++) or name one in the environment variable CXX"
            )
        if capabilities.openssl is None:
            yield (
                "a compile for the CPU calls the program openssl and it was not found; "
                "install it (apt-get install openssl)"
            )


def _argument_lacks(run: RunSpec, capabilities: Capabilities) -> Iterator[str]:
    variant = run.variant
    names = [backend.name for backend in capabilities.backends]
    if variant.backend not in names:
        yield f"torch {capabilities.torch} has no compile backend {variant.backend!r}" + (
            _near(str(variant.backend), names) or f"; it has {', '.join(names)}"
        )
    if variant.mode is not None and variant.mode not in capabilities.modes:
        yield (
            f"torch {capabilities.torch} has no mode {variant.mode!r}; "
            f"it has {', '.join(capabilities.modes)}"
        )
    if variant.backend not in BACKENDS_WITHOUT_OPTIONS:
        for name, value in (variant.options or {}).items():
            yield from _option_lacks(name, value, capabilities)


def _option_lacks(name: str, value: Any, capabilities: Capabilities) -> Iterator[str]:
    # Inductor reads `a-b` as `a_b`.
    option = capabilities.inductor_options.get(name.replace("-", "_"))
    if option is None:
        yield f"Inductor has no option {name!r}" + (
            _near(name, list(capabilities.inductor_options))
            or "; torch._inductor.list_options() prints the names there are"
        )
    elif not _fits(value, option.type):
        yield (
            f"Inductor's option {name} takes {option.type} (default {json.dumps(option.default)}), "
            f"got {json.dumps(value)}"
        )


def _fits(value: Any, kind: str) -> bool:
    """Whether `value` is of the type named `kind`; what JSON has no type for is left to torch."""
    if choices := re.fullmatch(r"Literal(\[[^\]]*\])", kind):
        return value in ast.literal_eval(choices[1])
    allowed = set(kind.split(" | "))
    if not allowed <= JSON_TYPES:
        return True
    if value is None:
        return "None" in allowed
    # As isinstance has it: True is an int, and 1 is no float.
    return type(value).__name__ in allowed or (isinstance(value, bool) and "int" in allowed)


def _near(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=4, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""
