"""Under which conditions runs that are here were measured, as what may be said of a file's rows."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence

from bench_core.run import Run
from bench_core.spec import Workload
from bench_core.units import counted

# What people tell conditions by; the rest is told where it is no default.
TOLD = ("dataset", "samples", "image_size")


def facts_like(
    runs: Iterable[Run], works: Collection[Workload], names: Sequence[str]
) -> dict[str, str]:
    """Conditions under which these models and batches were measured here, the newest run's first.

    `names` are those that are told. By `dataset=synthetic samples=1024`, which holds them all, in
    short where and under which: `as on CPU: dataset synthetic, samples 1024, 9 defaults`.
    """
    wanted = {_what(work) for work in works}
    found: dict[str, tuple[Workload, dict[str, None]]] = {}
    for run in sorted(runs, key=lambda run: -run.number):
        work = run.spec.workload
        if _what(work) in wanted and run.machine and run.states(*names):
            text = shlex.join(f"{name}={_value(work, name)}" for name in names)
            found.setdefault(text, (work, {}))[1][run.machine] = None
    return {
        text: f"as on {', '.join(machines)}: {_short(work, names)}"
        for text, (work, machines) in found.items()
    }


def _what(work: Workload) -> tuple[str, str, int]:
    return work.task, work.model, work.batch_size


def _value(work: Workload, name: str) -> str:
    value = getattr(work, name)
    if name == "dataset":
        value = work.dataset_path or value
    return "default" if value is None else str(value)


def _short(work: Workload, names: Sequence[str]) -> str:
    usual = Workload(task=work.task, model=work.model, batch_size=work.batch_size)
    told = [name for name in TOLD if name in names]
    told += [n for n in names if n not in told and getattr(work, n) != getattr(usual, n)]
    rest = len(names) - len(told)
    words = ", ".join(f"{name} {_value(work, name)}" for name in told)
    return f"{words}, {counted(rest, 'default')}" if rest else words
