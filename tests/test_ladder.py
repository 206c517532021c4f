"""A fairness ladder tells what each rung adds by itself, and what all of them give together."""

from __future__ import annotations

import pytest

from bench_core.ladder import HEAD, ladder, rows, rung_names
from bench_core.presets import PRESETS
from bench_core.spec import Experiment, Rung
from bench_core.store import Store
from tests.planted import COMPILE, EAGER, measured_in, planted_experiment

LAYOUT, HALF = {"memory_layout": "channels_last"}, {"precision": "bf16"}
RUNGS = (
    Rung(),
    Rung(workload=LAYOUT),
    Rung(workload={**LAYOUT, **HALF}),
    Rung(workload={**LAYOUT, **HALF}, variant=COMPILE),
)


def test_each_rung_is_held_against_the_one_below_it_and_against_the_first(store: Store) -> None:
    experiment = planted_experiment(store, rungs=RUNGS)
    steps = ladder(measured_in(store), experiment)
    assert [step.name for step in steps] == [
        "eager, fp32, contiguous", "channels_last", "bf16", "compile",
    ]  # fmt: skip
    assert steps[0].alone is None and steps[0].whole is None
    alone = [step.alone.speedup.ratio for step in steps[1:] if step.alone]
    whole = [step.whole.speedup.ratio for step in steps[1:] if step.whole]
    # as planted: 0.93 by the layout, 0.62 by the precision, 61.1 of 66.2 s by compile
    assert alone == pytest.approx([1 / 0.93, 1 / 0.62, 66.2 / 61.1], rel=0.01)
    assert whole == pytest.approx(
        [1 / 0.93, 1 / 0.93 / 0.62, 1 / 0.93 / 0.62 * 66.2 / 61.1], rel=0.01
    )
    said = steps[1].text.replace("\u00a0", " ")
    assert said.startswith("channels_last: 7.") and "% faster by itself; in all 1.0" in said


def test_the_rows_hold_every_rung_with_its_seconds(store: Store) -> None:
    experiment = planted_experiment(store, rungs=RUNGS)
    told = rows(ladder(measured_in(store), experiment))
    assert all(len(row) == len(HEAD) for row in told)
    assert told[0][1:3] == ("", "")
    assert [row[3] for row in told] == pytest.approx(
        [66.2, 66.2 * 0.93, 66.2 * 0.93 * 0.62, 61.1 * 0.93 * 0.62], rel=0.01
    )


def test_each_workload_has_a_ladder_of_its_own_and_other_runs_take_no_part(store: Store) -> None:
    planted_experiment(store, variants=(EAGER, COMPILE), models=("resnet50",))
    experiment = planted_experiment(store, rungs=RUNGS, models=("resnet50", "resnet101"))
    steps = ladder(measured_in(store), experiment)
    assert [step.run.workload.model for step in steps] == ["resnet50"] * 4 + ["resnet101"] * 4
    assert steps[5].whole and steps[5].whole.workload.model == "resnet101"
    assert len(rows(steps)) == 8


def test_a_rung_that_is_not_measured_yet_says_so(store: Store) -> None:
    experiment = planted_experiment(store, rungs=RUNGS, repeats=1, measured=2)
    first, second, third, _ = ladder(measured_in(store), experiment)
    assert second.alone and second.alone.speedup.kind == "first look"
    assert third.text == "bf16: not measured yet"
    assert rows([first, second, third])[2] == ("bf16", "", "", None)


def test_all_of_a_ladder_is_of_the_machine_that_has_most_of_it(store: Store) -> None:
    experiment = planted_experiment(store, rungs=RUNGS)
    planted_experiment(store, rungs=RUNGS, machine="A100", repeats=1, measured=2)
    steps = ladder(measured_in(store), experiment)
    pairs = [pair for step in steps[1:] for pair in (step.alone, step.whole)]
    assert [pair and pair.machine for pair in pairs] == ["T4"] * 6


def test_a_first_look_and_no_difference_are_told_in_all_too(store: Store) -> None:
    same = (Rung(), Rung(workload={"loader_workers": 1}), Rung(workload=LAYOUT))
    experiment = planted_experiment(store, rungs=same, repeats=1)
    told = rows(ladder(measured_in(store), experiment))
    assert told[1][2] == "first look: no difference seen"
    assert told[2][2].endswith("(first look)")


def test_the_first_rung_has_its_seconds_where_the_second_is_missing(store: Store) -> None:
    experiment = planted_experiment(store, rungs=RUNGS, models=("resnet50", "resnet101"))
    kept = [
        one
        for one in measured_in(store)
        if one.run.spec.workload.model == "resnet101"
        or one.run.spec.workload.precision == "bf16"
        or one.run.spec.workload.memory_layout != "channels_last"
    ]
    told = rows(ladder(kept, experiment))
    assert told[0][3] == pytest.approx(34.1, rel=0.01)
    assert told[1] == ("channels_last", "", "", None)
    assert told[4][3] == pytest.approx(66.2, rel=0.01)


def test_without_rungs_there_is_no_ladder() -> None:
    plain = Experiment(models=("resnet18",), batch_sizes=(1,), variants=(EAGER, COMPILE))
    with pytest.raises(ValueError, match="has no rungs to climb, but the variants eager, compile"):
        ladder([], plain)


@pytest.mark.parametrize(
    ("device", "names"),
    [
        ("cpu", ["eager, fp32, contiguous", "channels_last", "bf16", "compile"]),
        (
            "cuda:0",
            [
                "eager, fp32, tf32 off, contiguous",
                "tf32 on",
                "channels_last",
                "fp16",
                "compile",
            ],
        ),
    ],
)
def test_the_preset_climbs_one_setting_at_a_time(device: str, names: list[str]) -> None:
    assert rung_names(PRESETS["fairness-ladder"].experiment(device)) == names
