"""Where the run happens: the facts of an environment card, read in the process that measures."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import torch
import torchvision

from bench_core import paths
from bench_core.events import Environment

# Instructions that decide whether bf16 pays on a CPU, as the kernel names them.
NOTABLE_ISA = ("avx512_bf16", "avx512_fp16", "amx_bf16", "bf16")
COMPILERS = ("g++", "clang++", "c++")


def read(device: torch.device) -> Environment:
    gpu = gpu_facts(device.index or 0) if device.type == "cuda" else {}
    cpu = cpu_name()
    return Environment(
        machine=os.environ.get("BENCH_MACHINE") or _short_name(gpu.get("device_name") or "CPU"),
        machine_id=_machine_id(cpu),
        device_name=gpu.get("device_name") or ("Apple GPU" if device.type == "mps" else cpu),
        compute_capability=gpu.get("compute_capability"),
        multiprocessors=gpu.get("multiprocessors"),
        device_memory_bytes=gpu.get("device_memory_bytes"),
        cuda=torch.version.cuda,
        cudnn=str(torch.backends.cudnn.version()) if gpu else None,
        driver=driver() if gpu else None,
        cpu_name=cpu,
        cpu_cores=os.cpu_count() or 1,
        cpu_affinity=affinity(),
        cpu_isa=isa(),
        memory_bytes=psutil.virtual_memory().total,
        torch=torch.__version__,
        torchvision=torchvision.__version__,
        python=platform.python_version(),
        os=platform.platform(terse=True),
        threads=torch.get_num_threads(),
        tf32_convolution=torch.backends.cudnn.allow_tf32 if gpu else None,
        tf32_matmul=torch.backends.cuda.matmul.allow_tf32 if gpu else None,
        compiler=compiler()[1],
        bench_version=_sources_version(),
    )


def gpu_facts(index: int) -> dict:
    properties = torch.cuda.get_device_properties(index)
    return {
        "device_name": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "device_memory_bytes": properties.total_memory,
    }


def driver() -> str | None:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        return pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError:
        return None


def cpu_name() -> str:
    if sys.platform == "darwin":
        return _output_of("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def isa() -> str:
    """What torch's kernels use, and the flags beside it that decide about bf16."""
    capability = torch.backends.cpu.get_cpu_capability()
    try:
        flags = re.search(r"^(?:flags|Features)\s*:(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        flags = None
    present = flags[1].split() if flags else []
    return ", ".join([capability, *(flag for flag in NOTABLE_ISA if flag in present)])


def affinity() -> int:
    """CPUs this process may run on; all of them where the system cannot tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def compiler() -> tuple[str | None, str | None]:
    """Path and first line of `--version` of the C++ compiler that Inductor would take."""
    named = os.environ.get("CXX")
    for program in (named,) if named else COMPILERS:
        if path := shutil.which(program):
            lines = _output_of(path, "--version").splitlines()
            return path, lines[0] if lines else path
    return None, None


def _output_of(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _short_name(device_name: str) -> str:
    """`T4` of `Tesla T4`, `A100` of `NVIDIA A100-SXM4-40GB`, `RTX 4090` of a GeForce."""
    words = device_name.replace("NVIDIA", "").replace("GeForce", "").replace("Tesla", "").split()
    return " ".join(words).split("-")[0] or device_name


def _machine_id(cpu: str) -> str:
    """The same for two runs on one machine, whatever device they used."""
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    gibibytes = round(psutil.virtual_memory().total / 2**30)
    facts = (os.environ.get("BENCH_MACHINE") or "", cpu, os.cpu_count(), gibibytes, *gpus)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]


def _sources_version() -> str:
    """A hash of the code that measures: works in a checkout, an archive and a notebook alike."""
    digest = hashlib.sha256()
    for file in sorted((paths.CHECKOUT / "bench_core").glob("measuring/*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
