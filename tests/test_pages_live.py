"""What Live promises, driven through app.py on a real store: what is seen, what a press does."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bench_core.paths import CHECKOUT, logs_dir
from bench_core.spec import Experiment
from bench_core.store import Store
from tests.planted import COMPILE, EAGER, Shape, plant_epoch, plant_run, planted_experiment


@pytest.fixture(autouse=True)
def worker_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder that a worker seems to hold, so that nothing is measured behind a test."""
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    monkeypatch.delenv("BENCH_VIEW_ONLY", raising=False)
    with (tmp_path / "worker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield tmp_path


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
