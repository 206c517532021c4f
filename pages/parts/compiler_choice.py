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
from bench_core.capabilities import Capabilities, takes_images
from bench_core.captured import Capture
from bench_core.spec import (
    Measurement,
    RunSpec,
    SpecError,
    Workload,
    parse_variant,
    variant_argument,
)
from pages.parts.in_address import put_into_address

PAGES = Path(__file__).resolve().parent.parent
TASKS = {"train": "Training", "infer": "Inference", "gradients": "Inference with gradients"}
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
        wanted["precision"] = fields["precision"]
    if takes_images(model):
        wanted["image_size"] = fields["image_size"]
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
