"""Published claims: how their file is read, and what planted runs make of each kind."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from bench_core.capabilities import Backend, Capabilities, Device
from bench_core.claim_evidence import CRASHES, Evidence, Judgement
from bench_core.claim_experiments import SEVERAL_MODELS, next_step
from bench_core.claims import COLUMNS, ClaimError, load
from bench_core.events import Activity, Aftermath, Failure, Parity
from bench_core.judging import KINDS, RANGED, judge, write
from bench_core.measured import Measured
from bench_core.paths import SHIPPED
from bench_core.spec import Variant
from bench_core.store import Store
from tests import planted
from tests.planted import (
    COMPILE,
    EAGER,
    Shape,
    environment,
    measured_in,
    plant_run,
    planted_experiment,
)

CLAIMS = {claim.id: claim for claim in load(RANGED)}
INFER = {"task": "infer"}
FUSED = Variant(execution="onednn_graph")
TEN = [f"torchvision:net{number}" for number in range(10)]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    with Store() as store:
        yield store


def judged(
    store: Store, claim: str, change: Callable[[Measured], Measured] | None = None
) -> Judgement:
    """The claim by what is stored, `change` applied to each run first."""
    found = measured_in(store)
    return judge(CLAIMS[claim], Evidence.of(map(change, found) if change else found))


def of_run(one: Measured, **fields: Any) -> Measured:
    return replace(one, run=replace(one.run, **fields))


def said(one: Judgement) -> str:
    return f"{one.ours} | {one.conditions}".translate({0xA0: " ", 0x202F: " "})


def train(store: Store, machine: str, eager: float, compiled: float, model: str, **changed: Any):
    """An experiment whose steady epochs take so many seconds."""
    shapes = {(machine, model): (Shape(eager), Shape(compiled, compile_seconds=1.2 * eager))}
    return planted_experiment(store, models=(model,), machine=machine, shapes=shapes, **changed)


# The file


def test_shipped_claims_are_read_and_name_their_sources():
    assert len(CLAIMS) == 27
    assert {claim.url for claim in CLAIMS.values()} == {
        "https://habr.com/ru/articles/763720/",
        "https://pytorch.org/get-started/pytorch-2.0/",
    }
    assert {claim.kind for claim in CLAIMS.values()} == set(KINDS)


def test_single_numbers_stand_for_the_range_that_the_rule_gives():
    checked = 0
    for claim in CLAIMS.values():
        found = re.search(r"(?<!to )\b(\d+) % faster", claim.claim)
        if found:
            gain = int(found[1])
            reach = max(2.0, gain / 10)
            assert claim.low == pytest.approx(1 + (gain - reach) / 100), claim.id
            assert claim.high == pytest.approx(1 + (gain + reach) / 100), claim.id
            checked += 1
    assert checked == 9


def written(folder: Path, **changed: str) -> Path:
    """A file with the first shipped claim, changed."""
    with (SHIPPED / "claims.csv").open(encoding="utf-8", newline="") as lines:
        row = next(csv.DictReader(lines))
    file = folder / "claims.csv"
    with file.open("w", encoding="utf-8", newline="") as lines:
        table = csv.DictWriter(lines, COLUMNS)
        table.writeheader()
        table.writerow({**row, **changed})
    return file


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"kind": "faster"}, "line 2: kind must be one of steady speedup, .*, got 'faster'"),
        ({"task": "serve"}, "task must be one of train, infer, any, got 'serve'"),
        ({"execution": "jit"}, "execution must be one of eager, .*, got 'jit'"),
        ({"precision": "fp32;int8"}, "precision must be of fp32, bf16, fp16, got 'int8'"),
        ({"low": "fast"}, "low must be a number above 0, got 'fast'"),
        ({"low": "nan"}, "low must be a number above 0, got 'nan'"),
        ({"low": "1.2", "high": "1.1"}, "low must not be above high, got 1.2 and 1.1"),
        ({"low": "", "high": ""}, "'steady speedup' needs low, high or both"),
        ({"kind": "over epochs", "epochs": ""}, "'over epochs' needs epochs"),
        ({"year": "about 2023"}, "year must be a whole number above 0, got 'about 2023'"),
        ({"batch_sizes": "16;0"}, "batch_sizes must be whole numbers above 0, got '16;0'"),
        ({"url": "javascript:alert(1)"}, "url must begin with https://, got 'javascript:alert"),
        ({"preset": "articel"}, "preset must be one of .*article.*, got 'articel'"),
        ({"claim": " "}, "claim is empty"),
    ],
)
def test_bad_row_is_refused_with_its_line_and_value(
    tmp_path: Path, changed: dict[str, str], told: str
):
    with pytest.raises(ClaimError, match=told):
        load(RANGED, written(tmp_path, **changed))


def test_file_of_another_form_is_refused(tmp_path: Path):
    file = written(tmp_path)
    row = file.read_text(encoding="utf-8").splitlines()[1]
    file.write_text(f"{','.join(COLUMNS)}\n{row}\n{row}\n", encoding="utf-8")
    with pytest.raises(ClaimError, match="'article-resnet50-t4' twice"):
        load(RANGED, file)
    file.write_text(f"{','.join(COLUMNS)}\n{row},more\n", encoding="utf-8")
    with pytest.raises(ClaimError, match="line 2: 19 cells are needed"):
        load(RANGED, file)
    file.write_text("id,claim\n", encoding="utf-8")
    with pytest.raises(ClaimError, match="line 1: the columns must be id, .* got id, claim"):
        load(RANGED, file)
    with pytest.raises(ClaimError, match="cannot be read"):
        load(RANGED, tmp_path / "none.csv")


# One model


@pytest.mark.parametrize(
    ("claim", "machine", "model", "told"),
    [
        ("article-resnet50-t4", "T4", "resnet50", "resnet50: 4.6 % faster, 95 %: 4.0–5.2 %"),
        ("article-resnet18-t4", "T4", "resnet18", "resnet18: no difference shown"),
        ("article-resnet18-a100", "A100", "resnet18", "resnet18: 3.8 % slower, 95 %: 3.0–4.7 %"),
        ("article-resnet101-steady", "T4", "resnet101", "resnet101: 8.4 % faster"),
        ("article-resnet101-first-epoch", "T4", "resnet101", "takes 2.1 times as long"),
        (
            "article-100-epochs-a100",
            "A100",
            "resnet101",
            "9.6 % faster, 95 %: 7.9–11.2 %, over 100",
        ),
        ("article-vgg16-t4", "T4", "vgg16", "vgg16: 7.2 % faster"),
    ],
)
def test_claim_about_training_holds(store: Store, claim: str, machine: str, model: str, told: str):
    planted_experiment(store, models=(model,), machine=machine)
    found = judged(store, claim)
    assert found.status == "holds here"
    assert told in said(found)
    assert f"{machine}, batch 16, torch 2.14.1, 1 000 samples an epoch" in said(found)
    assert [pair.workload.model for pair in found.pairs] == [model]


@pytest.mark.parametrize(
    ("claim", "machine", "model", "eager", "compiled", "told"),
    [
        ("article-resnet50-t4", "T4", "resnet50", 34.0, 25.0, "% faster, 95 %: 3"),
        ("article-resnet18-t4", "T4", "resnet18", 15.0, 13.0, "15.4 % faster"),
        ("article-resnet18-a100", "A100", "resnet18", 3.0, 2.8, "7.1 % faster"),
        ("article-resnet101-steady", "T4", "resnet101", 66.0, 66.0, "no difference shown"),
        ("article-resnet101-first-epoch", "T4", "resnet101", 66.0, 16.0, "5.9"),
        ("article-100-epochs-a100", "A100", "resnet101", 10.0, 6.0, "% faster, 95 %"),
    ],
)
def test_claim_about_training_does_not_hold(
    store: Store, claim: str, machine: str, model: str, eager: float, compiled: float, told: str
):
    train(store, machine, eager, compiled, model)
    found = judged(store, claim)
    assert found.status == "does not hold here"
    assert told in said(found)


def test_slower_that_is_neither_shown_nor_excluded_is_not_settled(store: Store):
    shapes = {
        ("A100", "resnet18"): tuple(Shape(seconds, process_scatter=0.05) for seconds in (3.0, 3.05))
    }
    planted_experiment(store, models=("resnet18",), machine="A100", shapes=shapes)
    found = judged(store, "article-resnet18-a100")
    assert found.status == "not measured"
    assert said(found).startswith(
        "Not settled, more runs would tell. resnet18: no difference shown"
    )


def test_wide_interval_that_fits_the_claim_is_told_to_fit_no_difference_too(store: Store):
    shapes = {
        ("T4", "resnet50"): tuple(Shape(seconds, process_scatter=0.06) for seconds in (34.0, 33.0))
    }
    planted_experiment(store, models=("resnet50",), shapes=shapes)
    found = judged(store, "article-resnet50-t4")
    assert found.status == "holds here"
    assert "no difference at all would fit too" in said(found)


def test_no_effect_holds_by_no_noise(store: Store):
    """Few runs that scatter: anything from slower to faster would fit."""
    shapes = {
        ("T4", "resnet18"): tuple(Shape(seconds, process_scatter=0.06) for seconds in (15.0, 15.1))
    }
    planted_experiment(store, models=("resnet18",), shapes=shapes)
    found = judged(store, "article-resnet18-t4")
    assert found.status == "not measured"
    assert said(found).startswith("Not settled, more runs would tell. resnet18: no difference")


def test_first_look_judges_nothing(store: Store):
    planted_experiment(store, models=("resnet50",), repeats=1)
    found = judged(store, "article-resnet50-t4")
    assert found.status == "not measured"
    assert "resnet50: first look: " in said(found)
    assert "A verdict needs 3 runs an arm." in said(found)
    assert found.pairs


def test_warm_starts_say_nothing_of_a_cold_first_epoch(store: Store):
    warm = Variant(execution="compile", cache="warm")
    planted_experiment(store, models=("resnet101",), variants=(EAGER, warm))
    found = judged(store, "article-resnet101-first-epoch")
    assert found.status == "not measured"
    assert "Only warm starts were measured" in found.ours


def test_half_of_several_comparisons_must_hold(store: Store):
    train(store, "T4", 34.0, 32.4, "resnet50", batch_sizes=(16,))
    train(store, "T4", 34.0, 25.0, "resnet50", batch_sizes=(32,))
    found = judged(store, "article-resnet50-t4")
    assert found.status == "holds here"
    assert "Holds in 1 of 2 comparisons. resnet50, batch 16: " in said(found)
    train(store, "T4", 34.0, 25.0, "resnet50", batch_sizes=(64,))
    found = judged(store, "article-resnet50-t4")
    assert found.status == "does not hold here"
    assert "T4, batch 16, 32 and 64" in said(found)


def test_testing_counts_in_the_articles_epochs(store: Store):
    """Steady 5 % faster in training, and testing through the module twice as fast."""
    planted_experiment(store, models=("resnet50",), workload={"evaluate": "variant"})
    without = judged(store, "article-resnet50-t4")
    assert without.status == "holds here"

    def tested(one: Measured) -> Measured:
        seconds = 30.0 if one.run.spec.variant == EAGER else 15.0
        return replace(
            one, epochs=tuple(epoch.changed(evaluation_seconds=seconds) for epoch in one.epochs)
        )

    found = judged(store, "article-resnet50-t4", tested)
    assert found.status == "does not hold here"
    assert "35" in found.ours


# Near misses


@pytest.mark.parametrize(
    ("planting", "differs"),
    [
        ({"machine": "A100"}, "device (NVIDIA A100-SXM4-40GB here, T4 in the claim)"),
        ({"precisions": ("bf16",)}, "precision (bf16 here, fp32 in the claim)"),
        ({"workload": {"image_size": 96}}, "image size (96 here, 224 in the claim)"),
        ({"models": ("resnet101",)}, "model (resnet101 here, resnet50 in the claim)"),
        ({"machine": "CPU"}, "device (CPU here, T4 in the claim)"),
    ],
)
def test_near_miss_names_the_condition(store: Store, planting: dict[str, Any], differs: str):
    shapes = {
        (machine, model): (Shape(34.0), Shape(30.0))
        for machine in ("T4", "A100", "CPU")
        for model in ("resnet50", "resnet101")
    }
    planted_experiment(store, **{"models": ("resnet50",), "shapes": shapes, **planting})
    found = judged(store, "article-resnet50-t4")
    assert found.status == "not measured"
    assert found.conditions == f"differs in: {differs}"
    assert re.match(r"Nearest: resnet\d+ on \w+, batch 16: 1[23]", said(found))
    assert found.pairs


def test_far_misses_and_other_tasks_are_not_named(store: Store):
    planted_experiment(store, models=("small_cnn",), machine="CPU")
    planted_experiment(store, models=("resnet50",), machine="CPU", workload=INFER)
    found = judged(store, "article-resnet50-t4")
    assert said(found) == "No run under its conditions yet. | "


def test_condition_that_a_file_does_not_state_is_not_taken_for_met(store: Store):
    planted_experiment(store, models=("resnet50",))
    found = judged(store, "article-resnet50-t4", lambda one: of_run(one, unstated=("precision",)))
    assert found.status == "not measured"
    assert "precision (not stated here, fp32 in the claim)" in found.conditions


def test_failure_under_the_conditions_is_told(store: Store):
    experiment = planted_experiment(store, models=("resnet50",), repeats=1, measured=1)
    plant_run(
        store, experiment.id, epochs=0, status="failed", failure="compile error", reason="no g++"
    )
    found = judged(store, "article-resnet50-t4")
    assert found.status == "not measured"
    assert said(found) == "Compile failed. resnet50: compile error. no g++ | "
    assert len(found.runs) == 1


# Inference, failures


def test_inference_that_gains_nothing(store: Store):
    planted_experiment(store, models=("resnet18", "vgg16"), batch_sizes=(1,), workload=INFER)
    found = judged(store, "article-inference-t4")
    assert found.status == "holds here"
    assert "Holds in 2 of 2 comparisons. resnet18: 16.3 % slower" in said(found)


def test_inference_that_gains_refutes_it(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(planted.LATENCIES, "compile", Shape(0.035, compile_seconds=31.0))
    planted_experiment(store, models=("resnet18",), batch_sizes=(1,), workload=INFER)
    found = judged(store, "article-inference-t4")
    assert found.status == "does not hold here"
    assert "resnet18: 31" in found.ours


INSIDE = {"grad_mode": "inference_mode", "compile_in_grad_mode": True}


def infer_on_a100(
    store: Store, *, fails: bool, failure: str = "error", workload: dict[str, Any] = INSIDE
):
    experiment = planted_experiment(
        store,
        models=("resnet18",),
        machine="A100",
        batch_sizes=(1,),
        workload={**INFER, **workload},
        measured=1,
        repeats=1,
    )
    ending = {"epochs": 0, "status": "failed", "failure": failure, "reason": "Inference tensors"}
    plant_run(store, experiment.id, machine="A100", **(ending if fails else {}))


def test_crash_holds_where_compile_fails_and_eager_does_not(store: Store):
    infer_on_a100(store, fails=True)
    found = judged(store, "article-inference-a100")
    assert found.status == "holds here"
    assert found.ours == "1 of 1 compiled run failed. resnet18: error. Inference tensors"


def test_one_run_without_failure_refutes_the_crash(store: Store):
    infer_on_a100(store, fails=False)
    found = judged(store, "article-inference-a100")
    assert found.status == "does not hold here"
    assert found.ours == "0 of 1 compiled run failed."


@pytest.mark.parametrize("failure", sorted({*get_args(Failure)} - {*CRASHES}))
def test_failure_of_the_machine_or_of_the_time_is_no_crash(store: Store, failure: str):
    infer_on_a100(store, fails=True, failure=failure)
    assert judged(store, "article-inference-a100").status == "not measured"


def test_crash_is_judged_only_by_what_compiles_inside_of_inference_mode(store: Store):
    infer_on_a100(store, fails=False, workload={})
    found = judged(store, "article-inference-a100")
    assert found.status == "not measured"
    assert "differs in: compile in grad mode (False here, True in the claim)" in said(found)


def test_yolov7_without_a_gain_has_no_small_one(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(planted.LATENCIES, "compile", Shape(0.0463, compile_seconds=31.0))
    work = {**INFER, "image_size": 640}
    planted_experiment(store, models=("yolov7",), batch_sizes=(1,), workload=work)
    assert judged(store, "article-yolov7").status == "does not hold here"


def test_yolov7_works_with_a_small_gain_or_not(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(planted.LATENCIES, "compile", Shape(0.0440, compile_seconds=31.0))
    work = {**INFER, "image_size": 640}
    planted_experiment(store, models=("yolov7",), batch_sizes=(1,), workload=work)
    found = judged(store, "article-yolov7")
    assert found.status == "holds here"
    assert "yolov7: 4" in found.ours

    def wrong(one: Measured) -> Measured:
        if one.run.spec.variant == EAGER:
            return one
        differs = Parity(verdict="differs", text="its outputs differ by 0.4")
        return of_run(one, aftermath=Aftermath(parity=differs))

    found = judged(store, "article-yolov7", wrong)
    assert found.status == "does not hold here"
    assert "3 of 3 compiled runs did not work." in found.ours


# oneDNN Graph


def on_cpu(store: Store, precision: str) -> None:
    planted_experiment(
        store,
        models=("resnet18",),
        machine="CPU",
        batch_sizes=(1,),
        variants=(EAGER, COMPILE, FUSED),
        precisions=(precision,),
        workload=INFER,
    )


def test_onednn_graph_at_fp32(store: Store, monkeypatch: pytest.MonkeyPatch):
    on_cpu(store, "fp32")
    found = judged(store, "article-onednn-fp32")
    assert found.status == "holds here"
    assert "resnet18: 39.5 % faster" in said(found)
    assert [pair.candidate.name for pair in found.pairs] == ["onednn_graph"]
    monkeypatch.setitem(planted.LATENCIES, "onednn_graph", Shape(0.05))
    on_cpu(store, "bf16")
    only = [one for one in measured_in(store) if one.run.spec.workload.precision == "bf16"]
    slow = judge(replace(CLAIMS["article-onednn-fp32"], precisions=("bf16",)), Evidence.of(only))
    assert slow.status == "does not hold here"


def test_bf16_is_judged_only_where_the_cpu_has_it(store: Store):
    on_cpu(store, "bf16")
    found = judged(store, "article-onednn-bf16")
    assert found.status == "not measured"
    assert "vector instructions (avx2 here, avx512_bf16 or amx_bf16 in the claim)" in said(found)
    able = environment("CPU", cpu_isa="AVX512, avx512_bf16")
    found = judged(store, "article-onednn-bf16", lambda one: of_run(one, environment=able))
    assert found.status == "holds here"


# Many models


def many(store: Store, gains: list[float], names: list[str] = TEN, **changed: Any) -> None:
    """One run an arm of each model, which is so many times as fast compiled."""
    machine = changed.get("machine", "A100")
    shapes = {
        (machine, name): (Shape(10.0), Shape(10.0 / gain, compile_seconds=12.0))
        for name, gain in zip(names, gains, strict=True)
    }
    fields = {"machine": machine, "repeats": 1, "epochs": 5, "shapes": shapes, **changed}
    planted_experiment(store, models=tuple(names), **fields)


SPREAD = [0.94, 0.95, 0.97, 0.98, 1.0, 1.0, 1.02, 1.03, 1.05, 1.06]


def test_mean_over_models_holds_and_does_not(store: Store):
    many(store, [1.21 * factor for factor in SPREAD])
    found = judged(store, "pytorch-2.0-fp32")
    assert found.status == "holds here"
    assert re.match(r"10 models: 2\d % faster, 95 %: \d+–\d+ % on average\.", said(found))
    assert judged(store, "pytorch-2.0-average").ours == "No model with both fp32 and AMP so far."
    assert judged(store, "pytorch-2.0-timm").status == "not measured"
    # The same runs against another claim.
    strict = replace(CLAIMS["pytorch-2.0-fp32"], low=1.5, high=1.6)
    assert judge(strict, Evidence.of(measured_in(store))).status == "does not hold here"


def test_mean_needs_ten_models(store: Store):
    many(store, [1.2, 1.3], TEN[:2])
    found = judged(store, "pytorch-2.0-fp32")
    assert found.status == "not measured"
    assert found.conditions == "differs in: models (2 here, at least 10 are needed)"
    assert "on average over 2 models so far" in found.ours


def test_average_of_the_announcement_weighs_its_precisions(store: Store):
    """fp32 1.21 and AMP 1.51: 1.21 ** 0.25 * 1.51 ** 0.75 is 1.43, less a little spread."""
    many(store, [1.21 * factor for factor in SPREAD])
    many(store, [1.51 * factor for factor in SPREAD], precisions=("bf16",))
    found = judged(store, "pytorch-2.0-average")
    assert found.status == "holds here"
    assert found.ours.startswith("10 models: 42")
    assert judged(store, "pytorch-2.0-amp").status == "holds here"


def test_suite_is_told_by_its_prefix(store: Store):
    many(store, [1.38 * factor for factor in SPREAD], [f"timm:net{n}" for n in range(10)])
    assert judged(store, "pytorch-2.0-timm").status == "holds here"
    assert judged(store, "pytorch-2.0-huggingface").status == "not measured"


def test_share_that_ran(store: Store):
    many(store, [1.2] * 10)
    found = judged(store, "pytorch-2.0-works")
    assert found.status == "holds here"
    assert said(found).startswith("10 of 10 models worked: 100%, 95 %: 72–100 %.")

    def half_fail(one: Measured) -> Measured:
        fails = one.run.spec.variant != EAGER and int(one.run.spec.workload.model[-1]) % 2
        failed = {"status": "failed", "failure": "compile error"}
        return replace(of_run(one, **failed), epochs=()) if fails else one

    found = judged(store, "pytorch-2.0-works", half_fail)
    assert found.status == "does not hold here"
    assert said(found).startswith("5 of 10 models worked: 50%")
    one_less = [one for one in measured_in(store) if not one.run.spec.workload.model.endswith("0")]
    found = judge(CLAIMS["pytorch-2.0-works"], Evidence.of(one_less))
    assert (found.status, found.ours) == ("not measured", "9 of 9 models worked so far.")


def test_captured_whole(store: Store):
    many(store, [1.2] * 10)
    assert judged(store, "article-capture-dynamo").status == "holds here"

    def broken(one: Measured) -> Measured:
        seen = one.run.activity
        if seen is None or int(one.run.spec.workload.model[-1]) > 3:
            return one
        return of_run(one, activity=Activity(graphs=3, graph_breaks=("print",)))

    found = judged(store, "article-capture-dynamo", broken)
    assert found.status == "does not hold here"
    assert "6 of 10 models were captured whole" in found.ours


def test_torchscript_is_said_not_to_be_measured(store: Store):
    found = judged(store, "article-capture-torchscript")
    assert found.ours == "Not measured by this dashboard."
    assert "TorchScript" in found.conditions


def test_transformers_against_convolutional_networks(store: Store):
    names = [f"torchvision:{name}" for name in ("vit_b_16", "vit_b_32", "swin_t")]
    names += ["torchvision:densenet121", "torchvision:vgg11", "torchvision:mobilenet_v2"]
    many(store, [1.3, 1.33, 1.36, 1.02, 1.05, 1.08], names, machine="CPU")
    found = judged(store, "article-transformers")
    assert found.status == "holds here"
    assert "Speedup of transformers by that of convolutional networks: 1.2" in found.ours
    turned = [one for one in measured_in(store) if "swin" not in one.run.spec.workload.model]
    found = judge(CLAIMS["article-transformers"], Evidence.of(turned))
    assert found.ours == "2 transformers, 3 convolutional networks so far."


def test_transformers_that_gain_less(store: Store):
    names = [f"torchvision:{name}" for name in ("vit_b_16", "vit_b_32", "swin_t")]
    names += ["torchvision:densenet121", "torchvision:vgg11", "torchvision:mobilenet_v2"]
    many(store, [1.02, 1.05, 1.08, 1.3, 1.33, 1.36], names)
    assert judged(store, "article-transformers").status == "does not hold here"


@pytest.mark.parametrize(
    ("server", "desktop", "status"),
    [(1.4, 1.1, "holds here"), (1.1, 1.4, "does not hold here")],
)
def test_desktop_against_server_gpu(
    store: Store, monkeypatch: pytest.MonkeyPatch, server: float, desktop: float, status: str
):
    monkeypatch.setitem(planted.DEVICES, "3090", ("cuda:0", "NVIDIA GeForce RTX 3090"))
    few = [0.98, 1.0, 1.02]
    many(store, [server * factor for factor in few], TEN[:3])
    before = judged(store, "article-desktop-gpu")
    assert before.ours == "No workload was measured on both a desktop and a server GPU."
    many(store, [desktop * factor for factor in few], TEN[:3], machine="3090")
    found = judged(store, "article-desktop-gpu")
    assert found.status == status
    assert "3 models on server GPUs, 3 models on desktop GPUs" in found.conditions


# Trends


def by_batch(store: Store, gains: dict[int, float], models: list[str]) -> None:
    for batch_size, gain in gains.items():
        many(store, [gain] * len(models), models, batch_sizes=(batch_size,), machine="CPU")


def test_gain_that_grows_with_the_batch(store: Store):
    by_batch(store, {4: 1.0, 8: 1.1, 16: 1.2, 32: 1.3}, TEN[:3])
    found = judged(store, "article-when-batch")
    assert found.status == "holds here"
    assert "Rank correlation of speedup and batch size: +" in found.ours
    assert "12 comparisons, CPU, batch 4, 8, 16 and 32" in said(found)


def test_gain_that_falls_with_the_batch(store: Store):
    by_batch(store, {4: 1.3, 8: 1.2, 16: 1.1, 32: 1.0}, TEN[:3])
    assert judged(store, "article-when-batch").status == "does not hold here"


def test_one_batch_size_shows_no_trend(store: Store):
    by_batch(store, {16: 1.2}, TEN[:6])
    found = judged(store, "article-when-batch")
    assert found.status == "not measured"
    assert found.ours == "6 comparisons so far, too few for a correlation with batch size."


def parameters(one: Measured) -> Measured:
    """The last digit of a model's name is its size."""
    size = 1_000_000 * (1 + int(one.run.spec.workload.model[-1]))
    return of_run(one, prepared=one.run.prepared.changed(parameters=size))


