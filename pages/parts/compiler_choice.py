"""Which capture the Compiler page shows: one that is kept, or any model, variant and size.

All of it is in the address. What no field here stands for (memory layout, optimiser, ...) comes
with a kept capture or a link, as JSON under `also`, so that both say the same run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import streamlit as st

from bench_core import captures
from bench_core.capabilities import Capabilities, function_files, model_files
from bench_core.captured import Capture
from bench_core.spec import (
    NAMED_FUNCTIONS,
    NAMED_MODELS,
    Measurement,
    RunSpec,
    SpecError,
    Variant,
    Workload,
    parse_variant,
    variant_argument,
)
from pages.parts.compiler_taking import view_only
from pages.parts.in_address import put_into_address
from pages.parts.text import plain

PAGES = Path(__file__).resolve().parent.parent
TASKS = {"train": "Training", "infer": "Inference", "gradients": "Inference with gradients"}
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
START = {
    "model": "resnet18",
    "kind": "train",
    "variant": "compile",
    "image_size": 224,
    "batch_size": 16,
    "precision": "fp32",
    "device": "cpu",
    "also": "",
}
# Fields of the workload that change what is compiled, and have no widget of their own.
ALSO = (
    *("tf32", "memory_layout", "optimizer", "learning_rate", "threads", "grad_mode"),
    "compile_in_grad_mode",
)
state = st.session_state


def fields_of(spec: RunSpec) -> dict[str, Any]:
    """What the fields hold for this run: as session state, and as the address says it."""
    work = spec.workload
    fields: dict[str, Any] = {
        "model": work.model,
        "kind": "gradients" if work.backward else work.task,
        "variant": variant_argument(spec.variant.changed(cache=None)),
        "image_size": work.image_size,
        "batch_size": work.batch_size,
        "precision": work.precision,
        "device": spec.device,
        "also": "",
    }
    usual = spec_of(fields)
    also = {
        name: getattr(work, name)
        for name in ALSO
        if getattr(work, name) != getattr(usual.workload, name)
    }
    if spec.measurement.seed != usual.measurement.seed:
        also["seed"] = spec.measurement.seed
    return {**fields, "also": json.dumps(also) if also else ""}


def link_of(spec: RunSpec) -> dict[str, str]:
    """The address's parameters that show this run's capture."""
    return {name: str(value) for name, value in fields_of(spec).items() if value != ""}


def capture_link(spec: RunSpec) -> None:
    """To the capture of a run; nothing where torch.compile has no part in it."""
    if captures.objection(spec):
        return
    st.page_link(
        PAGES / "compiler.py",
        label="What the compiler made of it",
        icon=":material/account_tree:",
        query_params=link_of(spec),
    )


def spec_of(fields: dict[str, Any]) -> RunSpec:
    """The run that the fields name. Raises SpecError."""
    also = _also(fields["also"])
    model = str(fields["model"]).strip()
    of_function = model.startswith("function:")
    wanted: dict[str, Any] = {
        "model": model,
        "task": "train" if fields["kind"] == "train" and not of_function else "infer",
        "batch_size": fields["batch_size"],
        "pipeline": "resident",
        "samples": fields["batch_size"],
        **{name: value for name, value in also.items() if name != "seed"},
    }
    if fields["kind"] == "gradients":
        wanted |= {"backward": True, "grad_mode": "enabled"}
    if not of_function:
        wanted |= {"image_size": fields["image_size"], "precision": fields["precision"]}
    return RunSpec(
        workload=Workload(**wanted),
        variant=parse_variant(str(fields["variant"]).strip()),
        measurement=Measurement(weights="random", seed=also.get("seed", 0)),
        device=fields["device"],
    )


def _also(text: str) -> dict[str, Any]:
    example = 'write an object such as {"memory_layout": "channels_last"}'
    try:
        also = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise SpecError(f"other fields are no JSON ({error.msg}); {example}") from None
    if not isinstance(also, dict):
        raise SpecError(f"other fields must be a JSON object, got {text[:60]}; {example}")
    if unknown := [name for name in also if name not in (*ALSO, "seed")]:
        raise SpecError(
            f"{unknown[0]} changes no graph or has a field of its own; there are "
            f"{', '.join((*ALSO, 'seed'))}"
        )
    return also


def kept_captures() -> list[Capture]:
    """Those that can be shown: with this torch, or with another one, which is said."""
    here = torch_here()
    return [
        one
        for one in captures.stored()
        if release(one.torch) != here or captures.key_of(one.spec) == one.key
    ]


def torch_here() -> str:
    try:
        return release(metadata.version("torch"))
    except metadata.PackageNotFoundError:
        return ""


def release(torch: str) -> str:
    """`2.14.1` of `2.14.1+cu130`: a package may be listed without what it was built for."""
    return torch.partition("+")[0]


def capture_of(spec: RunSpec, kept: Sequence[Capture]) -> Capture | None:
    """The run's capture with this torch, else with another one, the newest first."""
    wanted = captures.essence(spec)
    found = [one for one in kept if one.spec == wanted]
    return captures.find(spec) or next(iter(found), None)


