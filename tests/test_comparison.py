"""Two arms and what their table says: rows that differ are told apart."""

from __future__ import annotations

from bench_core import imports
from bench_core.comparison import told_apart
from bench_core.pairing import comparisons
from bench_core.store import Store
from bench_core.table_file import open_table
from pages.parts.comparison_words import difference_text, differing_facts
from tests.planted import measured_in, planted_experiment

HEADER = "device,machine,model,variant,batch_size,image_size,samples,epoch,epoch_seconds\n"


def test_rows_of_one_name_are_told_apart_by_all_that_differs(store: Store) -> None:
    cells = "".join(
        f"cpu,box,{model},{variant},16,{pixels},{samples},{epoch},{seconds}\n"
        for model, pixels, samples in (
            ("resnet18", 32, 512),
            ("resnet18", 224, 512),
            ("resnet18", 224, ""),
            ("vgg16", 64, 512),
        )
        for variant, seconds in (("eager", 2.0), ("compile", 1.0))
        for epoch in range(1, 5)
    )
    imports.take_in(store, open_table("sizes.csv", (HEADER + cells).encode()))
    pairs = comparisons(measured_in(store)).pairs
    assert told_apart(pairs) == [
        "samples 512, image_size 32",
        "samples 512, image_size 224",
        "samples not stated, image_size 224",
        "",
    ]


def test_only_what_differs_is_told_and_what_is_not_there_is_no_default(store: Store) -> None:
    planted_experiment(store, models=("small_cnn",), machine="CPU", repeats=1)
    planted_experiment(store, models=("small_cnn",), repeats=1, workload={"threads": 4}, measured=0)
    runs = store.runs()
    told = {name: values for name, *values in differing_facts(runs[:1], runs[1:2])}
    assert told["execution"] == ["eager", "compile"]
    assert told["backend"] == ["", "inductor"], "eager has none"
    threads = {name: values for name, *values in differing_facts(runs[1:2], runs[2:3])}["threads"]
    assert threads == ["default", "4"]
    assert difference_text("threads", (4, None)) == "threads 4 against default"
    assert difference_text("machine", (("T4", "a1"), ("T4", "b2"))) == (
        "machine T4 (a1) against T4 (b2)"
    )
