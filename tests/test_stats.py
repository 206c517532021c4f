"""Statistics whose answers are known by hand, from published examples or by simulation."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from bench_core import stats
from bench_core.events import Epoch
from bench_core.measured import Arm, Measured, measure
from bench_core.spec import Execution, Experiment, Measurement, Variant
from bench_core.store import Store
from tests.planted import EAGER

# R's `sleep` (Student 1908): published are Welch's interval -3.3654832 to 0.2054832 and the paired
# one -2.4598858 to -0.7001142. Taken as log seconds here.
SLEEP_1 = [math.exp(x) for x in (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)]
SLEEP_2 = [math.exp(x) for x in (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)]

ARTICLE_EAGER = [1.0] * 30
ARTICLE_COMPILE = [2.5] + [1 / 1.085] * 29


def noisy(count: int, relative: float, seed: int = 0) -> np.ndarray:
    return 60 * (1 + relative * np.random.default_rng(seed).standard_normal(count))


# Steady state


def test_steady_state_begins_after_the_first_epoch() -> None:
    steady = stats.steady_state([9.0, 2.0, 2.0, 2.0])
    assert steady == stats.SteadyState(1, 2.0, 0.0, 3, None)


def test_steady_state_begins_after_the_last_compile() -> None:
    seconds = [9.0, 2.0, 5.0, 2.0, 2.0, 2.0]
    assert stats.steady_state(seconds, [7, 0, 3, 0, 0, 0]).first == 3


def test_steady_state_begins_after_the_last_recording() -> None:
    seconds = [9.0, 2.0, 2.1, 2.0, 2.0, 2.0]
    assert (
        stats.steady_state(seconds, [7, 0, 0, 0, 0, 0], [False, True, True] + [False] * 3).first
        == 3
    )


def test_median_and_spread_are_of_the_steady_epochs_only() -> None:
    steady = stats.steady_state([50.0, 1.0, 2.0, 3.0])
    assert steady.median_seconds == 2.0
    assert steady.spread == pytest.approx(1.4826 / 2)


def test_a_run_that_compiles_in_every_epoch_has_no_steady_state() -> None:
    steady = stats.steady_state([9.0, 8.0, 8.0, 8.0], [7, 6, 6, 6])
    assert steady.first is None and steady.median_seconds is None and steady.spread is None
    assert steady.reason == "It compiled in every epoch, so none shows the steady speed."


@pytest.mark.parametrize(
    ("seconds", "compiling", "reason"),
    [
        (
            [9.0],
            [7],
            "It compiled in every epoch, so none shows the steady speed.",
        ),
        (
            [9.0],
            [0],
            "Only 0 epochs came after the first epoch; a steady state needs 3. "
            "Measure at least 3 more.",
        ),
        (
            [9.0, 2.0, 2.0],
            [7, 0, 0],
            "Only 2 epochs came after the first epoch; a steady state needs 3. "
            "Measure at least 1 more.",
        ),
        (
            [9.0, 2.0, 2.0, 8.0, 2.0],
            [7, 0, 0, 6, 0],
            "Only 1 epoch came after the last compile (epoch 4); a steady state needs 3. "
            "Measure at least 2 more.",
        ),
    ],
)
def test_too_few_steady_epochs_are_no_steady_state_and_say_why(
    seconds: list[float], compiling: list[float], reason: str
) -> None:
    steady = stats.steady_state(seconds, compiling)
    assert steady.first is None
    assert steady.reason == reason


def test_inference_skips_three_iterations_and_says_iteration() -> None:
    calls = [0.9, 0.5, 0.4, 0.1, 0.1]
    steady = stats.steady_state(calls, skip=3, unit="iteration")
    assert steady.reason is not None
    assert steady.reason.startswith("Only 2 iterations came after the first 3 iterations;")
    assert stats.steady_state([*calls, 0.1], skip=3, unit="iteration").first == 3


@pytest.mark.parametrize(
    ("count", "slow", "factor"),
    [(9, 4, 1.1), (12, 6, 1.1), (30, 5, 1.1), (30, 25, 1.1), (300, 100, 1.1), (30, 10, 0.9)],
)
def test_a_planted_warm_up_of_ten_per_cent_is_found(count: int, slow: int, factor: float) -> None:
    found = []
    for seed in range(40):
        seconds = noisy(count + 1, 0.01, seed)
        seconds[: slow + 1] *= factor
        found.append(stats.steady_state(seconds).first)
    assert found.count(slow + 1) >= 38


def test_a_slow_spell_in_the_middle_is_left_behind() -> None:
    seconds = noisy(40, 0.01)
    seconds[15:20] *= 1.2
    assert stats.steady_state(seconds).first == 20


def test_a_ramp_is_left_behind_but_for_its_last_per_cent() -> None:
    seconds = noisy(40, 0.002)
    seconds[:20] *= np.linspace(1.4, 1.02, 20)
    assert stats.steady_state(seconds).first in (19, 20, 21)


def test_a_change_below_one_per_cent_is_no_change_point() -> None:
    assert stats.steady_state([2.0] + [1.005] * 20 + [1.0] * 20).first == 1


@pytest.mark.parametrize("count", [8, 10, 20, 100])
@pytest.mark.parametrize("factor", [0.5, 1.3, 20.0])
def test_one_outlier_is_no_change_point(count: int, factor: float) -> None:
    for at in range(1, count):
        seconds = noisy(count, 0.01, seed=at)
        seconds[at] *= factor
        assert stats.steady_state(seconds).first == 1


@pytest.mark.parametrize("count", [3, 6, 9, 12, 20, 50, 100, 1000])
@pytest.mark.parametrize("shape", ["gaussian", "heavy tails", "skewed"])
def test_noise_alone_is_called_a_change_in_less_than_five_per_cent(count: int, shape: str) -> None:
    random = np.random.default_rng(count)
    trials = 200 if count <= 20 else 60 if count <= 100 else 20
    called = 0
    for _ in range(trials):
        if shape == "gaussian":
            noise = random.standard_normal(count + 1)
        elif shape == "heavy tails":
            noise = random.standard_t(3, count + 1)
        else:
            noise = random.exponential(size=count + 1)
        called += stats.steady_state(np.maximum(1 + 0.025 * noise, 0.3)).first != 1
    assert called / trials < 0.05


def test_equal_times_to_the_last_bit_are_steady() -> None:
    assert stats.steady_state([3.0] * 50) == stats.SteadyState(1, 3.0, 0.0, 49, None)


def test_thousands_of_iterations_are_judged_quickly_and_to_a_block() -> None:
    calls = noisy(20_003, 0.02)
    calls[:7000] *= 1.1
    started = time.process_time()
    steady = stats.steady_state(calls, skip=3)
    assert time.process_time() - started < 0.5
    assert steady.first is not None and abs(steady.first - 7000) <= 21


def test_a_thousand_epochs_take_less_than_fifty_milliseconds() -> None:
    seconds = noisy(1000, 0.02)
    times = []
    for _ in range(3):
        started = time.process_time()
        stats.steady_state(seconds)
        times.append(time.process_time() - started)
    assert min(times) < 0.05


def test_startup_excess_is_what_the_unsteady_epochs_cost_more() -> None:
    seconds = [9.0, 4.0, 2.0, 2.0, 2.0]
    steady = stats.steady_state(seconds, [7, 2, 0, 0, 0])
    assert stats.startup_excess(seconds, steady) == pytest.approx(9 + 4 - 2 * 2)


def test_startup_excess_of_a_run_without_a_steady_state_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a steady state. Only 1 epoch came after"):
        stats.startup_excess([9.0, 2.0], stats.steady_state([9.0, 2.0]))


# Speedup


def test_welch_agrees_with_the_published_sleep_data() -> None:
    result = stats.speedup(SLEEP_1, SLEEP_2)
    assert result.low is not None and result.high is not None
    assert math.log(result.ratio) == pytest.approx(-1.58)
    assert math.log(result.low) == pytest.approx(-3.3654832, abs=1e-6)
    assert math.log(result.high) == pytest.approx(0.2054832, abs=1e-6)
    assert (result.kind, result.verdict) == ("welch", "no difference shown")


def test_pairs_agree_with_the_published_sleep_data() -> None:
    result = stats.paired_speedup(SLEEP_1, SLEEP_2)
    assert result.low is not None and result.high is not None
    assert math.log(result.low) == pytest.approx(-2.4598858, abs=1e-6)
    assert math.log(result.high) == pytest.approx(-0.7001142, abs=1e-6)
    assert (result.kind, result.verdict) == ("paired", "slower")


@pytest.mark.parametrize(
    ("candidate_variance", "t_of_table"),
    [(1.0, 2.776445), (2 + math.sqrt(3), 3.182446), (0.0, 4.302653)],
)
def test_welch_has_4_3_and_2_degrees_of_freedom_where_the_formula_gives_them(
    candidate_variance: float, t_of_table: float
) -> None:
    # Three runs an arm: 2 (a + b)^2 / (a^2 + b^2) with a = 1.
    deviation = math.sqrt(candidate_variance)
    baseline = [math.exp(x) for x in (-1, 0, 1)]
    candidate = [math.exp(x) for x in (-deviation, 0, deviation)]
    result = stats.speedup(baseline, candidate)
    assert result.high is not None
    half = t_of_table * math.sqrt((1 + candidate_variance) / 3)
    assert math.log(result.high) == pytest.approx(half, abs=1e-5)


@pytest.mark.parametrize("runs", [(1, 1), (2, 2), (2, 5), (5, 1)])
def test_fewer_than_three_runs_an_arm_never_give_a_verdict(runs: tuple[int, int]) -> None:
    result = stats.speedup([100.0] * runs[0], [1.0] * runs[1])
    assert (result.kind, result.verdict) == ("first look", None)
    assert result.low is None and result.high is None
    assert result.ratio == pytest.approx(100)
    assert (result.baseline_runs, result.candidate_runs) == runs


def test_fewer_than_three_pairs_never_give_a_verdict() -> None:
    assert stats.paired_speedup([100.0, 100.0], [1.0, 1.0]).verdict is None


def test_three_clear_runs_an_arm_are_faster_and_the_other_way_round_slower() -> None:
    eager, compiled = [66.0, 66.2, 66.4], [61.0, 61.1, 61.2]
    there, back = stats.speedup(eager, compiled), stats.speedup(compiled, eager)
    assert (there.verdict, back.verdict) == ("faster", "slower")
    assert there.low is not None and back.high is not None
    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)


def test_runs_without_scatter_give_an_interval_without_nan() -> None:
    same = stats.speedup([3.1, 3.1, 3.1], [3.1, 3.1, 3.1, 3.1, 3.1])
    assert same.verdict == "no difference shown"
    assert [same.low, same.high] == pytest.approx([1, 1])
    faster = stats.speedup([4.0] * 3, [2.0] * 3)
    assert [faster.low, faster.high] == pytest.approx([2, 2])
    assert faster.verdict == "faster"
    assert stats.paired_speedup([3.1] * 3, [3.1] * 3).verdict == "no difference shown"


def test_a_wider_confidence_gives_a_wider_interval() -> None:
    arms = [66.0, 66.2, 66.4], [61.0, 61.1, 61.2]
    narrow, wide = stats.speedup(*arms, confidence=0.8), stats.speedup(*arms, confidence=0.99)
    assert narrow.low is not None and wide.low is not None
    assert wide.low < narrow.low


@pytest.mark.parametrize("count", [1, 3])
def test_times_of_no_machine_end_no_comparison(count: int) -> None:
    """They may come from a file: the pairs beside it are compared all the same."""
    found = stats.speedup([1e10] * count, [5e-324, 1.0, 1e9][:count])
    assert found.ratio > 1
    assert found.high is None or math.isfinite(found.high)


@pytest.mark.parametrize("compare", [stats.speedup, stats.paired_speedup])
def test_equal_arms_are_told_apart_in_about_one_of_twenty(compare) -> None:
    medians = np.exp(0.02 * np.random.default_rng(5).standard_normal((2000, 2, 3)))
    told = sum(compare(*arms).verdict != "no difference shown" for arms in medians)
    assert 0.03 < told / 2000 < 0.065


def test_without_scipy_an_interval_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    assert stats.speedup([2.0], [1.0]).ratio == pytest.approx(2)
    with pytest.raises(stats.ScipyMissing, match="pip install scipy"):
        stats.speedup([2.0] * 3, [1.0] * 3)


def test_importing_the_module_imports_no_scipy() -> None:
    code = "import bench_core.stats, sys; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# First look


def test_the_first_look_band_is_that_of_a_resampling_bootstrap() -> None:
    for count in (4, 9, 30):
        baseline, candidate = noisy(count, 0.02, seed=1), noisy(count + 1, 0.02, seed=2)
        random = np.random.default_rng(3)
        medians = [
            np.median(random.choice(arm, (20_000, len(arm))), axis=1)
            for arm in (baseline, candidate)
        ]
        low, high = np.quantile(medians[0] / medians[1], [0.025, 0.975])
        band = stats.first_look_band(baseline, candidate)
        assert band.low == pytest.approx(low, abs=0.002)
        assert band.high == pytest.approx(high, abs=0.002)


def test_the_first_look_band_is_the_same_each_time_and_quick() -> None:
    arms = noisy(1000, 0.02, seed=1), noisy(1000, 0.02, seed=2)
    bands, times = [], []
    for _ in range(3):
        started = time.process_time()
        bands.append(stats.first_look_band(*arms))
        times.append(time.process_time() - started)
    assert bands[0] == bands[1] == bands[2]
    assert min(times) < 0.02


# Break-even


def test_the_articles_shape_is_even_at_epoch_21() -> None:
    # In eager epochs: (2.5 - 1 / 1.085) / (1 - 1 / 1.085) = 1.7125 / 0.085 = 20.147.
    eager = stats.startup_excess(ARTICLE_EAGER, stats.steady_state(ARTICLE_EAGER))
    compiled = stats.startup_excess(ARTICLE_COMPILE, stats.steady_state(ARTICLE_COMPILE))
    answer = stats.break_even(eager, compiled, 1.0, 1 / 1.085, measured_epochs=30)
    assert (answer.kind, answer.epoch, answer.projected) == ("epoch", 21, False)
    assert answer.exact == pytest.approx(1.7125 / 0.085)
    saved = stats.seconds_saved(ARTICLE_EAGER, ARTICLE_COMPILE)
    assert saved[19] < 0 <= saved[20]
    assert stats.break_even(eager, compiled, 1.0, 1 / 1.085, measured_epochs=20).projected


@pytest.mark.parametrize(
    ("debt", "gain", "kind", "epoch"),
    [
        (70.0, 5.0, "epoch", 14),
        (71.0, 5.0, "epoch", 15),
        (0.1, 5.0, "epoch", 1),
        (0.1 + 0.2, 0.1, "epoch", 3),
        (70.0, 0.0, "never", None),
        (70.0, -5.0, "never", None),
        (0.0, -5.0, "never", None),
        (-4.0, -5.0, "never", None),
        (-70.0, -5.0, "ahead until", 14),
        (-71.0, -5.0, "ahead until", 14),
        (-70.0, 0.0, "at once", None),
        (-70.0, 5.0, "at once", None),
        (0.0, 5.0, "at once", None),
        (0.0, 0.0, "at once", None),
    ],
)
def test_break_even_in_every_combination_of_signs(
    debt: float, gain: float, kind: str, epoch: int | None
) -> None:
    answer = stats.break_even(0.0, debt, 10.0, 10.0 - gain)
    assert (answer.kind, answer.epoch) == (kind, epoch)
    assert (answer.exact is None) == (epoch is None)


def test_a_slower_arm_never_pays_off() -> None:
    answer = stats.break_even(1.0, 70.0, 61.0, 66.0)
    assert answer.kind == "never"


def test_break_even_is_where_the_running_totals_say() -> None:
    random = np.random.default_rng(11)
    for _ in range(200):
        starts, epochs = random.uniform(5, 60, 2), random.uniform(1, 5, 2)
        totals = [
            list(accumulate([start] + [epoch] * 400))
            for start, epoch in zip(starts, epochs, strict=True)
        ]
        ahead = [candidate <= baseline for baseline, candidate in zip(*totals, strict=True)]
        answer = stats.break_even(*(starts - epochs), *epochs)
        if answer.kind == "at once":
            assert all(ahead)
        elif answer.kind == "never":
            assert not any(ahead)
        elif answer.epoch is not None and answer.epoch <= 400:
            early = answer.kind == "ahead until"
            switch = answer.epoch if early else answer.epoch - 1
            assert ahead == [early] * switch + [not early] * (401 - switch)


# Series


def test_seconds_saved_run_over_the_common_length() -> None:
    assert stats.seconds_saved([2.0, 2.0, 2.0], [5.0, 1.0]) == [-3.0, -2.0]


def test_the_geometric_mean_of_a_ratio_and_its_inverse_is_one() -> None:
    assert stats.geometric_mean([2.0, 0.5]) == pytest.approx(1)
    assert stats.geometric_mean([1.0, 10.0, 100.0]) == pytest.approx(10)


def test_percentiles_lie_between_neighbours_and_keep_their_order() -> None:
    assert stats.percentiles([4.0, 1.0, 3.0, 2.0, 5.0], [90, 50, 0]) == pytest.approx([4.6, 3, 1])


def test_percentiles_of_planted_latencies_are_exact_from_the_store_to_the_arm(
    tmp_path: Path,
) -> None:
    """Latencies of 1 to 101 ms in any order: the q-th percentile is q + 1 ms."""
    latencies = [*np.random.default_rng(0).permutation(np.arange(1, 102)) / 1000]
    # Calls that are no part of the steady state come first, in the block that has the compile.
    series = [0.5, 0.4, 0.3, *latencies]
    assert stats.percentiles(latencies, (0, 50, 90, 99, 100)) == pytest.approx(
        [0.001, 0.051, 0.091, 0.100, 0.101]
    )
    arm = Arm(Variant(), (inference_run(tmp_path, series),))
    assert arm.runs[0].steady.first == 3
    assert arm.percentiles(50, 90, 99) == pytest.approx([0.051, 0.091, 0.100])


def test_percentiles_of_an_arm_are_means_over_its_runs(tmp_path: Path) -> None:
    """As its steady seconds are: a run twice as slow must not be the others' 90th percentile."""
    latencies = np.random.default_rng(0).permutation(np.arange(100, 201)) / 100_000
    runs = [
        inference_run(tmp_path / name, [0.5, 0.4, 0.3, *(latencies * factor)])
        for name, factor in (("one", 1.0), ("two", 4.0))
    ]
    arm = Arm(Variant(), tuple(runs))
    assert arm.percentiles(0, 50, 90) == pytest.approx([2 * 0.001, 2 * 0.0015, 2 * 0.0019])
    assert arm.percentiles(50) == [pytest.approx(arm.steady_seconds)]


