"""Our CSV in: what was written comes back, and what cannot be is refused with its place."""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings

from bench_core import imports, result_csv, result_file, step_file
from bench_core.cli import main
from bench_core.events import Epoch
from bench_core.imported import ImportedRun
from bench_core.run import Run
from bench_core.source import Source
from bench_core.spec import Experiment, Rung, Variant
from bench_core.store import Store
from bench_core.table_file import BadFile, open_table
from tests.generated_runs import several
from tests.planted import planted_experiment

VERSION_1 = Path(__file__).parent / "results_version_1.csv"


def read(data: bytes, name: str = "results.csv") -> list[ImportedRun]:
    return list(result_file.read(open_table(name, data), {}))


def written(ones: list[ImportedRun]) -> bytes:
    file = io.StringIO(newline="")
    experiments = [Experiment.from_json(one.experiment) for one in ones if one.experiment]
    epochs = {one.run.number: one.epochs for one in ones}
    result_csv.write(file, [one.run for one in ones], epochs, experiments)
    return file.getvalue().encode()


def exported(store: Store) -> bytes:
    runs = store.runs()
    epochs = store.epochs([run.number for run in runs], steps=True)
    file = io.StringIO(newline="")
    result_csv.write(file, runs, epochs, store.experiments())
    return file.getvalue().encode()


def here(run: Run, line: int) -> Run:
    """What comes back of a run: all but what is of the store it came from."""
    status, reason = run.status, run.reason
    if status in result_file.UNFINISHED:
        status, reason = "interrupted", result_file.UNFINISHED[status]
    return replace(
        run,
        number=0,
        status=status,
        reason=reason,
        source=run.source or Source(file="results.csv", family="results", line=line),
    )


def summed_up(run: Run, epoch: Epoch) -> Epoch:
    """What comes back of an epoch without the file of steps."""
    if run.spec.workload.task == "infer":
        return epoch
    steps = result_csv.summed_up(epoch.step_seconds) or epoch.steps
    return epoch.changed(steps=steps, step_seconds=(), device_seconds=())


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(several())
def test_what_is_written_is_read_back_and_with_its_steps_exactly(ones: list[ImportedRun]) -> None:
    data = written(ones)
    found = read(data)
    expected = [
        replace(
            one,
            run=here(one.run, back.run.source.line),
            epochs=[summed_up(one.run, epoch) for epoch in one.epochs],
        )
        for one, back in zip(ones, found, strict=True)
    ]
    assert found == expected

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "steps.csv.gz"
        step_file.write(path, [(one.run, one.epochs) for one in ones])
        whole = list(step_file.with_steps(iter(found), open_table(path.name, path.read_bytes())))
    assert [list(one.epochs) for one in whole] == [list(one.epochs) for one in ones]
    assert [one.run for one in whole] == [one.run for one in expected]


def test_a_file_of_version_1_is_read() -> None:
    eager, compiled, inference, failed = read(VERSION_1.read_bytes())
    assert compiled.run.spec.variant == Variant(
        execution="compile", options={"max_fusion_size": 32}
    )
    assert [len(one.epochs) for one in (eager, compiled, inference, failed)] == [4, 4, 2, 0]
    assert (eager.run.machine, eager.run.environment.torch) == ("T4", "2.14.1")
    assert compiled.epochs[0].compile_windows[0].trigger == "DYNAMO"
    assert compiled.epochs[1].steps.count == 4
    assert len(inference.epochs[1].step_seconds) == 19
    assert (failed.run.failure, failed.run.reason) == ("out of memory", "asked for 3 GB")
    assert failed.run.spec.measurement.label == '=1+1 \'é\n"x"'
    assert [one.run.source.line for one in (eager, compiled, inference, failed)] == [2, 6, 10, 12]
    assert {one.experiment for one in (eager, compiled, inference, failed)} == {None}


def ladder(store: Store) -> Experiment:
    rungs = (Rung(), Rung(workload={"precision": "bf16"}, variant=Variant(execution="compile")))
    return planted_experiment(store, rungs=rungs, repeats=2, epochs=3)


