"""A file of another machine in a real browser: uploaded, beside ours, shared, undone."""

from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, expect

from bench_core import minimal_csv
from bench_core.result_csv import write
from bench_core.store import Store
from tests.planted import planted_experiment

SLOW = 60_000
AT_REST = "[data-testid=stApp][data-test-script-state=notRunning]"


def our_file(folder: Path) -> Path:
    """What `run --csv` writes of a CPU: three runs an arm."""
    file = folder / "cpu.csv"
    with Store(folder / "elsewhere.db") as store, file.open("w", newline="") as text:
        planted_experiment(store, models=("small_cnn",), machine="CPU", epochs=6)
        runs = store.runs()
        write(text, runs, store.epochs([run.number for run in runs], steps=True))
    return file


def file_by_hand(folder: Path) -> Path:
    """The template with the rows of a T4 in it, the variant in somebody's own words."""
    file = folder / "t4.csv"
    rows = minimal_csv.TEMPLATE.replace("Example GPU", "T4").replace("resnet18", "small_cnn")
    file.write_text(rows.replace(",compile,", ",torch.compile,"))
    return file


def matrix(page: Page) -> str:
    """The matrix of models and machines on Compare, as text."""
    expect(page.locator(AT_REST)).to_be_attached(timeout=SLOW)
    table = page.get_by_test_id("stTable").filter(has_text="small_cnn").first
    expect(table).to_be_visible(timeout=SLOW)
    return table.inner_text()


def test_a_t4_stands_beside_our_cpu_until_its_import_is_undone(
    page: Page, server, tmp_path: Path, press, settled, context: BrowserContext,
    browser: Browser, browser_context_args: dict,
) -> None:  # fmt: skip
    data = tmp_path / "data"
    data.mkdir()
    address = server(data=data)
    page.goto(f"{address}/runs")
    press("Upload a CSV")
    page.locator("input[type=file]").set_input_files([our_file(tmp_path), file_by_hand(tmp_path)])
    expect(page.get_by_text("2 files, nothing is stored yet")).to_be_visible(timeout=SLOW)
    settled(page)
    press("That is right")
    both = page.get_by_role("button", name="Import 8 runs from 2 files")
    expect(both).to_be_enabled(timeout=SLOW)
    settled(page)
    both.dblclick()
    expect(page.get_by_text("8 runs from 2 files imported.")).to_be_visible(timeout=SLOW)
    with Store(data / "bench.db") as store:
        assert len(store.runs()) == 8
        assert len(store.imports()) == 2

    page.goto(f"{address}/comparison")
    mine = matrix(page)
    assert "T4" in mine and "CPU" in mine and "small_cnn" in mine
    with browser.new_context(**browser_context_args) as stranger:
        other = stranger.new_page()
        other.goto(page.url)
        assert matrix(other) == mine

    page.goto(f"{address}/runs")
    press("2 imports")
    row = page.get_by_test_id("stPopoverBody")
    # The newest comes first: files are imported in the order in which they were chosen.
    expect(row.get_by_text("t4.csv")).to_be_visible()
    row.get_by_role("button", name="Undo").first.click()
    expect(page.get_by_role("dialog").get_by_text("t4.csv")).to_be_visible()
    page.get_by_role("button", name="Take 2 runs out").click()
    expect(page.get_by_text("2 runs from t4.csv taken out.")).to_be_visible(timeout=SLOW)
    settled(page)
    expect(page.get_by_test_id("stButtonGroup").get_by_text("CPU", exact=True)).to_be_visible()
    expect(page.get_by_test_id("stButtonGroup").get_by_text("T4", exact=True)).to_have_count(0)
    with Store(data / "bench.db") as store:
        assert {run.machine for run in store.runs()} == {"CPU"}
