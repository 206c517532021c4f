"""The launch form's arms: a card a variant with its arguments, and how they are compared."""

from __future__ import annotations

from typing import get_args

import streamlit as st

from bench_core.capabilities import Capabilities
from bench_core.spec import (
    BACKENDS_WITHOUT_OPTIONS,
    COMPILES,
    EXECUTION_WORDS,
    Execution,
    Mode,
    Variant,
)
from pages.parts import draft
from pages.parts.launch_state import (
    DYNAMIC,
    KEPT,
    add_further,
    add_variant,
    cards,
    chosen_variants,
    remove_variant,
    rung_words,
)
from pages.parts.text import plain

PROTOCOLS = {"sequential": "One after the other", "paired": "Taking turns"}
state = st.session_state


def variants(offers: Capabilities | None) -> None:
    """A card a variant, with every argument of torch.compile; or the arms of the preset."""
    if state.run_rungs:
        _rungs()
        return
    kind = state.run_kind
    st.markdown(
        "**Variants to compare**",
        help="How the same model or function is executed. eager is the baseline of every speedup. "
        "It is given all that the others are: precision, memory layout and grad mode are of both "
        "arms.",
    )
    with st.grid(2, min_column_width=230):
        for (number, execution), variant in zip(cards().items(), chosen_variants(), strict=True):
            with st.container(border=True, gap="xsmall", height="stretch"):
                _card(number, execution, variant, offers)
    missing = [name for name in draft.EXECUTIONS[kind] if name not in cards().values()]
    with st.container(horizontal=True):
        if kind == "inference":
            with st.popover("Add a variant", icon=":material/add:", type="tertiary"):
                for execution in dict.fromkeys([*missing, "compile"]):
                    _offer(execution)
            return
        st.button("Add a variant", type="tertiary", icon=":material/add:", on_click=add_further)
        if "eager" in missing:
            st.button(
                "Add eager",
                type="tertiary",
                icon=":material/add:",
                on_click=add_variant,
                args=(Variant(),),
            )


def _rungs() -> None:
    st.markdown(
        "**Arms to compare**",
        help="They belong to the preset and cannot be changed here. Choose Custom for variants of "
        "your own; the command line takes other rungs (--rung).",
    )
    words = rung_words()
    st.markdown("\n".join(f"{place}. {plain(name)}" for place, name in enumerate(words, start=1)))


def _card(
    number: int, execution: Execution, variant: Variant | None, offers: Capabilities | None
) -> None:
    color = "gray" if execution == "eager" else "orange"
    name = plain(variant.name) if variant else execution
    st.markdown(
        f":{color}[:material/check_box_outline_blank:] **{name}**",
        help=f"{plain(EXECUTION_WORDS[execution])}.",
    )
    if execution == "eager":
        st.caption("Baseline")
    elif variant is None:
        st.caption("Not valid yet")
    elif execution == "compile":
        st.caption(
            f"{plain(variant.backend or '')} · {variant.mode or 'default'} mode · "
            f"dynamic={variant.dynamic} · {variant.cache} cache"
        )
    else:
        st.caption(f"{plain(EXECUTION_WORDS[execution])}.")
    with st.container(horizontal=True, vertical_alignment="center"):
        if execution in COMPILES:
            _arguments(number, execution, offers)
        if len(cards()) > 1:
            st.button(
                "Remove",
                type="tertiary",
                icon=":material/close:",
                key=f"run_v{number}_remove",
                on_click=remove_variant,
                args=(number,),
            )


def _offer(execution: Execution) -> None:
    """A way of execution that may be added, with the sentence that says what it is."""
    further = execution == "compile" and "compile" in cards().values()
    with st.container(gap=None):
        st.button(
            "compile with other arguments" if further else execution,
            type="tertiary",
            icon=":material/add:",
            key=f"run_add_{execution}",
            on_click=add_further if further else add_variant,
            args=() if further else (Variant(execution=execution),),
        )
        if not further:
            st.caption(f"{plain(EXECUTION_WORDS[execution])}.")


