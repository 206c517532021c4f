"""A ratio is formed between runs that agree in all but the variant, and says what it rests on."""

from dataclasses import replace

import pytest

from bench_core import pairing
from bench_core.events import Activity
from bench_core.measured import Arm, measure
from bench_core.spec import Variant, Workload
from bench_core.store import Store
from tests.planted import COMPILE, EAGER, SHAPES, Shape, plant_run, planted_experiment

EXACT = {"process_scatter": 0.0, "epoch_scatter": 0.0, "wait_share": 0.0}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "bench.db") as opened:
        yield opened


def compared(store: Store, baseline: Variant = EAGER) -> pairing.Comparisons:
    runs = store.runs()
    epochs = store.epochs([run.number for run in runs])
    return pairing.comparisons([measure(run, epochs[run.number]) for run in runs], baseline)


def shapes(eager: Shape, compiled: Shape) -> dict:
    return {("T4", "resnet101"): (eager, compiled)}


def test_the_articles_shape_gives_its_speedup_and_its_break_even_epoch(store):
    # 66.2 against 61.1 s; the first epoch 70 s longer: even after 70 / 5.1 = 13.7 epochs
    exact = shapes(Shape(66.2, **EXACT), Shape(61.1, compile_seconds=70.0, **EXACT))
    planted_experiment(store, repeats=3, epochs=30, shapes=exact)
    [pair] = compared(store).pairs
    assert pair.speedup.ratio == pytest.approx(66.2 / 61.1, rel=0.01)
    assert pair.speedup.verdict == "faster"
    assert pair.break_even_cold.epoch == 14
    assert pair.break_even_warm.epoch == 1
    assert pair.headline.startswith("resnet101 on T4: 8.")
    assert "Pays off from epoch 14, or from epoch 1 when the compile cache is warm." in pair.detail


def test_a_slower_arm_never_pays_off(store):
    planted_experiment(store, models=("resnet18",), machine="A100", repeats=3)
    [pair] = compared(store).pairs
    assert pair.speedup.verdict == "slower"
    assert pair.headline.endswith("slower once steady")
    assert "Never pays off." in pair.detail


def test_noise_alone_is_no_difference_shown_and_promises_no_epoch(store):
    planted_experiment(store, models=("resnet18",), repeats=3)
    [pair] = compared(store).pairs
    assert pair.speedup.verdict == "no difference shown"
    assert pair.headline == "resnet18 on T4: no difference shown"
    assert "Pays off" not in pair.detail


def test_fewer_than_three_runs_an_arm_are_a_first_look_without_verdict(store):
    planted_experiment(store, repeats=2)
    [pair] = compared(store).pairs
    assert pair.speedup.verdict is None
    assert "first look" in pair.headline
    assert "Only 2 runs in an arm: no verdict before 3." in pair.detail
    assert pair.band.low < pair.speedup.ratio < pair.band.high


OTHER_VALUES = {
    "task": None,  # there is one so far
    "model": None,  # the planted times know the model: covered by the parameters' count
    "dataset": {"dataset": "imagefolder", "dataset_path": "/images"},
    "dataset_path": {"dataset": "imagefolder", "dataset_path": "/images"},
    "pipeline": {"pipeline": "cached"},
    "loader_workers": {"loader_workers": 2},
    "samples": {"samples": 992},
    "drop_last": {"drop_last": False},
    "image_size": {"image_size": 160},
    "batch_size": {"batch_size": 8},
    "precision": {"precision": "bf16"},
    "tf32": {"tf32": "off"},
    "memory_layout": {"memory_layout": "channels_last"},
    "optimizer": {"optimizer": "sgd"},
    "learning_rate": {"learning_rate": 0.01},
    "evaluate": {"evaluate": "variant"},
    "threads": {"threads": 1},
}


def test_no_field_of_the_workload_is_forgotten_here():
    assert set(OTHER_VALUES) == set(Workload.model_fields)


@pytest.mark.parametrize("name", [name for name, other in OTHER_VALUES.items() if other])
def test_a_workload_field_that_differs_gives_no_ratio_and_is_named(store, name):
    planted_experiment(store, variants=(EAGER,), repeats=1)
    planted_experiment(store, variants=(COMPILE,), repeats=1)
    eager, compiled = store.runs()
    assert pairing.differences(eager, compiled) == {}
    work = compiled.spec.workload.changed(**OTHER_VALUES[name])
    changed = replace(compiled, spec=compiled.spec.changed(workload=work))
    assert name in pairing.differences(eager, changed)
    epochs = store.epochs([1, 2])
    found = pairing.comparisons([measure(eager, epochs[1]), measure(changed, epochs[2])])
    assert found.pairs == ()
    assert len(found.left_out) == 2


