"""What Compare says of machines side by side, driven through app.py on a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bench_core import imports, minimal_csv
from bench_core.machines import across
from bench_core.pairing import comparisons
from bench_core.store import Store
from bench_core.table_file import open_table
from pages.parts.report_button import report_of
from tests.driven_pages import button, labels, opened, said, table, words
from tests.planted import EAGER, SHAPES, Shape, measured_in, plant_run, planted_experiment

# The CPU runs what the others run, and slowly.
WITH_CPU = {
    **SHAPES,
    ("CPU", "resnet18"): (Shape(301.0), Shape(262.0, compile_seconds=41.0)),
    ("CPU", "resnet101"): (Shape(900.0), Shape(800.0, compile_seconds=41.0)),
}


@pytest.fixture(autouse=True)
def store(held_folder: Path) -> Iterator[Store]:
    with Store() as opened_store:
        yield opened_store


def plant(store: Store, machine: str, *models: str, **changed: object) -> None:
    planted_experiment(store, models=models, machine=machine, shapes=WITH_CPU, **changed)


@pytest.fixture
def three(store: Store) -> Store:
    """T4 and A100 with two models each, the CPU with one and a compile that failed."""
    plant(store, "T4", "resnet18", "resnet101")
    plant(store, "A100", "resnet18", "resnet101")
    plant(store, "CPU", "resnet18", repeats=1)
    experiment = planted_experiment(
        store, models=("resnet101",), machine="CPU", repeats=1, measured=0
    )
    plant_run(store, experiment.id, machine="CPU", shapes=WITH_CPU)
    failed = {"status": "failed", "failure": "out of memory", "reason": "no room", "epochs": 0}
    plant_run(store, experiment.id, machine="CPU", shapes=WITH_CPU, **failed)
    return store


def prices(at: AppTest) -> list[str]:
    return [one.label for one in at.number_input if one.label.endswith("an hour")]


def test_one_machine_has_no_section(store):
    plant(store, "T4", "resnet18", "resnet101")
    assert "Across machines" not in words(opened("compare"))


def test_what_holds_two_machines_apart_is_named(store):
    planted_experiment(store, models=("small_cnn",), machine="CPU", repeats=1, epochs=4)
    rows = minimal_csv.TEMPLATE.replace("Example GPU", "T4").replace("resnet18", "small_cnn")
    imports.take_in(store, open_table("t4.csv", rows.encode()))
    assert "T4 does not state dataset, pipeline" in said(opened("compare"))


def test_machines_side_by_side_with_what_is_missing_and_why(three):
    at = opened("compare")
    text = said(at)
    assert "Across machines: A100 is the fastest for both workloads that T4, A100 and CPU" in text
    assert "first looks among them" in text
    frame = table(at, "● T4")
    assert list(frame["Model"]) == ["resnet18", "resnet101"]
    assert list(frame["● T4"]) == pytest.approx([1.0, 66.2 / 61.1], rel=0.02)
    assert list(frame["◆ A100"]) == pytest.approx([3.02 / 3.14, 10.4 / 8.88], rel=0.02)
    assert frame["■ CPU"].isna().tolist() == [False, True]
    assert list(frame["Why empty"]) == ["", "CPU: failed: out of memory"]
    assert "Every row: batch 16." in text


def test_means_of_machines_are_over_shared_models_and_what_is_left_out_is_a_click_away(store):
    plant(store, "T4", "resnet101", "resnet18", "vgg16")
    plant(store, "A100", "resnet101", "resnet18")
    at = opened("compare")
    text = said(at)
    assert "over 5 comparisons." in text
    assert "geometric mean over the 2 workloads where all have it: A100 1.06×, T4 1.04×." in text
    assert "is left out" not in text
    button(at, "1 workload incomplete").click().run()
    assert "1 workload of T4 is left out: not every machine has it." in said(at)
    frame = table(at, "Workload")
    assert frame.iloc[0].to_list() == ["vgg16, batch 16", "measured", "not measured"]
    assert "NVIDIA A100-SXM4-40GB" in table(at, "Fact")["A100"].to_list()


def test_the_fastest_machine_of_each_workload_with_its_arm(three):
    frame = table(opened("compare", across="Fastest"), "Fastest")
    assert list(frame["Fastest"]) == [["A100"], ["A100"]]
    assert list(frame["With"]) == [["eager"], ["compile"]]
    assert list(frame["Next"]) == [["T4"], ["T4"]]
    assert list(frame["Ahead by"]) == pytest.approx([14.72 / 3.02, 61.1 / 8.88], rel=0.02)


def test_seconds_and_rates_of_every_arm_name_their_direction(three):
    at = opened("compare", across="Seconds")
    assert "Steady seconds of one epoch, less is better." in said(at)
    assert "Seconds across machines compare whole machines." in said(at)
    frame = table(at, "● T4")
    assert list(frame["Arm"]) == [["eager"], ["compile"]] * 2
    assert frame["■ CPU"].isna().tolist() == [False, False, False, True]
    at = opened("compare", across="Throughput")
    assert "Images a second once steady, more is better." in said(at)
    rates = table(at, "● T4")["● T4"]
    assert rates[0] == pytest.approx(992 / 14.75, rel=0.02)


def test_a_price_makes_seconds_money_and_stays(three):
    at = opened("compare")
    assert "Cost" not in at.segmented_control(key="across").options
    assert prices(at) == ["T4 an hour", "A100 an hour", "CPU an hour"]
    at.number_input(key="price_planted-t4").set_value(0.35).run()
    at.number_input(key="price_planted-a100").set_value(2.0).run()
    assert three.prices() == {"planted-t4": 0.35, "planted-a100": 2.0}
    at = opened("compare", across="Cost", machines_epochs="200")
    text = said(at)
    assert "Cost of 200 epochs with start-up" in text
    assert "Prices of an hour, in your currency: T4 0.35, A100 2." in text
    assert (
        "Cheapest of the 2 workloads with a price on two machines: T4 for 1 and A100 for 1." in text
    )
    frame = table(at, "Cheapest")
    assert frame["◆ A100"][0] == pytest.approx(200 * 3.02 * 2.0 / 3600, rel=0.02)
    at.number_input(key="price_planted-t4").set_value(None).run()
    at.number_input(key="price_planted-a100").set_value(None).run()
    assert not at.exception
    assert three.prices() == {}
    assert "Cost" not in at.segmented_control(key="across").options


def test_view_only_shows_money_and_asks_no_price(three, monkeypatch):
    three.set_price("planted-t4", 0.35)
    monkeypatch.setenv("BENCH_VIEW_ONLY", "1")
    at = opened("compare", across="Cost")
    assert prices(at) == []
    assert "Prices of an hour, in your currency: T4 0.35." in said(at)


def test_the_matrix_of_several_machines_does_not_say_the_speedups_again(three):
    at = opened("compare")
    assert "From which epoch it pays off, by model and machine" in said(at)
    matrix = next(one.value for one in at.table if any("T4" in str(c) for c in one.value.columns))
    cells = str(matrix.to_dict())
    assert "green-badge[from" in cells or "green-badge[about" in cells
    assert "red-badge[never]" in cells
    assert "×" not in cells and "+8" not in cells


def test_machines_without_a_pair_have_their_seconds(store):
    for machine in ("T4", "A100"):
        plant(store, machine, "resnet101", variants=(EAGER,))
    at = opened("compare")
    assert "Nothing to compare yet" in words(at)
    assert "resnet101, batch 16: fastest on A100 with eager, 6." in said(at)
    assert "Speedup" not in at.segmented_control(key="across").options


def test_the_report_holds_the_same_tables(three):
    three.set_price("planted-t4", 0.35)
    three.rename_machine("planted-a100", "A100", "<b>A100</b>")
    measured = measured_in(three)
    found = comparisons(measured)
    shown = across(found, measured, three.machines())
    html = report_of(found, found.pairs[0], three.machines(), "", (100, 1, False), shown, 200)
    part = html[html.index("<h2>Across machines</h2>") : html.index("<h2>Charts")]
    assert "CPU: failed: out of memory" in part
    assert "200 epochs with start-up" in part
    assert "&lt;b&gt;A100&lt;/b&gt; is the fastest for both workloads" in part
    assert "<b>" not in part
    alone = report_of(found, found.pairs[0], three.machines(), "", (100, 1, False))
    assert "Across machines" not in alone


def test_a_label_from_a_file_is_no_markdown(three):
    three.rename_machine("planted-t4", "T4", "T4 **bold**")
    at = opened("compare", across="Seconds")
    assert "**bold**" not in words(at)
    assert "● T4 **bold**" in table(at, "Why empty").columns
    assert any("incomplete" in label for label in labels(at))
