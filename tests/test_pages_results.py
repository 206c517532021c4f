"""What Results and Compare promise, driven through app.py on a real store."""

from __future__ import annotations

import csv
import fcntl
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from bench_core.events import Aftermath, Finding, Parity
from bench_core.measured import Measured, measure
from bench_core.pairing import comparisons
from bench_core.paths import CHECKOUT
from bench_core.run import Run
from bench_core.spec import Experiment, Variant
from bench_core.store import Store
from pages.parts.comparison_charts import of_any_size
from pages.parts.comparison_table import varying_conditions
from pages.parts.comparison_words import change_text, vary_in_size_only
from pages.parts.run_card import effective
from pages.parts.text import WORD_JOINER, plain
from tests.planted import COMPILE, EAGER, SHAPES, Shape, plant_run, planted_experiment

HOSTILE = "![x](http://evil.example/x.png) **bold** <b>b</b> :red[r] `c` $x$"
HOSTILE_MODEL = "file:**my** ![x](net).py"
QUICK = {("CPU", HOSTILE_MODEL): (Shape(2.0), Shape(1.5, 4.0)), **SHAPES}


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    monkeypatch.delenv("BENCH_VIEW_ONLY", raising=False)
    # A worker seems to hold the folder, so that nothing is measured behind a test.
    with (tmp_path / "worker.lock").open("w") as lock, Store() as store:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield store


def opened(page: str, /, **link: str | list[str]) -> AppTest:
    at = AppTest.from_file(str(CHECKOUT / "app.py"), default_timeout=60)
    at.switch_page(f"pages/{page}.py")
    for name, value in link.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception
    return at


def words(at: AppTest) -> str:
    """All Markdown of the page, as it is sent to the browser."""
    return "\n".join(str(part.value) for part in (*at.markdown, *at.caption, *at.subheader))


def table(at: AppTest, with_column: str) -> Any:
    return next(frame.value for frame in at.dataframe if with_column in frame.value.columns)


def button(at: AppTest, label: str) -> Any:
    return next(one for one in at.button if label in one.label)


def labels(at: AppTest) -> list[str]:
    return [one.label for one in at.button]


def hostile_runs(store: Store) -> list[Run]:
    experiment = Experiment(
        models=(HOSTILE_MODEL,),
        batch_sizes=(16,),
        variants=(EAGER, COMPILE),
        repeats=1,
        workload={"samples": 64},
        measurement={"label": HOSTILE, "epochs": 6},
    )
    store.queue(experiment)
    return [plant_run(store, experiment.id, machine="CPU", shapes=QUICK) for _ in range(2)]


# Results


def test_results_without_a_run_say_what_to_do():
    at = opened("results")
    assert "No measurements yet" in words(at)
    assert "New run" in labels(at)
    assert not at.dataframe


def test_results_list_every_run_newest_first_with_its_numbers(store):
    planted_experiment(store, models=("resnet50",), repeats=1)
    frame = table(opened("results"), "Steady epoch")
    assert list(frame["Run"]) == [2, 1]
    assert list(frame["Variant"]) == [["compile"], ["eager"]]
    assert frame["Steady epoch"][0] == pytest.approx(32.4, rel=0.02)
    assert frame["Compiling"][0] == pytest.approx(47.5)
    assert frame["Compiling"].isna()[1]  # nothing compiled is empty, not 0


def test_failed_and_queued_runs_are_rows_without_numbers(store):
    experiment = planted_experiment(store, models=("resnet50",), repeats=1, measured=0)
    plant_run(
        store, experiment.id, epochs=0, status="failed", failure="out of memory", reason="3 GB"
    )
    frame = table(opened("results"), "Steady epoch")
    assert list(frame["Status"]) == [["queued"], ["failed"]]
    assert frame[["Steady epoch", "First epoch", "Compiling", "Memory"]].isna().all().all()
    assert frame["Epochs"].isna()[0]


@pytest.mark.parametrize(
    ("link", "numbers"),
    [
        ({"machines": "A100"}, [4, 3]),
        ({"statuses": "done"}, [4, 3, 2, 1]),
        ({"model_name": "resnet50"}, [2, 1]),
        ({"machines": ["A100", "T4"]}, [4, 3, 2, 1]),
        ({"machines": "nonsense"}, [4, 3, 2, 1]),
    ],
)
def test_the_address_filters_the_runs(store, link, numbers):
    planted_experiment(store, models=("resnet50",), repeats=1)
    planted_experiment(store, models=("resnet18",), machine="A100", repeats=1)
    assert list(table(opened("results", **link), "Steady epoch")["Run"]) == numbers


