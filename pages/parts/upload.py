"""The upload on Results: choose files, check what they would bring, import.

Nothing is stored before the button is pressed, and then each file whole or not at all. The files
lie in the session until then: a refresh loses them, and nothing else. The page shows one primary
button while this is open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from bench_core import imports, minimal_csv, step_file
from bench_core.imported import Answers
from bench_core.imports import Look
from bench_core.spec import new_id
from bench_core.store import Store, StoreError
from bench_core.table_file import BadFile, TableFile, open_table
from bench_core.units import counted
from pages.parts.machine_labels import Asked, label_fields, labels_of, relabel
from pages.parts.text import plain
from pages.parts.upload_facts import further_facts
from pages.parts.upload_preview import ask, preview_table

PAGES = Path(__file__).resolve().parents[1]
RESULTS, COMPARE = PAGES / "results.py", PAGES / "compare.py"
ENDINGS = ("csv", "tsv", "txt", "gz")
state = st.session_state
log = logging.getLogger(__name__)


@dataclass
class Upload:
    """An upload that is open: its files by the id that Streamlit gives each.

    `id` names its widgets: another upload starts without files. `looks` are kept by what they
    depend on, as a file of 200,000 rows is read for seconds.
    `owners` name the results file that a file of single steps belongs to. `facts` are what was
    said of all rows of a file, `bare` the look at it without them.
    """

    id: str = field(default_factory=new_id)
    tables: dict[str, TableFile] = field(default_factory=dict)
    answers: dict[str, dict[str, str]] = field(default_factory=dict)
    looks: dict[tuple[object, ...], Look] = field(default_factory=dict)
    owners: dict[tuple[str, ...], str | None] = field(default_factory=dict)
    facts: dict[str, dict[str, str]] = field(default_factory=dict)
    bare: dict[str, Look] = field(default_factory=dict)


def is_open() -> bool:
    return "upload" in state


def open_upload() -> None:
    state.upload = Upload()


def close_upload() -> None:
    state.pop("upload", None)


def upload_button(label: str = "Upload a CSV") -> None:
    """Opens the upload, from any page. Not for a dashboard that is for viewing only."""
    if st.button(label, icon=":material/upload:", disabled=is_open() and label == "Upload"):
        open_upload()
        st.switch_page(RESULTS, query_params={})


def upload(after: Callable[[], None]) -> None:
    """The open upload. `after` is called once something was imported, before the page is redrawn.

    What was told about an upload that is over comes up as a toast.
    """
    if words := state.pop("upload_told", None):
        st.toast(words, icon=":material/check:")
    if machines := state.pop("upload_machines", None):
        brought, others = machines
        beside = f" beside {', '.join(others)}" if others else ""
        st.page_link(
            COMPARE,
            label=f"See {plain(', '.join(brought) + beside)} in Compare",
            icon=":material/balance:",
            query_params={"machines": [*brought, *others]},
        )
    if not is_open():
        return
    opened: Upload = state.upload
    with st.container(border=True, gap="small"):
        head = st.container(
            horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
        )
        files = st.file_uploader(
            "Results files",
            type=list(ENDINGS),
            accept_multiple_files=True,
            key=f"files_{opened.id}",
            label_visibility="collapsed",
        )
        if files:
            stored = f"{counted(len(files), 'file')}, nothing is stored yet"
            head.markdown(f"**Check before import** :gray[{stored}]", width="content")
        else:
            head.markdown("**Upload results** :gray[of other machines]", width="content")
        head.button(
            "Cancel", icon=":material/close:", type="tertiary", on_click=close_upload, key="close"
        )
        if files:
            _check(opened, files, after)
        else:
            _ways()


def _ways() -> None:
    """Where a file comes from."""
    st.caption(
        "CSV, TSV or text, also gzipped: what this program writes, the benchmark files of timm and "
        "PyTorch, or a table of your own. Several at once."
    )
    left, right = st.columns(2, gap="small")
    with left:
        st.markdown(
            "**Measured elsewhere: six columns are enough for a speedup**  \n:small[:gray[device, "
            "model, variant, batch\\_size, epoch and epoch\\_seconds: one row an epoch, eager and "
            "compiled. To stand beside another machine it takes the conditions too: the next step "
            "offers those of runs that are here.]]"
        )
        st.download_button(
            "Template",
            data=minimal_csv.TEMPLATE,
            file_name="results-template.csv",
            mime="text/csv",
            icon=":material/download:",
            on_click="ignore",
            help="A file with these columns to fill in.",
        )
    with right:
        st.markdown(
            "**Measured with this program**  \n:small[:gray[The first line on the other machine; "
            "the second here does the same as an upload.]]"
        )
        st.code(
            "python -m bench_core run --model resnet50 --csv t4.csv\n"
            "python -m bench_core import t4.csv",
            language="bash",
            wrap_lines=True,
        )


def _check(opened: Upload, files: Sequence[UploadedFile], after: Callable[[], None]) -> None:
    with Store() as store:
        machines = store.machines()
        with st.spinner("Reading the files …"):
            looks = _looks(store, opened, files)
        given = [opened.answers.get(file.file_id, {}) for file in files]
        preview_table(looks, given, machines)
        for file, look, answers in zip(files, looks, given, strict=True):
            if look.questions and look.state != "known":
                said = ask(look, answers, machines, f"{opened.id}_{file.file_id}")
                if said is not None:
                    opened.answers[file.file_id] = said
                    st.rerun()
        _ask_facts(store, opened, files, looks)
        by_file = {file.file_id: look for file, look in zip(files, looks, strict=True)}
        labels = label_fields(store, by_file, opened.id)
        ready = [
            (file, look.new)
            for file, look in zip(files, looks, strict=True)
            if look.state == "ready" and look.new
        ]
        runs = counted(sum(new for _, new in ready), "run")
        words = f"Import {runs} from {counted(len(ready), 'file')}" if ready else "Import"
        with st.container(horizontal=True, vertical_alignment="center"):
            pressed = st.button(
                words,
                type="primary",
                icon=":material/check:",
                disabled=not ready,
                key=f"import_{opened.id}",
            )
            st.caption(
                "All or nothing for each file. An import can be undone afterwards.", width="content"
            )
        if not pressed:
            return
        with st.spinner(f"Importing {runs} …"):
            steps = _steps_by_owner(opened, files)
            told, brought, failed = _take_in(
                store, opened, [file for file, _ in ready], steps, labels
            )
            # Before anything is drawn: a second press finds nothing to import.
            if told:
                state.upload_told = told
                state.upload_machines = _machines_of(store, brought)
                after()
            if not failed and not any(look.state == "asks" for look in looks):
                close_upload()
    for sentence in failed:
        st.markdown(f":red[:material/error:] {plain(sentence)}")
    if not failed:
        st.rerun()


def _ask_facts(
    store: Store, opened: Upload, files: Sequence[UploadedFile], looks: Sequence[Look]
) -> None:
    """Of files that lack facts of their workload: what may be said of all rows."""
    for file, look in zip(files, looks, strict=True):
        if look.lacks:
            opened.bare.setdefault(file.file_id, look)
        bare = opened.bare.get(file.file_id)
        if bare is None or look.state == "known":
            continue
        said = further_facts(
            store.runs(), _table(opened, file), bare, f"{opened.id}_{file.file_id}"
        )
        if said != opened.facts.get(file.file_id, {}):
            opened.facts[file.file_id] = said
            st.rerun()


def _said(opened: Upload, file: UploadedFile) -> dict[str, str]:
    """What was answered about a file, and said of all its rows."""
    return opened.answers.get(file.file_id, {}) | opened.facts.get(file.file_id, {})


def _table(opened: Upload, file: UploadedFile) -> TableFile:
    """Raises BadFile."""
    if file.file_id not in opened.tables:
        opened.tables[file.file_id] = open_table(file.name, file.getvalue())
    return opened.tables[file.file_id]


def _looks(store: Store, opened: Upload, files: Sequence[UploadedFile]) -> list[Look]:
    """A look at each file, read again only where its answers or the store have changed."""
    here = (len(store.run_ids()), tuple(one.id for one in store.imports()))
    looks = []
    first: dict[str, str] = {}
    for file in files:
        answers = _said(opened, file)
        depends = (file.file_id, *sorted(answers.items()), here)
        if depends not in opened.looks:
            opened.looks[depends] = _look(store, opened, file, answers)
        look = opened.looks[depends]
        table = opened.tables.get(file.file_id)
        if table and first.setdefault(table.sha256, file.file_id) != file.file_id:
            look = replace(look, state="known", note="the same file as one above", new=0)
        looks.append(look)
    for owner, steps in _steps_by_owner(opened, files).items():
        place = [file.file_id for file in files].index(owner)
        for table in steps:
            at = [opened.tables.get(file.file_id) for file in files].index(table)
            goes_with = f"single steps, which come with {looks[place].file}"
            if looks[place].new:
                looks[at] = Look(table.name, "ready", goes_with, "single steps")
    return looks


def _steps_by_owner(opened: Upload, files: Sequence[UploadedFile]) -> dict[str, list[TableFile]]:
    """Files of single steps by the id of the results file that holds their first run."""
    tables = {
        file.file_id: opened.tables[file.file_id] for file in files if file.file_id in opened.tables
    }
    found: dict[str, list[TableFile]] = {}
    for file_id, table in tables.items():
        if step_file.is_of(table.header):
            key = (file_id, *tables)
            if key not in opened.owners:
                opened.owners[key] = _owner(table, tables)
            if owner := opened.owners[key]:
                found.setdefault(owner, []).append(table)
    return found


def _owner(steps: TableFile, tables: Mapping[str, TableFile]) -> str | None:
    try:
        first = next(steps.rows(), None)
        run_id = first and first.cells[steps.header.index("run_id")]
        for file_id, table in tables.items():
            if {"schema_version", "run_id"} <= set(table.header):
                at = table.header.index("run_id")
                if any(row.cells[at] == run_id for row in table.rows()):
                    return file_id
    except BadFile:  # the look at that file tells it
        pass
    return None


def _look(store: Store, opened: Upload, file: UploadedFile, answers: Answers) -> Look:
    try:
        table = _table(opened, file)
        look = imports.look(store, table, answers)
        if look.state == "refused" and answers:  # what was said may be what is wrong
            asked = tuple(imports.family_of(table).questions(table, answers))
            look = replace(look, questions=asked)
        return look
    except BadFile as error:
        return Look(file.name, "refused", str(error))
    except Exception as error:  # whatever a stranger's file does to a reader, the page stays
        log.exception("%s cannot be read", file.name)
        return Look(file.name, "refused", f"it cannot be read ({error!r})")


def _take_in(
    store: Store,
    opened: Upload,
    files: Sequence[UploadedFile],
    steps: Mapping[str, Sequence[TableFile]],
    labels: Mapping[Asked, str],
) -> tuple[str, list[str], list[str]]:
    """Import files; what became of them, the imports' ids, and a sentence for each that failed."""
    brought: list[str] = []
    new, failed = 0, []
    for file in files:
        answers = _said(opened, file) | labels_of(labels, file.file_id)
        try:
            table, of_it = _table(opened, file), steps.get(file.file_id, ())
            imported = imports.take_in(store, table, answers, of_it)
        except (BadFile, StoreError) as error:
            failed.append(f"{file.name} was not imported: {error}")
            continue
        if imported.record:
            relabel(store, imported.record, labels)
            new += imported.new
            brought.append(imported.record.id)
    told = f"{counted(new, 'run')} from {counted(len(brought), 'file')} imported."
    return told if brought else "", brought, failed


def _machines_of(store: Store, imports_of: Sequence[str]) -> tuple[list[str], list[str]]:
    """Machines of these imports, as they are called now, and others with the same models."""
    runs = store.runs()
    brought = [run for run in runs if run.import_id in imports_of]
    models = {run.spec.workload.model for run in brought}
    of_them = dict.fromkeys(run.machine for run in brought)
    others = dict.fromkeys(run.machine for run in runs if run.spec.workload.model in models)
    return list(of_them), [one for one in others if one and one not in of_them]
