"""What can be run is written in one line and read back; what cannot is refused with the way out."""

import json

import pytest

from bench_core.spec import (
    Experiment,
    Measurement,
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
        ({"model": "resnet19"}, "torchvision:NAME or file:NAME.py, got 'resnet19'"),
        ({"model": "file:../evil.py"}, "got 'file:../evil.py'"),
        ({"dataset": "imagefolder"}, "imagefolder needs dataset_path"),
        ({"dataset_path": "/x"}, "dataset_path is only read by imagefolder"),
        ({"pipeline": "resident", "loader_workers": 2}, "loader_workers must be 0, got 2"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
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
    ],
)
def test_a_device_that_cannot_do_it_is_named(fields, sentence):
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
