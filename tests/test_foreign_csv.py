"""Files of other tools: every time with its right unit and variant, and no fact made up."""

from __future__ import annotations

import json

import pytest

from bench_core import columns_csv, dynamo_csv, imports, timm_csv
from bench_core.file_words import facts_of
from bench_core.imported import Family, ImportedRun
from bench_core.measured import measure
from bench_core.pairing import Comparisons, comparisons
from bench_core.source import SPREAD, SYNCHRONISED
from bench_core.spec import Variant
from bench_core.table_file import BadFile, TableFile, open_table

TIMM_HEADER = (
    "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count"
)
EAGER_FILE = "benchmark-infer-amp-nchw-pt291-cu128-4090.csv"
COMPILED_FILE = "benchmark-infer-amp-nchw-pt291-cu128-4090-dynamo.csv"
EAGER_ROWS = [
    "resnet50,224,2000.0,128.0,256,25.56",
    "vit_base_patch16_224.augreg_in21k,224,1000.0,64.0,64,86.57",
    "swin_tiny,224,1000.0,1024.0,1024,28.29",
]
COMPILED_ROWS = [
    "resnet50,224,4000.0,64.0,256.0,25.56",
    "vit_base_patch16_224.augreg_in21k,224,2000.0,32.0,64,86.57",
    "swin_tiny,224,2560.0,100.0,256,28.29",
]
# Of inference on a GPU, where the file's name says all that it can.
UNSTATED_BY_TIMM = {
    *("tf32", "threads", "threads in use", "parameters", SPREAD),
    *("grad_mode", "compile_in_grad_mode", "backward"),
}
DYNAMO_HEADER = (
    "dev,name,batch_size,speedup,abs_latency,compilation_latency,compression_ratio,eager_peak_mem,"
    "dynamo_peak_mem,calls_captured,unique_graphs,graph_breaks,unique_graph_breaks,"
    "autograd_captures,autograd_compiles,cudagraph_skips"
)
DYNAMO_FILE = "inductor_torchbench_float32_inference_cpu_performance.csv"
DYNAMO_ROW = "cpu,BERT_pytorch,2,2.0,50.0,40.0,0.9,250.0,271.0,545,1,0,0,0,0,1"
ARMS_HEADER = (
    "pt_version,model_name,compile_mode,batch_size,max_num_tokens,run_type,precision,hf_time,"
    "sdpa_no_compile_time,sdpa_compile_time"
)
ARMS_ROW = "2.0.0+cu117,gpt2,reduce-overhead,{batch},NaN,forward-only,torch.float16,0.9,0.4,0.2"


def table(name: str, header: str, *rows: str) -> TableFile:
    return open_table(name, "\n".join([header, *rows, ""]).encode())


def read(opened: TableFile, family: Family, **answers: str) -> list[ImportedRun]:
    assert imports.family_of(opened) is family
    return list(imports.runs(opened, {key.replace("__", ":"): one for key, one in answers.items()}))


def suggested(opened: TableFile, **answers: str) -> dict[str, str | None]:
    questions = imports.family_of(opened).questions(opened, answers)
    return {question.key: question.suggestion for question in questions}


def refusal(opened: TableFile, **answers: str) -> BadFile:
    with pytest.raises(BadFile) as caught:
        list(imports.runs(opened, answers))
    return caught.value


def compared(*found: ImportedRun) -> Comparisons:
    return comparisons([measure(one.run, one.epochs) for one in found], floors={})


# timm


def timm_pair() -> list[ImportedRun]:
    return [
        *read(table(EAGER_FILE, TIMM_HEADER, *EAGER_ROWS), timm_csv.FAMILY),
        *read(table(COMPILED_FILE, TIMM_HEADER, *COMPILED_ROWS), timm_csv.FAMILY),
    ]


