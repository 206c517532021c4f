"""The main job in a real browser with a real worker: one press, epochs of both arms, an answer."""

import signal
import time

import psutil
import pytest
from playwright.sync_api import Page, expect

from bench_core.store import Store
from tests.planted import planted_experiment

SLOW = 240_000
AT_REST = "[data-testid=stApp][data-test-script-state=notRunning]"


def server_process(address: str) -> psutil.Process:
    port = address.rsplit(":", 1)[1]
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if "streamlit" in command and port in command:
            return process
    raise AssertionError(f"no server on port {port}")


def wait_until(store: Store, what, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not what(store.runs()):
        assert time.monotonic() < deadline, [(run.status, run.reason) for run in store.runs()]
        time.sleep(0.2)


def epochs_of(store: Store, number: int) -> int:
    return len(store.epochs([number])[number])


@pytest.mark.timeout(900)
def test_the_demo_from_the_press_to_the_answer(page: Page, server, tmp_path, press):
    """Its two cold compiles are real ones. The server is killed and the page reloaded halfway."""
    env = {
        "BENCH_MACHINE_LOCK": str(tmp_path / "machine.lock")
    }  # a measurement elsewhere on the machine goes on
    address = server(data=tmp_path, env=env)
    page.goto(address)
    press("Run the demo")
    page.wait_for_url("**/watch?experiment=*")
    watched = page.url.replace(address, "")

    with Store(tmp_path / "bench.db") as store:
        wait_until(store, lambda runs: epochs_of(store, 1) >= 1)
        chart = page.get_by_role("img", name="Seconds per epoch").first
        expect(chart.locator(".main-svg").first).to_be_visible(timeout=60_000)
        wait_until(store, lambda runs: runs[1].status == "running")
        expect(page.get_by_text("compiling", exact=False).first).to_be_visible(timeout=SLOW)
        page.reload()
        main = page.get_by_test_id("stMainBlockContainer")
        expect(main.get_by_role("button", name="Stop")).to_be_visible(timeout=30_000)

        server_process(address).send_signal(signal.SIGKILL)
        before = epochs_of(store, 2)
        wait_until(store, lambda runs: epochs_of(store, 2) > before or runs[1].status == "done")

        fresh = server(data=tmp_path, env=env)
        page.goto(f"{fresh}{watched}")
        for name in ("Overview", "Run", "Live", "Compare", "Results"):
            expect(page.get_by_role("link", name=name).first).to_be_visible(timeout=30_000)
        wait_until(store, lambda runs: all(run.status == "done" for run in runs), 420)
        expect(page.get_by_text("first look", exact=False).first).to_be_visible(timeout=60_000)

        runs = store.runs()
        assert [run.spec.variant.cache for run in runs] == [None, "cold", "warm"] * 2
        cold, warm = runs[1], runs[2]
        assert cold.activity.cache_misses > 0 and cold.activity.cache_hits == 0
        assert warm.activity.cache_hits > 0 and warm.activity.cache_misses == 0
        assert warm.priming_seconds is None, "the cold run before it has filled its cache"

    page.get_by_role("link", name="Compare").first.click()
    expect(page.get_by_role("heading", name="Compare")).to_be_visible()
    expect(page.get_by_text("pointwise_cnn", exact=False).first).to_be_visible(timeout=30_000)


def test_a_double_click_on_the_demo_queues_once(page: Page, server, tmp_path, settled):
    page.goto(server(data=tmp_path, env={"BENCH_MACHINE_LOCK": str(tmp_path / "machine.lock")}))
    settled(page)
    page.get_by_role("button", name="Run the demo").dblclick()
    page.wait_for_url("**/watch?experiment=*")
    expect(page.locator(AT_REST)).to_be_attached()
    with Store(tmp_path / "bench.db") as store:
        assert len(store.experiments()) == 1
        store.stop()


def test_the_app_never_imports_torch_and_stays_small(page: Page, server, tmp_path):
    """Small with nothing measured; then, with charts and tables drawn, its memory map is read."""
    address = server(data=tmp_path)
    process = server_process(address)
    page.goto(address)
    expect(page.get_by_text("No measurements yet")).to_be_visible(timeout=60_000)
    expect(page.locator(AT_REST)).to_be_attached()
    assert process.memory_info().rss < 250e6

    with Store(tmp_path / "bench.db") as store:
        planted_experiment(store)
    for path, part in (
        ("", ".main-svg"),
        ("/launch", "h1"),
        ("/watch", ".main-svg"),
        ("/comparison", ".main-svg"),
        ("/runs", "[data-testid=stDataFrame]"),
    ):
        page.goto(f"{address}{path}")
        expect(page.locator(part).first).to_be_visible(timeout=60_000)
        expect(page.locator(AT_REST)).to_be_attached(timeout=60_000)
    libraries = [mapped.path for mapped in process.memory_maps()]
    assert not [path for path in libraries if "/torch/" in path or "libtorch" in path]