def test_another_machine_gives_no_ratio(store):
    planted_experiment(store, variants=(EAGER,), repeats=1)
    planted_experiment(store, variants=(COMPILE,), repeats=1, machine="A100")
    assert compared(store).pairs == ()
    assert "machine" in pairing.differences(*store.runs())


def test_measurement_fields_never_block(store):
    planted_experiment(store, variants=(EAGER,), repeats=1, epochs=10)
    planted_experiment(store, variants=(COMPILE,), repeats=1, epochs=20)
    assert len(compared(store).pairs) == 1


def test_what_is_left_out_is_named_with_its_reason(store):
    experiment = planted_experiment(store, repeats=1, measured=1)
    plant_run(
        store, experiment.id, epochs=2, status="failed", failure="out of memory", reason="too big"
    )
    planted_experiment(store, variants=(COMPILE,), repeats=1, epochs=2)
    reasons = [left.reason for left in compared(store).left_out]
    assert any(reason == "failed: out of memory. too big" for reason in reasons)
    assert any(reason.startswith("no steady state: Only 1 epoch") for reason in reasons)
    assert any(reason.startswith("no other variant than eager") for reason in reasons)


def test_a_compile_that_compiled_nothing_gets_no_speedup(store):
    experiment = planted_experiment(store, repeats=1)
    compiled = store.runs(experiment.id)[1]
    store.set_activity(compiled.number, Activity(graphs=0, frames_total=1))
    found = compared(store)
    assert found.pairs == ()
    assert any("nothing was compiled" in left.reason for left in found.left_out)


def test_another_content_of_the_model_file_gives_no_ratio(store):
    planted_experiment(store, repeats=1)
    for run, content in zip(store.runs(), ("a" * 64, "b" * 64), strict=True):
        store.set_prepared(run.number, run.prepared.changed(model_sha256=content))
    assert compared(store).pairs == ()
    assert "model file" in pairing.differences(*store.runs())


def test_a_warm_run_that_found_nothing_in_its_cache_is_no_warm_start(store):
    warm = COMPILE.changed(cache="warm")
    planted_experiment(store, variants=(EAGER, warm), repeats=1)
    [pair] = compared(store).pairs
    assert pair.break_even_warm is not None
    run = store.runs()[1]
    store.set_activity(run.number, run.activity.changed(cache_hits=0, cache_misses=2))
    [pair] = compared(store).pairs
    assert pair.break_even_warm is None
    assert pair.break_even_cold is not None
    store.set_activity(run.number, run.activity.changed(cache_hits=1, cache_misses=1))
    [pair] = compared(store).pairs
    assert pair.break_even_warm is None and pair.break_even_cold is None


def test_without_a_cache_a_start_is_a_cold_one(store):
    planted_experiment(store, variants=(EAGER, COMPILE.changed(cache="off")), repeats=1)
    [pair] = compared(store).pairs
    assert pair.break_even_cold is not None


def test_times_taken_beside_other_programs_say_so(store):
    planted_experiment(store, repeats=1, measured=1)
    [eager] = [run for run in store.runs() if run.status == "done"]
    busy = [e.changed(foreign_cpu_share=0.8) for e in store.epochs([eager.number])[eager.number]]
    quiet = measure(eager, store.epochs([eager.number])[eager.number])
    loud = measure(eager, busy)
    arms = [Arm(EAGER, (one,)) for one in (quiet, loud)]
    texts = [
        pairing.Comparison(
            eager.spec.workload, "cpu", "CPU", "", "", arm, Arm(COMPILE, arm.runs)
        ).noise_text
        for arm in arms
    ]
    assert texts[0] == ""
    assert "Other programs used 80% of this machine's cores meanwhile" in texts[1]


def test_any_variant_can_be_the_baseline(store):
    planted_experiment(store, repeats=1)
    [pair] = compared(store, COMPILE).pairs
    assert pair.speedup.ratio == pytest.approx(61.1 / 66.2, rel=0.02)


def test_the_geometric_mean_is_over_the_pairs(store):
    models = [model for machine, model in SHAPES if machine == "T4"]
    planted_experiment(store, models=models, repeats=1)
    found = compared(store)
    assert len(found.pairs) == len(models)
    product = 1.0
    for pair in found.pairs:
        product *= pair.speedup.ratio
    assert found.geometric_mean == pytest.approx(product ** (1 / len(models)))
