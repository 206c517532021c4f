"""The frame in a real browser: addresses, navigation, and a results file that cannot be read."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server

ADDRESSES = {
    "Overview": "/",
    "Run": "/launch",
    "Live": "/watch",
    "Compare": "/comparison",
    "Compiler": "/graphs",
    "Results": "/runs",
    "Claims": "/published",
}


@pytest.fixture(scope="module")
def address(server: Server) -> str:
    return server()


def navigation(page: Page) -> list[str]:
    links = page.get_by_test_id("stTopNavLink")
    expect(links).to_have_count(len(ADDRESSES))
    return [text.split()[-1] for text in links.all_inner_texts()]


# The first test to use the server: only the first session could lose the frame.
def test_first_session_gets_the_frame_at_a_pages_own_address(page: Page, address: str) -> None:
    page.goto(f"{address}/watch?experiment=none")
    assert navigation(page) == list(ADDRESSES)
    expect(page).to_have_title("Does torch.compile pay off?")


def test_every_page_has_its_address_in_the_navigation(page: Page, address: str) -> None:
    page.goto(address)
    navigation(page)
    for title, path in ADDRESSES.items():
        page.get_by_role("link", name=title, exact=False).first.click()
        # A page may put its choices behind its path as soon as it is drawn.
        expect(page).to_have_url(re.compile(re.escape(f"{address}{path}") + r"(\?.*)?$"))
        expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_results_file_that_is_none_is_named_on_every_page(
    page: Page, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "bench.db").write_text("no database, " * 100)
    page.goto(f"{server(data=tmp_path)}/runs")
    expect(page.get_by_text(f"{tmp_path / 'bench.db'} cannot be opened")).to_be_visible()
