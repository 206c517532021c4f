"""Live in a real browser, on a store into which the test itself adds epochs while it is watched."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from bench_core.run import Run
from bench_core.spec import Experiment, Variant
from bench_core.store import Store
from pages.parts.live_reading import BLOCK_SECONDS
from tests.browser.conftest import Screenshot, Server
from tests.planted import plant_epoch, plant_run, planted_experiment

EPOCHS = """chart => Math.max(0, ...chart.calcdata
    .filter(points => points[0].trace.name === 'compile').map(points => points.length))"""
# A page with plotly may take a while on a machine that measures something else.
SLOW = 60_000
X_RANGE = "chart => chart.layout.xaxis.range"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder that a worker seems to hold, so that nothing is measured behind the tests."""
    folder = tmp_path_factory.mktemp("watched")
    with (folder / "worker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


@pytest.fixture(scope="module")
def address(server: Server, data: Path) -> str:
    return server(data=data)


@pytest.fixture
def store(data: Path) -> Iterator[Store]:
    with Store(data / "bench.db") as store:
        for run in store.runs(statuses=("running", "queued")):
            store.stop(number=run.number)
            store.finish(run.number, "stopped", reason="the test is over")
        yield store


@pytest.fixture
def running(store: Store) -> tuple[Experiment, Run]:
    """Eager is measured, compile stands in epoch 6 of 30, two more runs wait."""
    experiment = planted_experiment(store, repeats=2, epochs=30, measured=1)
    return experiment, plant_run(store, experiment.id, epochs=5, status="running")


@pytest.fixture
def calling(store: Store) -> tuple[Experiment, Run]:
    """Inference: eager is done, compile has its first call and 100 others of 1,000."""
    experiment = planted_experiment(
        store,
        models=("resnet18",),
        batch_sizes=(1,),
        repeats=2,
        iterations=1000,
        machine="CPU",
        workload={"task": "infer"},
        measured=1,
    )
    return experiment, plant_run(store, experiment.id, machine="CPU", epochs=5, status="running")


def watch(
    page: Page,
    address: str,
    experiment: Experiment,
    query: str = "",
    name: str = "Seconds per epoch",
) -> Locator:
    page.goto(f"{address}/watch?experiment={experiment.id}{query}")
    chart = page.get_by_role("img", name=name)
    expect(chart.locator(".main-svg").first).to_be_visible(timeout=SLOW)
    return chart


def wait_for_epochs(chart: Locator, epochs: int) -> None:
    deadline = time.monotonic() + SLOW / 1000
    while chart.evaluate(EPOCHS) < epochs:
        assert time.monotonic() < deadline, f"epoch {epochs} was never drawn"
        chart.page.wait_for_timeout(100)


def test_zoom_is_kept_while_two_more_epochs_come_in(
    page: Page, address: str, store: Store, running: tuple[Experiment, Run]
) -> None:
    experiment, run = running
    chart = watch(page, address, experiment)
    wait_for_epochs(chart, 5)
    plot = chart.locator(".nsewdrag").bounding_box()
    assert plot
    middle = plot["y"] + plot["height"] / 2
    page.mouse.move(plot["x"] + plot["width"] * 0.1, middle)
    page.mouse.down()
    page.mouse.move(plot["x"] + plot["width"] * 0.5, middle, steps=8)
    page.mouse.up()
    zoomed = chart.evaluate(X_RANGE)
    assert zoomed[1] - zoomed[0] < 20
    chart.evaluate("chart => { chart.marked = true }")
    for epoch in (6, 7):
        plant_epoch(store, run, epoch)
        wait_for_epochs(chart, epoch)
        expect(page.get_by_text(f"epoch {epoch + 1} of 30")).to_be_visible()
    assert chart.evaluate(X_RANGE) == zoomed
    assert chart.evaluate("chart => chart.marked")


def test_a_refresh_and_a_second_tab_lose_nothing(
    page: Page, address: str, store: Store, running: tuple[Experiment, Run]
) -> None:
    experiment, run = running
    chart = watch(page, address, experiment, "&chart=Running+totals")
    wait_for_epochs(chart, 5)
    expect(page.get_by_text("Seconds since the first epoch began")).to_be_visible()
    plant_epoch(store, run, 6)
    page.reload()
    expect(page.get_by_text("epoch 7 of 30")).to_be_visible()
    expect(page.get_by_text("Seconds since the first epoch began")).to_be_visible()
    second = page.context.new_page()
    wait_for_epochs(watch(second, address, experiment), 6)
    expect(second.get_by_role("heading", name="resnet101 on T4")).to_be_visible()


def test_a_deep_link_on_a_fresh_server_shows_the_whole_frame(
    page: Page, server: Server, data: Path, running: tuple[Experiment, Run]
) -> None:
    experiment, _ = running
    watch(page, server(data=data), experiment)
    for name in ("Overview", "Run", "Live · running", "Compare", "Results"):
        expect(page.get_by_role("link", name=name, exact=False).first).to_be_visible()
    expect(page.get_by_role("button", name="Stop", exact=False)).to_be_visible()


def test_the_end_of_a_run_changes_the_page_by_itself(
    page: Page,
    address: str,
    store: Store,
    running: tuple[Experiment, Run],
    press: Callable[[str], None],
) -> None:
    experiment, run = running
    watch(page, address, experiment)
    press("Empty the queue")
    expect(page.get_by_role("button", name="Empty the queue")).to_have_count(0)
    press("Stop")
    expect(page.get_by_role("button", name="Stopping")).to_be_disabled()
    assert store.stop_requested(run.number)
    store.finish(run.number, "stopped", reason="stopped on request; what was measured is kept")
    expect(page.get_by_role("button", name="Replay")).to_be_visible()
    expect(page.get_by_text("resnet101 on T4: first look")).to_be_visible()
    # The timer has ended with it: nothing asks the server again.
    expect(page.locator("[data-testid=stApp][data-test-script-state=notRunning]")).to_be_attached()
    page.evaluate(
        "() => { window.runs = 0; new MutationObserver(all => { for (const one of all)"
        " if (one.target.dataset.testScriptState === 'running') window.runs += 1 })"
        ".observe(document.querySelector('[data-testid=stApp]'),"
        " {attributes: true, attributeFilter: ['data-test-script-state']}) }"
    )
    page.wait_for_timeout(3000)
    assert page.evaluate("window.runs") == 0


def test_arms_that_take_turns_stand_below_each_other_and_are_drawn_by_turns(
    page: Page, address: str, store: Store, screenshot: Screenshot
) -> None:
    experiment = planted_experiment(
        store, protocol="paired", until_sure=2.0, repeats=12, epochs=30, measured=2
    )
    compiled = plant_run(store, experiment.id, epochs=5, status="running")
    eager = plant_run(store, experiment.id, epochs=5, status="running")
    store.set_phase(eager.number, "waiting", 5)
    watch(page, address, experiment)
    expect(page.get_by_text("Pair 2 of at most 12 · turn of compile, warm")).to_be_visible()
    expect(page.get_by_text("epoch 6 of 30, waiting for its turn")).to_be_visible()
    screenshot(page, "live_turns")
    plant_epoch(store, compiled, 6)
    store.set_phase(compiled.number, "waiting", 6)
    store.set_phase(eager.number, "epoch", 6)
    expect(page.get_by_text("Pair 2 of at most 12 · turn of eager")).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("epoch 7 of 30, waiting for its turn")).to_be_visible()


