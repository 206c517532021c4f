"""What Claims promises, driven through app.py on a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench_core import capabilities
from bench_core.capabilities import Backend, Capabilities, Device
from bench_core.spec import Variant
from bench_core.store import Store
from tests.driven_pages import button, labels, opened, said, words
from tests.planted import COMPILE, EAGER, Shape, plant_run, planted_experiment

HERE = Capabilities(
    torch="2.14.1",
    torchvision="0.29.1",
    devices=(Device(id="cpu", name="Xeon"),),
    backends=(Backend(name="inductor"),),
    modes=("default",),
    inductor_options={},
    torchvision_models=("resnet18", "resnet50", "squeezenet1_1", "vgg11"),
    compiler="/usr/bin/g++",
    openssl="/usr/bin/openssl",
    cpu_name="Xeon",
    cpu_cores=2,
    cpu_affinity=2,
    cpu_isa="AVX2",
    memory_bytes=16_000_000_000,
)


@pytest.fixture(autouse=True)
def store(held_folder: Path) -> Iterator[Store]:
    capabilities.answer_file().write_text(HERE.to_json())
    with Store() as opened:
        yield opened


def test_without_a_run_every_claim_says_how_it_gets_measured():
    at = opened("claims")
    assert at.title[0].value == "Published claims beside our results"
    assert "Of 27 claims: **0 hold here**, **0 do not**, **27 are not measured yet**." in words(at)
    assert said(at).count("No run under its conditions yet") >= 20
    assert "(https://habr.com/ru/articles/763720/)" in words(at)
    # What this machine can measure is a button, the rest a command for another one.
    assert [label for label in labels(at) if label.startswith("Queue 12 runs, about")]
    assert "--model vgg16" in "\n".join(block.value for block in at.code)
    assert "About 5 %" in said(at)


def test_judged_claims_stand_beside_their_figures(store: Store):
    planted_experiment(store, models=("resnet101", "resnet50"))
    slow = {("CPU", "resnet18"): (Shape(34.0), Shape(33.0, compile_seconds=40.0))}
    planted_experiment(store, models=("resnet18",), machine="CPU", shapes=slow)
    at = opened("claims")
    assert "**3 hold here**, **0 do not**, **24 are not measured yet**" in words(at)
    assert "resnet50: 4.6 % faster, 95 %: 4.0–5.2 %" in said(at)
    assert "Nearest: resnet18 on CPU, batch 16" in said(at)
    assert "differs in: device (CPU here, T4 in the claim)" in said(at)
    linked = [link.proto.query_string for link in at.get("page_link")]
    first = store.runs()[0].number
    assert any(f"pair={first}-" in query for query in linked)


def test_pills_count_and_the_address_holds_the_choice(store: Store):
    planted_experiment(store, models=("resnet50",))
    at = opened("claims", show="holds")
    pills = at.button_group(key="claims_shown")
    assert list(pills.options) == [
        "All · 27",
        "Holds here · 1",
        "Does not hold · 0",
        "Not measured · 26",
    ]
    assert "Training ResNet50" in said(at) and "Training VGG16" not in said(at)
    pills.set_value("open").run()
    assert at.query_params["show"] in ("open", ["open"])
    assert "Training VGG16" in said(at) and "Training ResNet50" not in said(at)
    pills = at.button_group(key="claims_shown")
    pills.set_value("not").run()
    assert "No claim is judged so yet: does not hold here" in said(at)
    assert "Training VGG16" in said(opened("claims", show="nonsense"))


def test_queueing_goes_to_live_with_the_experiment_of_the_button(store: Store):
    at = opened("claims")
    pressed = button(at, "Queue 12 runs")
    key = pressed.key
    pressed.click().run()
    assert not at.exception
    queued = store.queued()
    assert len(queued) == 12
    assert {run.spec.workload.model for run in queued} == {"resnet18"}
    assert {run.spec.variant.execution for run in queued} == {"eager", "onednn_graph"}
    assert key.removeprefix("queue_") == queued[0].experiment_id
    assert at.title[0].value != "Published claims beside our results"


def test_viewers_queue_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCH_VIEW_ONLY", "1")
    at = opened("claims")
    assert not [label for label in labels(at) if label.startswith("Queue")]


def test_words_of_failures_are_no_markdown(store: Store):
    experiment = planted_experiment(
        store,
        models=("resnet18",),
        batch_sizes=(1,),
        variants=(EAGER, COMPILE),
        machine="A100",
        workload={"task": "infer"},
        repeats=1,
        measured=1,
    )
    reason = "![x](http://evil.example/x.png) **bold** :red[r]"
    ending = {"status": "failed", "failure": "error", "reason": reason}
    plant_run(store, experiment.id, machine="A100", epochs=0, **ending)
    page = words(opened("claims"))
    assert "evil" in page
    for live in ("![x](", "**bold**", ":red[r]"):
        assert live not in page


def test_other_variants_are_not_taken_for_compile(store: Store):
    tuned = Variant(execution="compile", mode="max-autotune")
    planted_experiment(store, models=("resnet50",), variants=(EAGER, tuned))
    assert "27 are not measured yet" in words(opened("claims"))
