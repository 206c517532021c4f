"""The launch form as the session keeps it: one key a field of the spec, as `run_samples`.

What is measured (`run_kind`) decides which fields count; the others keep what they hold for when it
is chosen again. Functions, the sizes of their inputs and the samples of inference have keys of
their own. The widgets (launch_work.py, launch_arms.py, launch_settings.py) are bound to these keys;
what loads a preset or a link, or changes several fields at once, does it here, before they are
drawn.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import streamlit as st

from bench_core.capabilities import Capabilities
from bench_core.ladder import arm_names
from bench_core.presets import PRESETS
from bench_core.spec import (
    COMPILES,
    NAMED_MODELS,
    Execution,
    Experiment,
    Rung,
    SpecError,
    Variant,
    new_id,
)
from pages.parts import draft

KEPT: dict[str, Any] = {"persist_state": "session"}  # over a visit to another page
MORE = "more…"
VARIANT_FIELDS = ("backend", "mode", "fullgraph", "dynamic", "options", "disable", "cache")
DYNAMIC = {"None": None, "True": True, "False": False}
OWN_KEYS = {
    "functions": {"model": "run_function", "batch_size": "run_input_size"},
    "inference": {"samples": "run_call_samples"},
}
# What "Add a variant" offers next: the first that is not there yet.
FURTHER = (
    Variant(execution="compile"),
    Variant(execution="compile", cache="warm"),
    Variant(execution="compile", dynamic=False),
    Variant(execution="compile", mode="max-autotune"),
    Variant(execution="compile", backend="aot_eager"),
    Variant(execution="compile", dynamic=True),
    Variant(execution="compile", fullgraph=True),
)
state = st.session_state


def key_of(name: str, kind: str | None = None) -> str:
    """The key of a field by the spec's name for it, of the kind that is chosen or of another."""
    return OWN_KEYS.get(kind or state.run_kind, {}).get(name, f"run_{name}")


def load(experiment: Experiment) -> None:
    """Fill the form with this experiment, whatever it held."""
    state.run_kind = draft.kind_of_experiment(experiment)
    values = draft.values_of(experiment)
    for name, value in values.items():
        state[key_of(name)] = value
    if state.run_grad_mode == "enabled":  # by backward, and not to be chosen
        state.run_grad_mode = "no_grad"
    # What the other kinds would name in their place.
    for kind in ("inference", "training", "functions"):
        start = draft.values_of(draft.ready_made("custom", kind, experiment.device))
        for name in ("model", "batch_size", "samples"):
            state.setdefault(key_of(name, kind), start[name])
    state.run_applied = values
    state.run_rungs = experiment.rungs
    state.run_variants = {}
    for variant in () if experiment.rungs else experiment.variants:
        add_variant(variant)


def add_variant(variant: Variant) -> None:
    """A card more, under a number that no other card has."""
    number = max(state.run_variants, default=-1) + 1
    state.run_variants[number] = variant.execution
    fields = {name: getattr(variant, name) for name in VARIANT_FIELDS}
    # A widget's None means that nothing is chosen, so here it has a name.
    fields["mode"] = variant.mode or "default"
    fields["dynamic"] = str(variant.dynamic)
    fields["options"] = draft.text_of(variant.options)
    for name, value in fields.items():
        state[f"run_v{number}_{name}"] = value


def follow_link(offers: Capabilities | None) -> str | None:
    """Begin or change the form by the address; returns why a link cannot be read.

    Streamlit tells a script of its address when the page is entered, not again while it is used:
    what then differs from what the form wrote there is a link that somebody followed.
    """
    address = _address()
    if "run_preset" not in state or (address and address != state.get("run_link")):
        return start(address, offers)
    if offers and not state.run_device_known:
        state.run_device_known = True
        state.run_device = offers.best_device
        use_device()
    return None


def write_link(variants: list[Variant], offers: Capabilities | None) -> None:
    """Make the address a link to the form as it stands."""
    usual = offers.best_device if offers else "cpu"
    state.run_link = draft.link_of(
        chosen_values(), variants, state.run_preset, usual, state.run_rungs
    )
    if state.run_link != _address():
        st.query_params.from_dict(state.run_link)


def _address() -> draft.Link:
    return {name: st.query_params.get_all(name) for name in st.query_params}


def chosen_values() -> draft.Values:
    """The fields that this kind reads, as the spec names them.

    A folder counts only for the data set that reads one, loader workers where there is a loader.
    """
    values = {name: state[key_of(name)] for name in draft.READS[state.run_kind] if name != "task"}
    values["task"] = "train" if state.run_kind == "training" else "infer"
    for name in ("model", "batch_size"):
        values[name] = [value for value in values[name] if value != MORE]
    if "dataset" in values:
        of_folder = values["dataset"] == "imagefolder"
        values["dataset_path"] = (values["dataset_path"] or None) if of_folder else None
    if values.get("pipeline") == "resident":
        values["loader_workers"] = 0
    if values.get("backward"):
        values |= {"grad_mode": "enabled", "compile_in_grad_mode": False}
    return values


