"""What a comparison is worth a day: by hand where the times are exact, in words where they are."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from bench_core import pairing
from bench_core.comparison import Comparison, ends_text
from bench_core.measured import measure
from bench_core.planner import saved_a_day, worth
from bench_core.spec import Variant
from bench_core.stats import Band
from bench_core.store import Store
from tests.planted import COMPILE, EAGER, Shape, planted_experiment

EXACT = {"process_scatter": 0.0, "epoch_scatter": 0.0, "wait_share": 0.0}


def pairs_of(store: Store, **grid: Any) -> tuple[Comparison, ...]:
    planted_experiment(store, **grid)
    runs = store.runs()
    epochs = store.epochs([run.number for run in runs])
    return pairing.comparisons([measure(run, epochs[run.number]) for run in runs]).pairs


def words(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u202f", " ")


def test_cold_and_shared_starts_are_worth_what_hand_arithmetic_says(store: Store) -> None:
    # 5 s won an epoch, 68 s lost a cold start and 2 s a warm one: 30 x 5 - 68 = 82, 30 x 5 - 2.
    exact = (
        Shape(66.0, **EXACT),
        Shape(61.0, compile_seconds=68.0, warm_compile_seconds=2.0, **EXACT),
    )
    [pair] = pairs_of(store, shapes={("T4", "resnet101"): exact})
    cold, shared = worth(pair, 30, 4, shared=False), worth(pair, 30, 4, shared=True)
    saved = saved_a_day(pair, 30, 4, shared=False)
    assert saved.seconds == pytest.approx(4 * 82, rel=0.02)
    assert saved.ends.low < saved.seconds < saved.ends.high
    assert saved_a_day(pair, 30, 4, shared=True).seconds == pytest.approx(4 * 148, rel=0.02)
    assert "It pays from 14 epochs a start on" in words(cold.detail)
    assert "It pays from 1 epoch a start on" in words(shared.detail)
    assert saved_a_day(pair, 10, 1, shared=False).seconds == pytest.approx(-18, rel=0.06)


def test_the_answer_stands_alone_with_its_interval(store: Store) -> None:
    [pair] = pairs_of(store)
    told = words(worth(pair, 30, 4, shared=False).answer)
    assert told == (
        "resnet101 on T4, compile instead of eager, 4 starts a day of 30 epochs each: saves "
        "5 min 40 s a day (95 %: 3 min 50 s to 7 min 30 s)."
    )
    assert ": costs 18 s a day (95 %: 7 s to 29 s)." in words(worth(pair, 10, 1, False).answer)


def test_where_the_interval_holds_zero_no_difference_is_shown(store: Store) -> None:
    [pair] = pairs_of(store, models=("resnet18",))
    found = worth(pair, 30, 1, shared=True)
    ends = saved_a_day(pair, 30, 1, shared=True).ends
    assert ends.low < 0 < ends.high
    assert "no difference shown, between 5 s lost and 3 s saved a day (95 %)" in words(found.answer)
    assert "no number of epochs is sure to pay" in found.detail


def test_a_start_that_is_never_won_back_costs_although_no_steady_difference_is_shown(
    store: Store,
) -> None:
    [pair] = pairs_of(store, models=("resnet18",))
    found = worth(pair, 30, 4, shared=False)
    assert saved_a_day(pair, 30, 4, shared=False).ends.high < 0
    assert "costs 2 min 30 s a day" in words(found.answer)


def test_a_first_look_gives_its_estimate_and_says_that_it_has_no_interval(store: Store) -> None:
    [pair] = pairs_of(store, repeats=2)
    found = worth(pair, 30, 4, shared=False)
    assert saved_a_day(pair, 30, 4, shared=False).ends is None
    assert "a first look, without an interval before 3 runs an arm" in found.answer
    assert "95" not in found.answer


def test_a_difference_below_the_noise_floor_wins_nothing(store: Store) -> None:
    [pair] = pairs_of(store)
    noisy = replace(pair, floor=0.2)
    found = worth(noisy, 100, 1, shared=False)
    assert saved_a_day(noisy, 100, 1, shared=False).seconds > 0
    assert "no difference shown" in found.answer and "equal arms may lie apart" in words(
        found.answer
    )


def test_a_slowdown_below_the_noise_floor_costs_no_more_than_its_start(store: Store) -> None:
    [pair] = pairs_of(store, models=("resnet18",), machine="A100")
    assert ": costs " in worth(pair, 10_000, 1, shared=False).answer
    noisy = replace(pair, floor=0.2)
    assert "no difference shown" in worth(noisy, 10_000, 1, shared=False).answer
    # 33 s of compiling are more than a fifth of ten epochs of 3 s.
    assert ": costs " in worth(noisy, 10, 1, shared=False).answer


def test_a_baseline_that_compiles_starts_from_the_same_cache(store: Store) -> None:
    tuned = COMPILE.changed(mode="max-autotune")
    planted_experiment(store, variants=(COMPILE, tuned))
    runs = store.runs()
    epochs = store.epochs([run.number for run in runs])
    measured = [measure(run, epochs[run.number]) for run in runs]
    [pair] = pairing.comparisons(measured, pairing.Axis.against(COMPILE)).pairs
    for shared in (False, True):
        saved = saved_a_day(pair, 1, 1, shared)
        assert saved.ends.low <= saved.seconds <= saved.ends.high
        assert abs(saved.seconds) < 5.0  # both compile equally long, in 2.4 or 70 s


def test_ahead_until_has_ends_of_its_own() -> None:
    assert ends_text(Band(0.3, 4.2), "ahead until") == "never ahead to 4"
    assert ends_text(Band(3.0, math.inf), "ahead until") == "3 to for good"
    assert ends_text(Band(0.0, math.inf)) == "at once to never"


def test_what_starts_cheaper_and_may_never_be_ahead_is_told_so(store: Store) -> None:
    """eager instead of compile from a warm cache, which hardly costs more than eager's warm-up."""
    compiled = Shape(64.0, compile_seconds=70.0, warm_compile_seconds=6.0)
    shapes = Shape(66.0, warmup_seconds=1.2), compiled
    planted_experiment(
        store, variants=(COMPILE.changed(cache="warm"), EAGER), shapes={("T4", "resnet101"): shapes}
    )
    runs = store.runs()
    epochs = store.epochs([run.number for run in runs])
    measured = [measure(run, epochs[run.number]) for run in runs]
    [pair] = pairing.comparisons(measured, pairing.Axis.against(COMPILE)).pairs
    told = words(worth(pair, 30, 1, shared=True).detail)
    assert "It pays up to 1 epoch a start only (95 %: never ahead to 3)." in told