def test_a_ladder_keeps_its_rungs_on_another_machine(store: Store, tmp_path: Path) -> None:
    experiment = ladder(store)
    with Store(tmp_path / "other.db") as other:
        imports.take_in(other, open_table("t4.csv", exported(store)))
        assert other.experiment(experiment.id) == experiment
        assert [run.source.file for run in other.runs()] == ["t4.csv"] * 4
        assert [run.id for run in other.runs()] == [run.id for run in store.runs()]


def without_sources(data: bytes) -> list[dict[str, str]]:
    rows = csv.DictReader(io.StringIO(data.decode(), newline=""))
    return [{k: v for k, v in row.items() if not k.startswith("source_")} for row in rows]


def test_what_was_imported_is_exported_as_it_came(store: Store, tmp_path: Path) -> None:
    ladder(store)
    planted_experiment(
        store, models=("resnet18",), machine="CPU", batch_sizes=(1,), repeats=1,
        variants=(Variant(), Variant(execution="onednn_graph")), workload={"task": "infer"},
    )  # fmt: skip
    first = exported(store)
    with Store(tmp_path / "other.db") as other:
        imports.take_in(other, open_table("t4.csv", first))
        assert without_sources(exported(other)) == without_sources(first)


def test_a_run_that_had_not_ended_is_never_measured_here(store: Store, tmp_path: Path) -> None:
    planted_experiment(store, repeats=1, measured=0)
    store.claim()
    with Store(tmp_path / "other.db") as other:
        imports.take_in(other, open_table("t4.csv", exported(store)))
        assert [run.status for run in other.runs()] == ["interrupted"] * 2
        assert "still running" in other.runs()[0].reason
        assert "still queued" in other.runs()[1].reason
        assert other.claim() is None
        assert other.queued() == other.running() == other.interrupt_running() == []


Change = Callable[[list[dict[str, str]]], None]


def cell(row: int | None, column: str, value: str) -> Change:
    """Another value there; in every row where none is named."""

    def change(rows: list[dict[str, str]]) -> None:
        for one in rows if row is None else [rows[row]]:
            one[column] = value

    return change


def changed(data: bytes, *changes: Change) -> bytes:
    rows = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    for change in changes:
        change(rows)
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, rows[0].keys(), restval="")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


@pytest.mark.parametrize(
    ("row", "column", "value", "line", "words"),
    [
        (None, "schema_version", "3", 2, "later version"),
        (None, "schema_version", "x", 2, "from 1 to 2, got 'x'"),
        (None, "run_id", "1.23E+11", 2, "a spreadsheet may have made it a number"),
        (None, "status", "finished", 2, "one of queued, running, done"),
        (3, "status", "failed", 5, "the same on every row of a run, got 'failed' and on line 2"),
        (None, "batch_size", "sixteen", 2, "a whole number from 0 on, got 'sixteen'"),
        (None, "batch_size", "16.5", 2, "a whole number"),
        (0, "epoch", "2", 2, "must be 1"),
        (2, "epoch", "4", 4, "must be 3, since epochs count from 1 and none is left out"),
        (1, "epoch", "", 3, "is empty, while"),
        (1, "wall_seconds", "0", 3, "a number from 1e-09 to 1e+10, got '0'"),
        (1, "wall_seconds", "", 3, "is missing"),
        (1, "accuracy", "71.3", 3, "a share from 0 to 1, got '71.3'"),
        (1, "wall_seconds", "nan", 3, "a number from 1e-09 to 1e+10, got 'nan'"),
        (1, "wall_seconds", "1e300", 3, "got '1e300'"),
        (1, "wall_seconds", "1e-320", 3, "a number from 1e-09 to 1e+10, got '1e-320'"),
        (1, "data_wait_seconds", "-1", 3, "a number from 0 to 1e+10, got '-1'"),
        (1, "loss", "inf", 3, "a finite number, got 'inf'"),
        (1, "epoch_samples", "1e99", 3, "a whole number"),
        (1, "step_seconds_p50", "fast", 3, "got 'fast'"),
        (1, "step_seconds_p50", "", 3, "p50 is missing"),
        (0, "compile_windows", "[1]", 2, "a JSON list of windows"),
        (0, "drop_last", "maybe", 2, "true or false, got 'maybe'"),
        (0, "compiler_graph_breaks", "[", 2, "JSON, got '['"),
        (0, "compiler_graph_breaks", "[" * 100_000, 2, "JSON"),
        (0, "compiler_graph_breaks", '["\\ud800"]', 2, "JSON"),
        (0, "after_gpu", '{"clock": NaN}', 2, "JSON"),
        (None, "execution", "jit", 2, "execution must be one of"),
        (1, "precision", "fp16", 3, "the same on every row of a run, got 'fp16' and on line 2"),
        (None, "device", "tpu", 2, "device must be cpu, mps or cuda:N"),
        (0, "options", "[1]", 2, "options"),
        (0, "samples", "3", 2, "samples must be at least batch_size"),
        (0, "tf32", "maybe", 2, "tf32 must be one of"),
        (0, "env_machine_id", "", 2, "machine_id is missing"),
        (0, "created_at", "", 2, "is empty"),
        (0, "failure", "bad luck", 2, "one of out of memory"),
        (0, "experiment", "{}", 2, "is missing"),
        (2, "image_size", "12", 4, "must be the same on every row of a run or empty, got '12'"),
    ],
)  # fmt: skip
def test_a_cell_that_cannot_be_is_refused_with_its_place(
    store: Store, row: int | None, column: str, value: str, line: int, words: str
) -> None:
    planted_experiment(store, repeats=1, epochs=4)
    with pytest.raises(BadFile) as refused:
        read(changed(exported(store), cell(row, column, value)))
    assert words in str(refused.value)
    assert (refused.value.line, refused.value.column) == (line, column)