def begin(kept: Sequence[Capture], offers: Capabilities | None) -> None:
    """Fill the fields before they are drawn: from the address, else with the newest capture."""
    usual: dict[str, Any] = {**START}
    if not any(name in st.query_params for name in START) and kept:
        usual = fields_of(kept[0].spec)
    elif offers:
        usual["device"] = offers.best_device
    for name, value in usual.items():
        asked = st.query_params.get(name, "")
        if isinstance(value, int):
            whole = asked.isascii() and asked.isdigit() and len(asked) < 10
            state.setdefault(name, int(asked) if whole and int(asked) else value)
        else:
            state.setdefault(name, asked or value)
    if state.kind not in TASKS:
        state.kind = START["kind"]


def write_address() -> None:
    for name in START:
        put_into_address(name, str(state[name]))


def take_kept() -> None:
    if capture := captures.read(state.get("captured") or ""):
        state.update(fields_of(capture.spec))


def kept_field(kept: Sequence[Capture]) -> bool:
    """The captures that are kept; shows the one that the fields name, if it is one of them."""
    titles = {capture.key: captures.title_of(capture) for capture in kept}
    try:
        shown = capture_of(spec_of(current()), kept)
    except (SpecError, captures.CannotCapture):
        shown = None
    state.captured = shown.key if shown and shown.key in titles else None
    st.selectbox(
        "Captured",
        list(titles),
        format_func=titles.__getitem__,
        key="captured",
        placeholder=f"{len(kept)} captured so far" if kept else "Nothing captured yet",
        label_visibility="collapsed",
        on_change=take_kept,
        disabled=not kept,
        width=330,
    )
    return state.captured is not None


def current() -> dict[str, Any]:
    return {name: state[name] for name in START}


def fields(offers: Capabilities | None, shown: bool) -> None:
    """One widget a field, in a popover that says what they hold unless `shown` beside it."""
    now = current()
    label, icon = plain(words_of(now)), ":material/tune:"
    if shown:
        label, icon = ("Fields", icon) if view_only() else ("New capture", ":material/add:")
    with st.popover(label, icon=icon, key="compiler_fields"):
        _draw(now, offers)


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
        accept_new_options=True,
        help="What the Run page offers. Type torchvision:NAME or timm:NAME for another one.",
    )
    first, second = st.columns(2)
    first.selectbox("Task", list(TASKS), format_func=TASKS.__getitem__, key="kind")
    usual = [variant_argument(one.changed(cache=None)) for one in USUAL_VARIANTS]
    second.selectbox(
        "Variant",
        list(dict.fromkeys([*usual, now["variant"]])),
        key="variant",
        accept_new_options=True,
        help='Or type one as the command line takes it: compile:{"options": {"epilogue_fusion": '
        "false}}",
    )
    first.number_input("Image size, px", min_value=8, max_value=4096, step=32, key="image_size")
    second.number_input("Batch size, or n of a function", min_value=1, step=1, key="batch_size")
    first.selectbox("Precision", ["fp32", "bf16", "fp16"], key="precision")
    devices = [device.id for device in offers.devices] if offers else ["cpu"]
    second.selectbox("Device", list(dict.fromkeys([*devices, now["device"]])), key="device")
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
    if not work.is_function:
        words.append(f"{work.image_size} px")
    return " · ".join([*words, spec.variant.name, spec.device])
