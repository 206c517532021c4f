"""Comparisons along other axes than the variant, by turns, against the floor, and by override."""

from dataclasses import replace

import pytest

from bench_core import pairing
from bench_core.pairing import Axis
from bench_core.spec import Rung
from bench_core.store import Store
from tests.planted import COMPILE, EAGER, SHAPES, measured_in, planted_experiment


def test_a_fairness_ladder_is_compared_along_all_that_its_rungs_change(store: Store) -> None:
    layout, half = {"memory_layout": "channels_last"}, {"precision": "bf16"}
    rungs = (
        Rung(),
        Rung(workload=layout),
        Rung(workload={**layout, **half}),
        Rung(workload={**layout, **half}, variant=COMPILE),
    )
    experiment = planted_experiment(store, rungs=rungs)
    assert experiment.axis == ("precision", "memory_layout", "variant")
    found = pairing.comparisons(measured_in(store), Axis.of(experiment))
    assert [pair.candidate.name for pair in found.pairs] == [
        "eager, fp32, channels_last",
        "eager, bf16, channels_last",
        "compile, bf16, channels_last",
    ]
    assert [round(pair.speedup.ratio, 1) for pair in found.pairs] == [1.1, 1.7, 1.9]
    assert found.pairs[0].headline.startswith(
        "resnet101, eager, fp32, channels_last against eager, fp32, contiguous, on T4"
    )


def test_arms_that_took_turns_are_compared_by_their_pairs(store: Store) -> None:
    planted_experiment(store, protocol="paired", repeats=4)
    [pair] = pairing.comparisons(measured_in(store)).pairs
    assert pair.speedup.kind == "paired"
    assert len(pair.took_turns) == 4


def test_runs_outside_of_the_pairs_do_not_mix_with_them(store: Store) -> None:
    planted_experiment(store, repeats=2)
    planted_experiment(store, protocol="paired", repeats=3)
    [pair] = pairing.comparisons(measured_in(store)).pairs
    assert pair.speedup.kind == "paired"
    assert len(pair.baseline.runs) == len(pair.candidate.runs) == 3


def test_too_few_pairs_are_compared_as_single_runs(store: Store) -> None:
    planted_experiment(store, repeats=2)
    planted_experiment(store, protocol="paired", repeats=2)
    [pair] = pairing.comparisons(measured_in(store)).pairs
    assert pair.speedup.kind == "welch"
    assert pair.speedup.baseline_runs == 4


def test_equal_arms_give_the_machines_floor_and_a_smaller_difference_is_none(
    store: Store,
) -> None:
    equal = planted_experiment(store, rungs=(Rung(side="A"), Rung(side="B")))
    measured = measured_in(store)
    assert pairing.comparisons(measured).pairs == ()  # both are eager
    [pair] = pairing.comparisons(measured, Axis.of(equal)).pairs
    assert (pair.baseline.name, pair.candidate.name) == ("eager A", "eager B")
    [floor] = pairing.noise_floors(measured).values()
    assert 0 < floor < 0.03
    planted_experiment(store)
    [pair] = pairing.comparisons(measured_in(store)).pairs
    assert pair.floor == floor and pair.shows_difference
    low = replace(pair, floor=0.2)
    assert low.speedup.verdict == "faster" and not low.shows_difference
    assert low.verdict_text == "no difference shown"
    assert "equal arms may lie 22.1\u00a0% apart" in low.detail


def test_of_several_equal_arms_of_one_experiment_the_farthest_apart_are_the_floor(
    store: Store,
) -> None:
    quiet, loud = (
        replace(SHAPES["T4", model][0], process_scatter=scatter)
        for model, scatter in (("resnet18", 0.001), ("resnet101", 0.02))
    )
    shapes = {("T4", "resnet101"): (loud, loud), ("T4", "resnet18"): (quiet, quiet)}
    equal = (Rung(side="A"), Rung(side="B"))
    for models in (("resnet101", "resnet18"), ("resnet18", "resnet101")):
        planted_experiment(store, models=models, rungs=equal, shapes=shapes)
        measured = [
            one
            for one in measured_in(store)
            if one.run.experiment_id == measured_in(store)[-1].run.experiment_id
        ]
        alone = [
            pairing.noise_floors(one for one in measured if one.run.spec.workload.model == model)
            for model in models
        ]
        [floor] = pairing.noise_floors(measured).values()
        assert floor == max(value for floors in alone for value in floors.values())
        assert len({value for floors in alone for value in floors.values()}) == 2


