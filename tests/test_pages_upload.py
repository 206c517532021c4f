"""What the upload on Results promises, driven through app.py on a real store."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bench_core import imports, minimal_csv, step_file
from bench_core.result_csv import write
from bench_core.store import Store
from bench_core.table_file import open_table
from pages.parts import import_list, sample_results
from pages.parts.text import plain
from pages.parts.upload_facts import facts_in
from tests.driven_pages import button, labels, opened, said, table, words
from tests.planted import planted_experiment

HOSTILE = "![x](evil) **bold** :red[r].csv"


@pytest.fixture(autouse=True)
def store(held_folder: Path) -> Iterator[Store]:
    with Store() as opened:
        yield opened


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Files of two other machines by name, two runs each."""
    found = {}
    for machine in ("T4", "A100"):
        with Store(tmp_path_factory.mktemp(machine) / "bench.db") as other:
            planted_experiment(other, models=("resnet18",), machine=machine, repeats=1, epochs=4)
            runs = other.runs()
            text = io.StringIO(newline="")
            write(text, runs, other.epochs([run.number for run in runs], steps=True))
        found[f"{machine.lower()}.csv"] = text.getvalue().encode()
    return found


def uploaded(files: dict[str, bytes]) -> AppTest:
    """Results with an upload of these files, checked and not imported."""
    at = button(opened("results"), "Upload").click().run()
    at.file_uploader[0].set_value([(name, data, "text/csv") for name, data in files.items()])
    at.run()
    assert not at.exception
    return at


def preview(at: AppTest) -> dict[str, dict[str, object]]:
    """The rows of the check by file."""
    frame = table(at, "Read as")
    return {row["File"]: row for row in frame.to_dict("records")}


def primary(at: AppTest) -> list[str]:
    return [one.label for one in at.button if one.proto.type == "primary"]


def toasts(at: AppTest) -> list[str]:
    return [toast.value for toast in at.toast]


def test_files_are_checked_first_and_then_imported_with_one_press(store, written):
    at = uploaded(written)
    assert ":gray[2 files, nothing is stored yet]" in words(at)
    assert (
        preview(at)["t4.csv"]
        | {
            "Rows": 8,
            "Runs": 2,
            "New runs": 2,
            "Known": 0,
            "Machines": ["T4"],
            "State": ["ready"],
        }
        == preview(at)["t4.csv"]
    )
    assert store.runs() == [] and store.imports() == []
    assert primary(at) == ["Import 4 runs from 2 files"]

    button(at, "Import 4 runs").click().run()
    assert toasts(at) == ["4 runs from 2 files imported."]
    assert not at.file_uploader
    assert [run.machine for run in store.runs()] == ["T4", "T4", "A100", "A100"]
    assert list(table(at, "Steady epoch")["From"]) == ["a100.csv"] * 2 + ["t4.csv"] * 2


def test_an_import_leads_to_its_machines_on_compare(store, written):
    planted_experiment(store, models=("small_cnn",), machine="CPU", repeats=1, epochs=4)
    at = uploaded(written)
    button(at, "Import 4 runs").click().run()
    [link] = at.get("page_link")
    assert link.proto.label == "See T4, A100 in Compare"
    assert link.proto.query_string == "machines=T4&machines=A100"
    chosen = opened("compare", machines=["T4", "A100"])
    assert {one for row in table(chosen, "Speedup")["Machine"] for one in row} == {"T4", "A100"}


def test_an_import_leads_to_the_machines_that_have_its_models_too(store, written):
    planted_experiment(store, models=("resnet18",), machine="A100", repeats=1, epochs=4)
    planted_experiment(store, models=("small_cnn",), machine="CPU", repeats=1, epochs=4)
    at = uploaded({"t4.csv": written["t4.csv"]})
    button(at, "Import 2 runs").click().run()
    [link] = at.get("page_link")
    assert link.proto.label == "See T4 beside A100 in Compare"
    assert link.proto.query_string == "machines=T4&machines=A100"


def test_a_long_name_shows_both_ends_and_stands_in_full_below(store, written):
    name = "inference-benchmark-results-nhwc-pt260-cu126-rtx4090_v2.csv"
    at = uploaded({name: written["t4.csv"]})
    assert list(preview(at)) == ["inference-ben…126-rtx4090_v2.csv"]
    assert name in said(at)


