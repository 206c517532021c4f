"""From an epoch's end to the pixel, the cost of a watching tab, and the start of the app."""

import fcntl
import statistics
import time

import psutil
from playwright.sync_api import Page, expect

from bench_core.store import Store
from tests.planted import plant_epoch, plant_run, planted_experiment

EPOCHS = 30


def server_process(address: str) -> psutil.Process:
    port = address.rsplit(":", 1)[1]
    for process in psutil.process_iter():
        try:
            if ["--server.port", port] == process.cmdline()[5:7]:
                return process
        except (psutil.Error, IndexError):
            continue
    raise AssertionError(f"no server on port {port}")


def busy_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def test_from_an_epochs_end_to_the_pixel(server, page: Page, tmp_path):
    # A worker seems to hold the folder, so that none takes the planted run away.
    with (tmp_path / "worker.lock").open("w") as lock, Store(tmp_path / "bench.db") as store:
        fcntl.flock(lock, fcntl.LOCK_EX)
        experiment = planted_experiment(
            store, models=("small_cnn",), machine="CPU", repeats=1, epochs=EPOCHS + 20, measured=1
        )
        run = plant_run(store, experiment.id, machine="CPU", epochs=3, status="running")
        address = server(data=tmp_path)
        page.goto(f"{address}/watch?experiment={experiment.id}")
        expect(page.get_by_text("epoch 4 of")).to_be_visible(timeout=30_000)
        page.wait_for_timeout(3000)
        delays = []
        for number in range(4, 4 + EPOCHS):
            began = time.monotonic()
            plant_epoch(store, run, number, machine="CPU")
            page.get_by_text(f"epoch {number + 1} of").wait_for(timeout=10_000)
            delays.append(time.monotonic() - began)
            page.wait_for_timeout(137)  # not in step with the page's own second
        process = server_process(address)
        before, began = busy_seconds(process), time.monotonic()
        page.wait_for_timeout(30_000)
        share = (busy_seconds(process) - before) / (time.monotonic() - began)
    low, high = (statistics.quantiles(delays, n=10)[at] for at in (4, 8))
    print(f"\nepoch's end to the pixel: p50 {low:.2f} s, p90 {high:.2f} s ({EPOCHS} epochs)")
    print(f"one live tab costs the server {share:.1%} of a core")
    assert low < 1.0
    assert high < 1.5
    assert share < 0.10


def test_start_of_the_app_to_its_first_heading(server, page: Page, tmp_path):
    began = time.monotonic()
    address = server(data=tmp_path)
    page.goto(address)
    expect(page.get_by_role("heading", name="Does torch.compile pay off?")).to_be_visible()
    seconds = time.monotonic() - began
    process = server_process(address)
    page.wait_for_timeout(3000)
    memory = process.memory_info().rss / 1e6
    print(
        f"\nstart to the first heading: {seconds:.1f} s; idle with an empty store {memory:.0f} MB"
    )
    assert memory < 250