@pytest.mark.parametrize("execution", ["eager", "jit_trace_frozen", "onednn_graph", "compile"])
def test_a_slow_start_is_found_in_every_arm_alike(tmp_path: Path, execution: Execution) -> None:
    """Twelve slow calls, and no compiler says a word of them."""
    noise = np.random.default_rng(1).standard_normal(120)
    steady = 0.03 * (1 + 0.005 * noise)
    slow = steady[:12] * 3
    one = inference_run(tmp_path, [*slow, *steady[12:]], Variant(execution=execution))
    assert one.steady.first == 12
    assert one.steady.count == 108
    assert one.excess_seconds == pytest.approx(12 * 0.06, rel=0.02)


def test_two_calls_that_were_hit_at_the_end_are_no_new_level(tmp_path: Path) -> None:
    noise = np.random.default_rng(2)
    for number in range(20):
        series = 0.03 * (1 + 0.004 * noise.standard_normal(200))
        series[-2 - number % 3 : 200 - number % 3] *= 1.3
        one = inference_run(tmp_path / str(number), [*series])
        assert one.steady.first == 3
        assert one.steady.median_seconds == pytest.approx(0.03, rel=0.002)


def inference_run(folder: Path, series: list[float], variant: Variant = EAGER) -> Measured:
    """A run of these latencies, in blocks of ten as a measuring process would tell them."""
    experiment = Experiment(
        models=("resnet18",), batch_sizes=(1,), variants=(variant,), repeats=1,
        workload={"task": "infer"}, measurement=Measurement(iterations=len(series)),
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    with Store(folder / "planted.db") as store:
        store.queue(experiment)
        run = store.claim()
        assert run is not None
        for number, at in enumerate(range(0, len(series), 10), 1):
            block = tuple(float(seconds) for seconds in series[at : at + 10])
            store.add_epoch(
                run.number,
                Epoch(
                    epoch=number, started_at=0.0, wall_seconds=sum(block), data_wait_seconds=0.0,
                    compile_seconds=0.0, step_seconds=block, samples=len(block), loss=None,
                ),
            )  # fmt: skip
        store.finish(run.number, "done")
        ended = store.run(run.number)
        assert ended is not None
        return measure(ended, store.epochs([run.number])[run.number])


@pytest.mark.parametrize(
    ("saved", "epochs"),
    [
        ([-3.0, -1.0, -0.5], []),
        ([-3.0, -1.0, 0.0, 2.0], [3]),
        ([-1.0, -0.5, 0.2, 0.1, -0.3, 0.4], [3, 5, 6]),
        ([1.0, 2.0], [1]),
        ([1.0, -1.0], [1, 2]),
        ([], []),
    ],
)
def test_every_crossing_of_the_saved_seconds_is_marked(
    saved: list[float], epochs: list[int]
) -> None:
    assert stats.crossings(saved) == epochs


def test_change_points_are_where_a_level_that_lasts_begins() -> None:
    there_and_back = [1.0] * 10 + [1.2] * 10 + [1.0] * 10
    assert stats.change_points(there_and_back) == [10, 20]
    assert stats.change_points([2.0] * 5 + [1.0] * 5) == [5]
    assert stats.change_points([1.0] * 10 + [1.005] * 10) == []
    assert stats.change_points([1.0] * 10 + [1.5] * 2 + [1.0] * 10) == []
    assert stats.change_points([1.0, 3.0]) == []
    # Levels of three are too short to be one where six must last.
    assert stats.change_points([1.0] * 10 + [1.2] * 4 + [1.0] * 10) == [10, 14]
    assert stats.change_points([1.0] * 10 + [1.2] * 4 + [1.0] * 10, shortest=6) == []


# What the runs leave open


def outlook(
    baseline: list[float], candidate: list[float], before: list[float], after: list[float]
) -> stats.Outlook:
    """Three runs an arm and more, and their start-up excesses."""
    view = stats.outlook(
        stats.speedup(baseline, candidate), stats.geometric_mean(baseline), before, after
    )
    assert view is not None
    return view


def ends(band: stats.Band) -> list[float]:
    return [band.low, band.high]


def test_without_scatter_the_outlook_is_what_was_measured() -> None:
    view = outlook([10.0] * 3, [8.0] * 3, [1.0], [71.0, 71.0])
    assert view.gain_seconds == pytest.approx(2.0) and view.debt_seconds == pytest.approx(70.0)
    assert ends(stats.break_even_interval(view)) == pytest.approx([35, 35])
    assert ends(stats.saved_after(view, 100)) == pytest.approx([130, 130])
    assert ends(stats.saved_after(view, 10)) == pytest.approx([-50, -50])
    # 1 + 100 x 10 against 71 + 100 x 8 seconds.
    assert ends(stats.mean_speedup(view, 100)) == pytest.approx([1001 / 871] * 2)


def test_the_articles_shape_is_slower_over_10_epochs_and_faster_over_100() -> None:
    # In eager epochs: 2.5 + 9 / 1.085 = 10.795 for ten, 2.5 + 99 / 1.085 = 93.744 for a hundred.
    view = outlook([1.0] * 3, [1 / 1.085] * 3, [0.0], [2.5 - 1 / 1.085])
    assert ends(stats.mean_speedup(view, 10)) == pytest.approx([0.92636] * 2, abs=1e-5)
    assert ends(stats.mean_speedup(view, 100)) == pytest.approx([1.06673] * 2, abs=1e-5)
    assert ends(stats.break_even_interval(view)) == pytest.approx([1.7125 / 0.085] * 2)


def test_the_mean_speedup_of_very_many_epochs_has_the_interval_of_the_speedup() -> None:
    baseline, candidate = [66.0, 66.2, 66.9], [31.0, 31.1, 31.9]
    judged = stats.speedup(baseline, candidate)
    view = outlook(baseline, candidate, [1.0], [70.0])
    assert ends(stats.mean_speedup(view, 1e9)) == pytest.approx([judged.low, judged.high], rel=2e-3)


@pytest.mark.parametrize(
    ("candidate", "before", "after", "expected"),
    [
        (11.0, 0.0, 20.0, [math.inf, math.inf]),  # slower, and dearer to start
        (10.0, 0.0, 20.0, [math.inf, math.inf]),  # nothing won
        (9.0, 20.0, 0.0, [0.0, 0.0]),  # faster, and cheaper to start
        (9.0, 0.0, 0.0, [0.0, 0.0]),
        (11.0, 20.0, 0.0, [20.0, 20.0]),  # ahead until epoch 20
        (9.0, 0.0, 20.0, [20.0, 20.0]),
    ],
)
def test_the_break_even_interval_in_every_combination_of_signs(
    candidate: float, before: float, after: float, expected: list[float]
) -> None:
    view = outlook([10.0] * 3, [candidate] * 3, [before], [after])
    assert ends(stats.break_even_interval(view)) == pytest.approx(expected)


def test_the_ends_of_the_break_even_come_from_the_ends_of_the_speedup() -> None:
    # Logarithms 0.1 + -0.01, 0, 0.01 in both arms: 4 degrees of freedom, half width
    # 2.776445 x sqrt(2 x 1e-4 / 3) = 0.022670; of it each arm's half moves the gain.
    logs = [-0.01, 0.0, 0.01]
    baseline = [10 * math.exp(log) for log in logs]
    candidate = [10 * math.exp(log - 0.1) for log in logs]
    half = 2.776445 * math.sqrt(2e-4 / 3)
    gains = [10 * (math.exp(move / 2) - math.exp(-0.1 - move / 2)) for move in (half, -half)]
    band = stats.break_even_interval(outlook(baseline, candidate, [0.0], [20.0]))
    assert ends(band) == pytest.approx([20 / gain for gain in gains], rel=5e-3)


def test_where_no_gain_is_possible_the_break_even_may_be_never() -> None:
    view = outlook([10.0, 10.1, 10.2], [10.0, 10.05, 10.15], [0.0], [20.0])
    band = stats.break_even_interval(view)
    assert 0 < band.low < math.inf and band.high == math.inf
    loser = outlook([10.0, 10.1, 10.2], [10.1, 10.15, 10.25], [20.0], [0.0])
    band = stats.break_even_interval(loser)
    assert 0 < band.low < math.inf and band.high == math.inf  # ahead for good is possible


def test_starts_that_scatter_widen_the_break_even() -> None:
    # Means of two drawn from 60 and 80 are 60, 70 or 80, each but the middle one in a quarter.
    view = outlook([10.0] * 3, [8.0] * 3, [0.0], [60.0, 80.0])
    assert ends(stats.break_even_interval(view)) == pytest.approx([30, 40])
    assert ends(stats.saved_after(view, 50)) == pytest.approx([20, 40])
    assert sorted(set(view.debt_seconds)) == pytest.approx([60, 70, 80])


def test_a_first_look_leaves_everything_open() -> None:
    assert stats.outlook(stats.speedup([2.0, 2.0], [1.0, 1.0]), 2.0, [0.0], [1.0]) is None


def test_the_outlook_is_the_same_each_time() -> None:
    arms = [10.0, 10.1, 10.2], [8.0, 8.1, 8.3]
    first, second = (outlook(*arms, [0.1, 0.2], [60.0, 80.0]) for _ in range(2))
    assert np.array_equal(first.gain_seconds, second.gain_seconds)
    assert np.array_equal(first.debt_seconds, second.debt_seconds)


@pytest.mark.parametrize("compare", [stats.speedup, stats.paired_speedup])
def test_an_interval_that_decided_when_to_stop_is_wider_by_a_quarter(compare) -> None:
    arms = [66.0, 66.2, 66.4], [61.0, 61.1, 61.3]
    plain, stopped = compare(*arms), compare(*arms, until_sure=True)
    assert stopped.half_width == pytest.approx(1.25 * plain.half_width)
    assert stopped.ratio == plain.ratio
    assert math.log(plain.high / plain.low) == pytest.approx(2 * plain.half_width)
    assert compare([2.0], [1.0], until_sure=True).half_width is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.steady_state([]), "epoch_seconds must be a flat list of at least one"),
        (
            lambda: stats.steady_state([1.0, math.nan]),
            r"epoch_seconds\[1\] must be above 0, got nan",
        ),
        (lambda: stats.steady_state([1.0, -2.0]), r"epoch_seconds\[1\] must be above 0, got -2.0"),
        (lambda: stats.steady_state([0.0]), r"epoch_seconds\[0\] must be above 0, got 0.0"),
        (lambda: stats.steady_state([1.0, 1.0], [1.0]), "compile_seconds has 1 values for 2"),
        (lambda: stats.steady_state([1.0], [-1.0]), r"compile_seconds\[0\] must be 0 or more"),
        (lambda: stats.speedup([], [1.0]), "baseline_medians must be a flat list"),
        (lambda: stats.speedup([1.0], [math.inf]), r"candidate_medians\[0\] .* got inf"),
        (lambda: stats.speedup([1.0], [1.0], confidence=95), "confidence must .* got 95"),
        (lambda: stats.paired_speedup([1.0, 1.0], [1.0]), "got 2 and 1: leave out"),
        (lambda: stats.first_look_band([1.0], []), "candidate_epochs must be a flat list"),
        (lambda: stats.break_even(math.nan, 1.0, 1.0, 1.0), "baseline_excess .* got nan"),
        (
            lambda: stats.break_even(0.0, 1.0, 0.0, 1.0),
            r"baseline_epoch_seconds\[0\] must be above",
        ),
        (lambda: stats.break_even(0.0, 1.0, 2.0, 1.0, -1), "measured_epochs .* got -1"),
        (lambda: stats.geometric_mean([1.0, 0.0]), r"values\[1\] must be above 0"),
        (lambda: stats.percentiles([1.0], [101]), "between 0 and 100, got 101"),
        (lambda: stats.seconds_saved([], [1.0]), "baseline_epochs must be a flat list"),
        (lambda: stats.change_points([1.0, 0.0]), r"seconds\[1\] must be above 0"),
        (lambda: outlook([2.0] * 3, [1.0] * 3, [], [1.0]), "baseline_excesses must be finite"),
        (
            lambda: outlook([2.0] * 3, [1.0] * 3, [0.0], [math.inf]),
            r"candidate_excesses must be finite seconds, .* got \[inf\]",
        ),
    ],
)
def test_bad_input_is_refused_with_its_value(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_single_start_may_be_taken_to_scatter() -> None:
    exact = outlook([10.0] * 3, [8.0] * 3, [0.0], [60.0])
    loose = stats.outlook(
        stats.speedup([10.0] * 3, [8.0] * 3), 10.0, [0.0], [60.0], single_start_scatter=0.05
    )
    assert exact is not None and loose is not None
    assert stats.break_even_interval(exact).low == pytest.approx(30.0)
    ends = stats.break_even_interval(loose)  # 60 s, 5 % of it, 1.96 times, at 2 s an epoch
    assert ends.low == pytest.approx(30 - 2.94, abs=0.15)
    assert ends.high == pytest.approx(30 + 2.94, abs=0.15)
