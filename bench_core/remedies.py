"""Runs that would show what a change brings to a comparison, ready to be queued. Pure.

Everything else stays as it was measured. A change of the workload measures both arms anew, so that
a ratio may be formed; a change of the candidate's variant leaves the baseline's runs as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench_core.comparison import Comparison
from bench_core.measured import Arm, Measured
from bench_core.pairing import Axis, comparisons
from bench_core.spec import Experiment, Rung, SpecError, Variant

REPEATS = 3


@dataclass(frozen=True)
class Remedy:
    """`name` is what changes: `drop_last`, `dynamic=False`.

    `measured` is the comparison that its runs make, where such runs are stored already.
    """

    name: str
    experiment: Experiment
    measured: Comparison | None = None


def remedy(
    pair: Comparison,
    name: str,
    others: Iterable[Measured] = (),
    *,
    candidate: Variant | None = None,
    **workload: Any,
) -> Remedy | None:
    """The change of the workload's fields, or of the candidate's variant.

    None where it is no change, is what the pair compares, or would be refused by the spec, and for
    a pair that differs in more than an axis: no experiment has such arms.
    """
    if pair.overridden:
        return None
    work, variant = pair.workload, pair.candidate.variant
    changed = {field: value for field, value in workload.items() if getattr(work, field) != value}
    if set(pair.axis) & set(changed) or not (changed or candidate not in (None, variant)):
        return None
    if candidate is not None and "variant" not in pair.axis:
        return None
    measurement = pair.candidate.runs[0].run.spec.measurement
    # REPEATS are the fewest that an interval needs: nothing to stop before.
    measurement = measurement.changed(repeat=1, side=None, until_sure=None)
    arms = (pair.baseline, pair.candidate)
    fields: dict[str, Any] = {}
    if candidate is not None:
        measurement = measurement.changed(protocol="sequential")
        fields["variants"] = (candidate,)
    elif pair.axis == ("variant",):
        fields["variants"] = tuple(arm.variant for arm in arms)
    else:
        fields["rungs"] = tuple(_rung(arm) for arm in arms)
    try:
        template = work.changed(**changed)
        experiment = Experiment(
            models=(template.model,),
            batch_sizes=(template.batch_size,),
            precisions=(template.precision,),
            repeats=REPEATS,
            device=pair.device,
            workload=dict(template),
            measurement=measurement,
            **fields,
        )
    except SpecError:  # fewer samples than a batch, no such pipeline: nothing that could be queued
        return None
    return Remedy(name, experiment, _already_measured(experiment, pair, others))


def _rung(arm: Arm) -> Rung:
    values = dict(arm.setting)
    side = values.pop("side", None)
    values.pop("variant", None)
    return Rung.model_validate({"workload": values, "variant": arm.variant, "side": side})


def _already_measured(
    experiment: Experiment, pair: Comparison, others: Iterable[Measured]
) -> Comparison | None:
    """The comparison that the experiment's runs would make, of runs that are stored.

    It is of the pair's machine, device and kind of work, so the pair's noise floor is its own.
    """
    specs = experiment.runs()
    wanted = {(spec.workload, spec.variant.arm) for spec in specs}
    if experiment.variants == (specs[0].variant.arm,) and not experiment.rungs:
        wanted.add((pair.workload, pair.baseline.variant))
    runs = {one.run.number: one for one in (*others, *pair.baseline.runs)}
    found = [
        one
        for one in runs.values()
        if (one.run.spec.workload, one.run.spec.variant.arm) in wanted and on_its_machine(one, pair)
    ]
    baseline = pair.baseline.setting or (("variant", pair.baseline.variant),)
    pairs = comparisons(found, Axis(pair.axis, baseline), floors={}).pairs
    targets = [one for one in pairs if one.candidate.variant in experiment.variants]
    return replace(targets[-1], floor=pair.floor) if targets else None


def on_its_machine(one: Measured, pair: Comparison) -> bool:
    environment = one.run.environment
    return (
        environment is not None
        and environment.machine_id == pair.machine_id
        and environment.torch == pair.torch
        and one.run.spec.device == pair.device
    )


def of_its_workload(others: Sequence[Measured], pair: Comparison) -> list[Measured]:
    """Runs that a ratio with the pair's could be formed with, whatever their variant."""
    return [
        one
        for one in others
        if one.run.spec.workload == pair.workload and on_its_machine(one, pair)
    ]
