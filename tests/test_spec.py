"""What can be run is written in one line and read back; what cannot is refused with the way out."""

import json
import re
from typing import get_args

import pytest

from bench_core.spec import (
    Execution,
    Experiment,
    Measurement,
    Rung,
    RunSpec,
    SpecError,
    Variant,
    Workload,
    parse_variant,
    variant_argument,
)

COMPILE = Variant(execution="compile")


def small(**changed):
    return Workload(**{"model": "small_cnn", "samples": 64, "image_size": 32, **changed})


def test_every_spec_is_one_line_of_json_and_comes_back_equal():
    run = RunSpec(
        workload=small(precision="bf16", threads=2),
        variant=parse_variant('compile:{"options":{"epilogue_fusion":true},"dynamic":false}'),
        measurement=Measurement(epochs=3, label="a\nlabel"),
        device="cuda:1",
    )
    line = run.to_json()
    assert "\n" not in line
    assert RunSpec.from_json(line) == run


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"samples": 3}, "samples must be at least batch_size with drop_last, got 3"),
        ({"precision": "fp8"}, "precision must be one of 'fp32', 'bf16' or 'fp16', got \"fp8\""),
        ({"batchsize": 4}, "batchsize is not a field of the spec (value 4)"),
        ({"model": "resnet19"}, "file:NAME.py or function:NAME.py, got 'resnet19'"),
        ({"model": "function:../evil.py", "task": "infer"}, "got 'function:../evil.py'"),
        ({"model": "timm:"}, "got 'timm:'"),
        ({"model": "file:../evil.py"}, "got 'file:../evil.py'"),
        ({"dataset": "imagefolder"}, "imagefolder needs dataset_path"),
        ({"dataset_path": "/x"}, "dataset_path is only read by imagefolder"),
        ({"pipeline": "resident", "loader_workers": 2}, "loader_workers must be 0, got 2"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"task": "guess"}, "task must be one of 'train' or 'infer', got \"guess\""),
        (
            {"grad_mode": "no_grad"},
            "grad_mode is only read by task infer, got 'no_grad'",
        ),
        ({"backward": True}, "backward is only read by task infer, got True"),
        ({"model": "function:sin_cos"}, "has no parameters to train; choose task infer"),
    ],
)
def test_a_workload_that_cannot_run_is_refused_with_the_value(fields, sentence):
    with pytest.raises(SpecError) as refused:
        small(**fields)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('compile:{"mode":"default","options":{}}', "mode or options, not both"),
        ('compile:{"mode":"fastest"}', 'got "fastest"'),
        ('compile:{"backend":"aot_eager","mode":"default"}', "ignores mode without a word"),
        ('compile:{"backend":"eager","options":{"a":1}}', "ignores options without a word"),
        ('compile:{"options":{"freezing":true}}', "does nothing"),
        ('compile:{"dynamik":true}', "dynamik is not a field"),
        ("compile:{", "must be a JSON object"),
        ("compile:[1]", "must be a JSON object"),
        ('eager:{"fullgraph":true}', "takes no arguments of torch.compile, got fullgraph"),
        ('eager:{"cache":"warm"}', "takes no arguments of torch.compile, got cache"),
        ('onednn_graph:{"mode":"default"}', "takes no arguments of torch.compile, got mode"),
        ('jit_trace_frozen:{"cache":"cold"}', "takes no arguments of torch.compile, got cache"),
        ('export_aot:{"options":{"a":1}}', "takes no arguments of torch.compile, got options"),
        (
            'export_aot:{"cache":"off"}',
            "compiles anew every time, so cache must be cold",
        ),
        ('compile_frozen:{"backend":"aot_eager"}', "only backend inductor freezes, got backend"),
        ('compile:{"options":{"freezing":true}}', "choose execution compile_frozen"),
        ("jit", "execution must be one of"),
    ],
)
def test_what_torch_refuses_or_ignores_is_refused_before_a_process_starts(text, sentence):
    with pytest.raises(SpecError) as refused:
        parse_variant(text)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"device": "gpu"}, "device must be cpu, mps or cuda:N, got 'gpu'"),
        ({"workload": small(tf32="on")}, "tf32 on needs a CUDA device"),
        (
            {"variant": Variant(execution="compile", backend="cudagraphs")},
            "backend cudagraphs needs a CUDA device",
        ),
        (
            {"variant": Variant(execution="compile_frozen")},
            "execution compile_frozen is for inference, got task 'train'; choose task infer",
        ),
    ],
)
def test_a_device_or_a_task_that_cannot_do_it_is_named(fields, sentence):
    with pytest.raises(SpecError) as refused:
        RunSpec(**{"workload": small(), **fields})
    assert sentence in str(refused.value)


def test_a_variant_reads_as_the_command_line_takes_it():
    for text in ("eager", "compile", 'compile:{"mode": "max-autotune", "cache": "warm"}'):
        variant = parse_variant(text)
        assert parse_variant(variant_argument(variant)) == variant
    assert parse_variant('compile:{"mode":"max-autotune","dynamic":false}').name == (
        "compile max-autotune dynamic=False"
    )


