"""The end of what a measuring process, or the worker between runs, has printed."""

from __future__ import annotations

from bench_core.paths import logs_dir
from bench_core.run import Run

LINES, BYTES = 200, 20_000


def log_tail(run: Run | None) -> str | None:
    """The last lines of the run's log, of the worker's without a run; None where there is none."""
    path = logs_dir() / (f"{run.id}.log" if run else "worker.log")
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return None
    return "\n".join(lines[-LINES:])
