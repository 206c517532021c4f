"""The file is the queue and the memory: every promise is kept on a real SQLite file."""

import multiprocessing
import sqlite3
from array import array

import pytest

from bench_core.events import CompileWindow, Epoch
from bench_core.spec import Experiment, Measurement, Rung, RunSpec, Variant, Workload
from bench_core.store import MIGRATIONS, Store, StoreError
from tests.planted import planted_experiment


def experiment(count: int = 2) -> Experiment:
    return Experiment(
        models=("small_cnn",),
        batch_sizes=tuple(range(1, count + 1)),
        variants=(Variant(),),
        repeats=1,
        workload={"samples": 64, "image_size": 32},
    )


def epoch(number: int, **changed) -> Epoch:
    fields = {
        "epoch": number,
        "started_at": 1.0,
        "wall_seconds": 2.5,
        "data_wait_seconds": 0.1,
        "compile_seconds": 0.0,
        "step_seconds": (0.1, 0.2),
        "samples": 64,
        "loss": 2.3,
    }
    return Epoch(**{**fields, **changed})


def test_an_experiment_is_queued_once_however_often_it_is_sent(store):
    sent = experiment()
    assert store.queue(sent)
    assert not store.queue(sent)
    assert len(store.queued()) == 2


def claim_all(path, ready, claimed):
    ready.wait()
    with Store(path) as store:
        while run := store.claim():
            claimed.put(run.number)


def test_twelve_claimers_at_once_claim_each_run_exactly_once(tmp_path):
    path = tmp_path / "bench.db"
    with Store(path) as store:
        store.queue(experiment(60))
    context = multiprocessing.get_context("spawn")
    ready, claimed = context.Barrier(12), context.Queue()
    claimers = [context.Process(target=claim_all, args=(path, ready, claimed)) for _ in range(12)]
    for claimer in claimers:
        claimer.start()
    numbers = [claimed.get(timeout=60) for _ in range(60)]
    for claimer in claimers:
        claimer.join(60)
    assert [claimer.exitcode for claimer in claimers] == [0] * 12
    assert sorted(numbers) == list(range(1, 61))
    assert claimed.empty()


def test_runs_are_claimed_in_the_order_they_were_queued_and_by_experiment_if_asked(store):
    first, second = experiment(), experiment()
    store.queue(first)
    store.queue(second)
    assert store.claim(second.id).number == 3
    assert store.claim().number == 1
    assert store.claim("no such experiment") is None


def test_an_epoch_comes_back_as_it_went_in(store):
    store.queue(experiment())
    run = store.claim()
    window = CompileWindow(trigger="DYNAMO", offset_seconds=0.25, seconds=1.5)
    sent = epoch(1, compile_seconds=1.5, compile_windows=(window,), loss=None)
    store.add_epoch(run.number, sent)
    assert store.epochs([run.number], steps=True) == {run.number: [sent]}
    assert store.epochs([run.number])[run.number][0].step_seconds == ()


def test_a_block_of_inference_comes_back_with_every_latency(store):
    store.queue(experiment().changed(workload={"task": "infer", "image_size": 32}))
    store.queue(experiment())
    run, training = store.claim(), store.runs()[2]
    window = CompileWindow(trigger="DYNAMO", offset_seconds=0.25, seconds=1.5, iteration=1)
    sent = epoch(
        1, compile_windows=(window,), step_seconds=(1.7, 0.1 + 0.2), device_seconds=(1.6, 0.25),
        loss=None,
    )  # fmt: skip
    store.add_epoch(run.number, sent)
    store.add_epoch(training.number, epoch(1))
    read = store.epochs([run.number, training.number])
    assert read[run.number] == [sent], "inference consists of these times: they always come"
    assert read[training.number][0].step_seconds == ()


def test_a_file_of_the_first_version_is_taken_over_with_its_runs(tmp_path):
    path = tmp_path / "bench.db"
    with sqlite3.connect(path) as db:
        for statement in MIGRATIONS[0].split(";\n"):
            db.execute(statement)
        db.execute("PRAGMA user_version = 1")
        spec = RunSpec(workload=Workload(model="small_cnn")).to_json()
        db.execute("INSERT INTO experiments VALUES ('0123456789ab', 1.0, '{}')")
        db.execute(
            "INSERT INTO runs (id, experiment_id, spec, created_at) "
            "VALUES ('ab0123456789', '0123456789ab', ?, 1.0)",
            (spec,),
        )
        steps = array("d", (0.5, 0.25)).tobytes()
        db.execute(
            "INSERT INTO epochs VALUES (1, 1, 1.0, 2.0, 0.0, 0.0, '[]', 8, 0.1, "
            "NULL, NULL, NULL, NULL, NULL, NULL, ?)",
            (steps,),
        )
    db.close()
    with Store(path) as store:
        [read] = store.epochs([1], steps=True)[1]
        assert (read.step_seconds, read.device_seconds) == ((0.5, 0.25), ())
        assert store.run(1).spec.workload.task == "train"
        store.add_epoch(1, epoch(2))
        assert len(store.epochs([1])[1]) == 2


def test_stop_ends_queued_runs_at_once_and_asks_a_running_one(store):
    sent = experiment(3)
    store.queue(sent)
    run = store.claim()
    store.stop(experiment_id=sent.id)
    assert store.stop_requested(run.number)
    assert [one.status for one in store.runs()] == ["running", "stopped", "stopped"]