def test_gain_by_parameters_and_by_load(store: Store):
    many(store, [1.05 + 0.03 * place for place in range(10)])
    found = judged(store, "article-when-model", parameters)
    assert found.status == "holds here"
    assert "parameter count" in found.ours
    # Without what tells the load, nothing is told of it.
    found = judged(store, "article-when-busy", lambda one: of_run(one, aftermath=None))
    assert found.ours == "No run under its conditions yet."

    def idle(one: Measured) -> Measured:
        """The larger gains where the GPU works less."""
        share = 0.9 - 0.05 * int(one.run.spec.workload.model[-1])
        step = 10.0 / one.run.spec.workload.steps_per_epoch
        return of_run(one, aftermath=Aftermath(device_busy_seconds=share * step))

    found = judged(store, "article-when-busy", idle)
    assert found.status == "does not hold here"
    assert "Rank correlation of speedup and the share of a step" in found.ours


def test_load_is_the_share_of_a_step_and_not_of_an_epoch_that_waits(store: Store):
    """The larger gains where the GPU is busier in a step, and waits longer for its data."""
    gains = [1.05 + 0.03 * place for place in range(10)]
    shapes = {
        ("A100", name): tuple(
            Shape(seconds, wait_share=0.06 + 0.08 * place)
            for seconds in (10.0, 10.0 / gains[place])
        )
        for place, name in enumerate(TEN)
    }
    many(store, gains, shapes=shapes)

    def busier(one: Measured) -> Measured:
        place = int(one.run.spec.workload.model[-1])
        step = 10.0 * (0.94 - 0.08 * place) / one.run.spec.workload.steps_per_epoch
        return of_run(one, aftermath=Aftermath(device_busy_seconds=(0.5 + 0.04 * place) * step))

    assert judged(store, "article-when-busy", busier).status == "holds here"


