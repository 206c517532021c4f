"""What Live promises, driven through app.py on a real store: what is seen, what a press does."""

from __future__ import annotations

import json
import re
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bench_core.paths import CHECKOUT, logs_dir
from bench_core.spec import Experiment, Rung, Variant
from bench_core.store import Store
from pages.parts import live_reading
from pages.parts.text import plain
from tests.planted import COMPILE, EAGER, Shape, plant_epoch, plant_run, planted_experiment


@pytest.fixture(autouse=True)
def worker_alive(held_folder: Path) -> Path:
    return held_folder


@pytest.fixture
def store(worker_alive: Path) -> Iterator[Store]:
    with Store() as store:
        yield store


def live(experiment: Experiment | str | None = None, **query: str) -> AppTest:
    at = AppTest.from_file(str(CHECKOUT / "app.py"), default_timeout=60)
    at.switch_page("pages/live.py")
    if experiment:
        at.query_params["experiment"] = (
            experiment.id if isinstance(experiment, Experiment) else experiment
        )
    for name, value in query.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception
    return at


def said(at: AppTest) -> str:
    """All words of the page, without the escapes of Markdown and with plain spaces."""
    words = [*at.title, *at.markdown, *at.caption, *at.text, *at.code]
    return "\n".join(str(word.value) for word in words).replace("\\", "").replace("\u00a0", " ")


def title(at: AppTest) -> str:
    return at.title[0].value.replace("\\", "")


def buttons(at: AppTest) -> list[str]:
    return [button.label for button in at.button]


def metrics(at: AppTest) -> dict[str, tuple[str, str]]:
    shown = {metric.label: (str(metric.value), str(metric.delta)) for metric in at.metric}
    return {
        label: (value.replace("\\", ""), delta.replace("\\", ""))
        for label, (value, delta) in shown.items()
    }


def press(at: AppTest, label: str) -> None:
    next(button for button in at.button if button.label == label).click()
    at.run()
    assert not at.exception


def compiling_at_epoch(store: Store, epochs: int) -> Experiment:
    experiment = planted_experiment(store, repeats=2, epochs=30, measured=1)
    plant_run(store, experiment.id, epochs=epochs, status="running")
    return experiment


def test_an_empty_store_offers_a_run_and_no_replay(store: Store) -> None:
    at = live()
    assert "Nothing is running on this machine" in said(at)
    assert buttons(at) == ["New run"]


def test_an_unknown_experiment_is_named_and_leads_on(store: Store) -> None:
    planted_experiment(store)
    at = live("*no such*")
    assert "There is no such experiment" in said(at)
    assert [text.value for text in at.text] == ["*no such*"]
    assert buttons(at) == ["Watch the newest", "Results"]


def test_a_running_experiment_shows_phases_progress_and_the_answer_so_far(store: Store) -> None:
    at = live(compiling_at_epoch(store, epochs=19))
    assert title(at) == "resnet101 on T4: eager against compile"
    for phase in ("compiled in 70.0 s", "warm-up: 1 epoch", "epoch 20 of 30"):
        assert phase in said(at)
    shown = metrics(at)
    assert shown["So far"][0].endswith("faster")
    assert shown["So far"][1] == "first look, 1 run an arm"
    assert shown["Pays off from"][0] == "epoch 14"
    assert shown["Compiling"] == ("70.0\u00a0s", "1 graph, no recompiles")
    assert "Compiled epochs take 60.9 s against 66.0 s; the first took 131 s" in said(at)
    assert {"Stop", "Empty the queue"} <= set(buttons(at))
    progress = at.get("progress")[0].proto.text.replace("\\", "")
    assert progress.startswith("Run 2 of 4 · compile, cold cache · about ")


def test_without_a_name_the_running_experiment_is_watched(store: Store) -> None:
    running = compiling_at_epoch(store, epochs=2)
    planted_experiment(store, models=("vgg16",))
    at = live()
    assert title(at).startswith("resnet101")
    assert at.query_params["experiment"] == running.id


