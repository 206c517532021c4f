"""The cards of a comparison's causes and of its time, on a page that draws nothing else."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from bench_core import capabilities
from bench_core.capabilities import Device
from bench_core.events import Activity, Aftermath, GraphBreak
from bench_core.measured import measure
from bench_core.pairing import comparisons
from bench_core.parts_figure import parts_title, time_parts
from bench_core.paths import CHECKOUT
from bench_core.store import Store
from bench_core.time_parts import parts, step_shares
from pages.parts.diagnosis_card import others_of
from tests.driven_pages import button, labels, said, words
from tests.planted import COMPILE, EAGER, GIB, SHAPES, Shape, planted_experiment
from tests.test_capabilities import HERE

PAGE = """
import sys
import streamlit as st
sys.path.insert(0, {checkout!r})
from bench_core.pairing import comparisons
from bench_core.store import Store
from pages.parts.diagnosis_card import diagnosis_card, parts_card, with_stored_steps
from pages.parts.measured import measured_runs

def cards():
    with Store() as store:
        pair = comparisons(measured_runs(store, store.runs())).pairs[0]
        pair = with_stored_steps(pair, store)
        diagnosis_card(pair, store)
        parts_card(pair)

others = [("live", "watch"), ("compiler", "graphs")]
pages = [st.Page({checkout!r} + f"/pages/{{name}}.py", url_path=path) for name, path in others]
st.navigation([st.Page(cards), *pages]).run()
"""
WAITING = {("CPU", "small_cnn"): (Shape(2.0, wait_share=0.5), Shape(1.9, 5.8, wait_share=0.5))}


@pytest.fixture(autouse=True)
def data(held_folder: Path) -> Path:
    return held_folder


def plant(**changed: Any) -> None:
    with Store() as store:
        fields = {"models": ("small_cnn",), "machine": "CPU", "shapes": WAITING, **changed}
        planted_experiment(store, **fields)


def cards(data: Path, page: str = PAGE, **here: Any) -> AppTest:
    """As seen on the machine that measured what is planted."""
    known = HERE.changed(cpu_name="Intel(R) Xeon(R) @ 2.20GHz", memory_bytes=13 * GIB)
    capabilities.answer_file().write_text(known.changed(**here).to_json())
    script = data / "cards.py"
    script.write_text(page.format(checkout=str(CHECKOUT)))
    at = AppTest.from_file(str(script), default_timeout=60).run()
    assert not at.exception
    return at


def test_a_press_on_a_remedy_queues_its_runs_and_shows_them_live(data: Path) -> None:
    plant()
    at = cards(data)
    assert "Waiting for data is 50 % of the eager epoch" in said(at)
    press = button(at, "Queue cached data")
    press.click().run()
    assert not at.exception
    with Store() as store:
        queued = store.queued()
    assert {(run.spec.workload.pipeline, run.spec.variant.arm) for run in queued} == {
        ("cached", EAGER),
        ("cached", COMPILE),
    }
    assert len(queued) == 6
    assert at.query_params["experiment"] == queued[0].experiment_id


def test_a_remedy_that_was_measured_shows_its_effect_in_the_place_of_its_button(
    data: Path,
) -> None:
    plant()
    cached = {("CPU", "small_cnn"): (Shape(1.0, wait_share=0.01), Shape(0.8, 5.8, wait_share=0.01))}
    plant(workload={"samples": 1000, "pipeline": "cached"}, shapes=cached)
    at = cards(data)
    text = said(at)
    assert "Measured with cached data, compile against eager: 2" in text
    assert "% faster. As here: 5" in text
    assert "Queue cached data" not in labels(at)
    assert "Queue 2 loader workers" in labels(at)


def test_runs_of_another_machine_are_told_as_its_commands(data: Path) -> None:
    plant()
    at = cards(data, cpu_name="another CPU", memory_bytes=1)
    assert not [label for label in labels(at) if label.startswith("Queue")]
    assert any("--pipeline cached" in code.value for code in at.code)


def test_runs_of_a_machine_that_is_not_known_are_told_as_commands(data: Path) -> None:
    plant()
    with Store() as store, sqlite3.connect(store.path) as db:
        db.execute("UPDATE runs SET environment = NULL")
    at = cards(data)
    assert not [label for label in labels(at) if label.startswith("Queue")]
    assert any("--pipeline cached" in code.value for code in at.code)


def test_what_this_machine_cannot_do_is_said_in_the_place_of_the_button(data: Path) -> None:
    plant()
    at = cards(data, devices=(Device(id="cuda:0", name="Tesla T4"),))
    assert not [label for label in labels(at) if label.startswith("Queue")]
    assert "Not here, cached data: device cpu is not here; torch sees cuda:0." in said(at)


def test_the_diagnosis_counts_testing_in_all_runs_where_the_pair_does(data: Path) -> None:
    plant()
    with Store() as store:
        runs = store.runs()
        epochs = store.epochs([run.number for run in runs])
        for counts in (True, False):
            [pair] = comparisons(measure(run, epochs[run.number], counts) for run in runs).pairs
            others = others_of(pair, store)
            assert [one.evaluation for one in others] == [counts] * len(runs)


def test_a_ratio_taken_anyway_has_no_causes(data: Path) -> None:
    plant(models=("resnet18",), machine="T4", variants=(EAGER,), shapes=SHAPES)
    plant(models=("resnet18",), machine="A100", shapes=SHAPES)
    usual = "pair = comparisons(measured_runs(store, store.runs())).pairs[0]"
    anyway = (
        "runs = measured_runs(store, store.runs()); "
        "pair = replace(override(runs[:3], runs[6:]), axis=('variant', 'machine'))"
    )
    page = PAGE.replace(usual, anyway).replace("import comparisons", "import override")
    page = page.replace("import sys", "import sys\nfrom dataclasses import replace")
    assert "The arms differ in variant, machine" in said(cards(data, page=page))


def test_the_likeliest_cause_comes_first_and_a_faster_pair_says_what_became_shorter(
    data: Path,
) -> None:
    plant()
    text = said(cards(data))
    assert "Where it comes from, and what holds it back" in text
    assert "the model's steps take" in text and "instead of" in text
    assert text.index("Waiting for data") < text.index("convolution and 3 % matrix products")


def test_a_slower_pair_is_asked_why(data: Path) -> None:
    plant(shapes={("CPU", "small_cnn"): (Shape(1.9), Shape(2.2, 5.8))})
    assert "Why not faster, and what to try" in said(cards(data))


def test_whoever_may_only_look_is_offered_no_runs(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_VIEW_ONLY", "1")
    plant()
    at = cards(data)
    assert "Waiting for data" in said(at)
    assert not [label for label in labels(at) if label.startswith("Queue")]


def test_words_of_a_users_file_are_no_markdown(data: Path) -> None:
    plant()
    with Store() as store:
        number = store.runs()[1].number
        reason = "**bold** :red[cell]"
        store.set_activity(number, Activity(graphs=2, cache_misses=2, graph_breaks=(reason,)))
        broken = GraphBreak(reason=reason, place="*my*_net.py:7 in forward", times=1)
        store.set_aftermath(number, Aftermath(breaks=(broken,)))
    shown = words(cards(data))
    assert "**bold**" not in shown and ":red[" not in shown
    assert r"\*my\*\_net\.py\:7 in forward\: \*\*bold\*\*" in shown


def test_the_chart_stacks_the_parts_of_each_arm_in_per_cent_of_the_baselines(data: Path) -> None:
    plant()
    with Store() as store:
        runs = store.runs()
        epochs = store.epochs([run.number for run in runs], steps=True)
        [pair] = comparisons(measure(run, epochs[run.number]) for run in runs).pairs
    before, after = parts(pair.baseline), parts(pair.candidate)
    arms = [("eager", before), ("<i>mine", after)]
    figure = time_parts(arms, step_shares(pair.baseline), title=parts_title(pair, before, after))
    bars = {bar.name: bar for bar in figure.data}
    eager = [bars[part].x[0] for part in ("model steps", "data wait")]
    assert sum(eager) == pytest.approx(100)
    assert bars["compiling"].x[1] == pytest.approx(100 * after.compiling / before.epoch)
    kinds = [bar for bar in figure.data if bar.y[0] == "eager, its steps"]
    assert sum(bar.x[0] for bar in kinds) == pytest.approx(bars["model steps"].x[0])
    assert "evaluation" not in bars, "there was none"
    assert "&lt;i&gt;mine" in bars["model steps"].y, "no tags from names"
    title = json.loads(figure.to_json())["layout"]["meta"]["title"]
    assert title.replace("\u00a0", " ").startswith("small_cnn, eager on CPU: 50 % in the ")
