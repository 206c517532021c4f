"""What the Compiler page promises, driven through app.py on planted captures; no torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from bench_core import captures
from bench_core.captured import FX_DRAWING, Capture, Missing
from bench_core.events import Failed
from bench_core.file_lock import locked
from bench_core.spec import Variant
from bench_core.store import Store
from pages.parts.compiler_choice import START, fields_of, link_of, spec_of
from tests.driven_pages import button, labels, opened, said, table, words
from tests.planted import planted_experiment
from tests.planted_capture import BREAK, capture_spec, plant_capture

HOSTILE = "![x](http://evil.example/x.png) **bold** :red[r]"


@pytest.fixture(autouse=True)
def folder(held_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("BENCH_CACHES", str(held_folder / "caches"))
    yield held_folder


def page(**link: str) -> AppTest:
    return opened("compiler", **link)


def shown(capture: Capture, **more: str) -> AppTest:
    return page(**link_of(capture.spec), **more)


def pills(at: AppTest, label: str) -> list[str]:
    group = next(one for one in at.get("button_group") if one.label == label)
    return [option.content.replace("\u202f", " ") for option in group.proto.options]


def pictures(at: AppTest) -> list[dict[str, Any]]:
    """What each drawn graph was given."""
    import json

    found = []
    for one in at.get("bidi_component"):
        if one.proto.component_name.endswith("graph_view"):
            found.append(json.loads(one.proto.json))
    return found


# Without a capture


def test_without_a_capture_the_page_says_what_one_costs_and_offers_it():
    at = page(model="resnet18")
    assert "No capture of resnet18 yet" in said(at)
    assert "touches no timed run" in said(at)
    assert "Capture resnet18" in labels(at)


def test_view_only_offers_no_capture(monkeypatch):
    plant_capture()
    monkeypatch.setenv("BENCH_VIEW_ONLY", "1")
    assert not any("apture" in label for label in labels(page(model="vgg16")))
    at = page()
    assert "became" in at.subheader[0].value
    assert not any("apture" in label for label in labels(at))


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ({"model": "no/such"}, "Model must be one of small_cnn"),
        ({"model": "sin_cos"}, "got 'sin_cos'; did you mean function:sin_cos?"),
        ({"model": "ResNet18"}, "did you mean resnet18?"),
        ({"variant": "eager"}, "got execution 'eager'"),
        ({"variant": "compile:{"}, "must be a JSON object"),
        ({"also": "{"}, "Other fields are no JSON"),
        ({"also": '{"epochs": 3}'}, "Epochs changes no graph"),
        ({"model": "torchbench:x"}, "known from imported results only"),
        ({"kind": "train", "variant": "compile_frozen"}, "compile_frozen"),
    ],
)
def test_what_cannot_be_captured_is_said_with_the_way_out(link, sentence):
    at = page(**link)
    assert sentence in said(at)
    assert not any(label.startswith("Capture") for label in labels(at))


def test_a_capture_that_is_being_taken_is_watched_and_can_be_stopped():
    spec = captures.essence(capture_spec())
    folder = captures.folder_of(captures.key_of(spec))
    folder.mkdir(parents=True)
    now = captures.State(part="cost", phase="building the kernels", since=0.0, pid=0, created=0.0)
    (folder / "state.json").write_text(now.to_json())
    held = locked(folder / "lock")
    assert held is not None
    try:
        at = page(**link_of(spec))
        assert "Capturing resnet18: part 2 of 3, what they cost" in said(at)
        assert "building the kernels" in said(at)
        assert "Stop" in labels(at)
        assert not any(label.startswith("Capture ") for label in labels(at))
    finally:
        os.close(held)


def test_a_capture_that_waits_for_its_turn_says_so():
    spec = captures.essence(capture_spec())
    folder = captures.folder_of(captures.key_of(spec))
    folder.mkdir(parents=True)
    now = captures.State(part="graphs", phase="waiting", since=0.0, pid=0, created=0.0)
    (folder / "state.json").write_text(now.to_json())
    held = locked(folder / "lock")
    assert held is not None
    try:
        at = page(**link_of(spec))
        assert "waiting for its turn: something is being measured" in said(at)
    finally:
        os.close(held)


# The answer


def test_the_answer_is_the_title_and_its_sentence_stands_alone():
    at = shown(plant_capture())
    assert at.subheader[0].value.replace("\\", "").replace("\u00a0", " ") == (
        "24 forward + 24 backward operations became 12 kernel calls: "
        "6 of generated kernels and 6 of libraries."
    )
    assert "One graph, no breaks." in said(at)
    assert "Calls of libraries (mostly convolution" in said(at)
    # 24.6 ms of a step's 42.6 ms are calls of libraries; eager's takes 48.6 ms.
    assert (
        "58 % of the step is in them, so about 2.0× is the most to expect: an estimate from "
        "profiled steps."
    ) in said(at)
    assert "other programs" not in said(at)


def test_steps_that_were_timed_beside_other_programs_say_so():
    capture = plant_capture()
    loud = plant_capture(cost=capture.cost.changed(foreign_cpu_share=0.4))
    assert "other programs used 40 % of the CPU: take it again on a quiet machine" in said(
        shown(loud)
    )


def test_without_a_cost_there_is_no_ceiling_and_a_button_that_measures_it():
    at = shown(plant_capture(timed=False))
    assert "the most to expect" not in said(at)
    assert "their time was not measured" in said(at)
    assert "Measure what they cost and the start from a warm cache" in labels(at)


def test_the_newest_capture_is_shown_first_and_any_other_can_be_chosen():
    plant_capture()
    newest = plant_capture(capture_spec(model="resnet50"), blocks=5, captured_at=1_764_000_500.0)
    at = page()
    field = next(one for one in at.selectbox if one.label == "Captured")
    assert field.options == [
        captures.title_of(newest),
        "resnet18, training, batch 16, 224 px, compile on cpu",
    ]
    assert "40 forward + 40 backward operations" in at.subheader[0].value.replace("\\", "")
    field.select(field.options[1]).run()
    assert not at.exception
    assert "24 forward + 24 backward operations" in at.subheader[0].value.replace("\\", "")


@pytest.mark.parametrize(
    "spec",
    [
        capture_spec(),
        capture_spec(memory_layout="channels_last", optimizer="sgd", threads=1),
        capture_spec(task="infer", grad_mode="inference_mode"),
        capture_spec(task="infer", backward=True),
        capture_spec(task="infer", variant=Variant(execution="compile_frozen")),
        capture_spec(model="function:sin_cos", task="infer"),
        capture_spec(model="timm:vit_tiny", precision="bf16", image_size=64, device="cuda:0"),
        capture_spec(variant=Variant(execution="compile", options={"max_autotune": True})),
    ],
)
def test_a_link_names_the_very_run(spec):
    assert captures.key_of(spec_of(fields_of(spec))) == captures.key_of(spec)


def test_a_link_with_other_fields_shows_their_capture():
    capture = plant_capture(capture_spec(memory_layout="channels_last"))
    assert "became" in shown(capture).subheader[0].value


def test_a_capture_of_another_torch_is_shown_and_says_so():
    capture = plant_capture(torch="2.9.0")
    folder = captures.folder_of(capture.key)
    folder.rename(folder.with_name("elsewhere"))
    (folder.with_name("elsewhere") / "capture.json").write_text(
        capture.changed(key="elsewhere").to_json()
    )
    at = shown(capture)
    assert "Captured with torch 2.9.0; here is" in said(at)
    assert "became" in at.subheader[0].value


# Stages


def test_every_stage_has_its_count_and_its_pictures():
    capture = plant_capture()
    at = shown(capture)
    assert pills(at, "Stage") == [
        "Dynamo · 13 operators",
        "AOTAutograd · 54",
        "Passes · 54",
        "Fusion · 48 → 12",
        "Code · 6 kernels",
    ]
    for stage, count in (("dynamo", 2), ("aot", 2), ("passes", 2), ("fusion", 2), ("code", 0)):
        at = shown(capture, stage=stage)
        drawn = pictures(at)
        assert len(drawn) == count
        assert all("<svg" in one["svg"] and one["alt"] for one in drawn)


def test_forward_and_backward_are_chosen_apart():
    capture = plant_capture()
    at = shown(capture, stage="fusion", part="backward")
    assert "extern_kernels.convolution_backward" in pictures(at)[0]["svg"]
    at = shown(capture, stage="aot", part="both")
    assert "layer" in pictures(at)[1]["svg"]
    inference = plant_capture(capture_spec(task="infer"))
    at = shown(inference, stage="fusion")
    assert all(one.label != "Direction" for one in at.get("button_group"))


def test_breaks_are_red_between_the_graphs_and_listed_with_their_line():
    at = shown(plant_capture(breaks=(BREAK,)), stage="dynamo")
    assert "One graph, 1 break." in said(at)
    assert "data-dependent jump" in pictures(at)[0]["svg"]
    assert "Graph 0 ends at model.py:7**  \ndata-dependent jump" in said(at)
    assert "if x.sum() > 0:" in [one.value for one in at.code]


def test_other_ways_to_capture_stand_beside_with_their_reason():
    at = shown(plant_capture(), stage="dynamo")
    assert "2 of 3 ways capture this model" in said(at)
    assert ":green[:material/check:] torch.jit.script :gray[1 graph, 9 operators]" in said(at)
    assert "inputs to control flow · model.py:7" in said(at)


def test_decompositions_stand_with_their_source():
    at = shown(plant_capture(), stage="aot")
    assert "Decompositions: 3 operators became 21" in said(at)
    assert list(table(at, "Whose definition")["Became"]) == [21]


# Cost and code


def test_the_heaviest_ten_kernels_have_eagers_time_beside():
    at = shown(plant_capture(blocks=6))
    frame = table(at, "Share of step")
    assert len(frame) == 10
    assert list(frame["Share of step"]) == sorted(frame["Share of step"], reverse=True)
    assert "layer.5.conv · convolution_backward" in list(frame["Kernel"])[:2]
    assert list(frame["Eager takes"])[0] == "same"
    assert "of the step" in said(at)


def test_the_chosen_kernel_shows_its_code_and_what_it_was_made_from():
    at = shown(plant_capture(), kernel="0-forward-22")
    assert at.code[0].value.startswith("cpp_fused_batch_norm_relu_1 = async_compile.cpp_pybinding")
    assert at.code[0].value.count("\n") == 19
    assert "Made from 7 operators" in [one.label for one in at.expander]
    assert "called in line" in said(at)
    assert {"SVG", "DOT", "FX text"} <= {one.label for one in shown(
        plant_capture(), stage="passes").get("download_button")}  # fmt: skip


def test_the_phases_of_the_first_call_are_drawn_cold_and_warm():
    at = shown(plant_capture())
    assert "C++/OpenMP takes 17.6 s of the first call's 23.1 s; a warm cache skips it" in said(at)
    assert len(at.get("plotly_chart")) == 1
    at = shown(plant_capture(timed=False))
    assert "The phases of the first call** :gray[not measured]" in said(at)


# What is missing


def test_absent_stages_are_named_and_the_others_shown():
    lacks = ("joint", "before_fusion", "after_fusion", "code")
    capture = plant_capture(
        without=lacks,
        timed=False,
        missing=(
            Missing(
                what="the graphs before and after fusion",
                reason="this torch has no torch._inductor.config._pre_fusion_custom_pass",
            ),
        ),
    )
    at = shown(capture)
    assert "Absent: the graphs before and after fusion. this torch has no" in said(at)
    assert "13 operators were captured in 1 graph; no code was generated." in said(at)
    assert pills(at, "Stage")[1::2] == ["AOTAutograd · none", "Fusion · none"]
    assert len(pictures(at)) == 2, "the stage that was reached is what opens"
    at = shown(capture, stage="fusion")
    assert said(at).count("this stage was not reached") == 2
    assert "No code was generated." in said(at)


def test_a_part_that_failed_says_why_and_what_was_reached_stands():
    failed = Failed(failure="compile error", reason="g++ was not found: install it", phase="cost")
    capture = plant_capture(timed=False, failures={"cost": failed}, parts=("graphs", "cost"))
    at = shown(capture)
    assert "Not captured: what they cost. g++ was not found: install it" in said(at)
    assert "operations became" in said(at)
    assert "Capture again" in labels(at)
    assert any(label.startswith("Try what they cost and") for label in labels(at))


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("out of memory", "out of memory while the model ran with batch size 16 at 224 px on cpu"),
        ("compiler missing", "torch.compile needs a C++ compiler, and it was not found"),
        ("model error", "the model failed while TorchDynamo captured the model"),
    ],
)
def test_why_a_capture_ended_stands_above_the_stages_that_it_reached(failure, reason):
    failed = Failed(failure=failure, reason=reason, phase="x")
    capture = plant_capture(without=("code",), timed=False, failures={"graphs": failed})
    at = shown(capture)
    assert f"Captured in part: the graphs. {reason}" in said(at)
    assert pills(at, "Stage")[0] == "Dynamo · 13 operators" and len(pictures(at)) == 2


def test_torch_fxs_own_picture_is_drawn_when_opened_and_a_large_one_is_a_download():
    capture = plant_capture()
    drawing = 'digraph graph {\na [label="{name=%a|target=sin}", fillcolor=Wheat1];\n}\n'
    (captures.folder_of(capture.key) / "graphs" / "fx.dot").write_text(drawing)

    def opened_with(missing: tuple[Missing, ...] = (), **fields: object) -> AppTest:
        graphs = tuple(
            file.changed(**fields) if file.stage == "dynamo" else file for file in capture.graphs
        )
        changed = capture.changed(graphs=graphs, missing=missing)
        (captures.folder_of(capture.key) / "capture.json").write_text(changed.to_json())
        at = shown(capture, stage="dynamo")
        assert not drawn(at), "it is drawn when it is opened"
        at.session_state.fx_dynamo = True
        return at.run()

    def drawn(at: AppTest) -> bool:
        return any("name=%a" in one["svg"] for one in pictures(at))

    def downloads(at: AppTest) -> list[str]:
        return [one.label for one in at.get("download_button") if "FxGraph" in one.label]

    at = opened_with(drawing="graphs/fx.dot")
    assert drawn(at) and downloads(at) == ["FxGraphDrawer's SVG", "FxGraphDrawer's DOT"]
    at = opened_with(drawing="graphs/fx.dot", nodes=5000)
    assert not drawn(at) and "5 000 nodes with all their rows are too many" in said(at)
    assert downloads(at) == ["FxGraphDrawer's DOT"]
    assert "it needs the package pydot" in said(opened_with(drawing=""))
    raised = Missing(what=FX_DRAWING, reason="TypeError: no such label")
    told = said(opened_with((raised,), drawing=""))
    assert "FxGraphDrawer drew nothing: TypeError: no such label." in told
    assert "pydot" not in told


def test_a_capture_of_which_nothing_was_reached_still_opens():
    failed = Failed(failure="model error", reason="forward() needs two arguments", phase="run")
    lacks = ("dynamo", "joint", "before_passes", "after_passes", "before_fusion", "after_fusion")
    capture = plant_capture(
        without=(*lacks, "code"), timed=False, alternatives=(), failures={"graphs": failed}
    )
    for stage in ("dynamo", "aot", "passes", "fusion", "code"):
        at = shown(capture, stage=stage)
        assert "Nothing of the model was captured." in said(at)
        assert "forward() needs two arguments" in said(at)


def test_a_backend_that_writes_no_code_says_so():
    spec = capture_spec(variant=Variant(execution="compile", backend="aot_eager"))
    lacks = ("joint", "before_passes", "after_passes", "before_fusion", "after_fusion", "code")
    at = shown(plant_capture(spec, without=lacks, timed=False))
    assert "1 graph of 13 operators; backend aot_eager writes no kernels." in said(at)
    assert "the backend here is aot_eager" in said(at)


def test_the_code_starts_with_the_heaviest_kernel():
    at = shown(plant_capture(), stage="code")
    field = next(one for one in at.selectbox if one.label == "Kernel")
    [heaviest, *_] = table(at, "Share of step")["Kernel"]
    assert field.index is not None
    assert field.options[field.index].startswith(heaviest)
    assert any(one.startswith("layer.0.bn … relu · ") for one in field.options)


def test_counts_say_of_which_direction_they_are():
    at = shown(plant_capture(), stage="fusion")
    assert "These counts are of forward and backward together" in said(at)
    assert "After fusion** :gray[6 nodes, forward]" in said(at)
    at = shown(plant_capture(capture_spec(task="infer")), stage="fusion")
    assert "These counts" not in said(at) and ":gray[6 nodes]" in said(at)


def test_where_lowering_had_joined_all_the_page_says_why_fusion_changed_nothing():
    capture = plant_capture(capture_spec(task="infer"), timed=False)
    sentence = "Nothing was left to fuse"
    assert sentence not in said(shown(capture, stage="fusion"))
    graphs = tuple(
        file.changed(operators=6) if file.stage == "before_fusion" else file
        for file in capture.graphs
    )
    (captures.folder_of(capture.key) / "capture.json").write_text(
        capture.changed(graphs=graphs).to_json()
    )
    at = shown(capture, stage="fusion")
    assert sentence in said(at)
    assert list(table(at, "Made by"))[:2] == ["Kernel", "Operators"], "they are by operators"


# The fields


def test_a_changed_model_takes_the_task_and_the_sizes_that_suit_it():
    function = plant_capture(capture_spec(model="function:sin_cos", task="infer"))
    at = shown(function)
    assert "px" not in said(at) and not [n for n in at.number_input if "px" in n.label]
    assert "Captured already: the page shows it." in said(at)
    field = next(one for one in at.selectbox if one.label == "Model")
    field.select("small_cnn").run()
    assert not at.exception
    assert (at.session_state.kind, at.session_state.image_size) == ("train", 32)
    assert labels(at).count("Capture small_cnn") == 2, "on the page, and where it was chosen"
    next(one for one in at.selectbox if one.label == "Task").select("infer").run()
    next(one for one in at.selectbox if one.label == "Model").select("pointwise_cnn").run()
    assert (at.session_state.kind, at.session_state.image_size) == ("infer", 32)
    next(one for one in at.selectbox if one.label == "Model").select("resnet50").run()
    assert (at.session_state.kind, at.session_state.image_size) == ("infer", 224)
    next(one for one in at.selectbox if one.label == "Model").select("function:sin_cos").run()
    assert not at.exception and at.session_state.batch_size == 1000


# Two captures


def test_a_capture_is_not_offered_beside_itself():
    first = plant_capture()
    plant_capture(capture_spec(model="resnet50"))
    fields = {one.label: one for one in shown(first).selectbox}
    assert captures.title_of(first) in fields["First"].options
    assert captures.title_of(first) not in fields["Second"].options


def test_what_changed_between_two_captures():
    first = plant_capture()
    second = plant_capture(
        capture_spec(variant=Variant(execution="compile", dynamic=True)), blocks=5
    )
    at = shown(first, first=first.key, second=second.key)
    assert "Asked for differently: dynamic unset, then True." in said(at)
    frame = table(at, "Difference")
    rows = dict(zip(frame["What"], frame["Difference"], strict=True))
    assert rows["Generated kernels"] == "+4"
    assert rows["Graph breaks"] == "same"
    assert list(table(at, "Kernels that compute")["Second"]) == [5, 5, 5, 5]
    select = next(one for one in at.selectbox if one.label == "Compare the code of")
    select.select(select.options[0]).run()
    assert not at.exception
    assert "+cpp_fused_batch_norm_relu_3" in at.code[-1].value


def test_with_one_capture_there_is_nothing_to_compare_and_the_page_says_how():
    assert "Capture this model with another variant" in said(shown(plant_capture()))


# Strings from elsewhere


def test_hostile_names_are_never_markdown():
    failed = Failed(failure="error", reason=HOSTILE, phase="x", traceback=HOSTILE)
    spec = capture_spec(model="file:**my** ![x](net).py")
    capture = plant_capture(
        spec,
        timed=False,
        failures={"cost": failed},
        missing=(Missing(what=HOSTILE, reason=HOSTILE),),
        breaks=(BREAK.changed(reason=HOSTILE, line=HOSTILE),),
    )
    for stage in ("dynamo", "fusion", "code"):
        at = shown(capture, stage=stage)
        for markdown in ("![x](", "**bold**", ":red[r]", "**my**"):
            assert markdown not in words(at)


# From other pages


def test_a_runs_card_leads_to_its_capture_where_it_was_compiled(folder):
    with Store() as store:
        planted_experiment(store, models=("resnet50",), repeats=1)
    [link] = opened("results", run="2").get("page_link")
    assert link.proto.label == "What the compiler made of it"
    assert "model=resnet50" in link.proto.query_string
    assert not opened("results", run="1").get("page_link")


def test_deleting_a_capture_leads_back_to_the_empty_state():
    at = shown(plant_capture())
    button(at, "Delete this capture").click().run()
    assert not at.exception
    assert "No capture of resnet18 yet" in said(at)


def test_a_capture_that_is_deleted_while_it_is_shown_leaves_no_error_behind():
    capture = plant_capture()
    at = shown(capture, stage="code")
    captures.delete(capture.key)
    at.run()
    assert not at.exception
    assert "No capture of resnet18 yet" in said(at)


@pytest.mark.parametrize("garbage", ["-1", "9" * 20, "../../etc/<script>🙂"])
def test_no_garbage_in_the_address_breaks_the_page(garbage):
    capture = plant_capture(breaks=(BREAK,))
    views = ("stage", "part", "color", "graph", "kernel", "first", "second")
    at = shown(capture, **dict.fromkeys(views, garbage))
    assert "became" in at.subheader[0].value
    for name in START:
        page(**{**link_of(capture.spec), name: garbage})  # raises where an exception is shown
