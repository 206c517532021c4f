"""A link shows another person the same view; the report opens on a machine without a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from bench_core.store import Store
from tests.browser.conftest import Server
from tests.planted import planted_experiment

SLOW = 60_000
AT_REST = "[data-testid=stApp][data-test-script-state=notRunning]"
# What a person sees of the choices and of what they lead to.
SEEN = """() => {
  const found = (what, value) => [...document.querySelectorAll(what)].map(value);
  const text = (one) => one.innerText;
  const on = (one) => text(one) + (one.ariaPressed || one.ariaChecked);
  return {
    headings: found('[data-testid=stHeading]', text),
    words: found('[data-testid=stMarkdownContainer]', text),
    chosen: found('[data-testid=stButtonGroup] button', on),
    switched: found('[data-testid=stCheckbox] input', (one) => one.checked),
    plan: found('[data-testid=stNumberInput] input', (one) => one.value),
    ticks: found('.js-plotly-plot .xtick, .js-plotly-plot .ytick', text),
  };
}"""


@pytest.fixture(scope="module")
def address(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("share")
    with Store(folder / "bench.db") as store:
        planted_experiment(store, models=("resnet101", "resnet50"), batch_sizes=(16, 32))
        planted_experiment(store, models=("resnet18",), machine="A100")
    return server(data=folder)


def rested(page: Page) -> None:
    """The script has run and every chart is drawn: on a busy machine that takes long."""
    expect(page.locator(AT_REST)).to_be_attached(timeout=SLOW)
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible(timeout=SLOW)
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0, timeout=SLOW)
    expect(page.locator(AT_REST)).to_be_attached(timeout=SLOW)


def chosen_view(page: Page, address: str) -> str:
    """One machine, one model, a row of the table, logarithmic axes, a plan: the shared link."""
    page.goto(f"{address}/comparison")
    rested(page)

    def in_address(choice: str) -> None:
        expect(page).to_have_url(re.compile(choice), timeout=SLOW)
        rested(page)

    for name in ("machines=T4", "models=resnet50"):
        pills = page.get_by_test_id("stButtonGroup")
        pills.get_by_text(name.split("=")[1], exact=True).click()
        in_address(name)
    # The grid is drawn on a canvas, with this over it: a head of one row, then two of pairs.
    grid = page.get_by_test_id("stDataFrame").first.locator(".dvn-scroller")
    box = grid.bounding_box()
    assert box is not None
    grid.click(position={"x": 200, "y": 5 / 6 * box["height"]})
    in_address("pair=")
    page.get_by_text("Log axes").click()
    in_address("log=true")
    epochs = page.get_by_role("spinbutton", name="Epochs a start")
    epochs.fill("30")
    epochs.press("Enter")
    in_address("planner_epochs=30")
    expect(page.get_by_text("1 start a day of 30 epochs")).to_be_visible()
    page.get_by_role("button", name="Share").click()
    link = page.get_by_test_id("stPopoverBody").get_by_test_id("stCode")
    expect(link).to_contain_text("planner_epochs=30")
    found = "".join(link.inner_text().split())
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("stPopoverBody")).to_have_count(0)
    return found


def test_the_link_shows_the_same_view_in_another_browser(
    page: Page, address: str, context: BrowserContext,
    browser: Browser, browser_context_args: dict,
) -> None:  # fmt: skip
    link = chosen_view(page, address)
    for choice in ("machines=T4", "models=resnet50", "log=true", "planner_epochs=30", "pair="):
        assert choice in link
    with browser.new_context(**browser_context_args) as stranger:
        errors: list[str] = []
        stranger.on("weberror", lambda error: errors.append(str(error.error)))
        other = stranger.new_page()
        other.goto(link)
        rested(other)
        expect(other.get_by_text("1 start a day of 30 epochs")).to_be_visible()
        mine, theirs = page.evaluate(SEEN), other.evaluate(SEEN)
        assert not errors
    assert mine == theirs
    assert "resnet50 on T4, batch 16, compile against eager" in mine["words"]
    assert mine["plan"][0] == "30" and True in mine["switched"]
    assert {"T4true", "A100false", "resnet50true", "resnet18false"} <= set(mine["chosen"])


def test_the_report_opens_without_a_network(
    page: Page, address: str, tmp_path: Path,
    browser: Browser, browser_context_args: dict,
) -> None:  # fmt: skip
    page.goto(f"{address}/comparison?machines=T4&models=resnet50")
    rested(page)
    answer = page.get_by_test_id("stHeading").nth(1).inner_text()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Report").click()
    name = waiting.value.suggested_filename
    assert name.startswith("compile-report-20") and name.endswith(".html")
    waiting.value.save_as(tmp_path / name)

    with browser.new_context(
        **browser_context_args | {"viewport": {"width": 390, "height": 844}}, offline=True
    ) as alone:
        errors: list[str] = []
        asked: list[str] = []
        alone.on("weberror", lambda error: errors.append(str(error.error)))
        alone.on("request", lambda request: asked.append(request.url))
        file = alone.new_page()
        file.on("console", lambda said: errors.append(said.text))
        file.goto((tmp_path / name).as_uri())
        expect(file.get_by_role("heading", level=1)).to_have_text(answer)
        charts = file.locator(".chart")
        assert charts.count() == 3
        for chart in charts.all():
            expect(chart.locator("svg.main-svg .trace").first).to_be_attached()
        expect(file.get_by_text("python -m bench_core run --model resnet50").first).to_be_visible()
        expect(file.get_by_text("What it is worth")).to_be_visible()
        assert file.evaluate("document.documentElement.scrollWidth") <= 390
        assert asked == [(tmp_path / name).as_uri()]
        assert not errors
