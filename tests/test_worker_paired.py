"""Arms that take turns: one at a time, each by its own rules, and the machine free at the end.

Real workers and processes; mostly eager arms of a tiny network, so that a round takes seconds.
"""

from __future__ import annotations

import itertools
import signal
from pathlib import Path

import psutil

from bench_core.run import Run
from bench_core.spec import Experiment, Measurement, Rung, Variant
from bench_core.store import Store
from tests.measuring_child import write_model
from tests.test_worker import (  # noqa: F401  (fixtures)
    data,
    epochs_of,
    processes_of,
    start_worker,
    store,
    wait_for,
)

ENDLESS = 100_000
EQUAL = (Rung(side="A"), Rung(side="B"))
LAYOUTS = ("contiguous", "channels_last")
FOUR = tuple(
    Rung(workload={"memory_layout": layout, "precision": precision})
    for precision in ("fp32", "bf16")
    for layout in LAYOUTS
)


def paired(*, repeats: int = 1, rungs: tuple[Rung, ...] = EQUAL, **measurement) -> Experiment:
    return Experiment(
        models=("small_cnn",),
        batch_sizes=(16,),
        variants=(Variant(),),
        rungs=rungs,
        repeats=repeats,
        workload={"samples": 64, "image_size": 32, "pipeline": "cached"},
        measurement=Measurement(**{"protocol": "paired", "epochs": ENDLESS, **measurement}),
    )


def turns(store: Store, *numbers: int) -> list[tuple[int, int]]:  # noqa: F811
    """(run, epoch) in the order in which they were measured."""
    clock = [
        (epoch.started_at, number, epoch.epoch)
        for number, epochs in store.epochs(numbers).items()
        for epoch in epochs
    ]
    return [(number, epoch) for _, number, epoch in sorted(clock)]


def wait_for_turns(store: Store, *numbers: int) -> None:  # noqa: F811
    """Each of these runs has another two epochs."""
    before = {number: epochs_of(store, number) for number in numbers}
    wait_for(lambda: all(epochs_of(store, n) >= known + 2 for n, known in before.items()))


def waiting(store: Store) -> Run:  # noqa: F811
    """A run that waits for its turn at this moment."""
    found: list[Run] = []

    def look() -> bool:
        found[:] = [run for run in store.running() if run.waits_for_its_turn and run.child_pid]
        return bool(found)

    wait_for(look)
    return found[0]


def test_arms_take_turns_epoch_by_epoch_and_one_at_a_time(store, start_worker):  # noqa: F811
    store.queue(paired(repeats=2, epochs=3))
    assert start_worker().wait(300) == 0
    runs = store.runs()
    assert {run.status for run in runs} == {"done"}, [run.reason for run in runs]
    assert turns(store, 1, 2)[:6] == [(1, 1), (2, 1), (2, 2), (1, 2), (1, 3), (2, 3)]
    assert [run.spec.measurement.side for run in runs[2:4]] == ["B", "A"], "the other one first"
    assert turns(store, 3, 4)[:4] == [(3, 1), (4, 1), (4, 2), (3, 2)]
    assert runs[0].round == runs[1].round is not None
    assert runs[2].round == runs[3].round != runs[0].round
    assert {run.protocol_note for run in runs} == {None}
    assert all(run.aftermath for run in runs)
    spans = sorted(
        (epoch.started_at, epoch.started_at + epoch.wall_seconds)
        for epochs in store.epochs([1, 2]).values()
        for epoch in epochs
    )
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert [processes_of(run) for run in runs[:2]] == [[], []]


def test_max_seconds_of_an_arm_counts_its_own_turns(store, start_worker):  # noqa: F811
    experiment = paired(
        rungs=(Rung(), Rung(workload={"image_size": 64})),
        iterations=1_000_000,
        max_seconds=1.6,
    )
    small = {"task": "infer", "image_size": 32}
    store.queue(experiment.changed(workload=small, batch_sizes=(1,)))
    assert start_worker().wait(120) == 0
    for run in store.runs():
        assert run.status == "done"
        assert run.reason.startswith("ended by max_seconds 1.6 after iteration")
        spent = sum(block.wall_seconds for block in store.epochs([run.number])[run.number])
        assert spent > 1.0


def test_an_arm_that_hangs_in_its_turn_times_out_and_costs_the_other_none_of_its_time(
    store,  # noqa: F811
    start_worker,  # noqa: F811
    data: Path,  # noqa: F811
):
    write_model(
        data,
        "stops.py",
        """
        import time

        import torch

        class Stops(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.head = torch.nn.Linear(3, 10)
                self.calls = 0

            def forward(self, images):
                self.calls += images.shape[-1] == 64
                if self.calls > 4:  # the first step of its second epoch
                    time.sleep(1000)
                return self.head(images.mean((2, 3)))

        def build_model():
            return Stops()
        """,
    )
    sizes = tuple(Rung(workload={"image_size": pixels}) for pixels in (32, 64))
    experiment = paired(rungs=sizes, timeout_seconds=15, max_seconds=2)
    store.queue(experiment.changed(models=("file:stops.py",)))
    assert start_worker().wait(90) == 0
    ended, hung = store.runs()
    assert (hung.status, hung.failure) == ("failed", "timed out"), hung.reason
    assert epochs_of(store, hung.number) == 1, "the one before it hung is kept"
    # The other one waited for all of that time, which is none of its own turns.
    assert ended.status == "done"
    count = epochs_of(store, ended.number)
    assert ended.reason == f"ended by max_seconds 2 after epoch {count}"
    assert ended.aftermath and count > 1
    assert ended.round == hung.round is not None
    assert [processes_of(run) for run in (ended, hung)] == [[], []]