def test_compiling_is_shown_with_its_seconds_so_far(store: Store) -> None:
    experiment = compiling_at_epoch(store, epochs=0)
    (run,) = store.running()
    store.set_compiling(run.number, time.time() - 42)
    at = live(experiment)
    assert ":orange-badge[:material/sync: compiling, 4" in said(at)
    assert metrics(at)["Compiling"][0].startswith("4")
    assert metrics(at)["So far"][0] == "—"
    assert metrics(at)["So far"][1].startswith("first answer in about")


def test_a_new_epoch_is_seen_at_the_next_tick(store: Store) -> None:
    at = live(compiling_at_epoch(store, epochs=5))
    assert "epoch 6 of 30" in said(at)
    plant_epoch(store, store.running()[0], 6)
    at.run()
    assert "epoch 7 of 30" in said(at)


def test_a_second_press_of_stop_leaves_the_next_run_alone(store: Store) -> None:
    experiment = compiling_at_epoch(store, epochs=5)
    (first,) = store.running()
    at = live(experiment)
    stop = next(button for button in at.button if button.label == "Stop")
    stop.click()
    at.run()
    assert store.stop_requested(first.number)
    assert next(button for button in at.button if button.label == "Stopping").disabled
    store.finish(first.number, "stopped", reason="stopped on request")
    following = plant_run(store, experiment.id, epochs=1, status="running")
    stop.click()  # the press that was on its way
    at.run()
    assert not at.exception
    assert not store.stop_requested(following.number)


def test_emptying_the_queue_leaves_the_running_run_and_other_experiments(store: Store) -> None:
    experiment = compiling_at_epoch(store, epochs=5)
    other = planted_experiment(store, models=("vgg16",), measured=0)
    at = live(experiment)
    press(at, "Empty the queue")
    assert [run.status for run in store.runs(experiment.id)] == [
        "done",
        "running",
        "stopped",
        "stopped",
    ]
    assert not store.stop_requested(store.running()[0].number)
    assert all(run.status == "queued" for run in store.runs(other.id))
    assert "Empty the queue" not in buttons(at)


def test_the_queue_lists_other_experiments_in_order(store: Store) -> None:
    experiment = compiling_at_epoch(store, epochs=5)
    planted_experiment(store, models=("vgg16",), repeats=1, measured=0)
    table = live(experiment).dataframe[0].value
    assert table[""].tolist() == ["now", "1", "2", "3", "4"]
    assert table["Run"].tolist()[-1] == "vgg16 · batch 16"


def test_out_of_memory_offers_half_the_batch_once(store: Store) -> None:
    experiment = planted_experiment(store, models=("vgg16",), repeats=1, measured=1)
    plant_run(
        store,
        experiment.id,
        epochs=0,
        status="failed",
        failure="out of memory",
        reason="CUDA out of memory: tried to allocate 2.30 GiB; try a *smaller* batch",
        traceback="Traceback (most recent call last):\n  torch.OutOfMemoryError",
    )
    at = live(experiment)
    assert "Run 2 failed: out of memory" in said(at)
    assert "torch.OutOfMemoryError" in said(at)
    # Words from elsewhere are never Markdown.
    assert any(r"\*smaller\*" in markdown.value for markdown in at.markdown)
    press(at, "Queue it with batch 8")
    (smaller,) = [e for e in store.experiments() if e.id != experiment.id]
    assert smaller.batch_sizes == (8,)
    assert smaller.variants == experiment.variants
    assert "Queue it with batch 8" not in buttons(at)
    assert len(store.experiments()) == 2


def test_runs_that_failed_alike_share_a_card_and_the_others_go_on(store: Store) -> None:
    experiment = planted_experiment(store, repeats=3, measured=1)
    for _ in range(2):
        plant_run(store, experiment.id, epochs=0, status="failed", failure="compiler missing")
    at = live(experiment)
    assert "Runs 2 and 3 failed: compiler missing" in said(at)
    assert "The other runs go on." in said(at)
    assert metrics(at)["So far"][1].startswith("first answer in about")


