"""The popover of the Compiler page that names a run: one widget a field, and a capture's button."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import streamlit as st

from bench_core import captures
from bench_core.capabilities import Capabilities, function_files, model_files, takes_images
from bench_core.lacks import lacks_of
from bench_core.spec import (
    NAMED_FUNCTIONS,
    NAMED_MODELS,
    SpecError,
    Variant,
    variant_argument,
)
from pages.parts.compiler_choice import ALSO, START, TASKS, current, spec_of
from pages.parts.compiler_taking import state_of, take, view_only
from pages.parts.text import plain

USUAL_VARIANTS = (
    Variant(execution="compile"),
    Variant(execution="compile", dynamic=True),
    Variant(execution="compile", dynamic=False),
    Variant(execution="compile", fullgraph=True),
    Variant(execution="compile", mode="reduce-overhead"),
    Variant(execution="compile", mode="max-autotune"),
    Variant(execution="compile", backend="aot_eager"),
    Variant(execution="compile_frozen"),
)
# Where a model's usual image, as on the Run page, is another one than START's.
USUAL_PIXELS = {"small_cnn": 32, "pointwise_cnn": 32, "yolov7": 640}
FUNCTION_SIZE = 1000
state = st.session_state


def fields(offers: Capabilities | None, shown: bool) -> None:
    """One widget a field, in a popover that says what they hold unless `shown` beside it."""
    now = current()
    label, icon = plain(words_of(now)), ":material/tune:"
    if shown:
        label, icon = ("Fields", icon) if view_only() else ("New capture", ":material/add:")
    with st.popover(label, icon=icon, key="compiler_fields"):
        _draw(now, offers)
        if not view_only():
            _capture_button(now, offers, shown)


def changed_model(before: str) -> None:
    """Task and sizes stay where they suit the new model as well as the one before."""
    model = str(state.model or "").strip()
    was, now = (name.startswith("function:") for name in (before, model))
    if was != now:
        state.kind = "infer" if now else START["kind"]
        state.batch_size = FUNCTION_SIZE if now else START["batch_size"]
    usual = START["image_size"]
    if was or USUAL_PIXELS.get(model, usual) != USUAL_PIXELS.get(before, usual):
        state.image_size = USUAL_PIXELS.get(model, usual)


def _capture_button(now: dict[str, Any], offers: Capabilities | None, shown: bool) -> None:
    """What the fields name, captured from where they are; what is wrong stands on the page."""
    if shown:
        st.caption("Captured already: the page shows it.")
        return
    try:
        spec = spec_of(now)
    except SpecError:
        return
    if captures.objection(spec):
        return
    if state_of(spec):
        st.caption("It is being captured.")
        return
    st.button(
        f"Capture {plain(spec.workload.model_name)}",
        icon=":material/account_tree:",
        key="compiler_take_here",
        on_click=take,
        args=(spec,),
        disabled=bool(offers and lacks_of(spec, offers)),
    )


def _draw(now: dict[str, Any], offers: Capabilities | None) -> None:
    files = [f"file:{path.name}" for path in model_files()]
    files += [f"function:{path.name}" for path in function_files()]
    more = [f"torchvision:{name}" for name in offers.torchvision_models] if offers else []
    more = [name for name in more if name.removeprefix("torchvision:") not in NAMED_MODELS]
    if offers and offers.timm:
        more += [f"timm:{name}" for name in offers.timm_models]
    st.selectbox(
        "Model",
        list(dict.fromkeys([*NAMED_MODELS, *NAMED_FUNCTIONS, *files, now["model"], *more])),
        format_func=lambda name: name.removeprefix("torchvision:").removeprefix("file:"),
        key="model",
        on_change=changed_model,
        args=(now["model"],),
        accept_new_options=True,
        help="What the Run page offers. Type torchvision:NAME or timm:NAME for another one.",
    )
    of_function = str(now["model"]).startswith("function:")
    tasks = [kind for kind in TASKS if kind != "train" or not of_function]
    if state.kind not in tasks:
        state.kind = "infer"
    first, second = st.columns(2)
    first.selectbox("Task", tasks, format_func=TASKS.__getitem__, key="kind")
    usual = [variant_argument(one.changed(cache=None)) for one in USUAL_VARIANTS]
    second.selectbox(
        "Variant",
        list(dict.fromkeys([*usual, now["variant"]])),
        key="variant",
        accept_new_options=True,
        help='Or type one as the command line takes it: compile:{"options": {"epilogue_fusion": '
        "false}}",
    )
    places = cycle((first, second))  # in which no gap is left by a field that the model lacks
    if takes_images(now["model"]):
        next(places).number_input(
            "Image size, px", min_value=8, max_value=4096, step=32, key="image_size"
        )
    size = "Size n of its input" if of_function else "Batch size"
    next(places).number_input(size, min_value=1, step=1, key="batch_size")
    if not of_function:
        next(places).selectbox("Precision", ["fp32", "bf16", "fp16"], key="precision")
    devices = [device.id for device in offers.devices] if offers else ["cpu"]
    next(places).selectbox("Device", list(dict.fromkeys([*devices, now["device"]])), key="device")
    st.text_input(
        "Other fields of the workload",
        key="also",
        placeholder='{"memory_layout": "channels_last"}',
        help=f"As JSON: {', '.join((*ALSO, 'seed'))}.",
    )


def words_of(values: dict[str, Any]) -> str:
    """`resnet18 · training · batch 16 · 224 px · compile · cpu`."""
    try:
        spec = spec_of(values)
    except SpecError:
        return f"{values['model']} · not valid yet"
    work = spec.workload
    words = [work.model_name, "training" if work.task == "train" else "inference", *work.words]
    if takes_images(work.model):
        words.append(f"{work.image_size} px")
    return " · ".join([*words, spec.variant.name, spec.device])
