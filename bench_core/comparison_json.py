"""Comparisons as `compare --json` prints them. Seconds and bytes; what is not known is None."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from bench_core import geomeans, pairing, stats
from bench_core.comparison import Comparison
from bench_core.measured import Arm


def as_json(found: pairing.Comparisons) -> dict[str, Any]:
    """`geomean` is None where there are several: `geomeans` holds one a task and variant."""
    means = _geometric_means(found.pairs)
    return {
        "matched": len(found.pairs),
        "geomean": round(means[0]["ratio"], 4) if len(means) == 1 else None,
        "geomeans": means,
        "left_out": [_left_out_json(kind, alike) for kind, alike in found.left_out_kinds.items()],
        "pairs": [
            {
                "axis": list(pair.axis),
                "pairs_by_turns": len(pair.took_turns),
                "model": pair.workload.model,
                "machine": pair.machine,
                "device": pair.device,
                "batch_size": pair.workload.batch_size,
                "precision": pair.workload.precision,
                "baseline": pair.baseline.name,
                "candidate": pair.candidate.name,
                "unit": pair.unit,
                "baseline_steady_seconds": pair.baseline.steady_seconds,
                "candidate_steady_seconds": pair.candidate.steady_seconds,
                **_start_json("baseline", pair.baseline),
                **_start_json("candidate", pair.candidate),
                **_inference_json(pair),
                "kind": pair.speedup.kind,
                "speedup": pair.speedup.ratio,
                "low": pair.speedup.low,
                "high": pair.speedup.high,
                "verdict": pair.verdict,
                "break_even_cold": _break_even_json(pair, pair.break_even_cold),
                "break_even_warm": _break_even_json(pair, pair.break_even_warm),
            }
            for pair in found.pairs
        ],
    }


def means_by_task(pairs: Sequence[Comparison]) -> dict[str, geomeans.Means]:
    """Of the speedups, a mean for each variant of a task: one over several would be of nothing."""
    tasks: dict[str, list[Comparison]] = defaultdict(list)
    for pair in pairs:
        tasks["function" if pair.workload.is_function else pair.workload.task].append(pair)
    return {task: geomeans.by_variant(of_task) for task, of_task in tasks.items()}


def _geometric_means(pairs: Sequence[Comparison]) -> list[dict[str, Any]]:
    return [
        {
            "task": task,
            "variant": mean.name,
            "matched": mean.workloads,
            "ratio": mean.ratio,
            "first_looks": means.first_looks,
        }
        for task, means in means_by_task(pairs).items()
        for mean in means.means
    ]


def _left_out_json(kind: str, alike: Sequence[pairing.LeftOut]) -> dict[str, Any]:
    """Runs that were left out for reasons of one kind; `details` counts those with figures."""
    runs = [run for left in alike for run in left.runs]
    details = Counter(left.reason for left in alike for _ in left.runs)
    return {
        "reason": kind,
        "count": len(runs),
        "models": list(dict.fromkeys(run.spec.workload.model for run in runs)),
        "details": dict(details.most_common()),
        "runs": [run.id for run in runs],
    }


def _start_json(name: str, arm: Arm) -> dict[str, Any]:
    """What the start costs on top of steady epochs or iterations, and the most memory in use."""
    peaks = [m.peak_memory_bytes for m in arm.runs if m.peak_memory_bytes is not None]
    return {
        f"{name}_start_seconds": arm.excess_seconds(arm.start_shown),
        f"{name}_peak_memory_bytes": max(peaks, default=None),
    }


def _inference_json(pair: Comparison) -> dict[str, Any]:
    """What only single iterations have, and whether they computed the right thing."""
    if pair.unit == "epoch":
        return {}
    found: dict[str, Any] = {}
    for name, arm in (("baseline", pair.baseline), ("candidate", pair.candidate)):
        for q, seconds in arm.known_percentiles().items():
            found[f"{name}_p{q}_seconds"] = seconds
        found[f"{name}_first_seconds"] = arm.first_seconds(arm.start_shown)
        stated = all(m.run.stated for m in arm.runs)  # its start is stated, not what it went into
        found[f"{name}_compile_seconds"] = None if stated else arm.compile_seconds(arm.start_shown)
    found["parity"] = pair.candidate.parity and pair.candidate.parity.verdict
    return found


def _break_even_json(pair: Comparison, found: stats.BreakEven | None) -> dict[str, Any] | None:
    if found is None or not pair.differs:  # no gain is shown that could pay anything back
        return None
    kind = pair.unit if found.kind == "epoch" else found.kind
    return {"kind": kind, pair.unit: found.epoch, "projected": found.projected}