@cache
def presets_of(kind: str) -> list[str]:
    """The ready-made experiments of a kind; `custom` is one of each."""
    return [
        key
        for key, preset in PRESETS.items()
        if key == "custom" or draft.kind_of_experiment(preset.experiment("cpu")) == kind
    ]


def load_preset() -> None:
    load(draft.ready_made(state.run_preset, state.run_kind, state.run_device))


def use_kind() -> None:
    """From the preset to a free choice of the other kind; what was chosen by hand stays.

    Rungs are the preset's, and no variants were chosen beside them: so all begins anew.
    """
    state.run_preset = "custom"
    if state.run_rungs:
        load_preset()
    else:
        use_device()


def use_device() -> None:
    """Fields that nobody has touched follow the preset, which knows CPU and GPU sizes."""
    made = draft.ready_made(state.run_preset, state.run_kind, state.run_device)
    fresh = draft.values_of(made)
    for name, value in fresh.items():
        if state[key_of(name)] == state.run_applied[name]:
            state[key_of(name)] = value
    state.run_applied = fresh
    state.run_rungs = made.rungs or state.run_rungs


def add_further() -> None:
    there = [variant for variant in chosen_variants() if variant]
    add_variant(next((one for one in FURTHER if one not in there), FURTHER[0]))


def remove_variant(number: int) -> None:
    del state.run_variants[number]


def variant_fields(number: int) -> dict[str, Any]:
    """The card's fields under the names that the spec has for them; `options` as typed."""
    execution = state.run_variants[number]
    if execution not in COMPILES:
        return {"execution": execution}
    fields = {name: state[f"run_v{number}_{name}"] for name in VARIANT_FIELDS}
    fields["mode"] = None if fields["mode"] == "default" else fields["mode"]
    fields["dynamic"] = DYNAMIC[fields["dynamic"]]
    return {"execution": execution, **fields}


def cards() -> dict[int, Execution]:
    """The variants' cards that this kind can measure: their numbers and executions."""
    offered = draft.EXECUTIONS[state.run_kind]
    return {number: name for number, name in state.run_variants.items() if name in offered}


def rung_words() -> list[str]:
    """The arms of a preset with rungs, in full; as the command line takes them where invalid."""
    rungs: tuple[Rung, ...] = state.run_rungs
    try:
        alone = Experiment(
            models=NAMED_MODELS[:1],
            batch_sizes=(1,),
            variants=(rungs[0].variant,),
            rungs=rungs,
            device=state.run_device,
        )
    except SpecError:
        return [rung.argument for rung in rungs]
    return arm_names(alone)


def of_rungs() -> set[str]:
    """The workload's fields that the rungs set, so that nobody else does."""
    return {name for rung in state.run_rungs for name in rung.workload}


def chosen_variants() -> list[Variant | None]:
    """None where a card holds what torch.compile would not take."""
    found: list[Variant | None] = []
    for number in cards():
        try:
            found.append(draft.variant_of(variant_fields(number)))
        except SpecError:
            found.append(None)
    return found


def take_model() -> None:
    if state.run_other_model:
        state.run_model = [*state.run_model, f"torchvision:{state.run_other_model}"]
        state.run_other_model = None


def take_timm_model() -> None:
    if state.run_timm_model:
        state.run_model = [*state.run_model, f"timm:{state.run_timm_model.strip()}"]
        state.run_timm_model = None


def take_batch_size() -> None:
    if state.run_other_batch_size:
        sizes = key_of("batch_size")
        state[sizes] = [*state[sizes], state.run_other_batch_size]
        state.run_other_batch_size = None


def choose_last_batch() -> None:
    """Drop the ragged last batch, or keep it with a graph of its own or a dynamic one."""
    state.run_drop_last = state.run_last_batch == "Drop it"
    for number, execution in state.run_variants.items():
        if execution in COMPILES and state.run_last_batch != "Drop it":
            shapes_apart = state.run_last_batch == "dynamic=False"
            state[f"run_v{number}_dynamic"] = "False" if shapes_apart else "None"


def start(link: draft.Link, offers: Capabilities | None) -> str | None:
    """A form from the link, or from nothing; returns why the link cannot be read."""
    usual = offers.best_device if offers else "cpu"
    unreadable = None
    try:
        state.run_preset, experiment = draft.from_link(link, usual)
    except SpecError as error:
        unreadable = f"The link holds no form: {error}"
        state.run_preset, experiment = "custom", PRESETS["custom"].experiment(usual)
    load(experiment)
    if state.run_preset not in presets_of(state.run_kind):
        state.run_preset = "custom"
    state.run_launch_id = new_id()
    state.run_device_known = offers is not None or "device" in link
    return unreadable
