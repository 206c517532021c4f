"""What the browser tests share: a real Chromium, real servers, and two rules for every page.

A test fails when a page throws an error or asks any host but 127.0.0.1.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import psutil
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.chromium import installed_chromium

CHECKOUT = Path(__file__).resolve().parents[2]
ARTIFACTS = Path(__file__).resolve().parent / "artifacts"
WIDTHS = {"wide": 1280, "phone": 390}
expect.set_options(timeout=15_000)

Server = Callable[..., str]
Screenshot = Callable[[Page, str], list[Path]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in this folder, and run it after everything quicker."""
    here = Path(__file__).resolve().parent
    browser = [item for item in items if here in item.path.parents]
    for item in browser:
        item.add_marker("browser")
    items[:] = [item for item in items if item not in browser] + browser


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict) -> dict:
    chromium = installed_chromium()
    if chromium is None:
        reason = "no Chromium found: python -m tests.browser.chromium installs one"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return browser_type_launch_args | {
        "executable_path": chromium,
        "args": [
            "--no-sandbox",  # Chromium refuses to start as root with it
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
        ],
    }


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict) -> dict:
    return browser_context_args | {
        "viewport": {"width": WIDTHS["wide"], "height": 800},
        "color_scheme": "light",
    }


@pytest.fixture
def context(context: BrowserContext) -> Iterator[BrowserContext]:
    """pytest-playwright's, watched: so `page` and every `context.new_page()` keep both rules."""
    errors: list[str] = []
    foreign: list[str] = []

    def see(url: str) -> None:
        address = urlsplit(url)
        if address.scheme not in ("data", "blob") and address.hostname != "127.0.0.1":
            foreign.append(url)

    context.on("weberror", lambda error: errors.append(str(error.error)))
    context.on("request", lambda request: see(request.url))
    context.on("page", lambda page: page.on("websocket", lambda socket: see(socket.url)))
    yield context
    assert not errors, f"errors on the page: {errors}"
    assert not foreign, f"requests to other hosts: {foreign}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`server(script=app.py, data=<new folder>, env={}, base="")` starts one, gives its address.

    Every server lives to the end of the module, and what it started dies with it: workers and
    measuring processes have sessions of their own and are known by their BENCH_DATA.
    """
    started: list[tuple[subprocess.Popen, Path]] = []

    def start(
        script: Path = CHECKOUT / "app.py",
        data: Path | None = None,
        env: Mapping[str, str] | None = None,
        base: str = "",
    ) -> str:
        folder = data or tmp_path_factory.mktemp("data")
        log = tmp_path_factory.mktemp("server") / "log.txt"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "streamlit", "run", str(script)]
        command += ["--server.port", str(port), "--server.headless", "true"]
        command += ["--server.baseUrlPath", base]
        with log.open("w") as output:
            process = subprocess.Popen(
                command,
                cwd=CHECKOUT,
                env={**os.environ, "BENCH_DATA": str(folder), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.append((process, folder))
        address = f"http://127.0.0.1:{port}/{base}".rstrip("/")
        deadline = time.monotonic() + 60
        while not _healthy(address):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{script} did not start:\n{log.read_text()}")
            time.sleep(0.1)
        return address

    yield start
    for process, folder in started:
        _end(process, folder)


def _healthy(address: str) -> bool:
    try:
        with urlopen(f"{address}/_stcore/health", timeout=5) as answer:
            return answer.status == 200
    except (URLError, ConnectionError, TimeoutError):
        return False


def _end(process: subprocess.Popen, folder: Path) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        group = [psutil.Process(process.pid)] if process.poll() is None else []
        alive = group + [other for other in psutil.process_iter() if _writes_to(other, folder)]
        for one in alive:
            try:
                one.send_signal(sign)
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(alive, timeout=5)
    process.wait(timeout=5)


def _writes_to(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.environ().get("BENCH_DATA") == str(folder)
    except (psutil.Error, OSError):
        return False


@pytest.fixture
def settled() -> Callable[[Page], None]:
    """`settled(page)` returns once the script has run and nothing is a skeleton any more."""
    return _settled


def _settled(page: Page) -> None:
    expect(page.locator("[data-testid=stApp][data-test-script-state=notRunning]")).to_be_attached()
    expect(page.locator("[data-testid=stSkeleton]")).to_have_count(0)
    page.wait_for_function("document.fonts.status === 'loaded'")


@pytest.fixture
def press(page: Page) -> Callable[[str], None]:
    """`press(name)` clicks a button on a page at rest.

    While a script runs Streamlit may put a new button in the place of the old one between the mouse
    going down and up. No hand is that fast; Playwright is.
    """

    def press(name: str) -> None:
        _settled(page)
        page.get_by_role("button", name=name).click()

    return press


@pytest.fixture
def screenshot() -> Screenshot:
    """`screenshot(page, name)` writes four pictures of the whole page into artifacts/.

    Light and dark, 1280 and 390 pixels wide; each must fit the width without sideways scroll. The
    page is left wide and light.
    """

    def take(page: Page, name: str) -> list[Path]:
        ARTIFACTS.mkdir(exist_ok=True)
        taken = []
        for size, width in WIDTHS.items():
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": width, "height": 800})
                _settled(page)
                # The page scrolls inside an element, so the window is made as tall as that.
                tall = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
                page.set_viewport_size({"width": width, "height": max(800, tall)})
                page.wait_for_timeout(500)  # a resized chart is drawn again
                taken.append(ARTIFACTS / f"{name}_{scheme}_{size}.png")
                page.screenshot(path=taken[-1])
                wide = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth")
                assert wide <= width, f"{name} scrolls sideways at {width} px: {wide} px"
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": WIDTHS["wide"], "height": 800})
        return taken

    return take
