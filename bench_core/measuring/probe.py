"""What this machine's torch offers, as one JSON line: the choices of the launch page.

User model files are named, not imported: their code runs only in a measuring process.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import shutil
import sys
from importlib import metadata
from typing import Any

# Backends that this program's runs are tried with; any other by name, at the user's own risk.
PROVEN_BACKENDS = ("inductor", "aot_eager", "eager", "cudagraphs")
LONGEST_DEFAULT = 80


def print_offer() -> None:
    """The offer on stdout; what libraries print on the way goes to stderr."""
    with contextlib.redirect_stdout(sys.stderr):
        line = json.dumps(offer())
    print(line, flush=True)


def offer() -> dict[str, Any]:
    """Raises ModuleNotFoundError without torch or torchvision. Sizes in bytes."""
    import psutil
    import torch
    import torchvision

    from bench_core import paths
    from bench_core.measuring import environment, models

    path, version = environment.compiler()
    folder = paths.models_dir()
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "cuda": torch.version.cuda,
        "cuda_available": torch.cuda.is_available(),
        "mps_available": torch.backends.mps.is_available(),
        "driver": environment.driver() if torch.cuda.is_available() else None,
        "devices": _devices(),
        "backends": _backends(),
        "modes": _modes(),
        "inductor_options": _inductor_options(),
        "torchvision_models": models.torchvision_names(),
        "models_dir": str(folder),
        "model_files": sorted(f.name for f in folder.glob("*.py") if f.name[0] not in "_."),
        "compiler": path,
        "compiler_version": version,
        "openssl": shutil.which("openssl"),
        "cpu_name": environment.cpu_name(),
        "cpu_cores": os.cpu_count() or 1,
        "cpu_affinity": environment.affinity(),
        "cpu_isa": environment.isa(),
        "memory_bytes": psutil.virtual_memory().total,
        "timm": _version("timm"),
        "timm_models": _timm_models(),
        "onednn_graph": _onednn_graph(),
    }


def _devices() -> list[dict[str, Any]]:
    import psutil
    import torch

    from bench_core.measuring import environment

    memory = psutil.virtual_memory().total
    nothing = {"compute_capability": None, "multiprocessors": None}
    devices = [{"id": "cpu", "name": environment.cpu_name(), "memory_bytes": memory, **nothing}]
    for index in range(torch.cuda.device_count()):
        facts = environment.gpu_facts(index)
        devices.append(
            {
                "id": f"cuda:{index}",
                "name": facts.pop("device_name"),
                "memory_bytes": facts.pop("device_memory_bytes"),
                **facts,
            }
        )
    if torch.backends.mps.is_available():
        devices.append({"id": "mps", "name": "Apple GPU", "memory_bytes": memory, **nothing})
    return devices


def _backends() -> list[dict[str, Any]]:
    from torch._dynamo import list_backends

    others = sorted(set(list_backends()) - set(PROVEN_BACKENDS))
    names = (*PROVEN_BACKENDS, *others)
    return [{"name": name, "proven": name in PROVEN_BACKENDS} for name in names]


def _modes() -> list[str]:
    from torch._inductor import list_mode_options

    return list(dict.fromkeys(["default", *list_mode_options()]))


def _inductor_options() -> dict[str, dict[str, Any]]:
    """Each option's type, and its default where JSON can say it, else as text."""
    from torch._inductor import config, list_options

    options = {}
    for name in sorted(list_options()):
        default, kind = getattr(config, name), config.get_type(name)
        plain = isinstance(kind, type) and not hasattr(kind, "__args__")
        text = kind.__name__ if plain else str(kind).removeprefix("typing.")
        options[name] = {"type": text, "default": _as_json(default)}
    return options


def _as_json(value: Any) -> Any:
    text = repr(value)
    if len(text) > LONGEST_DEFAULT:
        return text[: LONGEST_DEFAULT - 3] + "..."
    plain = value is None or isinstance(value, (bool, int, str))
    return value if plain or (isinstance(value, float) and math.isfinite(value)) else text


def _timm_models() -> list[str]:
    """All it has, where it is installed; importing it takes a second or two."""
    from bench_core.measuring import models
    from bench_core.measuring.failures import ModelError

    try:
        return models.timm_names()
    except ModelError as error:
        print(error, file=sys.stderr)
        return []


def _onednn_graph() -> bool:
    """Whether this build can fuse TorchScript with oneDNN Graph: others ignore the request."""
    import torch

    if not torch.backends.mkldnn.is_available():
        return False
    torch.jit.enable_onednn_fusion(True)
    return torch.jit.onednn_fusion_enabled()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
