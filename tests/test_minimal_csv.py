"""Six columns that a person writes by hand become runs that can be compared."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench_core import imports, minimal_csv
from bench_core.doubts import doubts_of_run
from bench_core.imported import ImportedRun
from bench_core.measured import measure
from bench_core.pairing import Comparisons, comparisons, differences
from bench_core.report import report_html
from bench_core.result_csv import write_summary
from bench_core.run import NOT_STATED
from bench_core.source import SYNCHRONISED, Source
from bench_core.spec import Variant, variant_argument
from bench_core.store import Store
from bench_core.table_file import BadFile, open_table
from pages.parts import run_card
from pages.parts.comparison_projection import even_text
from pages.parts.comparison_words import differing_facts

HEADER = "device,model,variant,batch_size,epoch,epoch_seconds"
EAGER = [f"Tesla T4,resnet18,eager,16,{n},{seconds}" for n, seconds in enumerate((12, 10, 10, 10))]
COMPILE = [f"Tesla T4,resnet18,compile,16,{n},{seconds}" for n, seconds in enumerate((50, 8, 8, 8))]


def text_of(rows: Sequence[str], header: str = HEADER) -> str:
    return "\n".join([header, *rows, ""])


def read(text: str, name: str = "t4.csv", **answers: str) -> list[ImportedRun]:
    table = open_table(name, text.encode())
    assert imports.family_of(table) is minimal_csv.FAMILY
    return list(imports.runs(table, answers))


def one(row: str, header: str = HEADER) -> ImportedRun:
    [found] = read(text_of([row], header))
    return found


def asked(text: str, **answers: str) -> dict[str, str | None]:
    questions = minimal_csv.questions(open_table("t4.csv", text.encode()), answers)
    return {question.key: question.suggestion for question in questions}


def refusal(text: str, **answers: str) -> BadFile:
    with pytest.raises(BadFile) as caught:
        read(text, **answers)
    return caught.value


def compared(found: Sequence[ImportedRun]) -> Comparisons:
    return comparisons([measure(each.run, each.epochs) for each in found])


def test_the_template_imports_without_a_question_and_compares(tmp_path: Path) -> None:
    table = open_table("template.csv", minimal_csv.TEMPLATE.encode())
    with Store(tmp_path / "bench.db") as store:
        look = imports.look(store, table)
        assert (look.state, look.new, look.rows, look.questions) == ("ready", 2, 8, ())
        assert imports.take_in(store, table).new == 2
        runs = store.runs()
        epochs = store.epochs([run.number for run in runs])
    [pair] = comparisons([measure(run, epochs[run.number]) for run in runs]).pairs
    assert (pair.machine, pair.candidate.name) == ("Example GPU", "compile")
    assert pair.speedup.ratio == pytest.approx(10.1 / 9.1)


def test_rows_in_any_order_are_grouped_to_runs_and_epochs_may_count_from_0() -> None:
    mixed = [row for pair in zip(reversed(EAGER), COMPILE, strict=True) for row in pair]
    found = read(text_of(mixed))
    assert [each.run.spec.variant.execution for each in found] == ["eager", "compile"]
    assert [epoch.wall_seconds for epoch in found[0].epochs] == [12, 10, 10, 10]
    assert [epoch.epoch for epoch in found[1].epochs] == [1, 2, 3, 4]
    [pair] = compared(found).pairs
    assert pair.speedup.ratio == pytest.approx(10 / 8)


def test_headers_are_read_whatever_their_case_and_joints() -> None:
    header = "Device;MODEL;Variant;Batch Size;epoch;Epoch-Seconds"
    [found] = read(text_of(["A100;vgg16;eager;16;1;1,5"], header))
    assert (found.run.machine, found.epochs[0].wall_seconds) == ("A100", 1.5)


def test_what_is_not_stated_is_named_and_agrees_with_what_is_not_stated_either() -> None:
    eager, compiled = (each.run for each in read(text_of([*EAGER, *COMPILE])))
    named = {"precision", "samples", "threads", "threads in use", "torch", "tf32", SYNCHRONISED}
    assert named <= {*eager.unstated}
    assert not {"batch_size", "model", "device_name", "grad_mode"} & {*eager.unstated}
    assert not differences(eager, compiled)
    with_precision = [f"{row},fp32" for row in EAGER]
    stated = read(text_of(with_precision, f"{HEADER},precision"))[0].run
    assert set(differences(stated, compiled)) == {"precision"}


def test_machines_that_no_column_names_are_never_one_machine() -> None:
    eager = read(text_of([row.replace("Tesla T4", "cuda") for row in EAGER]), "t4.csv")
    compiled = read(text_of([row.replace("Tesla T4", "cuda") for row in COMPILE]), "a100.csv")
    assert compared([*eager, *compiled]).pairs == ()


def test_numbers_that_no_column_states_are_told_and_hold_up_no_ratio() -> None:
    header = f"{HEADER},compile_seconds"
    eager = read(text_of([f"{row},0" for row in EAGER], header))
    [compiled] = read(text_of(COMPILE))
    inferred = compiled.run.source.inferred
    assert inferred["compile_seconds"] == inferred["data_wait_seconds"] == "not stated: taken as 0"
    assert inferred["cache"] == "not stated: taken as cold"
    assert not {"compile_seconds", "cache"} & {*eager[0].run.source.inferred}
    assert len(compared([*eager, compiled]).pairs) == 1


def test_no_page_shows_as_a_fact_what_no_file_states() -> None:
    """The six columns say nothing of precision, caches, data, threads or protocols."""
    found = read(text_of([*EAGER, *COMPILE]))
    compiled = found[1].run
    assert compiled.words == ["batch 16"]
    assert compiled.title_with_cache == "resnet18, compile, batch 16"
    told = dict(run_card.specification(compiled)) | dict(run_card.effective(compiled))
    stated = {"Epochs", "Execution"}
    assert {name for name, words in told.items() if words != NOT_STATED} == stated
    assert told["Epochs"] == "4"
    comparison = compared(found)
    [pair] = comparison.pairs
    assert even_text(pair).startswith("Even at epoch 20: after ")
    assert " step" not in even_text(pair)
    facts = {
        name: (ours, theirs)
        for name, theirs, ours in differing_facts(
            [one.run for one in pair.baseline.runs], [one.run for one in pair.candidate.runs]
        )
    }
    assert facts["cache"][0] == NOT_STATED
    text = report_html(comparison, pair, ["Tesla T4"])
    body = text[text.index("What was measured") :]
    for word in (
        "fp32",
        "cold",
        "contiguous",
        "sequential",
        "fullgraph",
        "cifar",
        "learning rate</th><td>0",
    ):
        assert word not in body[: body.index("Measure it again")].lower(), word


def test_a_summary_leaves_empty_what_no_file_states() -> None:
    text = io.StringIO(newline="")
    write_summary(text, [measure(each.run, each.epochs) for each in read(text_of(COMPILE))])
    [row] = csv.DictReader(io.StringIO(text.getvalue()))
    assert (row["cache"], row["precision"], row["compile_seconds"]) == ("", "", "")
    assert (row["batch_size"], row["steady_seconds"]) == ("16", "8.0")


def test_a_fact_that_a_column_states_stays_a_fact() -> None:
    row = "Tesla T4,resnet18,compile,16,1,9.0,bf16,warm,512"
    run = one(row, f"{HEADER},precision,cache,samples").run
    assert run.words == ["batch 16", "bf16"]
    assert run.arm_with_cache == "compile, warm cache"
    told = dict(run_card.specification(run))
    assert told["Data"] == "512 samples"
    assert told["Steps an epoch"] == NOT_STATED, "whether the last batch is kept is not known"


def test_a_default_that_a_column_states_is_stated() -> None:
    header = f"{HEADER},evaluate,threads,samples,dataset"
    text = text_of([f"{EAGER[0]},none,default,1024,synthetic"], header)
    [stated] = read(text)
    work = stated.run.spec.workload
    assert (work.evaluate, work.threads, work.samples) == ("none", None, 1024)
    assert {"evaluate", "threads", "samples", "dataset"}.isdisjoint(stated.run.unstated)
    assert "threads in use" in stated.run.unstated, "how many they were is not said"


def test_what_no_column_states_can_be_said_of_all_rows() -> None:
    text = text_of([*EAGER, *COMPILE])
    said = {"samples": "1024", "dataset": "synthetic", "evaluate": "none", "cache": "warm"}
    for run in (each.run for each in read(text, **said)):
        assert run.spec.workload.samples == 1024
        assert not {"samples", "dataset", "evaluate"} & set(run.unstated)
        assert run.source and run.source.inferred["samples"] == "said with the import"
    assert "samples, as said of all rows" in str(refusal(text, samples="many"))


def test_what_means_nothing_for_a_run_is_not_called_unstated() -> None:
    on_cpu = one("cpu,resnet18,eager,16,1,2").run
    assert not {"tf32", SYNCHRONISED, "grad_mode"} & {*on_cpu.unstated}
    infers = one("T4,resnet18,eager,16,1,2,infer", f"{HEADER},task").run
    assert not {"optimizer", "learning_rate", "evaluate", "drop_last"} & {*infers.unstated}
    assert {"grad_mode", "samples"} <= {*infers.unstated}


def test_what_columns_state_is_a_fact() -> None:
    header = (
        f"{HEADER},precision,Image Size,samples,dataset,threads,drop_last,torch,run,loss,"
        "peak_memory_gb,compile_seconds,started_at,label,cuda"
    )
    row = (
        "cuda:1,ResNet-18,eager,16,1,12.5,torch.float16,160,1000,CIFAR-10,4,no,2.9.1,2,6.5,1.5,3,"
        "2026-02-01T12:00:00Z,=1+1,12.8"
    )
    found = one(row, header)
    work, environment = found.run.spec.workload, found.run.environment
    assert (work.model, work.precision, work.image_size) == ("resnet18", "fp16", 160)
    assert (work.samples, work.dataset, work.threads, work.drop_last) == (1000, "cifar10", 4, False)
    assert (environment.torch, environment.cuda, environment.threads) == ("2.9.1", "12.8", 4)
    assert (found.run.spec.device, found.run.spec.measurement.repeat) == ("cuda:1", 2)
    assert found.run.spec.measurement.label == "=1+1"
    [epoch] = found.epochs
    assert (epoch.loss, epoch.peak_memory_bytes, epoch.compile_seconds) == (6.5, 1_500_000_000, 3)
    assert epoch.started_at == found.run.started_at == 1769947200
    assert not {"precision", "samples", "torch", "threads", "drop_last"} & {*found.run.unstated}


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("ResNet18", "resnet18"),
        ("torchvision:VGG-16", "vgg16"),
        ("torchvision:mobilenet_v2", "torchvision:mobilenet_v2"),
        ("timm:vit_tiny_patch16_224", "timm:vit_tiny_patch16_224"),
        ("my own net", "other:my own net"),
        ("huggingface:BERT", "huggingface:BERT"),
    ],
)
def test_a_model_is_called_as_the_spec_calls_it(model: str, named: str) -> None:
    assert one(f"T4,{model},eager,16,1,2").run.spec.workload.model == named


@pytest.mark.parametrize(
    ("device", "kind", "label"),
    [
        ("Tesla T4", "cuda:0", "T4"),
        ("t4", "cuda:0", "T4"),
        ("NVIDIA A100-SXM4-40GB", "cuda:0", "A100"),
        ("NVIDIA GeForce RTX 3090", "cuda:0", "RTX 3090"),
        ("Quadro RTX 8000", "cuda:0", "RTX 8000"),
        ("cuda", "cuda:0", "GPU of t4.csv"),
        ("gpu:1", "cuda:1", "GPU of t4.csv"),
        ("CPU", "cpu", "CPU of t4.csv"),
        ("Intel Xeon 2.2 GHz", "cpu", "CPU of t4.csv"),
        ("mps", "mps", "GPU of t4.csv"),
    ],
)
def test_a_device_is_a_kind_and_a_label(device: str, kind: str, label: str) -> None:
    run = one(f"{device},resnet18,eager,16,1,2").run
    assert (run.spec.device, run.machine) == (kind, label)
    question = asked(text_of([f"{device},resnet18,eager,16,1,2"]))
    assert question == ({"machine": label} if " of " in label else {})


def test_a_machine_is_known_by_its_label() -> None:
    by_device = one("Tesla T4,resnet18,eager,16,1,2").run.environment
    by_column = one("cuda:0,resnet18,eager,16,1,2,T4", f"{HEADER},machine").run.environment
    assert by_device.machine_id == by_column.machine_id
    said = read(text_of(["cpu,resnet18,eager,16,1,2"]), machine="Desk")[0].run
    assert (said.machine, said.source.inferred["machine"]) == ("Desk", "no column names it")


def test_a_device_that_may_be_anything_is_asked() -> None:
    text = text_of(["laptop,resnet18,eager,16,1,2"])
    assert asked(text) == {"device:laptop": None}
    [found] = read(text, **{"device:laptop": "cpu"})
    assert (found.run.spec.device, found.run.machine) == ("cpu", "laptop")
    assert refusal(text).column == "device"


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("baseline", "eager"),
        ("No Compile", "eager"),
        ("torch.compile", "compile"),
        ("Inductor", "compile"),
        ("compile (max-autotune)", 'compile:{"mode": "max-autotune"}'),
        ("reduce_overhead", 'compile:{"mode": "reduce-overhead"}'),
        ("aot_eager", 'compile:{"backend": "aot_eager"}'),
        ("fast", None),
    ],
)
def test_a_free_text_for_a_variant_is_asked_with_what_it_probably_means(
    text: str, argument: str | None
) -> None:
    rows = text_of([f"T4,resnet18,{text},16,1,2"])
    assert asked(rows) == {f"variant:{text}": argument}
    [found] = read(rows, **{f"variant:{text}": argument or "compile"})
    assert variant_argument(found.run.spec.variant) == (argument or "compile")
    assert found.run.source == Source(
        file="t4.csv",
        family="minimal",
        line=2,
        variant=text,
        inferred={
            "device": "T4 in the column device",
            "compile_seconds": "not stated: taken as 0",
            "data_wait_seconds": "not stated: taken as 0",
        }
        | ({} if argument == "eager" else {"cache": "not stated: taken as cold"}),
    )


def test_an_answer_that_is_no_variant_is_refused() -> None:
    error = refusal(text_of(["T4,resnet18,fast,16,1,2"]), **{"variant:fast": "turbo"})
    assert str(error).startswith("line 2, column variant: 'fast' was said to be")
    assert "compile" in str(error)


def test_a_variant_that_the_command_line_takes_is_taken() -> None:
    argument = '"compile:{""mode"":""max-autotune"",""cache"":""warm""}"'
    run = one(f"T4,resnet18,{argument},16,1,2").run
    wanted = Variant.model_validate(
        {"execution": "compile", "mode": "max-autotune", "cache": "warm"}
    )
    assert run.spec.variant == wanted
    header = f"{HEADER},cache"
    assert one("T4,resnet18,compile,16,1,2,warm", header).run.spec.variant.cache == "warm"


def test_a_strange_column_is_asked_and_may_have_a_role() -> None:
    text = text_of(["cuda:0,resnet18,eager,16,1,2,Kaggle,7"], f"{HEADER},where,watts")
    assert asked(text) == {
        "column:where": "ignore",
        "column:watts": "ignore",
        "machine": "GPU of t4.csv",
    }
    assert asked(text, **{"column:where": "machine"}) == {
        "column:where": "ignore",
        "column:watts": "ignore",
    }
    assert read(text, **{"column:where": "machine"})[0].run.machine == "Kaggle"
    both = {"column:where": "machine", "column:watts": "machine"}
    assert "machine stands in column 7 already" in str(refusal(text, **both))
    assert "is nothing that a column holds" in str(refusal(text, **{"column:where": "place"}))


def test_calls_of_inference_are_one_block() -> None:
    rows = [f"T4,resnet18,compile,16,{n},{0.5 if n < 2 else 0.01},infer,0.4" for n in range(1, 12)]
    [found] = read(text_of([*rows[:1], *(row[:-3] for row in rows[1:])], f"{HEADER},task,compile"
                           "_seconds"))  # fmt: skip
    [block] = found.epochs
    assert block.step_seconds == (0.5, *[0.01] * 10)
    assert [(window.iteration, window.seconds) for window in block.compile_windows] == [(0, 0.4)]
    measured = measure(found.run, found.epochs)
    assert (measured.unit, measured.steady.median_seconds) == ("iteration", 0.01)


@pytest.mark.parametrize("word", ["OOM", "out of memory", "failed: CUDA out of memory", "timeout"])
def test_a_word_in_the_place_of_seconds_is_a_failed_run(word: str) -> None:
    run = one(f"T4,vgg16,eager,512,1,{word}").run
    kinds = {"timeout": "timed out", "failed: CUDA out of memory": "error"}
    assert (run.status, run.failure) == ("failed", kinds.get(word, "out of memory"))
    assert run.reason == ("CUDA out of memory" if ":" in word else "t4.csv says no more of it")


def test_a_status_says_why_there_is_no_time() -> None:
    header = f"{HEADER},status,reason"
    rows = ["T4,vgg16,eager,512,1,3,ok,", "T4,vgg16,eager,512,2,,crashed,the driver died"]
    [found] = read(text_of(rows, header))
    assert (found.run.status, found.run.failure, found.run.reason) == (
        "failed",
        "error",
        "the driver died",
    )
    assert [epoch.wall_seconds for epoch in found.epochs] == [3]
    assert "no status that is known" in str(refusal(text_of(["T4,vgg16,eager,1,1,3,so,"], header)))


def test_the_same_epoch_twice_is_refused_with_both_lines() -> None:
    error = refusal(text_of([*EAGER, EAGER[2]]))
    assert str(error).startswith("line 6, column epoch: epoch 2 of the same run stands on line 4")
    assert "tell them apart by a column repeat" in str(error)
    repeats = [f"{row},{n}" for n in (0, 1) for row in EAGER]
    found = read(text_of(repeats, f"{HEADER},Run"))
    assert [each.run.spec.measurement.repeat for each in found] == [1, 2]
    assert len({each.run.id for each in found}) == 2


@pytest.mark.parametrize(
    ("row", "line", "column", "words"),
    [
        ("cpu,x,eager,16,1,0", 2, "epoch_seconds", "0 is no time; leave the cell empty and say"),
        ("cpu,x,eager,16,1,-3", 2, "epoch_seconds", "-3 is no time"),
        ("cpu,x,eager,16,1,nan", 2, "epoch_seconds", "'nan' is no time"),
        ("cpu,x,eager,16,1,inf", 2, "epoch_seconds", "'inf' is no time"),
        ("cpu,x,eager,16,1,1e-320", 2, "epoch_seconds", "no time in seconds"),
        ("cpu,x,eager,16,1,", 2, "epoch_seconds", "is empty; write seconds, or say in a column"),
        ("cpu,x,eager,16,1,3_000", 2, "epoch_seconds", "'3_000' is not a number"),
        ("cpu,x,eager,0,1,1", 2, "batch_size", "batch_size must be at least 1, got 0"),
        ("cpu,x,eager,1.5,1,1", 2, "batch_size", "'1.5' is not a whole number"),
        ("cpu,,eager,16,1,1", 2, "model", "is empty, and every row needs it"),
        ("cpu,x,eager,16,2,1", 2, "epoch", "the first epoch of this run is 2"),
        ("cpu,x,eager,16,1,1\ncpu,x,eager,16,3,1", 3, "epoch", "epoch 3 follows epoch 1"),
        ("cpu,x,onednn_graph,16,1,1", 2, None, "is for inference, got task 'train'"),
        ("cpu,x" + "y" * 300 + ",eager,16,1,1", 2, "model", "a text of 301 characters"),
    ],
)
def test_what_cannot_be_is_refused_with_line_and_column(
    row: str, line: int, column: str | None, words: str
) -> None:
    error = refusal(text_of([row]))
    assert (error.line, error.column) == (line, column)
    assert words in str(error)


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("precision", "int8", "must be one of fp32, bf16, fp16, got 'int8'"),
        ("drop_last", "maybe", "must be true or false, got 'maybe'"),
        ("compile_seconds", "9", "9 s are more than the 2 s of the whole epoch"),
        ("started_at", "yesterday", "must be seconds since 1970"),
        ("peak_memory_bytes", "-1", "no amount of memory"),
        ("accuracy", "-0.5", "must be a share from 0 to 1, got '-0.5'"),
        ("accuracy", "71.3", "must be a share from 0 to 1, got '71.3'; write 0.713 for 71.3 %"),
        ("tf32", "on", "tf32 on needs a CUDA device"),
        ("repeat", "2000", "repeat must be at most 1000"),
    ],
)
def test_what_an_optional_column_cannot_hold_is_refused(column: str, cell: str, words: str) -> None:
    error = refusal(text_of([f"cpu,x,eager,16,1,2,{cell}"], f"{HEADER},{column}"))
    assert (error.line, error.column) == (2, column)
    assert words in str(error)


def test_a_data_set_that_is_not_known_is_a_folder_of_that_name() -> None:
    work = one("cpu,x,eager,16,1,2,ImageNet", f"{HEADER},dataset").run.spec.workload
    assert (work.dataset, work.dataset_path) == ("imagefolder", "ImageNet")


def test_the_same_measurement_in_two_files_is_one_run(tmp_path: Path) -> None:
    shuffled = open_table("again.tsv", text_of([*COMPILE, *EAGER]).replace(",", "\t").encode())
    with Store(tmp_path / "bench.db") as store:
        assert imports.take_in(store, open_table("t4.csv", text_of(EAGER).encode())).new == 1
        imported = imports.take_in(store, shuffled)
        assert (imported.new, imported.known) == (1, 1)


def test_more_strange_texts_than_can_be_asked_are_refused() -> None:
    rows = [f"T4,resnet18,variant {n},16,1,2" for n in range(30)]
    error = refusal(text_of(rows))
    assert (error.column, "more than 20 texts" in str(error)) == ("variant", True)
    strange = ",".join(f"c{n}" for n in range(30))
    assert "30 columns are not known" in str(refusal(f"{HEADER},{strange}\n"))


def test_a_run_that_was_stopped_is_not_said_to_have_ended_at_what_it_was_to_measure() -> None:
    rows = [f"Tesla T4,resnet18,eager,16,{n},10,stopped" for n in range(1, 6)]
    [stopped] = read(text_of(rows, f"{HEADER},status"))
    [doubt] = [
        doubt
        for doubt in doubts_of_run(measure(stopped.run, stopped.epochs))
        if doubt.kind == "ended early"
    ]
    assert doubt.text.endswith("was stopped after 5 epochs")


def test_the_report_says_how_to_measure_again_only_what_can_be_measured_here() -> None:
    strange = text_of([row.replace("resnet18", "mynet") for row in (*EAGER, *COMPILE)])
    for text, command in ((text_of([*EAGER, *COMPILE]), True), (strange, False)):
        found = compared(read(text))
        page = report_html(found, found.pairs[0], ["Tesla T4"])
        assert ("python -m bench_core run" in page) == command
        assert ("Measure it again" in page) == command
