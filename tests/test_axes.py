"""Comparisons along other axes than the variant, by turns, against the floor, and by override."""

from dataclasses import replace

import pytest

from bench_core import pairing
from bench_core.pairing import Axis
from bench_core.spec import Rung
from bench_core.store import Store
from tests.planted import COMPILE, EAGER, measured_in, planted_experiment


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
