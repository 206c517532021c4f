"""Repeats end on the width of the interval alone, and never before three."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench_core import worker
from bench_core.measured import Measured, measure
from bench_core.spec import Experiment, Rung
from bench_core.store import Store
from bench_core.until_sure import outcome_text, spare_runs
from tests.planted import SHAPES, Shape, plant_run, planted_experiment

MODEL = ("T4", "resnet101")


def cell(store: Store, experiment: Experiment, number: int = 0) -> list[Measured]:
    runs = [run for run in store.runs(experiment.id) if run.cell == number]
    epochs = store.epochs([run.number for run in runs])
    return [measure(run, epochs[run.number]) for run in runs]


def scattered(scatter: float) -> dict[tuple[str, str], tuple[Shape, Shape]]:
    """Processes that differ by so much, as the arms of a noisy machine do."""
    eager, compiled = SHAPES[MODEL]
    return {
        MODEL: (
            replace(eager, process_scatter=scatter),
            replace(compiled, process_scatter=scatter),
        )
    }


@pytest.mark.parametrize("protocol", ["paired", "sequential"])
def test_it_has_enough_after_three_repeats_at_the_earliest(store: Store, protocol) -> None:
    experiment = planted_experiment(
        store, protocol=protocol, repeats=12, until_sure=2.0, measured=4
    )
    assert spare_runs(experiment, cell(store, experiment)) == []
    plant_run(store, experiment.id)
    assert spare_runs(experiment, cell(store, experiment)) == [], "a pair that is half measured"
    plant_run(store, experiment.id)
    assert spare_runs(experiment, cell(store, experiment)) == list(range(7, 25))


def test_the_worker_measures_no_more_once_it_is_sure(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    with Store() as store:
        experiment = planted_experiment(
            store, protocol="paired", repeats=12, until_sure=2.0, measured=6
        )
        worker.serve(experiment.id, idle_seconds=0)
        assert [run.status for run in store.runs()] == ["done"] * 6


def test_a_difference_that_shows_is_no_reason_to_end(store: Store) -> None:
    experiment = planted_experiment(
        store, protocol="paired", repeats=12, until_sure=0.1, measured=8
    )
    [one, *_] = cell(store, experiment)
    assert one.run.round, "8 % faster, beyond any doubt"
    assert spare_runs(experiment, cell(store, experiment)) == []


def test_the_worker_takes_the_rest_out_of_the_queue_and_goes_on_with_the_next_cell(
    store: Store,
) -> None:
    experiment = planted_experiment(
        store, protocol="paired", repeats=5, until_sure=2.0, batch_sizes=(16, 32), measured=6
    )
    runs = worker._next_runs(store, experiment.id)
    assert [run.spec.workload.batch_size for run in runs] == [32, 32]
    assert [run.number for run in store.runs()] == [*range(1, 7), *range(11, 21)]


def test_an_arm_that_never_gets_anywhere_is_given_up_after_three(store: Store) -> None:
    rungs = (Rung(), Rung(workload={"memory_layout": "channels_last"}))
    experiment = planted_experiment(store, rungs=rungs, repeats=6, until_sure=2.0, measured=0)
    for number in range(1, 7):
        failed = store.run(number)
        assert failed
        broken = failed.spec.workload.memory_layout == "channels_last"
        plant_run(
            store,
            experiment.id,
            epochs=0 if broken else None,
            status="failed" if broken else "done",
            failure="model error" if broken else None,
        )
        rest = spare_runs(experiment, cell(store, experiment))
        assert rest == (list(range(7, 13)) if number == 6 else [])
    store.remove_queued(rest)
    assert outcome_text(experiment, cell(store, experiment)) == (
        "not sure: no two arms can be compared"
    )


def test_how_sure_it_came_to_be_is_told_with_its_counts(store: Store) -> None:
    experiment = planted_experiment(
        store, protocol="paired", repeats=12, until_sure=3.0, measured=8
    )
    assert outcome_text(experiment, cell(store, experiment)) == "", "runs wait"
    store.remove_queued(range(9, 25))
    told = outcome_text(experiment, cell(store, experiment)).replace("\u00a0", " ")
    assert told.startswith("sure after 4 of at most 12 pairs: ±")
    assert told.endswith(" %")


def test_not_sure_at_the_end_names_what_was_asked_for(store: Store) -> None:
    shapes = scattered(0.05)
    experiment = planted_experiment(store, repeats=4, until_sure=0.5, shapes=shapes)
    told = outcome_text(experiment, cell(store, experiment)).replace("\u00a0", " ")
    assert told.startswith("not sure after 4 runs an arm: ±")
    assert told.endswith(" %, asked for ±0.5 %")


def test_what_was_not_to_be_sure_says_nothing(store: Store) -> None:
    experiment = planted_experiment(store)
    assert outcome_text(experiment, cell(store, experiment)) == ""
