"""What is told of machines that measured the same model and do not stand in one row."""

from __future__ import annotations

from bench_core import imports, minimal_csv
from bench_core.machines import Across, across
from bench_core.machines_apart import apart_sentences
from bench_core.pairing import comparisons
from bench_core.store import Store
from bench_core.table_file import open_table
from tests.planted import Shape, measured_in, planted_experiment

SHAPES = {(name, "resnet18"): (Shape(3.0), Shape(2.0, 5.0)) for name in ("T4", "CPU")}


def plant(store: Store, machine: str, **workload: object) -> None:
    planted_experiment(
        store,
        models=("resnet18",),
        machine=machine,
        shapes=SHAPES,
        repeats=1,
        epochs=4,
        workload=workload,
    )


def compared(store: Store) -> Across:
    measured = measured_in(store)
    shown = across(comparisons(measured), measured, ("T4", "CPU"))
    assert shown
    return shown


def test_machines_in_one_row_are_not_held_apart(store):
    plant(store, "T4")
    plant(store, "CPU")
    assert apart_sentences(compared(store)) == []


def test_of_several_workloads_the_nearest_two_tell_in_what_machines_differ(store):
    plant(store, "T4", image_size=32)
    plant(store, "CPU", image_size=224)
    plant(store, "CPU", image_size=64, samples=128)
    assert apart_sentences(compared(store)) == ["T4 and CPU differ in image_size 32 and 224."]


def test_another_precision_is_another_question(store):
    plant(store, "T4", precision="bf16")
    plant(store, "CPU")
    assert apart_sentences(compared(store)) == []


def test_what_a_source_does_not_state_is_named_or_counted(store):
    plant(store, "CPU")
    rows = minimal_csv.TEMPLATE.replace("Example GPU", "T4")
    imports.take_in(store, open_table("t4.csv", rows.encode()))
    [whole] = apart_sentences(compared(store))
    assert whole.startswith("T4 does not state dataset, pipeline, ")
    assert "samples" in whole and "threads" in whole and "precision" not in whole
    [short] = apart_sentences(compared(store), most=2)
    assert short.startswith("T4 does not state dataset, pipeline and 10 more, which CPU does: ")
