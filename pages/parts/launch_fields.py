"""The launch form's fields, card by card; each is bound to its key in the session."""

from __future__ import annotations

from typing import Any, get_args

import streamlit as st

from bench_core import capabilities
from bench_core.capabilities import Capabilities
from bench_core.paths import models_dir
from bench_core.spec import BACKENDS_WITHOUT_OPTIONS, NAMED_MODELS, Mode, Variant
from pages.parts.launch_state import (
    DYNAMIC,
    MORE,
    add_further,
    add_variant,
    chosen_variants,
    remove_variant,
    take_batch_size,
    take_model,
    use_device,
)
from pages.parts.text import plain

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
KEPT: dict[str, Any] = {"persist_state": "session"}  # over a visit to another page
state = st.session_state


@st.fragment(run_every=1)
def wait_for_torch() -> None:
    """Stands in for the fields that need to know; the rest of the page is usable meanwhile."""
    if capabilities.cached() or capabilities.failure():
        st.rerun()
    st.selectbox("Device", ["Reading what torch offers …"], disabled=True)


def what_to_measure(offers: Capabilities | None, unanswered: str | None) -> None:
    """Device, precisions, models, batch sizes, and how long."""
    st.markdown("**What to measure**")
    first, second = st.columns(2)
    with first:
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
    with second:
        st.pills(
            "Precision",
            ["fp32", "bf16", "fp16"],
            selection_mode="multi",
            key="run_precision",
            help="Autocast in both arms; fp16 with a gradient scaler. Each one is compared for "
            "itself: a speedup is never formed across precisions.",
            wrap=True,
            **KEPT,
        )
    files = [f"file:{path.name}" for path in capabilities.model_files()]
    picked = [model for model in state.run_model if model != MORE]
    st.pills(
        "Models",
        [*dict.fromkeys([*NAMED_MODELS, *files, *picked]), MORE],
        selection_mode="multi",
        format_func=lambda model: plain(model.removeprefix("file:").removeprefix("torchvision:")),
        key="run_model",
        help="small_cnn and pointwise_cnn are two small networks of our own: compile hardly helps "
        "the first and helps the second a lot. The others are torchvision's, with their "
        f"1,000-class head; {MORE} has all of them, and says where your own files go.",
        wrap=True,
        **KEPT,
    )
    if MORE in state.run_model:
        if offers:
            st.selectbox(
                "Any classification model of torchvision",
                [name for name in offers.torchvision_models if name not in NAMED_MODELS],
                index=None,
                placeholder="Type a part of its name",
                key="run_other_model",
                on_change=take_model,
            )
        else:
            st.caption("torchvision's models follow when torch has said what it offers.")
        st.caption(
            f"Your own: put NAME.py with a function build_model() into {plain(str(models_dir()))} "
            "and load this page again."
        )
    sizes = [size for size in state.run_batch_size if size != MORE]
    st.pills(
        "Batch sizes",
        [*sorted({*BATCH_SIZES, *sizes}), MORE],
        selection_mode="multi",
        key="run_batch_size",
        wrap=True,
        **KEPT,
    )
    if MORE in state.run_batch_size:
        st.number_input(
            "Another batch size",
            min_value=1,
            value=None,
            step=1,
            placeholder="For example 48, then Enter",
            key="run_other_batch_size",
            on_change=take_batch_size,
        )
    first, second, third = st.columns(3)
    first.number_input(
        "Epochs",
        min_value=1,
        step=1,
        key="run_epochs",
        help="Of each run. The first epoch compiles; at least 3 steady ones are needed after it.",
        **KEPT,
    )
    second.number_input(
        "Samples per epoch",
        min_value=1,
        step=1,
        key="run_samples",
        help="Fewer samples make shorter epochs: the speed is the same, the break-even epoch "
        "comes later.",
        **KEPT,
    )
    third.number_input(
        "Repeats",
        min_value=1,
        max_value=100,
        step=1,
        key="run_repeats",
        help="Runs an arm, each in a fresh process, in the order A B B A. Processes differ: fewer "
        "than 3 runs are a first look without a verdict.",
        **KEPT,
    )


def variants(offers: Capabilities | None) -> None:
    """A card a variant, with every argument of torch.compile."""
    st.markdown(
        "**Variants to compare**",
        help="How the same model is executed. eager is the baseline of every speedup.",
    )
    with st.grid(2, min_column_width=230):
        cards = zip(list(state.run_variants.items()), chosen_variants(), strict=True)
        for (number, execution), variant in cards:
            with st.container(border=True, gap="xsmall", height="stretch"):
                color = "gray" if execution == "eager" else "orange"
                name = plain(variant.name) if variant else execution
                st.markdown(f":{color}[:material/check_box_outline_blank:] **{name}**")
                if execution == "eager":
                    st.caption("Baseline")
                elif variant:
                    st.caption(
                        f"{plain(variant.backend or '')} · {variant.mode or 'default'} mode · "
                        f"dynamic={variant.dynamic} · {variant.cache} cache"
                    )
                else:
                    st.caption("Not valid yet")
                with st.container(horizontal=True, vertical_alignment="center"):
                    if execution == "compile":
                        arguments(number, offers)
                    if len(state.run_variants) > 1:
                        st.button(
                            "Remove",
                            type="tertiary",
                            icon=":material/close:",
                            key=f"run_v{number}_remove",
                            on_click=remove_variant,
                            args=(number,),
                        )
    with st.container(horizontal=True):
        st.button("Add a variant", type="tertiary", icon=":material/add:", on_click=add_further)
        if "eager" not in state.run_variants.values():
            st.button(
                "Add eager",
                type="tertiary",
                icon=":material/add:",
                on_click=add_variant,
                args=(Variant(),),
            )