def _arguments(number: int, execution: Execution, offers: Capabilities | None) -> None:
    """Everything that torch.compile takes, under its own names; only Inductor freezes."""
    key = f"run_v{number}_"
    backends = [backend.name for backend in offers.backends] if offers else ["inductor"]
    backends += [*BACKENDS_WITHOUT_OPTIONS, state[f"{key}backend"]]
    proven = {backend.name: backend.proven for backend in offers.backends} if offers else {}
    modes = [*(offers.modes if offers else get_args(Mode)), state[f"{key}mode"]]
    with st.popover("Arguments", icon=":material/tune:"):
        if execution == "compile":
            st.selectbox(
                "backend",
                list(dict.fromkeys(backends)),
                format_func=lambda name: (
                    name if proven.get(name, True) else f"{name} (if installed)"
                ),
                accept_new_options=True,
                key=f"{key}backend",
                help="inductor is PyTorch's own. eager and aot_eager stop early: "
                "they show what capturing alone costs.",
                **KEPT,
            )
        st.selectbox(
            "mode",
            list(dict.fromkeys(modes)),
            key=f"{key}mode",
            help="Ready-made options of inductor. reduce-overhead records CUDA "
            "graphs; max-autotune tries kernels and compiles for long.",
            **KEPT,
        )
        st.segmented_control(
            "dynamic",
            list(DYNAMIC),
            required=True,
            key=f"{key}dynamic",
            help="None: compile for the first shape, and as dynamic when a "
            "second one comes. True: dynamic at once. False: once a shape.",
            **KEPT,
        )
        st.segmented_control(
            "Compile cache",
            ["cold", "warm", "off"],
            required=True,
            key=f"{key}cache",
            help="cold: its own empty folders. warm: filled before by the same "
            "compile, as in a second training. off: no cache at all. Repeats "
            "after the first cold one start warm.",
            **KEPT,
        )
        st.checkbox(
            "fullgraph",
            key=f"{key}fullgraph",
            help="Fail at a graph break instead of running in pieces.",
            **KEPT,
        )
        st.checkbox(
            "disable",
            key=f"{key}disable",
            help="torch.compile as a no-op: what its wrapper costs.",
            **KEPT,
        )
        st.text_area(
            "options (JSON)",
            key=f"{key}options",
            height=90,
            placeholder='{"max_autotune": true}',
            help="Inductor's own options by name; not together with mode. "
            "torch._inductor.list_options() prints them.",
            **KEPT,
        )


def how_compared(no_room: str) -> None:
    """In turns or one after the other, and when it is enough. `no_room`: why not in turns now."""
    st.markdown("**How the arms are compared**")
    first, second = st.columns([1.3, 1])
    first.segmented_control(
        "Order",
        list(PROTOCOLS),
        format_func=PROTOCOLS.__getitem__,
        required=True,
        key="run_protocol",
        help="One after the other: each run has the machine to itself, in the order A B B A. "
        "Taking turns: the arms of a repeat are alive at once and measure one epoch each in turn "
        "(in inference half a second of calls), so that heat and other slow changes of the machine "
        "hit both alike. It takes as long, and the memory of all arms.",
        wrap=True,
        **KEPT,
    )
    second.number_input(
        "Until sure, within ± %",
        min_value=0.1,
        max_value=50.0,
        value=None,
        step=0.5,
        format="%g",
        placeholder="Off: all repeats",
        key="run_until_sure",
        help="Repeats end as soon as the 95 % interval of the speedup is no wider than plus or "
        "minus so many per cent, after 3 at the earliest. Then Repeats is the most there can be: "
        "allow 10 or more. An interval that decides itself when to stop is a quarter wider.",
        **KEPT,
    )
    if no_room and state.run_protocol == "paired":
        st.caption(f":yellow[:material/warning:] {no_room}")
