"""From which input size on compiling pays: promises over planted comparisons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench_core.comparison import Comparison
from bench_core.measured import measure
from bench_core.pairing import comparisons
from bench_core.sizes import sizes_text, sizes_that_pay
from bench_core.spec import Variant
from bench_core.store import Store
from tests.planted import COMPILE, EAGER, planted_experiment

THIN = "\u202f"


def function_pairs(folder: Path, sizes: tuple[int, ...], repeats: int = 3) -> list[Comparison]:
    """Eager takes 6 us + 1.6 ns * n a call, compiled 12 us + 0.7 ns * n: even at n = 6 667."""
    with Store(folder / "bench.db") as store:
        planted_experiment(
            store,
            models=("function:sin_cos",),
            machine="CPU",
            batch_sizes=sizes,
            variants=(EAGER, COMPILE),
            repeats=repeats,
            workload={"task": "infer"},
        )
        runs = store.runs()
        epochs = store.epochs([run.number for run in runs])
        return list(comparisons(measure(run, epochs[run.number]) for run in runs).pairs)


def swapped(pair: Comparison) -> Comparison:
    """Faster becomes slower and the other way round."""
    return replace(
        pair,
        baseline=replace(pair.baseline, runs=pair.candidate.runs),
        candidate=replace(pair.candidate, runs=pair.baseline.runs),
    )


def test_it_pays_from_the_smallest_size_after_which_it_always_does(tmp_path):
    pairs = function_pairs(tmp_path, (100, 1000, 10_000, 100_000))
    found = sizes_that_pay(pairs[::-1])
    assert (found.measured, found.onward) == ((100, 1000, 10_000, 100_000), 10_000)
    assert (found.alone, found.first_look) == ((), False)
    assert sizes_text(pairs) == f"Compiling pays from n = 10{THIN}000 on (sin_cos, CPU)"


def test_where_it_is_never_faster_no_size_is_named(tmp_path):
    pairs = function_pairs(tmp_path, (100, 1000))
    assert sizes_that_pay(pairs).onward is None
    assert sizes_text(pairs) == (
        f"Compiling pays at no measured size, n = 100 to 1{THIN}000 (sin_cos, CPU)"
    )


def test_fewer_than_three_runs_an_arm_are_a_first_look(tmp_path):
    pairs = function_pairs(tmp_path, (100, 1000, 10_000, 100_000), repeats=1)
    assert sizes_text(pairs) == (
        f"First look: compiling seems to pay from n = 10{THIN}000 on (sin_cos, CPU); no verdict "
        "before 3 runs an arm"
    )


def test_a_gain_that_is_lost_at_the_largest_size_is_no_from_on(tmp_path):
    *small, last = function_pairs(tmp_path, (100, 10_000, 100_000))
    found = sizes_that_pay([*small, swapped(last)])
    assert (found.onward, found.alone) == (None, (10_000,))
    text = sizes_text([*small, swapped(last)])
    assert f"only at n = 10{THIN}000, not at 100{THIN}000" in text


def test_a_gain_below_a_gap_is_named_apart(tmp_path):
    first, middle, last = function_pairs(tmp_path, (100, 10_000, 100_000))
    text = sizes_text([swapped(first), swapped(middle), last])
    assert f"from n = 100{THIN}000 on, and at 100 (" in text


def test_the_smallest_and_the_only_size_say_what_they_are(tmp_path):
    pairs = function_pairs(tmp_path, (10_000, 100_000))
    assert f"from n = 10{THIN}000 on, the smallest measured" in sizes_text(pairs)
    assert f"pays at n = 10{THIN}000, the only size measured" in sizes_text(pairs[:1])
    assert "does not pay at n = 10" in sizes_text([swapped(pairs[0])])


def test_another_variant_is_called_by_its_name(tmp_path):
    [pair] = function_pairs(tmp_path, (10_000,))
    lite = replace(pair.candidate, variant=Variant(execution="compile", mode="lite"))
    assert sizes_text([replace(pair, candidate=lite)]).startswith("Compile lite pays at")


def test_no_comparison_has_no_answer():
    with pytest.raises(ValueError, match="give one at least"):
        sizes_that_pay([])
