"""An experiment measured from the command line: by this process, or by the worker that is alive."""

from __future__ import annotations

import time

import click

from bench_core import events, worker
from bench_core.progress_bar import Progress
from bench_core.run import ENDED, Run
from bench_core.spec import Experiment
from bench_core.store import Store
from bench_core.units import counted


def measure(store: Store, experiment: Experiment) -> None:
    """Returns when its last run has ended; what happens is shown meanwhile, on stderr."""
    progress = Progress(experiment)
    try:
        worker.serve(experiment.id, idle_seconds=0, watch=progress.note)
    except worker.WorkerBusy:
        click.echo("A worker is alive on this data folder; it takes these runs in turn.", err=True)
        _follow(store, experiment, progress)
    finally:
        progress.close()


def _follow(store: Store, experiment: Experiment, progress: Progress) -> None:
    """Show what another worker stores, until the experiment's last run has ended."""
    shown: dict[int, int] = {}
    said = ""
    while True:
        runs = store.runs(experiment.id)
        if waiting := _waiting_for(store, runs):
            if waiting != said:
                click.echo(waiting, err=True)
            said = waiting
        for run in runs:
            if run.status == "queued":
                continue
            epochs = store.epochs([run.number])[run.number]
            if run.phase and run.status == "running" and not run.waits_for_its_turn:
                progress.note(run, events.PhaseStarted(phase=run.phase, epoch=run.phase_epoch))
            for epoch in epochs[shown.get(run.number, 0) :]:
                progress.note(run, epoch)
            shown[run.number] = len(epochs)
        if all(run.status in ENDED for run in runs):
            return
        worker.ensure()  # the one that held the folder may have ended
        time.sleep(0.5)


def _waiting_for(store: Store, runs: list[Run]) -> str:
    """What is measured before the first of these runs; empty once one of them has begun."""
    if any(run.status != "queued" for run in runs):
        return ""
    ahead = [run for run in store.queued() if run.number < runs[0].number]
    now = "".join(f"; now: {run.title_with_cache}" for run in store.running())
    return f"{counted(len(ahead), 'run')} waiting ahead{now}"