@pytest.mark.parametrize(
    ("task", "names", "changed"),
    [
        ("train", ("samples",), {"samples": 512}),
        ("train", ("drop_last",), {"drop_last": False}),
        ("train", ("batch_size",), {"batch_size": 64}),
        ("infer", ("batch_size", "samples"), {"batch_size": 8}),
    ],
)
def test_epochs_or_calls_that_handle_unlike_many_samples_have_no_ratio(
    store: Store, task: str, names: tuple[str, ...], changed: dict[str, object]
) -> None:
    """62 batches of 16 are 992 samples, 15 of 64 are 960."""
    for fields in ({}, changed):
        work = {"task": task, "batch_size": 16, **fields}
        batch = work.pop("batch_size")
        planted_experiment(
            store, variants=(EAGER,), batch_sizes=(batch,), workload=work, models=("resnet18",)
        )
    found = pairing.comparisons(measured_in(store), Axis(names))
    assert found.pairs == ()
    assert all("samples done in an epoch or call is " in left.reason for left in found.left_out)
    assert all("compare other arms within each" in left.reason for left in found.left_out)


@pytest.mark.parametrize("changed", [{"batch_size": 32}, {"drop_last": False}, {"samples": 1030}])
def test_epochs_that_handle_as_many_samples_have_a_ratio_along_any_axis(
    store: Store, changed: dict[str, object]
) -> None:
    for fields in ({}, changed):
        work = {"samples": 1024, **fields}
        batch = work.pop("batch_size", 16)
        planted_experiment(store, variants=(EAGER,), batch_sizes=(batch,), workload=work)
    [pair] = pairing.comparisons(measured_in(store), Axis(tuple(changed))).pairs
    assert pair.axis == tuple(changed)


def test_how_many_samples_an_epoch_has_is_no_secret_where_no_source_states_what_is_dropped(
    store: Store,
) -> None:
    for samples in (1000, 512):
        planted_experiment(store, variants=(EAGER,), workload={"samples": samples})
    vague = [replace(m, run=replace(m.run, unstated=("drop_last",))) for m in measured_in(store)]
    assert pairing.comparisons(vague, Axis(("samples",))).pairs == ()


def test_a_fact_that_neither_source_states_agrees_and_is_told(store: Store) -> None:
    planted_experiment(store)
    vague = [
        replace(one, run=replace(one.run, unstated=("torch", "threads in use")))
        for one in measured_in(store)
    ]
    [pair] = pairing.comparisons(vague).pairs
    assert pair.unstated == ("threads in use", "torch")
    found = pairing.differences(vague[0].run, measured_in(store)[1].run)
    assert found["torch"] == ("2.14.1", "not stated")
    mixed = [vague[0], *measured_in(store)[1:]]
    assert vague[0].run in [
        run for left in pairing.comparisons(mixed).left_out for run in left.runs
    ]


def test_a_person_may_compare_against_the_gate_and_is_told_what_differs(store: Store) -> None:
    planted_experiment(store, variants=(EAGER,))
    planted_experiment(store, variants=(COMPILE,), workload={"threads": 2})
    measured = measured_in(store)
    assert pairing.comparisons(measured).pairs == ()
    pair = pairing.override(measured[:3], measured[3:])
    assert pair.overridden == ("threads",)
    assert pair.speedup.verdict == "faster"
    with pytest.raises(ValueError, match="the candidate has no steady run: no run"):
        pairing.override(measured[:3], [])