def test_a_run_that_nobody_measures_is_ended_by_a_new_worker(
    page: Page, server: Server, tmp_path: Path
) -> None:
    with Store(tmp_path / "bench.db") as store:
        experiment = planted_experiment(store, repeats=1, measured=1)
        plant_run(store, experiment.id, epochs=4, status="running")
    watch(page, server(data=tmp_path), experiment)
    expect(page.get_by_role("button", name="Replay")).to_be_visible(timeout=SLOW)
    with Store(tmp_path / "bench.db") as store:
        assert store.runs(experiment.id)[1].status == "interrupted"


def test_a_replay_runs_and_ends(
    page: Page, address: str, store: Store, press: Callable[[str], None]
) -> None:
    experiment = planted_experiment(store, repeats=1, epochs=4)
    watch(page, address, experiment)
    press("Replay")
    expect(page.get_by_text("replay, ten times faster")).to_be_visible()
    press("End the replay")
    expect(page.get_by_text("replay, ten times faster")).to_have_count(0)
    expect(page.get_by_role("button", name="Replay the last experiment")).to_be_visible()


def test_iterations_come_in_while_they_are_watched(
    page: Page,
    address: str,
    store: Store,
    calling: tuple[Experiment, Run],
    settled: Callable[[Page], None],
) -> None:
    experiment, run = calling
    chart = watch(page, address, experiment, name="Latency of each iteration")
    wait_for_epochs(chart, 101)
    assert chart.evaluate("chart => chart.layout.yaxis.type") == "log"
    chart.evaluate("chart => { chart.marked = true }")
    expect(page.get_by_text("iteration 102 of 1000")).to_be_visible()
    # Blocks of the same few seconds are drawn together, so the last one is some seconds later.
    for block in (6, 7):
        page.wait_for_timeout(1000 * BLOCK_SECONDS)
        plant_epoch(store, run, block, machine="CPU")
    wait_for_epochs(chart, 151)
    expect(page.get_by_text("iteration 152 of 1000")).to_be_visible()
    assert chart.evaluate("chart => chart.marked"), "the chart was built anew"
    shares = page.get_by_role("img", name="Share of the steady iterations")
    expect(shares.locator(".main-svg").first).to_be_visible()
    settled(page)
    page.get_by_role("radio", name="Percentiles").click()
    percentiles = page.get_by_role("img", name="Percentiles of the steady iterations so far")
    expect(percentiles.locator(".main-svg").first).to_be_visible()
    expect(page.get_by_text("Half of the iterations with compile end within")).to_be_visible()


