"""What the command line says of inference, as rows of text: runs, and arms beside each other.

Pure. terminal.py prints it. An arm's table holds the runs that may be compared with one another;
what is too long for a cell (verdict, effective settings, parity) is a note below the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from bench_core import pairing, stats
from bench_core.comparison import Comparison
from bench_core.doubts import doubts_text
from bench_core.measured import Arm, Measured
from bench_core.run import Run
from bench_core.sizes import sizes_text
from bench_core.spec import Execution
from bench_core.units import (
    counted,
    interval_text,
    rate_text,
    ratio_text,
    seconds_text,
)

# What the seconds before the first call went into.
MADE_BY: dict[Execution, str] = {
    "export_aot": "export",
    "jit_trace_frozen": "trace",
    "onednn_graph": "trace",
}


# Single runs

RUN_HEAD = (
    "run", "model", "size", "precision", "variant", "cache", "status", "calls", "p50", "p99",
    "first call", "compiling",
)  # fmt: skip


def run_row(one: Measured) -> tuple[str, ...]:
    work, variant = one.run.spec.workload, one.run.spec.variant
    shown = Arm(variant.arm, (one,)).known_percentiles()
    return (
        str(one.run.number),
        work.model,
        work.size_text if one.run.states("batch_size") else "",
        work.precision if one.run.states("precision") else "",
        variant.name,
        (variant.cache or "") if one.run.states("cache") else "",
        one.run.status,
        str(len(one.series_seconds)),
        seconds_text(shown[50]),
        seconds_text(shown[99]),
        seconds_text(one.first_seconds),
        _making_text(variant.execution, one.execution_seconds, one.compile_seconds),
    )


def _making_text(execution: Execution, before: float, compiling: float | None) -> str:
    """Seconds in the compiler, or those of tracing or exporting before the first call."""
    if execution not in MADE_BY:
        return seconds_text(compiling) if compiling else ""
    seconds = before + (compiling or 0.0)
    return f"{seconds_text(seconds)} {MADE_BY[execution]}" if seconds else ""


# Arms beside each other


@dataclass(frozen=True)
class ArmTable:
    """The arms of one workload on one machine, the baseline's row among them."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str]


def arm_tables(measured: list[Measured], found: pairing.Comparisons) -> list[ArmTable]:
    """In the order of the first runs.

    Runs that failed, still run, or have no steady state are in none of them. An arm with a speedup
    is shown with those of its runs that the speedup is of.
    """
    compared: dict[int, tuple[Arm, Comparison | None]] = {}
    for pair in found.pairs:
        compared |= {one.run.number: (pair.baseline, None) for one in pair.baseline.runs}
        compared |= {one.run.number: (pair.candidate, pair) for one in pair.candidate.runs}
    tables = []
    for arms in _cells(measured):
        run = arms[0].runs[0].run
        rated = f"{run.spec.workload.thing}s/s"
        beside = [
            next(
                (compared[m.run.number] for m in arm.runs if m.run.number in compared), (arm, None)
            )
            for arm in arms
        ]
        tables.append(
            ArmTable(
                title=_conditions(run),
                head=(
                    "variant", "p50", "p90", "p99", rated, "first call", "compiling", "speedup",
                    "95 % interval", "runs",
                ),
                rows=[_arm_row(arm, pair) for arm, pair in beside],
                notes=list(filter(None, (_note(arm, pair) for arm, pair in beside))),
            )
        )  # fmt: skip
    return tables


def _cells(measured: list[Measured]) -> list[list[Arm]]:
    cells: dict[tuple[object, ...], list[Measured]] = {}
    for one in measured:
        over = one.run.status in ("done", "stopped", "interrupted")
        if one.unit == "epoch" or not over or not one.steady_seconds:
            continue
        cells.setdefault(tuple(pairing.conditions_of(one.run).items()), []).append(one)
    return [
        [
            Arm(variant, tuple(one for one in cell if one.run.spec.variant.arm == variant))
            for variant in dict.fromkeys(one.run.spec.variant.arm for one in cell)
        ]
        for cell in cells.values()
    ]


def _conditions(run: Run) -> str:
    """`resnet18 on laptop (cpu): batch 8, bf16, 224 px, no_grad`."""
    work = run.spec.workload
    words = [
        work.size_text,
        work.precision,
        "" if work.is_function else f"{work.image_size} px",
        "" if work.pipeline == "resident" else work.pipeline,
        "with backward" if work.backward else str(work.grad_mode),
        "compiled inside of it" if work.compile_in_grad_mode else "",
        "" if work.memory_layout == "contiguous" else work.memory_layout,
        counted(work.threads, "thread") if work.threads else "",
    ]
    return f"{work.model} on {run.machine} ({run.spec.device}): {', '.join(filter(None, words))}"


def _arm_row(arm: Arm, pair: Comparison | None) -> tuple[str, ...]:
    cache = arm.start_shown
    before = fmean(one.execution_seconds for one in arm.runs)
    return (
        arm.name,
        *map(seconds_text, arm.known_percentiles().values()),
        rate_text(arm.runs[0].run.spec.workload.batch_size / arm.steady_seconds),
        seconds_text(arm.first_seconds(cache)),
        _making_text(arm.variant.execution, before, arm.compile_seconds(cache)),
        *_speedup_cells(pair),
        str(len(arm.runs)),
    )


def _speedup_cells(pair: Comparison | None) -> tuple[str, str]:
    """The ratio, and its interval over runs or that there is none."""
    if pair is None:
        return "", ""
    if not _can_be_judged(pair):
        return ratio_text(
            pair.baseline.steady_seconds / pair.candidate.steady_seconds
        ), "needs scipy"
    found = pair.speedup
    interval = interval_text(found.low, found.high) or found.kind
    return ratio_text(found.ratio, found.low, found.high), interval


def _can_be_judged(pair: Comparison) -> bool:
    """Three runs an arm need scipy, the one thing that a notebook may lack."""
    try:
        return bool(pair.speedup)
    except stats.ScipyMissing:
        return False


def _note(arm: Arm, pair: Comparison | None) -> str:
    """What the speedup means, what was really in effect, and whether the results are right."""
    words = []
    if pair and _can_be_judged(pair):
        words += [f"{pair.verdict_text}.", pair.pays_off_text, doubts_text(pair)]
    findings = [
        finding.text
        for one in arm.runs
        if one.run.aftermath
        for finding in one.run.aftermath.effective or ()
    ]
    if findings:
        words.append(f"Effective: {'; '.join(dict.fromkeys(findings))}.")
    if arm.parity:
        words.append(f"Parity: {arm.parity.verdict}, {arm.parity.text.rstrip('.')}.")
    text = " ".join(filter(None, words))
    return text and f"{arm.name}: {text}"


# Functions over the size of their input


def size_sentences(found: pairing.Comparisons) -> list[str]:
    """For each function that was measured at several sizes: from which one on a variant pays."""
    groups: list[list[Comparison]] = []
    for pair in found.pairs:
        if not pair.workload.is_function or not _can_be_judged(pair):
            continue
        for group in groups:
            if _differ_in_size_alone(group[0], pair):
                group.append(pair)
                break
        else:
            groups.append([pair])
    return [sizes_text(pairs) for pairs in groups if len(pairs) > 1]


def _differ_in_size_alone(one: Comparison, other: Comparison) -> bool:
    """Of the same function file, too, on the same device with as many threads."""
    ours, theirs = one.candidate, other.candidate
    others = pairing.differences(ours.runs[0].run, theirs.runs[0].run).keys()
    return ours.variant == theirs.variant and others <= {"batch_size", "samples"}
