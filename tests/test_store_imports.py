"""Imports: all of a file or nothing, nobody locked out, and taken out again without a trace."""

import multiprocessing
import multiprocessing.synchronize
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench_core import store as store_module
from bench_core.events import CompileWindow, Environment, Epoch, StepSummary
from bench_core.imported import Imported, ImportedRun
from bench_core.measured import COMPUTING, measure, measure_all
from bench_core.source import Stated
from bench_core.spec import Experiment, RunSpec, Variant, Workload
from bench_core.store import Store, StoreError
from bench_core.table_file import BadFile
from pages.parts import measured as pages_measured
from pages.parts.measured import measured_runs
from tests.many_runs import many_runs
from tests.planted import planted_experiment

TABLES = ("experiments", "runs", "epochs", "packed_epochs", "derived", "imports")


def sha256(salt: str = "") -> str:
    return salt.ljust(64, "0")


def take(store: Store, runs: Iterator[ImportedRun], salt: str = "") -> Imported:
    return store.import_runs(f"{salt}.csv", sha256(salt), "a family", runs)


def content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with sqlite3.connect(path) as db:
        found = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in TABLES}
    db.close()
    return found


def one_of(**changed: object) -> ImportedRun:
    [one] = many_runs(1, 5)
    return replace(one, run=replace(one.run, **changed))


def ends_with(runs: Iterator[ImportedRun], error: Exception) -> Iterator[ImportedRun]:
    yield from runs
    raise error


# All or nothing


@pytest.mark.parametrize("error", [BadFile("epoch must be 7, got 'x'", 9), KeyboardInterrupt()])
def test_whatever_ends_the_reading_leaves_nothing(store: Store, error: Exception) -> None:
    planted_experiment(store, repeats=1, epochs=4)
    before = content(store.path)
    # More than are staged at once.
    with pytest.raises(type(error)):
        take(store, ends_with(many_runs(250, 2), error))
    assert content(store.path) == before
    assert take(store, many_runs(4, 2)).new == 4, "the same connection goes on"


def import_until_killed(path: Path, ready: multiprocessing.synchronize.Event) -> None:
    def runs() -> Iterator[ImportedRun]:
        yield from many_runs(250, 2)
        ready.set()
        time.sleep(60)

    with Store(path) as store:
        take(store, runs())


def test_a_killed_import_leaves_the_store_as_it_was(store: Store) -> None:
    planted_experiment(store, repeats=1, epochs=4)
    before = content(store.path)
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    importer = context.Process(target=import_until_killed, args=(store.path, ready))
    importer.start()
    assert ready.wait(60)
    assert importer.pid
    os.kill(importer.pid, signal.SIGKILL)
    importer.join(60)
    assert content(store.path) == before
    assert take(store, many_runs(250, 2)).new == 250


def test_a_run_that_stands_twice_in_a_file_refuses_it(store: Store) -> None:
    first, second = many_runs(2, 2)
    again = replace(second, run=replace(second.run, id=first.run.id))
    with pytest.raises(BadFile, match=f"line 2: run {first.run.id} stands there twice"):
        take(store, iter([first, again]))
    assert store.runs() == []


# Nobody is locked out


def test_while_a_file_is_read_others_write_without_waiting(store: Store) -> None:
    impatient = sqlite3.connect(store.path, timeout=0, isolation_level=None)

    def runs() -> Iterator[ImportedRun]:
        for place, one in enumerate(many_runs(450, 2)):
            if place % 50 == 0:
                impatient.execute("INSERT INTO experiments VALUES (?, 1.0, '{}')", (str(place),))
            yield one

    assert take(store, runs()).new == 450
    written = impatient.execute("SELECT count(*) FROM experiments WHERE spec = '{}'")
    assert written.fetchone() == (9,)
    impatient.close()


def import_at_once(path: Path, salt: str, ready: multiprocessing.synchronize.Barrier) -> None:
    with Store(path) as store:
        ready.wait(60)
        take(store, many_runs(60, 3, salt), salt)


def test_two_processes_that_import_at_once_lose_nothing(store: Store) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(2)
    importers = [
        context.Process(target=import_at_once, args=(store.path, salt, ready)) for salt in "ab"
    ]
    for importer in importers:
        importer.start()
    for importer in importers:
        importer.join(60)
    assert [importer.exitcode for importer in importers] == [0, 0]
    sent = {one.run.id: one for salt in "ab" for one in many_runs(60, 3, salt)}
    runs = store.runs()
    assert {run.id for run in runs} == sent.keys()
    for number, epochs in store.epochs(run.number for run in runs).items():
        assert epochs == list(sent[next(r.id for r in runs if r.number == number)].epochs)
    assert [one.runs for one in store.imports()] == [60, 60]