def test_trend_that_noise_hides_is_not_settled(store: Store):
    many(store, [1.1, 1.3, 1.0, 1.2, 1.25, 1.15, 1.22], TEN[:7])
    found = judged(store, "article-when-model", parameters)
    assert found.status == "not measured"
    assert found.ours.startswith("Not settled, more comparisons would tell. Rank correlation")


def test_gain_over_measured_epochs(store: Store):
    many(store, [1.2] * 6, TEN[:6])
    found = judged(store, "article-when-epochs")
    assert found.status == "holds here"
    assert "in 6 of 6 comparisons, 95 %: 61–100 %" in said(found)

    def late(one: Measured) -> Measured:
        """The compile in the last epoch instead of the first."""
        return replace(one, epochs=one.epochs[::-1])

    store_runs = [late(one) for one in measured_in(store)]
    assert judge(CLAIMS["article-when-epochs"], Evidence.of(store_runs)).status == (
        "does not hold here"
    )
    few = [one for one in measured_in(store) if one.run.spec.workload.model[-1] < "3"]
    found = judge(CLAIMS["article-when-epochs"], Evidence.of(few))
    assert (found.status, found.conditions) == ("not measured", "Needs 5 comparisons.")


# What would measure it


def machine(*devices: Device, isa: str = "AVX2", timm: bool = False) -> Capabilities:
    names = tuple(name.partition(":")[2] for name in SEVERAL_MODELS)
    return Capabilities(
        torch="2.14.1",
        torchvision="0.29.1",
        devices=(Device(id="cpu", name="Xeon"), *devices),
        backends=(Backend(name="inductor"),),
        modes=("default",),
        inductor_options={},
        torchvision_models=("resnet18", "resnet50", "resnet101", "vgg16", "vgg11", *names),
        timm="1.0" if timm else None,
        timm_models=names if timm else (),
        compiler="/usr/bin/g++",
        openssl="/usr/bin/openssl",
        cpu_name="Xeon",
        cpu_cores=2,
        cpu_affinity=2,
        cpu_isa=isa,
        memory_bytes=64_000_000_000,
    )


