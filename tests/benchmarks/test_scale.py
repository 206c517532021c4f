"""A file of a million epochs comes in, and the pages open with it. About 6 minutes at SCALE 1.

Ten thousand runs of a hundred epochs. Everything is reported with its goal beside it, and judged at
SCALE 1 only: pandas reads the same file on the same machine, and a real browser waits for tables.
"""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from bench_core import result_csv
from bench_core.store import Store
from tests.many_runs import many_runs

# 1 is the real thing; 0.02 tries whether it runs at all.
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
EPOCHS = 100
RUNS = max(36, round(10_000 * SCALE))
CHECKOUT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(3000)

PEAK = "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024"
BY_PANDAS = f"""
import json, resource, sys, time, pandas
began, busy = time.monotonic(), time.process_time()
rows = len(pandas.read_csv(sys.argv[1]))
print(json.dumps([time.monotonic() - began, time.process_time() - busy, {PEAK}, rows]))
"""
TAKEN_IN = f"""
import json, resource, sqlite3, sys, time
from pathlib import Path
from bench_core import imports
from bench_core.store import Store
from bench_core.table_file import open_table
began, busy = time.monotonic(), time.process_time()
with Store() as store:
    imports.take_in(store, open_table("many.csv", Path(sys.argv[1])))
took = [time.monotonic() - began, time.process_time() - busy, {PEAK}]
with sqlite3.connect(store.path) as db:
    rows = db.execute("SELECT sum(count) FROM packed_epochs").fetchone()[0]
print(json.dumps([*took, rows]))
"""


def written(path: Path, runs: int) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, result_csv.COLUMNS, restval="")
        writer.writeheader()
        for one in many_runs(runs, EPOCHS):
            writer.writerows(result_csv.rows(one.run, one.epochs))
    return path


class Took(NamedTuple):
    """Wall seconds, seconds of a core, peak memory in bytes, and how many rows there were."""

    seconds: float
    cpu_seconds: float
    peak: float
    rows: int


def in_a_process(code: str, file: Path, data: Path) -> Took:
    data.mkdir(exist_ok=True)
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(file)],
        cwd=CHECKOUT,
        env={**os.environ, "BENCH_DATA": str(data), "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return Took(*json.loads(told.stdout))


class Writer(threading.Thread):
    """What a worker does meanwhile: it writes a little all the time, and how long it waited."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.longest, self.stop = path, 0.0, threading.Event()

    def run(self) -> None:
        db = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        while not self.stop.wait(0.02):
            began = time.monotonic()
            db.execute("INSERT OR REPLACE INTO experiments VALUES ('worker', 1.0, '{}')")
            self.longest = max(self.longest, time.monotonic() - began)
        db.execute("DELETE FROM experiments WHERE id = 'worker'")
        db.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the runs of the large file; what that took is told."""
    folder = tmp_path_factory.mktemp("scale")
    large, small = (written(folder / f"{runs}.csv", runs) for runs in (RUNS, RUNS // 10))
    # By turns, as a machine is not equally fast all the time.
    turns = [
        (
            in_a_process(BY_PANDAS, large, folder / "pandas"),
            in_a_process(TAKEN_IN, large, folder / f"turn {turn}"),
        )
        for turn in (1, 2, 3)
    ]
    pandas, ours = sorted(turns, key=lambda turn: turn[1].seconds / turn[0].seconds)[1]
    tenths = [in_a_process(TAKEN_IN, small, folder / f"tenth {turn}") for turn in (1, 2, 3)]
    tenth = median(one.cpu_seconds for one in tenths)
    growth = median(turn[1].cpu_seconds for turn in turns) / tenth / 10
    times = ours.seconds / pandas.seconds
    print(
        f"\n{ours.rows:,} epochs of {RUNS:,} runs, {large.stat().st_size / 1e6:.0f} MB, the median "
        f"of three turns: pandas reads them in {pandas.seconds:.1f} s, they are taken in in "
        f"{ours.seconds:.1f} s: {times:.2f} times the time on {os.cpu_count()} cores (goal 3), "
        f"{ours.cpu_seconds / pandas.cpu_seconds:.2f} times the work of a core, with "
        f"{ours.peak / 1e6:.0f} MB at most (goal "
        "1500)"
        f"\na tenth of them takes {tenth:.2f} s of a core: a row of the whole costs "
        f"{growth:.2f} times as much (goal: no more)"
    )
    assert ours.rows == RUNS * EPOCHS
    assert SCALE < 1 or times <= 3
    assert SCALE < 1 or ours.peak < 1.5e9
    assert SCALE < 1 or growth < 2  # shared cores scatter by that much; by the square it is 10
    return folder / "turn 3"


def test_a_worker_writes_while_a_million_epochs_come_in(data: Path) -> None:
    file = data.parent / f"{RUNS}.csv"
    folder = data.parent / "beside"
    folder.mkdir()
    Store(folder / "bench.db").close()
    writer = Writer(folder / "bench.db")
    writer.start()
    seconds = in_a_process(TAKEN_IN, file, folder).seconds
    writer.stop.set()
    writer.join()
    print(f"\na writer beside it waited {writer.longest:.2f} s at most, of {seconds:.1f} s")
    assert writer.longest < max(5.0, seconds / 3)


def until_new_table(page: Page, act: Callable[[], None]) -> float:
    """Seconds from a click until the first table on the page is another one."""
    page.evaluate("document.querySelectorAll('[data-testid=stDataFrame]').forEach(t => t.old = 1)")
    began = time.monotonic()
    act()
    page.wait_for_function(
        "() => [...document.querySelectorAll('[data-testid=stDataFrame]')]"
        ".some(t => !t.old && t.querySelector('canvas'))"
    )
    return time.monotonic() - began


def test_compare_and_results_open_with_ten_thousand_runs(
    data: Path,
    server: Callable[..., str],
    settled: Callable[[Page], None],
    context: BrowserContext,
) -> None:
    """Real Chromium, a fresh tab each time. The first one finds a server that has just started, and
    that imports what the pages need; the goals are those of the others."""
    address = server(data=data)
    opened: dict[str, list[float]] = {"Compare": [], "Results": []}
    filtered: dict[str, list[float]] = {"Compare": [], "Results": []}
    for _ in range(4):
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.goto(address)
        expect(page.get_by_role("heading", name="Does torch.compile pay off?")).to_be_visible()
        settled(page)
        for name in opened:
            link = page.get_by_role("link", name=name, exact=False).first
            opened[name].append(until_new_table(page, link.click))
            settled(page)
            machine = page.get_by_test_id("stButtonGroup").first.get_by_text("T4", exact=True)
            filtered[name].append(until_new_table(page, machine.click))
            settled(page)
        page.close()
    for name in opened:
        first, *others = opened[name]
        table, narrowed = median(others), median(filtered[name][1:])
        print(
            f"\n{name}: first table {table:.2f} s (goal 2), filter {narrowed:.2f} s (goal 1), the "
            f"medians of three tabs; {first:.2f} s right after the start of the server"
        )
        assert SCALE < 1 or (table < 2 and narrowed < 1)
