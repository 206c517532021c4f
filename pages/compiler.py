"""Compiler: what torch.compile made of a model, stage by stage, with the cost of each.

Choices, then the answer as a title, then the stages as pictures. What is shown is a capture that
captures.py keeps; where there is none yet, one press takes it in the background. Everything that is
chosen is in the address.
"""

from __future__ import annotations

from functools import partial

import streamlit as st

from bench_core import capabilities, captures
from bench_core.spec import SpecError
from pages.parts import compiler_choice as choice
from pages.parts import (
    compiler_fields,
    compiler_kernels,
    compiler_phases,
    compiler_pictures,
    compiler_taking,
)
from pages.parts.compiler_changes import changes_card
from pages.parts.compiler_words import absences, answer, disturbance
from pages.parts.text import plain
from pages.parts.when import reader_zone, when_text

offers = capabilities.cached()
kept = choice.kept_captures()
choice.begin(kept, offers)

with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
    st.title("What the compiler made of it", anchor=False, width="content")
    with st.container(horizontal=True, vertical_alignment="center", width="content"):
        shown = choice.kept_field(kept)
        compiler_fields.fields(offers, shown)
choice.write_address()

try:
    spec = choice.spec_of(choice.current())
    objection = captures.objection(spec)
except SpecError as error:
    objection = str(error)
if objection:
    st.markdown(f":red[:material/error:] **{plain(objection[0].upper() + objection[1:])}**")
    st.stop()

now = compiler_taking.state_of(spec)
capture = choice.capture_of(spec, kept)
if now:
    compiler_taking.progress(spec, now)
if capture is None:
    if not now:
        compiler_taking.nothing_yet(spec, offers)
    st.stop()

kernels = captures.read_kernels(capture)
title, detail = answer(capture, kernels)
st.subheader(plain(title), anchor=False)
st.markdown(plain(detail))
if capture.torch and choice.release(capture.torch) != choice.torch_here():
    st.markdown(
        f":yellow[:material/warning:] Captured with torch {plain(capture.torch)}; here is "
        f"{plain(choice.torch_here() or 'none')}."
    )
for sentence in filter(None, (disturbance(capture), *absences(capture))):
    st.markdown(f":yellow[:material/warning:] {plain(sentence)}")

tab = compiler_pictures.stage_switch(capture)
heaviest = partial(compiler_kernels.heaviest, capture, kernels)
beside = {"fusion": heaviest, "dynamo": partial(compiler_phases.alternatives, capture)}
if tab.key != "code":
    compiler_pictures.pictures(capture, kernels, tab, beside.get(tab.key))
elif capture.code:
    with st.container(border=True, gap="xsmall"):
        heaviest()
if tab.key == "aot":
    compiler_phases.decompositions_card(capture)
if tab.key in ("fusion", "code"):
    with st.container(border=True, gap="small"):
        compiler_kernels.code(capture, kernels, at_once=tab.key == "code")
compiler_phases.phases_card(capture)
changes_card(capture, kept)

facts = [f"Captured {when_text(capture.captured_at, reader_zone())}"]
if capture.torch:
    facts.append(f"torch {capture.torch}")
st.caption(plain(" · ".join(facts)))
if not now:
    compiler_taking.further_parts(capture)