@pytest.mark.parametrize(
    ("cache", "shared", "missing"), [("cold", True, "warm"), ("warm", False, "cold")]
)
def test_a_start_that_was_not_measured_is_named_with_the_way_out(
    store: Store, cache: Any, shared: bool, missing: str
) -> None:
    [pair] = pairs_of(store, variants=(EAGER, COMPILE.changed(cache=cache)), repeats=1)
    found = worth(pair, 30, 4, shared)
    assert saved_a_day(pair, 30, 4, shared) is None
    assert found.answer == f"A start of compile from a {missing} cache was not measured on T4."
    assert f"again with cache {missing}" in found.detail


def test_inference_counts_iterations_and_a_variant_without_a_cache_starts_alike(
    store: Store,
) -> None:
    [pair] = pairs_of(
        store, models=("resnet18",), machine="CPU", batch_sizes=(1,),
        variants=(EAGER, Variant(execution="onednn_graph")), workload={"task": "infer"},
    )  # fmt: skip
    cold, shared = worth(pair, 1000, 3, shared=False), worth(pair, 1000, 3, shared=True)
    assert cold == shared
    assert "3 starts a day of 1 000 iterations each: saves" in words(cold.answer)
    assert "from a" not in cold.detail


@pytest.mark.parametrize(
    ("count", "starts", "message"),
    [(0, 1, "epochs a start must be at least 1, got 0"), (1, -2, "starts a day must .* got -2")],
)
def test_a_plan_of_nothing_is_refused(store: Store, count: int, starts: int, message: str) -> None:
    [pair] = pairs_of(store, repeats=1)
    with pytest.raises(ValueError, match=message):
        worth(pair, count, starts, shared=False)


def draw_card() -> None:
    import sys
    from pathlib import Path as FilePath

    import streamlit as st

    sys.path.insert(0, str(FilePath.cwd()))
    from bench_core import pairing
    from bench_core.store import Store
    from pages.parts.measured import measured_runs
    from pages.parts.planner_card import planner_card

    with Store() as store:
        [pair] = pairing.comparisons(measured_runs(store, store.runs())).pairs
    planner_card(pair)
    st.caption("end")


def test_the_card_answers_first_and_follows_its_inputs(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted_experiment(store)
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    at = AppTest.from_function(draw_card, default_timeout=30)
    at.query_params["planner_epochs"] = "10"
    at.run()
    assert not at.exception
    told = words(at.markdown[1].value).replace("\\", "")
    assert told.endswith("1 start a day of 10 epochs: costs 18 s a day (95 %: 7 s to 29 s).")
    at.toggle(key="planner_shared").set_value(True).run()
    assert "saves" in at.markdown[1].value
    at.number_input(key="planner_epochs").set_value(200).run()
    assert "200 epochs" in words(at.markdown[1].value)