def arguments(number: int, offers: Capabilities | None) -> None:
    """Everything that torch.compile takes, under its own names."""
    key = f"run_v{number}_"
    backends = [backend.name for backend in offers.backends] if offers else ["inductor"]
    backends += [*BACKENDS_WITHOUT_OPTIONS, state[f"{key}backend"]]
    proven = {backend.name: backend.proven for backend in offers.backends} if offers else {}
    modes = [*(offers.modes if offers else get_args(Mode)), state[f"{key}mode"]]
    with st.popover("Arguments", icon=":material/tune:"):
        st.selectbox(
            "backend",
            list(dict.fromkeys(backends)),
            format_func=lambda name: name if proven.get(name, True) else f"{name} (if installed)",
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


def fair_arms() -> None:
    """What both arms share besides the model: drawn into a grid."""
    st.segmented_control(
        "TF32",
        ["default", "off", "on"],
        required=True,
        key="run_tf32",
        help="default is PyTorch's own: on for convolutions, off for matrix products. Only GPUs "
        "from the A100 on have it.",
        **KEPT,
    )
    st.segmented_control(
        "Memory layout",
        ["contiguous", "channels_last"],
        required=True,
        key="run_memory_layout",
        **KEPT,
    )
    st.segmented_control("Optimizer", ["adam", "sgd"], required=True, key="run_optimizer", **KEPT)
    st.number_input(
        "Learning rate",
        min_value=1e-9,
        format="%g",
        step=1e-4,
        key="run_learning_rate",
        **KEPT,
    )
    st.segmented_control(
        "Evaluation after each epoch",
        ["none", "variant"],
        format_func={"none": "none", "variant": "through the variant"}.__getitem__,
        required=True,
        key="run_evaluate",
        help="Timed apart from the training. Through a compiled module it compiles once more.",
        **KEPT,
    )
    st.segmented_control(
        "Weights",
        ["random", "pretrained"],
        required=True,
        key="run_weights",
        help="They change no timing. Pretrained ones may have to be downloaded.",
        **KEPT,
    )
    st.number_input(
        "CPU threads",
        min_value=1,
        value=None,
        step=1,
        placeholder="PyTorch's own choice",
        key="run_threads",
        **KEPT,
    )
    st.number_input("Seed", min_value=0, step=1, key="run_seed", **KEPT)


def data() -> None:
    """What an epoch passes over, and how it reaches the model."""
    with st.grid(2, min_column_width=230):
        st.segmented_control(
            "Data set",
            ["synthetic", "cifar10", "imagefolder"],
            required=True,
            key="run_dataset",
            help="synthetic: made from the seed, shaped as CIFAR-10. cifar10: downloaded once (170 "
            "MB). imagefolder: your own folder of class folders.",
            wrap=True,
            **KEPT,
        )
        st.segmented_control(
            "Pipeline",
            ["on_the_fly", "cached", "resident"],
            format_func=lambda name: name.replace("_", " "),
            required=True,
            key="run_pipeline",
            help="on the fly: decoded and resized in the loader, as in most trainings. cached: "
            "resized once into memory. resident: one batch stays on the device, so that the model "
            "alone is timed.",
            wrap=True,
            **KEPT,
        )
        st.number_input(
            "Image size",
            min_value=8,
            max_value=4096,
            step=32,
            key="run_image_size",
            help="Pixels a side, after resizing and cropping.",
            **KEPT,
        )
        st.number_input(
            "Loader workers",
            min_value=0,
            max_value=256,
            step=1,
            key="run_loader_workers",
            help="0: the training process loads its own data, and waits for it.",
            **KEPT,
        )
    if state.run_dataset == "imagefolder":
        st.text_input(
            "Folder of class folders", key="run_dataset_path", placeholder="/data/train", **KEPT
        )
    st.checkbox(
        "Drop the ragged last batch (drop_last)",
        key="run_drop_last",
        help="A last batch that is smaller makes torch.compile compile once more.",
        **KEPT,
    )


def limits() -> None:
    """When a run ends early, and the words kept with it."""
    first, second = st.columns(2)
    first.number_input(
        "End a run after, seconds",
        min_value=1.0,
        value=None,
        step=60.0,
        format="%g",
        placeholder="No limit",
        key="run_max_seconds",
        help="Politely, after the epoch that passes it; the run counts as done.",
        **KEPT,
    )
    second.number_input(
        "Kill a run after, seconds",
        min_value=1.0,
        step=600.0,
        format="%g",
        key="run_timeout_seconds",
        help="A run that hangs is killed then and counts as failed: timed out.",
        **KEPT,
    )
    st.text_input(
        "Label",
        key="run_label",
        max_chars=200,
        placeholder="Free text kept with each run",
        **KEPT,
    )
