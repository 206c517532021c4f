"""Results: every stored run. Upload, filter, compare, download, delete; the ticked run's card.

Choices, then the table of one page of runs, then what can be done with the ticked ones. Only the
runs of the page shown are measured, so a store of thousands opens as fast as one of a hundred.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from pathlib import Path

import streamlit as st

from bench_core.result_csv import write, write_summary
from bench_core.run import ENDED, NOT_STATED, Run
from bench_core.store import Store
from bench_core.units import counted
from pages.parts.import_list import import_list
from pages.parts.kinds import kind_of
from pages.parts.machine_labels import machine_list
from pages.parts.measured import measured_runs, read_epochs
from pages.parts.run_card import run_card
from pages.parts.run_table import run_table
from pages.parts.sample_results import sample_button
from pages.parts.text import plain
from pages.parts.upload import is_open, upload, upload_button

PAGES = Path(__file__).resolve().parent
RUNS_A_PAGE = 200
# Further filters: the key in the address, the label, and what of a run it looks at.
FACTS: dict[str, tuple[str, Callable[[Run], str]]] = {
    "tasks": ("Task", lambda run: kind_of(run.spec.workload)),
    "executions": ("Variant", lambda run: run.spec.variant.execution),
    "precisions": (
        "Precision",
        lambda run: run.spec.workload.precision if run.states("precision") else NOT_STATED,
    ),
}
VIEW_ONLY = os.environ.get("BENCH_VIEW_ONLY") == "1"


def csv_of(runs: list[Run], *, summary: bool) -> bytes:
    """The file of these runs, oldest first."""
    ordered = sorted(runs, key=lambda run: run.number)
    text = io.StringIO(newline="")
    with Store() as store:
        if summary:
            write_summary(text, measured_runs(store, ordered))
            return text.getvalue().encode("utf-8-sig")  # spreadsheets guess the encoding otherwise
        epochs = store.epochs([run.number for run in ordered], steps=True)
        write(text, ordered, epochs, store.experiments())
    return text.getvalue().encode()


def delete_runs(numbers: list[int]) -> None:
    with Store() as store:
        store.delete(numbers)
    st.session_state.ticked = []


@st.dialog("Delete runs", icon=":material/delete:")
def confirm_delete(runs: list[Run]) -> None:
    ended = [run.number for run in runs if run.status in ENDED]
    staying = [run for run in runs if run.status not in ENDED]
    if ended:
        st.markdown(
            f"**{counted(len(ended), 'run')}** and all that was measured of "
            f"{'it' if len(ended) == 1 else 'them'} will be gone: {_numbers(ended)}. "
            "This cannot be undone; download the CSV first to keep the numbers."
        )
    for run in staying:
        st.markdown(f"Run {run.number} is {run.status} and stays. Stop it on the Live page first.")
    with st.container(horizontal=True):
        delete = f"Delete {counted(len(ended), 'run')}"
        if ended and st.button(delete, type="primary", on_click=delete_runs, args=(ended,)):
            st.rerun()
        if st.button("Cancel", key="keep"):
            st.rerun()


def clear_filter() -> None:
    st.session_state.update(machines=[], statuses=[], model_name=None, chosen_experiment=None)
    st.session_state.update({key: [] for key in FACTS})


def _numbers(numbers: list[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:12])
    return shown + (f" and {len(numbers) - 12} more" if len(numbers) > 12 else "")


def _experiment(runs: list[Run]) -> str:
    """`1–18 · resnet18, resnet101`: the numbers tell experiments of the same models apart."""
    models = dict.fromkeys(run.spec.workload.model for run in reversed(runs))
    return f"{runs[-1].number}–{runs[0].number} · {', '.join(models)}"


header = st.container(
    horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
)
header.title("Results", anchor=False, width="content")

if not VIEW_ONLY:
    upload(after=clear_filter)
with Store() as store:
    runs = store.runs()[::-1]
    machines = store.machines()
    imports = store.imports()
if not runs and is_open():
    st.stop()
if not runs:
    with st.container(border=True):
        st.markdown(
            "**No measurements yet**  \nMeasure two small networks in eager mode and with "
            "torch.compile on this machine. It takes two to three minutes on two cores and ends in "
            "a first look."
        )
        if not VIEW_ONLY:
            with st.container(horizontal=True):
                if st.button("New run", type="primary", icon=":material/add:"):
                    st.switch_page(PAGES / "run.py", query_params={})
                sample_button()
                upload_button()
    st.stop()

# Nothing chosen in a row of pills means all of it.
experiments: dict[str, list[Run]] = {}
for run in runs:
    experiments.setdefault(run.experiment_id, []).append(run)
with st.container(horizontal=True, vertical_alignment="bottom"):
    with_runs = {run.machine for run in runs}
    chosen_machines = st.pills(
        "Machines",
        [label for label in machines if label in with_runs],
        selection_mode="multi",
        format_func=plain,
        key="machines",
        bind="query-params",
    )
    chosen_statuses = st.pills(
        "Status",
        list(dict.fromkeys(run.status for run in runs)),
        selection_mode="multi",
        key="statuses",
        bind="query-params",
    )
    chosen_model = st.selectbox(
        "Model",
        sorted({run.spec.workload.model for run in runs}),
        index=None,
        placeholder="All models",
        key="model_name",
        bind="query-params",
        width=190,
    )
    asked = st.query_params.get("experiment")
    chosen_experiment = st.selectbox(
        "Experiment",
        list(experiments),
        index=list(experiments).index(asked) if asked in experiments else None,
        format_func=lambda key: _experiment(experiments[key]),
        placeholder="All experiments",
        key="chosen_experiment",
        width=260,
    )
    # The label of the popover is its state, which is in the address before its widgets are drawn.
    state = [st.session_state.get(key, st.query_params.get_all(key)) for key in FACTS]
    words = ", ".join(word for chosen in state for word in chosen)
    with st.popover(plain(words or "All tasks and variants"), icon=":material/tune:", key="rest"):
        wanted = {
            key: st.pills(
                title,
                sorted({fact(run) for run in runs}),
                selection_mode="multi",
                key=key,
                bind="query-params",
            )
            for key, (title, fact) in FACTS.items()
        }

if chosen_experiment:
    st.query_params["experiment"] = chosen_experiment
elif asked:
    del st.query_params["experiment"]

matching = [
    run
    for run in runs
    if (not chosen_machines or run.machine in chosen_machines)
    and (not chosen_statuses or run.status in chosen_statuses)
    and chosen_model in (None, run.spec.workload.model)
    and chosen_experiment in (None, run.experiment_id)
    and all(not wanted[key] or fact(run) in wanted[key] for key, (_, fact) in FACTS.items())
]
stamp = time.strftime("%Y-%m-%d")
with header.container(horizontal=True, width="content"):
    if not VIEW_ONLY:
        upload_button("Upload")
    st.download_button(
        "Summary",
        data=lambda: csv_of(matching, summary=True),
        file_name=f"torch-compile-summary-{stamp}.csv",
        mime="text/csv",
        icon=":material/table:",
        on_click="ignore",
        disabled=not matching,
        help="One row a run, with steady state and start-up computed: for a spreadsheet.",
    )
    st.download_button(
        "Download CSV",
        data=lambda: csv_of(matching, summary=False),
        file_name=f"torch-compile-results-{stamp}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        disabled=not matching,
        help="One row an epoch (of inference a block of iterations), every stored fact of the "
        "runs that the filter shows.",
    )
if not matching:
    st.markdown("No run matches.")
    st.button("Clear the filter", icon=":material/filter_alt_off:", on_click=clear_filter)
    st.stop()

sheets = -(-len(matching) // RUNS_A_PAGE)
sheet = 1
if sheets > 1:
    sheet = st.pagination(sheets, key="page", bind="query-params")
shown = matching[(sheet - 1) * RUNS_A_PAGE : sheet * RUNS_A_PAGE]
with Store() as store:
    measured = measured_runs(store, shown)
    read_epochs(store, measured)
# A tick lives in the session, and a single one in the address too: `?run=41` opens its card.
linked = [run.id for run in shown if str(run.number) == st.query_params.get("run")]
ticked = run_table(measured, machines, linked or st.session_state.get("ticked", []))
st.session_state.ticked = ticked
chosen = [one for one in measured if one.run.id in ticked]
if len(chosen) == 1:
    st.query_params["run"] = str(chosen[0].run.number)
elif "run" in st.query_params:
    del st.query_params["run"]

with st.container(horizontal=True, vertical_alignment="center"):
    words = counted(len(matching), "run")
    if len(matching) < len(runs):
        words += f" of {len(runs)}"
    if sheets > 1:
        words += f", {shown[-1].number} to {shown[0].number} on this page"
    st.caption(f"{words}. Tick two or more of the same workload to compare them.", width="content")
    if st.button(
        f"Compare {counted(len(chosen), 'run')}" if len(chosen) > 1 else "Compare",
        icon=":material/balance:",
        disabled=len(chosen) < 2,
        key="compare",
    ):
        numbers = ",".join(str(one.run.number) for one in reversed(chosen))
        st.switch_page(PAGES / "compare.py", query_params={"runs": numbers})
    if not VIEW_ONLY and st.button(
        "Delete", icon=":material/delete:", type="tertiary", disabled=not chosen, key="delete"
    ):
        confirm_delete([one.run for one in chosen])
    if not VIEW_ONLY:
        with Store() as store:
            machine_list(store)
        import_list(imports, runs)

if chosen:
    card = chosen[0]
    if len(chosen) > 1:
        number = st.pills(
            "Card of",
            [one.run.number for one in chosen],
            default=chosen[0].run.number,
            required=True,
            format_func=lambda number: f"Run {number}",
            label_visibility="collapsed",
        )
        card = next(one for one in chosen if one.run.number == number)
    run_card(card)