def test_pictures_of_inference(
    page: Page,
    address: str,
    store: Store,
    calling: tuple[Experiment, Run],
    screenshot: Screenshot,
    settled: Callable[[Page], None],
) -> None:
    experiment, run = calling
    watch(page, address, experiment, name="Latency of each iteration")
    settled(page)
    screenshot(page, "live-inference-running")
    store.finish(run.number, "stopped", reason="stopped on request; what was measured is kept")
    store.stop(experiment_id=experiment.id)
    arms = ("eager", "compile", "compile_frozen", "onednn_graph", "jit_trace_frozen", "export_aot")
    finished = planted_experiment(
        store,
        models=("resnet18",),
        batch_sizes=(1, 8),
        precisions=("fp32", "bf16"),
        variants=[Variant(execution=word) for word in arms],
        machine="CPU",
        workload={"task": "infer"},
    )
    watch(page, address, finished, name="Latency of each iteration")
    settled(page)
    screenshot(page, "live-inference-finished")
    by_size = planted_experiment(
        store,
        models=("function:sin_cos",),
        batch_sizes=[10**power for power in range(2, 8)],
        repeats=1,
        machine="CPU",
        workload={"task": "infer"},
    )
    watch(page, address, by_size, name="Latency of each iteration")
    settled(page)
    screenshot(page, "live-function-finished")


def test_pictures_of_every_state(
    page: Page,
    address: str,
    store: Store,
    running: tuple[Experiment, Run],
    screenshot: Screenshot,
    settled: Callable[[Page], None],
) -> None:
    experiment, run = running
    watch(page, address, experiment)
    screenshot(page, "live-running")
    store.set_compiling(run.number, time.time() - 42)
    expect(page.get_by_text("compiling again")).to_be_visible()
    screenshot(page, "live-compiling")
    store.finish(
        run.number,
        "failed",
        failure="out of memory",
        reason="CUDA out of memory: tried to allocate 2.30 GiB; try a smaller batch",
        traceback="torch.OutOfMemoryError: CUDA out of memory",
    )
    expect(page.get_by_text("Run 2 failed: out of memory")).to_be_visible()
    screenshot(page, "live-failed")
    store.stop(experiment_id=experiment.id)
    finished = planted_experiment(store, models=("resnet18", "vgg16"), epochs=10)
    watch(page, address, finished)
    settled(page)
    screenshot(page, "live-finished")