def test_the_name_of_a_timm_file_says_what_its_columns_do_not() -> None:
    run = timm_pair()[3].run
    work, place = run.spec.workload, run.environment
    assert place is not None and run.source is not None
    assert (work.task, work.model, work.batch_size, work.image_size) == (
        "infer",
        "timm:resnet50",
        256,
        224,
    )
    assert (work.precision, work.memory_layout) == ("fp16", "contiguous")
    assert (run.spec.device, run.spec.variant) == ("cuda:0", Variant(execution="compile"))
    assert (place.machine, place.device_name, place.torch, place.cuda) == (
        "4090",
        "4090",
        "2.9.1",
        "12.8",
    )
    assert run.source.inferred["precision"].startswith("amp in the file's name")
    assert run.source.inferred["variant"] == "dynamo in the file's name"
    assert run.source.line == 2


def test_a_step_of_timm_is_milliseconds_and_a_mean_without_spread() -> None:
    run = timm_pair()[0].run
    assert run.stated is not None
    assert run.stated.steady_seconds == pytest.approx(0.128)
    assert run.stated.start_seconds is None
    # timm waits for the device before it reads the clock.
    assert set(run.unstated) == UNSTATED_BY_TIMM


def test_both_files_of_a_timm_pair_agree_in_all_but_the_variant_and_the_batch() -> None:
    found = compared(*timm_pair())
    assert [pair.speedup.ratio for pair in found.pairs] == pytest.approx([2.0, 2.0])
    assert {left.reason for left in found.left_out} == {
        "no eager run of the same workload: batch_size is 256 here, 1024 there",
        "no other variant than eager of the same workload: batch_size is 1024 here, 256 there",
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "benchmark-infer-fp32-nchw-pt221-cpu-i9_10940x-dynamo.csv",
            {"torch": "2.2.1", "device": "cpu", "machine": "i9_10940x", "variant": "compile"},
        ),
        (
            "benchmark-train-amp-nhwc-pt112-cu113-rtx3090 (1).csv",
            {
                "torch": "1.12",
                "cuda": "11.3",
                "device": "cuda:0",
                "machine": "rtx3090",
                "memory_layout": "channels_last",
                "variant": "eager",
            },
        ),
        ("benchmark-infer-bf16-nchw-pt2100-cu130-h100.csv.gz", {"torch": "2.10.0"}),
        ("results.csv", {}),
    ],
)
def test_file_names_are_read_word_by_word(name: str, expected: dict[str, str]) -> None:
    found = {key: fact.value for key, fact in facts_of(name).items()}
    assert expected.items() <= found.items()
    assert found or not expected


def test_amp_is_bfloat16_on_a_cpu() -> None:
    opened = table("benchmark-infer-amp-nchw-pt240-cpu-xeon.csv", TIMM_HEADER, EAGER_ROWS[0])
    assert suggested(opened)["precision"] == "bf16"
    [one] = read(opened, timm_csv.FAMILY)
    assert "threads in use" in one.run.unstated and "tf32" not in one.run.unstated


def test_a_name_that_says_nothing_is_asked_about() -> None:
    opened = table("mine.csv", TIMM_HEADER, EAGER_ROWS[0])
    assert suggested(opened) == {
        "machine": None,
        "device": None,
        "precision": None,
        "memory_layout": None,
        "torch": "not stated",
        "variant": None,
    }
    [one] = read(
        opened,
        timm_csv.FAMILY,
        machine="mine",
        device="cuda:0",
        precision="fp32",
        memory_layout="not stated",
        variant="eager",
    )
    assert set(one.run.unstated) == {*UNSTATED_BY_TIMM, "memory_layout", "torch", "device_name"}
    assert one.run.source is not None
    assert one.run.source.inferred["precision"] == "said with the import"