def test_each_device_that_no_column_names_the_machine_of_is_asked_for(store):
    rows = [f"{device},resnet18,eager,16,1,2.0" for device in ("cpu", "cuda:0")]
    text = "\n".join(["device,model,variant,batch_size,epoch,epoch_seconds", *rows])
    at = uploaded({"both.csv": text.encode()})
    asked = {one.label: one.value for one in at.selectbox if "measured" in one.label}
    assert asked == {
        "Which machine were the runs on cpu measured on?": "CPU of both.csv",
        plain("Which machine were the runs on cuda:0 measured on?"): "GPU of both.csv",
    }


def test_what_a_filter_hides_is_shown_after_the_import(store, written):
    planted_experiment(store, models=("vgg16",), repeats=1, epochs=4)
    at = opened("results", model_name="vgg16")
    button(at, "Upload").click().run()
    at.file_uploader[0].upload("t4.csv", written["t4.csv"]).run()
    button(at, "Import 2 runs").click().run()
    assert list(table(at, "Steady epoch")["Run"]) == [4, 3, 2, 1]


def test_a_refused_file_says_where_and_keeps_no_other_from_being_imported(store, written):
    lines = written["t4.csv"].decode().splitlines(keepends=True)
    broken = "".join([*lines[:2], lines[2].replace("done", "finished", 1), *lines[3:]])
    strange = b"who,what\nme,**nothing**\n"
    at = uploaded({"broken.csv": broken.encode(), HOSTILE: strange, "t4.csv": written["t4.csv"]})
    rows = preview(at)
    assert rows["broken.csv"]["State"] == rows[HOSTILE]["State"] == ["refused"]
    assert str(rows["broken.csv"]["Note"]).startswith("line 3, column status: ")
    assert "no schema has these columns. Nearest: " in said(at)
    assert HOSTILE not in words(at) and HOSTILE in said(at)
    button(at, "Import 2 runs from 1 file").click().run()
    assert len(store.runs()) == 2
    assert [one.file for one in store.imports()] == ["t4.csv"]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "empty"),
        (b"\x00\x01\x02" * 400, "binary"),
        (b"device,model,variant,batch_size,epoch,epoch_seconds\n", "no row"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_a_sentence(store, data, sentence):
    at = uploaded({"odd.csv": data})
    row = preview(at)["odd.csv"]
    assert row["State"] == ["refused"]
    assert sentence in str(row["Note"])
    assert button(at, "Import").disabled
    assert store.runs() == []


def test_a_file_is_known_by_its_content_whatever_it_is_called(store, written):
    imports.take_in(store, open_table("t4.csv", written["t4.csv"]))
    a100 = written["a100.csv"]
    at = uploaded({"other name.csv": written["t4.csv"], "a100.csv": a100, "copy.csv": a100})
    rows = preview(at)
    assert rows["other name.csv"]["State"] == ["known"]
    assert rows["other name.csv"]["Note"] == "imported already, as t4.csv"
    assert rows["copy.csv"]["State"] == ["known"]
    assert rows["copy.csv"]["Note"] == "the same file as one above"
    button(at, "Import 2 runs from 1 file").click().run()
    assert len(store.runs()) == 4


def test_runs_that_are_here_stay_as_they_are_and_the_others_come(store, written):
    lines = written["t4.csv"].decode().splitlines(keepends=True)
    imports.take_in(store, open_table("part.csv", "".join(lines[:5]).encode()))
    row = preview(uploaded({"t4.csv": written["t4.csv"]}))["t4.csv"]
    assert (row["New runs"], row["Known"]) == (1, 1)
    assert row["State"] == ["ready"] and row["Note"] == "1 run here already"


def test_what_no_column_states_is_asked_and_confirmed(store, written):
    """A column that somebody added: nothing is imported before it is said what becomes of it."""
    lines = written["t4.csv"].decode().splitlines()
    data = "\n".join([lines[0] + ",remark", *(line + ",x" for line in lines[1:])]).encode()
    at = uploaded({"remarks.csv": data})
    assert preview(at)["remarks.csv"]["State"] == ["check 1 thing"]
    assert button(at, "Import").disabled
    button(at, "That is right").click().run()
    assert preview(at)["remarks.csv"]["State"] == ["ready"]
    button(at, "Import 2 runs").click().run()
    assert len(store.runs()) == 2


def test_a_variant_in_free_text_is_nothing_before_somebody_says_what_it_is(store):
    rows = minimal_csv.TEMPLATE.replace("Example GPU", "T4")
    at = uploaded({"t4.csv": rows.replace(",compile,", ",with **the** compiler,").encode()})
    assert preview(at)["t4.csv"]["State"] == ["check 1 thing"]
    assert "**the**" not in words(at)
    button(at, "That is right").click().run()
    assert preview(at)["t4.csv"]["State"] == ["check 1 thing"]
    next(box for box in at.selectbox if "Which variant" in box.label).select("compile max-autotune")
    button(at, "That is right").click().run()
    button(at, "Import 2 runs from 1 file").click().run()
    assert [run.spec.variant.mode for run in store.runs()] == [None, "max-autotune"]
    assert {run.machine for run in store.runs()} == {"T4"}


def test_a_file_of_steps_comes_with_its_results_file(store, tmp_path):
    with Store(tmp_path / "elsewhere.db") as other:
        planted_experiment(other, models=("resnet18",), repeats=1, epochs=4)
        runs = other.runs()
        epochs = other.epochs([run.number for run in runs], steps=True)
    text = io.StringIO(newline="")
    write(text, runs, epochs)
    step_file.write(tmp_path / "steps.csv", [(run, epochs[run.number]) for run in runs])
    steps = (tmp_path / "steps.csv").read_bytes()
    alone = preview(uploaded({"steps.csv": steps}))["steps.csv"]
    assert alone["State"] == ["refused"] and "together with the results file" in str(alone["Note"])
    at = uploaded({"steps.csv": steps, "results.csv": text.getvalue().encode()})
    assert preview(at)["steps.csv"]["State"] == ["ready"]
    assert preview(at)["steps.csv"]["Note"] == "single steps, which come with results.csv"
    button(at, "Import 2 runs from 1 file").click().run()
    number = store.runs()[0].number
    read = store.epochs([number], steps=True)[number]
    assert [epoch.step_seconds for epoch in read] == [
        epoch.step_seconds for epoch in epochs[runs[0].number]
    ]


def test_cancel_clears_the_upload(store, written):
    at = uploaded(written)
    button(at, "Cancel").click().run()
    assert not at.file_uploader and store.runs() == []
    at = button(at, "Upload").click().run()
    assert at.file_uploader[0].value == []


def test_the_upload_offers_a_template_and_the_command_line(monkeypatch):
    at = button(opened("results"), "Upload").click().run()
    assert "python -m bench_core import t4.csv" in at.code[0].value
    assert "six columns are enough" in words(at)
    assert [one.proto.label for one in at.get("download_button")] == ["Template"]


def test_the_first_page_leads_to_the_upload():
    at = opened("overview")
    button(at, "Upload a CSV").click().run()
    assert at.file_uploader and at.title[0].value == "Results"


# Labels


def test_a_machine_is_labelled_before_the_import_and_later_files_of_it_follow(store, written):
    at = uploaded({"t4.csv": written["t4.csv"]})
    next(box for box in at.selectbox if "was measured on" in box.label).set_value("CPU").run()
    button(at, "Import 2 runs").click().run()
    assert {run.machine for run in store.runs()} == {"CPU"}

    store.undo_import(store.imports()[0].id)
    at = uploaded({"t4.csv": written["t4.csv"]})
    button(at, "Import 2 runs").click().run()
    assert {run.machine for run in store.runs()} == {"CPU"}


def test_a_label_is_that_of_its_file_where_nothing_else_tells_the_machine(store):
    header = "device,model,variant,batch_size,epoch,epoch_seconds\n"
    one, other = (f"{header}T4,resnet18,eager,16,1,{time}\n".encode() for time in (10, 11))
    imports.take_in(store, open_table("one.csv", one))
    at = uploaded({"other.csv": other})
    next(box for box in at.selectbox if "was measured on" in box.label).set_value("A100").run()
    button(at, "Import 1 run").click().run()
    assert [run.machine for run in store.runs()] == ["T4", "A100"]
    assert len({run.environment.machine_id for run in store.runs()}) == 2


def test_a_machine_keeps_its_place_with_another_label(store, written):
    for name, data in written.items():
        imports.take_in(store, open_table(name, data))
    at = opened("results")
    field = next(one for one in at.text_input if one.value == "T4")
    field.set_value("Cloud T4").run()
    assert store.machines() == ["Cloud T4", "A100"]
    assert toasts(at) == ["T4 is called Cloud T4 now."]
    assert list(table(at, "Steady epoch")["Machine"])[-1] == ["Cloud T4"]


def test_a_machine_is_never_without_a_label(store, written):
    imports.take_in(store, open_table("t4.csv", written["t4.csv"]))
    at = opened("results")
    next(one for one in at.text_input if one.value == "T4").set_value(" ").run()
    assert store.machines() == ["T4"]
    assert "needs a label" in toasts(at)[0]
    at.text_input(key=f"rename_{store.labelled_machines()[0][0]}_T4").set_value("\u202e").run()
    assert store.machines() == ["T4"], "what turns the direction of a line is no label either"


# Imports


def test_undoing_an_import_names_its_runs_and_takes_them_out(store, written):
    for name, data in written.items():
        imports.take_in(store, open_table(name, data))
    at = opened("results")
    of_t4 = next(one for one in store.imports() if one.file == "t4.csv")
    at.button(key=f"undo_{of_t4.id}").click().run()
    assert "**2 runs** from **t4.csv**" in said(at)
    assert len(store.runs()) == 4
    assert at.session_state[import_list.OPEN] is False, "it would lie over the question"
    button(at, "Take 2 runs out").click().run()
    assert {run.machine for run in store.runs()} == {"A100"}
    assert toasts(at) == ["2 runs from t4\\.csv taken out."]


def test_an_import_that_another_tab_has_undone_is_told_so(store, written):
    imports.take_in(store, open_table("t4.csv", written["t4.csv"]))
    at = opened("results")
    (record,) = store.imports()
    at.button(key=f"undo_{record.id}").click().run()
    store.undo_import(record.id)
    button(at, "Take 2 runs out").click().run()
    assert "undone already, in another tab" in toasts(at)[0]


def test_without_an_import_there_is_no_list_of_them(store):
    planted_experiment(store, models=("resnet18",), repeats=1, epochs=4)
    assert "import" not in words(opened("results"))
    assert not [one for one in opened("results").button if one.label == "Undo"]


def test_the_card_of_an_imported_run_tells_its_file(store, written):
    imports.take_in(store, open_table(HOSTILE, written["t4.csv"]))
    at = opened("results", run="1")
    assert "imported]" in words(at)
    rows = at.table[0].value["value"]
    assert rows["File"] == f"{plain(HOSTILE)}, from line 2"
    assert rows["Read as"] == plain("this dashboard's CSV")


# The sample, and a dashboard that is shown around


@pytest.mark.parametrize("page", ["overview", "results"])
def test_the_sample_is_offered_where_there_is_one(page, store, written, tmp_path, monkeypatch):
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    monkeypatch.setattr(sample_results, "SHIPPED", shipped)
    assert "Load the sample results" not in labels(opened(page))
    (shipped / "sample_runs.csv").write_bytes(written["t4.csv"])
    at = opened(page)
    button(at, "Load the sample results").click().run()
    assert len(store.runs()) == 2
    assert "measured by this program on Intel" in toasts(at)[0]
    assert "No measurements yet" not in words(at)


def test_a_dashboard_for_viewing_offers_no_upload(store, written, monkeypatch):
    monkeypatch.setenv("BENCH_VIEW_ONLY", "1")
    forbidden = {"Upload", "Upload a CSV", "Undo", "Load the sample results"}
    for page in ("overview", "results"):
        assert not forbidden & set(labels(opened(page)))
    imports.take_in(store, open_table("t4.csv", written["t4.csv"]))
    at = opened("results")
    assert not forbidden & set(labels(at))
    assert not at.text_input and not at.file_uploader


# A table by hand beside what was measured here


def by_hand() -> dict[str, bytes]:
    """What the template becomes for a T4 with the model that `planted_experiment` has here."""
    rows = minimal_csv.TEMPLATE.replace("Example GPU", "T4").replace("resnet18", "small_cnn")
    return {"t4.csv": rows.encode()}


def test_a_table_by_hand_stands_beside_our_runs_once_it_says_how_it_was_measured(store):
    planted_experiment(store, models=("small_cnn",), machine="CPU", repeats=1, epochs=4)
    at = uploaded(by_hand())
    field = next(box for box in at.selectbox if "conditions" in box.label)
    [as_here] = field.options
    assert as_here.startswith("as on CPU: ")
    field.select_index(0).run()
    assert preview(at)["t4.csv"]["State"] == ["ready"]
    button(at, "Import 2 runs").click().run()
    assert len({run.spec.workload for run in store.runs()}) == 1
    imported = [run for run in store.runs() if run.import_id]
    assert {run.source.inferred["dataset"] for run in imported} == {"said with the import"}
    assert "does not state" not in words(opened("compare"))


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("samples", "must be KEY=VALUE, got 'samples'"),
        ("sample=3", "sample is no fact that the file lacks: samples"),
        ("samples='3", "No closing quotation"),
    ],
)
def test_what_is_no_fact_is_told(typed, told):
    with pytest.raises(ValueError, match=told):
        facts_in(typed, ("samples",))


def test_facts_are_typed_with_spaces_between_them():
    typed = "dataset='my images' samples=3"
    assert facts_in(typed, ("dataset", "samples")) == {"dataset": "my images", "samples": "3"}
