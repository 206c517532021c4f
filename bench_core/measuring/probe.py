"""What this machine's torch offers, as one JSON line: the choices of the launch page.

User model files are named, not imported: their code runs only in a measuring process.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
import shutil
import sys
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
        "options": _options(),
        "torchvision_models": models.torchvision_names(),
        "models_dir": str(folder),
        "model_files": sorted(file.name for file in folder.glob("*.py")) if folder.is_dir() else [],
        "compiler_path": path,
        "compiler": version,
        "openssl": shutil.which("openssl") is not None,
        "cpu_name": environment.cpu_name(),
        "cpu_cores": os.cpu_count() or 1,
        "cpu_affinity": environment.affinity(),
        "cpu_isa": environment.isa(),
        "memory_bytes": psutil.virtual_memory().total,
        "timm": importlib.util.find_spec("timm") is not None,
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
    return [
        {"name": name, "proven": name in PROVEN_BACKENDS} for name in (*PROVEN_BACKENDS, *others)
    ]


def _modes() -> list[str]:
    from torch._inductor import list_mode_options

    return list(dict.fromkeys(["default", *list_mode_options()]))


def _options() -> dict[str, dict[str, str]]:
    """Each Inductor option's type and default, as text."""
    from torch._inductor import config, list_options

    options = {}
    for name in sorted(list_options()):
        kind = config.get_type(name)
        default = repr(getattr(config, name))
        options[name] = {
            "type": kind.__name__ if isinstance(kind, type) else str(kind).removeprefix("typing."),
            "default": default if len(default) <= LONGEST_DEFAULT else default[:77] + "...",
        }
    return options