def test_the_address_can_name_one_experiment(store):
    planted_experiment(store, models=("resnet50",), repeats=1)
    second = planted_experiment(store, models=("resnet18",), repeats=1)
    frame = table(opened("results", experiment=second.id), "Steady epoch")
    assert list(frame["Run"]) == [4, 3]


def test_a_filter_that_nothing_matches_can_be_cleared(store):
    planted_experiment(store, models=("resnet50",), repeats=1)
    planted_experiment(store, models=("resnet18",), machine="A100", repeats=1)
    at = opened("results", machines="A100", model_name="resnet50")
    assert "No run matches." in words(at)
    button(at, "Clear the filter").click().run()
    assert len(table(at, "Steady epoch")) == 4


def downloaded(monkeypatch: pytest.MonkeyPatch, **link: str) -> dict[str, bytes]:
    """What the page's download buttons would send, by their label: AppTest cannot press them."""
    import streamlit as st

    offers: dict[str, Callable[[], bytes]] = {}

    def remember(label: str, data: Callable[[], bytes], **_: Any) -> bool:
        offers[label] = data
        return False

    monkeypatch.setattr(st, "download_button", remember)
    opened("results", **link)
    return {label: data() for label, data in offers.items()}


def test_the_csv_holds_the_runs_that_the_filter_shows(store, monkeypatch):
    planted_experiment(store, models=("resnet50",), repeats=1, epochs=4)
    planted_experiment(store, models=("resnet18",), machine="A100", repeats=1, epochs=4)
    files = downloaded(monkeypatch, machines="A100")
    rows = list(csv.DictReader(io.StringIO(files["Download CSV"].decode(), newline="")))
    assert {row["machine"] for row in rows} == {"A100"}
    assert len(rows) == 2 * 4
    assert rows[0]["step_count"] == "62"
    summary = list(csv.DictReader(io.StringIO(files["Summary"].decode("utf-8-sig"), newline="")))
    assert [row["variant"] for row in summary] == ["eager", "compile"]
    assert float(summary[0]["steady_seconds"]) == pytest.approx(3.02, rel=0.02)


def test_a_run_in_the_address_opens_its_card(store):
    planted_experiment(store, models=("resnet50",), repeats=1)
    at = opened("results", run="2")
    assert "**Run 2**" in words(at)
    assert "asked for cold, was cold: no hits, 2 misses" in str(at.table[0].value.to_dict())
    assert at.code[0].value.startswith("python -m bench_core run --model resnet50")


def test_the_card_of_a_failed_run_says_why(store):
    experiment = planted_experiment(store, models=("resnet50",), repeats=1, measured=0)
    plant_run(
        store,
        experiment.id,
        epochs=0,
        status="failed",
        failure="out of memory",
        reason="asked for **3 GB**",
        traceback="Traceback: <b>boom</b>",
    )
    at = opened("results", run="1")
    assert "**Failed: out of memory**" in words(at)
    assert [text.value for text in at.text] == ["asked for **3 GB**"]
    assert "Traceback: <b>boom</b>" in [code.value for code in at.code]


def test_the_card_shows_the_end_of_the_log(store, tmp_path):
    planted_experiment(store, models=("resnet50",), repeats=1)
    (tmp_path / "logs").mkdir()
    run = store.runs()[0]
    (tmp_path / "logs" / f"{run.id}.log").write_text("x" * 50_000 + "the **last** words")
    shown = opened("results", run="1").code[-1].value
    assert shown.endswith("the **last** words")
    assert len(shown) == 20_000


def test_deleting_asks_first_and_then_deletes(store):
    planted_experiment(store, models=("resnet50",), repeats=1)
    at = opened("results", run="2")
    button(at, "Delete").click().run()
    assert len(store.runs()) == 2
    assert "This cannot be undone" in words(at)
    button(at, "Delete 1 run").click().run()
    assert [run.number for run in store.runs()] == [1]


def test_queued_and_running_runs_are_not_deleted(store):
    experiment = planted_experiment(store, models=("resnet50",), repeats=1, measured=0)
    plant_run(store, experiment.id, epochs=2, status="running")
    for number, status in ((1, "running"), (2, "queued")):
        at = opened("results", run=str(number))
        button(at, "Delete").click().run()
        assert f"Run {number} is {status} and stays" in words(at)
        assert not any(label.startswith("Delete 1") for label in labels(at))
    assert len(store.runs()) == 2


