"""Taking a capture from the page: the first button, how far it is, what failed.

A capture is taken by a process of its own; this only looks at it and may be left at any time.
"""

from __future__ import annotations

import os
import time

import streamlit as st

from bench_core import captures
from bench_core.capabilities import Capabilities
from bench_core.captured import PARTS, Capture, PartName
from bench_core.captures import State
from bench_core.lacks import lacks_of
from bench_core.spec import RunSpec
from bench_core.units import duration_text
from pages.parts.compiler_words import CAPTURE_PARTS
from pages.parts.text import plain

POLL_SECONDS = 1.0
START_SECONDS = 30.0  # from the press to the first word of a process on a busy machine


def view_only() -> bool:
    return os.environ.get("BENCH_VIEW_ONLY") == "1"


def take(spec: RunSpec, parts: tuple[PartName, ...] = PARTS) -> None:
    captures.start(spec, parts)
    now = State(part=parts[0], phase="starting", since=time.time(), pid=0, created=0.0)
    st.session_state.compiler_started = (captures.key_of(spec), now)


def take_again(spec: RunSpec) -> None:
    captures.delete(captures.key_of(spec))
    take(spec)


def state_of(spec: RunSpec) -> State | None:
    """How far it is; `starting` from the press until the process says more of itself."""
    now = captures.state(spec)
    pressed: tuple[str, State] | None = st.session_state.get("compiler_started")
    if pressed is None or pressed[0] != captures.key_of(spec):
        return now
    if now is None and time.time() - pressed[1].since < START_SECONDS:
        return pressed[1]
    st.session_state.compiler_started = None
    return now


def nothing_yet(spec: RunSpec, offers: Capabilities | None) -> None:
    """The empty state: what a capture costs, and the button that takes it."""
    model = spec.workload.model_name
    lacks = lacks_of(spec, offers) if offers else []
    with st.container(border=True):
        st.markdown(
            f"**No capture of {plain(model)} yet**  \nIts graphs take about half a minute of CPU, "
            "a large model's a few minutes; what they cost takes a cold compile more. It waits for "
            "its turn on the machine and touches no timed run."
        )
        for lack in lacks:
            st.markdown(f":red[:material/error:] {plain(lack[0].upper() + lack[1:])}")
        if view_only():
            st.caption("This dashboard is for viewing only, so nothing can be captured here.")
            return
        st.button(
            f"Capture {plain(model)}",
            type="primary",
            icon=":material/account_tree:",
            key="compiler_take",
            on_click=take,
            args=(spec,),
            disabled=bool(lacks),
        )


def progress(spec: RunSpec, now: State) -> None:
    """How far it is, asked once a second; the page is drawn anew when a part ends."""
    with st.container(border=True):

        @st.fragment(run_every=POLL_SECONDS)
        def watch() -> None:
            state = state_of(spec)
            if state is None or state.part != now.part:
                st.rerun()
            _draw(spec, state)

        watch()


def _draw(spec: RunSpec, state: State) -> None:
    number = PARTS.index(state.part) + 1
    spent = max(0.0, time.time() - state.since)
    told = duration_text(spent) if spent > 120 else f"{spent:.0f}\u00a0s"
    with st.container(horizontal=True, vertical_alignment="center"):
        if state.phase == "waiting":
            doing = "waiting for its turn: something is being measured on this machine"
        else:
            doing = state.phase
        st.markdown(
            f":orange[:material/progress_activity:] **Capturing {plain(spec.workload.model_name)}: "
            f"part {number} of {len(PARTS)}, {CAPTURE_PARTS[state.part]}**  \n"
            f":small[:gray[{plain(doing)}, {told} so far. "
            "You can leave this page and come back.]]",
            width="content",
        )
        if not view_only():
            st.button(
                "Stop",
                icon=":material/stop_circle:",
                key="compiler_stop",
                on_click=captures.stop,
                args=(spec,),
                help="Ends it within seconds. The parts that are done are kept.",
            )


def further_parts(capture: Capture) -> None:
    """Buttons for what was not taken or failed, and to begin anew."""
    if view_only():
        return
    left = tuple(captures.left(capture))
    with st.container(horizontal=True):
        if left:
            what = " and ".join(CAPTURE_PARTS[part] for part in left)
            again = any(part in capture.failures for part in left)
            st.button(
                f"Try {what} again" if again else f"Measure {what}",
                icon=":material/timer:",
                key="compiler_more",
                on_click=take,
                args=(capture.spec, left),
            )
        st.button(
            "Capture again",
            type="tertiary",
            icon=":material/refresh:",
            key="compiler_again",
            on_click=take_again,
            args=(capture.spec,),
            help="Deletes this capture and takes it anew.",
        )
        st.button(
            "Delete this capture",
            type="tertiary",
            icon=":material/delete:",
            key="compiler_delete",
            on_click=captures.delete,
            args=(capture.key,),
        )