T4 = Device(id="cuda:0", name="Tesla T4", memory_bytes=16_000_000_000, compute_capability="7.5")
A100 = Device(id="cuda:1", name="NVIDIA A100-SXM4-40GB", memory_bytes=40_000_000_000)


def test_claim_is_queued_on_the_device_that_it_is_about():
    step = next_step(CLAIMS["article-resnet50-t4"], machine(A100, T4))
    experiment = step.experiment
    assert experiment.device == "cuda:0"
    assert (experiment.models, experiment.repeats) == (("resnet50",), 3)
    assert experiment.variants == (EAGER, COMPILE)
    assert dict(experiment.workload)["image_size"] == 224


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_is_offered_meets_the_claims_conditions(claim: str):
    one = CLAIMS[claim]
    step = next_step(one, machine(T4, A100, isa="AVX512, amx_bf16", timm=True))
    if step.experiment is None:
        assert step.sentence
        return
    for run in step.experiment.runs():
        assert one.takes_model(run.workload.model)
        assert one.task in ("any", run.workload.task)
        assert not one.precisions or run.workload.precision in one.precisions
        assert not one.image_sizes or run.workload.image_size in one.image_sizes
        name = {"cpu": "Xeon", "cuda:0": T4.name, "cuda:1": A100.name}[run.device]
        assert one.takes_device(run.device, name)


