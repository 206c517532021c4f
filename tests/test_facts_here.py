"""Which conditions of runs that are here may be said of a file's rows."""

from __future__ import annotations

from bench_core.facts_here import facts_like
from bench_core.imported import said_in
from bench_core.spec import Workload
from tests.planted import SHAPES, planted_experiment

MODEL = Workload(model="resnet18", batch_size=16)


def test_conditions_of_the_same_model_and_batch_are_told_with_where_they_were(store):
    for machine, samples in (("T4", 1024), ("A100", 1024), ("T4", 64)):
        planted_experiment(
            store,
            models=("resnet18",),
            machine=machine,
            shapes=SHAPES,
            repeats=1,
            epochs=4,
            workload={"samples": samples},
        )
    found = facts_like(store.runs(), [MODEL], ("samples", "drop_last"))
    assert list(found) == ["samples=64 drop_last=True", "samples=1024 drop_last=True"]
    assert list(found.values()) == [
        "as on T4: samples 64, 1 default",
        "as on A100, T4: samples 1024, 1 default",
    ]
    assert said_in(next(iter(found)).split()) == {"samples": "64", "drop_last": "True"}
    other = MODEL.model_copy(update={"batch_size": 32})
    assert facts_like(store.runs(), [other], ("samples",)) == {}