def test_a_step_of_timms_training_is_an_epoch_of_one_step() -> None:
    opened = table(
        "benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv",
        "model,train_samples_per_sec,train_step_time,train_batch_size,train_img_size,param_count",
        "tinynet_e,11915.85,41.681,512,106,2.04",
    )
    [one] = read(opened, timm_csv.FAMILY)
    work = one.run.spec.workload
    assert (work.task, work.samples, work.batch_size, work.steps_per_epoch) == (
        "train",
        512,
        512,
        1,
    )
    assert one.run.stated is not None and one.run.source is not None
    assert one.run.stated.steady_seconds == pytest.approx(0.041681)
    assert one.run.source.inferred["samples"].endswith("an epoch is one step here")
    assert "optimizer" in one.run.unstated


def test_a_row_of_timm_without_a_time_is_a_run_that_failed() -> None:
    opened = table(EAGER_FILE, TIMM_HEADER, "resnet50,224,,,,25.56")
    [one] = read(opened, timm_csv.FAMILY)
    assert (one.run.status, one.run.stated) == ("failed", None)
    assert "batch_size" in one.run.unstated


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("resnet50,224,2000.0,fast,256,25.56", "infer_step_time"),
        ("resnet50,224,2000.0,-1,256,25.56", "infer_step_time"),
        ("resnet50,224,2000.0,0,256,25.56", "infer_step_time"),
        ("resnet50,224,2000.0,1e300,256,25.56", "infer_step_time"),
        ("resnet50,224,2000.0,5.1,12.5,25.56", "infer_batch_size"),
        ("resnet50,224,2000.0,5.1,,25.56", "infer_batch_size"),
        (",224,2000.0,5.1,16,25.56", "model"),
    ],
)
def test_a_bad_cell_is_named_by_line_and_column(row: str, column: str) -> None:
    error = refusal(table(EAGER_FILE, TIMM_HEADER, EAGER_ROWS[0], row))
    assert (error.line, error.column) == (3, column)


# The dynamo runner


def test_one_row_of_the_dynamo_runner_is_two_runs() -> None:
    opened = table(DYNAMO_FILE, DYNAMO_HEADER, DYNAMO_ROW)
    eager, compiled = (
        one.run for one in read(opened, dynamo_csv.FAMILY, machine="lab", torch="2.9.1")
    )
    assert eager.stated is not None and compiled.stated is not None
    assert eager.stated.steady_seconds == pytest.approx(0.1)
    assert compiled.stated.steady_seconds == pytest.approx(0.05)
    assert (eager.stated.start_seconds, compiled.stated.start_seconds) == (0.0, 40.0)
    assert eager.spec.workload.model == "torchbench:BERT_pytorch"
    assert compiled.activity is not None and compiled.activity.graphs == 1
    assert eager.activity is None
    assert not {"torch", SYNCHRONISED} & {*compiled.unstated}
    [pair] = compared(
        *read(opened, dynamo_csv.FAMILY, machine="lab", torch="2.9.1"),
    ).pairs
    # 40 s of compiling at 50 ms a call
    assert pair.break_even_cold is not None
    assert (pair.break_even_cold.epoch, pair.break_even_cold.projected) == (800, True)


def test_the_runners_peak_memory_on_a_cpu_is_100_times_too_large() -> None:
    opened = table(DYNAMO_FILE, DYNAMO_HEADER, DYNAMO_ROW)
    on_gpu = table(
        "inductor_torchbench_float32_inference_cuda_performance.csv",
        DYNAMO_HEADER,
        DYNAMO_ROW.replace("cpu", "cuda"),
    )
    cpu = read(opened, dynamo_csv.FAMILY, machine="lab")[1].run
    gpu = read(on_gpu, dynamo_csv.FAMILY, machine="lab")[1].run
    assert cpu.stated is not None and gpu.stated is not None
    assert cpu.stated.peak_memory_bytes == 2_710_000_000
    assert gpu.stated.peak_memory_bytes == 271_000_000_000
    assert cpu.source is not None and "100 times" in cpu.source.inferred["peak_memory_bytes"]