def test_a_finished_experiment_gives_its_answer_and_the_way_to_compare(store: Store) -> None:
    experiment = planted_experiment(store)
    at = live(experiment)
    assert "resnet101 on T4: 8." in said(at)
    assert "faster once steady" in said(at)
    assert "Pays off from epoch 1" in said(at)
    assert "Nothing is running on this machine" in said(at)
    link = at.get("page_link")[0].proto
    assert link.query_string == f"experiment={experiment.id}"
    assert buttons(at) == ["Replay the last experiment", "New run"]
    assert metrics(at)["Difference"][1].startswith("95 %: ")


def test_no_break_even_is_named_within_the_noise(store: Store) -> None:
    at = live(planted_experiment(store, models=("resnet18",)))
    assert metrics(at)["Difference"][0] == "none shown"
    assert metrics(at)["Pays off from"] == ("—", "no difference shown")
    assert "resnet18 on T4: no difference shown" in said(at)


def test_the_floor_of_the_whole_store_counts_in_the_answer(store: Store) -> None:
    """The next experiment of this machine is measured against what equal arms made of it."""
    noisy = {("T4", "resnet50"): (Shape(34.0, process_scatter=0.1), Shape(34.0))}
    equal = (Rung(side="A"), Rung(side="B"))
    planted_experiment(store, models=("resnet50",), rungs=equal, shapes=noisy)
    text = said(live(planted_experiment(store)))
    assert "resnet101 on T4: no difference shown" in text
    assert "equal arms may lie" in text
    assert ":gray[:material/trending_flat:]" in text and ":material/trending_up:" not in text


def test_a_stopped_experiment_says_what_takes_no_part(store: Store) -> None:
    experiment = planted_experiment(store, repeats=1, measured=1)
    plant_run(store, experiment.id, epochs=1, status="stopped", reason="stopped on request")
    at = live(experiment)
    assert "Not compared. Run 2: stopped on request" in said(at)
    assert metrics(at)["Difference"] == ("—", "compile: stopped early")


def test_the_name_of_a_variant_is_never_markdown(store: Store) -> None:
    named = COMPILE.changed(options={"a*b*": True}, cache="off")
    experiment = planted_experiment(store, variants=(EAGER, named), repeats=1, measured=1)
    plant_run(store, experiment.id, epochs=1, status="stopped", reason="stopped on request")
    below = next(str(m.delta) for m in live(experiment).metric if m.label == "Difference")
    assert "a\\*b\\*" in below


def test_without_a_cache_the_start_counts_as_from_an_empty_one(store: Store) -> None:
    off = COMPILE.changed(cache="off")
    at = live(planted_experiment(store, variants=(EAGER, off), repeats=3, epochs=20))
    assert metrics(at)["Pays off from"] == ("epoch 13", "measured")
    assert "Even at epoch 13" in said(at)


def test_a_start_from_a_partly_warm_cache_is_drawn_too(store: Store) -> None:
    experiment = planted_experiment(store, repeats=1)
    run = store.runs(experiment.id)[1]
    assert run.activity
    store.set_activity(run.number, run.activity.changed(cache_hits=1, cache_misses=1))
    at = live(experiment)
    assert "Nothing to compare" not in said(at)
    assert "behind after 10 epochs" in said(at)


def test_a_chart_and_the_metrics_have_one_formula(store: Store) -> None:
    """Steady epochs of 60 and 66.15 s: 63.0 s by the geometric mean, 63.1 s by the other one."""
    experiment = planted_experiment(store, repeats=2, measured=0)
    far = {("T4", "resnet101"): (Shape(60.0, 0.0, epoch_scatter=0.0, process_scatter=0.0),) * 2}
    wide = {("T4", "resnet101"): (Shape(66.15, 0.0, epoch_scatter=0.0, process_scatter=0.0),) * 2}
    for shapes in (far, far, wide, wide):
        plant_run(store, experiment.id, shapes=shapes)
    at = live(experiment)
    assert metrics(at)["Steady epoch"][0].replace("\u00a0", " ") == "63.0 s"
    assert "Compiled epochs take 63.0 s against 63.0 s" in said(at)


