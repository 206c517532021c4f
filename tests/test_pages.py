"""What Overview and Run promise, driven through app.py as a person would."""

from __future__ import annotations

import fcntl
import re
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from bench_core import capabilities
from bench_core.capabilities import Backend, Capabilities, Device, InductorOption
from bench_core.imported import ImportedRun
from bench_core.ladder import arm_names
from bench_core.paths import CHECKOUT
from bench_core.presets import PRESETS
from bench_core.spec import Execution, Experiment, Measurement, Rung, Variant, Workload
from bench_core.store import Store
from pages.parts import draft
from pages.parts.text import plain
from tests.planted import (
    COMPILE,
    EAGER,
    environment,
    measured_in,
    plant_run,
    planted_experiment,
)

HERE = Capabilities(
    torch="2.14.1",
    torchvision="0.29.1",
    devices=(Device(id="cpu", name="Xeon"),),
    backends=(Backend(name="inductor"), Backend(name="eager"), Backend(name="aot_eager")),
    modes=("default", "reduce-overhead", "max-autotune"),
    inductor_options={"max_autotune": InductorOption(type="bool", default=False)},
    torchvision_models=(
        *("resnet18", "resnet34", "resnet50", "resnet101", "vgg11", "vgg16", "vit_b_16"),
        "squeezenet1_1",
    ),
    compiler="/usr/bin/g++",
    openssl="/usr/bin/openssl",
    cpu_name="Xeon",
    cpu_cores=2,
    cpu_affinity=2,
    cpu_isa="avx512",
    memory_bytes=16_000_000_000,
)
GPU = Device(id="cuda:0", name="NVIDIA H200")


def tell(here: Capabilities) -> None:
    """What torch offers, as if it had been asked."""
    capabilities.answer_file().write_text(here.to_json())


