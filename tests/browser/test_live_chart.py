"""The live chart in a real browser: points arrive, and what the reader did to it stays."""

import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import CHECKOUT, Screenshot, Server

# Takes the place of pages/_entry.py beside a copy of app.py.
GROWS = """
import plotly.graph_objects as go
import streamlit as st
from pages.parts.live_chart import live_chart

st.title("A point a second", anchor=False)

@st.fragment(run_every=1)
def chart():
    points = st.session_state["points"] = st.session_state.get("points", 5) + 1
    epochs = list(range(1, points + 1))
    figure = go.Figure(layout_margin=dict(l=40, r=10, t=22, b=4))
    figure.add_scatter(x=epochs, y=[66 + epoch % 2 for epoch in epochs], name="eager")
    figure.add_scatter(x=epochs, y=[61 + epoch % 3 for epoch in epochs], name="compile")
    live_chart(figure, key="seconds", height=300, alt="Seconds per epoch")

chart()
for line in range(30):
    st.text("below the chart")
"""
POINTS = "chart => chart.data[0].x.length"
X_RANGE = "chart => chart.layout.xaxis.range"
NOT_OFFERED = "this server does not offer plotly.min.js"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grows")
    shutil.copy(CHECKOUT / "app.py", folder)
    (folder / "pages").mkdir()
    (folder / "pages" / "_entry.py").write_text(GROWS)
    return folder / "app.py"


@pytest.fixture(scope="module")
def address(server: Server, app: Path) -> str:
    return server(app, env={"PYTHONPATH": str(CHECKOUT)})


def open_chart(page: Page, address: str) -> Locator:
    page.goto(address)
    chart = page.get_by_role("img", name="Seconds per epoch")
    expect(chart.locator(".main-svg").first).to_be_visible()
    return chart


def wait_for_points(chart: Locator, more: int) -> None:
    before = chart.evaluate(POINTS)
    for _ in range(more * 50):
        if chart.evaluate(POINTS) >= before + more:
            return
        chart.page.wait_for_timeout(100)
    pytest.fail(f"{more} more points did not arrive after {before}")


def drag(page: Page, chart: Locator, fractions: tuple[float, float]) -> None:
    plot = chart.locator(".nsewdrag").bounding_box()
    assert plot
    start, end = (plot["x"] + plot["width"] * fraction for fraction in fractions)
    middle = plot["y"] + plot["height"] / 2
    page.mouse.move(start, middle)
    page.mouse.down()
    page.mouse.move(end, middle, steps=8)
    page.mouse.up()


def test_zoom_and_hidden_line_outlive_new_points(page: Page, address: str) -> None:
    chart = open_chart(page, address)
    chart.evaluate("chart => { chart.sameElement = true }")
    drag(page, chart, (0.2, 0.6))
    zoomed = chart.evaluate(X_RANGE)
    chart.locator(".legendtoggle").nth(1).click()
    expect(chart.locator(".scatterlayer .trace")).to_have_count(1)

    wait_for_points(chart, 2)

    assert chart.evaluate(X_RANGE) == zoomed
    assert chart.evaluate("chart => chart.data[1].visible") == "legendonly"
    assert chart.evaluate("chart => chart.sameElement")


def test_double_click_gives_back_the_growing_range(page: Page, address: str) -> None:
    chart = open_chart(page, address)
    drag(page, chart, (0.2, 0.6))
    zoomed = chart.evaluate(X_RANGE)
    chart.locator(".nsewdrag").dblclick()
    wait_for_points(chart, 2)
    assert chart.evaluate(X_RANGE)[1] > zoomed[1] + 2


def test_text_follows_the_theme_without_a_rerun_of_the_page(page: Page, address: str) -> None:
    chart = open_chart(page, address)
    chart.evaluate("chart => { chart.sameElement = true }")
    tick = chart.locator(".xtick text").first
    expect(tick).to_have_css("fill", "rgb(17, 25, 35)")
    page.emulate_media(color_scheme="dark")
    expect(tick).to_have_css("fill", "rgb(228, 232, 237)")
    assert chart.evaluate("chart => chart.sameElement")


def test_theme_flips_while_points_arrive_do_not_build_the_chart_anew(
    page: Page, address: str
) -> None:
    chart = open_chart(page, address)
    chart.evaluate("chart => { chart.sameElement = true }")
    for flip in range(30):
        page.emulate_media(color_scheme="dark" if flip % 2 else "light")
        page.wait_for_timeout(flip * 7 % 90)
    wait_for_points(chart, 1)
    assert chart.evaluate("chart => chart.sameElement")


def test_chart_takes_the_width_it_is_given(page: Page, address: str) -> None:
    chart = open_chart(page, address)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(chart.locator(".main-svg").first).to_have_attribute("width", re.compile(r"^3[0-8]\d"))


def test_finger_on_the_chart_scrolls_the_page(
    browser: Browser, browser_context_args: dict, address: str
) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with browser.new_context(**browser_context_args | phone) as context:
        page = context.new_page()
        chart = open_chart(page, address)
        expect(chart.locator(".modebar")).to_have_count(0)
        box = chart.bounding_box()
        assert box
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        finger = context.new_cdp_session(page)
        for moved in range(0, 200, 20):
            kind = "touchMove" if moved else "touchStart"
            points = [{"x": x, "y": y - moved}]
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
            page.wait_for_timeout(20)
        finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        scrolled = page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop")
        assert scrolled > 100


def test_chart_is_drawn_under_a_base_path(page: Page, server: Server, app: Path) -> None:
    open_chart(page, server(app, env={"PYTHONPATH": str(CHECKOUT)}, base="bench"))


def test_server_without_plotly_says_so(page: Page, server: Server, app: Path) -> None:
    page.goto(server(app.parent / "pages" / "_entry.py", env={"PYTHONPATH": str(CHECKOUT)}))
    expect(page.get_by_text(NOT_OFFERED)).to_be_visible()


def test_pictures(page: Page, address: str, screenshot: Screenshot) -> None:
    open_chart(page, address)
    assert len(screenshot(page, "live-chart")) == 4
