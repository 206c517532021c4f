"""What Compare promises, driven through app.py on a real store."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from bench_core.events import Aftermath
from bench_core.pairing import comparisons
from bench_core.spec import Experiment, Rung, Variant
from bench_core.store import Store
from pages.parts.comparison_charts import of_any_size
from pages.parts.comparison_table import varying_conditions
from pages.parts.comparison_words import change_text, vary_in_size_only
from tests.driven_pages import (
    FUSED,
    SAME,
    UNFUSED,
    WRONG,
    button,
    function,
    inference,
    labels,
    opened,
    said,
    table,
    with_aftermath,
    words,
)
from tests.planted import COMPILE, EAGER, Shape, measured_in, plant_run, planted_experiment


@pytest.fixture(autouse=True)
def store(held_folder: Path) -> Iterator[Store]:
    with Store() as opened:
        yield opened


# Compare


def test_compare_without_a_pair_says_what_is_missing(store):
    at = opened("compare")
    assert "Nothing to compare yet" in words(at)
    planted_experiment(store, models=("resnet50",), variants=(EAGER,))
    at = opened("compare")
    assert "Nothing to compare yet" in words(at)
    assert "no other variant than eager" in str(at.table[0].value.to_dict())


def test_compare_answers_in_its_title(store):
    planted_experiment(store, models=("resnet101", "resnet18"))
    planted_experiment(store, models=("resnet18",), machine="A100")
    at = opened("compare")
    assert at.subheader[0].value.startswith(
        "Faster in 1 of 3 comparisons, most on T4 with resnet101"
    )
    assert "Slower in 1\\." in words(at)
    frame = table(at, "Speedup")
    assert list(frame["Model"]) == ["resnet101", "resnet18", "resnet18"]
    assert list(frame["Pays off from"])[1:] == ["no difference shown", "never"]
    assert list(frame["Runs"]) == ["3 + 3"] * 3


def test_fewer_than_three_runs_an_arm_are_a_first_look(store):
    planted_experiment(store, models=("resnet101",), repeats=1)
    at = opened("compare")
    assert "first look" in at.subheader[0].value
    frame = table(at, "Speedup")
    assert frame["Pays off from"][0] == "about epoch 14"
    assert frame["95 % interval"][0] == "first look"


def test_the_address_narrows_what_is_compared(store):
    planted_experiment(store, models=("resnet101", "resnet18"), repeats=1)
    last = planted_experiment(store, models=("resnet50",), repeats=1)
    assert list(table(opened("compare", models="resnet18"), "Speedup")["Model"]) == ["resnet18"]
    assert list(table(opened("compare", experiment=last.id), "Speedup")["Model"]) == ["resnet50"]
    assert list(table(opened("compare", runs="1,2"), "Speedup")["Model"]) == ["resnet101"]


def test_a_filter_without_a_comparison_can_be_cleared(store):
    planted_experiment(store, models=("resnet101",), repeats=1)
    planted_experiment(store, models=("resnet18",), machine="A100", repeats=1)
    at = opened("compare", machines="A100", models="resnet101")
    assert "No comparison matches." in words(at)
    button(at, "Clear the filter").click().run()
    assert len(table(at, "Speedup")) == 2


def test_a_pair_in_the_address_is_the_pair_of_the_charts(store):
    planted_experiment(store, models=("resnet101", "resnet18"), repeats=1)
    assert "resnet101 on T4, batch 16" in words(opened("compare"))
    at = opened("compare", pair="3-4", view="absolute", log="true")
    assert "**resnet18 on T4, batch 16, compile against eager**" in words(at)
    assert len(at.get("plotly_chart")) == 5


def test_runs_that_differ_in_more_than_the_variant_get_no_ratio(store):
    planted_experiment(store, models=("resnet50",), variants=(EAGER,), repeats=1)
    planted_experiment(
        store, models=("resnet50",), batch_sizes=(32,), variants=(COMPILE,), repeats=1
    )
    at = opened("compare", runs="1,2")
    assert "**No ratio: these runs differ in more than the variant**" in words(at)
    assert "batch_size 32 against 16" in words(at)
    assert not at.dataframe
    button(at, "Queue compile with batch_size 16").click().run()
    assert not at.exception
    assert "compile" in at.query_params["variant"]


def test_runs_of_two_machines_get_no_ratio_and_no_button(store):
    planted_experiment(store, models=("resnet18",), variants=(EAGER,), repeats=1)
    planted_experiment(store, models=("resnet18",), machine="A100", variants=(COMPILE,), repeats=1)
    at = opened("compare", runs="1,2")
    assert "Measure both on one machine" in words(at)
    assert not any("Queue" in label for label in labels(at))


def test_any_arm_can_be_the_baseline(store):
    tuned = Variant(execution="compile", mode="max-autotune")
    planted_experiment(store, models=("resnet101",), variants=(EAGER, COMPILE, tuned), repeats=1)
    frame = table(opened("compare", baseline="compile"), "Speedup")
    assert sorted(map(list, frame["Variant"])) == [["compile max-autotune"], ["eager"]]


# Inference


def kinds(at: AppTest) -> list[str]:
    return [
        option.content
        for group in at.get("button_group")
        if group.proto.label == "What is compared"
        for option in group.proto.options
    ]


def test_one_kind_of_measurement_needs_no_choice(store):
    inference(store)
    at = opened("compare")
    assert kinds(at) == []
    assert list(table(at, "p50")["Variant"]) == [["eager"], ["onednn_graph"], ["compile"]]


def test_training_inference_and_functions_are_never_in_one_table(store):
    planted_experiment(store, models=("resnet101",), repeats=1, ended_ago_seconds=9000)
    inference(store, batch_sizes=(1, 8), ended_ago_seconds=5000)
    function(store, ended_ago_seconds=60)
    at = opened("compare")
    assert kinds(at) == ["Training", "Inference", "Functions"]
    assert set(table(at, "Speedup")["Model"]) == {"function:sin_cos"}  # the newest
    at = opened("compare", task="Inference")
    frame = table(at, "Eager iteration")
    assert set(frame["Model"]) == {"resnet18"}
    assert frame["Eager iteration"].max() < 1
    at = opened("compare", task="Training")
    assert list(table(at, "Eager epoch")["Model"]) == ["resnet101"]
    assert "iteration" not in said(at)


def test_the_pair_in_the_address_brings_its_kind(store):
    planted_experiment(store, models=("resnet101",), repeats=1, ended_ago_seconds=9000)
    inference(store, ended_ago_seconds=60)
    assert list(table(opened("compare", pair="1-2"), "Speedup")["Model"]) == ["resnet101"]
    assert len(table(opened("compare", pair="3-5"), "p50")) == 3


def test_an_arm_has_its_percentiles_throughput_and_first_answer(store):
    inference(store, repeats=3, iterations=150)
    at = opened("compare")
    frame = table(at, "p50").set_index(table(at, "p50")["Variant"].str[0])
    assert (frame["p50"] < frame["p90"]).all() and (frame["p90"] < frame["p99"]).all()
    assert frame["Images/s"]["eager"] == pytest.approx(1 / 0.046, rel=0.02)
    assert frame["First answer"]["onednn_graph"] == pytest.approx(2.2, abs=0.1)  # the trace too
    assert frame["Compiling"]["compile"] == pytest.approx(31.0)
    assert list(frame["Speedup"])[0] == ""
    assert frame["Pays off from"]["compile"] == "never"
    assert frame["Pays off from"]["onednn_graph"].startswith("about iteration 1")
    assert "Faster in 1 of 2 comparisons, most on CPU with resnet18, onednn_graph" in said(at)
    assert "resnet18 on CPU with onednn_graph is even at about iteration 1" in said(at)


def test_each_variant_has_a_mean_of_its_own(store):
    inference(store, batch_sizes=(1, 8), repeats=3)
    text = said(opened("compare"))
    assert "Geometric means over 2 workloads each: onednn_graph 1.39×, compile 0.83" in text


def test_the_fastest_of_all_is_named_with_its_precision(store):
    inference(store, precisions=("fp32", "bf16"), repeats=3)
    at = opened("compare")
    assert "Shortest median of all: onednn_graph in bf16, 21.5 ms; within fp32" in said(at)
    ratios = table(at, "Speedup").groupby("Precision")["Speedup"].max()
    assert ratios["fp32"] == pytest.approx(46 / 33, rel=0.02)  # not against eager of the other one
    assert ratios["bf16"] == pytest.approx(46 / 33, rel=0.02)


def test_the_waiting_is_counted_in_calls(store):
    inference(store, variants=(EAGER, COMPILE))
    text = said(opened("compare"))
    assert "The first answer takes 31.1 s with compile, as long as 670 calls of eager" in text


def test_a_function_pays_from_a_size_on(store):
    function(store, repeats=3)
    at = opened("compare")
    assert "Compiling pays from n = 10 000 on (sin_cos, CPU)" in said(at)
    assert "old spelling of torch.compile" in words(at)
    assert "At n = 10 000: 15.9 % faster" in said(at)
    assert list(table(at, "Speedup")["Input size"]) == [100, 1000, 10_000, 100_000]
    assert "function:sin_cos on CPU, n = 10 000, compile against eager" in said(at)


def test_sizes_of_one_line_share_the_device(store):
    inference(store, variants=(EAGER, COMPILE), batch_sizes=(1, 8))
    on_gpu = Experiment(
        models=("resnet18",),
        batch_sizes=(4, 16),
        variants=(EAGER, COMPILE),
        repeats=1,
        device="cuda:0",
        workload={"task": "infer"},
        measurement={"iterations": 120},
    )
    store.queue(on_gpu)
    for _ in on_gpu.runs():
        plant_run(store, on_gpu.id, machine="CPU")
    inference(store, variants=(EAGER, COMPILE), batch_sizes=(2, 32), machine="T4")
    pairs = comparisons(measured_in(store)).pairs
    by_size = {pair.workload.batch_size: pair for pair in pairs}
    assert set(by_size) == {1, 2, 4, 8, 16, 32}

    def line_of(size: int) -> list[int]:
        return [pair.workload.batch_size for pair in of_any_size(by_size[size], pairs)]

    assert line_of(1) == [1, 8, 2, 32]
    assert line_of(4) == [4, 16, 2, 32]
    assert line_of(2) == [4, 16, 2, 32], "of another machine the pairs on the same device"
    assert not vary_in_size_only(by_size[1], by_size[4])
    assert vary_in_size_only(by_size[4], by_size[16])


def test_an_edited_file_is_not_pooled_with_its_old_version(store):
    function(store, batch_sizes=(100, 1000))
    edited = []
    for one in measured_in(store):
        digest = "a1" * 32 if one.run.spec.workload.batch_size == 100 else "b2" * 32
        prepared = one.run.prepared.changed(model_sha256=digest)
        edited.append(replace(one, run=replace(one.run, prepared=prepared)))
    old, new = comparisons(edited).pairs
    assert not vary_in_size_only(old, new)
    assert of_any_size(new, (old, new)) == [new]
    assert varying_conditions((old, new)) == ["model file a1a1a1a1", "model file b2b2b2b2"]


def test_equally_fast_keeps_its_words():
    assert change_text("8.4\u00a0% faster") == "8.4\u00a0%"
    assert change_text("equally fast") == "equally fast"


def test_one_run_of_a_function_is_a_first_look(store):
    function(store)
    assert "First look: compiling seems to pay from n = 10 000 on" in said(opened("compare"))


def test_what_an_arm_did_not_get_stands_beside_its_pair(store):
    with_aftermath(store, "onednn_graph", Aftermath(effective=(UNFUSED,), parity=SAME))
    at = opened("compare")
    assert "onednn_graph did not get what it asked for: oneDNN Graph (no group was" in said(at)
    assert "**fused**" not in words(at)
    assert "Same result as eager: its outputs differ by 3e" in said(at)
    assert "onednn_graph: TorchScript, deprecated by PyTorch" in words(at)
    assert "did not get" not in said(opened("compare", pair="1-2"))


def test_what_the_only_pair_did_not_get_is_said_once(store):
    with_aftermath(store, "onednn_graph", Aftermath(effective=(UNFUSED,)), variants=(EAGER, FUSED))
    assert said(opened("compare")).count("oneDNN Graph") == 1


def test_results_that_differ_have_two_times_and_no_speedup(store):
    with_aftermath(store, "onednn_graph", Aftermath(parity=WRONG))
    at = opened("compare")
    assert ["onednn_graph"] not in list(table(at, "p50")["Variant"])
    button(at, "1 run is left out").click().run()
    reasons = str([one.value.to_dict() for one in at.table]).replace("\\xa0", " ")
    assert "no speedup is formed" in reasons
    assert "takes 32" in reasons and "that of eager 46" in reasons


def test_losses_are_shown_with_parity_and_a_nan_is_told(store):
    experiment = planted_experiment(store, models=("resnet50",), repeats=2, measured=0)
    for _ in range(3):
        plant_run(store, experiment.id, aftermath=Aftermath(parity=SAME))
    plant_run(
        store,
        experiment.id,
        epochs=3,
        status="failed",
        failure="nan loss",
        reason="the loss was nan in epoch 3",
    )
    text = said(opened("compare"))
    assert "Losses in epoch 10: eager" in text
    assert "from seed 0" in text
    assert "Same result as eager: its outputs differ by 3e" in text
    assert "Run 4, eager: the loss was nan in epoch 3" in text


def test_runs_of_both_tasks_get_no_ratio(store):
    planted_experiment(store, models=("resnet18",), variants=(EAGER,), repeats=1)
    inference(store, variants=(COMPILE,))
    at = opened("compare", runs="1,2")
    assert "**No ratio: these runs differ in more than the variant**" in words(at)
    assert kinds(at) == []


# Axes


def precisions(store: Store, **changed: Any) -> Experiment:
    rungs = [Rung(workload={"precision": precision}) for precision in ("fp32", "bf16")]
    return planted_experiment(store, **{"models": ("resnet101",), "rungs": rungs, **changed})


def options(at: AppTest, label: str) -> list[str]:
    return next(box.options for box in at.selectbox if box.label == label)


def test_only_what_differs_between_runs_that_are_equal_else_is_offered_as_an_axis(store):
    planted_experiment(store, models=("resnet50",))
    assert options(opened("compare"), "What differs") == ["variant"]
    precisions(store)
    planted_experiment(store, models=("vgg16",), variants=(EAGER,), workload={"threads": 2})
    assert options(opened("compare"), "What differs") == ["variant", "precision"]


def test_the_address_names_the_axis_and_its_baseline(store):
    precisions(store)
    at = opened("compare", axis="precision")
    frame = table(at, "Arm")
    assert list(frame["Arm"]) == [["bf16"]]
    assert frame["Speedup"][0] == pytest.approx(1 / 0.62, rel=0.01)
    assert "resnet101 on T4, batch 16, bf16 against fp32 of eager" in said(at)
    at = opened("compare", axis="precision", baseline="bf16")
    assert table(at, "Arm")["Speedup"][0] == pytest.approx(0.62, rel=0.01)


def test_an_axis_of_several_words_is_found_in_a_link(store):
    rungs = [Rung(workload={"memory_layout": name}) for name in ("contiguous", "channels_last")]
    planted_experiment(store, models=("resnet101",), rungs=rungs)
    at = opened("compare", axis="memory layout", baseline="channels_last")
    assert list(table(at, "Arm")["Arm"]) == [["contiguous"]]
    assert [box.value for box in at.selectbox] == ["memory layout", "channels_last"]


def test_an_axis_that_there_is_not_is_the_variant(store):
    planted_experiment(store, models=("resnet50",))
    at = opened("compare", axis="nonsense", baseline="fp16")
    assert list(table(at, "Variant")["Variant"]) == [["compile"]]


def test_an_experiment_in_the_address_is_compared_along_its_own_axis(store):
    planted_experiment(store, models=("resnet50",))
    experiment = precisions(store)
    frame = table(opened("compare", experiment=experiment.id), "Arm")
    assert list(frame["Arm"]) == [["bf16"]]


def test_a_ladder_has_its_table_of_rungs(store):
    layout = {"memory_layout": "channels_last"}
    rungs = [Rung(), Rung(workload=layout), Rung(workload=layout, variant=COMPILE)]
    experiment = planted_experiment(store, models=("resnet101",), rungs=rungs)
    at = opened("compare", experiment=experiment.id)
    assert "compile adds most: 8." in said(at)
    assert list(at.table[0].value["Rung"]) == ["eager, contiguous", "channels_last", "compile"]
    assert len(table(at, "Arm")) == 2, "each against the first"


def test_equal_arms_are_their_own_comparison_and_the_floor_of_others(store):
    sides = [Rung(side="A"), Rung(side="B")]
    slow = {("T4", "resnet18"): (Shape(14.7, process_scatter=0.1), Shape(14.6, 38.0))}
    equal = planted_experiment(store, models=("resnet18",), rungs=sides, shapes=slow)
    planted_experiment(store, models=("resnet50",))
    at = opened("compare", experiment=equal.id)
    assert list(table(at, "Arm")["Arm"]) == [["eager B"]]
    assert "this machine's noise" in said(at)
    assert "What it is worth to you" not in said(at)
    frame = table(opened("compare"), "Variant").set_index("Model")
    assert frame["Pays off from"]["resnet50"].startswith("below the noise floor")
    text = said(opened("compare", models="resnet50"))
    assert "resnet50 on T4: no difference shown" in text
    assert "resnet50 on T4: below the noise floor" in text
    assert "Grey band: T4's own noise (A/A)." in text


# A ratio anyway


A100 = {("A100", "resnet50"): (Shape(5.9), Shape(5.3, 41.0))}


def two_that_differ(store: Store, **changed: Any) -> str:
    planted_experiment(store, models=("resnet50",), variants=(EAGER,), workload={"threads": 2})
    other = {"models": ("resnet50",), "variants": (COMPILE,), "workload": {"threads": 8}}
    planted_experiment(store, **{**other, **changed})
    return ",".join(str(run.number) for run in store.runs())


def test_a_ratio_anyway_names_what_else_differs(store):
    at = opened("compare", runs=two_that_differ(store))
    assert "No ratio" in words(at) and not at.dataframe
    button(at, "Compare anyway").click().run()
    assert not at.exception
    assert at.query_params["override"] == "1"
    assert "Differs in: threads 8 against 2." in said(at)
    frame = table(at, "Arm")
    assert frame["Speedup"][0] == pytest.approx(34.1 / 32.4, rel=0.02)
    assert list(frame["Arm"]) == [["compile, threads 8"]]
    button(at, "Take the ratio back").click().run()
    assert "No ratio" in words(at) and "override" not in at.query_params


def test_a_link_with_the_override_shows_the_ratio(store):
    numbers = two_that_differ(store, machine="A100", workload={"threads": 2}, shapes=A100)
    at = opened("compare", runs=numbers, override="1")
    assert "machine A100 (planted-a100) against T4 (planted-t4)" in said(at)
    assert "resnet50, compile, machine A100 against eager, machine T4" in said(at)


def test_epochs_and_iterations_have_no_ratio_at_all(store):
    planted_experiment(store, models=("resnet18",), variants=(EAGER,), repeats=1)
    inference(store, variants=(COMPILE,))
    at = opened("compare", runs="1,2")
    assert "they have no ratio at all" in said(at)
    assert "Compare anyway" not in labels(at)
    at = opened("compare", runs="1,2", override="1")
    assert not at.dataframe


# The first epochs, testing, doubts


def test_the_first_epochs_are_told_with_those_of_the_article(store):
    planted_experiment(store, models=("resnet101",))
    text = said(opened("compare"))
    assert re.search(
        r"Over the first 10 epochs 2\.\d+ % slower \(.*?\), over 100 epochs 7\.\d % faster \(", text
    )
    assert re.search(r"Over 100 epochs it saves 7 min \d+ s \(.*? to .*?\) of 1 h 5\d min", text)
    assert re.search(r"Even at epoch 1\d \(95 %: .*?\): after [78]\d\d steps, 1\d min", text)
    text = said(opened("compare", first_epochs="1000"))
    assert re.search(r"over 1 000 epochs 8\.\d+ % faster", text)
    assert "over 100 epochs" in text


def test_a_first_look_has_no_interval_over_the_first_epochs(store):
    planted_experiment(store, models=("resnet101",), repeats=1)
    assert "% slower (first look), over 100 epochs" in said(opened("compare"))


def test_testing_counts_where_it_is_asked_for(store):
    experiment = planted_experiment(store, models=("resnet50",), measured=0)
    for _ in experiment.runs():
        run = plant_run(store, experiment.id)
        with sqlite3.connect(store.path) as db:
            db.execute(
                "UPDATE epochs SET evaluation_seconds = 30 WHERE run_number = ?", [run.number]
            )
        db.close()
    apart = table(opened("compare"), "Eager epoch")
    counted = table(opened("compare", testing="true"), "Eager epoch")
    assert counted["Eager epoch"][0] == pytest.approx(apart["Eager epoch"][0] + 30)
    assert counted["Speedup"][0] < apart["Speedup"][0]
    assert "testing and all compile time counted" in said(opened("compare", testing="true"))


def test_doubts_are_chips_in_the_table_and_sentences_of_the_chosen_pair(store):
    planted_experiment(store, models=("resnet101",), repeats=2)
    at = opened("compare")
    assert "2 runs an arm" in table(at, "Doubts")["Doubts"][0]
    assert "and processes differ. Repeat until each arm has 3 runs." in said(at)
