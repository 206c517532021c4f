"""How much memory one more measuring process may take. Reads the machine; imports no torch."""

from __future__ import annotations

import os

import psutil


def free_bytes(device: str, in_use: int) -> int | None:
    """Free memory of the device in bytes; None where nobody can tell.

    `in_use` is what the measuring processes take already: BENCH_MEMORY_BYTES, where it is set,
    is the most that all of them may take together. ValueError: that is no number.
    """
    free = _free_of_gpu(device) if device.startswith("cuda") else psutil.virtual_memory().available
    limit = os.environ.get("BENCH_MEMORY_BYTES")
    if not limit:
        return free
    if not limit.isdecimal():
        raise ValueError(f"BENCH_MEMORY_BYTES must be a whole number of bytes, got {limit!r}")
    allowed = max(0, int(limit) - in_use)
    return allowed if free is None else min(free, allowed)


def _free_of_gpu(device: str) -> int | None:
    """By NVML, which counts GPUs as the machine has them: CUDA_VISIBLE_DEVICES renumbers."""
    try:
        import pynvml
    except ImportError:
        return None
    number = int(device.partition(":")[2])
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    name = visible[number] if number < len(visible) and visible[number] else str(number)
    try:
        pynvml.nvmlInit()
        if name.isdecimal():
            handle = pynvml.nvmlDeviceGetHandleByIndex(int(name))
        else:
            handle = pynvml.nvmlDeviceGetHandleByUUID(name.encode())
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).free)
    except pynvml.NVMLError:
        return None
