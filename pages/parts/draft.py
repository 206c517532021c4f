"""What the launch form holds, as plain values: from a preset or a shared link, and to them.

No widgets here. Values go by the spec's own names, so that the form, the link and the command line
say one thing; a list stands for what a grid runs over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bench_core.presets import PRESETS
from bench_core.spec import (
    Experiment,
    Measurement,
    SpecError,
    Variant,
    Workload,
    parse_variant,
    variant_argument,
)

GRID = {"model": "models", "batch_size": "batch_sizes", "precision": "precisions"}
WORKLOAD = tuple(name for name in Workload.model_fields if name not in (*GRID, "task"))
MEASUREMENT = tuple(name for name in Measurement.model_fields if name != "repeat")

Values = dict[str, Any]
Link = dict[str, list[str]]


def values_of(experiment: Experiment) -> Values:
    """All that the form holds, but for the variants."""
    workload = experiment.runs()[0].workload
    return {
        **{name: getattr(workload, name) for name in WORKLOAD},
        **{name: getattr(experiment.measurement, name) for name in MEASUREMENT},
        **{name: list(getattr(experiment, plural)) for name, plural in GRID.items()},
        "repeats": experiment.repeats,
        "device": experiment.device,
    }


def experiment_of(
    values: Mapping[str, Any], variants: Sequence[Variant], preset: str, experiment_id: str
) -> Experiment:
    """The experiment, named after the preset only while it is as the preset says. SpecError."""
    for name, plural in GRID.items():
        if not values[name]:
            raise SpecError(f"no {name.replace('_', ' ')} is chosen; choose at least one")
        if len(set(values[name])) < len(values[name]):
            raise SpecError(f"{plural.replace('_', ' ')} name one thing twice; choose each once")
    if not variants:
        raise SpecError("no variant is left; add one")
    names = [variant.name_with_cache for variant in variants]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SpecError(f"two variants are the same, {twice[0]}; change or remove one of them")
    made = Experiment(
        id=experiment_id,
        models=tuple(values["model"]),
        batch_sizes=tuple(values["batch_size"]),
        precisions=tuple(values["precision"]),
        variants=tuple(variants),
        repeats=values["repeats"],
        device=values["device"],
        workload={name: values[name] for name in WORKLOAD},
        measurement=Measurement(**{name: values[name] for name in MEASUREMENT}),
    )
    ready = PRESETS[preset].experiment(made.device)
    same = values_of(ready) == values_of(made) and ready.variants == made.variants
    return made.changed(preset=preset) if same else made


def variant_of(fields: Mapping[str, Any]) -> Variant:
    """A variant from its card; `options` is JSON as it was typed. Raises SpecError."""
    if fields["execution"] == "eager":
        return Variant()
    return Variant(**{**fields, "options": options_of(fields["options"])})


def options_of(text: str) -> dict[str, Any] | None:
    """Raises SpecError with the place of the mistake."""
    if not text.strip():
        return None
    example = 'write an object such as {"max_autotune": true}'
    try:
        options = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise SpecError(
            f"options is no JSON: {error.msg} at line {error.lineno}, column {error.colno}; "
            f"{example}"
        ) from None
    if not isinstance(options, dict):
        raise SpecError(f"options must be a JSON object, got {text.strip()[:60]}; {example}")
    return options


def text_of(options: Mapping[str, Any] | None) -> str:
    """The inverse of `options_of`."""
    return "" if options is None else json.dumps(options)


def _no_constant(name: str) -> None:
    raise SpecError(f"options holds {name}, which is no number of JSON; write a number")


def link_of(
    values: Mapping[str, Any],
    variants: Sequence[Variant],
    preset: str,
    usual_device: str | None = None,
) -> Link:
    """The address's parameters: whatever differs from the preset on the usual device, as text."""
    ready = PRESETS[preset].experiment(values["device"])
    usual = {**values_of(ready), "device": usual_device}
    link: Link = {} if preset == "custom" else {"preset": [preset]}
    for name, value in values.items():
        if value != usual[name]:
            several = value if name in GRID else [value]
            link[name] = ["" if one is None else str(one) for one in several]
    if tuple(variants) != ready.variants:
        link["variant"] = [variant_argument(variant) for variant in variants]
    return link


def from_link(link: Link, usual_device: str) -> tuple[str, Experiment]:
    """The preset and the experiment that a link names. Raises SpecError."""
    device = link.get("device", [usual_device])[-1]
    preset = link.get("preset", ["custom"])[-1]
    if preset not in PRESETS:
        raise SpecError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}")
    ready = PRESETS[preset].experiment(device)
    said = {name: texts[-1] or None for name, texts in link.items() if texts}
    fields: dict[str, Any] = {
        **dict(ready),
        "workload": {**ready.workload, **_part(said, WORKLOAD)},
        "measurement": Measurement(**{**dict(ready.measurement), **_part(said, MEASUREMENT)}),
    }
    for name, plural in GRID.items():
        if name in link:
            fields[plural] = tuple(link[name])
    if "repeats" in said:
        fields["repeats"] = said["repeats"]
    if "variant" in link:
        fields["variants"] = tuple(parse_variant(text) for text in link["variant"])
    return preset, Experiment(**fields)


def _part(said: Mapping[str, Any], names: Sequence[str]) -> Values:
    return {name: said[name] for name in names if name in said}
