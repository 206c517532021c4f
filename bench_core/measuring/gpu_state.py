"""What NVML knows about a CUDA device when the timing is over: clocks, throttling, neighbours."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch


def read(device: torch.device) -> dict[str, Any]:
    """Facts by name with their unit in it; `nvml` says why there are none."""
    try:
        import pynvml
    except ImportError:
        return {"nvml": "nvidia-ml-py is not installed"}
    try:
        pynvml.nvmlInit()
        # By UUID: CUDA_VISIBLE_DEVICES renumbers what torch sees.
        uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())
    except (pynvml.NVMLError, AttributeError) as error:
        return {"nvml": f"not readable: {error}"}
    facts: dict[str, Callable[[], Any]] = {
        "sm_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
        "sm_clock_max_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
        "throttle_reasons": lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        "temperature_celsius": lambda: pynvml.nvmlDeviceGetTemperature(
            handle, pynvml.NVML_TEMPERATURE_GPU
        ),
        "power_watts": lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "other_processes": lambda: sum(
            process.pid != os.getpid()
            for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        ),
    }
    read_out = {}
    for name, fact in facts.items():
        try:
            read_out[name] = fact()
        except pynvml.NVMLError:
            continue  # not every device answers every question
    return read_out
