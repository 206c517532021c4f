"""Titles of charts: the finding in a sentence, whatever has been measured so far."""

from pathlib import Path

import pytest

from bench_core.chart_titles import (
    epochs_title,
    percentiles_title,
    saved_title,
    steps_title,
    tails_title,
    training_caption,
)
from bench_core.figures import Line
from bench_core.measured import Measured, measure
from bench_core.run import Run
from bench_core.saved_figure import Saved
from bench_core.stats import BreakEven, break_even
from bench_core.store import Store
from tests.planted import COMPILE, Shape, planted_epoch, planted_experiment
from tests.planted import EAGER as EAGER_ARM

EAGER = Line("eager", [67.4, 66.2, 66.2])
COMPILED = Line("compile", [131.1, 61.1, 61.1])


def words(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_epochs_are_told_with_the_first_one() -> None:
    title = epochs_title([EAGER, COMPILED], {"eager": 66.2, "compile": 61.1})
    assert words(title) == "Compiled epochs take 61.1 s against 66.2 s; the first took 131 s"


def test_epochs_before_a_steady_state_claim_no_speed() -> None:
    assert words(epochs_title([EAGER], {})) == "Eager epochs: the first took 67.4 s"
    assert words(epochs_title([EAGER], {"eager": 66.2})) == "Eager epochs take 66.2 s"
    assert epochs_title([], {}) == "The first epoch has not ended yet"


def test_a_first_epoch_like_the_others_is_not_worth_a_word() -> None:
    warm = Line("compile", [62.0, 61.1, 61.1])
    title = epochs_title([EAGER, warm], {"eager": 66.2, "compile": 61.1})
    assert words(title) == "Compiled epochs take 61.1 s against 66.2 s"


def test_further_arms_are_named() -> None:
    steady = {"eager": 66.2, "compile": 61.1, "compile max-autotune": 60.0}
    title = epochs_title([EAGER, COMPILED, Line("compile max-autotune", [99.0])], steady)
    assert words(title) == (
        "Compiled epochs take 61.1 s, epochs of compile max-autotune 60.0 s against 66.2 s"
    )


def test_of_many_arms_the_fastest_is_named() -> None:
    steady = {"eager": 66.2, "compile": 61.1, "compile lite": 62.0, "compile max-autotune": 60.0}
    title = epochs_title([Line(arm, [1.0]) for arm in steady], steady)
    assert words(title) == "Fastest: epochs of compile max-autotune, 60.0 s against 66.2 s of eager"


def test_iterations_are_told_as_iterations() -> None:
    eager = Line("eager", [0.217, 0.046], unit="iteration")
    frozen = Line("compile_frozen", [36.0, 0.037], unit="iteration")
    title = epochs_title([eager, frozen], {"eager": 0.046, "compile_frozen": 0.037})
    assert words(title) == (
        "Iterations of compile_frozen take 37.0 ms against 46.0 ms; the first answer took 36.0 s"
    )
    assert words(epochs_title([eager], {})) == "Eager iterations: the first took 217 ms"
    unmeasured = Line("eager", [], unit="iteration")
    assert epochs_title([unmeasured], {}) == "The first iteration has not ended yet"
    even = break_even(0, 36, 0.046, 0.037, measured_epochs=3)
    saved = Saved("compile_frozen", [-36.0], even=even, unit="iteration")
    assert words(saved_title(saved)) == "36.0 s behind by now; even at about iteration 4\u202f000"
    plain = Saved("compile_frozen", [-36.0, -35.9], unit="iteration")
    assert words(saved_title(plain)) == "35.9 s behind after 2 iterations"


def test_percentiles_are_told_of_the_arm_of_the_answer() -> None:
    compiled = {50: 0.055, 90: 0.060, 99: None}
    known = {"eager": {50: 0.046, 90: 0.046, 99: 0.046}, "compile": compiled}
    assert words(percentiles_title(known)) == (
        "Half of the iterations with compile end within 55.0 ms, nine in ten within 60.0 ms"
    )
    assert words(percentiles_title({"compile": {50: 0.055, 90: None, 99: None}})) == (
        "Half of the iterations end within 55.0 ms"
    )


def test_a_tail_is_told_of_as_many_iterations_as_it_takes() -> None:
    eager, compiled = {50: 0.046, 90: 0.046, 99: 0.046}, {50: 0.055, 90: 0.060, 99: 0.071}
    assert words(tails_title({"eager": eager, "compile": compiled})) == (
        "One iteration in a hundred takes over 71.0 ms with compile, 46.0 ms with eager"
    )
    few = {**compiled, 99: None}
    assert words(tails_title({"eager": eager, "compile": few})) == (
        "One iteration in ten takes over 60.0 ms with compile, 46.0 ms with eager"
    )
    assert words(tails_title({"compile": {50: 0.055, 90: None, 99: None}})) == (
        "One iteration in two takes over 55.0 ms with compile"
    )


def test_savings_tell_when_it_is_even_and_where_it_stands() -> None:
    even = break_even(0, 69, 66.2, 61.1, measured_epochs=3)
    assert words(saved_title(Saved("compile", [-63.7], even=even))) == (
        "63.7 s behind by now; even at about epoch 14"
    )
    measured = Saved("compile", [-5.0] * 13 + [30.0], even=even)
    assert words(saved_title(measured)) == "Even at epoch 14; 30.0 s saved by now"


def test_savings_that_never_come_are_told() -> None:
    never = break_even(0, 30, 3.02, 3.14)
    assert words(saved_title(Saved("compile", [-31.0], even=never))) == (
        "Never even: 31.0 s behind by now"
    )
    at_once = BreakEven("at once", None, None, False)
    assert words(saved_title(Saved("compile", [4.0], even=at_once))) == (
        "Ahead from the start; 4.00 s saved by now"
    )
    # Where noise made its start-up seem short the title says no more than the line.
    late = Saved("compile", [-1.0, 4.0], even=at_once)
    assert words(saved_title(late)) == "4.00 s saved by now"


def test_without_a_break_even_only_the_standing_is_told() -> None:
    assert words(saved_title(Saved("compile", [-37.1, -37.0]))) == "37.0 s behind after 2 epochs"
    assert saved_title(None) == "Nothing to compare yet"


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """An eager run, one from a cold cache and one from a warm one."""
    cold, warm = (COMPILE.changed(cache=cache) for cache in ("cold", "warm"))
    with Store(tmp_path / "bench.db") as store:
        planted_experiment(store, variants=(EAGER_ARM, cold, warm), repeats=1, measured=0)
        return store.runs()


def evaluated(run: Run, evaluation: list[float | None], compiling: list[float]) -> Measured:
    shape = Shape(60.0)
    epochs = [
        planted_epoch(run, shape, number).changed(
            evaluation_seconds=seconds, evaluation_compile_seconds=within
        )
        for number, (seconds, within) in enumerate(zip(evaluation, compiling, strict=True), 1)
    ]
    return measure(run, epochs)


def test_without_an_evaluation_all_compile_time_is_counted(runs: list[Run]) -> None:
    plain = [evaluated(runs[0], [None, None], [0.0, 0.0])]
    assert training_caption("Seconds saved", plain) == "Seconds saved, all compile time counted."
    assert training_caption("Seconds saved", plain, ", with the 95 % band") == (
        "Seconds saved, all compile time counted, with the 95 % band."
    )


def test_an_evaluation_that_is_counted_in_is_not_told_apart(runs: list[Run]) -> None:
    apart = evaluated(runs[0], [5.0, 5.0], [0.0, 0.0])
    counted = measure(apart.run, apart.epochs, evaluation=True)
    assert training_caption("Seconds saved", [counted]) == (
        "Seconds saved, testing and all compile time counted."
    )
    untested = measure(runs[0], evaluated(runs[0], [None], [0.0]).epochs, evaluation=True)
    assert "testing" not in training_caption("Seconds saved", [untested])


def test_what_an_evaluation_compiled_is_told_apart(runs: list[Run]) -> None:
    eager = evaluated(runs[0], [5.0, 5.0], [0.0, 0.0])
    assert training_caption("Seconds saved", [eager]) == (
        "Seconds saved in training, its compile time counted; the evaluation is timed apart."
    )
    # 12.0 s and 12.6 s from a cold cache: 12.3 s; the run from a warm one is another matter.
    cold = evaluated(runs[1], [17.0, 5.0], [12.0, 0.0])
    again = evaluated(runs[1], [17.6, 5.1], [12.5, 0.1])
    warm = evaluated(runs[2], [6.0, 5.0], [1.0, 0.0])
    assert words(training_caption("Seconds saved", [eager, cold, again, warm])) == (
        "Seconds saved in training, its compile time counted; the evaluation is timed apart and "
        "compiled for another 12.3 s."
    )
    assert words(training_caption("Seconds saved", [eager, warm])).endswith("another 1.00 s.")


def test_in_inference_all_that_came_before_the_first_answer_counts(tmp_path: Path) -> None:
    with Store(tmp_path / "bench.db") as store:
        planted_experiment(
            store, models=("resnet18",), machine="CPU", measured=0, workload={"task": "infer"}
        )
        run = store.runs()[0]
    one = measure(run, [planted_epoch(run, Shape(0.046), 1)])
    assert training_caption("Seconds saved", [one]) == (
        "Seconds saved, all that came before the first answer counted."
    )


def test_steps_are_even_or_vary() -> None:
    even = steps_title({"eager": [0.975] * 198 + [1.02] * 2})
    assert words(even).startswith("Steps are even: 975 ms, one in a hundred above ")
    assert words(steps_title({"eager": [1.0] * 90 + [2.0] * 10})).startswith("Steps vary: 1.00 s")
    assert words(steps_title({"eager": [1.0], "compile": [0.9] * 3})) == (
        "Steps with compile take 900 ms"
    )
    assert steps_title({}) == "No step has been timed yet"
