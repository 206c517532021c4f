"""What the launch form holds, as plain values: from a preset or a shared link, and to them.

No widgets here. Values go by the spec's own names, so that the form, the link and the command line
say one thing; a list stands for what a grid runs over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from bench_core.presets import PRESETS
from bench_core.spec import (
    COMPILES,
    NAMED_FUNCTIONS,
    Execution,
    Experiment,
    Measurement,
    Rung,
    SpecError,
    Variant,
    Workload,
    parse_variant,
    variant_argument,
)

GRID = {"model": "models", "batch_size": "batch_sizes", "precision": "precisions"}
WORKLOAD = tuple(name for name in Workload.model_fields if name not in GRID)
# Which of its repeats and of its equal arms a run is, the experiment says.
MEASUREMENT = tuple(name for name in Measurement.model_fields if name not in ("repeat", "side"))

EVERY = (
    *("task", "model", "batch_size", "device", "repeats", "tf32", "threads"),
    *("seed", "max_seconds", "timeout_seconds", "label", "protocol", "until_sure"),
)
IMAGES = (
    *("precision", "dataset", "dataset_path", "pipeline", "loader_workers", "image_size"),
    *("memory_layout", "weights"),
)
# What a kind of experiment reads: all else in the form is none of its business.
READS: dict[str, tuple[str, ...]] = {
    "training": (
        *(*EVERY, *IMAGES, "epochs", "samples", "drop_last"),
        *("optimizer", "learning_rate", "evaluate"),
    ),
    "inference": (
        *(*EVERY, *IMAGES, "iterations", "samples"),
        *("grad_mode", "compile_in_grad_mode", "backward"),
    ),
    "functions": (*EVERY, "iterations", "grad_mode", "compile_in_grad_mode", "backward"),
}
EXECUTIONS: dict[str, tuple[Execution, ...]] = {
    "training": ("eager", "compile"),
    "inference": get_args(Execution),
    "functions": ("eager", "compile"),
}

Values = dict[str, Any]
Link = dict[str, list[str]]


def kind_of_experiment(experiment: Experiment) -> str:
    """What the form calls its task: one of kinds.KINDS."""
    return _kind(experiment.workload.get("task", "train"), experiment.models)


def _kind(task: str, models: Sequence[str]) -> str:
    if task == "train":
        return "training"
    functions = all(model.startswith("function:") for model in models)
    return "functions" if functions else "inference"


def ready_made(preset: str, kind: str, device: str) -> Experiment:
    """The preset; for another kind than its own what a free choice of that kind starts from."""
    made = PRESETS[preset].experiment(device)
    if kind_of_experiment(made) == kind:
        return made
    if kind == "training":
        return PRESETS["custom"].experiment(device)
    start: dict[str, Any] = {
        "inference": {
            "models": ("resnet18" if device == "cpu" else "resnet50",),
            "batch_sizes": (1,),
        },
        "functions": {
            "models": NAMED_FUNCTIONS,
            "batch_sizes": (1_000, 100_000, 10_000_000),
            "measurement": Measurement(iterations=1000),
        },
    }
    return Experiment(
        **start[kind],
        variants=(Variant(), Variant(execution="compile")),
        device=device,
        workload={"task": "infer"},
    )


def values_of(experiment: Experiment) -> Values:
    """All that the form holds, but for variants and rungs; what this kind does not read as a start.

    Of the workload what all arms start from: a rung's own fields are the rung's.
    """
    grid = {"model": experiment.models[0], "batch_size": experiment.batch_sizes[0]}
    workload = Workload(**{**experiment.workload, **grid})
    found = {
        **{name: getattr(workload, name) for name in WORKLOAD},
        **{name: getattr(experiment.measurement, name) for name in MEASUREMENT},
        **{name: list(getattr(experiment, plural)) for name, plural in GRID.items()},
        "repeats": experiment.repeats,
        "device": experiment.device,
    }
    if workload.task == "infer" and not _chosen_samples(experiment):
        found["samples"] = None
    read = READS[kind_of_experiment(experiment)]
    return {name: value if name in read else UNREAD[name] for name, value in found.items()}


def _chosen_samples(experiment: Experiment) -> bool:
    """Whether inference passes over other samples than the usual batches of each size."""
    usual = {name: value for name, value in experiment.workload.items() if name != "samples"}
    return experiment.changed(workload=usual).runs() != experiment.runs()


UNREAD: Values = {
    **{name: field.default for name, field in Workload.model_fields.items()},
    **{name: field.default for name, field in Measurement.model_fields.items()},
    "precision": ["fp32"],
    "grad_mode": "no_grad",
}


def experiment_of(
    values: Mapping[str, Any],
    variants: Sequence[Variant],
    preset: str,
    experiment_id: str,
    rungs: Sequence[Rung] = (),
) -> Experiment:
    """The experiment, named after the preset only while it is as the preset says. SpecError.

    `values` hold what its kind reads and nothing else; `rungs` stand in the place of the variants.
    """
    variants = tuple(dict.fromkeys(rung.variant for rung in rungs)) if rungs else variants
    for name, plural in GRID.items():
        chosen = values.get(name, UNREAD.get(name))
        if not chosen:
            raise SpecError(f"no {name.replace('_', ' ')} is chosen; choose at least one")
        if len(set(chosen)) < len(chosen):
            raise SpecError(f"{plural.replace('_', ' ')} name one thing twice; choose each once")
    if not variants:
        raise SpecError("no variant is left; add one")
    names = [variant.name_with_cache for variant in variants]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SpecError(f"two variants are the same, {twice[0]}; change or remove one of them")
    made = Experiment(
        id=experiment_id,
        **{plural: tuple(values[name]) for name, plural in GRID.items() if name in values},
        variants=tuple(variants),
        rungs=tuple(rungs),
        repeats=values["repeats"],
        device=values["device"],
        # Without a number of samples inference takes the usual batches of each size.
        workload={
            name: value
            for name, value in _part(values, WORKLOAD).items()
            if name != "samples" or value is not None
        },
        measurement=Measurement(**_part(values, MEASUREMENT)),
    )
    made.refuse_unlike_rungs()
    ready = PRESETS[preset].experiment(made.device)
    arms = (made.variants, made.rungs)
    same = values_of(ready) == values_of(made) and (ready.variants, ready.rungs) == arms
    return made.changed(preset=preset) if same else made


def variant_of(fields: Mapping[str, Any]) -> Variant:
    """A variant from its card; `options` is JSON as it was typed. Raises SpecError."""
    if fields["execution"] not in COMPILES:
        return Variant(execution=fields["execution"])
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
    rungs: Sequence[Rung] = (),
) -> Link:
    """The address's parameters: whatever differs from the preset on the usual device, as text."""
    kind = _kind(values["task"], values["model"])
    start = ready_made(preset, kind, values["device"])
    usual = {**values_of(start), "device": usual_device}
    ready = PRESETS[preset].experiment(values["device"])
    if kind_of_experiment(ready) != kind:  # these two say what kind it is
        usual.update(task=None, model=None)
    link: Link = {} if preset == "custom" else {"preset": [preset]}
    for name, value in values.items():
        if value != usual[name]:
            several = value if name in GRID else [value]
            link[name] = ["" if one is None else str(one) for one in several]
    if rungs:
        if tuple(rungs) != start.rungs:
            link["rung"] = [rung.argument for rung in rungs]
    elif tuple(variants) != start.variants:
        link["variant"] = [variant_argument(variant) for variant in variants]
    return link


def from_link(link: Link, usual_device: str) -> tuple[str, Experiment]:
    """The preset and the experiment that a link names; without a task that of the preset.

    Raises SpecError.
    """
    device = link.get("device", [usual_device])[-1]
    preset = link.get("preset", ["custom"])[-1]
    if preset not in PRESETS:
        raise SpecError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}")
    made = PRESETS[preset].experiment(device)
    task = link.get("task", [made.workload.get("task", "train")])[-1]
    ready = ready_made(preset, _kind(task, link.get("model", made.models)), device)
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
    if "rung" in link:
        fields["rungs"] = tuple(Rung.from_json(text) for text in link["rung"])
    return preset, Experiment(**fields)


def _part(said: Mapping[str, Any], names: Sequence[str]) -> Values:
    return {name: said[name] for name in names if name in said}
