"""What machines are called: a label before an import, another one at any time after it.

A machine keeps its place in the store, and with it its colour and its symbol, whatever its label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import streamlit as st

from bench_core.imported import Import
from bench_core.imports import MACHINE, Look, is_known_by_label
from bench_core.store import Store
from pages.parts.machine_colors import mark
from pages.parts.text import plain

USUAL_LABELS = ("T4", "A100", "CPU")
LONGEST_LABEL = 60
# A machine of a file: its id, and its label there.
Machine = tuple[str, str]
# Beside the id of the file, where the label is of that file alone.
Asked = tuple[str, Machine]


def label_choices(*first: str | None, machines: Iterable[str]) -> list[str]:
    """What a machine may be called: any other text is allowed too."""
    return list(dict.fromkeys(filter(None, (*first, *USUAL_LABELS, *machines))))


def label_fields(store: Store, looks: Mapping[str, Look], key: str) -> dict[Asked, str]:
    """A field for each machine of the files that states its label itself; the changed labels.

    `looks` by the file's id. A machine that nothing but its label tells has a field for each file.
    """
    places = store.machines()
    here = store.labelled_machines()
    files: dict[Asked, str] = {}
    for file_id, look in looks.items():
        if look.new and not any(one.key.startswith("machine") for one in look.questions):
            for machine in look.machines:
                owner = file_id if is_known_by_label(*machine) else ""
                files.setdefault((owner, machine), look.file)
    wanted: dict[Asked, str] = {}
    if not files:
        return wanted
    with st.grid(3, min_column_width=240, vertical_alignment="bottom"):
        for (owner, machine), file in files.items():
            shown = _label_here(machine, here)
            place = places.index(shown) if shown in places else len(places)
            if place == len(places):
                places.append(shown)
            several = len([one for one, where in files.items() if where == file]) > 1
            words = f"{machine[1]} of {file} is called" if several else f"{file} was measured on"
            label = st.selectbox(
                f"{mark(place)} {plain(words)}",
                label_choices(shown, machines=places),
                key=f"{key}_label_{owner}_{machine}",
                accept_new_options=True,
                help="Another label makes it another machine than that of other files."
                if owner
                else "What this machine is called everywhere. All of its runs get this label, and "
                "keep their colour.",
            )
            if label and (said := _label_of(label)) not in ("", shown):
                wanted[owner, machine] = said
    return wanted


def _label_of(text: str) -> str:
    """On one line, without what cannot be seen, as signs that turn the direction of a line."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())[:LONGEST_LABEL].strip()


def labels_of(wanted: Mapping[Asked, str], file_id: str) -> dict[str, str]:
    """The labels that one file's machines were given, as answers to its import."""
    return {
        f"{MACHINE}{machine[1]}": label
        for (owner, machine), label in wanted.items()
        if owner == file_id
    }


def _label_here(machine: Machine, here: Sequence[Machine]) -> str:
    """The label that the machine's runs will have: the file's own, unless it was renamed here."""
    labels = [label for machine_id, label in here if machine_id == machine[0]]
    return labels[0] if len(labels) == 1 else machine[1]


def relabel(store: Store, record: Import, asked: Mapping[Asked, str]) -> None:
    """Give the machines of an import the labels that were chosen before it, everywhere."""
    wanted = {machine: label for (owner, machine), label in asked.items() if not owner}
    came = {
        (run.environment.machine_id, run.environment.machine)
        for run in store.runs()
        if run.import_id == record.id and run.environment
    }
    for machine_id, label in sorted(came):
        of_machine = {old: new for (other, old), new in wanted.items() if other == machine_id}
        new_label = of_machine.get(label) or (
            next(iter(of_machine.values())) if len(of_machine) == 1 else None
        )
        if new_label and new_label != label:
            store.rename_machine(machine_id, label, new_label)


def machine_list(store: Store) -> None:
    """A popover with every machine that has runs: its mark and its label, which may be changed."""
    machines, places = store.labelled_machines(), store.machines()
    with st.popover("Machines", icon=":material/devices:", type="tertiary"):
        st.caption("What a machine is called. Its runs keep their colour.")
        for machine_id, label in machines:
            key = f"rename_{machine_id}_{label}"
            st.text_input(
                f"{mark(places.index(label))} {plain(label)}",
                value=label,
                max_chars=LONGEST_LABEL,
                key=key,
                on_change=_rename,
                args=(machine_id, label, key),
            )
        shared = [label for _, label in machines]
        for label in dict.fromkeys(one for one in shared if shared.count(one) > 1):
            st.caption(
                plain(
                    f"{shared.count(label)} machines are called {label}: they share a colour, and "
                    "their runs are still held apart."
                )
            )


def _rename(machine_id: str, label: str, key: str) -> None:
    new_label = _label_of(str(st.session_state[key]))
    if not new_label:
        st.session_state[key] = label  # a machine without a label could not be chosen anywhere
        st.toast("A machine needs a label: the one it had stays.")
        return
    with Store() as store:
        store.rename_machine(machine_id, label, new_label)
    st.toast(f"{plain(label)} is called {plain(new_label)} now.")
