"""Machines side by side: by arms whose times are known, so that every answer is known by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bench_core.chart_frame import machine_styles
from bench_core.geomeans import Place
from bench_core.machine_tables import as_json, tables
from bench_core.machine_words import (
    ahead_text,
    cheapest_text,
    conditions,
    headline,
    incomplete,
    job_text,
    left_out_sentences,
    means_sentences,
    money_text,
    prices_text,
    same_work,
    side_by_side,
    speedup_text,
    state_text,
    times_text,
    whole_machines_text,
    why_text,
)
from bench_core.machines import Across, across, ahead, cheapest, fastest, rate, start_counted
from bench_core.measured import Measured, cache_found, measure
from bench_core.pair_figures import MachinePoint, dots_by_machine
from bench_core.pairing import Axis, comparisons
from bench_core.source import STEP_IS_EPOCH, Source, Stated
from bench_core.spec import Rung, Variant
from bench_core.store import Store
from bench_core.units import NO_BREAK
from pages.parts.comparison_machine_views import View, _labels, _points
from tests import planted
from tests.planted import COMPILE, EAGER, Shape, measured_in, plant_run, planted_experiment

MACHINES = ("T4", "A100", "CPU")
AUTOTUNE = Variant(execution="compile", mode="max-autotune")
# Of an hour, so that a second costs a thousandth.
PRICES = {"planted-t4": 3.6, "planted-a100": 36.0}


def shape(steady_seconds: float, compile_seconds: float = 0.0) -> Shape:
    """Times that hardly scatter."""
    return Shape(steady_seconds, compile_seconds, process_scatter=0.0, epoch_scatter=0.0)


# Speedups: T4 2, 4.5 and 1.25; A100 0.5 and 2; CPU 3 and 3.
SHAPES = {
    ("T4", "resnet18"): (shape(20.0), shape(10.0, 50.0)),
    ("T4", "resnet50"): (shape(90.0), shape(20.0, 50.0)),
    ("T4", "vgg16"): (shape(50.0), shape(40.0, 50.0)),
    ("A100", "resnet18"): (shape(2.0), shape(4.0, 50.0)),
    ("A100", "resnet50"): (shape(20.0), shape(10.0, 50.0)),
    ("CPU", "resnet18"): (shape(300.0), shape(100.0, 50.0)),
    ("CPU", "small_cnn"): (shape(3.0), shape(1.0, 50.0)),
}


def plant(store: Store, machine: str, *models: str, **changed: object) -> None:
    planted_experiment(
        store, models=models, machine=machine, **{"repeats": 3, "shapes": SHAPES, **changed}
    )


def compared(measured: Sequence[Measured], axis: Axis | None = None) -> Across:
    found = comparisons(measured, *([axis] if axis else []))
    shown = across(found, measured, MACHINES)
    assert shown
    return shown


def place(shown: Across, name: str) -> Place:
    return next(place for place, called in shown.names.items() if called == name)


@pytest.fixture
def two(store: Store) -> Across:
    """T4 with three models, A100 with two of them."""
    plant(store, "A100", "resnet18", "resnet50")
    plant(store, "T4", "resnet18", "resnet50", "vgg16")
    return compared(measured_in(store))


# Speedups within a machine


def test_speedups_are_formed_within_a_machine_and_set_side_by_side(two):
    t4, a100 = two.places
    assert (two.names[t4], two.names[a100]) == ("T4", "A100"), "in the order of their colours"
    ratios = {
        row.workload.model: [
            round(row.pairs[at, "compile"].speedup.ratio, 2)
            for at in two.places
            if (at, "compile") in row.pairs
        ]
        for row in two.rows
    }
    assert ratios == {"resnet18": [2.0, 0.5], "resnet50": [4.5, 2.0], "vgg16": [1.25]}
    assert [row.workload.model for row in side_by_side(two)] == ["resnet18", "resnet50"]


def test_means_are_over_the_common_workloads_and_what_is_left_out_is_told(two):
    assert means_sentences(two) == [
        "Speedup of compile within each machine, geometric mean over the 2 workloads where all "
        "have it: T4 3.00×, A100 1.00×."
    ]
    assert left_out_sentences(two) == [
        "1 workload of T4 is left out: not every machine has it.",
    ]
    [vgg] = incomplete(two)
    assert [state_text(vgg, at) for at in two.places] == ["measured", "not measured"]


def test_a_machine_that_shares_nothing_leaves_the_means_of_the_others(store):
    plant(store, "T4", "resnet18", "resnet50")
    plant(store, "A100", "resnet18", "resnet50")
    plant(store, "CPU", "small_cnn")
    shown = compared(measured_in(store))
    assert {mean.name for mean in shown.means["compile"].means} == {"T4", "A100"}
    assert "CPU is left out: it shares no workload with another machine." in left_out_sentences(
        shown
    )
    assert headline(shown).startswith("A100 is the fastest for both workloads that T4 and A100")


def test_machines_that_share_nothing_at_all_say_so(store):
    plant(store, "T4", "resnet50")
    plant(store, "CPU", "resnet18")
    shown = compared(measured_in(store))
    assert headline(shown) == "No workload was measured on more than one machine"
    assert side_by_side(shown) == []
    assert tables(shown, PRICES, 100) == []


def test_a_machine_with_first_looks_only_has_a_mean_that_says_so(store):
    plant(store, "T4", "resnet18", "resnet50")
    plant(store, "A100", "resnet18", "resnet50", repeats=1)
    shown = compared(measured_in(store))
    assert means_sentences(shown)[0].endswith(
        "over the 2 workloads where all have it (first looks among them): T4 3.00×, A100 1.00×."
    )
    assert headline(shown).endswith("first looks among them")


def test_one_machine_and_equal_arms_are_not_set_side_by_side(store):
    plant(store, "T4", "resnet18", "resnet50")
    assert across(comparisons(measured_in(store)), measured_in(store)) is None
    sides = (Rung(side="A"), Rung(side="B"))
    for machine in ("T4", "A100"):
        plant(store, machine, "resnet18", rungs=sides)
    equal = [one for one in measured_in(store) if one.run.spec.measurement.side]
    found = comparisons(equal, Axis(("side",), (("side", "A"),)))
    assert len(found.pairs) == 2
    assert across(found, equal) is None


def test_of_two_versions_of_torch_on_a_machine_the_later_is_shown(store):
    plant(store, "T4", "resnet18")
    plant(store, "A100", "resnet18")
    runs = measured_in(store)
    old = []
    for one in runs:
        if one.run.machine == "T4":
            environment = one.run.environment.changed(torch="2.9.0")
            run = replace(one.run, environment=environment, number=one.run.number - 100)
            old.append(measure(run, one.epochs))
    shown = compared([*runs, *old])
    assert shown.older == 1
    assert left_out_sentences(shown) == [
        "1 comparison is not shown: its workload was measured later on that machine under other "
        "conditions, such as torch or threads."
    ]
    assert shown.facts["torch"][place(shown, "T4")] == "2.14.1"


def test_arms_of_two_versions_of_torch_are_never_beside_each_other(store):
    """An arm that only the older version has is left out, and why is told."""
    plant(store, "T4", "resnet18", variants=(EAGER, COMPILE, AUTOTUNE))
    plant(store, "A100", "resnet18")
    older = []
    for one in measured_in(store):
        if one.run.machine == "T4":
            environment = one.run.environment.changed(torch="2.9.0")
            run = replace(one.run, environment=environment)
            older.append(measure(run, one.epochs))
    plant(store, "T4", "resnet18")
    rest = [one for one in measured_in(store) if one.run.id not in {old.run.id for old in older}]
    shown = compared([*older, *rest])
    t4 = place(shown, "T4")
    [row] = shown.rows
    assert {name for at, name in row.arms if at == t4} == {"eager", "compile"}
    assert {arm.runs[0].run.environment.torch for arm in row.arms.values()} == {"2.14.1"}
    assert row.candidates == ["compile"]
    assert shown.older == 2
    assert row.why[t4, AUTOTUNE.arm.name] == "measured earlier, torch 2.9.0, threads 2"


def test_runs_without_a_machine_have_no_place_beside_others(store):
    plant(store, "T4", "resnet18")
    plant(store, "A100", "resnet18")
    plant(store, "CPU", "resnet18")
    plant(store, "CPU", "small_cnn", variants=(EAGER,))
    lost = []
    for one in measured_in(store):
        run = one.run
        if run.machine == "CPU":
            nowhere = run.environment.changed(machine="", machine_id="")
            run = replace(run, environment=nowhere if run.number % 2 else None)
        lost.append(measure(run, one.epochs))
    shown = compared(lost)
    assert [shown.names[at] for at in shown.places] == ["T4", "A100"]
    view = View("Seconds", shown, shown.rows, ["A100"], {}, 100)
    assert list(view.styles) == ["T4", "A100"], "a label that the store does not have has a colour"


def test_two_devices_of_a_machine_are_two_columns(store, monkeypatch):
    plant(store, "T4", "resnet18")
    monkeypatch.delitem(planted.DEVICES, "T4")
    plant(store, "T4", "resnet18")
    shown = compared(measured_in(store))
    assert sorted(shown.names.values()) == ["T4 (cpu)", "T4 (cuda:0)"]


def test_along_another_axis_arms_are_of_that_axis(store):
    rungs = [Rung(workload={"precision": "fp32"}), Rung(workload={"precision": "bf16"})]
    for machine in ("T4", "A100"):
        plant(store, machine, "resnet18", rungs=rungs)
    shown = compared(measured_in(store), Axis(("precision",), (("precision", "fp32"),)))
    [row] = shown.rows
    assert row.candidates == ["bf16"]
    assert row.pairs[place(shown, "T4"), "bf16"].speedup.ratio == pytest.approx(1 / 0.62)


# Across machines


def test_the_fastest_machine_its_arm_and_by_how_many_times(two):
    best = {row.workload.model: fastest(row) for row in two.rows}
    told = {
        model: [(two.names[one.place], one.arm.name, round(one.amount, 1)) for one in ranked]
        for model, ranked in best.items()
    }
    assert told == {
        "resnet18": [("A100", "eager", 2.0), ("T4", "compile", 10.0)],
        "resnet50": [("A100", "compile", 10.0), ("T4", "compile", 20.0)],
        "vgg16": [("T4", "compile", 40.0)],
    }
    assert ahead(best["resnet18"]).ratio == pytest.approx(5.0, rel=1e-3)
    assert ahead_text(best["vgg16"]) == ""
    # The mean of 5 and 2.
    assert two.standing[1][1] == pytest.approx(10**0.5, rel=1e-3)
    assert headline(two) == (
        "A100 is the fastest for both workloads that T4 and A100 share: 3.16 times as fast as T4 "
        "in the geometric mean"
    )


def test_one_common_workload_is_told_with_its_arms_and_its_interval(store):
    shapes = {
        ("T4", "resnet18"): (Shape(20.0), Shape(10.0, 50.0)),
        ("A100", "resnet18"): (Shape(2.0), Shape(4.0, 50.0)),
    }
    for machine in ("T4", "A100"):
        plant(store, machine, "resnet18", shapes=shapes)
    text = headline(compared(measured_in(store)))
    assert text.startswith("resnet18, batch 16: fastest on A100 with eager, ")
    assert " times as fast as T4 with compile (95\u00a0%: " in text


def test_machines_that_differ_by_nothing_shown_are_no_verdict(store):
    shapes = {
        ("T4", "resnet18"): (Shape(20.0), Shape(10.0, 50.0)),
        ("A100", "resnet18"): (Shape(20.0), Shape(10.001, 50.0)),
    }
    for machine in ("T4", "A100"):
        plant(store, machine, "resnet18", shapes=shapes)
    shown = compared(measured_in(store))
    assert "no difference shown between" in headline(shown)
    assert ahead_text(fastest(shown.rows[0])) == "none shown"


def test_machines_that_take_the_same_over_several_workloads_are_equally_fast(store):
    same = {("A100", model): SHAPES["T4", model] for model in ("resnet18", "resnet50")}
    plant(store, "T4", "resnet18", "resnet50")
    plant(store, "A100", "resnet18", "resnet50", shapes=same)
    assert headline(compared(measured_in(store))) == (
        "T4 and A100 are about equally fast over the 2 workloads that T4 and A100 share"
    )


@pytest.mark.parametrize(
    "times, text",
    [
        (5.79, "5.79 times as fast as"),
        (20.14, "20.1 times as fast as"),
        (1.31, f"31{NO_BREAK}% faster than"),
        (1.004, "about as fast as"),
    ],
)
def test_times_are_told_as_far_as_processes_scatter(times, text):
    assert times_text(times) == text


def test_images_a_second_are_those_that_the_steps_handled(store):
    odd = {"samples": 1000, "drop_last": True}  # 62 steps of 16
    for machine in ("T4", "A100"):
        plant(store, machine, "resnet18", workload=odd)
    [row] = compared(measured_in(store)).rows
    [t4, _] = sorted(row.places, reverse=True)
    assert rate(row.arms[t4, "eager"]) == pytest.approx(992 / 20.0, rel=1e-3)
    infer = {"task": "infer"}
    for machine in ("T4", "CPU"):
        plant(store, machine, "resnet18", batch_sizes=(8,), workload=infer)
    calls = [one for one in measured_in(store) if one.unit == "iteration"]
    [row] = compared(calls).rows
    arm = next(iter(row.arms.values()))
    assert rate(arm) == pytest.approx(8 / arm.steady_seconds)


def test_an_arm_without_a_partner_takes_part_in_seconds_only(store):
    plant(store, "T4", "resnet18")
    plant(store, "CPU", "resnet18", variants=(EAGER,))
    shown = compared(measured_in(store))
    [row] = shown.rows
    cpu = place(shown, "CPU")
    assert row.arms[cpu, "eager"].steady_seconds == pytest.approx(300.0, rel=1e-3)
    assert (cpu, "compile") not in row.pairs
    assert why_text(shown, shown.places, row, "compile", speedup=True) == "CPU: not measured"
    assert state_text(row, cpu) == "compile: not measured"
    assert shown.standing[1][1] == pytest.approx(30.0, rel=1e-3)
    assert means_sentences(shown) == []
    # Without the runs there are the pairs alone, of one machine.
    assert across(comparisons(measured_in(store))) is None


def test_machines_without_any_pair_have_seconds(store):
    for machine in ("T4", "A100"):
        plant(store, machine, "resnet18", variants=(EAGER,))
    shown = compared(measured_in(store))
    assert headline(shown).startswith("resnet18, batch 16: fastest on A100 with eager, 10.0")
    assert [table.title for table in tables(shown, {}, 100)][0] == "Fastest machine"


def test_a_failed_arm_says_so_where_it_has_no_number(store):
    plant(store, "T4", "resnet18")
    experiment = planted_experiment(
        store, models=("resnet18",), machine="CPU", repeats=1, measured=0, shapes=SHAPES
    )
    plant_run(store, experiment.id, machine="CPU", shapes=SHAPES)
    plant_run(
        store,
        experiment.id,
        machine="CPU",
        shapes=SHAPES,
        epochs=0,
        status="failed",
        failure="out of memory",
        reason="no room",
    )
    shown = compared(measured_in(store))
    [row] = shown.rows
    for speedup in (True, False):
        assert (
            why_text(shown, shown.places, row, "compile", speedup=speedup)
            == "CPU: failed: out of memory"
        )
    assert state_text(row, place(shown, "CPU")) == "compile: failed: out of memory"


def test_a_failed_baseline_is_why_there_is_no_speedup(store):
    plant(store, "T4", "resnet18")
    experiment = planted_experiment(
        store, models=("resnet18",), machine="CPU", repeats=1, measured=0, shapes=SHAPES
    )
    failed = {"status": "failed", "failure": "crash", "reason": "signal 11", "epochs": 0}
    plant_run(store, experiment.id, machine="CPU", shapes=SHAPES, **failed)
    plant_run(store, experiment.id, machine="CPU", shapes=SHAPES)
    shown = compared(measured_in(store))
    [row] = shown.rows
    assert why_text(shown, shown.places, row, "compile", speedup=True) == "CPU: no eager run"
    assert why_text(shown, shown.places, row, "eager", speedup=False) == "CPU: failed: crash"


def test_what_differs_between_machines_besides_the_device_is_named(two, store):
    assert whole_machines_text(two) == "Seconds across machines compare whole machines."
    changed = []
    for one in measured_in(store):
        run = one.run
        if run.machine == "A100":
            other = run.environment.changed(torch="2.9.0", threads=8, driver="550")
            run = replace(run, environment=other)
        changed.append(measure(run, one.epochs))
    shown = compared(changed)
    assert whole_machines_text(shown) == (
        "Seconds across machines compare whole machines, which differ here in torch, driver and "
        "threads too."
    )
    assert [shown.facts["torch"][at] for at in shown.places] == ["2.14.1", "2.9.0"]


def test_what_a_source_does_not_state_is_no_version(two, store):
    changed = [
        measure(replace(one.run, unstated=("torch", "tf32")), one.epochs)
        if one.run.machine == "T4"
        else one
        for one in measured_in(store)
    ]
    shown = compared(changed)
    t4 = place(shown, "T4")
    assert shown.facts["torch"][t4] == "not stated"
    assert shown.facts["not stated by the source"] == {t4: "tf32"}
    assert "differ here in torch too" in whole_machines_text(shown)


def test_runs_with_stated_times_take_part_as_first_looks(store):
    plant(store, "T4", "resnet18")
    plant(store, "A100", "resnet18", repeats=1)
    stated = []
    for one in measured_in(store):
        if one.run.machine == "A100":
            steady = 1.0 if one.run.spec.variant == EAGER else 0.5
            stated.append(measure(replace(one.run, stated=Stated(steady_seconds=steady)), ()))
        else:
            stated.append(one)
    shown = compared(stated)
    [row] = shown.rows
    a100 = place(shown, "A100")
    assert speedup_text(row.pairs[a100, "compile"]) == "2.00× first look"
    assert fastest(row)[0].amount == 0.5
    assert ahead_text(fastest(row)) == "20.0× first look"
    assert start_counted(row, PRICES) is None, "none is stated, so none of T4 counts"
    assert [one.amount for one in cheapest(row, PRICES, 100)] == pytest.approx([0.5, 1.0], rel=1e-2)


def changed_runs(store: Store, **fields: object) -> list[Measured]:
    return [measure(replace(one.run, **fields), one.epochs) for one in measured_in(store)]


def test_epochs_of_samples_that_no_source_states_are_of_no_known_work(two, store):
    """Speedups within each machine stand; seconds across them, and so money, are not formed."""
    shown = compared(changed_runs(store, unstated=("samples", "memory_layout")))
    shared = side_by_side(shown)
    assert same_work(shared) == [] and shown.standing == []
    assert all(fastest(row) == cheapest(row, PRICES, 100) == [] for row in shared)
    assert headline(shown).startswith("Speedups within each machine only: how many samples")
    assert means_sentences(shown)[0].endswith("where all have it: T4 3.00×, A100 1.00×.")
    speedups, seconds = tables(shown, PRICES, 100)[:2]
    assert speedups.rows and "not stated" in seconds.note
    assert as_json(shown)["workloads"][0]["fastest"] is None


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("image_size", {"T4": (64, 224), "A100": (128, 224)}, "image size"),
        ("model", {"T4": ("resnet18", "resnet50"), "A100": ("vgg16", "resnet50")}, "model"),
    ],
)
def test_arms_that_do_other_work_are_not_ranked_across_machines(store, name, values, told):
    """Pairs along such an axis are within a machine; smaller images make no faster one."""
    shapes = {**SHAPES, ("A100", "vgg16"): (shape(1.0), shape(1.0))}
    for machine, of in values.items():
        for value in of:
            model, work = (value, {}) if name == "model" else ("resnet18", {name: value})
            plant(store, machine, model, variants=(EAGER,), workload=work, shapes=shapes)
    shown = compared(measured_in(store), Axis((name,)))
    [row] = shown.rows
    assert len(row.arms) == 4 and not row.same_work
    assert fastest(row) == cheapest(row, PRICES, 100) == [] and not shown.standing
    assert headline(shown) == (
        f"Speedups within each machine only: arms differ in {told}, so seconds of machines are "
        "not set against each other"
    )
    [*_, seconds] = tables(shown, PRICES, 100)
    assert seconds.note.startswith(f"Where arms differ in {told}, seconds")
    assert {round(rate(arm) * arm.steady_seconds) for arm in row.arms.values()} == {992}


def test_a_row_names_no_size_that_its_arms_do_not_share(store):
    for machine in ("T4", "A100"):
        sizes = {"samples": 1024}
        plant(store, machine, "resnet18", variants=(EAGER,), batch_sizes=(16, 32), workload=sizes)
    shown = compared(measured_in(store), Axis(("batch_size",)))
    [row] = shown.rows
    assert row.same_work, "an epoch is an epoch"
    assert headline(shown).startswith("resnet18: fastest on A100 with batch_size")


def test_a_row_says_not_stated_and_no_default(two, store):
    runs = [*measured_in(store), *changed_runs(store, unstated=("samples", "memory_layout"))]
    shown = compared(runs)
    told = dict(zip([row.same_work for row in shown.rows], conditions(shown.rows), strict=False))
    assert told[False] == "samples not stated, memory_layout not stated"
    assert "samples 1" in told[True]


def test_single_steps_cost_no_training(two, store):
    inferred = {"samples": f"the file times single steps: {STEP_IS_EPOCH}"}
    source = Source(file="a.csv", family="timm", inferred=inferred)
    row = side_by_side(compared(changed_runs(store, source=source)))[0]
    assert cheapest(row, PRICES, 100) == []
    assert len(fastest(row)) == 2, "seconds of a step may be set against each other"


# Money


def test_cost_is_of_a_training_with_its_start(two):
    row = two.rows[0]
    assert row.workload.model == "resnet18"
    ranked = cheapest(row, PRICES, 100)
    # T4: 50 s to compile and 100 x 10 s, at a thousandth a second; A100: 100 x 2 s at a hundredth.
    assert [(two.names[one.place], one.arm.name) for one in ranked] == [
        ("T4", "compile"),
        ("A100", "eager"),
    ]
    assert [one.amount for one in ranked] == pytest.approx([1.05, 2.0], rel=1e-3)
    assert fastest(row)[0].place == ranked[1].place, "the fastest is not the cheapest"
    # Few epochs do not pay for compiling.
    [t4, _] = cheapest(row, PRICES, 2)[:2]
    assert t4.arm.name == "eager"
    assert t4.amount == pytest.approx(0.04, rel=1e-3)


def test_a_cold_start_is_not_weighed_against_a_warm_one(store):
    """T4 was measured cold, then warm; A100 warm, and from a cache that was filled in part."""
    plant(store, "T4", "resnet18")
    plant(store, "A100", "resnet18", variants=(EAGER, COMPILE.changed(cache="warm")))
    runs = measured_in(store)
    [row] = compared(runs).rows
    assert start_counted(row, PRICES) == "warm"
    assert job_text(row, 100, "warm") == "100 epochs with start-up from a warm cache"
    starts = {one.place.machine: one.arm.excess_seconds("warm") for one in cheapest(row, PRICES, 9)}
    assert starts["T4"] == pytest.approx(2.4, rel=0.05)
    only_cold = [m for m in runs if m.run.machine != "T4" or cache_found(m.run) != "warm"]
    [row] = compared(only_cold).rows
    assert start_counted(row, PRICES) is None
    assert job_text(row, 100, None) == "100 epochs without start-up"
    t4 = next(one for one in cheapest(row, PRICES, 100) if one.place.machine == "T4")
    assert t4.amount == pytest.approx(100 * t4.arm.steady_seconds / 1000)
    assert start_counted(row, {"planted-t4": 1.0}) == "cold", "only what has a price is weighed"


def test_who_is_the_cheapest_is_counted(two):
    assert cheapest_text(two, PRICES, 100) == (
        "Cheapest of the 2 workloads with a price on two machines: T4 for 2."
    )
    assert prices_text(two, PRICES) == "Prices of an hour, in your currency: T4 3.6, A100 36."


def test_no_price_no_money(two):
    assert cheapest(two.rows[0], {}, 100) == []
    assert prices_text(two, {}) == cheapest_text(two, {}, 100) == ""
    assert [table.title for table in tables(two, {}, 100)] == [
        "Speedup within each machine",
        "Fastest machine",
        "Steady seconds of one epoch, less is better",
    ]


def test_a_million_images_cost_their_calls(store):
    for machine in ("T4", "CPU"):
        plant(store, machine, "resnet18", batch_sizes=(8,), workload={"task": "infer"})
    [row] = compared(measured_in(store)).rows
    [one] = cheapest(row, {"planted-t4": 3.6}, 100)
    start = one.arm.excess_seconds(one.arm.start_shown)
    assert one.amount == pytest.approx((start + 125_000 * one.arm.steady_seconds) / 1000)


@pytest.mark.parametrize(
    "amount, text",
    [
        (0.01234, "0.0123"),
        (0.9999, "1.00"),
        (12.34, "12.3"),
        (999.6, "1 000"),
        (1240.0, "1 240"),
        (0.0, "0"),
        (None, ""),
    ],
)
def test_money_has_three_digits(amount, text):
    assert money_text(amount).replace("\u202f", " ") == text


# Tables


def test_tables_hold_every_number_and_why_a_cell_is_empty(store):
    plant(store, "T4", "resnet18", "resnet50")
    plant(store, "A100", "resnet18", "resnet50")
    plant(store, "CPU", "resnet18")
    shown = compared(measured_in(store))
    speedups, best, seconds, costs = tables(shown, PRICES, 100)
    assert [list(row.values())[:2] for row in speedups.rows] == [
        ["resnet18, batch 16", "compile"],
        ["resnet50, batch 16", "compile"],
    ]
    assert [row["T4"][:3] for row in speedups.rows] == ["2.0", "4.5"]
    assert [(row["CPU"][:1], row["Empty"]) for row in speedups.rows] == [
        ("3", ""),
        ("", "CPU: not measured"),
    ]
    assert best.rows[0]["Fastest"] == "A100"
    assert best.rows[0]["With"] == "eager"
    assert best.rows[0]["Next"] == "T4"
    assert [row["T4"] for row in seconds.rows] == [
        f"{number}{NO_BREAK}s" for number in ("20.0", "10.0", "90.0", "20.0")
    ]
    assert [row["Cheapest"] for row in costs.rows] == ["T4", "T4"]
    assert costs.rows[0]["CPU"] == ""
    assert tables(shown, {}, 100, most=1)[0].note == "1 more workload is not shown."


def test_numbers_for_other_programs(two):
    told = as_json(two)
    assert [one["name"] for one in told["machines"]] == ["T4", "A100"]
    row = told["workloads"][0]
    assert {(one["machine"], round(one["ratio"], 2)) for one in row["speedups"]} == {
        ("T4", 2.0),
        ("A100", 0.5),
    }
    assert row["fastest"] == "A100"
    assert len(row["steady_seconds"]) == 4


def test_rows_of_one_model_are_told_apart(store):
    for machine in ("T4", "A100"):
        plant(store, machine, "resnet18", workload={"memory_layout": "channels_last"})
        plant(store, machine, "resnet18")
    shown = compared(measured_in(store))
    assert conditions(shown.rows) == ["channels_last", "contiguous"]
    assert conditions(shown.rows[:1]) == [""]
    assert shown.rows[0].workload.memory_layout == "channels_last"
    assert COMPILE.name in shown.rows[0].candidates


# The chart


def test_a_chart_has_a_colour_a_machine_and_tells_first_looks_and_baselines():
    points = [
        MachinePoint("resnet18", "T4", 10.0, "compile 10.0 s"),
        MachinePoint("resnet18", "T4", 20.0, "eager 20.0 s", pale=True),
        MachinePoint("resnet18", "A100", 2.0, "compile 2.0 s", hollow=True),
        MachinePoint("<b>", "CPU", 900.0, "compile 900 s"),
    ]
    styles = machine_styles(MACHINES)
    figure = dots_by_machine(points, styles, suffix=" s")
    drawn = [(trace.name, trace.marker.color, list(trace.marker.symbol)) for trace in figure.data]
    t4, a100, cpu = (styles[name] for name in MACHINES)
    assert drawn == [
        ("T4", t4.color, [t4.symbol]),
        ("T4", t4.color, [t4.symbol]),
        ("A100", a100.color, [f"{a100.symbol}-open"]),
        ("CPU", cpu.color, [cpu.symbol]),
    ]
    assert [trace.showlegend for trace in figure.data] == [False, True, True, True]
    assert figure.layout.xaxis.type == "log"
    assert list(figure.layout.yaxis.ticktext) == ["resnet18", "&lt;b&gt;"]
    low, high = figure.layout.xaxis.range
    assert 10**low < 2.0 and 10**high > 900.0


def test_rows_whose_names_begin_alike_stay_two(store):
    names = ("other:vit_base_patch16_clip_224.a", "other:vit_base_patch16_clip_224.b")
    for machine in ("T4", "A100"):
        plant(store, machine, "resnet18", "resnet50")
    renamed = dict(zip(("resnet18", "resnet50"), names, strict=True))
    runs = []
    for one in measured_in(store):
        spec = one.run.spec
        work = spec.workload.changed(model=renamed[spec.workload.model])
        run = replace(one.run, spec=spec.changed(workload=work))
        runs.append(measure(run, one.epochs))
    shown = compared(runs)
    view = View("Fastest", shown, shown.rows, MACHINES, {}, 100)
    assert _labels(view) == [name.removeprefix("other:") for name in names]
    alone = View("Fastest", shown, shown.rows[:1], MACHINES, {}, 100)
    assert _labels(alone) == ["vit_base_patch16_cl…"]
    assert {point.key for point in _points(view)} == {0, 1}


def test_rows_of_one_name_are_drawn_apart():
    points = [MachinePoint("m", "T4", 1.0, "", key=key) for key in (0, 1)]
    figure = dots_by_machine(points, machine_styles(["T4"]), suffix=" s")
    assert list(figure.layout.yaxis.ticktext) == ["m", "m"]
    assert list(figure.data[0].y) == [0.0, 1.0]


def test_a_chart_of_ratios_holds_its_intervals_and_the_line_at_one():
    points = [MachinePoint("resnet18", "T4", 1.2, "compile 1.2×", 1.1, 1.3)]
    figure = dots_by_machine(points, machine_styles(MACHINES), suffix="×", line_at=1.0)
    [trace] = figure.data
    assert trace.error_x.array[0] == pytest.approx(0.1)
    assert trace.error_x.arrayminus[0] == pytest.approx(0.1)
    assert any(line.x0 == line.x1 == 1.0 for line in figure.layout.shapes)
    low, high = figure.layout.xaxis.range
    assert 10**low < 1.0 and 10**high > 1.3
