"""What a machine needs before it can measure, checked one by one, each with its fix.

No torch in this process: what torch knows comes from the probe (capabilities.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from bench_core import capabilities
from bench_core.capabilities import Capabilities, ProbeFailed
from bench_core.paths import caches_dir, data_dir
from bench_core.units import bytes_text

LEAST_FREE_BYTES = 3 * 10**9


@dataclass(frozen=True)
class Check:
    """One finding. `fix` is empty when all is well."""

    name: str
    ok: bool
    found: str
    fix: str = ""


def checks() -> Iterator[Check]:
    """One by one, since the first may take seconds: torch, devices, compilers, memory, disk."""
    try:
        offered: Capabilities | None = capabilities.cached() or capabilities.probe()
    except ProbeFailed as failed:
        offered = None
        yield Check(
            "torch",
            False,
            str(failed),
            "install torch and torchvision into this environment: pip install torch torchvision",
        )
    if offered:
        yield Check("torch", True, f"torch {offered.torch}, torchvision {offered.torchvision}")
    yield _gpu(offered)
    yield _compiler()
    yield _openssl()
    yield _memory()
    yield _disk()


def _gpu(offered: Capabilities | None) -> Check:
    """Whether torch sees the GPU that the driver sees."""
    driver = _nvidia_smi()
    seen = [device for device in offered.devices if device.id != "cpu"] if offered else []
    if seen:
        names = ", ".join(f"{device.id} {device.name}" for device in seen)
        return Check("GPU", True, f"torch sees {names}")
    if driver is None:
        return Check("GPU", True, "none: nvidia-smi finds no NVIDIA GPU; runs use the CPU")
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return Check(
            "GPU",
            False,
            f"nvidia-smi sees {driver}, but CUDA_VISIBLE_DEVICES hides it",
            "unset CUDA_VISIBLE_DEVICES",
        )
    torch = offered.torch if offered else "torch"
    return Check(
        "GPU",
        False,
        f"nvidia-smi sees {driver}, but torch {torch} does not",
        "the driver is older than this torch build needs, or it is a CPU build: update the driver, "
        "or install a torch build for the CUDA version that `nvidia-smi` names at its top right",
    )


def _nvidia_smi() -> str | None:
    """`Tesla T4 with driver 550.54`, or None where there is no NVIDIA GPU."""
    if not shutil.which("nvidia-smi"):
        return None
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode or not answer.stdout.strip():
        return None
    name, _, version = answer.stdout.strip().splitlines()[0].partition(", ")
    return f"{name} with driver {version}"


def _compiler() -> Check:
    named = os.environ.get("CXX")
    path = shutil.which(named) if named else shutil.which("g++") or shutil.which("clang++")
    if path:
        return Check("C++ compiler", True, path)
    return Check(
        "C++ compiler",
        False,
        f"{named} (from CXX) is not there" if named else "neither g++ nor clang++ is there",
        "torch.compile on a CPU needs one: apt-get install g++, or on macOS xcode-select --install",
    )


def _openssl() -> Check:
    if path := shutil.which("openssl"):
        return Check("openssl", True, path)
    return Check(
        "openssl",
        False,
        "the program openssl is not there",
        "every torch.compile on a CPU calls it to precompile headers: apt-get install openssl",
    )


def _memory() -> Check:
    free = psutil.virtual_memory().available
    return Check(
        "memory",
        free >= LEAST_FREE_BYTES,
        f"{bytes_text(free)} free",
        "" if free >= LEAST_FREE_BYTES else "close other programs, or measure small batches only",
    )


def _disk() -> Check:
    folder = data_dir()
    free = min(shutil.disk_usage(path).free for path in (folder, _existing(caches_dir())))
    return Check(
        "disk",
        free >= LEAST_FREE_BYTES,
        f"{bytes_text(free)} free in {folder}",
        ""
        if free >= LEAST_FREE_BYTES
        else "compile caches take about 200 MB a run: free some, or set BENCH_DATA to another disk",
    )


def _existing(path: os.PathLike[str]) -> os.PathLike[str]:
    return path if os.path.exists(path) else data_dir()
