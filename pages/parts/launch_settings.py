"""The launch form's folded cards: what all arms share, the data, and when a run ends."""

from __future__ import annotations

import streamlit as st

from bench_core.spec import LOADED_BATCHES
from pages.parts.launch_state import KEPT, of_rungs

# How the images of a batch come, in the words of training and of inference.
PIPELINES = {
    "training": {"on_the_fly": "on the fly", "cached": "cached", "resident": "resident"},
    "inference": {
        "resident": "resident on the device",
        "on_the_fly": "through the loader",
        "cached": "loader, cached",
    },
}
PIPELINE_HELP = {
    "training": "on the fly: decoded and resized in the loader, as in most trainings. cached: "
    "resized once into memory. resident: one batch stays on the device, so that the model alone is "
    "timed.",
    "inference": "resident: one batch stays on the device, and a call is the model alone. Through "
    "the loader each batch is decoded, resized and copied to the device; a latency holds the copy, "
    "the wait for the loader is apart.",
}
state = st.session_state


def fair_arms() -> None:
    """What both arms share besides the model: drawn into a grid."""
    kind = state.run_kind
    if kind == "inference":
        forward_or_both()
    if kind != "training" and not state.run_backward:
        _grad_mode()
    if "tf32" not in of_rungs():
        _tf32()
    if kind != "functions" and "memory_layout" not in of_rungs():
        st.segmented_control(
            "Memory layout",
            ["contiguous", "channels_last"],
            required=True,
            key="run_memory_layout",
            help="eager is given channels_last too: a speedup is never formed across layouts.",
            **KEPT,
        )
    if kind == "training":
        _optimizer()
    if kind != "functions":
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


def forward_or_both() -> None:
    """Whether a call computes gradients too: asked of functions and of inference."""
    st.segmented_control(
        "Each call",
        [False, True],
        format_func=lambda backward: "forward and backward" if backward else "forward",
        required=True,
        key="run_backward",
        help="With backward the gradients (of a model's parameters, of a function's inputs) are "
        "computed too, so that both graphs are compiled.",
        **KEPT,
    )


def _grad_mode() -> None:
    st.segmented_control(
        "Grad mode",
        ["no_grad", "inference_mode"],
        required=True,
        key="run_grad_mode",
        help="What every call of both arms runs under.",
        **KEPT,
    )
    st.checkbox(
        "compile inside of it",
        key="run_compile_in_grad_mode",
        help="Usual is to compile outside and call inside. Called inside of inference_mode, "
        "torch.compile crashed in the article on an A100: PyTorch issue 101151, mended in 2023. "
        "Tracing and exporting go in with it.",
        **KEPT,
    )


def _tf32() -> None:
    st.segmented_control(
        "TF32",
        ["default", "off", "on"],
        required=True,
        key="run_tf32",
        help="default is PyTorch's own: on for convolutions, off for matrix products. Only GPUs "
        "from the A100 on have it.",
        **KEPT,
    )


def _optimizer() -> None:
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


def data() -> None:
    """What an epoch or the calls pass over, and how it reaches the model."""
    trains = state.run_kind == "training"
    st.segmented_control(
        "Pipeline" if trains else "Input",
        list(PIPELINES[state.run_kind]),
        format_func=PIPELINES[state.run_kind].__getitem__,
        required=True,
        key="run_pipeline",
        help=PIPELINE_HELP[state.run_kind],
        wrap=True,
        **KEPT,
    )
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
        st.number_input(
            "Image size",
            min_value=8,
            max_value=4096,
            step=32,
            key="run_image_size",
            help="Pixels a side, after resizing and cropping.",
            **KEPT,
        )
        if state.run_pipeline != "resident":
            st.number_input(
                "Loader workers",
                min_value=0,
                max_value=256,
                step=1,
                key="run_loader_workers",
                help="0: the process loads its own data, and waits for it.",
                **KEPT,
            )
        if not trains and (state.run_pipeline != "resident" or state.run_call_samples):
            st.number_input(
                "Samples",
                min_value=1,
                value=None,
                step=1,
                placeholder=f"{1 if state.run_pipeline == 'resident' else LOADED_BATCHES} batches",
                key="run_call_samples",
                help="The calls pass over their batches in turn. Runs of different numbers of "
                "batches are not compared.",
                **KEPT,
            )
    if state.run_dataset == "imagefolder":
        st.text_input(
            "Folder of class folders", key="run_dataset_path", placeholder="/data/train", **KEPT
        )
    if trains:
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
        help="Politely, after the epoch or the calls that pass it; the run counts as done.",
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
