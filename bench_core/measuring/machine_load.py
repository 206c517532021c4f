"""What an epoch cost beside time: peak memory of this process, and the CPU that others used."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

# Below this, the kernel's 10 ms ticks say nothing about shares.
SHORTEST_SECONDS = 0.5


def reset_peak_memory() -> None:
    """Linux counts a new peak from here on; elsewhere the peak is that of the process's life."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory_bytes() -> int | None:
    """Largest resident memory of this process, loader workers not included."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


@dataclass(frozen=True)
class CpuUse:
    """CPU seconds since boot: of the whole machine, and of this process and its descendants."""

    at: float
    machine: float
    own: float


def cpu_use() -> CpuUse | None:
    try:
        machine = psutil.cpu_times()
        own = 0.0
        me = psutil.Process()
        for process in [me, *me.children(recursive=True)]:
            try:
                own += sum(process.cpu_times()[:4])  # own and waited-for children's
            except psutil.NoSuchProcess:
                continue
    except psutil.Error:
        return None
    busy = machine.user + machine.nice + machine.system
    busy += sum(getattr(machine, name, 0.0) for name in ("irq", "softirq", "steal"))
    return CpuUse(time.monotonic(), busy, own)


def foreign_cpu_share(before: CpuUse | None, after: CpuUse | None) -> float | None:
    """Share of the machine's CPUs that processes other than this one's used, 0 to 1."""
    if before is None or after is None or after.at - before.at < SHORTEST_SECONDS:
        return None
    foreign = (after.machine - before.machine) - (after.own - before.own)
    capacity = (after.at - before.at) * (psutil.cpu_count() or 1)
    return min(1.0, max(0.0, foreign / capacity))