def test_view_only_offers_nothing_that_changes_the_store(store, monkeypatch):
    monkeypatch.setenv("BENCH_VIEW_ONLY", "1")
    assert "New run" not in labels(opened("results"))
    assert "New run" not in labels(opened("compare"))
    planted_experiment(store, models=("resnet50",), repeats=1)
    assert not any("Delete" in label for label in labels(opened("results", run="1")))


def test_two_hundred_runs_are_a_page(store):
    planted_experiment(
        store,
        models=("small_cnn",),
        machine="CPU",
        repeats=100,
        measured=0,
        workload={"samples": 16},
    )
    planted_experiment(store, models=("resnet50",), repeats=1, measured=0)
    assert len(table(opened("results"), "Steady epoch")) == 200
    assert list(table(opened("results", page="2"), "Steady epoch")["Run"]) == [2, 1]


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
    assert len(at.get("plotly_chart")) == 4


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

FUSED = Variant(execution="onednn_graph")
TRACED = Variant(execution="jit_trace_frozen")


def inference(store: Store, **changed: Any) -> Experiment:
    fields: dict[str, Any] = {
        "models": ("resnet18",),
        "machine": "CPU",
        "batch_sizes": (1,),
        "variants": (EAGER, COMPILE, FUSED),
        "repeats": 1,
        "workload": {"task": "infer"},
        **changed,
    }
    return planted_experiment(store, **fields)


def function(store: Store, **changed: Any) -> Experiment:
    sizes = (100, 1000, 10_000, 100_000)
    fields = {"models": ("function:sin_cos",), "batch_sizes": sizes, "variants": (EAGER, COMPILE)}
    return inference(store, **{**fields, **changed})


def said(at: AppTest) -> str:
    """All words of the page, spaces of all kinds as one, without escapes."""
    return words(at).translate(str.maketrans({"\u00a0": " ", "\u202f": " ", "\\": ""}))


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


def measured_in(store: Store) -> list[Measured]:
    epochs = store.epochs([run.number for run in store.runs()])
    return [measure(run, epochs[run.number]) for run in store.runs()]


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


def with_aftermath(store: Store, execution: str, aftermath: Aftermath, **changed: Any) -> None:
    experiment = inference(store, measured=0, **changed)
    for run in experiment.runs():
        mine = run.variant.execution == execution
        plant_run(store, experiment.id, machine="CPU", aftermath=aftermath if mine else None)


UNFUSED = Finding(asked="oneDNN Graph", got="no group was **fused**", met=False)
SAME = Parity(verdict="same", text="its outputs differ by 3e-7.", output_difference=3e-7)
WRONG = Parity(verdict="differs", text="its outputs differ by 4e-2, 2e-2 are allowed.")


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


def test_results_of_both_tasks_share_columns_that_name_no_unit(store):
    planted_experiment(store, models=("resnet50",), repeats=1)
    inference(store)
    frame = table(opened("results"), "Steady")
    assert list(frame["Task"]) == ["Inference"] * 3 + ["Training"] * 2
    assert list(frame["Count"]) == [120, 120, 120, 10, 10]
    assert frame["First"][0] == pytest.approx(2.2, abs=0.1)
    assert all(len(series) <= 60 for series in frame["Over time"])
    assert "Steady epoch" not in frame


@pytest.mark.parametrize(
    ("link", "numbers", "steady"),
    [
        ({"tasks": "Training"}, [2, 1], "Steady epoch"),
        ({"tasks": "Inference"}, [8, 7, 6, 5, 4, 3], "Steady iteration"),
        ({"executions": "onednn_graph"}, [8, 5], "Steady iteration"),
        ({"precisions": "bf16"}, [8, 7, 6], "Steady iteration"),
        ({"precisions": "bf16", "executions": "eager"}, [6], "Steady iteration"),
    ],
)
def test_results_are_filtered_by_task_execution_and_precision(store, link, numbers, steady):
    planted_experiment(store, models=("resnet50",), repeats=1)
    inference(store, precisions=("fp32", "bf16"))
    assert list(table(opened("results", **link), steady)["Run"]) == numbers


def card(at: AppTest) -> str:
    """The run card's tables, spaces of all kinds as one, without escapes."""
    text = str([one.value.to_dict() for one in at.table])
    return text.replace("\\xa0", " ").replace("\\u202f", " ").replace("\\", "")