def test_epochs_without_a_machine_are_refused(store: Store) -> None:
    planted_experiment(store, repeats=1, epochs=4)
    data = exported(store)
    places = [name for name in data.decode().split("\r\n")[0].split(",") if "env_" in name]
    nowhere = changed(data, *(cell(None, name, "") for name in ("machine", *places)))
    with pytest.raises(BadFile) as refused:
        read(nowhere)
    assert (refused.value.line, refused.value.column) == (2, "machine")
    with pytest.raises(BadFile, match="column machine: is empty"):
        read(changed(data, cell(None, "machine", "'")))


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("iteration_seconds", "", "is empty in epoch 2"),
        ("iteration_seconds", "[]", "a JSON list of numbers from 1e-09 to 1e.10"),
        ("iteration_seconds", "[0.1, 0]", "a JSON list of numbers from 1e-09 to 1e.10"),
        ("iteration_seconds", "[0.1, true]", "a JSON list of numbers from 1e-09 to 1e.10"),
        ("device_seconds", '{"a": 1}', "a JSON list of numbers from 1e-09 to 1e.10"),
        ("compile_windows", '[{"trigger": "x", "offset_seconds": 0, "seconds": 1, '
         '"iteration": 99}]', "a JSON list of windows"),
    ],
)  # fmt: skip
def test_a_block_of_inference_is_its_iterations(
    store: Store, column: str, value: str, words: str
) -> None:
    planted_experiment(
        store, models=("resnet18",), machine="CPU", batch_sizes=(1,), repeats=1,
        variants=(Variant(),), workload={"task": "infer"},
    )  # fmt: skip
    with pytest.raises(BadFile, match=words) as refused:
        read(changed(exported(store), cell(1, column, value)))
    assert refused.value.column == column


def test_rows_of_one_run_stand_together_in_the_order_of_the_epochs(store: Store) -> None:
    planted_experiment(store, repeats=1, epochs=3)
    with pytest.raises(BadFile, match="has rows up to line 3 already") as refused:
        read(changed(exported(store), lambda rows: rows.insert(5, rows.pop(2))))
    assert refused.value.line == 7


def test_facts_may_stand_on_any_row_of_their_run(store: Store) -> None:
    planted_experiment(store, repeats=1, epochs=3)
    data = exported(store)

    def move(rows: list[dict[str, str]]) -> None:
        for name in result_csv.FACT_COLUMNS:
            rows[2][name], rows[0][name] = rows[0][name], ""

    def repeat(rows: list[dict[str, str]]) -> None:
        for name in result_csv.FACT_COLUMNS:
            rows[1][name] = rows[0][name]

    assert read(changed(data, move)) == read(changed(data, repeat)) == read(data)


