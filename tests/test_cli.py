"""What the command line promises to somebody without a browser."""

import csv
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench_core import cli, worker
from bench_core.paths import CHECKOUT
from bench_core.spec import Measurement, RunSpec, Variant, Workload
from bench_core.store import Store
from tests.planted import planted_experiment

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


def test_compare_as_json_has_the_documented_keys(data):
    with Store() as store:
        planted_experiment(store, models=("resnet101", "resnet18"), repeats=3)
        planted_experiment(store, variants=(Variant(),), machine="A100", repeats=1)
    answered = command("compare", "--json")
    assert answered.returncode == 0, answered.stderr
    found = json.loads(answered.stdout)
    assert set(found) == {"matched", "geomean", "left_out", "pairs"}
    assert found["matched"] == len(found["pairs"]) == 2
    assert 1.0 < found["geomean"] < 1.1
    assert len(found["left_out"]) == 1
    assert found["pairs"][0]["verdict"] == "faster"


def test_the_commands_line_of_a_stored_run_measures_the_same_again(data):
    with Store() as store:
        planted_experiment(
            store, models=("small_cnn",), machine="CPU", repeats=1,
            workload={"image_size": 32, "drop_last": False, "threads": 1, "samples": 100},
        )  # fmt: skip
        original = store.runs()[1].spec
    words = shlex.split(original.command)
    assert words[:4] == ["python", "-m", "bench_core", "run"]
    given = cli.run.make_context("run", words[4:]).params
    for name in ("csv_file", "plan"):
        given.pop(name)
    [again] = cli._experiment(given.pop("preset"), given).runs()
    assert again == original


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
