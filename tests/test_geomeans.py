"""Means that may be set beside each other: over the same workloads, and what that leaves out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench_core.comparison import Comparison
from bench_core.geomeans import by_machine, by_variant
from bench_core.measured import measure
from bench_core.pairing import Axis, Comparisons, comparisons
from bench_core.source import Source
from bench_core.spec import Rung, Variant
from bench_core.store import Store
from pages.parts.comparison_words import answer
from tests import planted
from tests.planted import COMPILE, EAGER, Shape, measured_in, planted_experiment

TUNED = Variant(execution="compile", mode="max-autotune")


def pairs_of(store: Store, axis: Axis | None = None) -> tuple[Comparison, ...]:
    runs = store.runs()
    epochs = store.epochs([run.number for run in runs])
    measured = [measure(run, epochs[run.number]) for run in runs]
    return comparisons(measured, *([axis] if axis else [])).pairs


def ratio(pairs: tuple[Comparison, ...], **wanted: Any) -> float:
    [found] = [
        pair.speedup.ratio
        for pair in pairs
        if wanted.items()
        <= {
            "model": pair.workload.model,
            "machine": pair.machine,
            "arm": pair.candidate.name,
        }.items()
    ]
    return found


def test_one_variant_has_one_mean_over_all_of_its_workloads(store):
    planted_experiment(store, models=("resnet101", "resnet50"))
    pairs = pairs_of(store)
    [mean] = by_variant(pairs).means
    one, other = (ratio(pairs, model=model) for model in ("resnet101", "resnet50"))
    assert mean.ratio == pytest.approx((one * other) ** 0.5)
    assert (mean.name, mean.workloads) == ("compile", 2)
    assert by_variant(pairs).left_out == ()


def test_means_of_variants_are_over_the_workloads_that_all_of_them_have(store):
    planted_experiment(store, models=("resnet101",), variants=(EAGER, COMPILE, TUNED))
    planted_experiment(store, models=("vgg16", "resnet18"))
    pairs = pairs_of(store)
    found = by_variant(pairs)
    assert {mean.name: mean.workloads for mean in found.means} == {
        "compile": 1,
        "compile max-autotune": 1,
    }
    assert {mean.name: mean.ratio for mean in found.means}["compile"] == pytest.approx(
        ratio(pairs, model="resnet101", arm="compile")
    )
    assert found.left_out == ("2 workloads of compile are left out: not every variant has them",)


def test_variants_that_share_no_workload_have_no_means(store):
    planted_experiment(store, models=("resnet101",))
    planted_experiment(store, models=("resnet50",), variants=(EAGER, TUNED))
    found = by_variant(pairs_of(store))
    assert found.means == ()
    assert found.left_out == ("no workload has all 2 variants, so they have no common mean",)


def test_a_variant_that_shares_no_workload_takes_no_mean_from_the_others(store):
    planted_experiment(store, models=("resnet101", "vgg16"))
    planted_experiment(store, models=("resnet50",), variants=(EAGER, TUNED))
    pairs = pairs_of(store)
    found = by_variant(pairs)
    assert [(mean.name, mean.workloads) for mean in found.means] == [("compile", 2)]
    assert found.left_out == (
        "compile max-autotune is left out: it shares no workload with another variant",
    )
    _, words = answer(Comparisons(pairs, ()))
    assert "Geometric mean of compile " in words


def test_as_many_variants_as_possible_share_the_workloads_of_their_means(store):
    """A third that has one workload of one of the two leaves the mean of both as it is."""
    overhead = Variant(execution="compile", mode="reduce-overhead")
    planted_experiment(store, models=("resnet101",), variants=(EAGER, COMPILE, TUNED))
    planted_experiment(store, models=("resnet50",), variants=(EAGER, COMPILE, overhead))
    planted_experiment(store, models=("vgg16",), variants=(EAGER, COMPILE, TUNED))
    found = by_variant(pairs_of(store))
    assert {mean.name: mean.workloads for mean in found.means} == {
        "compile": 2,
        "compile max-autotune": 2,
    }
    assert set(found.left_out) == {
        "1 workload of compile is left out: not every variant has it",
        "compile reduce-overhead is left out: it has none of the workloads that the others share",
    }


def test_means_of_machines_are_over_the_models_that_all_of_them_have(store):
    planted_experiment(store, models=("resnet101", "resnet18", "vgg16"))
    planted_experiment(store, models=("resnet101", "resnet18"), machine="A100")
    pairs = pairs_of(store)
    found = by_machine(pairs)
    assert [(mean.name, mean.workloads) for mean in found.means] == [("A100", 2), ("T4", 2)]
    expected = ratio(pairs, model="resnet101", machine="T4") * ratio(
        pairs, model="resnet18", machine="T4"
    )
    assert found.means[1].ratio == pytest.approx(expected**0.5)
    assert found.left_out == ("1 workload of T4 is left out: not every machine has it",)


def test_two_devices_of_one_machine_have_a_mean_each(store, monkeypatch):
    planted_experiment(store, models=("resnet101",))
    monkeypatch.delitem(planted.DEVICES, "T4")  # the same machine without its GPU
    slower = {("T4", "resnet101"): (Shape(60.0), Shape(120.0))}
    planted_experiment(store, models=("resnet101",), shapes=slower)
    means = {mean.name: mean.ratio for mean in by_machine(pairs_of(store)).means}
    assert means == pytest.approx({"T4 (cuda:0)": 66.2 / 61.1, "T4 (cpu)": 0.5}, rel=0.01)


def test_two_machines_of_one_label_have_a_mean_each(store):
    """A machine's id tells a person nothing: a device's name does, or the file, or a number."""
    planted_experiment(store, models=("resnet101",))
    measured = measured_in(store)

    def names_with(device_name: str, **changed: object) -> set[str]:
        others = []
        for one in measured:
            environment = one.run.environment
            assert environment
            other = environment.changed(machine_id="other", device_name=device_name)
            others.append(measure(replace(one.run, environment=other, **changed), one.epochs))
        pairs = [*comparisons(measured).pairs, *comparisons(others).pairs]
        return {mean.name for mean in by_machine(pairs).means}

    known = measured[0].run.environment
    assert known
    assert names_with("NVIDIA L4") == {f"T4 ({known.device_name})", "T4 (NVIDIA L4)"}
    source = Source(file="a100.csv", family="results")
    assert names_with(known.device_name, source=source) == {"T4", "T4 (a100.csv)"}
    assert names_with(known.device_name) == {"T4 (1)", "T4 (2)"}


def test_a_first_look_moves_no_mean_of_verdicts(store):
    planted_experiment(store, models=("resnet101",))
    planted_experiment(store, models=("resnet50",), repeats=1)
    pairs = pairs_of(store)
    found = by_variant(pairs)
    assert [mean.ratio for mean in found.means] == [ratio(pairs, model="resnet101")]
    assert found.left_out == ("1 first look is in no mean",)
    assert not found.first_looks


def test_first_looks_alone_have_a_mean_that_says_so(store):
    planted_experiment(store, models=("resnet101", "resnet50"), repeats=1)
    found = by_variant(pairs_of(store))
    assert found.first_looks
    assert found.means[0].workloads == 2


def test_along_another_axis_a_workload_is_one_whatever_its_arms_differ_in(store):
    rungs = [
        Rung(workload={"precision": "fp32"}),
        Rung(workload={"precision": "bf16"}),
        Rung(workload={"precision": "fp32"}, variant=COMPILE),
        Rung(workload={"precision": "bf16"}, variant=COMPILE),
    ]
    planted_experiment(store, models=("resnet101",), rungs=rungs)
    pairs = pairs_of(store, Axis(("precision",), (("precision", "fp32"),)))
    assert len(pairs) == 2
    [mean] = by_variant(pairs).means
    assert (mean.name, mean.workloads) == ("bf16", 2), "of eager and of compile"


def test_nothing_has_no_mean():
    assert by_variant(()).means == ()
