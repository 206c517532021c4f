"""What the command line shows: a bar while it measures, then tables and answers. No logic."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any

import click

from bench_core import events, pairing, stats
from bench_core.measured import Measured
from bench_core.run import Run
from bench_core.spec import Experiment
from bench_core.units import bytes_text, interval_text, ratio_text, seconds_text


class Progress:
    """A bar on a terminal, plain lines elsewhere; on stderr, so that stdout stays clean."""

    def __init__(self, experiment: Experiment) -> None:
        runs = experiment.runs()
        self._bar = None
        self._run_number: int | None = None
        self._started = 0
        self._count = len(runs)
        if sys.stderr.isatty():
            self._bar = click.progressbar(
                length=sum(run.measurement.epochs for run in runs),
                file=sys.stderr,
                show_pos=True,
                width=24,
            )
            self._bar.render_progress()

    def note(self, run: Run, event: events.Event) -> None:
        if run.number != self._run_number:
            self._run_number = run.number
            self._started += 1
            if not self._bar:
                click.echo(f"run {self._started} of {self._count}: {_described(run)}", err=True)
        match event:
            case events.Epoch():
                self._show_epoch(event)
            case events.PhaseStarted():
                self._label(run, event.phase)
            case events.CompileStarted():
                self._label(run, "compiling")
            case events.Failed():
                click.echo(
                    f"\n  failed: {event.reason}" if self._bar else f"  {event.reason}", err=True
                )

    def _label(self, run: Run, doing: str) -> None:
        if self._bar:
            width = max(20, shutil.get_terminal_size().columns - 60)
            text = f"{self._started}/{self._count} {_described(run)}: {doing}"
            self._bar.label = text[:width].ljust(width)
            self._bar.render_progress()

    def _show_epoch(self, epoch: events.Epoch) -> None:
        if self._bar:
            self._bar.update(1)
            return
        compiling = (
            f", of which compiling {seconds_text(epoch.compile_seconds)}"
            if epoch.compile_seconds
            else ""
        )
        click.echo(
            f"  epoch {epoch.epoch}: {seconds_text(epoch.wall_seconds)}{compiling}", err=True
        )

    def close(self) -> None:
        if self._bar:
            self._bar.render_finish()


def _described(run: Run) -> str:
    work, variant = run.spec.workload, run.spec.variant
    return f"{work.model}, batch {work.batch_size}, {variant.name_with_cache}"


def print_runs(measured: list[Measured]) -> None:
    rows = [
        (
            str(one.run.number),
            one.run.spec.workload.model,
            str(one.run.spec.workload.batch_size),
            one.run.spec.variant.name_with_cache,
            one.run.status,
            str(len(one.epochs)),
            seconds_text(one.first_seconds),
            seconds_text(one.compile_seconds) if one.compile_seconds else "",
            seconds_text(one.steady.median_seconds),
            bytes_text(max((e.peak_memory_bytes or 0 for e in one.epochs), default=0) or None),
        )
        for one in measured
    ]
    head = ("run", "model", "batch", "variant", "status", "epochs", "first", "compiling")
    click.echo()
    print_table((*head, "steady epoch", "peak memory"), rows)
    for one in measured:
        if one.run.status == "failed":
            click.echo(f"run {one.run.number} failed: {one.run.reason}")


def print_answers(found: pairing.Comparisons) -> None:
    for pair in found.pairs:
        try:
            _ = pair.speedup
        except stats.ScipyMissing as missing:  # the one thing a notebook may lack
            click.echo(f"\n{pair.workload.model}: {missing}")
            continue
        click.echo(f"\n{pair.headline}.\n  {pair.detail}")
        if pair.speedup.kind != "first look" and pair.shows_difference:
            click.echo(f"  {pair.saving_text}")


def print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def print_facts(title: str, facts: dict[str, Any]) -> None:
    click.echo(f"\n{title.lower()}")
    for name, value in facts.items():
        if value is not None and value != () and value != "":
            click.echo(f"  {name}: {value}")


def answer_row(pair: pairing.Comparison) -> tuple[str, ...]:
    speedup = pair.speedup
    return (
        pair.workload.model,
        pair.machine,
        str(pair.workload.batch_size),
        pair.candidate.variant.name,
        ratio_text(speedup.ratio, speedup.low, speedup.high),
        interval_text(speedup.low, speedup.high),
        f"{speedup.baseline_runs} + {speedup.candidate_runs}",
        pair.verdict_text,
        pair.pays_off_text,
    )


def as_json(found: pairing.Comparisons) -> dict[str, Any]:
    return {
        "matched": len(found.pairs),
        "geomean": found.geometric_mean,
        "left_out": [
            {"runs": [run.id for run in left.runs], "reason": left.reason}
            for left in found.left_out
        ],
        "pairs": [
            {
                "model": pair.workload.model,
                "machine": pair.machine,
                "device": pair.device,
                "batch_size": pair.workload.batch_size,
                "precision": pair.workload.precision,
                "baseline": pair.baseline.variant.name,
                "candidate": pair.candidate.variant.name,
                "baseline_epoch_seconds": pair.baseline.steady_seconds,
                "candidate_epoch_seconds": pair.candidate.steady_seconds,
                "kind": pair.speedup.kind,
                "speedup": pair.speedup.ratio,
                "low": pair.speedup.low,
                "high": pair.speedup.high,
                "verdict": pair.speedup.verdict,
                "break_even_cold": _break_even_json(pair.break_even_cold),
                "break_even_warm": _break_even_json(pair.break_even_warm),
            }
            for pair in found.pairs
        ],
    }


def _break_even_json(found: stats.BreakEven | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"kind": found.kind, "epoch": found.epoch, "projected": found.projected}
