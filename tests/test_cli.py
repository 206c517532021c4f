"""What the command line promises to somebody without a browser."""

import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

import pytest

from bench_core import cli, presets, progress_bar, worker
from bench_core.events import Activity, Aftermath, Parity
from bench_core.paths import CHECKOUT
from bench_core.run_options import experiment_of
from bench_core.spec import (
    Execution,
    Experiment,
    Measurement,
    Rung,
    RunSpec,
    SpecError,
    Variant,
    Workload,
)
from bench_core.store import Store
from tests.planted import Shape, environment, plant_run, planted_experiment

SMALL = ["--model", "small_cnn", "--samples", "64", "--image-size", "32", "--pipeline", "cached"]


@pytest.fixture(scope="session")
def probed(tmp_path_factory) -> Path:
    """What torch offers, asked once for all commands here."""
    folder = tmp_path_factory.mktemp("probed")
    subprocess.run(
        [sys.executable, "-m", "bench_core", "devices"],
        cwd=CHECKOUT,
        env={**os.environ, "BENCH_DATA": str(folder)},
        check=True,
    )
    return folder / "capabilities"


@pytest.fixture
def data(tmp_path, monkeypatch, probed) -> Path:
    shutil.copytree(probed, tmp_path / "capabilities")
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("BENCH_MACHINE_LOCK", str(tmp_path / "machine.lock"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path


def command(*words: str, seconds: float = 280) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "bench_core", *words],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=seconds,
        stdin=subprocess.DEVNULL,
    )