def test_what_is_said_of_compiling_is_of_one_run_of_the_pair_s_candidate(store: Store) -> None:
    tuned = COMPILE.changed(mode="max-autotune")
    experiment = planted_experiment(
        store, variants=(EAGER, COMPILE, tuned), repeats=2, epochs=6, measured=0
    )
    names = [run.spec.variant.name for run in store.runs(experiment.id)]
    eager, best = Shape(66.0), Shape(40.0, compile_seconds=200.0)
    usual = Shape(61.0, compile_seconds=70.0)
    graphs = iter((7, 8))
    for name in names:
        shape = best if name == tuned.name else usual
        run = plant_run(store, experiment.id, shapes={("T4", "resnet101"): (eager, shape)})
        if name == tuned.name:
            assert run.activity
            store.set_activity(run.number, run.activity.changed(graphs=next(graphs)))
    at = live(experiment)
    assert f"{tuned.name} against eager:" in said(at)
    assert metrics(at)["Compiling"] == ("200\u00a0s", "7 graphs, no recompiles")


def test_a_compile_beside_the_pair_that_is_shown_is_named(store: Store) -> None:
    tuned = COMPILE.changed(mode="max-autotune")
    experiment = planted_experiment(
        store, variants=(EAGER, COMPILE, tuned), repeats=1, epochs=6, measured=2
    )
    run = plant_run(store, experiment.id, epochs=0, status="running")
    store.set_compiling(run.number, time.time() - 42)
    shown = metrics(live(experiment))["Compiling"]
    assert shown[0].startswith("4") and shown[1] == f"{tuned.name}, now"


def test_a_cache_that_was_asked_for_cold_and_found_warm_counts_as_warm(store: Store) -> None:
    experiment = planted_experiment(store, repeats=1)
    run = store.runs(experiment.id)[1]
    assert run.activity
    for hits, misses, told in ((2, 0, "warm cache"), (1, 1, "partly warm cache")):
        counters = run.activity.changed(cache_hits=hits, cache_misses=misses)
        store.set_activity(run.number, counters)
        assert metrics(live(experiment))["Compiling"] == ("70.0\u00a0s", told)


def test_several_cells_are_followed_and_can_be_chosen(store: Store) -> None:
    experiment = planted_experiment(
        store, models=("resnet18", "resnet101"), repeats=1, epochs=6, measured=2
    )
    plant_run(store, experiment.id, epochs=4, status="running")
    at = live(experiment)
    assert "Eager epochs take 66." in said(at)
    at.button_group(key="cell").set_value("resnet18 · batch 16").run()
    assert not at.exception
    assert "Compiled epochs take 14.7" in said(at)
    at = live(experiment, cell="resnet18 · batch 16")
    assert "Compiled epochs take 14.7" in said(at)


def test_the_second_chart_can_be_running_totals(store: Store) -> None:
    at = live(planted_experiment(store), chart="Running totals")
    assert "Seconds since the first epoch began, all compile time counted." in said(at)


def test_a_replay_shows_how_it_stood_and_says_that_it_is_one(store: Store) -> None:
    experiment = planted_experiment(store, repeats=1, epochs=10)
    at = live(experiment)
    press(at, "Replay the last experiment")
    assert "replay, ten times faster" in said(at)
    assert "Stop" not in buttons(at)
    # 100 s after it began 1,000 s are over: run 1 (675 s) and some epochs of run 2.
    at.session_state.replaying = (experiment.id, time.time() - 100)
    at.run()
    assert "of 10" in said(at) and "compiled in 70.0 s" in said(at)
    assert "faster once steady" not in said(at)
    press(at, "End the replay")
    assert "Replay the last experiment" in buttons(at)
    assert "first look" in said(at)


def test_a_replay_that_is_over_shows_the_end(store: Store) -> None:
    experiment = planted_experiment(store)
    at = live(experiment)
    at.session_state.replaying = (experiment.id, time.time() - 5000)
    at.run()
    assert "faster once steady" in said(at)
    assert "Replay the last experiment" in buttons(at)