def test_the_end_of_a_process_that_waits_is_noticed_and_the_others_go_on(
    store,  # noqa: F811
    start_worker,  # noqa: F811
):
    store.queue(paired(rungs=FOUR))
    worker = start_worker()
    wait_for_turns(store, 1, 2, 3, 4)
    assert len({run.round for run in store.runs()}) == 1

    killed = waiting(store)  # as the kernel does it where memory has run out
    psutil.Process(killed.child_pid).kill()
    wait_for(lambda: store.run(killed.number).status == "queued", seconds=10)
    note = store.run(killed.number).protocol_note
    assert note == ("measured by itself: beside eager it was killed, maybe for want of memory")
    assert store.run(killed.number).round is None
    assert epochs_of(store, killed.number) == 0, "it is measured afresh"

    ended = waiting(store)
    psutil.Process(ended.child_pid).send_signal(signal.SIGABRT)
    wait_for(lambda: store.run(ended.number).status == "failed", seconds=10)
    assert "killed by SIGABRT" in store.run(ended.number).reason

    left = [run.number for run in store.running()]
    assert len(left) == 2
    wait_for_turns(store, *left)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(15) == 143
    assert {store.run(number).status for number in left} == {"stopped"}
    assert [processes_of(run) for run in store.runs()] == [[]] * 4


def test_a_run_killed_beside_another_is_measured_by_itself_once_and_its_pair_is_none(
    store,  # noqa: F811
    start_worker,  # noqa: F811
):
    store.queue(paired())
    start_worker()
    wait_for_turns(store, 1, 2)
    killed = waiting(store).number
    other = 3 - killed
    psutil.Process(store.run(killed).child_pid).kill()
    wait_for(lambda: store.run(killed).status == "queued", seconds=10)
    assert (store.run(other).status, store.run(other).round) == ("running", None)
    assert store.run(other).protocol_note == (
        "measured one after the other: beside this run eager was killed, maybe for want of memory"
    )
    store.stop(number=other)
    wait_for(lambda: epochs_of(store, killed) >= 1)
    psutil.Process(store.run(killed).child_pid).kill()
    wait_for(lambda: store.run(killed).status == "failed")


def test_one_arm_can_be_stopped_and_a_dead_worker_leaves_nothing_running(
    store,  # noqa: F811
    start_worker,  # noqa: F811
):
    store.queue(paired(rungs=FOUR[:3]))
    worker = start_worker()
    wait_for_turns(store, 1, 2, 3)
    store.stop(number=1)
    wait_for(lambda: store.run(1).status == "stopped", seconds=8)
    assert processes_of(store.run(1)) == []
    assert epochs_of(store, 1) >= 2, "they are kept"
    wait_for_turns(store, 2, 3)

    worker.kill()
    worker.wait()
    wait_for(lambda: not any(processes_of(run) for run in store.runs()), seconds=5)
    assert start_worker(idle_seconds=0).wait(30) == 0
    assert [run.status for run in store.runs()] == ["stopped", "interrupted", "interrupted"]


def test_arms_that_do_not_fit_into_memory_are_measured_one_after_the_other(
    store,  # noqa: F811
    start_worker,  # noqa: F811
    monkeypatch,
):
    monkeypatch.setenv("BENCH_MEMORY_BYTES", "200000000")  # one process with torch is more
    store.queue(paired(epochs=3))
    assert start_worker().wait(120) == 0
    runs = store.runs()
    assert [(run.status, run.round) for run in runs] == [("done", None)] * 2
    for run in runs:
        assert run.protocol_note.startswith("measured one after the other: two processes of ")
        assert run.protocol_note.endswith("B of free memory")
    assert [number for number, _ in turns(store, 1, 2)] == [1, 1, 1, 2, 2, 2]


def test_two_arms_of_one_compile_share_its_folder_and_stop_together(
    store,  # noqa: F811
    start_worker,  # noqa: F811
    data: Path,  # noqa: F811
):
    compiled = Variant(execution="compile", backend="aot_eager", cache="warm")
    experiment = paired(rungs=(Rung(variant=compiled, side="A"), Rung(variant=compiled, side="B")))
    store.queue(experiment)
    start_worker()
    wait_for_turns(store, 1, 2)
    store.stop(experiment_id=experiment.id)
    wait_for(lambda: not store.running(), seconds=8)
    runs = store.runs()
    assert [run.status for run in runs] == ["stopped", "stopped"]
    assert [run.activity.graphs for run in runs] == [1, 1]
    assert runs[0].priming_seconds and not runs[1].priming_seconds, "the folder is filled once"
    [folder] = (data / "caches").glob("*")
    assert (folder / "PRIMED").exists()
    assert [processes_of(run) for run in runs] == [[], []]