def test_elsewhere_the_command_of_the_same_is_told():
    step = next_step(CLAIMS["article-vgg16-t4"], machine())
    assert step.experiment is None
    assert step.sentence == "Measure on a T4"
    assert "--model vgg16" in step.command and step.command.endswith("--csv results.csv")
    assert "--device cuda:0" in step.command
    assert next_step(CLAIMS["article-resnet18-a100"], None).sentence == "Measure on an A100"
    without = next_step(CLAIMS["article-onednn-bf16"], machine())
    assert (without.experiment, without.sentence) == (None, "Measure on a CPU with bf16")
    assert next_step(CLAIMS["article-onednn-bf16"], machine(isa="AVX512, amx_bf16")).experiment


def test_what_this_machine_lacks_is_told():
    lacking = next_step(CLAIMS["pytorch-2.0-timm"], machine(A100))
    assert lacking.experiment is None and "needs timm" in lacking.sentence
    able = next_step(CLAIMS["pytorch-2.0-timm"], machine(A100, timm=True))
    assert len(able.experiment.models) >= 10
    assert "Hugging Face" in next_step(CLAIMS["pytorch-2.0-huggingface"], machine(A100)).sentence


def test_claims_about_models_in_general_take_enough_of_them():
    for claim in ("pytorch-2.0-works", "pytorch-2.0-average", "article-transformers"):
        models = next_step(CLAIMS[claim], machine(A100)).experiment.models
        assert len(models) >= 10
        assert not any(model.startswith("timm:") for model in models)


# The table for spreadsheets


def test_download_is_a_table_that_no_spreadsheet_runs(store: Store):
    infer_on_a100(store, fails=True)
    evidence = Evidence.of(measured_in(store))
    judgements = [judge(claim, evidence) for claim in CLAIMS.values()]
    crash = next(one for one in judgements if one.claim.id == "article-inference-a100")
    text = io.StringIO(newline="")
    write(text, [*judgements, replace(crash, ours="=HYPERLINK(1)")])
    rows = list(csv.DictReader(io.StringIO(text.getvalue())))
    assert [row["id"] for row in rows] == [*CLAIMS, "article-inference-a100"]
    told = next(row for row in rows if row["id"] == "article-inference-a100")
    assert (told["status"], told["ours"]) == ("holds here", crash.ours)
    assert rows[-1]["ours"] == "'=HYPERLINK(1)"
