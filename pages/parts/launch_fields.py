"""The launch form's fields, card by card; each is bound to its key in the session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import streamlit as st

from bench_core import capabilities
from bench_core.capabilities import Capabilities
from bench_core.paths import models_dir
from bench_core.spec import (
    BACKENDS_WITHOUT_OPTIONS,
    COMPILES,
    EXECUTION_WORDS,
    LOADED_BATCHES,
    NAMED_FUNCTIONS,
    NAMED_MODELS,
    Execution,
    Mode,
    Variant,
)
from bench_core.units import count_text
from pages.parts import draft
from pages.parts.launch_state import (
    DYNAMIC,
    MORE,
    add_further,
    add_variant,
    cards,
    chosen_variants,
    of_rungs,
    remove_variant,
    rung_words,
    take_batch_size,
    take_model,
    take_timm_model,
    use_device,
)
from pages.parts.text import plain

KIND_WORDS = {"training": "Training", "inference": "Inference", "functions": "Function"}
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
INPUT_SIZES = tuple(10**power for power in range(2, 8))
YOLO_PIXELS = 640
KEPT: dict[str, Any] = {"persist_state": "session"}  # over a visit to another page
state = st.session_state


@st.fragment(run_every=1)
def wait_for_torch() -> None:
    """Stands in for the fields that need to know; the rest of the page is usable meanwhile."""
    if capabilities.cached() or capabilities.failure():
        st.rerun()
    st.selectbox("Device", ["Reading what torch offers …"], disabled=True)


def what_to_measure(offers: Capabilities | None, unanswered: str | None) -> None:
    """Device, what is called, at which sizes and precisions, and how long."""
    st.markdown("**What to measure**")
    first, second = st.columns(2)
    with first:
        _device(offers, unanswered)
    with second:
        if state.run_kind == "functions":
            _forward_or_both()
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
            st.button(f"Use {YOLO_PIXELS} px", type="tertiary", on_click=use_yolo_pixels)


def use_yolo_pixels() -> None:
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


def _forward_or_both() -> None:
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


PROTOCOLS = {"sequential": "One after the other", "paired": "Taking turns"}


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
            arguments(number, execution, offers)
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


def arguments(number: int, execution: Execution, offers: Capabilities | None) -> None:
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


def fair_arms() -> None:
    """What both arms share besides the model: drawn into a grid."""
    kind = state.run_kind
    if kind == "inference":
        _forward_or_both()
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


# How the images of a batch come, in the words of training and of inference.
PIPELINES = {
    "training": {"on_the_fly": "on the fly", "cached": "cached", "resident": "resident"},
    "inference": {
        "resident": "resident on the device",
        "on_the_fly": "through the loader",
        "cached": "loader, cached",
    },
}


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


PIPELINE_HELP = {
    "training": "on the fly: decoded and resized in the loader, as in most trainings. cached: "
    "resized once into memory. resident: one batch stays on the device, so that the model alone is "
    "timed.",
    "inference": "resident: one batch stays on the device, and a call is the model alone. Through "
    "the loader each batch is decoded, resized and copied to the device; a latency holds the copy, "
    "the wait for the loader is apart.",
}


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