def test_a_column_that_is_missing_is_named(store: Store) -> None:
    planted_experiment(store, repeats=1, epochs=3)

    def drop(rows: list[dict[str, str]]) -> None:
        for row in rows:
            del row["tf32"], row["options"]

    with pytest.raises(BadFile, match="lacks the columns tf32, options"):
        read(changed(exported(store), drop))


def test_columns_of_others_are_told_and_left_out(store: Store) -> None:
    planted_experiment(store, repeats=1, epochs=3)
    data = exported(store)
    table = open_table("t4.csv", changed(data, *(cell(row, "my notes", "x") for row in range(6))))
    [question] = result_file.questions(table, {})
    assert "does not know: my notes" in question.text
    assert (question.suggestion, question.choices) == ("ignore", ("ignore",))
    assert len(list(result_file.read(table, {}))) == 2
    assert result_file.questions(open_table("t4.csv", data), {}) == ()


def test_a_row_that_is_cut_off_is_refused(store: Store) -> None:
    planted_experiment(store, repeats=1, epochs=3)
    with pytest.raises(BadFile, match="line 7: .* the row is cut off or damaged"):
        read(exported(store)[:-60])


def both(store: Store, folder: Path) -> tuple[bytes, bytes]:
    """The results file of a store and its file of steps."""
    runs = store.runs()
    path = folder / "steps.csv.gz"
    step_file.write(
        path, [(run, store.epochs([run.number], steps=True)[run.number]) for run in runs]
    )
    return exported(store), path.read_bytes()


def lines_of(packed: bytes) -> list[bytes]:
    return gzip.decompress(packed).splitlines(keepends=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[:-1], "61 steps of epoch 3"),
        (lambda lines: lines + [b"ffffffffffff,1,1,0.5,\r\n"], "steps of run ffffffffffff"),
        (lambda lines: lines[:1] + lines[2:], "line 2, column step: must be 1"),
        (lambda lines: [*lines[:3], b"x,1,two,0.5,\r\n"], "line 4, column step: must be a whole"),
        (lambda lines: [*lines[:3], lines[3].replace(b",3,", b",3,-")], "column seconds"),
        (lambda lines: [line.replace(b",3,", b",4,") if line.count(b",3,") == 1 else line
                        for line in lines], "must be"),
        (lambda lines: [b"run_id,epoch,step,time\r\n"], "needs the columns seconds"),
    ],
)  # fmt: skip
def test_steps_of_another_export_are_refused(
    store: Store, tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], words: str
) -> None:
    planted_experiment(store, repeats=1, epochs=3, batch_sizes=(16,))
    data, packed = both(store, tmp_path)
    table = open_table("steps.csv", b"".join(change(lines_of(packed))))
    with pytest.raises(BadFile, match=words):
        list(step_file.with_steps(read(data), table))


def test_the_same_steps_make_the_same_file(store: Store, tmp_path: Path) -> None:
    planted_experiment(store, repeats=1, epochs=3)
    assert both(store, tmp_path)[1] == both(store, tmp_path)[1]
    assert step_file.is_of(open_table("steps.csv.gz", both(store, tmp_path)[1]).header)
    assert not step_file.is_of(open_table("t4.csv", exported(store)).header)


def test_export_writes_the_results_and_the_steps_that_belong_to_them(held_folder: Path) -> None:
    with Store() as store:
        experiment = ladder(store)
        runs = store.runs()
        epochs = store.epochs([run.number for run in runs], steps=True)
    files = held_folder / "t4.csv", held_folder / "steps.csv.gz"
    said = CliRunner().invoke(
        main, ["export", "--csv", str(files[0]), "--steps", str(files[1])], catch_exceptions=False
    )
    assert f"steps.csv.gz: {4 * 3 * 62} steps" in said.output
    results, steps = (open_table(file.name, file) for file in files)
    found = list(step_file.with_steps(result_file.read(results, {}), steps))
    assert {one.experiment for one in found} == {experiment.to_json()}
    assert [list(one.epochs) for one in found] == [epochs[run.number] for run in runs]

    missing = str(held_folder / "no such folder" / "steps.csv")
    said = CliRunner().invoke(main, ["export", "--csv", str(files[0]), "--steps", missing])
    assert (said.exit_code, "cannot be written" in said.output) == (1, True)