def test_the_arm_forgets_the_cache_and_nothing_else():
    cold, warm = COMPILE, COMPILE.changed(cache="warm")
    assert cold != warm
    assert cold.arm == warm.arm
    assert COMPILE.changed(dynamic=False).arm != cold.arm


def test_only_arguments_that_differ_from_pytorchs_defaults_are_passed_on():
    assert COMPILE.arguments == {}
    assert Variant(execution="compile", dynamic=False).arguments == {"dynamic": False}
    assert Variant(execution="compile", backend="aot_eager").arguments == {"backend": "aot_eager"}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sin_cos", "function:sin_cos"),
        ("ResNet18", "resnet18"),
        ("yolo", "yolov7"),
        ("resnet", "resnet50 or resnet18 or resnet101"),
    ],
)
def test_a_name_that_is_nearly_a_models_is_told_whose(typed, meant):
    with pytest.raises(SpecError, match=f"got '{typed}'; did you mean {re.escape(meant)}\\?"):
        Workload(model=typed)
    with pytest.raises(SpecError, match="got 'qqq'$"):
        Workload(model="qqq")


def test_one_model_has_one_name():
    assert small(model="torchvision:resnet18", samples=64).model == "resnet18"


def test_the_grid_goes_a_b_b_a_and_repeats_start_warm():
    experiment = Experiment(
        models=("small_cnn",),
        batch_sizes=(8, 16),
        variants=(Variant(), COMPILE),
        repeats=3,
        workload={"samples": 64, "image_size": 32},
    )
    runs = experiment.runs()
    assert [run.workload.batch_size for run in runs] == [8] * 6 + [16] * 6
    assert [run.variant.execution for run in runs[:6]] == [
        "eager", "compile", "compile", "eager", "eager", "compile",
    ]  # fmt: skip
    assert [run.variant.cache for run in runs[:6]] == [None, "cold", "warm", None, None, "warm"]
    assert [run.measurement.repeat for run in runs[:6]] == [1, 1, 2, 2, 3, 3]


def test_a_grid_with_one_bad_cell_is_refused_whole():
    with pytest.raises(SpecError, match="samples must be at least batch_size"):
        Experiment(
            models=("small_cnn",), batch_sizes=(8, 128), variants=(Variant(),),
            workload={"samples": 64},
        )  # fmt: skip
    with pytest.raises(SpecError, match="batch_sizes names one thing twice"):
        Experiment(models=("small_cnn",), batch_sizes=(8, 8), variants=(Variant(),))


def test_the_cache_key_is_shared_by_cold_and_warm_and_by_nothing_else():
    cold = RunSpec(workload=small(), variant=COMPILE)
    warm = cold.changed(variant=COMPILE.changed(cache="warm"))
    other = cold.changed(workload=small(batch_size=8))
    assert cold.cache_key == warm.cache_key != other.cache_key


def test_steps_and_remainder_of_an_epoch():
    assert (small(batch_size=24).steps_per_epoch, small(batch_size=24).remainder) == (2, 0)
    ragged = small(batch_size=24, drop_last=False)
    assert (ragged.steps_per_epoch, ragged.remainder) == (3, 16)


def test_equal_variants_hash_alike_whatever_the_order_of_their_options():
    one = Variant(execution="compile", options={"a": 1, "b": 2})
    two = Variant(execution="compile", options=json.loads('{"b": 2, "a": 1}'))
    assert one == two
    assert len({one, two}) == 1


# Inference


def infer(**changed):
    return Workload(**{"task": "infer", "model": "small_cnn", "image_size": 32, **changed})


