"""What `run` shows while it measures: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys

import click

from bench_core import events, pairing
from bench_core.measured import Arm
from bench_core.run import Run
from bench_core.spec import Experiment, RunSpec
from bench_core.units import seconds_text


class Progress:
    """A bar on a terminal, plain lines elsewhere; on stderr, so that stdout stays clean."""

    def __init__(self, experiment: Experiment) -> None:
        runs = experiment.runs()
        self._bar = None
        self._axis = experiment.axis
        self._count = f"{'at most ' * bool(experiment.measurement.until_sure)}{len(runs)}"
        self._done: dict[int, int] = {}  # epochs or iterations of each run that has begun
        if sys.stderr.isatty():
            self._bar = click.progressbar(
                length=sum(run.is_done_after for run in runs),
                file=sys.stderr,
                show_pos=True,
                width=24,
            )
            self._bar.render_progress()

    def note(self, run: Run, event: events.Event) -> None:
        """Show what the run's process reported; the first word of a run announces it."""
        if run.number not in self._done:
            self._done[run.number] = 0
            if not self._bar:
                place, told = len(self._done), described(run.spec, self._axis)
                click.echo(f"run {place} of {self._count}: {told}", err=True)
        match event:
            case events.Epoch():
                self._show_epoch(run, event)
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
            place = list(self._done).index(run.number) + 1
            text = f"{place}/{self._count} {described(run.spec, self._axis)}: {doing}"
            self._bar.label = text[:width].ljust(width)
            self._bar.render_progress()

    def _show_epoch(self, run: Run, epoch: events.Epoch) -> None:
        before = self._done[run.number] if epoch.epoch > 1 else 0  # it may be measured afresh
        whole, more = run.spec.is_done_after, events.measured_by(run.spec, epoch)
        done = self._done[run.number] = before + more
        if self._bar:
            self._bar.update(more)
            return
        compiling = (
            f", of which compiling {seconds_text(epoch.compile_seconds)}"
            if epoch.compile_seconds
            else ""
        )
        if run.spec.workload.task == "train":
            told = f"epoch {epoch.epoch}: {seconds_text(epoch.wall_seconds)}"
        elif before == 0:
            told = f"first call: {seconds_text(epoch.step_seconds[0])}"
        elif before * 10 // whole < done * 10 // whole:  # a tenth: blocks are too many
            told = f"iteration {done}: {seconds_text(epoch.step_seconds[-1])}"
        else:
            return
        takes_turns = run.spec.measurement.protocol == "paired"
        arm = f"{arm_name(run.spec, self._axis)}, " if takes_turns else ""
        click.echo(f"  {arm}{told}{compiling}", err=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar:
            self._bar.render_finish()


def described(spec: RunSpec, axis: tuple[str, ...] = ("variant",)) -> str:
    """`resnet18, batch 16, fp32, compile, cold cache`; arms of other axes by their own names."""
    work, cache = spec.workload, spec.variant.cache
    words = [work.model, work.size_text, work.precision, arm_name(spec, axis)]
    return ", ".join(words + ([f"{cache} cache"] if cache else []))


def arm_name(spec: RunSpec, axis: tuple[str, ...]) -> str:
    """The arm that a run belongs to where an experiment compares along this axis."""
    return Arm(spec.variant.arm, (), pairing.setting_of(spec, axis)).name
