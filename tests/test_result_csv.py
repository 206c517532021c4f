"""Our CSV: nothing forgotten, nothing invented, nothing that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest

from bench_core import result_csv
from bench_core.events import (
    Activity,
    Aftermath,
    CompileWindow,
    Environment,
    Epoch,
    Finding,
    Prepared,
)
from bench_core.measured import measure
from bench_core.result_columns import SUMMARY_MEANINGS
from bench_core.result_csv import (
    COLUMNS,
    columns_table,
    defused,
    restored,
    summary_table,
    write,
    write_summary,
)
from bench_core.run import Run
from bench_core.spec import Experiment, Variant
from bench_core.store import Store
from tests.planted import planted_experiment

ENVIRONMENT = Environment(
    machine="laptop",
    machine_id="a1b2",
    device_name="Some CPU",
    cpu_name="Some CPU",
    cpu_cores=2,
    cpu_affinity=2,
    cpu_isa="avx2",
    memory_bytes=8_000_000_000,
    torch="2.14.1",
    torchvision="0.29.1",
    python="3.11.7",
    os="Linux",
    threads=2,
    bench_version="1",
)
STEPS = tuple(0.01 * step for step in range(1, 22))

# Of this store and this moment only, or already in another column; the traceback holds paths.
NOT_WRITTEN = {
    "number",
    "spec",
    "traceback",
    "phase_epoch",
    "phase_since",
    "compiling_since",
    "child_pid",
    "child_created",
    "cell",
    "import_id",
}


def epoch(number: int, **fields: object) -> Epoch:
    values: dict[str, object] = {
        "epoch": number,
        "started_at": 1_700_000_000.25 + number,
        "wall_seconds": 0.1 + 0.2,
        "data_wait_seconds": 0.01,
        "compile_seconds": 0.0,
        "step_seconds": STEPS,
        "samples": 336,
        "loss": 2.5,
    }
    return Epoch(**{**values, **fields})


def queue(store: Store, label: str = "", repeats: int = 1) -> list[Run]:
    experiment = Experiment(
        models=("small_cnn",),
        batch_sizes=(16,),
        variants=(Variant(), Variant(execution="compile", options={"max_fusion_size": 32})),
        repeats=repeats,
        workload={"image_size": 32, "samples": 336},
        measurement={"epochs": 2, "label": label},
    )
    store.queue(experiment)
    return store.runs(experiment.id)


def measured_run(store: Store, label: str = "") -> Run:
    """The compile arm, with every part filled."""
    number = queue(store, label)[1].number
    store.claim(), store.claim()
    store.set_environment(number, ENVIRONMENT)
    store.set_prepared(
        number,
        Prepared(
            parameters=10, weights="random", steps_per_epoch=21, remainder=0, setup_seconds=0.5
        ),
    )
    window = CompileWindow(trigger="DYNAMO", offset_seconds=0.125, seconds=30.0)
    store.add_epoch(number, epoch(1, compile_seconds=30.0, compile_windows=(window,)))
    store.add_epoch(number, epoch(2, peak_memory_bytes=123))
    store.set_activity(number, Activity(graphs=1, graph_breaks=("print()", "a, b")))
    store.set_aftermath(number, Aftermath(shares={"convolution": 0.75}, notes=("quiet",)))
    store.finish(number, "done")
    run = store.run(number)
    assert run is not None
    return run


def written(store: Store, runs: list[Run], *, steps: bool = True) -> list[dict[str, str]]:
    file = io.StringIO(newline="")
    write(file, runs, store.epochs([run.number for run in runs], steps=steps))
    return list(csv.DictReader(io.StringIO(file.getvalue(), newline="")))


def test_every_field_of_the_models_has_a_column_of_its_own():
    assert len(COLUMNS) == len(set(COLUMNS))
    for prefix, model, _ in result_csv.PARTS:
        for field in set(model.model_fields) - {"event"}:
            column = prefix + field
            assert column in COLUMNS or column == "env_machine", column
    for field in set(Epoch.model_fields) - {"event", *result_csv.TIMES}:
        assert result_csv.EPOCH_NAMES.get(field, field) in COLUMNS, field


def test_every_fact_of_a_run_is_written_or_left_out_on_purpose():
    parts = {"environment", "prepared", "activity", "aftermath", "source", "stated"}
    parts |= {"id", "experiment_id", "status"}
    written_or_not = parts | set(result_csv.RUN_FACTS) | NOT_WRITTEN
    assert written_or_not == set(Run.__slots__)


def test_every_column_says_what_it_means():
    assert [column.name for column in columns_table() if not column.meaning] == []
    assert set(result_csv.MEANINGS) == set(COLUMNS)
    assert set(SUMMARY_MEANINGS) == set(result_csv.SUMMARY)
    assert [column.name for column in summary_table() if not column.meaning] == []
    units = {column.name: column.unit for column in columns_table()}
    assert units["wall_seconds"] == units["step_seconds_p95"] == "s"
    assert units["env_memory_bytes"] == "bytes"
    assert units["ended_at"] == "Unix seconds"
    assert units["iteration_seconds"] == units["device_seconds"] == "s"
    assert units["batch_size"] == ""
    of_summary = {column.name: column.unit for column in summary_table()}
    assert (of_summary["p99_seconds"], of_summary["measured_at"]) == ("s", "")


def test_a_run_is_one_row_an_epoch_with_its_facts_on_the_first(store):
    first, second = written(store, [measured_run(store)])
    for row in (first, second):
        assert row["model"] == "small_cnn"
        assert row["machine"] == "laptop"
        assert row["variant"] == 'compile options={"max_fusion_size": 32}'
    assert (first["epoch"], second["epoch"]) == ("1", "2")
    assert first["env_cpu_name"] == "Some CPU"
    assert second["env_cpu_name"] == second["image_size"] == second["created_at"] == ""
    assert json.loads(first["options"]) == {"max_fusion_size": 32}
    assert json.loads(first["compiler_graph_breaks"]) == ["print()", "a, b"]
    assert json.loads(first["after_shares"]) == {"convolution": 0.75}
    assert json.loads(first["compile_windows"]) == [
        {"trigger": "DYNAMO", "offset_seconds": 0.125, "seconds": 30.0}
    ]


def test_numbers_keep_full_precision_and_booleans_are_json(store):
    first, _ = written(store, [measured_run(store)])
    assert float(first["wall_seconds"]) == 0.1 + 0.2
    assert float(first["epoch_started_at"]) == 1_700_000_001.25
    assert first["drop_last"] == "true"
    assert first["fullgraph"] == "false"


def test_steps_are_summed_up_by_count_sum_and_percentiles(store):
    first, _ = written(store, [measured_run(store)])
    assert first["step_count"] == "21"
    assert float(first["step_seconds_sum"]) == pytest.approx(2.31)
    shown = [float(first[f"step_seconds_{name}"]) for name in ("min", "p5", "p50", "p95", "max")]
    assert shown == pytest.approx([0.01, 0.02, 0.11, 0.20, 0.21])


def test_an_epoch_of_one_step_has_that_step_everywhere(store):
    run = measured_run(store)
    store.add_epoch(run.number, epoch(3, step_seconds=(0.5,)))
    last = written(store, [run])[-1]
    assert {last[f"step_seconds_{name}"] for name in ("min", "p5", "p50", "p95", "max")} == {"0.5"}


def test_what_is_missing_is_empty_and_never_zero(store):
    first, second = written(store, [measured_run(store)], steps=False)
    assert first["step_count"] == first["step_seconds_sum"] == ""
    assert first["peak_memory_bytes"] == ""
    assert second["peak_memory_bytes"] == "123"
    assert first["dynamic"] == first["max_seconds"] == first["priming_seconds"] == ""


def test_queued_and_failed_runs_are_one_row_without_numbers(store):
    queued, failed = queue(store)
    store.claim()
    store.finish(queued.number, "failed", failure="out of memory", reason="asked for 3 GB")
    rows = written(store, store.runs())
    assert [(row["status"], row["failure"]) for row in rows] == [
        ("failed", "out of memory"),
        ("queued", ""),
    ]
    for row in rows:
        assert all(row[name] == "" for name in result_csv.EPOCH_COLUMNS)
        assert row["machine"] == row["env_torch"] == row["compiler_graphs"] == ""
        assert row["image_size"] == "32"


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "'quoted", "''", "'", "'=1", "plain", ""]
)
def test_a_text_that_a_spreadsheet_would_run_is_defused_and_comes_back(store, text):
    assert not defused(text).startswith(result_csv.RUN_BY_SPREADSHEETS)
    assert restored(defused(text)) == text
    first, _ = written(store, [measured_run(store, label=text)])
    assert restored(first["label"]) == text


@pytest.mark.parametrize(
    "text", ['a "quote", a comma', "two\nlines", "a lone \r in it", "µ × 你好"]
)
def test_commas_quotes_and_line_breaks_survive(store, text):
    rows = written(store, [measured_run(store, label=text)])
    assert len(rows) == 2
    assert rows[0]["label"] == text


def test_the_summary_is_one_row_a_run_with_what_is_computed(store):
    run = measured_run(store, label="=cmd")
    for number in range(3, 7):
        store.add_epoch(run.number, epoch(number, wall_seconds=2.0))
    queued = queue(store)[0]
    file = io.StringIO(newline="")
    write_summary(
        file, [measure(one, store.epochs([one.number])[one.number]) for one in (run, queued)]
    )
    measured, waiting = csv.DictReader(io.StringIO(file.getvalue(), newline=""))
    assert measured["run_id"] == run.id
    assert measured["label"] == "'=cmd"
    assert (measured["unit"], measured["measured"]) == ("epoch", "6")
    assert float(measured["steady_seconds"]) == 2.0
    assert float(measured["compile_seconds"]) == 30.0
    assert measured["measured_at"].endswith("+00:00")
    assert waiting["status"] == "queued"
    assert waiting["no_steady_state"] == "No epoch was measured."
    unknown = ("measured_at", "first_seconds", "steady_seconds", "compile_seconds")
    assert [waiting[name] for name in unknown] == [""] * 4
    assert [measured[f"p{q}_seconds"] for q in (50, 90, 99)] == [""] * 3


def inferred(store: Store, iterations: int = 60) -> list[Run]:
    experiment = planted_experiment(
        store, models=("resnet18",), machine="CPU", batch_sizes=(1,), repeats=1,
        iterations=iterations,
        variants=(Variant(), Variant(execution="onednn_graph"), Variant(execution="compile")),
        workload={"task": "infer"},
    )  # fmt: skip
    return store.runs(experiment.id)


def test_inference_keeps_every_latency_and_a_block_is_a_row(store):
    runs = inferred(store)
    stored = store.epochs([run.number for run in runs])
    rows = written(store, runs)
    assert len(rows) == 3 * 4  # the first call, 25, 25 and 9 iterations
    for run in runs:
        own = [row for row in rows if row["run_id"] == run.id]
        latencies = [tuple(json.loads(row["iteration_seconds"])) for row in own]
        assert latencies == [block.step_seconds for block in stored[run.number]]
        assert sum(map(len, latencies)) == 60
        assert {row["device_seconds"] for row in own} == {""}, "no GPU gave any"
    assert rows[1]["step_count"] == "25"
    assert json.loads(rows[-4]["compile_windows"])[0]["iteration"] == 0
    assert [float(row["prepared_execution_seconds"]) for row in rows[::4]] == [0, 1.3, 0]
    assert json.loads(rows[4]["after_effective"])[0]["got"] == "22 fused groups"
    assert json.loads(rows[4]["after_parity"])["verdict"] == "same"


def test_a_gpus_own_times_are_kept_beside_the_wall_clocks(store):
    [run, *_] = inferred(store)
    store.add_epoch(
        run.number, epoch(5, step_seconds=(0.02, 0.03), device_seconds=(0.1 + 0.2, 0.01), loss=None)
    )
    last = written(store, [run])[-1]
    assert json.loads(last["iteration_seconds"]) == [0.02, 0.03]
    assert json.loads(last["device_seconds"]) == [0.1 + 0.2, 0.01]


def test_training_keeps_no_lists_of_single_times(store):
    for row in written(store, [measured_run(store)]):
        assert row["iteration_seconds"] == row["device_seconds"] == ""
        assert row["step_count"] == "21"


def test_the_summary_of_inference_has_percentiles_the_first_call_and_what_really_happened(store):
    runs = inferred(store, iterations=120)
    stored = store.epochs([run.number for run in runs])
    file = io.StringIO(newline="")
    write_summary(file, [measure(run, stored[run.number]) for run in runs])
    eager, onednn, compiled = csv.DictReader(io.StringIO(file.getvalue(), newline=""))
    assert (eager["unit"], eager["measured"], eager["steady_from"]) == ("iteration", "120", "4")
    steady = sorted(s for block in stored[runs[0].number] for s in block.step_seconds)
    assert min(steady) < float(eager["p50_seconds"]) <= float(eager["p90_seconds"])
    assert float(eager["p90_seconds"]) < float(eager["p99_seconds"]) < max(steady)
    assert float(eager["p50_seconds"]) == pytest.approx(float(eager["steady_seconds"]))
    first = stored[runs[1].number][0].step_seconds[0]
    assert float(onednn["first_seconds"]) == pytest.approx(first + 1.3)
    assert float(onednn["execution_seconds"]) == 1.3
    assert (onednn["effective"], onednn["parity"]) == ("oneDNN Graph: 22 fused groups", "same")
    assert float(compiled["compile_seconds"]) == 31.0
    assert eager["effective"] == eager["parity"] == ""


def test_a_percentile_of_too_few_steady_iterations_is_empty(store):
    for iterations, known in ((12, (50,)), (13, (50, 90)), (102, (50, 90)), (103, (50, 90, 99))):
        [eager, *_] = inferred(store, iterations)
        file = io.StringIO(newline="")
        write_summary(file, [measure(eager, store.epochs([eager.number])[eager.number])])
        [row] = csv.DictReader(io.StringIO(file.getvalue(), newline=""))
        assert row["steady_count"] == str(iterations - 3)
        assert tuple(q for q in (50, 90, 99) if row[f"p{q}_seconds"]) == known


def test_what_was_not_got_is_said_in_the_summary(store):
    run = measured_run(store)
    unmet = Finding(asked="mode max-autotune", got="too few multiprocessors", met=False)
    store.set_aftermath(run.number, Aftermath(effective=(unmet,)))
    file = io.StringIO(newline="")
    again = store.run(run.number)
    write_summary(file, [measure(again, store.epochs([run.number])[run.number])])
    [row] = csv.DictReader(io.StringIO(file.getvalue(), newline=""))
    assert row["effective"] == "mode max-autotune: too few multiprocessors (not met)"


def test_writing_needs_none_of_the_large_packages():
    heavy = "pandas scipy plotly streamlit torch"
    probe = (
        f"import sys, bench_core.result_csv\nprint(sorted(set({heavy.split()}) & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_who_took_turns_and_what_is_not_stated_is_written(store):
    experiment = planted_experiment(store, protocol="paired", until_sure=2.0, repeats=3)
    store.set_protocol_note(2, "=no room")
    first, second = (written(store, [store.run(number)])[0] for number in (1, 2))
    assert first["round"] == second["round"] == f"{experiment.id} resnet101 16 fp32 1"
    assert (first["protocol"], first["until_sure"], first["side"]) == ("paired", "2.0", "")
    assert (first["protocol_note"], second["protocol_note"]) == ("", "'=no room")
    assert json.loads(first["unstated"]) == []