def test_of_a_training_run_no_default_stands_as_a_statement() -> None:
    name = "inductor_torchbench_float32_training_cuda_performance.csv"
    opened = table(name, DYNAMO_HEADER, DYNAMO_ROW.replace("cpu", "cuda"))
    run = read(opened, dynamo_csv.FAMILY, machine="lab")[1].run
    assert {"optimizer", "learning_rate", "evaluate", "drop_last", "dataset"} <= {*run.unstated}
    assert not {"pipeline", "loader_workers", "batch_size", "grad_mode"} & {*run.unstated}
    assert run.source is not None and run.source.epoch_is_step
    assert run.source.inferred["cache"] == "not stated: taken as cold"
    assert "stays on the device" in run.source.inferred["pipeline"]


def test_a_speedup_that_is_no_number_is_told_as_what_it_is() -> None:
    opened = table(DYNAMO_FILE, DYNAMO_HEADER, DYNAMO_ROW.replace("2,2.0,50.0", "2,nan,50.0"))
    [one] = read(opened, dynamo_csv.FAMILY, machine="lab")
    assert one.run.reason is not None
    assert one.run.reason.startswith("its row says batch_size 2, speedup nan, abs_latency 50.0")


def test_zeros_of_the_runner_are_a_failure_without_numbers() -> None:
    opened = table(DYNAMO_FILE, DYNAMO_HEADER, "cpu,moco,0,0.0,0.0" + ",0" * 11)
    [one] = read(opened, dynamo_csv.FAMILY, machine="lab")
    assert (one.run.status, one.run.failure, one.run.stated) == ("failed", "error", None)
    assert one.run.spec.variant.execution == "compile"


@pytest.mark.parametrize(
    ("captured", "graphs", "compared_at_all"),
    [(545, 1, True), (545, 0, True), (0, 0, False)],
    ids=["compiled", "graphs were not counted", "nothing was captured"],
)
def test_a_count_that_was_not_taken_is_no_proof_that_nothing_was_compiled(
    captured: int, graphs: int, compared_at_all: bool
) -> None:
    row = DYNAMO_ROW.replace("545,1", f"{captured},{graphs}")
    found = compared(
        *read(table(DYNAMO_FILE, DYNAMO_HEADER, row), dynamo_csv.FAMILY, machine="lab")
    )
    assert bool(found.pairs) == compared_at_all


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "inductor_with_cudagraphs_timm_models_amp_training_cuda_performance.csv",
            ('compile:{"mode":"reduce-overhead"}', "train", "fp16", "timm"),
        ),
        (
            "aot_eager_huggingface_bfloat16_inference_cpu_performance.csv",
            ('compile:{"backend":"aot_eager"}', "infer", "bf16", "huggingface"),
        ),
        (
            "something_new_torchbench_float32_inference_cpu_performance.csv",
            (None, "infer", "fp32", "torchbench"),
        ),
    ],
)
def test_the_name_of_the_runners_file_gives_its_arm_and_its_suite(
    name: str, expected: tuple[str, ...]
) -> None:
    found = suggested(table(name, DYNAMO_HEADER, DYNAMO_ROW))
    assert tuple(found[key] for key in ("variant", "task", "precision", "suite")) == expected


def test_a_device_that_is_not_known_is_named() -> None:
    error = refusal(
        table(DYNAMO_FILE, DYNAMO_HEADER, DYNAMO_ROW.replace("cpu", "hpu")), machine="x"
    )
    assert "line 2, column dev: must be one of cpu, cuda, mps, got 'hpu'" in str(error)


# Columns that are named by hand


def arms(**answers: str) -> list[ImportedRun]:
    rows = [ARMS_ROW.format(batch=batch) for batch in (1, 8)]
    opened = table("hf_output.csv", ARMS_HEADER, *rows)
    return read(opened, columns_csv.FAMILY, machine="lab", unit="s", **answers)


