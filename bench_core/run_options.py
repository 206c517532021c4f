"""The options of `run` that are the spec's own fields, and the experiment that options ask for."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bench_core import presets
from bench_core.spec import (
    COMPILES,
    Cache,
    Experiment,
    Frozen,
    Measurement,
    Rung,
    SpecError,
    Variant,
    Workload,
    parse_variant,
)

HELP = {
    "dataset": "synthetic is random images of --image-size.",
    "dataset_path": "The folder of class folders, for --dataset imagefolder.",
    "pipeline": "on_the_fly transforms in the loader, cached before, resident is one batch on the "
    "device (what --task infer takes when nothing is said).",
    "loader_workers": "Processes that load data; 0 is the measuring process itself.",
    "samples": "Of one epoch; in inference one batch, or 32 with a loader, when left out.",
    "drop_last": "Leave out the ragged last batch (it makes torch.compile compile again).",
    "image_size": "Width and height in pixels.",
    "tf32": "TensorFloat-32 on a GPU; default is PyTorch's own choice.",
    "optimizer": "Training only.",
    "learning_rate": "Training only.",
    "evaluate": "Training only: time an evaluation after each epoch, through the arm's own module.",
    "threads": "CPU threads of torch; torch's own default when left out.",
    "grad_mode": "Inference only; no_grad when left out, and enabled with --backward.",
    "compile_in_grad_mode": "Inference only: compile, trace or export inside of --grad-mode too.",
    "backward": "Inference only: each iteration computes gradients too.",
    "epochs": "Of each run; training only.",
    "iterations": "Timed calls of each run; inference only.",
    "max_seconds": "End each run politely after the epoch, or half second of calls, that passes "
    "this many seconds.",
    "timeout_seconds": "Kill a run that takes longer.",
    "seed": "Of weights and data.",
    "weights": "They change no timing.",
    "label": "Free text kept with each run.",
    "protocol": "paired keeps the arms of a repeat alive side by side; they take turns, an epoch "
    "or half a second of calls each. Where memory does not hold them they go one after the other.",
    "until_sure": "End the repeats once the speedup's 95 % interval is within plus or minus so "
    "many per cent, after 3 of them at least; --repeats is the most there can be.",
}


def spec_options(command: Callable[..., None]) -> Callable[..., None]:
    """An option for each field of the workload and the measurement: a new field has one too."""
    made_by_hand = {"task", "model", "batch_size", "precision", "repeat", "side"}
    for kind in (Measurement, Workload):
        for name, field in reversed(kind.model_fields.items()):
            if name in made_by_hand:
                continue
            option = "--" + name.replace("_", "-")
            allowed = _allowed(field.annotation)
            if allowed is bool:
                option = f"{option}/--no-{option[2:]}"
            shown = "" if field.default in (None, "") else f"  [default: {field.default}]"
            command = click.option(
                option,
                name,
                default=None,
                type=allowed,
                help=HELP.get(name, "") + shown,
            )(command)
    return command


def _allowed(annotation: Any) -> Any:
    """A field's annotation as click's type."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):  # `X | None`
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    if typing.get_origin(annotation) is typing.Literal:
        return click.Choice(typing.get_args(annotation))
    return annotation


def experiment_of(preset: str | None, device: str, given: dict[str, Any]) -> Experiment:
    """The preset (or the custom one) with what was given put in its place. Raises SpecError."""
    base = presets.PRESETS[preset or "custom"].experiment(device)
    fields: dict[str, Any] = dict(base)
    cache = given.pop("cache")
    fields["rungs"] = _rungs(preset, base, given)
    for name in ("models", "batch_sizes", "precisions", "repeats"):
        if (value := given.pop(name)) not in (None, ()):
            fields[name] = value
    if texts := given.pop("variants"):
        fields["variants"] = tuple(parse_variant(text) for text in texts)
    if cache:
        fields["variants"] = tuple(_starting(cache, variant) for variant in fields["variants"])
        fields["rungs"] = tuple(
            rung.changed(variant=_starting(cache, rung.variant)) for rung in fields["rungs"]
        )
    said = {name: value for name, value in given.items() if value is not None}
    if "dataset_path" in said:
        said["dataset_path"] = str(Path(said["dataset_path"]).expanduser().resolve())
    if all(model.startswith("function:") for model in fields["models"]):
        said.setdefault("task", "infer")  # a function has nothing to train
    fields["workload"] = {**base.workload, **_part(said, Workload)}
    fields["measurement"] = base.measurement.changed(**_part(said, Measurement))
    experiment = Experiment(**fields)
    experiment.refuse_unlike_rungs()
    return experiment


def _rungs(preset: str | None, base: Experiment, given: dict[str, Any]) -> tuple[Rung, ...]:
    """Those given, else the preset's; neither goes with variants or precisions of their own."""
    texts = given.pop("rungs")
    rungs = []
    for text in texts:
        try:
            rungs.append(Rung.from_json(text))
        except SpecError as error:
            raise SpecError(f"--rung {text}: {error}") from None
    if not (rungs or base.rungs):
        return ()
    for name, option in (("variants", "--variant"), ("precisions", "--precision")):
        if given[name]:
            arms = "--rung names" if rungs else f"preset {preset} has"
            raise SpecError(
                f"{arms} whole arms, so {option} {given[name][0]} would say nothing; leave it out, "
                "or choose another preset"
            )
    return tuple(rungs) or base.rungs


def _starting(cache: Cache, variant: Variant) -> Variant:
    return variant.changed(cache=cache) if variant.execution in COMPILES else variant


def _part(said: dict[str, Any], kind: type[Frozen]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name in kind.model_fields}
