"""Two arms and what their table says: rows that differ are told apart."""

from __future__ import annotations

from bench_core import imports
from bench_core.comparison import told_apart
from bench_core.pairing import comparisons
from bench_core.store import Store
from bench_core.table_file import open_table
from tests.planted import measured_in

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
