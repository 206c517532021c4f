"""What Results and Compare promise, driven through app.py on a real store."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from bench_core.events import Aftermath, Finding, Parity
from bench_core.run import Run
from bench_core.spec import Experiment, Variant
from bench_core.store import Store
from pages.parts.measured import measured_runs
from pages.parts.run_card import effective
from pages.parts.text import WORD_JOINER, plain
from tests.driven_pages import (
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
from tests.planted import COMPILE, EAGER, SHAPES, Shape, plant_epoch, plant_run, planted_experiment

HOSTILE = "![x](http://evil.example/x.png) **bold** <b>b</b> :red[r] `c` $x$"
HOSTILE_MODEL = "file:**my** ![x](net).py"
QUICK = {("CPU", HOSTILE_MODEL): (Shape(2.0), Shape(1.5, 4.0)), **SHAPES}


@pytest.fixture(autouse=True)
def store(held_folder: Path) -> Iterator[Store]:
    with Store() as opened:
        yield opened


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


def chips(at: AppTest) -> list[list[str]]:
    return [list(labels) for labels in table(at, "Doubts")["Doubts"]]


def test_doubts_are_chips_in_the_table_and_sentences_with_the_next_step_on_the_card(store):
    experiment = planted_experiment(store, models=("resnet50",), repeats=1, measured=0)
    plant_run(store, experiment.id)
    plant_run(store, experiment.id, epochs=6, status="stopped")
    at = opened("results", run="2")
    assert chips(at) == [["stopped", "results not checked"], []]
    text = words(at).replace("\\", "")
    assert ":gray-badge[stopped] Run 2 (compile) was stopped after 6 of 10 epochs. Queue" in text
    assert "were not held against eager's, the check comes after the timing" in text
    assert ":gray-badge[" not in words(opened("results", run="1"))


def test_what_the_card_says_of_parity_is_no_second_doubt_below_it(store):
    reason = Parity(verdict="not checked", text="parity itself failed (OSError).")
    with_aftermath(store, "compile", Aftermath(parity=reason))
    at = opened("results", run="2")
    assert ["results not checked"] in chips(at)
    assert said(at).count("OSError") == 1


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


def test_what_was_seen_of_a_run_while_it_was_measured_is_not_kept_once_it_has_ended(store):
    experiment = planted_experiment(store, models=("resnet50",), repeats=1, epochs=10, measured=0)
    run = plant_run(store, experiment.id, epochs=3, status="running")
    for page in ("results", "compare"):
        assert not opened(page).exception
    for number in range(4, 11):
        plant_epoch(store, run, number)
    store.finish(run.number, "done")
    for page in ("results", "compare"):
        assert not opened(page).exception
    [ended] = measured_runs(store, [one for one in store.runs() if one.number == run.number])
    assert len(ended.series_seconds) == 10


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


# Inference


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