@pytest.mark.parametrize("other", ["same", "other"])
def test_runs_that_another_import_brings_meanwhile_are_not_doubled(
    store: Store, other: str
) -> None:
    """The same file twice at once, or another one with some of its runs."""

    def runs() -> Iterator[ImportedRun]:
        first, *rest = many_runs(5, 2)
        yield first
        with Store(store.path) as second:
            assert take(second, many_runs(3 if other == "other" else 5, 2), other).new
        yield from rest

    outcome = take(store, runs(), "same")
    assert (outcome.new, outcome.known) == ((0, 5) if other == "same" else (2, 3))
    assert len(store.runs()) == 5
    assert len(store.imports()) == (1 if other == "same" else 2)
    assert (outcome.record is None) == (other == "same")


# What comes back


def test_epochs_come_back_as_they_went_in(store: Store) -> None:
    window = CompileWindow(trigger="DYNAMO", offset_seconds=0.25, seconds=1.5, iteration=1)
    block = Epoch(
        epoch=1, started_at=1.7e9, wall_seconds=1.1, data_wait_seconds=0.0, compile_seconds=1.5,
        compile_windows=(window,), step_seconds=(0.1 + 0.2, 0.5, 0.25), device_seconds=(0.3, 0.2),
        samples=3, loss=None,
    )  # fmt: skip
    more = block.changed(epoch=2, compile_windows=(), step_seconds=(0.25,), device_seconds=())
    infers = RunSpec(workload=Workload(model="resnet18", task="infer"))
    steps = StepSummary(count=2, sum=2.0, min=0.9, p5=0.9, p50=1.0, p95=1.1, max=1.1)
    trained = block.changed(
        compile_windows=(window.changed(iteration=None),), step_seconds=(), device_seconds=(),
        steps=steps, peak_memory_bytes=2**52 + 1, accuracy=0.5, loss=-0.25,
    )  # fmt: skip
    unlike = trained.changed(epoch=2, steps=None, peak_memory_bytes=None, accuracy=None)
    sent = {"a" * 12: [block, more], "b" * 12: [trained, unlike], "c" * 12: []}
    runs = [
        ImportedRun(one_of(id=name, **({"spec": infers} if name[0] == "a" else {})).run, epochs)
        for name, epochs in sent.items()
    ]
    take(store, iter(runs))
    read = {run.id: store.epochs([run.number])[run.number] for run in store.runs()}
    assert read == sent
    assert type(read["b" * 12][0].peak_memory_bytes) is int
    assert type(read["b" * 12][0].steps.count) is int


def test_an_experiment_that_comes_with_a_later_file_is_known_from_then_on(store: Store) -> None:
    experiment = Experiment(models=("resnet18",), batch_sizes=(1,), variants=(Variant(),))
    ours = {"experiment_id": experiment.id}
    take(store, iter([one_of(**ours)]), "a")
    assert store.experiment(experiment.id) is None
    told = replace(one_of(id="f" * 12, **ours), experiment=experiment.to_json())
    take(store, iter([told]), "b")
    take(store, iter([one_of(id="e" * 12, **ours)]), "c")
    assert store.experiment(experiment.id) == experiment


# Taken out again


def test_an_import_that_is_undone_takes_out_exactly_what_it_brought(store: Store) -> None:
    planted_experiment(store, repeats=1, epochs=4)
    take(store, many_runs(3, 2, "kept"), "kept")
    before = content(store.path)
    # One of its runs is here already, and stays.
    brought = take(store, (one for s in ("kept", "") for one in many_runs(3, 2, s)), "other")
    assert (brought.new, brought.known) == (3, 3)
    assert brought.record
    assert store.undo_import(brought.record.id) == 3
    assert content(store.path) == before
    assert take(store, many_runs(3, 2), "other").new == 3, "the file may come again"


def test_a_file_may_come_again_once_all_of_its_runs_were_deleted(store: Store) -> None:
    take(store, many_runs(3, 2))
    store.delete([run.number for run in store.runs()])
    assert store.import_of(sha256()) is None
    assert take(store, many_runs(3, 2)).new == 3


def test_numbers_of_runs_that_are_gone_are_not_given_again(store: Store) -> None:
    first = take(store, many_runs(3, 2), "a")
    assert first.record
    store.undo_import(first.record.id)
    take(store, many_runs(2, 2), "b")
    planted_experiment(store, repeats=1, epochs=2)
    assert [run.number for run in store.runs()] == [4, 5, 6, 7]


def test_machines_keep_label_and_place_when_their_runs_go_and_come_again(store: Store) -> None:
    def on(name: str, machine: str) -> ImportedRun:
        environment = Environment(machine=machine, machine_id=f"id of {machine}")
        return one_of(id=name * 12, environment=environment)

    first = take(store, iter([on("a", "node 1")]), "a")
    take(store, iter([on("b", "node 2")]), "b")
    store.rename_machine("id of node 1", "node 1", "the T4")
    assert first.record
    store.undo_import(first.record.id)
    assert store.machines() == ["the T4", "node 2"]
    take(store, iter([on("c", "node 3"), on("d", "node 1")]), "c")
    assert {run.id[0]: run.machine for run in store.runs()} == {
        "b": "node 2", "c": "node 3", "d": "the T4",
    }  # fmt: skip
    assert store.machines() == ["the T4", "node 2", "node 3"]