def test_how_a_run_ended_is_not_overwritten(store):
    store.queue(experiment())
    run = store.claim()
    store.finish(run.number, "failed", failure="out of memory", reason="too big")
    store.finish(run.number, "done")
    ended = store.run(run.number)
    assert (ended.status, ended.failure, ended.reason) == ("failed", "out of memory", "too big")


def test_runs_that_nobody_measures_become_interrupted_and_keep_their_epochs(store):
    store.queue(experiment())
    run = store.claim()
    store.add_epoch(run.number, epoch(1))
    [interrupted] = store.interrupt_running()
    assert interrupted.status == "interrupted"
    assert len(store.epochs([run.number])[run.number]) == 1
    assert [one.status for one in store.runs()] == ["interrupted", "queued"]


def test_deleting_takes_ended_runs_with_their_epochs_and_leaves_the_others(store):
    store.queue(experiment())
    run = store.claim()
    store.add_epoch(run.number, epoch(1))
    store.delete([1, 2])
    assert len(store.runs()) == 2, "a running and a queued run cannot be deleted"
    store.finish(1, "done")
    store.stop()
    store.delete([1, 2])
    assert store.runs() == store.experiments() == []
    assert store.epochs([1]) == {1: []}
    store.queue(experiment())
    assert store.claim().number == 3, "a number is never given twice"


def test_a_run_is_found_by_number_and_by_id(store):
    store.queue(experiment())
    run = store.run(2)
    assert store.run(run.id) == store.run("2") == run
    assert store.run("nonsense") is None


def test_machines_keep_the_order_of_their_first_run(store):
    for machine in ("T4", "A100", "T4"):
        planted_experiment(store, machine=machine, repeats=1, epochs=1)
    assert store.machines() == ["T4", "A100"]


def test_a_file_that_is_no_database_is_refused_with_the_way_out(tmp_path):
    path = tmp_path / "bench.db"
    path.write_text("this is not a database, but it is long enough to be looked at" * 20)
    with pytest.raises(StoreError, match="move it away or set BENCH_DATA"):
        Store(path)
    assert path.read_text().startswith("this is not")


def test_a_row_that_cannot_be_read_is_named(store):
    store.queue(experiment())
    store._execute("UPDATE runs SET spec = '{garbage' WHERE number = 2")
    with pytest.raises(StoreError, match="run 2 cannot be read"):
        store.runs()


def test_a_file_whose_bytes_are_broken_is_a_sentence(tmp_path):
    path = tmp_path / "bench.db"
    with Store(path) as store:
        for _ in range(10):
            store.queue(experiment(20))
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"?" * (len(content) - 4096))
    with pytest.raises(StoreError, match="cannot be"), Store(path) as store:
        store.runs()


def test_a_file_of_a_newer_version_is_left_alone(tmp_path):
    path = tmp_path / "bench.db"
    Store(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreError, match="newer version"):
        Store(path)


def turn_takers(protocol: str = "paired", **changed) -> Experiment:
    fields = {
        "models": ("small_cnn",),
        "batch_sizes": (8, 16),
        "precisions": ("fp32", "bf16"),
        "variants": (Variant(), Variant(execution="compile")),
        "repeats": 2,
        "workload": {"samples": 64, "image_size": 32},
        "measurement": Measurement(protocol=protocol),
    }
    return Experiment(**{**fields, **changed})


def test_the_arms_of_a_repeat_are_claimed_together_and_no_others(store):
    store.queue(experiment())
    store.queue(turn_takers())
    claimed = []
    while runs := store.claim_round():
        claimed.append([run.number for run in runs])
    assert claimed == [[1], [2]] + [[number, number + 1] for number in range(3, 19, 2)]
    assert {run.status for run in store.runs()} == {"running"}


def test_sequential_runs_are_claimed_one_by_one_in_their_order(store):
    store.queue(turn_takers("sequential"))
    assert [[run.number for run in store.claim_round()] for _ in range(3)] == [[1], [2], [3]]


def test_arms_that_differ_in_what_the_grid_varies_share_a_cell(store):
    rungs = (Rung(), Rung(workload={"batch_size": 32}), Rung(workload={"precision": "bf16"}))
    store.queue(turn_takers(rungs=rungs, precisions=("fp32",)))
    assert [len(store.claim_round()) for _ in range(4)] == [3, 3, 3, 3]
    assert [run.cell for run in store.runs()] == [0] * 6 + [1] * 6


def test_a_run_that_is_put_back_comes_next_alone_and_without_what_it_measured(store):
    store.queue(turn_takers(batch_sizes=(8,), precisions=("fp32",)))
    first, second = store.claim_round()
    store.set_round((first.number, second.number), "a round")
    store.add_epoch(first.number, epoch(1))
    store.put_back(first.number, "no room")
    again = store.run(first.number)
    assert (again.status, again.round, again.protocol_note) == ("queued", None, "no room")
    assert (again.started_at, again.phase) == (None, None)
    assert store.epochs([first.number])[first.number] == []
    assert [run.number for run in store.claim_round()] == [first.number]
    assert [run.number for run in store.claim_round()] == [3, 4]


def test_only_queued_runs_leave_the_queue(store):
    store.queue(experiment(3))
    store.claim()
    store.remove_queued([1, 2])
    assert [run.number for run in store.runs()] == [1, 3]
    assert store.next_queued().number == 3