def test_inference_fills_in_what_it_needs():
    resident = infer(batch_size=8)
    assert (resident.pipeline, resident.samples, resident.grad_mode) == ("resident", 8, "no_grad")
    loaded = infer(batch_size=8, pipeline="on_the_fly")
    assert (loaded.samples, loaded.steps_per_epoch) == (8 * 32, 32)
    assert infer(backward=True).grad_mode == "enabled"
    assert (infer().unit, small().unit) == ("iteration", "epoch")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"optimizer": "sgd"}, "optimizer is only read by task train, got 'sgd'; remove it"),
        ({"learning_rate": 0.1}, "learning_rate is only read by task train, got 0.1; remove it"),
        ({"evaluate": "variant"}, "evaluate is only read by task train, got 'variant'; remove it"),
        ({"drop_last": False}, "drop_last is only read by task train, got False; remove it"),
        (
            {"grad_mode": "enabled"},
            "backward needs grad_mode enabled, and without backward it is no_grad or "
            "inference_mode, got backward False with grad_mode 'enabled'; leave grad_mode out",
        ),
        ({"backward": True, "grad_mode": "no_grad"}, "got backward True with grad_mode 'no_grad'"),
        (
            {"model": "function:sin_cos", "precision": "bf16"},
            "a function is measured with precision fp32, got 'bf16'",
        ),
        (
            {"model": "function:mine.py", "pipeline": "cached"},
            "a function is measured with pipeline resident, got 'cached'",
        ),
    ],
)
def test_what_inference_would_not_read_or_cannot_do_is_refused(fields, sentence):
    with pytest.raises(SpecError) as refused:
        infer(**fields)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("workload", "execution", "device", "sentence"),
    [
        (infer(), "onednn_graph", "cuda:0", "runs on the CPU only, got device 'cuda:0'"),
        (infer(backward=True), "export_aot", "cpu", "backward runs with execution eager or"),
        (
            infer(model="function:sin_cos"), "jit_trace_frozen", "cpu",
            "the function function:sin_cos runs with execution eager or compile",
        ),
    ],
)  # fmt: skip
def test_an_execution_that_cannot_run_it_is_refused_with_the_way_out(
    workload, execution, device, sentence
):
    with pytest.raises(SpecError) as refused:
        RunSpec(workload=workload, variant=Variant(execution=execution), device=device)
    assert sentence in str(refused.value)


def test_a_run_is_whole_after_its_epochs_or_its_iterations():
    both = Measurement(epochs=7, iterations=300)
    assert RunSpec(workload=small(), measurement=both).is_done_after == 7
    assert RunSpec(workload=infer(), measurement=both).is_done_after == 300


def test_repeats_of_a_frozen_compile_start_warm_and_an_export_never_does():
    names = ("compile_frozen", "export_aot", "onednn_graph")
    experiment = Experiment(
        models=("small_cnn",), batch_sizes=(1,), repeats=2,
        variants=tuple(Variant(execution=name) for name in names), workload={"task": "infer"},
    )  # fmt: skip
    caches = [(run.variant.execution, run.variant.cache) for run in experiment.runs()]
    assert caches == [
        ("compile_frozen", "cold"), ("export_aot", "cold"), ("onednn_graph", None),
        ("onednn_graph", None), ("export_aot", "cold"), ("compile_frozen", "warm"),
    ]  # fmt: skip
    assert len({run.variant.arm for run in experiment.runs()}) == 3


def test_every_execution_reads_as_the_command_line_takes_it():
    for name in get_args(Execution):
        variant = Variant(execution=name)
        assert parse_variant(variant_argument(variant)) == variant
        assert variant.name == variant_argument(variant) == name
    frozen = parse_variant('compile_frozen:{"mode":"max-autotune","cache":"warm"}')
    assert parse_variant(variant_argument(frozen)) == frozen
    assert frozen.name == "compile_frozen max-autotune"


def test_a_frozen_compile_has_a_cache_of_its_own():
    frozen, plain = (
        RunSpec(workload=infer(), variant=Variant(execution=name))
        for name in ("compile_frozen", "compile")
    )
    assert frozen.cache_key != plain.cache_key


def test_rungs_are_of_one_task_and_equal_arms_are_equal() -> None:
    grid = {"models": ("small_cnn",), "batch_sizes": (16,), "variants": (Variant(),)}
    with pytest.raises(SpecError, match="rungs must be of one task"):
        Experiment(**grid, rungs=(Rung(), Rung(workload={"task": "infer"})))
    with pytest.raises(SpecError, match="these rungs differ in memory_layout, side"):
        other = Rung(side="B", workload={"memory_layout": "channels_last"})
        Experiment(**grid, rungs=(Rung(side="A"), other))
    with pytest.raises(SpecError, match=r'rungs names one thing twice: \{"side":"A"\}'):
        Experiment(**grid, rungs=(Rung(side="A"), Rung(side="A")))


@pytest.mark.parametrize(
    ("rungs", "workload", "sentence"),
    [
        (
            (Rung(workload={"drop_last": False}), Rung()),
            {"samples": 1000},
            "as many samples in an epoch, got 1000 and 992: .* or one drop_last",
        ),
        (
            (Rung(workload={"batch_size": 8}), Rung(workload={"batch_size": 16})),
            {"task": "infer"},
            "as many samples in a call, got 8 and 16: .* by --batch-size",
        ),
    ],
)
def test_rungs_of_unlike_work_are_refused_before_they_are_queued(
    rungs: tuple[Rung, ...], workload: dict[str, object], sentence: str
) -> None:
    """One that is stored already can be read: its experiment would be lost otherwise."""
    grid = {"models": ("small_cnn",), "batch_sizes": (16,), "variants": (Variant(),)}
    experiment = Experiment(**grid, rungs=rungs, workload=workload)
    assert Experiment.from_json(experiment.to_json()) == experiment
    with pytest.raises(SpecError, match=sentence):
        experiment.refuse_unlike_rungs()
    equal = Experiment(**grid, rungs=rungs[:1], workload=workload)
    equal.refuse_unlike_rungs()