@pytest.fixture(autouse=True)
def data(held_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("BENCH_MODELS", raising=False)
    tell(HERE)
    return held_folder


def overview() -> AppTest:
    at = AppTest.from_file(str(CHECKOUT / "app.py"), default_timeout=60).run()
    assert not at.exception
    return at


def launch_page(**link: str | list[str]) -> AppTest:
    at = AppTest.from_file(str(CHECKOUT / "app.py"), default_timeout=60)
    at.switch_page("pages/run.py")
    for name, value in link.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception
    return at


def said(at: AppTest) -> str:
    """All words on the page; those that cannot be taken for Markdown without their escapes."""
    words = "\n".join(one.value for one in (*at.markdown, *at.caption, *at.title, *at.text))
    return re.sub(r"\\([._,;'\"=-])", r"\1", words)


def button(at: AppTest, label: str):
    found = [one for one in at.button if one.label == label]
    assert len(found) == 1, f"{label!r} is not among {[one.label for one in at.button]}"
    return found[0]


def queue_button(at: AppTest):
    [found] = [one for one in at.button if (one.key or "").startswith("run_queue_")]
    return found


def queued() -> list[str]:
    with Store() as store:
        return [experiment.id for experiment in store.experiments()]


def press_queue(at: AppTest) -> Experiment:
    """What is queued by a press of the button."""
    queue_button(at).click().run()
    assert not at.exception
    with Store() as store:
        [made] = store.experiments()
        return made


def choose(at: AppTest, task: str) -> None:
    at.button_group(key="run_kind").set_value(task).run()
    assert not at.exception


def keys(at: AppTest) -> set[str]:
    """The fields on the page."""
    widgets = (
        *at.number_input, *at.selectbox, *at.button_group, *at.checkbox, *at.text_input,
        *at.text_area,
    )  # fmt: skip
    return {str(one.key).removeprefix("run_") for one in widgets}


def on_live_page(at: AppTest) -> bool:
    return "experiment" in at.query_params


# Overview


def test_an_answer_of_this_machine_comes_before_newer_ones_of_others(data):
    with Store() as store:
        planted_experiment(store, models=("resnet18",), machine="A100", ended_ago_seconds=9000)
        with Store(data / "other.db") as other:
            planted_experiment(other, models=("vgg16",), machine="T4")
            runs = other.runs()
            epochs = other.epochs([run.number for run in runs])
        brought = [ImportedRun(run, epochs[run.number]) for run in runs]
        store.import_runs("t4.csv", "0" * 64, "results", iter(brought))
    at = overview()
    assert "resnet18" in at.header[0].value and "imported" not in said(at)
    with Store() as store:
        store.delete([run.number for run in store.runs() if run.import_id is None])
    at = overview()
    assert "vgg16" in at.header[0].value
    assert "imported, measured on T4" in said(at)


def test_without_a_measurement_it_offers_the_demo() -> None:
    at = overview()
    assert "No measurements yet" in said(at)
    assert "This machine: Xeon" in said(at)
    button(at, "New run")
    button(at, "Run the demo").click().run()
    assert not at.exception
    [experiment] = queued()
    assert at.query_params["experiment"] in (experiment, [experiment])
    with Store() as store:
        assert [run.spec.workload.model for run in store.queued()][0] == "small_cnn"
        assert store.experiment(experiment).preset == "demo"


def test_the_newest_answer_comes_first_and_the_others_follow() -> None:
    with Store() as store:
        planted_experiment(store, models=("resnet18",), machine="A100", ended_ago_seconds=9000)
        planted_experiment(store, models=("resnet101",), machine="T4", ended_ago_seconds=60)
    at = overview()
    assert [one.value for one in at.header][0].startswith("resnet101 on T4")
    assert "Pays off from epoch" in said(at)
    assert "Nothing is running on this machine" in said(at)
    assert "**resnet18** :gray[on A100" in said(at)


def test_an_import_is_no_last_run_of_this_machine(tmp_path: Path) -> None:
    with Store(tmp_path / "other") as other:
        planted_experiment(other, models=("resnet18",), machine="A100")
        runs = [ImportedRun(one.run, one.epochs) for one in measured_in(other)]
    with Store() as store:
        store.import_runs("a100.csv", "0" * 64, "results", runs)
    assert "The last run ended" not in said(overview())
    with Store() as store:
        planted_experiment(store, models=("resnet18",), machine="T4")
    assert "The last run ended" in said(overview())


def test_the_doubts_stand_beside_the_answer_they_concern() -> None:
    with Store() as store:
        planted_experiment(store, models=("resnet18",), machine="A100", repeats=1, epochs=20,
                           ended_ago_seconds=9000)  # fmt: skip
        planted_experiment(store, machine="T4", repeats=2, epochs=20, ended_ago_seconds=60)
    at = overview()
    [popover] = [one for one in at.get("popover") if "doubt" in one.proto.popover.label]
    assert popover.proto.popover.label == "1\u00a0doubt"
    assert ":gray-badge[2 runs an arm]" in said(at)
    assert "1\u00a0doubt." in said(at), "on the tile"
    with Store() as store:  # with more runs there is none
        planted_experiment(store, machine="T4", epochs=20, ended_ago_seconds=50)
    at = overview()
    assert ":gray-badge[no\u00a0doubts]" in said(at)


def test_the_noise_floor_of_a_machine_is_told_once_it_is_measured() -> None:
    with Store() as store:
        planted_experiment(store, machine="T4")
        assert "Noise floor" not in said(overview())
        equal = (Rung(side="A"), Rung(side="B"))
        planted_experiment(store, machine="T4", rungs=equal, protocol="paired", repeats=5)
    text = said(overview()).replace("\u00a0", " ").replace("\\", "")
    assert re.search(r"Noise floor of training on T4 \(cuda:0\): equal arms may lie \d\.\d %", text)


def test_a_failed_run_is_news_with_its_reason_as_plain_text() -> None:
    with Store() as store:
        planted_experiment(store, machine="T4")
        failing = planted_experiment(store, machine="T4", batch_sizes=(64,), measured=0)
        plant_run(store, failing.id, status="failed", epochs=0, failure="out of memory",
                  reason="![x](http://elsewhere/x.png) take a smaller batch")  # fmt: skip
        store.stop(experiment_id=failing.id)
    at = overview()
    assert "Failed: out of memory" in said(at)
    assert "![x](http" not in said(at)


def test_eager_alone_is_no_answer_and_the_page_says_what_is_missing() -> None:
    with Store() as store:
        planted_experiment(store, variants=(EAGER,))
    at = overview()
    assert "No answer yet" in said(at)
    assert "no other variant than eager" in said(at)


def test_what_runs_now_and_what_waits_is_shown() -> None:
    with Store() as store:
        experiment = planted_experiment(store, models=("resnet50",), measured=1)
        plant_run(store, experiment.id, status="running", epochs=6)
    at = overview()
    assert "Running now" in said(at)
    assert "Next in the queue" in said(at)
    button(at, "Stop").click().run()
    with Store() as store:
        [run] = store.running()
        assert store.stop_requested(run.number)


def plant_inference(store: Store, **changed: Any) -> Experiment:
    fused = Variant(execution="onednn_graph")
    fields: dict[str, Any] = {
        "models": ("resnet18",),
        "machine": "CPU",
        "batch_sizes": (1,),
        "variants": (EAGER, COMPILE, fused),
        "workload": {"task": "infer"},
        **changed,
    }
    return planted_experiment(store, **fields)


def test_the_arms_of_one_workload_at_inference_are_one_answer() -> None:
    with Store() as store:
        planted_experiment(store, ended_ago_seconds=9000)
        plant_inference(store, batch_sizes=(8,), ended_ago_seconds=5000)
        plant_inference(store, ended_ago_seconds=60)
    at = overview()
    assert [one.value for one in at.header][0].startswith("resnet18 with onednn_graph on CPU")
    text = said(at).replace("\u00a0", " ")
    assert "inference · batch 1 · fp32" in text
    assert "Latency of a steady call" in text
    assert "**resnet18** :gray[on CPU · batch 8 · fp32]" in text
    assert "% faster with onednn_graph" in text
    assert re.search(r"Others\\?: compile 1\d\.\d % slower", text)
    assert text.count("**resnet18** :gray[") == 1
    button(at, "Compare").click().run()
    assert not at.exception
    assert "Every arm of resnet18 on CPU, batch 1, fp32" in said(at)  # not the training's pair


def test_the_sizes_of_a_function_are_one_answer() -> None:
    sizes = (100, 1000, 10_000, 100_000)
    with Store() as store:
        for ago, machine in ((9000, "CPU"), (60, "Desk")):
            plant_inference(
                store,
                models=("function:sin_cos",),
                machine=machine,
                batch_sizes=sizes,
                variants=(EAGER, COMPILE),
                ended_ago_seconds=ago,
            )
    at = overview()
    text = said(at).replace("\u202f", " ").replace("\u00a0", " ")
    assert "Compiling pays from n = 10 000 on (sin_cos, Desk)" in at.header[0].value.replace(
        "\u202f", " "
    ).replace("\\", "")
    assert "functions · n = 100–100 000" in text
    assert "**sin_cos** :gray[on CPU · n = 100–100 000]" in text
    assert "Compiling pays from n = 10 000 on**" in text


def test_a_running_inference_counts_its_iterations() -> None:
    with Store() as store:
        experiment = plant_inference(store, measured=1, iterations=400)
        plant_run(store, experiment.id, machine="CPU", status="running", epochs=5)
    [doing] = [one for one in overview().markdown if "iteration" in one.value]
    assert "iteration 102 of 400" in doing.value


def test_view_only_hides_what_would_start_or_stop_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BENCH_VIEW_ONLY", "1")
    assert [one.label for one in overview().button] == []
    with Store() as store:
        experiment = planted_experiment(store, measured=1)
        plant_run(store, experiment.id, status="running", epochs=2)
    labels = [one.label for one in overview().button]
    assert "Stop" not in labels
    assert "New run" not in labels


# Run


@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_fills_the_form_and_can_be_queued(preset: str) -> None:
    at = launch_page(preset=preset)
    runs = len(PRESETS[preset].experiment("cpu").runs())
    assert f"This will queue {runs} runs" in said(at)
    assert queue_button(at).label == f"Queue {runs} runs"
    assert not queue_button(at).disabled


def test_choosing_a_preset_replaces_the_fields() -> None:
    at = launch_page()
    at.button_group(key="run_preset").set_value("demo").run()
    assert at.session_state.run_batch_size == [32]
    assert "2 models × 1 batch size × 3 variants × 1 repeat" in said(at)
    assert "a first look" in said(at)


def test_one_drawn_button_queues_once_and_a_second_press_queues_again() -> None:
    at = launch_page(preset="demo")
    drawn = at.session_state.run_launch_id
    queue_button(at).click().run()
    assert not at.exception
    assert queued() == [drawn]
    assert on_live_page(at)
    at.switch_page("pages/run.py").run()
    assert at.session_state.run_launch_id != drawn
    assert queue_button(at).key == f"run_queue_{at.session_state.run_launch_id}"
    at.session_state.run_launch_id = drawn  # the first button, pressed again
    at.run()
    queue_button(at).click().run()
    assert queued() == [drawn]
    at.switch_page("pages/run.py").run()
    queue_button(at).click().run()
    assert len(queued()) == 2


def test_the_form_is_kept_over_a_visit_to_another_page() -> None:
    at = launch_page()
    at.number_input(key="run_samples").set_value(4321).run()
    at.switch_page("pages/overview.py").run()
    at.switch_page("pages/run.py").run()
    assert at.number_input(key="run_samples").value == 4321


def test_an_invalid_combination_says_the_specs_own_sentence_and_cannot_be_queued() -> None:
    at = launch_page()
    at.number_input(key="run_samples").set_value(10).run()
    assert "Samples must be at least batch" in said(at)
    assert "got 10 samples" in said(at)
    assert queue_button(at).disabled
    at.number_input(key="run_samples").set_value(160).run()
    assert not queue_button(at).disabled


def test_mode_and_options_together_are_refused() -> None:
    at = launch_page()
    at.selectbox(key="run_v1_mode").set_value("max-autotune")
    at.text_area(key="run_v1_options").set_value('{"max_autotune": true}').run()
    assert "takes mode or options, not both" in said(at)
    assert queue_button(at).disabled


def test_options_that_are_no_json_are_refused_with_the_place() -> None:
    at = launch_page()
    at.text_area(key="run_v1_options").set_value('{"max_autotune": tru}').run()
    assert "Options is no JSON" in said(at)
    assert "line 1, column 18" in said(at)
    at.text_area(key="run_v1_options").set_value('["max_autotune"]').run()
    assert "Options must be a JSON object" in said(at)
    assert queue_button(at).disabled


def test_what_this_torch_lacks_is_said_with_what_is_near() -> None:
    at = launch_page()
    at.text_area(key="run_v1_options").set_value('{"max_autotun": true}').run()
    assert "did you mean max_autotune" in said(at)
    assert queue_button(at).disabled


def test_a_launch_above_half_an_hour_asks_first() -> None:
    at = launch_page(preset="article")
    queue_button(at).click().run()
    assert queued() == []
    assert "You can stop at any time" in said(at)
    at.button(key="run_confirm").click().run()
    assert len(queued()) == 1
    assert on_live_page(at)


def test_a_ragged_last_batch_is_said_before_the_run_with_three_ways_out() -> None:
    at = launch_page(drop_last="false", samples="1000")
    assert "Batch 16 leaves a ragged last batch" in said(at)
    assert "end in a batch of 8" in said(at)
    way = at.button_group(key="run_last_batch")
    assert way.value in ("Keep it", ["Keep it"])
    way.set_value("dynamic=False").run()
    assert at.session_state.run_v1_dynamic == "False"
    assert not at.session_state.run_drop_last
    at.button_group(key="run_last_batch").set_value("Drop it").run()
    assert at.session_state.run_drop_last
    assert ":material/warning:" not in said(at)


def test_variants_are_added_and_removed() -> None:
    at = launch_page()
    button(at, "Add a variant").click().run()
    assert "3 variants" in said(at)
    at.button(key="run_v0_remove").click().run()  # eager
    assert "2 variants" in said(at)
    button(at, "Add eager").click().run()
    assert "3 variants" in said(at)


def test_a_link_holds_the_form() -> None:
    at = launch_page()
    at.number_input(key="run_epochs").set_value(33)
    at.selectbox(key="run_v1_mode").set_value("max-autotune").run()
    link = {name: at.query_params[name] for name in at.query_params}
    other = launch_page(**link)
    assert other.number_input(key="run_epochs").value == 33
    assert other.selectbox(key="run_v1_mode").value == "max-autotune"


def test_a_link_that_cannot_be_read_says_why_and_the_form_still_works() -> None:
    at = launch_page(batch_size="none")
    assert "The link holds no form" in said(at)
    assert not queue_button(at).disabled


def test_a_gpu_is_chosen_by_itself_and_its_sizes_with_it() -> None:
    tell(HERE.changed(devices=(*HERE.devices, GPU)))
    at = launch_page(preset="batch-size-sweep")
    assert at.session_state.run_device == "cuda:0"
    assert at.session_state.run_model == ["resnet50"]
    at.number_input(key="run_epochs").set_value(9)
    at.selectbox(key="run_device").set_value("cpu").run()
    assert at.session_state.run_model == ["resnet18"]
    assert at.session_state.run_epochs == 9  # touched, so it stays


def test_before_torch_has_answered_only_the_device_waits(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capabilities.answer_file().unlink()
    # Somebody else is asking, so nothing is started.
    with capabilities.answer_file().with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        at = launch_page()
        assert "Reading what torch offers …" in at.selectbox[0].options
        assert not queue_button(at).disabled
        tell(HERE)
        at.run()
        assert at.selectbox(key="run_device").options == ["cpu · Xeon"]


def test_a_probe_that_failed_says_why_and_can_be_tried_again() -> None:
    capabilities.answer_file().unlink()
    capabilities.answer_file().with_suffix(".failed").write_text("torch is not installed; mend it")
    at = launch_page()
    assert "torch is not installed; mend it" in said(at)
    button(at, "Try again")


def test_a_users_model_file_is_offered_under_its_plain_name(data: Path) -> None:
    (data / "models").mkdir()
    (data / "models" / "my_*net*.py").write_text("")
    tell(HERE.changed(model_files=("my_*net*.py",)))
    at = launch_page(model="file:my_*net*.py")
    assert not queue_button(at).disabled
    assert "my_*net*" not in said(at)


def test_the_command_line_says_the_same() -> None:
    at = launch_page(preset="demo")
    [command] = [one.value for one in at.code]
    assert command.startswith("python -m bench_core run --model small_cnn --model pointwise_cnn")
    assert "--image-size 32" in command


def test_view_only_shows_the_form_and_queues_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_VIEW_ONLY", "1")
    at = launch_page(preset="demo")
    assert "for viewing only" in said(at)
    assert not [one for one in at.button if (one.key or "").startswith("run_queue_")]


# Run: turns, until sure, rungs


def test_arms_take_turns_until_sure_when_that_is_chosen() -> None:
    at = launch_page()
    at.button_group(key="run_protocol").set_value("paired")
    at.number_input(key="run_repeats").set_value(8)
    at.number_input(key="run_until_sure").set_value(2.0).run()
    assert not at.exception
    assert "This will queue up to 16 runs, at most about" in said(at)
    assert "up to 8 repeats" in said(at)
    assert ":gray-badge[eager]\u00a0:gray[|]\u00a0:orange-badge[compile]" in said(at)
    assert "and so on" in said(at)
    assert at.number_input(key="run_repeats").label == "Repeats, at most"
    made = press_queue(at)
    assert (made.measurement.protocol, made.measurement.until_sure) == ("paired", 2.0)
    assert made.repeats == 8


def test_until_sure_with_three_repeats_says_that_nothing_can_be_saved() -> None:
    at = launch_page(until_sure="2")
    assert "allow 10 or more" in said(at)
    at.number_input(key="run_repeats").set_value(2).run()
    assert "Until_sure needs repeats of at least 3" in said(at)
    assert queue_button(at).disabled


def test_turns_need_two_arms() -> None:
    at = launch_page(protocol="paired")
    at.button(key="run_v0_remove").click().run()
    assert "Protocol paired needs two arms to compare, got 1" in said(at)
    assert queue_button(at).disabled


def test_turns_that_find_no_memory_now_are_kept_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BENCH_MEMORY_BYTES", "2000000000")
    at = launch_page(protocol="paired")
    assert re.search(r"keeps 2 processes alive at once, which need about 2\.\d", said(at))
    assert "2.0\u00a0GB of memory are free now. Without room when their turn comes" in said(at)
    at.button_group(key="run_protocol").set_value("sequential").run()
    assert "processes alive at once" not in said(at)
    at.button_group(key="run_protocol").set_value("paired").run()
    assert press_queue(at).measurement.protocol == "paired"


def test_what_runs_took_before_decides_whether_two_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted runs of small_cnn took 3.9 GB each, on a machine that is told apart by its memory."""
    planted = environment("CPU")
    tell(HERE.changed(cpu_name=planted.cpu_name, memory_bytes=planted.memory_bytes))
    monkeypatch.setenv("BENCH_MEMORY_BYTES", "5000000000")
    assert "alive at once" not in said(launch_page(protocol="paired"))
    with Store() as store:
        planted_experiment(store, models=("small_cnn",), machine="CPU", repeats=1)
    assert "alive at once" in said(launch_page(protocol="paired"))


@pytest.mark.parametrize("preset", ["noise-floor", "fairness-ladder"])
def test_rungs_are_told_instead_of_variants_and_queued_as_the_preset_has_them(preset: str) -> None:
    ready = PRESETS[preset].experiment("cpu")
    at = launch_page(preset=preset)
    for name in arm_names(ready):
        assert name in said(at).replace("\\", "")
    assert "Add a variant" not in [one.label for one in at.button]
    assert not {"precision", "v0_mode"} & keys(at)
    assert ("memory_layout" in keys(at)) == (preset == "noise-floor")
    at.number_input(key="run_epochs").set_value(7).run()
    link = {name: at.query_params[name] for name in at.query_params}
    made = press_queue(at)
    assert made.rungs == ready.rungs and made.measurement.epochs == 7
    assert made.preset == "custom", "not as the preset says"
    other = launch_page(**link)
    assert other.session_state.run_rungs == ready.rungs
    [command] = [one.value for one in other.code]
    assert f"--rung '{ready.rungs[-1].argument}'" in command


def test_an_untouched_preset_with_rungs_keeps_its_name() -> None:
    at = launch_page(preset="noise-floor")
    assert ":gray-badge[A]\u00a0:gray[|]\u00a0:gray-badge[B]" in said(at)
    assert press_queue(at).preset == "noise-floor"


def test_a_link_holds_rungs_of_its_own() -> None:
    rungs = (Rung(workload={"memory_layout": "channels_last"}), Rung(), Rung(variant=COMPILE))
    experiment = Experiment(models=("small_cnn",), batch_sizes=(8,), variants=(EAGER,), rungs=rungs)
    link = draft.link_of(draft.values_of(experiment), (), "custom", "cpu", rungs)
    at = launch_page(**link)
    made = press_queue(at)
    assert made.rungs == rungs
    assert [run.workload for run in made.runs()] == [run.workload for run in experiment.runs()]
    at = launch_page(rung='{"worload": {}}')
    assert "The link holds no form" in said(at)


def test_another_device_has_the_rungs_of_its_own() -> None:
    tell(HERE.changed(devices=(*HERE.devices, GPU)))
    at = launch_page(preset="fairness-ladder")
    assert len(at.session_state.run_rungs) == 5
    at.selectbox(key="run_device").set_value("cpu").run()
    assert not at.exception
    assert len(at.session_state.run_rungs) == 4
    choose(at, "inference")
    assert at.session_state.run_rungs == ()
    assert not queue_button(at).disabled


# Run: inference and functions


def test_each_field_of_the_spec_is_read_by_some_kind() -> None:
    read = {name for names in draft.READS.values() for name in names}
    known = {*Workload.model_fields, *Measurement.model_fields} - {"repeat", "side"}
    assert known | {"device", "repeats"} == read


def test_the_task_decides_which_fields_there_are() -> None:
    only = {
        "training": {"epochs", "samples", "optimizer", "learning_rate", "evaluate", "drop_last"},
        "inference": {"grad_mode", "compile_in_grad_mode"},
        "functions": {"backward", "function", "input_size"},
    }
    at = launch_page()
    for task, own in only.items():
        choose(at, task)
        drawn = keys(at)
        assert own <= drawn, task
        for other, theirs in only.items():
            if other != task and {task, other} != {"inference", "functions"}:
                assert not theirs & drawn, (task, other)
        assert ("iterations" in drawn) == (task != "training")
        assert ("model" in drawn) == (task != "functions")


def test_inference_builds_what_the_form_says() -> None:
    at = launch_page()
    choose(at, "inference")
    at.button_group(key="run_batch_size").set_value([1, 8])
    at.button_group(key="run_precision").set_value(["fp32", "bf16"])
    at.number_input(key="run_iterations").set_value(120)
    at.button_group(key="run_grad_mode").set_value("inference_mode")
    at.checkbox(key="run_compile_in_grad_mode").check()
    at.button_group(key="run_memory_layout").set_value("channels_last").run()
    assert "1 model × 2 batch sizes × 2 precisions × 2 variants × 3 repeats" in said(at)
    assert "120 iterations each" in said(at)
    assert "inference_mode, compiled inside of it" in said(at)
    made = press_queue(at)
    assert made.models == ("resnet18",)
    assert made.batch_sizes == (1, 8) and made.precisions == ("fp32", "bf16")
    assert made.measurement.iterations == 120
    work = made.runs()[0].workload
    assert work == Workload(
        task="infer",
        model="resnet18",
        batch_size=1,
        grad_mode="inference_mode",
        compile_in_grad_mode=True,
        memory_layout="channels_last",
    )
    assert on_live_page(at)


def test_another_task_drops_what_it_does_not_read_and_keeps_it_for_later() -> None:
    at = launch_page()
    at.button_group(key="run_optimizer").set_value("sgd")
    at.button_group(key="run_evaluate").set_value("variant")
    at.number_input(key="run_samples").set_value(640).run()
    choose(at, "inference")
    assert not queue_button(at).disabled
    button(at, "onednn_graph").click().run()
    assert "3 variants" in said(at)
    choose(at, "training")
    assert "2 variants" in said(at)
    assert at.button_group(key="run_optimizer").value in ("sgd", ["sgd"])
    made = press_queue(at)
    work = made.runs()[0].workload
    assert (work.task, work.optimizer, work.evaluate, work.samples) == (
        "train", "sgd", "variant", 640,
    )  # fmt: skip
    assert work.pipeline == "on_the_fly", "the loader of a training, not inference's resident batch"


@pytest.mark.parametrize("execution", draft.EXECUTIONS["inference"][2:])
def test_each_way_of_execution_is_offered_with_what_it_is(execution: Execution) -> None:
    at = launch_page(task="infer", model="resnet18")
    button(at, execution).click().run()
    assert not at.exception
    assert not queue_button(at).disabled
    if execution in ("jit_trace_frozen", "onednn_graph"):
        assert "deprecated by PyTorch" in said(at)
    made = press_queue(at)
    assert made.variants[2] == Variant(execution=execution)


def test_frozen_compiles_take_arguments_but_no_backend() -> None:
    at = launch_page(task="infer", model="resnet18", variant=["eager", "compile_frozen"])
    assert not [one for one in at.selectbox if one.key == "run_v1_backend"]
    at.selectbox(key="run_v1_mode").set_value("max-autotune").run()
    made = press_queue(at)
    assert made.variants[1] == Variant(execution="compile_frozen", mode="max-autotune")


def test_input_through_the_loader_has_workers_and_a_resident_one_has_none() -> None:
    at = launch_page(task="infer", model="resnet18")
    assert "loader_workers" not in keys(at)
    at.button_group(key="run_pipeline").set_value("on_the_fly").run()
    at.number_input(key="run_loader_workers").set_value(2).run()
    at.button_group(key="run_pipeline").set_value("resident").run()
    assert not queue_button(at).disabled, "workers of a loader that is gone count for nothing"
    assert press_queue(at).runs()[0].workload.loader_workers == 0


def test_a_function_is_called_by_the_size_of_its_input() -> None:
    at = launch_page()
    choose(at, "functions")
    assert "_dynamo.optimize, the old spelling of torch.compile" in said(at)
    at.button_group(key="run_input_size").set_value([100, 10_000_000])
    at.button_group(key="run_backward").set_value(True).run()
    assert not at.exception
    assert "1 function × 2 input sizes × 2 variants × 3 repeats" in said(at)
    assert "forward and backward" in said(at)
    assert "grad_mode" not in keys(at)
    made = press_queue(at)
    work = made.runs()[0].workload
    assert work.is_function and work.backward and work.grad_mode == "enabled"
    assert made.batch_sizes == (100, 10_000_000)
    assert made.models == ("function:sin_cos",)


def test_models_and_functions_do_not_mix_when_the_task_changes() -> None:
    at = launch_page(model="resnet50", batch_size="8")
    choose(at, "functions")
    assert at.session_state.run_function == ["function:sin_cos"]
    choose(at, "inference")
    assert at.session_state.run_model == ["resnet50"]
    assert at.session_state.run_batch_size == [8]
    assert not queue_button(at).disabled


def test_a_functions_file_is_offered_for_functions_only(data: Path) -> None:
    (data / "models").mkdir()
    (data / "models" / "mine.py").write_text(
        "def fn(x): return x\ndef make_inputs(n): return (torch.ones(n),)"
    )
    (data / "models" / "net.py").write_text("def build_model(): ...")
    tell(HERE.changed(model_files=("mine.py", "net.py")))
    at = launch_page(task="infer", model="function:mine.py")
    assert at.session_state.run_kind == "functions"
    assert at.button_group(key="run_function").options == ["sin_cos", plain("mine.py")]
    assert not queue_button(at).disabled
    choose(at, "inference")
    offered = at.button_group(key="run_model").options
    assert plain("net.py") in offered and plain("mine.py") not in offered


def test_yolov7_is_offered_with_its_own_image_size() -> None:
    at = launch_page(task="infer", model="yolov7")
    assert "yolov7 is made for images of 640 px; 224 px are chosen." in said(at)
    button(at, "Use 640 px").click().run()
    assert "640 px are chosen" not in said(at)
    assert press_queue(at).runs()[0].workload.image_size == 640


def test_timm_is_offered_where_it_is_installed_and_named_where_not() -> None:
    at = launch_page(task="infer", model=["resnet18", "timm:vit_tiny_patch16_224"])
    assert "vit_tiny_patch16_224 needs timm, which is not installed" in said(at)
    assert queue_button(at).disabled
    at = launch_page()
    at.button_group(key="run_model").set_value(["resnet18", "more…"]).run()
    assert "The models of timm need it installed" in said(at)
    tell(HERE.changed(timm="1.0.19", timm_models=("vit_tiny_patch16_224", "resnet26d")))
    at.run()
    at.selectbox(key="run_timm_model").set_value("resnet26d").run()
    assert not at.exception
    assert "timm:resnet26d" in at.session_state.run_model
    assert not queue_button(at).disabled


def test_what_cannot_be_run_at_inference_says_so_in_the_specs_words() -> None:
    tell(HERE.changed(devices=(*HERE.devices, GPU)))
    at = launch_page(task="infer", model="resnet18", device="cuda:0", variant=["eager", "compile"])
    button(at, "onednn_graph").click().run()
    assert "onednn_graph runs on the CPU only, got device" in said(at)
    assert queue_button(at).disabled
    at = launch_page(task="infer", model="resnet18", optimizer="sgd")
    assert "optimizer is only read by task train, got 'sgd'" in said(at)
    at = launch_page(task="train", model="function:sin_cos")
    assert "has no parameters to train" in said(at)
    at = launch_page(task="serve")
    assert "task must be one of 'train' or 'infer'" in said(at)


@pytest.mark.parametrize("preset", ["cpu-inference", "function-by-size", "article-yolov7"])
def test_a_link_holds_inference_and_functions_too(preset: str) -> None:
    at = launch_page(preset=preset)
    at.number_input(key="run_iterations").set_value(77).run()
    other = launch_page(**{name: at.query_params[name] for name in at.query_params})
    assert other.session_state.run_kind == at.session_state.run_kind
    assert other.session_state.run_preset == preset
    made, same = press_queue(at), PRESETS[preset].experiment("cpu")
    queue_button(other).click().run()
    with Store() as store:
        [first, second] = store.experiments()
    assert first.changed(id=second.id) == second
    assert made.variants == same.variants and made.measurement.iterations == 77


def test_a_link_to_a_free_inference_holds_it() -> None:
    at = launch_page()
    choose(at, "functions")
    at.button_group(key="run_backward").set_value(True).run()
    link = {name: at.query_params[name] for name in at.query_params}
    assert "preset" not in link
    other = launch_page(**link)
    assert other.session_state.run_kind == "functions"
    assert other.session_state.run_backward
    assert not queue_button(other).disabled


def test_a_link_to_inference_keeps_backward_and_samples() -> None:
    experiment = Experiment(
        models=("resnet18",),
        batch_sizes=(8,),
        variants=(Variant(), Variant(execution="compile")),
        workload={"task": "infer", "pipeline": "on_the_fly", "samples": 640, "backward": True},
    )
    link = draft.link_of(draft.values_of(experiment), experiment.variants, "custom")
    assert link["samples"] == ["640"] and link["backward"] == ["True"]
    at = launch_page(**link)
    assert at.number_input(key="run_call_samples").value == 640
    work = press_queue(at).runs()[0].workload
    assert work == experiment.runs()[0].workload


@pytest.mark.parametrize(("chosen", "queued"), [(None, {32, 256}), (64, {64})])
def test_each_size_has_its_usual_samples_unless_some_are_chosen(
    chosen: int | None, queued: set[int]
) -> None:
    at = launch_page(task="infer", model="resnet18")
    at.button_group(key="run_batch_size").set_value([1, 8]).run()
    assert "call_samples" not in keys(at), "a resident batch has no other samples"
    at.button_group(key="run_pipeline").set_value("cached").run()
    at.number_input(key="run_call_samples").set_value(chosen).run()
    choose(at, "training")
    assert at.number_input(key="run_samples").value not in (None, 64)
    choose(at, "inference")
    assert {run.workload.samples for run in press_queue(at).runs()} == queued


def test_an_old_link_without_a_task_is_a_training() -> None:
    at = launch_page(model="pointwise_cnn", epochs="7", batch_size=["8", "16"], image_size="32")
    assert at.session_state.run_kind == "training"
    made = press_queue(at)
    assert made.runs()[0].workload.task == "train"
    assert made.measurement.epochs == 7


def test_all_tasks_are_kept_over_a_visit_to_another_page() -> None:
    at = launch_page()
    at.number_input(key="run_epochs").set_value(33).run()
    choose(at, "functions")
    at.button_group(key="run_input_size").set_value([1000]).run()
    choose(at, "inference")
    at.number_input(key="run_iterations").set_value(44).run()
    at.switch_page("pages/overview.py").run()
    at.switch_page("pages/run.py").run()
    assert not at.exception
    assert at.session_state.run_kind == "inference"
    assert at.number_input(key="run_iterations").value == 44
    choose(at, "functions")
    assert at.session_state.run_input_size == [1000]
    choose(at, "training")
    assert at.number_input(key="run_epochs").value == 33
    assert not queue_button(at).disabled


def test_the_presets_follow_the_task() -> None:
    at = launch_page(preset="article")
    choose(at, "inference")
    assert at.session_state.run_preset == "custom"
    offered = at.button_group(key="run_preset").options
    assert "CPU inference" in offered and "Article" not in offered
    assert "Custom" in offered