def test_run_measures_both_arms_and_its_csv_holds_every_fact(data):
    """The one cold compile here: it must be cold, and leave nothing behind on disk."""
    file = data / "out.csv"
    done = command(
        "run", *SMALL, "--variant", "eager", "--variant", "compile", "--batch-size", "16",
        "--epochs", "3", "--repeats", "1", "--device", "cpu", "--csv", str(file),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with file.open(newline="", encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    assert [(row["execution"], row["epoch"]) for row in rows] == [
        (arm, str(epoch)) for arm in ("eager", "compile") for epoch in (1, 2, 3)
    ]
    assert all(float(row["wall_seconds"]) > 0 for row in rows)
    compiled = rows[3]
    for kind in (Workload, Variant, Measurement):
        for name in kind.model_fields:
            assert name in compiled, f"{name} of the spec is not in the CSV"
    assert compiled["env_torch"] and compiled["env_cpu_name"]
    assert float(compiled["compile_seconds"]) > 0
    assert compiled["compiler_graphs"] == "1"
    assert int(compiled["compiler_cache_misses"]) > 0
    assert compiled["compiler_cache_hits"] == "0"
    assert list((data / "caches").glob("*")) == []
    left = [path for path in (data / "tmp").rglob("*") if path.is_file()]
    assert left == []
    assert "steady epoch" in done.stdout


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_run_measures_resnet18_at_224_px(data):
    file = data / "out.csv"
    done = command(
        "run", "--model", "resnet18", "--variant", "eager", "--variant", "compile",
        "--batch-size", "16", "--epochs", "3", "--samples", "64", "--image-size", "224",
        "--repeats", "1", "--device", "cpu", "--csv", str(file), seconds=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with file.open(newline="", encoding="utf-8") as opened:
        assert len(list(csv.DictReader(opened))) == 6


CELLS = [(batch, precision) for batch in ("1", "8") for precision in ("fp32", "bf16")]


def arm_tables(output: str) -> dict[str, list[list[str]]]:
    """Title -> rows of cells, as one command prints them for inference."""
    tables: dict[str, list[list[str]]] = {}
    title, previous = "", ""
    for line in output.splitlines():
        if line.startswith("variant ") and "first call" in line:
            title = previous
            tables[title] = []
        elif title and line and not line.startswith(" "):
            tables[title].append(re.split(r"  +", line))
        else:
            title = ""
        previous = line
    return tables


def infer_in_one_command(model: list[str], variants: list[str], *words: str, seconds: float):
    """Every variant at fp32 and bf16, batch 1 and 8, as somebody would type it."""
    grid = [word for variant in variants for word in ("--variant", variant)]
    for option, values in (("--batch-size", ("1", "8")), ("--precision", ("fp32", "bf16"))):
        grid += [word for value in values for word in (option, value)]
    return command(
        "run", "--task", "infer", *model, *grid, "--repeats", "1", "--device", "cpu", *words,
        seconds=seconds,
    )  # fmt: skip


def check_the_answer(output: str, model: str, names: list[str]) -> None:
    tables = arm_tables(output)
    for batch, precision in CELLS:
        [(title, rows)] = [
            (title, rows)
            for title, rows in tables.items()
            if title.startswith(f"{model} on ") and f"batch {batch}, {precision}, " in title
        ]
        assert [row[0] for row in rows] == names, title
        for row in rows:
            # The median; a dozen calls have no p99, and an empty cell is no cell here.
            assert re.fullmatch(r"[\d.]+\s(s|ms|µs)", row[1]), row
        for row in rows[1:]:
            assert "first look" in row and any(cell.endswith("×") for cell in row), row
    for name in names[1:]:
        own = f"  {name}: first look: "
        assert output.count(own) == len(CELLS), name
    words = " ".join(output.split())
    assert words.count("Parity: same") == len(CELLS) * (len(names) - 1)


@pytest.mark.timeout(600)
def test_one_command_measures_inference_and_ends_with_what_each_arm_did(data):
    """Cheap variants: what Inductor compiles is measured by the long test below."""
    file = data / "out.csv"
    variants = ["eager", "onednn_graph", 'compile:{"backend":"aot_eager"}']
    done = infer_in_one_command(
        ["--model", "small_cnn", "--image-size", "32"], variants, "--iterations", "12",
        "--csv", str(file), seconds=580,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_the_answer(done.stdout, "small_cnn", ["eager", "onednn_graph", "compile aot_eager"])
    assert "compile: 1 graph compiled" in " ".join(done.stdout.split())
    assert "fused" in done.stdout
    assert done.stderr.count("first call: ") == 12
    with file.open(newline="", encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    latencies: dict[str, list[float]] = {row["run_id"]: [] for row in rows}
    for row in rows:
        latencies[row["run_id"]] += json.loads(row["iteration_seconds"])
    assert [len(series) for series in latencies.values()] == [12] * 12
    traced = [row for row in rows if row["execution"] == "onednn_graph" and row["task"]]
    assert len(traced) == len(CELLS)
    assert all(float(row["prepared_execution_seconds"]) > 0 for row in traced)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_one_command_measures_resnet18_eager_compiled_fused_and_frozen(data):
    variants = ["eager", "compile", "onednn_graph", "compile_frozen"]
    done = infer_in_one_command(
        ["--model", "resnet18", "--image-size", "224"], variants, "--iterations", "50",
        seconds=2900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_the_answer(done.stdout, "resnet18", variants)


def test_a_failed_run_sets_the_exit_code_and_the_others_go_on(data):
    models = data / "models"
    models.mkdir()
    (models / "broken.py").write_text("raise RuntimeError('not today')\n")
    done = command(
        "run", "--model", "file:broken.py", "--model", "small_cnn", "--variant", "eager",
        "--batch-size", "16", "--samples", "64", "--image-size", "32", "--epochs", "3",
        "--repeats", "1", "--device", "cpu",
    )  # fmt: skip
    assert done.returncode == 1
    assert "not today" in done.stdout
    with Store() as store:
        failed, good = store.runs()
    assert (failed.failure, good.status) == ("model error", "done")
    assert "RuntimeError: not today" in failed.traceback


def test_ctrl_c_stops_the_experiment_and_keeps_what_was_measured(data):
    process = subprocess.Popen(
        [
            sys.executable, "-m", "bench_core", "run", *SMALL, "--variant", "eager",
            "--batch-size", "16", "--epochs", "100000", "--repeats", "2", "--device", "cpu",
        ],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell's background job, as the tests may be, ignores Ctrl-C and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    with Store() as store:
        deadline = time.monotonic() + 120
        while len(store.epochs([1])[1]) < 2:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=20)
        assert process.returncode == 130, errors
        assert [run.status for run in store.runs()] == ["stopped", "stopped"]
        assert len(store.epochs([1])[1]) >= 2
    assert "Stopped. What was measured is kept." in errors
    assert "small_cnn" in output
    assert not worker.alive(), "nothing is queued, so nobody was called to take it"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--batch-size", "0"], "batch_sizes must be at least 1, got 0"),
        (["--batch-size", "128"], "samples must be at least batch_size"),
        (["--variant", "compile:{"], "must be a JSON object"),
        (["--variant", "compile:{\"mode\":\"default\",\"options\":{}}"], "mode or options"),
        (["--epochs", "0"], "epochs must be at least 1, got 0"),
        (["--precision", "fp8"], "precisions must be one of"),
        (["--device", "tpu"], "device must be cpu, mps or cuda:N, got 'tpu'"),
        (["--csv", "/no/such/folder/out.csv"], "there is no folder /no/such/folder"),
        (["--preset", "nonsense"], "'nonsense' is not one of"),
        (["--task", "guess"], "'guess' is not one of 'train', 'infer'"),
        (["--task", "infer", "--optimizer", "sgd"], "optimizer is only read by task train"),
        (["--backward"], "backward is only read by task infer"),
        (["--variant", "onednn_graph"], "execution onednn_graph is for inference"),
        (["--task", "infer", "--iterations", "0"], "iterations must be at least 1, got 0"),
        (["--task", "infer", "--variant", "export_aot:{\"cache\":\"warm\"}"], "must be cold"),
        (["--side", "A"], "No such option '--side'"),
        (["--protocol", "paired", "--variant", "eager"], "protocol paired needs two arms"),
        (["--until-sure", "2", "--repeats", "2"], "until_sure needs repeats of at least 3"),
        (["--until-sure", "0"], "until_sure must be at least 0.1, got 0"),
        (["--rung", "{bf16}"], "--rung {bf16}: "),
        (["--rung", "{\"precision\":\"bf16\"}"], "precision is not a field of the spec"),
        (["--rung", "{\"workload\":{\"batch_size\":0}}"], "batch_size must be at least 1, got 0"),
        (["--rung", "{}", "--variant", "eager"], "--rung names whole arms, so --variant eager"),
        (["--preset", "noise-floor", "--precision", "bf16"], "preset noise-floor has whole arms"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_refused_in_one_sentence_and_queues_nothing(data, words, sentence):
    refused = command("run", *SMALL, "--device", "cpu", *words)
    assert refused.returncode == 2
    assert sentence in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr
    if (data / "bench.db").exists():
        with Store() as store:
            assert store.runs() == []


def test_what_this_torch_does_not_offer_is_refused_before_anything_runs(data):
    refused = command(
        "run", *SMALL, "--device", "cpu", "--variant",
        'compile:{"options":{"epilogue_fusionn":true}}',
    )  # fmt: skip
    assert refused.returncode == 2
    assert "epilogue_fusionn" in refused.stderr and "epilogue_fusion" in refused.stderr


@pytest.mark.parametrize("folder", ["a_file/out", "/proc/out", "/proc"])
def test_a_folder_that_cannot_be_written_is_said_before_anything_is_captured(data, folder):
    (data / "a_file").touch()
    model = "function:sin_cos"  # whose task need not be said
    refused = command("graph", "--model", model, "--device", "cpu", "--out", str(data / folder))
    assert refused.returncode == 1
    assert f"{data / folder} cannot be written (" in refused.stderr
    assert "choose another folder for --out" in refused.stderr and "Traceback" not in refused.stderr
    assert not (data / "caches").exists(), "nothing was captured"


def test_compare_as_json_has_the_documented_keys(data):
    with Store() as store:
        planted_experiment(store, models=("resnet101", "resnet18"), repeats=3)
        planted_experiment(store, variants=(Variant(),), machine="A100", repeats=1)
    answered = command("compare", "--json")
    assert answered.returncode == 0, answered.stderr
    found = json.loads(answered.stdout)
    assert set(found) == {"matched", "geomean", "geomeans", "left_out", "pairs"}
    assert found["matched"] == len(found["pairs"]) == 2
    assert 1.0 < found["geomean"] < 1.1
    assert len(found["left_out"]) == 1
    assert found["pairs"][0]["verdict"] == "faster"


def test_compare_knows_the_noise_floor_of_the_whole_store(data):
    noisy = {("T4", "resnet50"): (Shape(34.0, process_scatter=0.1), Shape(34.0))}
    with Store() as store:
        equal = (Rung(side="A"), Rung(side="B"))
        planted_experiment(store, models=("resnet50",), rungs=equal, shapes=noisy)
        experiment = planted_experiment(store)
    [pair] = json.loads(command("compare", experiment.id, "--json").stdout)["pairs"]
    assert pair["verdict"] == "no difference shown" and pair["low"] > 1


def read_back(line: str) -> Experiment:
    """The experiment that the command line makes of one of our own copy-paste lines."""
    words = shlex.split(line)
    assert words[:4] == ["python", "-m", "bench_core", "run"]
    given = cli.run.make_context("run", words[4:]).params
    for name in ("csv_file", "plan"):
        given.pop(name)
    return experiment_of(given.pop("preset"), given.pop("device"), given)


def test_a_function_is_measured_in_inference_where_no_task_is_said():
    asked = "python -m bench_core run --device cpu --model function:sin_cos"
    assert {spec.workload.task for spec in read_back(asked).runs()} == {"infer"}
    with pytest.raises(SpecError, match="has no parameters to train"):
        read_back(f"{asked} --task train").runs()


def infers(**fields: Any) -> Workload:
    return Workload(**{"task": "infer", "model": "resnet18", **fields})


FROZEN = Variant(execution="compile_frozen", mode="max-autotune", cache="warm")
SPECS = [
    RunSpec(
        workload=Workload(model="small_cnn", image_size=32, drop_last=False, threads=1, samples=99),
        variant=Variant(execution="compile", options={"max_fusion_size": 32}, dynamic=False),
        measurement=Measurement(epochs=7, label='it\'s "mine"', seed=3, max_seconds=1.5),
    ),
    RunSpec(
        workload=Workload(model="resnet50", precision="fp16", tf32="off", evaluate="variant"),
        variant=Variant(execution="compile", backend="cudagraphs", cache="off"),
        device="cuda:1",
    ),
    RunSpec(workload=infers()),
    RunSpec(workload=infers(batch_size=1, precision="bf16"), variant=FROZEN),
    RunSpec(
        workload=infers(grad_mode="inference_mode", compile_in_grad_mode=True),
        variant=Variant(execution="compile", disable=True),
        measurement=Measurement(iterations=1000, weights="pretrained", timeout_seconds=60),
    ),
    RunSpec(workload=infers(backward=True, memory_layout="channels_last")),
    RunSpec(workload=infers(pipeline="cached", dataset="cifar10", loader_workers=2)),
    RunSpec(workload=infers(model="yolov7", image_size=640, batch_size=3)),
    RunSpec(workload=infers(pipeline="on_the_fly")),
    RunSpec(workload=infers(pipeline="on_the_fly", batch_size=1, samples=1024)),
    RunSpec(workload=infers(samples=1024)),
    *(
        RunSpec(workload=infers(), variant=Variant(execution=execution))
        for execution in ("export_aot", "jit_trace_frozen", "onednn_graph")
    ),
    RunSpec(
        workload=infers(model="function:my own.py", batch_size=10**7),
        variant=Variant(execution="compile", fullgraph=True),
    ),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.workload.model)
def test_the_command_line_of_a_run_measures_the_same_again(data, spec):
    assert read_back(spec.command).runs() == [spec]


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
@pytest.mark.parametrize("key", presets.PRESETS)
def test_the_command_line_of_an_experiment_queues_the_same_again(data, key, device):
    experiment = presets.PRESETS[key].experiment(device)
    assert read_back(experiment.command).runs() == experiment.runs()


def test_cache_is_that_of_every_variant_that_has_one_to_choose(data):
    planned = command(
        "run", "--task", "infer", "--model", "small_cnn", "--cache", "warm", "--repeats", "1",
        "--device", "cpu", "--plan",
        *(word for name in get_args(Execution) for word in ("--variant", name)),
    )  # fmt: skip
    assert planned.returncode == 0, planned.stderr
    assert [line.split(", fp32, ")[1] for line in planned.stdout.splitlines()] == [
        "eager", "compile, warm cache", "compile_frozen, warm cache", "export_aot, cold cache",
        "jit_trace_frozen", "onednn_graph",
    ]  # fmt: skip


def test_help_says_what_belongs_to_inference(data):
    said = " ".join(command("run", "--help").stdout.split())
    assert "--task [train|infer]" in said
    assert "--grad-mode [no_grad|inference_mode|enabled]" in said
    for name in (*Workload.model_fields, *Measurement.model_fields):
        assert name in ("repeat", "side") or f"--{name.replace('_', '-')} " in said
    assert "--side " not in said, "only an arm of its own has a side"
    assert "--protocol [sequential|paired]" in said


ONEDNN = Variant(execution="onednn_graph")
WRONG = Aftermath(parity=Parity(verdict="differs", text="its outputs are off by 30 %."))


def planted_inference(store: Store, **fields: Any) -> Experiment:
    chosen: dict[str, Any] = {
        "models": ("resnet18",), "machine": "CPU", "batch_sizes": (1,),
        "variants": (Variant(), ONEDNN), "workload": {"task": "infer"}, **fields,
    }  # fmt: skip
    return planted_experiment(store, **chosen)


def test_three_runs_an_arm_of_inference_have_an_interval_and_every_arm_its_facts(data):
    with Store() as store:
        planted_inference(store, batch_sizes=(1, 8), precisions=("fp32", "bf16"), iterations=300)
        planted_experiment(store, models=("resnet101",))
    output = command("compare").stdout
    assert "Pays off from epoch 14" in output and "resnet101" in output
    tables = arm_tables(output)
    assert len(tables) == 4
    eager, onednn = tables["resnet18 on CPU (cpu): batch 1, fp32, 224 px, no_grad"]
    assert eager[:1] == ["eager"] and eager[-1] == "3"
    p50, rate, interval = onednn[1], onednn[4], onednn[8]
    assert float(p50.removesuffix("\u00a0ms")) == pytest.approx(1000 / float(rate), rel=0.01)
    low, high = map(float, interval.split("–"))
    assert low < 46 / 33 < high
    words = " ".join(output.split())
    assert re.search(r"onednn_graph: (39|40)[.0-9]*\s% faster. Pays off from iteration", words)
    assert words.count("Effective: oneDNN Graph: 22 fused groups. Parity: same") == 4
    assert max(map(len, output.splitlines()[4:])) <= 120


def test_a_variant_with_wrong_results_keeps_its_times_and_gets_no_speedup(data):
    with Store() as store:
        experiment = planted_inference(store, repeats=1, measured=1)
        plant_run(store, experiment.id, machine="CPU", aftermath=WRONG)
    output = command("compare").stdout
    [rows] = arm_tables(output).values()
    assert rows[1][0] == "onednn_graph" and rows[1][1].endswith("ms")
    assert not [cell for cell in rows[1] if cell.endswith("×")]
    assert "onednn_graph: Parity: differs, its outputs are off by 30 %." in output
    assert "left out: run 2: its results differ from eager's, so no speedup is formed" in output


def test_a_function_over_sizes_ends_with_the_size_from_which_on_it_pays(data):
    with Store() as store:
        planted_inference(
            store, models=("function:sin_cos",), batch_sizes=(1000, 10**4, 10**6), repeats=1,
            variants=(Variant(), Variant(execution="compile")),
        )  # fmt: skip
    output = command("compare").stdout
    assert "elements/s" in output and "images/s" not in output
    assert "compiling seems to pay from n = 10\u202f000 on" in output
    listed = command("list").stdout
    assert "n\u00a0=\u00a010\u202f000" in listed and "batch" not in listed


def test_sizes_on_machines_that_differ_make_no_common_sentence(data):
    """As many threads and one device, or the size from which on it pays is of no machine."""
    compiled = (Variant(), Variant(execution="compile"))
    with Store() as store:
        for threads, sizes in ((1, (1000,)), (2, (10**4, 10**6))):
            experiment = planted_inference(
                store, models=("function:sin_cos",), batch_sizes=sizes, repeats=1,
                variants=compiled,
            )  # fmt: skip
            for run in store.runs(experiment.id):
                store.set_environment(run.number, environment("CPU", threads=threads))
    sentences = [line for line in command("compare").stdout.splitlines() if "to pay" in line]
    assert len(sentences) == 1
    assert "from n = 10\u202f000 on, the smallest measured" in sentences[0]


def test_an_arm_is_shown_with_those_of_its_runs_that_its_speedup_is_of(data):
    """One run compiled nothing and is as fast as eager: it must not move the arm's median."""
    with Store() as store:
        experiment = planted_inference(store, variants=(Variant(), Variant(execution="compile")))
        runs = store.runs(experiment.id)
        nothing = next(run for run in runs if run.spec.variant.execution == "compile")
        store.set_activity(nothing.number, Activity())
    output = command("compare").stdout
    [(eager, compiled)] = arm_tables(output).values()
    assert (eager[-1], compiled[-1]) == ("3", "2")
    assert f"left out: run {nothing.number}: asked for compile, but nothing was compiled" in output


def test_compare_as_json_says_what_the_seconds_of_inference_are_of(data):
    with Store() as store:
        planted_inference(store, iterations=300)
        planted_experiment(store, models=("resnet101",))
        planted_experiment(store, models=("resnet50",))
        planted_inference(
            store, models=("function:sin_cos",), batch_sizes=(1000,), iterations=50, repeats=1,
            variants=(Variant(), Variant(execution="compile")),
        )  # fmt: skip
    found = json.loads(command("compare", "--json").stdout)
    inference, training, _, function = found["pairs"]
    means = [(mean["task"], mean["variant"], mean["matched"]) for mean in found["geomeans"]]
    assert means == [
        ("infer", "onednn_graph", 1),
        ("train", "compile", 2),
        ("function", "compile", 1),
    ]
    assert found["geomean"] is None, "speedups of several tasks and variants have no common mean"
    assert found["geomeans"][0]["ratio"] == pytest.approx(inference["speedup"])
    assert (training["break_even_cold"]["kind"], inference["break_even_cold"]["kind"]) == (
        "epoch", "iteration",
    )  # fmt: skip
    assert function["candidate_p90_seconds"] and function["candidate_p99_seconds"] is None
    assert (training["unit"], inference["unit"]) == ("epoch", "iteration")
    assert training["break_even_cold"]["epoch"] == 14
    assert inference["break_even_cold"]["iteration"] > 1
    assert inference["baseline_steady_seconds"] == pytest.approx(0.046, rel=0.02)
    assert inference["candidate_p50_seconds"] <= inference["candidate_p99_seconds"]
    assert inference["candidate_first_seconds"] == pytest.approx(1.3 + 0.9 + 0.033, rel=0.02)
    assert inference["parity"] == "same"


def test_list_and_show_count_iterations_of_inference(data):
    with Store() as store:
        planted_inference(store, repeats=1, iterations=80)
        planted_experiment(store, models=("resnet101",), repeats=1)
    training, inference = command("list").stdout.strip().split("\n\n")
    assert "epochs" in training and "resnet18" not in training
    assert "first call" in inference and "epoch" not in inference
    assert re.search(r"onednn_graph +done +80 +3[23]\.\d\sms", inference)
    shown = command("show", "2").stdout
    assert re.search(r"steady from iteration \d+: median 3[23]\.\d\sms", shown)
    assert re.search(
        r"p50 3[23]\.\d\sms, p90 .*; first call 2\.2\d\ss, of which trace 1\.30\ss", shown
    )
    assert "p99" not in shown, "of 77 calls it would be the slowest one"
    assert "steps_per_epoch" not in shown and "{}" not in shown
    assert "effective: oneDNN Graph: 22 fused groups" in shown
    assert "parity: same, its outputs agree with eager's" in shown
    assert "epochs:" not in shown and "--task infer" in shown


def test_without_scipy_inference_has_its_table_and_says_what_an_interval_needs(data, tmp_path):
    with Store() as store:
        planted_inference(store)
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "scipy.py").write_text("raise ImportError('scipy is not here')\n")
    environment = {**os.environ, "PYTHONPATH": str(blocked)}
    compared = subprocess.run(
        [sys.executable, "-m", "bench_core", "compare"],
        cwd=CHECKOUT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert compared.returncode == 0, compared.stderr
    [(eager, onednn)] = arm_tables(compared.stdout).values()
    assert "needs scipy" in onednn and any(cell.endswith("×") for cell in onednn)


def test_list_show_and_export_read_what_is_stored(data):
    assert "No run is stored" in command("list").stdout
    with Store() as store:
        planted_experiment(store, repeats=1)
    assert "resnet101" in command("list").stdout
    shown = command("show", "2").stdout
    assert "steady from epoch 2" in shown and "python -m bench_core run" in shown
    rows = list(csv.DictReader(io.StringIO(command("export").stdout)))
    assert len(rows) == 20
    missing = command("show", "77")
    assert missing.returncode == 1 and "there is no run '77'" in missing.stderr


def test_devices_and_doctor_say_what_is_there(data):
    assert "cpu" in command("devices").stdout
    checked = command("doctor")
    for name in ("torch", "C++ compiler", "openssl", "memory", "disk"):
        assert name in checked.stdout


def test_doctor_names_what_is_missing_and_its_fix(data, tmp_path):
    environment = {**os.environ, "PATH": str(tmp_path / "nothing"), "CXX": ""}
    checked = subprocess.run(
        [sys.executable, "-m", "bench_core", "doctor"],
        cwd=CHECKOUT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert checked.returncode == 1
    assert "apt-get install g++" in checked.stdout
    assert "apt-get install openssl" in checked.stdout


def test_a_results_file_that_cannot_be_read_is_a_sentence(data):
    (data / "bench.db").write_text("not a database " * 100)
    refused = command("list")
    assert refused.returncode == 1
    assert "move it away or set BENCH_DATA" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_data_folder_that_cannot_be_used_is_a_sentence(data, monkeypatch):
    monkeypatch.setenv("BENCH_DATA", "/etc/passwd")
    refused = command("list")
    assert refused.returncode == 1
    assert "/etc/passwd cannot be used as the data folder" in refused.stderr
    assert "Traceback" not in refused.stderr


IMPORTED = """
import sys
import bench_core.cli
loaded = {"streamlit", "plotly", "pandas", "scipy", "torch"} & set(sys.modules)
assert not loaded, loaded
"""


def test_the_notebook_commands_import_no_large_package(data):
    subprocess.run([sys.executable, "-c", IMPORTED], cwd=CHECKOUT, check=True)


def test_run_devices_doctor_and_export_work_where_those_packages_are_missing(data, tmp_path):
    """Each name is shadowed by a module that refuses to be imported."""
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    for name in ("streamlit", "plotly", "pandas", "scipy"):
        (blocked / f"{name}.py").write_text(f"raise ImportError('{name} is not here')\n")
    environment = {**os.environ, "PYTHONPATH": str(blocked)}
    for words in (
        ["run", *SMALL, "--variant", "eager", "--batch-size", "16", "--epochs", "3",
         "--repeats", "1", "--device", "cpu"],
        ["devices"],
        ["export"],
        ["doctor"],
    ):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "bench_core", *words],
            cwd=CHECKOUT, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert "is not here" not in done.stderr + done.stdout, done.stderr
        assert done.returncode == 0, done.stderr


def test_the_command_of_a_spec_names_every_field_that_differs():
    run = RunSpec(
        workload=Workload(model="resnet18", threads=2, drop_last=False, evaluate="variant"),
        variant=Variant(execution="compile", dynamic=False, cache="warm"),
        measurement=Measurement(epochs=7, label="my 'label'"),
    )
    for words in (
        "--threads 2", "--no-drop-last", "--evaluate variant", "--epochs 7",
        """'compile:{"dynamic": false, "cache": "warm"}'""",
    ):  # fmt: skip
        assert words in run.command


# Arms that take turns, and other axes


def test_a_line_with_turns_and_rungs_queues_the_same_again(data):
    experiment = Experiment(
        models=("small_cnn",),
        batch_sizes=(8,),
        variants=(Variant(),),
        rungs=(
            Rung(),
            Rung(workload={"precision": "bf16"}, variant=Variant(execution="compile", mode="lite")),
        ),
        repeats=12,
        workload={"samples": 64},
        measurement=Measurement(protocol="paired", until_sure=2.5, epochs=4),
    )
    again = read_back(experiment.command)
    assert again.runs() == experiment.runs()
    assert again.rungs == experiment.rungs


def test_cache_is_that_of_every_rung_too(data):
    compiled = '{"variant":{"execution":"compile"}}'
    line = f"python -m bench_core run --device cpu --rung {{}} --rung '{compiled}' --cache off"
    assert [rung.variant.cache for rung in read_back(line).rungs] == [None, "off"]


def test_arms_that_take_turns_are_told_line_by_line_with_their_names(data, capsys):
    with Store() as store:
        experiment = planted_experiment(
            store, protocol="paired", until_sure=2.0, rungs=(Rung(side="A"), Rung(side="B")),
            epochs=3,
        )  # fmt: skip
        first, second, *_ = store.runs()
        epochs = store.epochs([1, 2])
    shown = progress_bar.Progress(experiment)
    for number in range(3):
        for run in (first, second) if number % 2 == 0 else (second, first):
            shown.note(run, epochs[run.number][number])
    said = capsys.readouterr().err.replace("\u00a0", " ").splitlines()
    assert said[0] == "run 1 of at most 6: resnet101, batch 16, fp32, eager A"
    assert re.fullmatch(r"  eager A, epoch 1: 6\d\.\d s", said[1])
    assert said[2] == "run 2 of at most 6: resnet101, batch 16, fp32, eager B"
    order = [line.split(",")[0].strip() for line in said if ", epoch " in line]
    assert order == ["eager A", "eager B", "eager B", "eager A", "eager A", "eager B"]


def test_the_report_says_how_sure_it_is_and_why_arms_did_not_take_turns(data, capsys):
    with Store() as store:
        experiment = planted_experiment(store, protocol="paired", repeats=4, until_sure=3.0)
        store.set_protocol_note(2, "measured by itself: beside eager it ran out of memory")
        assert not cli._report(store, experiment.id, None)
    said = capsys.readouterr().out.replace("\u00a0", " ")
    assert "run 2 measured by itself: beside eager it ran out of memory" in said
    assert "resnet101, batch 16: sure after 4 of at most 4 pairs: ±" in said


def test_compare_takes_an_axis_and_names_both_arms(data):
    rungs = (Rung(), Rung(workload={"precision": "bf16"}))
    with Store() as store:
        planted_experiment(store, rungs=rungs, repeats=3)
    answered = command("compare", "--axis", "precision")
    assert answered.returncode == 0, answered.stderr
    head, row, *_ = answered.stdout.splitlines()
    assert head.split()[:5] == ["model", "machine", "batch", "arm", "against"]
    assert row.split()[:6] == ["resnet101", "T4", "16", "bf16", "fp32", row.split()[5]]
    found = json.loads(command("compare", "--axis", "precision", "--json").stdout)
    assert found["pairs"][0]["axis"] == ["precision"]
    for words, sentence in (
        (["--axis", "colour"], "--axis must be one of variant, side, task,"),
        (["--axis", "precision", "--baseline", "eager"], "it goes with --axis variant alone"),
    ):
        refused = command("compare", *words)
        assert refused.returncode == 2
        assert sentence in " ".join(refused.stderr.split())