def test_a_run_that_was_read_before_shows_its_new_label(store: Store) -> None:
    take(store, iter([one_of()]))
    [before] = measured_runs(store, store.runs())
    store.rename_machine("planted-t4", "T4", "the slow one")
    [after] = measured_runs(store, store.runs())
    assert (before.run.machine, after.run.machine) == ("T4", "the slow one")


# What is derived


def test_what_was_derived_at_the_import_is_what_measuring_afresh_says(store: Store) -> None:
    *several, last = many_runs(5, 12)
    tested = [epoch.changed(evaluation_seconds=2.5) for epoch in last.epochs]
    stated = ImportedRun(
        replace(last.run, id="a" * 12, stated=Stated(steady_seconds=2.0, start_seconds=1.0))
    )
    take(store, iter([*several, replace(last, epochs=tested), stated]))
    runs = store.runs()
    numbers = [run.number for run in runs]
    for evaluation in (False, True):
        afresh = [
            measure(run, store.epochs([run.number])[run.number], evaluation).derived for run in runs
        ]
        kept = store.derived(numbers, evaluation)
        assert [kept[number] for number in numbers] == afresh
        assert [one.derived for one in measured_runs(store, runs, evaluation)] == afresh
    without, with_testing = (store.derived(numbers, testing)[5] for testing in (False, True))
    assert with_testing.steady.median_seconds == pytest.approx(
        (without.steady.median_seconds or 0) + 2.5
    )


def test_a_file_that_was_mended_shows_its_new_times(store: Store) -> None:
    wrong = take(store, many_runs(1, 12), "wrong")
    [before] = measured_runs(store, store.runs())
    assert wrong.record and before.series_seconds
    store.undo_import(wrong.record.id)
    take(store, many_runs(1, 6), "mended")  # the same run
    [after] = measured_runs(store, store.runs())
    assert (before.run.id, before.count) == (after.run.id, 12)
    assert (after.count, len(after.series_seconds)) == (6, 6)


def test_nothing_is_shown_that_an_older_formula_made(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(store, many_runs(2, 12))
    before = store.derived([1, 2], False)
    monkeypatch.setattr(store_module, "FORMULA", "a newer one")
    assert store.derived([1, 2], False) == {}
    runs = [replace(run, id=f"{run.id[:-1]}x") for run in store.runs()]  # not yet in memory
    assert {one.run.number: one.derived for one in measured_runs(store, runs)} == before
    assert store.derived([1, 2], False) == before, "and it is kept again"


def test_nothing_is_kept_of_a_run_that_has_not_ended(store: Store) -> None:
    planted_experiment(store, repeats=1, epochs=4, measured=1)
    ended, queued = store.runs()
    store.claim()
    found = measured_runs(store, store.runs())
    store.keep_derived({queued.number: found[0].derived}, False)
    assert store.derived([ended.number, queued.number], False).keys() == {ended.number}


def test_a_list_of_runs_reads_no_epoch(store: Store) -> None:
    take(store, many_runs(2, 12))
    with sqlite3.connect(store.path) as db:
        db.execute("DELETE FROM packed_epochs")
    db.close()
    one, _ = measured_runs(store, store.runs())
    assert (one.begun, one.count, len(one.epochs), bool(one.epochs)) == (True, 12, 12, True)
    assert one.steady.count == 11
    assert one.first_seconds and one.peak_memory_bytes
    with pytest.raises(StoreError, match="run 1 was deleted meanwhile: load the page again"):
        _ = one.series_seconds


def test_a_run_that_is_deleted_and_comes_again_is_read_under_its_new_number(store: Store) -> None:
    sent = list(many_runs(4, 5))
    take(store, iter(sent))
    first = store.runs()
    assert [len(one.series_seconds) for one in measured_runs(store, first)] == [5] * 4
    pages_measured._read.clear()  # as after many other runs
    store.delete([run.number for run in first[:2]])
    again = take(store, iter(sent))
    assert again.record and (again.new, again.known, again.record.runs) == (2, 2, 4)
    assert {run.number for run in store.runs()}.isdisjoint(run.number for run in first[:2])
    seconds = {one.run.id: one.series_seconds for one in measured_runs(store, store.runs())}
    assert seconds == {one.run.id: [epoch.wall_seconds for epoch in one.epochs] for one in sent}


def test_what_is_derived_is_computed_anew_after_a_change_of_any_code_that_computes(
    store: Store,
) -> None:
    """But for the modules that hold a run's facts, or read them."""
    take(store, many_runs(2, 5))
    runs = [(run, store.epoch_columns(run.number)) for run in store.runs()]
    seen: set[str] = set()
    sys.setprofile(lambda frame, *_: seen.add(frame.f_code.co_filename))
    try:
        measure_all(runs, evaluation=True)
    finally:
        sys.setprofile(None)
    core = {Path(file) for file in seen if Path(file).parent.name == "bench_core"}
    facts = {"run", "spec", "events", "source", "store"}
    assert {file for file in core if file.stem not in facts} == set(map(Path, COMPUTING))
