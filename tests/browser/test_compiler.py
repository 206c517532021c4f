"""The Compiler page in a real browser, on captures written by the test."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from bench_core import captures
from pages.parts.compiler_choice import link_of
from tests.browser.conftest import Screenshot, Server
from tests.planted_capture import BREAK, capture_spec, plant_capture

RESNET101_BLOCKS = 33


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiler")


@pytest.fixture(scope="module")
def address(server: Server, folder: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHES", str(folder / "caches"))
        plant_capture(capture_spec(), blocks=RESNET101_BLOCKS)
        newest = {"captured_at": 1_764_000_500.0}
        plant_capture(capture_spec(model="small_cnn"), blocks=3, breaks=(BREAK,), **newest)
    return server(data=folder, env={"BENCH_CACHES": str(folder / "caches")})


def drawn(page: Page) -> None:
    """The script has run and the first picture is there; the charts below it may still come."""
    at_rest = "[data-testid=stApp][data-test-script-state=notRunning]"
    expect(page.locator(at_rest)).to_be_attached(timeout=30_000)
    expect(page.locator("[data-box]").first).to_be_visible(timeout=30_000)


def link(model: str, **more: str) -> str:
    values = link_of(captures.essence(capture_spec(model=model))) | more
    return "/graphs?" + "&".join(f"{name}={value}" for name, value in values.items())


def test_a_capture_as_large_as_resnet101s_is_drawn(page: Page, address: str) -> None:
    page.goto(f"{address}{link('resnet18')}")
    drawn(page)
    expect(
        page.get_by_role("heading", name="264 forward + 264 backward operations became 132")
    ).to_be_visible()


def test_a_click_opens_a_module_in_both_pictures_and_its_pill_closes_it(
    page: Page, address: str
) -> None:
    page.goto(f"{address}{link('resnet18', stage='passes')}")
    drawn(page)
    before = page.locator(".graph").nth(0)
    after = page.locator(".graph").nth(1)
    before.locator("[data-opens='layer']").click()
    for picture in (before, after):
        expect(picture.locator("[data-opens='layer.32']")).to_be_attached()
        expect(picture.locator("[data-opens='layer']")).to_have_count(0)
    before.locator("[data-opens='layer.0']").click()
    expect(after.locator("[data-opens='layer.0.bn']")).to_be_attached()
    page.get_by_role("button", name="layer ✕").click()
    expect(after.locator("[data-opens='layer']")).to_be_attached()


def test_a_picture_is_zoomed_and_keeps_its_zoom_when_a_module_opens(
    page: Page, address: str
) -> None:
    page.goto(f"{address}{link('resnet18', stage='passes')}")
    drawn(page)
    picture = page.locator(".graph").first
    shown = picture.locator("svg").first

    def scale() -> float:
        return shown.evaluate("svg => svg.width.baseVal.value / svg.viewBox.baseVal.width")

    start = scale()
    picture.get_by_role("button", name="Zoom in").click()
    assert scale() == pytest.approx(start * 1.3)
    zoomed = scale()
    picture.locator("[data-opens='layer']").click()
    expect(picture.locator("[data-opens='layer.1']")).to_be_attached()
    assert scale() == pytest.approx(zoomed)
    picture.get_by_role("button", name="Fit the whole graph").click()
    inside = "pane => [pane.scrollWidth - pane.clientWidth, pane.scrollHeight - pane.clientHeight]"
    assert picture.locator(".pane").evaluate(inside) == [0, 0]


def test_a_picture_starts_whole_or_readable_from_its_top(page: Page, address: str) -> None:
    page.goto(f"{address}{link('small_cnn', stage='dynamo')}")
    drawn(page)
    pane = page.locator(".graph .pane").nth(1)
    seen = pane.evaluate(
        """pane => {
            const svg = pane.querySelector("svg"), frame = pane.getBoundingClientRect();
            const boxes = [...svg.querySelectorAll(".box rect")]
                .map(box => box.getBoundingClientRect());
            const inside = boxes.filter(box =>
                box.left >= frame.left - 1 && box.right <= frame.right + 1
                && box.bottom <= frame.bottom + 1);
            const scale = svg.width.baseVal.value / svg.viewBox.baseVal.width;
            return { scale, top: pane.scrollTop, inside: inside.length, all: boxes.length };
        }"""
    )
    assert seen["top"] == 0 and seen["scale"] >= 0.84
    assert seen["inside"] >= seen["all"] / 2


def test_the_address_holds_what_is_chosen(page: Page, address: str) -> None:
    page.goto(f"{address}/graphs")
    drawn(page)
    page.get_by_text("Dynamo · 13 operators").click()
    page.wait_for_url("**stage=dynamo**")
    page.get_by_role("combobox", name="Captured").click()
    page.get_by_role("option", name="resnet18").click()
    page.wait_for_url("**model=resnet18**")
    page.reload()
    drawn(page)
    expect(page.get_by_text("Graphs in call order")).to_be_visible()
    expect(page.get_by_role("heading", name="264 forward + 264 backward")).to_be_visible()


def test_a_click_on_an_operator_names_it(page: Page, address: str) -> None:
    page.goto(f"{address}{link('small_cnn', stage='dynamo')}")
    drawn(page)
    page.locator(".graph").nth(1).locator("[data-box='relu_1']").click()
    expect(page.get_by_text("relu_1 · F.relu · layer.1.relu")).to_be_visible()


def test_the_page_fits_a_phone_and_both_themes(
    page: Page, address: str, screenshot: Screenshot
) -> None:
    page.goto(f"{address}{link('small_cnn')}")
    drawn(page)
    assert len(screenshot(page, "compiler")) == 4
