"""What files would bring, before anything is stored: a table, and what is asked about each file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from bench_core.imported import Question
from bench_core.imports import Look
from bench_core.spec import Variant, variant_argument
from bench_core.units import count_text, counted
from pages.parts.machine_colors import chip_colors
from pages.parts.machine_labels import label_choices
from pages.parts.run_table import EMPTY_CELL
from pages.parts.text import plain

STATE_COLORS = {"ready": "green", "known": "gray", "refused": "red"}
LEFT_OUT = "ignore"
# Characters of a file's name that fit into its cell, and how many of them are of its end.
LONGEST_NAME, NAME_END = 32, 18
MODES = ("reduce-overhead", "max-autotune")
# By the argument that names a variant, what is shown for it; any other argument can be typed.
USUAL_VARIANTS = {
    variant_argument(variant): variant.name
    for variant in (
        Variant(),
        *(Variant(execution="compile", mode=mode) for mode in (None, *MODES)),
    )
}
NAMES = {**USUAL_VARIANTS, LEFT_OUT: "left out"}


def open_questions(look: Look, answers: Mapping[str, str]) -> list[Question]:
    return [question for question in look.questions if not answers.get(question.key)]


def preview_table(
    looks: Sequence[Look], answers: Sequence[Mapping[str, str]], machines: Sequence[str]
) -> None:
    """`answers` are those given for each file; `machines` the labels of the store, in order."""
    chips = [_chip(look, given) for look, given in zip(looks, answers, strict=True)]
    frame = pd.DataFrame([_row(look, chip) for look, chip in zip(looks, chips, strict=True)])
    states = list(dict.fromkeys(chips))
    found = [label for look in looks for _, label in look.machines]
    labels = list(dict.fromkeys([*machines, *found]))
    numbers = ("Rows", "Runs", "New runs", "Known")
    st.dataframe(
        frame.style.format(dict.fromkeys(numbers, count_text)),
        hide_index=True,
        placeholder="",
        height="content" if len(looks) <= 12 else 460,
        alt="The files, what each is read as, what it would bring, and what is wrong or asked",
        column_config={
            "File": st.column_config.TextColumn(
                width=220,
                pinned=True,
                help="Of a long name its beginning and its end; it stands in full below.",
            ),
            "State": st.column_config.MultiselectColumn(
                width=114,
                options=states,
                color=[STATE_COLORS.get(state, "yellow") for state in states],
            ),
            "Read as": st.column_config.TextColumn(width=150),
            "Rows": st.column_config.NumberColumn(
                width=60, help="Epochs, or results of a whole run."
            ),
            "Runs": st.column_config.NumberColumn(width=52),
            "New runs": st.column_config.NumberColumn(width=70),
            "Known": st.column_config.NumberColumn(
                width=58, help="Runs that are here already: they stay as they are."
            ),
            "Machines": st.column_config.MultiselectColumn(
                width=90,
                options=labels,
                color=chip_colors(len(labels)),
            ),
            "Note": st.column_config.TextColumn(width=290),
        },
    )
    long = [look.file for look in looks if _ends_of(look.file) != look.file]
    if long:
        st.caption("  \n".join(f"{plain(_ends_of(name))} is {plain(name)}" for name in long))
    # The way out in full: a cell of the table cuts it off.
    refused = [
        f":red[:material/error:] **{plain(look.file)}** :gray[is refused:] {plain(look.note)}"
        for look in looks
        if look.state == "refused"
    ]
    if refused:
        st.markdown("  \n".join(refused))


def _ends_of(name: str) -> str:
    """A name as it fits its cell: `inference-be…fp16-rtx4090.csv`; ends tell files apart."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - NAME_END - 1]}…{name[-NAME_END:]}"


def _chip(look: Look, answers: Mapping[str, str]) -> str:
    if look.state != "asks":
        return look.state
    return f"check {counted(len(open_questions(look, answers)), 'thing')}"


def _row(look: Look, chip: str) -> dict[str, object]:
    nothing = not (look.new or look.known)
    return {
        "File": _ends_of(look.file),
        "State": [chip],
        "Read as": look.family,
        "Rows": look.rows or EMPTY_CELL,
        "Runs": EMPTY_CELL if nothing else look.new + look.known,
        "New runs": EMPTY_CELL if nothing else look.new,
        "Known": EMPTY_CELL if nothing else look.known,
        "Machines": [label for _, label in look.machines],
        # The questions themselves stand below.
        "Note": "say below what no column states" if look.state == "asks" else look.note,
    }


def ask(
    look: Look, answers: Mapping[str, str], machines: Sequence[str], key: str
) -> dict[str, str] | None:
    """The questions about one file as a form; what was said, once it is confirmed.

    Columns that are taken to mean nothing stand folded away.
    """
    asked = open_questions(look, answers)
    words = "what no column states" if asked else "what was said of it"
    told = [one for one in look.questions if one.suggestion != LEFT_OUT]
    left_out = [one for one in look.questions if one.suggestion == LEFT_OUT]
    said: dict[str, str] = {}
    with (
        st.expander(f"**{plain(look.file)}** :gray[{words}]", expanded=bool(asked)),
        st.form(f"{key}_ask", border=False, enter_to_submit=False),
    ):
        with st.grid(3, min_column_width=240, vertical_alignment="bottom"):
            for question in told or left_out:
                said[question.key] = _field(question, answers, machines, key)
        if told and left_out:
            words = f"{counted(len(left_out), 'column')} left out"
            with (
                st.expander(words, type="compact"),
                st.grid(3, min_column_width=240, vertical_alignment="bottom"),
            ):
                for question in left_out:
                    said[question.key] = _field(question, answers, machines, key)
        pressed = st.form_submit_button(
            "That is right" if asked else "Read it again", icon=":material/check:"
        )
    return {name: text for name, text in said.items() if text} if pressed else None


def _field(
    question: Question, answers: Mapping[str, str], machines: Sequence[str], key: str
) -> str:
    value = answers.get(question.key) or question.suggestion
    kind = question.key.split(":")[0]
    choices = list(question.choices)
    if kind.startswith("machine"):  # one, or one for each device of the file
        choices = label_choices(value, machines=machines)
    elif kind in ("variant", "arm") and not choices:
        usual = (*USUAL_VARIANTS, *([LEFT_OUT] if kind == "arm" else []))
        choices = list(dict.fromkeys([*filter(None, (value,)), *usual]))
    label, key = plain(question.text), f"{key}_{question.key}"
    if not choices:
        return st.text_input(label, value=value or "", key=key).strip()
    said = st.selectbox(
        label,
        choices,
        index=choices.index(value) if value in choices else None,
        format_func=lambda choice: NAMES.get(choice, choice),
        placeholder="Choose" if question.choices else "Choose, or type another",
        accept_new_options=not question.choices,
        key=key,
    )
    return (said or "").strip()