def test_arms_as_columns_have_the_fair_baseline_and_the_mode_of_their_column() -> None:
    found = arms()
    assert [one.run.spec.variant.name for one in found] == [
        "eager",
        "compile reduce-overhead",
    ] * 2
    [first, second] = compared(*found).pairs
    assert first.speedup.ratio == second.speedup.ratio == pytest.approx(2.0)
    assert first.baseline.steady_seconds == pytest.approx(0.4)
    run = found[0].run
    assert run.environment is not None
    assert (run.spec.workload.model, run.spec.device) == ("other:gpt2", "cuda:0")
    assert (run.environment.torch, run.spec.workload.precision) == ("2.0.0+cu117", "fp16")
    assert SYNCHRONISED in run.unstated


def test_another_column_of_times_can_be_the_baseline() -> None:
    chosen = {
        "arm:hf_time": "eager",
        "arm:sdpa_no_compile_time": "ignore",
        "arm:sdpa_compile_time": 'compile:{"mode":"max-autotune"}',
        "column:compile_mode": "ignore",
    }
    found = arms(**{key.replace(":", "__"): value for key, value in chosen.items()})
    pair = compared(*found).pairs[0]
    assert pair.baseline.steady_seconds == pytest.approx(0.9)
    assert pair.candidate.name == "compile max-autotune"


def test_what_only_a_person_knows_is_asked_for() -> None:
    opened = table("hf_output.csv", ARMS_HEADER, ARMS_ROW.format(batch=1))
    found = suggested(opened)
    assert {key for key, value in found.items() if value is None} == {"machine", "unit"}
    assert found["arm:hf_time"] == "ignore"


OPTIMUM = [
    "config.backend.name",
    "config.backend.model",
    "config.backend.torch_compile",
    "config.environment.gpu",
    "config.scenario.input_shapes.batch_size",
    "config.scenario.input_shapes.sequence_length",
    "config.backend.torch_dtype",
    "config.backend.device",
    "report.load.latency.mean",
    "report.forward.latency.mean",
    "report.forward.latency.stdev",
    "report.train.latency.mean",
    "report.forward.memory.max_ram",
]


def optimum(*rows: str) -> TableFile:
    return table("optimum.csv", ",".join(OPTIMUM), *rows)


def optimum_row(compiled: bool, forward: object, train: object, length: int = 128) -> str:
    middle = f"pytorch,bert-base,{compiled},\"['Tesla T4']\",8,{length},float16,cuda,3.2"
    return f"{middle},{forward},0.001,{train},2048.5"


def test_a_flattened_report_of_optimum_benchmark_comes_in_by_its_columns() -> None:
    opened = optimum(
        optimum_row(False, 0.02, 0.06),
        optimum_row(True, 0.01, 0.04),
        optimum_row(True, 0.03, "", length=512),
        optimum_row(False, "", "", length=512),
    )
    found = read(
        opened,
        columns_csv.FAMILY,
        unit="s",
        **{"column__report.forward.memory.max_ram": "peak_memory_mb"},
    )
    runs = [one.run for one in found]
    assert [run.spec.workload.task for run in runs] == ["infer", "train"] * 2 + ["infer"] * 2
    assert {run.machine for run in runs} == {"T4"}
    assert {run.environment.device_name for run in runs if run.environment} == {"Tesla T4"}
    assert runs[-1].status == "failed" and runs[-1].stated is None
    assert runs[0].stated is not None
    assert runs[0].stated.peak_memory_bytes == 2_048_500_000
    ratios = {pair.workload.task: pair.speedup.ratio for pair in compared(*found).pairs}
    assert ratios == pytest.approx({"infer": 2.0, "train": 1.5})


