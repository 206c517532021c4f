"""Files come in whole or not at all, by their header's schema; a refusal says what to do."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench_core import minimal_csv
from bench_core.cli import main
from bench_core.imports import family_of, look, take_in
from bench_core.measured import measure
from bench_core.result_csv import COLUMNS, rows, write_summary
from bench_core.store import Store
from bench_core.table_file import BadFile, open_table
from tests.many_runs import many_runs
from tests.planted import planted_experiment
from tests.test_foreign_csv import (
    ARMS_HEADER,
    ARMS_ROW,
    COMPILED_FILE,
    COMPILED_ROWS,
    DYNAMO_FILE,
    DYNAMO_HEADER,
    DYNAMO_ROW,
    EAGER_FILE,
    EAGER_ROWS,
    TIMM_HEADER,
    table,
)

ACCURACY = "name,accuracy,graph_breaks,calls_captured,fallbacks_to_eager"
WIDE = "name_gpu,num_gpu,watt,price,ssd,bert_base_squad,gnmt,resnet50"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path


def written(folder: Path, name: str, header: str, *rows: str) -> str:
    path = folder / name
    path.write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    return str(path)


def timm_pair(folder: Path) -> list[str]:
    return [
        written(folder, EAGER_FILE, TIMM_HEADER, *EAGER_ROWS),
        written(folder, COMPILED_FILE, TIMM_HEADER, *COMPILED_ROWS),
    ]


def bench(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def said(result: Result) -> Any:
    return json.loads(result.stdout)


# Which schema


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (ACCURACY, ("no latency column", "PyTorch's dynamo runner", "speedup, abs_latency")),
        (WIDE, ("no latency column", "the minimal CSV", "epoch_seconds")),
        ("dev,name,batch_size,abs_latency", ("PyTorch's dynamo runner", "missing speedup.")),
        (
            "model,infer_step_time,infer_batch_size,x",
            ("timm's benchmark", "missing infer_img_size"),
        ),
        ("device,model,variant,batch_size,epoch", ("the minimal CSV", "missing epoch_seconds")),
        ("epoch,arm,epoch_time,net", ("no schema has these columns",)),
    ],
)
def test_a_file_of_no_schema_names_the_nearest_and_what_it_lacks(
    header: str, words: Sequence[str]
) -> None:
    with pytest.raises(BadFile) as caught:
        family_of(table("results.csv", header, ",".join("1" * (header.count(",") + 1))))
    assert caught.value.line == 1
    for word in words:
        assert word in str(caught.value)


def test_a_time_that_is_no_number_is_no_latency_column(store: Store) -> None:
    found = look(store, table("t.csv", "model,start_time", "a,2024-01-01 10:00"))
    assert (found.state, "no latency column" in found.note) == ("refused", True)


def test_what_nobody_can_guess_is_asked_before_anything_is_read(store: Store) -> None:
    opened = table(DYNAMO_FILE, DYNAMO_HEADER, DYNAMO_ROW)
    found = look(store, opened)
    assert (found.state, found.new) == ("asks", 0)
    with pytest.raises(BadFile, match="Which machine"):
        take_in(store, opened)
    assert store.runs() == [] and store.imports() == []


def test_a_suggestion_is_to_be_confirmed_and_then_the_file_is_ready(store: Store) -> None:
    opened = table(EAGER_FILE, TIMM_HEADER, *EAGER_ROWS)
    asked = look(store, opened)
    assert (asked.state, asked.new) == ("asks", 3)
    confirmed = {one.key: one.suggestion for one in asked.questions if one.suggestion}
    assert look(store, opened, confirmed).state == "ready"


def test_a_bad_row_at_the_end_leaves_nothing_behind(store: Store) -> None:
    opened = table(EAGER_FILE, TIMM_HEADER, *EAGER_ROWS, "x,224,1,slow,16,1")
    with pytest.raises(BadFile, match="line 5, column infer_step_time"):
        take_in(store, opened)
    assert store.runs() == [] and store.imports() == []


def test_rows_that_are_here_are_known_in_a_longer_file_too(store: Store) -> None:
    take_in(store, table(EAGER_FILE, TIMM_HEADER, *EAGER_ROWS[:2]))
    longer = table(EAGER_FILE, TIMM_HEADER, *EAGER_ROWS)
    assert (look(store, longer).new, look(store, longer).known) == (1, 2)
    brought = take_in(store, longer)
    assert (brought.new, brought.known) == (1, 2)
    assert len(store.runs()) == 3


def test_a_file_that_somebody_changed_is_not_just_known(store: Store) -> None:
    ones = list(many_runs(2, 3))
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, COLUMNS, restval="")
    writer.writeheader()
    for one in ones:
        writer.writerows(rows(one.run, one.epochs))
    take_in(store, open_table("t4.csv", file.getvalue().encode()))
    model = ones[0].run.spec.workload.model
    changed = file.getvalue().replace(f",{model},", ",vgg16,")
    found = look(store, open_table("t4 again.csv", changed.encode()))
    assert (found.state, found.known) == ("known", 2)
    assert found.note.startswith("2 runs here already, all of them with another machine, workload")
    assert {run.spec.workload.model for run in store.runs()} == {model}


def test_a_run_that_was_queued_when_its_file_was_written_is_no_other_one(store: Store) -> None:
    [one] = many_runs(1, 3)
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, COLUMNS, restval="")
    writer.writeheader()
    writer.writerows(rows(replace(one.run, status="queued", environment=None), ()))
    store.import_runs("t4.csv", "0" * 64, "", [one])
    found = look(store, open_table("queued.csv", file.getvalue().encode()))
    assert (found.state, found.note) == ("known", "1 run here already")


def test_a_run_that_another_import_took_out_again_comes_back(store: Store) -> None:
    half = table("half.csv", TIMM_HEADER, *EAGER_ROWS[:2])
    whole = table("whole.csv", TIMM_HEADER, *EAGER_ROWS)
    facts = {"machine": "x", "device": "cuda:0", "precision": "fp32"}
    facts |= {"memory_layout": "contiguous", "variant": "eager"}
    first = take_in(store, half, facts).record
    second = take_in(store, whole, facts).record
    assert first and second and look(store, whole, facts).state == "known"
    store.undo_import(first.id)
    found = look(store, whole, facts)
    assert (found.state, found.new, found.known) == ("asks", 2, 1)
    again = take_in(store, whole, facts)
    assert (again.new, again.known) == (2, 1)
    assert [(one.id, one.runs) for one in store.imports()] == [(second.id, 3)]
    # The same content under another name and label is no second measurement.
    assert look(store, whole, facts | {"machine": "y"}).state == "known"
    assert take_in(store, whole, facts | {"machine": "y"}).new == 0
    assert len(store.runs()) == 3


# The command line


def test_a_pair_of_files_is_imported_and_compared_without_a_browser(folder: Path) -> None:
    result = bench("import", *timm_pair(folder))
    assert result.exit_code == 0, result.output
    assert f"{EAGER_FILE}: imported 3 new runs, 0 known on 4090" in result.stdout
    assert "  precision fp16: amp in the file's name, which is float16" in result.stdout
    assert "--set 'precision=...' to change" in result.stdout
    found = said(bench("compare", "--json"))
    assert (found["matched"], found["geomean"]) == (2, 2.0)
    assert {(left["reason"], left["count"], *left["models"]) for left in found["left_out"]} == {
        ("no eager run of the same workload: batch_size differs", 1, "timm:swin_tiny"),
        (
            "no other variant than eager of the same workload: batch_size differs",
            1,
            "timm:swin_tiny",
        ),
    }
    details = [text for left in found["left_out"] for text in left["details"]]
    assert "no eager run of the same workload: batch_size is 256 here, 1024 there" in details
    text = bench("compare").stdout
    assert "geometric mean of compile: 2.00\u00d7 over 2 first looks" in text
    assert "first look: 100\u00a0% faster" in text


def test_a_second_time_everything_is_known_and_that_is_no_error(folder: Path) -> None:
    files = timm_pair(folder)
    bench("import", *files)
    result = bench("import", *files, "--json")
    assert result.exit_code == 0
    assert [(one["state"], one["new"]) for one in said(result)] == [("known", 0)] * 2


def test_a_refused_file_holds_up_none_of_the_others(folder: Path) -> None:
    bad = written(folder, "accuracy.csv", ACCURACY, "Bert,pass,0,315,0")
    result = bench("import", bad, str(folder / "nowhere.csv"), *timm_pair(folder))
    assert result.exit_code == 1
    assert "accuracy.csv: refused, and nothing of it was stored. line 1:" in result.stdout
    assert "nowhere.csv: refused" in result.stdout
    assert "No such file" in result.stdout
    with Store() as store:
        assert len(store.runs()) == 6


def test_what_must_be_said_is_told_as_it_is_said(folder: Path) -> None:
    file = written(folder, "hf.csv", ARMS_HEADER, ARMS_ROW.format(batch=1))
    result = bench("import", file)
    assert result.exit_code == 1
    assert "--set 'machine=...'" in result.stdout
    assert "--set 'unit=s|ms'" in result.stdout
    told = bench("import", file, "--set", "machine=lab", "--set", "unit=s", "--json")
    [one] = said(told)
    assert (one["state"], one["new"], one["machines"]) == ("imported", 2, ["lab"])
    assert one["taken"]["arm:sdpa_compile_time"]["value"] == "compile"
    assert said(bench("compare", "--json"))["geomean"] == 2.0


def test_a_word_that_no_file_asks_for_stops_the_call(folder: Path) -> None:
    result = bench("import", *timm_pair(folder), "--set", "precison=bf16")
    assert result.exit_code == 2
    assert "--set precison: no file asks for it; they ask for device, machine" in result.output
    assert bench("import", *timm_pair(folder), "--set", "precision").exit_code == 2
    template = folder / "mine.csv"
    template.write_text(minimal_csv.TEMPLATE, encoding="utf-8")
    result = bench("import", str(template), "--set", "machine=Foo")
    assert result.exit_code == 2
    assert "--set machine: no file asks for it; they ask for " in result.output
    assert ", samples," in result.output
    with Store() as store:
        assert store.runs() == []


def test_a_dry_run_stores_nothing(folder: Path) -> None:
    result = bench("import", *timm_pair(folder), "--dry-run")
    assert result.exit_code == 0
    assert f"{COMPILED_FILE}: would import 3 new runs" in result.stdout
    with Store() as store:
        assert store.runs() == [] and store.machines() == []


def test_the_template_comes_in_as_it_is(folder: Path) -> None:
    template = bench("import", "--template")
    assert (template.exit_code, template.stdout) == (0, minimal_csv.TEMPLATE)
    file = folder / "mine.csv"
    file.write_text(template.stdout, encoding="utf-8")
    assert bench("import", str(file)).exit_code == 0
    assert bench("import").exit_code == 2


def test_an_export_and_its_steps_come_in_on_another_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store() as store:
        planted_experiment(store, repeats=1, epochs=4)
        epochs = store.epochs([run.number for run in store.runs()], steps=True)
    files = str(folder / "r.csv"), str(folder / "steps.csv.gz")
    assert bench("export", "--csv", files[0], "--steps", files[1]).exit_code == 0
    monkeypatch.setenv("BENCH_DATA", str(folder / "other"))
    (folder / "other").mkdir()
    alone = bench("import", files[1])
    assert alone.exit_code == 1
    assert "together with the results file" in alone.stdout
    result = bench("import", *files)
    assert result.exit_code == 0, result.output
    assert "steps.csv.gz: known. its steps go with r.csv" in result.stdout
    with Store() as store:
        here = store.epochs([run.number for run in store.runs()], steps=True)
        assert [one.step_seconds for one in here[1]] == [one.step_seconds for one in epochs[1]]


def test_steps_are_never_left_out_without_a_word(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store() as store:
        planted_experiment(store, repeats=1, epochs=4)
    results, steps = folder / "r.csv", folder / "a-steps.csv.gz"
    assert bench("export", "--csv", str(results), "--steps", str(steps)).exit_code == 0
    again = bench("import", str(steps), str(results))
    assert again.exit_code == 0
    assert "a-steps.csv.gz: known. its steps are left out: r.csv brought no new run" in again.stdout
    monkeypatch.setenv("BENCH_DATA", str(folder / "other"))
    (folder / "other").mkdir()
    results.write_text(results.read_text("utf-8").replace(",fp32,", ",fp64,"), encoding="utf-8")
    refused = bench("import", str(steps), str(results))
    assert refused.exit_code == 1
    assert "Its steps are those of r.csv, which was refused" in refused.stdout


def test_the_summary_says_of_a_stated_time_no_epoch_from_which_on_it_holds(folder: Path) -> None:
    file = written(folder, DYNAMO_FILE, DYNAMO_HEADER, DYNAMO_ROW)
    assert bench("import", file, "--set", "machine=lab").exit_code == 0
    summary = folder / "summary.csv"
    with Store() as store, summary.open("w", newline="") as target:
        write_summary(target, [measure(run, ()) for run in store.runs()])
    with summary.open(newline="") as source:
        eager, compiled = csv.DictReader(source)
    assert [float(one["steady_seconds"]) for one in (eager, compiled)] == [0.1, 0.05]
    assert (compiled["steady_from"], compiled["steady_count"], compiled["measured"]) == (
        "",
        "0",
        "0",
    )
    assert (compiled["compile_seconds"], compiled["peak_memory_bytes"]) == ("", "2710000000")


def test_a_run_of_stated_times_is_shown_as_what_its_file_says(folder: Path) -> None:
    file = written(folder, DYNAMO_FILE, DYNAMO_HEADER, DYNAMO_ROW)
    assert bench("import", file, "--set", "machine=lab").exit_code == 0
    listed = bench("list").stdout
    assert "50.0\u00a0ms an iteration" in listed
    assert DYNAMO_FILE in listed
    shown = bench("show", "2").stdout
    assert "stated: 50.0\u00a0ms an iteration, without single times" in shown
    assert "its start 40.0\u00a0s, peak memory 2.7\u00a0GB" in shown
    assert "there is nothing to measure again" in shown
    assert "memory_layout: contiguous" not in shown, "a default is no statement"
    assert "not stated: dataset, drop_last" not in shown, "inference drops nothing"
    assert "not stated: dataset, image_size, tf32" not in shown, "a CPU has no TF32"
    assert "not stated: dataset, image_size, memory_layout, threads" in shown
    [pair] = said(bench("compare", "--json"))["pairs"]
    assert pair["break_even_cold"] == {"kind": "iteration", "iteration": 800, "projected": True}
    assert (pair["candidate_start_seconds"], pair["candidate_compile_seconds"]) == (40.0, None)
    assert pair["candidate_peak_memory_bytes"] == 2_710_000_000


def test_a_file_from_a_browser_is_read_like_one_on_disk(tmp_path: Path) -> None:
    path = tmp_path / EAGER_FILE
    path.write_text("\n".join([TIMM_HEADER, *EAGER_ROWS]), encoding="utf-8")
    assert open_table(EAGER_FILE, path).sha256 == open_table("x", path.read_bytes()).sha256
