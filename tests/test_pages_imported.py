"""Pages show runs that other tools measured, of which only a stated time is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench_core import imports
from bench_core.store import Store
from tests.driven_pages import opened, said, table
from tests.test_foreign_csv import (
    COMPILED_FILE,
    COMPILED_ROWS,
    DYNAMO_FILE,
    DYNAMO_HEADER,
    DYNAMO_ROW,
    EAGER_FILE,
    EAGER_ROWS,
    TIMM_HEADER,
)
from tests.test_foreign_csv import table as file_of


@pytest.fixture(autouse=True)
def store(held_folder: Path) -> Iterator[Store]:
    with Store() as opened_store:
        for name, rows in ((EAGER_FILE, EAGER_ROWS), (COMPILED_FILE, COMPILED_ROWS)):
            imports.take_in(opened_store, file_of(name, TIMM_HEADER, *rows))
        runner = file_of(DYNAMO_FILE, DYNAMO_HEADER, DYNAMO_ROW)
        imports.take_in(opened_store, runner, {"machine": "lab"})
        yield opened_store


def test_compare_shows_the_ratio_of_stated_times_as_a_first_look() -> None:
    at = opened("compare")
    rows = table(at, "Speedup")
    assert len(rows) == 3
    assert list(rows["Speedup"]) == pytest.approx([2.0] * 3)
    assert "no single iterations, so their scatter is unknown" in said(at)


def test_results_lists_and_shows_a_run_that_only_a_file_knows() -> None:
    at = opened("results", run="8")
    words = said(at)
    assert "Run 8" in words
    assert "known from its file only" in words
    assert len(table(at, "Model")) == 8


def test_compare_offers_no_run_of_a_model_that_only_a_file_knows(store: Store) -> None:
    rows = [
        f"cpu,lab,mynet,{variant},{batch},{epoch},10"
        for variant, batch in (("eager", 16), ("compile", 32))
        for epoch in (1, 2, 3, 4)
    ]
    header = "device,machine,model,variant,batch_size,epoch,epoch_seconds"
    imports.take_in(store, file_of("mine.csv", header, *rows))
    one, other = [run.number for run in store.runs() if run.spec.workload.model == "other:mynet"]
    at = opened("compare", runs=f"{one},{other}")
    assert "these runs differ in more than the variant" in said(at)
    assert [button.label for button in at.button if button.label.startswith("Queue")] == []