def test_view_only_watches_without_a_button_that_changes_anything(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_VIEW_ONLY", "1")
    experiment = compiling_at_epoch(store, epochs=5)
    plant = store.running()[0]
    assert not {"Stop", "Empty the queue", "New run"} & set(buttons(live(experiment)))
    store.finish(plant.number, "failed", failure="out of memory", reason="no memory")
    assert buttons(live(experiment)) == []
    store.stop(experiment_id=experiment.id)
    assert buttons(live(experiment)) == ["Replay the last experiment"]


def test_the_log_is_shown_as_it_is(store: Store) -> None:
    experiment = compiling_at_epoch(store, epochs=2)
    logs_dir().mkdir()
    lines = [f"line {number} *not* <b>markup</b>" for number in range(500)]
    (logs_dir() / f"{store.running()[0].id}.log").write_text("\n".join(lines))
    shown = live(experiment).code[0].value.splitlines()
    assert shown == lines[-200:]


def test_eager_alone_is_followed_without_a_comparison(store: Store) -> None:
    experiment = planted_experiment(store, variants=(EAGER,), repeats=1, epochs=5)
    at = live(experiment)
    assert metrics(at)["Difference"] == ("—", "only one variant")
    assert metrics(at)["Compiling"] == ("—", "nothing to compile")


# Inference

FROZEN = Variant(execution="compile_frozen")
ONEDNN = Variant(execution="onednn_graph")
INFER = {"task": "infer"}


def calling(store: Store, blocks: int, variant: Variant = COMPILE) -> Experiment:
    """eager is done; of the other variant so many blocks are measured, the first call alone."""
    experiment = planted_experiment(
        store,
        models=("resnet18",),
        batch_sizes=(1,),
        variants=(EAGER, variant),
        repeats=2,
        machine="CPU",
        iterations=300,
        workload=INFER,
        measured=1,
    )
    plant_run(store, experiment.id, machine="CPU", epochs=blocks, status="running")
    return experiment


def called(store: Store, variants: tuple[Variant, ...], **changed: Any) -> Experiment:
    """An inference experiment that has ended."""
    fields: dict[str, Any] = {"models": ("resnet18",), "batch_sizes": (1,), "machine": "CPU"}
    return planted_experiment(store, variants=variants, workload=INFER, **{**fields, **changed})


def spaced(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u202f", " ")


def points(values: Any) -> list[float]:
    """The numbers of an axis: a list, or as plotly packs an array."""
    if isinstance(values, list):
        return values
    return np.frombuffer(b64decode(values["bdata"]), values["dtype"]).tolist()


def charts(at: AppTest) -> list[dict[str, Any]]:
    """The figures of the live charts, in the order of the page."""
    found = [element.proto for element in at.get("bidi_component")]
    return [json.loads(json.loads(proto.json)["figure"]) for proto in found]


def test_a_running_inference_is_told_in_iterations_and_never_in_epochs(store: Store) -> None:
    at = live(calling(store, blocks=6))
    assert title(at) == "resnet18 inference on CPU: eager against compile"
    assert "batch 1 · fp32 · no_grad · 300 iterations · 2 runs an arm" in said(at)
    for phase in ("compiled in 31.0 s", "first call: 31.1 s", "iteration 127 of 300"):
        assert phase in said(at)
    shown = {label: tuple(map(spaced, told)) for label, told in metrics(at).items()}
    assert shown["So far"] == ("16.0 % slower", "first look, 1 run an arm")
    assert shown["First call"] == ("31.1 s", "eager 216 ms")
    assert shown["p90 · p99"] == ("55.2 · 71.3 ms", "eager 46.4 · 60.0 ms")
    assert shown["Images per second"] == ("18.2", "eager 21.7")
    assert "Compiled iterations take 54.9 ms against 46.1 ms; the first answer took 31.1 s" in (
        said(at)
    )
    assert "Never even: 31.9 s behind by now" in said(at)
    assert "One iteration in a hundred takes over 71.3 ms with compile, 60.0 ms with eager" in (
        said(at)
    )
    assert "epoch" not in said(at)
    assert {"Stop", "Empty the queue"} <= set(buttons(at))


def test_before_the_first_call_has_ended_its_wait_is_shown(store: Store) -> None:
    experiment = calling(store, blocks=0)
    (run,) = store.running()
    store.set_compiling(run.number, time.time() - 42)
    at = live(experiment)
    assert metrics(at)["First call"][1] == "compile, so far"
    assert metrics(at)["So far"][1].startswith("first answer in about")
    assert metrics(at)["p90 · p99"][0] == "—"
    assert "Nothing to compare yet" in said(at)
    assert "Eager iterations take 46.1 ms" in said(at).replace("\u202f", " ")


def test_an_arm_of_which_one_run_is_not_yet_steady_is_shown(store: Store) -> None:
    experiment = called(store, (EAGER,), repeats=2, measured=1)
    plant_run(store, experiment.id, machine="CPU", epochs=1, status="running")
    shown = metrics(live(experiment))
    assert shown["So far"] == ("—", "only one variant")
    assert spaced(shown["p90 · p99"][1]).startswith("eager 46.")
    assert spaced(shown["Images per second"][1]) == "eager 21.7"


def test_a_handful_of_calls_has_no_99th_percentile(store: Store) -> None:
    at = live(called(store, (EAGER, COMPILE), repeats=1, iterations=60))
    value, below = map(spaced, metrics(at)["p90 · p99"])
    assert re.fullmatch(r"\d\d\.\d ms · –", value)
    assert re.fullmatch(r"eager \d\d\.\d ms · –", below)


def test_the_titles_tails_are_means_over_the_runs_as_the_metric_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of 60 calls at 10 and at 20 ms: no run has a hundred, and none has a p90 of 20 ms."""
    experiment = called(store, (EAGER, COMPILE), repeats=2, iterations=60, measured=0)
    for seconds in (0.010, 0.010, 0.020, 0.020):  # eager, compile, compile, eager
        shape = Shape(seconds, process_scatter=0.0, epoch_scatter=0.0)
        monkeypatch.setattr("tests.planted.LATENCIES", {"eager": shape, "compile": shape})
        plant_run(store, experiment.id, machine="CPU")
    at = live(experiment, second="Percentiles")
    assert spaced(metrics(at)["p90 · p99"][0]) == "14.1 ms · –"
    words = said(at)
    assert "One iteration in ten takes over 14.1 ms with compile, 14.1 ms with eager" in words
    assert "compile end within 14.1 ms, nine in ten within 14.1 ms" in words
    assert words.count("a line a run; the title holds means over the runs") == 2
    *_, so_far, shares = charts(at)
    assert [trace["name"] for trace in shares["data"]] == ["eager"] * 2 + ["compile"] * 2
    assert len(so_far["data"]) == 8


def test_what_is_queued_has_empty_cards_and_no_error(store: Store) -> None:
    at = live(called(store, (EAGER, ONEDNN), measured=0))
    assert "No iteration has ended" in said(at)
    assert "No steady iteration yet" in said(at)
    assert metrics(at)["First call"] == ("—", "comes first")
    assert metrics(at)["Images per second"] == ("—", "needs 3 steady iterations")


def test_new_blocks_are_drawn_every_few_seconds_and_a_run_s_end_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = live(calling(store, blocks=6))
    (run,) = store.running()
    with monkeypatch.context() as patch:
        patch.setattr(live_reading, "BLOCK_SECONDS", 1e9)
        plant_epoch(store, run, 7, machine="CPU")
        at.run()
        assert "iteration 127 of 300" in said(at), "drawing each one would take from what is timed"
    with monkeypatch.context() as patch:
        patch.setattr(live_reading, "BLOCK_SECONDS", 0.0)
        plant_epoch(store, run, 8, machine="CPU")
        at.run()
        assert "iteration 177 of 300" in said(at)
    plant_epoch(store, run, 9, machine="CPU")
    store.finish(run.number, "stopped", reason="stopped on request")
    at.run()
    assert not at.exception
    [_, compiled] = [one for one in charts(at)[0]["data"] if one["type"] == "scatter"]
    assert len(points(compiled["x"])) == 201


def test_a_first_call_far_above_the_others_is_drawn_on_a_logarithmic_axis(store: Store) -> None:
    at = live(called(store, (EAGER, COMPILE), repeats=1))
    latencies, saved, shares = charts(at)
    assert latencies["layout"]["yaxis"]["type"] == "log"
    assert saved["layout"]["xaxis"]["title"]["text"] == "iteration"
    assert [trace["name"] for trace in shares["data"]] == ["eager", "compile"]


def test_the_second_chart_of_inference_can_be_percentiles(store: Store) -> None:
    experiment = called(store, (EAGER, COMPILE))
    at = live(experiment, second="Percentiles")
    assert "Half of the iterations with compile end within 54.9 ms" in said(at)
    assert "Percentiles of the steady iterations so far: 50 thick, 90 thin, a line a run" in said(
        at
    )
    # A training experiment in the same session has a chart of its own.
    trained = planted_experiment(store)
    at.query_params["experiment"] = trained.id
    at.run()
    assert not at.exception
    assert "Seconds saved so far against eager" in said(at)


def test_a_break_even_beyond_what_is_measured_is_on_the_chart(store: Store) -> None:
    at = live(called(store, (EAGER, FROZEN), repeats=1, iterations=300))
    saved = charts(at)[1]
    assert "even at about iteration" in saved["layout"]["annotations"][0]["text"]
    assert saved["layout"]["xaxis"]["range"][1] > 4000
    assert "behind by now; even at about iteration 4" in said(at)


def test_an_arm_without_a_cache_is_drawn_with_its_break_even(store: Store) -> None:
    at = live(called(store, (EAGER, ONEDNN), repeats=3, iterations=300))
    [even] = re.findall(r"Even at (iteration \d+); ", said(at))
    assert re.search(rf"Pays off from {even} \(95 %: \d+ to \d+\)\.", said(at))
    assert charts(at)[1]["layout"]["annotations"][0]["text"] == f"even at {even}"


def test_many_answers_take_a_line_a_cell_and_the_cards_name_their_arm(store: Store) -> None:
    arms = tuple(
        Variant(execution=word)
        for word in ("eager", "compile", "compile_frozen", "onednn_graph", "export_aot")
    )
    experiment = called(store, arms, precisions=("fp32", "bf16"), iterations=60)
    at = live(experiment)
    assert title(at) == "resnet18 inference on CPU: eager against 4 others"
    lines = said(at).splitlines()
    [fp32] = [line for line in lines if "**resnet18 · batch 1 · fp32**" in line]
    assert re.search(r"onednn_graph \d.* faster, compile_frozen .* compile \d.* slower", fp32)
    assert any("**resnet18 · batch 1 · bf16**" in line for line in lines)
    assert "resnet18 · batch 1 · bf16, onednn_graph against eager:" in said(at)
    assert "Fastest: iterations of onednn_graph" in said(at)
    at.button_group(key="cell").set_value("resnet18 · batch 1 · fp32").run()
    assert not at.exception
    assert re.search(r"iterations of onednn_graph, 3[23]\.\d ms against 4[56]\.\d ms", said(at))


def test_a_function_is_told_by_the_size_of_its_input(store: Store) -> None:
    experiment = planted_experiment(
        store,
        models=("function:sin_cos",),
        batch_sizes=(100, 1000, 100_000, 10_000_000),
        repeats=1,
        machine="CPU",
        workload=INFER,
    )
    at = live(experiment)
    assert title(at) == "sin_cos on CPU: eager against compile"
    assert spaced(said(at)).count("sin_cos · n = ") >= 4
    assert "A first look, 1 run an arm: no verdict before 3." in said(at)
    assert spaced(metrics(at)["Elements per second"][0]) == "1.43 billion"
    at = live(experiment, cell=plain("sin_cos · n\u00a0=\u00a0100"))
    assert spaced(metrics(at)["Elements per second"][0]) == "8.30 million"
    assert "Compiled iterations take 12.0 µs against 6.1" in said(at)
    assert charts(at)[2]["layout"]["xaxis"]["ticksuffix"].strip() == "µs"


def test_out_of_memory_at_inference_offers_half_of_the_input(store: Store) -> None:
    experiment = planted_experiment(
        store,
        models=("function:sin_cos",),
        batch_sizes=(10_000_000,),
        repeats=1,
        machine="CPU",
        workload=INFER,
        measured=1,
    )
    plant_run(store, experiment.id, machine="CPU", epochs=0, status="failed",
              failure="out of memory", reason="no memory is left")  # fmt: skip
    at = live(experiment)
    assert "Run 2 failed: out of memory" in said(at)
    [label] = [label for label in buttons(at) if label.startswith("Queue it with")]
    assert spaced(label) == "Queue it with n = 5 000 000"
    press(at, label)
    (smaller,) = [one for one in store.experiments() if one.id != experiment.id]
    assert smaller.batch_sizes == (5_000_000,)
    assert smaller.workload == experiment.workload


def test_a_replay_of_inference_goes_by_its_blocks(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = called(store, (EAGER, COMPILE), repeats=1, iterations=300)
    at = live(experiment)
    press(at, "Replay the last experiment")
    # Its clock stands still, however long a busy machine takes to draw the page.
    now = time.time()
    monkeypatch.setattr(live_reading, "time", SimpleNamespace(time=lambda: now))
    # After 3 s 30 are over: eager's 20 s, and of compile 10 s, half of them in the compiler.
    at.session_state.replaying = (experiment.id, now - 3)
    at.run()
    assert "replay, ten times faster" in said(at)
    assert "compiling, " in said(at)
    # After 6.5 s 65 are over: the first call, and half of the others.
    at.session_state.replaying = (experiment.id, now - 6.5)
    at.run()
    assert "first call: 31.1 s" in said(at)
    assert re.search(r"iteration \d+ of 300", said(at))
    at.session_state.replaying = (experiment.id, now - 60)
    at.run()
    assert "first look" in said(at)


# Arms that take turns


def taking_turns(store: Store, **planted: Any) -> Experiment:
    """In the second pair compile has its turn, and eager rests."""
    experiment = planted_experiment(
        store, protocol="paired", repeats=12, epochs=10, measured=2, **planted
    )
    for phase in ("epoch", "waiting"):
        run = plant_run(store, experiment.id, epochs=4, status="running")
        store.set_phase(run.number, phase, 4 + (phase == "epoch"))
    return experiment


def test_arms_that_take_turns_are_shown_side_by_side_and_stopped_together(store: Store) -> None:
    experiment = taking_turns(store, until_sure=2.0)
    at = live(experiment)
    progress = at.get("progress")[0].proto.text.replace("\\", "")
    assert progress.startswith("Pair 2 of at most 12 · turn of compile, warm · at most about ")
    lines = said(at).splitlines()
    [resting] = [line for line in lines if line.startswith("**eager**")]
    assert "gray-badge[epoch 5 of 10, waiting for its turn]" in resting
    [measuring] = [line for line in lines if line.startswith("**compile, warm**")]
    assert "blue-badge[:material/sync: epoch 5 of 10]" in measuring
    assert "at most 12 runs an arm · arms take turns" in said(at)
    assert not any("Sure" in line or "sure after" in line for line in lines)
    press(at, "Stop")
    assert [store.stop_requested(run.number) for run in store.running()] == [True, True]
    assert "Stopping" in buttons(at)


def test_the_end_says_how_sure_it_came_to_be_and_who_could_not_take_turns(store: Store) -> None:
    experiment = planted_experiment(
        store, protocol="paired", repeats=12, until_sure=3.0, measured=8
    )
    store.remove_queued(run.number for run in store.queued())
    store.set_protocol_note(3, "measured one after the other: two *processes* do not fit")
    at = live(experiment)
    assert "Sure after 4 of at most 12 pairs: ±" in said(at)
    assert "Run 3: measured one after the other: two *processes* do not fit" in said(at)


def test_equal_arms_are_told_apart_by_their_side(store: Store) -> None:
    at = live(planted_experiment(store, rungs=(Rung(side="A"), Rung(side="B"))))
    assert title(at) == "resnet101 on T4: eager A against eager B"
    assert metrics(at)["Steady epoch"][1].startswith("eager A 66")
    assert len(charts(at)[0]["data"]) >= 6
