"""The launch form's first card: the device, what is called, at which sizes, and how long."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from bench_core import capabilities
from bench_core.capabilities import Capabilities
from bench_core.paths import models_dir
from bench_core.spec import NAMED_FUNCTIONS, NAMED_MODELS
from bench_core.units import count_text
from pages.parts.launch_settings import forward_or_both
from pages.parts.launch_state import (
    KEPT,
    MORE,
    take_batch_size,
    take_model,
    take_timm_model,
    use_device,
)
from pages.parts.text import plain

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
INPUT_SIZES = tuple(10**power for power in range(2, 8))
YOLO_PIXELS = 640
state = st.session_state


def what_to_measure(offers: Capabilities | None, unanswered: str | None) -> None:
    """Device, what is called, at which sizes and precisions, and how long."""
    st.markdown("**What to measure**")
    first, second = st.columns(2)
    with first:
        _device(offers, unanswered)
    with second:
        if state.run_kind == "functions":
            forward_or_both()
        elif not state.run_rungs:
            st.pills(
                "Precision",
                ["fp32", "bf16", "fp16"],
                selection_mode="multi",
                key="run_precision",
                help="Autocast in both arms; in training fp16 with a gradient scaler. Each one is "
                "compared for itself: a speedup is never formed across precisions.",
                wrap=True,
                **KEPT,
            )
    if state.run_kind == "functions":
        _functions()
        _sizes("Input sizes n", INPUT_SIZES, "run_input_size", "For example 50000, then Enter")
    else:
        _models(offers)
        _sizes("Batch sizes", BATCH_SIZES, "run_batch_size", "For example 48, then Enter")
    _how_long()


def _device(offers: Capabilities | None, unanswered: str | None) -> None:
    if offers:
        names = {device.id: device for device in offers.devices}
        known_ids = list(names)
        if state.run_device not in known_ids:  # a link from another machine
            known_ids.append(state.run_device)
        st.selectbox(
            "Device",
            known_ids,
            format_func=lambda id: f"{id} · {names[id].name if id in names else 'not here'}",
            key="run_device",
            on_change=use_device,
            help="What torch sees on this machine. A CPU gets fewer samples by the presets.",
            **KEPT,
        )
    elif unanswered:
        st.markdown(":red[:material/error:] **torch could not be asked what it offers**")
        st.text(unanswered)
        st.button("Try again", icon=":material/refresh:", on_click=capabilities.start_probe)
    else:
        wait_for_torch()


@st.fragment(run_every=1)
def wait_for_torch() -> None:
    """Stands in for the fields that need to know; the rest of the page is usable meanwhile."""
    if capabilities.cached() or capabilities.failure():
        st.rerun()
    st.selectbox("Device", ["Reading what torch offers …"], disabled=True)


def _models(offers: Capabilities | None) -> None:
    files = [f"file:{path.name}" for path in capabilities.model_files()]
    picked = [model for model in state.run_model if model != MORE]
    st.pills(
        "Models",
        [*dict.fromkeys([*NAMED_MODELS, *files, *picked]), MORE],
        selection_mode="multi",
        format_func=lambda model: plain(model.removeprefix("file:").removeprefix("torchvision:")),
        key="run_model",
        help="small_cnn and pointwise_cnn are two small networks of our own: compile hardly helps "
        "the first and helps the second a lot. yolov7 detects objects. The others are "
        f"torchvision's, with their 1,000-class head; {MORE} has all of them, those of timm, and "
        "says where your own files go.",
        wrap=True,
        **KEPT,
    )
    if MORE in state.run_model:
        _other_models(offers)
    if "yolov7" in state.run_model and state.run_image_size != YOLO_PIXELS:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(
                f"yolov7 is made for images of {YOLO_PIXELS} px; "
                f"{state.run_image_size} px are chosen.",
                width="content",
            )
            st.button(f"Use {YOLO_PIXELS} px", type="tertiary", on_click=_use_yolo_pixels)


def _use_yolo_pixels() -> None:
    state.run_image_size = YOLO_PIXELS


def _other_models(offers: Capabilities | None) -> None:
    first, second = st.columns(2)
    if offers:
        first.selectbox(
            "Any classification model of torchvision",
            [name for name in offers.torchvision_models if name not in NAMED_MODELS],
            index=None,
            placeholder="Type a part of its name",
            key="run_other_model",
            on_change=take_model,
        )
    else:
        st.caption("The models of torchvision and timm follow when torch has said what it offers.")
    if offers and offers.timm:
        second.selectbox(
            f"Any model of timm {offers.timm}",
            offers.timm_models,
            index=None,
            placeholder="Type a part of its name",
            accept_new_options=not offers.timm_models,
            key="run_timm_model",
            on_change=take_timm_model,
        )
    elif offers:
        st.caption("The models of timm need it installed: `pip install timm`, then load this page.")
    st.caption(
        f"Your own: put NAME.py with a function build_model() into {plain(str(models_dir()))} "
        "and load this page again."
    )


def _functions() -> None:
    files = [f"function:{path.name}" for path in capabilities.function_files()]
    st.pills(
        "Functions",
        list(dict.fromkeys([*NAMED_FUNCTIONS, *files, *state.run_function])),
        selection_mode="multi",
        format_func=lambda name: plain(name.removeprefix("function:")),
        key="run_function",
        help="Your own: put NAME.py with fn(...) and make_inputs(n), which returns the tensors "
        f"that fn takes, of size n, into {plain(str(models_dir()))}.",
        wrap=True,
        **KEPT,
    )
    st.caption(
        "sin_cos is the article's example, sin(x) + cos(y). The article decorates it with "
        "torch.\\_dynamo.optimize, the old spelling of torch.compile."
    )


def _sizes(label: str, usual: Sequence[int], key: str, example: str) -> None:
    sizes = [size for size in state[key] if size != MORE]
    st.pills(
        label,
        [*sorted({*usual, *sizes}), MORE],
        selection_mode="multi",
        format_func=lambda size: size if size == MORE else _in_words(size),
        key=key,
        wrap=True,
        **KEPT,
    )
    if MORE in state[key]:
        st.number_input(
            "Another size" if key == "run_input_size" else "Another batch size",
            min_value=1,
            value=None,
            step=1,
            placeholder=example,
            key="run_other_batch_size",
            on_change=take_batch_size,
        )


def _in_words(size: int) -> str:
    millions, rest = divmod(size, 1_000_000)
    return f"{count_text(millions)} million" if millions and not rest else count_text(size)


def _how_long() -> None:
    trains = state.run_kind == "training"
    columns = iter(st.columns(3 if trains else 2))
    if trains:
        next(columns).number_input(
            "Epochs",
            min_value=1,
            step=1,
            key="run_epochs",
            help="Of each run. The first epoch compiles; at least 3 steady ones are needed after "
            "it.",
            **KEPT,
        )
        next(columns).number_input(
            "Samples per epoch",
            min_value=1,
            step=1,
            key="run_samples",
            help="Fewer samples make shorter epochs: the speed is the same, the break-even epoch "
            "comes later.",
            **KEPT,
        )
    else:
        next(columns).number_input(
            "Iterations",
            min_value=1,
            step=50,
            key="run_iterations",
            help="Calls of each run, one after the other, each waited for. The first one compiles; "
            "a hundred and more are needed for a 99th percentile.",
            **KEPT,
        )
    next(columns).number_input(
        "Repeats, at most" if state.run_until_sure else "Repeats",
        min_value=1,
        max_value=100,
        step=1,
        key="run_repeats",
        help="Runs an arm, each in a fresh process, in the order A B B A. Processes differ: fewer "
        "than 3 runs are a first look without a verdict.",
        **KEPT,
    )