def test_the_card_of_an_inference_run_has_its_latencies_and_their_conditions(store):
    inference(store)
    at = opened("results", run="3")
    assert "p50 32.9 ms, p90" in card(at)
    assert re.search(r"'Steady': '\d+ of 120 iterations, from iteration \d+'", card(at))
    assert "of it trace 1.30 s" in card(at)
    assert "no_grad, compiled or traced outside of it" in card(at)
    assert "one batch of 1 that stays on the device" in card(at)
    assert "deprecated by PyTorch" in card(at)
    assert "Iterations of onednn_graph take 32.9 ms" in said(at)
    assert len(at.get("plotly_chart")) == 1


def test_where_the_input_comes_from_is_said(store):
    loaded = {"task": "infer", "pipeline": "on_the_fly", "compile_in_grad_mode": True}
    inference(store, workload=loaded)
    function(store, batch_sizes=(1000,))
    text = card(opened("results", run="2"))
    assert "32 batches in turn from the loader (on the fly, no loader workers)" in text
    assert "inside of it too" in text
    assert "make_inputs(1 000), once before the timing" in card(opened("results", run="4"))


def test_the_card_of_a_function_has_nothing_of_a_model_and_warns_of_nothing(store):
    experiment = function(store, batch_sizes=(1000,), iterations=60, measured=0)
    for _ in experiment.runs():
        plant_run(store, experiment.id, machine="CPU")
    text = card(opened("results", run="1"))
    assert "Elements a second" in text
    assert "p90" in text and "p99" not in text, "a handful of calls"
    for of_model in ("Weights", "Parameters", "Memory layout", "Images", ":yellow["):
        assert of_model not in text


def test_a_frozen_compile_that_no_cache_keeps_was_cold(store):
    inference(store, variants=(EAGER, Variant(execution="compile_frozen")), measured=2)
    run = store.runs()[1]
    bypassed = run.activity.changed(cache_hits=0, cache_misses=0, cache_bypasses=2)
    assert ":yellow[" not in dict(effective(replace(run, activity=bypassed)))["Cache"]
    warm = run.spec.changed(variant=run.spec.variant.changed(cache="warm"))
    asked_warm = replace(run, spec=warm, activity=bypassed)
    assert dict(effective(asked_warm))["Cache"].startswith(":yellow[")


def test_the_card_says_what_was_asked_and_got_and_marks_what_was_not(store):
    fine = Finding(asked="frozen weights", got="frozen", met=True)
    aftermath = Aftermath(effective=(fine, UNFUSED), parity=WRONG)
    with_aftermath(store, "onednn_graph", aftermath)
    at = opened("results", run="3")
    [line] = [one.value for one in at.markdown if "Asked / got" in one.value]
    first, second = line.split(" · ")
    assert ":yellow[:material/warning: oneDNN Graph" in first
    assert second == ":gray[frozen weights\\: frozen]"
    assert "**fused**" not in words(at)
    assert ":red[:material/error: Results differ\\: no speedup" in words(at)


def test_a_run_that_was_not_checked_says_why(store):
    reason = Parity(verdict="not checked", text="parity itself failed (OSError).")
    with_aftermath(store, "compile", Aftermath(parity=reason))
    text = said(opened("results", run="2"))
    assert "Not checked against eager: parity itself failed (OSError)." in text


# Strings from elsewhere


@pytest.mark.parametrize("name", ["results", "compare"])
def test_hostile_names_are_never_markdown(store, name):
    numbers = [run.number for run in hostile_runs(store)]
    link = {"run": str(numbers[0])} if name == "results" else {"runs": "1,2"}
    at = opened(name, **link)
    said = words(at) + "".join(str(one.value.to_dict()) for one in at.table)
    said += "".join(option for group in at.get("button_group") for option in pill_labels(group))
    for markdown in ("![x](", "**my**", "**bold**", "<b>", ":red[r]", "`c`", "$x$"):
        assert markdown not in said
    assert "my" in said


def pill_labels(group: Any) -> list[str]:
    return [option.content for option in group.proto.options]


@pytest.mark.parametrize(
    "text", ["www.evil.com", "http://evil.com", "me@evil.com", ":material/home:", "a -> b", "<-"]
)
def test_what_streamlit_replaces_after_the_escapes_is_parted(text):
    shown = plain(text).replace("\\", "")
    assert shown != text
    assert shown.replace(WORD_JOINER, "") == text


@pytest.mark.parametrize("text", ["resnet50", "small_cnn", "my net", "T4"])
def test_ordinary_names_stay_as_they_are(text):
    assert plain(text) == text