def test_rows_that_differ_in_an_unknown_column_are_not_one_workload() -> None:
    opened = optimum(optimum_row(False, 0.02, 0.06), optimum_row(True, 0.01, 0.04, length=512))
    found = read(opened, columns_csv.FAMILY, unit="s")
    assert compared(*found).pairs == ()
    assert {one.run.spec.workload.model for one in found} == {
        "other:bert-base (sequence_length 128)",
        "other:bert-base (sequence_length 512)",
    }


def test_a_unit_in_the_headers_is_taken_for_each_column() -> None:
    opened = table("t.csv", "model,eager_ms,compiled_seconds", "a,20,0.01")
    found = read(
        opened,
        columns_csv.FAMILY,
        machine="x",
        device="cpu",
        task="infer",
        precision="fp32",
        unit="ms",
    )
    stated = [one.run.stated.steady_seconds for one in found if one.run.stated]
    assert stated == pytest.approx([0.02, 0.01])


@pytest.mark.parametrize(
    ("header", "asked"), [("compile_time_s", {}), ("compile_time", {"start_unit": "s"})]
)
def test_the_start_has_the_unit_of_its_own_column(header: str, asked: dict[str, str]) -> None:
    opened = table("t.csv", f"model,variant,latency_ms,{header}", "a,eager,2,", "a,compile,1,30")
    known = {"machine": "x", "device": "cpu", "task": "infer", "precision": "fp32"}
    assert suggested(opened).get("start_unit", "not asked") == (None if asked else "not asked")
    run = read(opened, columns_csv.FAMILY, **known, **asked)[1].run
    assert run.stated is not None
    assert (run.stated.steady_seconds, run.stated.start_seconds) == pytest.approx((0.001, 30))
    assert {"dataset", "pipeline", "memory_layout", "grad_mode", "batch_size"} <= {*run.unstated}


def test_free_texts_of_a_variant_column_are_asked_one_by_one() -> None:
    opened = table("t.csv", "model,variant,latency_ms", "a,vanilla,2", "a,turbo,1")
    found = suggested(opened)
    assert (found["variant:vanilla"], found["variant:turbo"]) == ("eager", None)
    assert found["unit"] == "ms"
    runs = read(
        opened,
        columns_csv.FAMILY,
        machine="x",
        device="cpu",
        task="infer",
        precision="fp32",
        variant__turbo='compile:{"mode":"max-autotune"}',
    )
    assert compared(*runs).pairs[0].candidate.name == "compile max-autotune"


def test_an_answer_that_is_no_choice_is_refused_with_the_choices() -> None:
    opened = table("hf_output.csv", ARMS_HEADER, ARMS_ROW.format(batch=1))
    assert "unit must be one of s, ms, got 'us'" in str(refusal(opened, machine="x", unit="us"))
    error = refusal(opened, machine="x", unit="s", **{"arm:hf_time": "turbo"})
    assert str(error).startswith("arm:hf_time: execution must be one of")


# Ids


def test_a_run_is_known_by_its_content_and_a_second_row_of_it_is_a_second_run() -> None:
    first = read(table(EAGER_FILE, TIMM_HEADER, *EAGER_ROWS), timm_csv.FAMILY)
    moved = read(table(EAGER_FILE, TIMM_HEADER, *EAGER_ROWS[1:], EAGER_ROWS[0]), timm_csv.FAMILY)
    assert {one.run.id for one in first} == {one.run.id for one in moved}
    twice = read(table(EAGER_FILE, TIMM_HEADER, EAGER_ROWS[0], EAGER_ROWS[0]), timm_csv.FAMILY)
    assert len({one.run.id for one in twice}) == 2
    other = read(table(EAGER_FILE, TIMM_HEADER, EAGER_ROWS[0]), timm_csv.FAMILY, precision="bf16")
    assert other[0].run.id not in {one.run.id for one in first}


def test_a_run_says_in_json_what_was_inferred() -> None:
    run = timm_pair()[0].run
    assert run.source is not None
    assert json.loads(run.source.to_json())["inferred"]["torch"] == "pt291 in the file's name"
