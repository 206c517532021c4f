"""Two chosen arms that differ in more than an axis: no ratio, unless a person wants it anyway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import streamlit as st

from bench_core.comparison import EAGER, Comparison
from bench_core.measured import Measured
from bench_core.pairing import Axis, Setting, differences, override
from bench_core.run import Run
from bench_core.spec import Experiment, Workload
from pages.parts.comparison_words import difference_text
from pages.parts.draft import link_of, values_of
from pages.parts.text import plain

RUN_PAGE = Path(__file__).resolve().parent.parent / "run.py"
# What a fact brings with it needs no word of its own in an arm's name.
BROUGHT = {
    "threads in use": "threads",
    "device_name": "machine",
    "device": "machine",
    "samples": "batch_size",
}

Groups = Sequence[Sequence[Measured]]


def equal_groups(measured: Sequence[Measured]) -> list[list[Measured]]:
    """Runs that agree in everything, the variant too, together; eager first, then the oldest."""
    groups: list[list[Measured]] = []
    for one in sorted(measured, key=lambda one: one.run.number):
        group = next((g for g in groups if not differences(g[0].run, one.run, Axis(()))), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return sorted(groups, key=lambda group: group[0].run.spec.variant.arm != EAGER)


def anyway(groups: Groups) -> Comparison:
    """The two groups as a pair that tells what it differs in.

    ValueError: a group without a steady run, or one of epochs and one of iterations.
    """
    if groups[0][0].unit != groups[1][0].unit:
        raise ValueError("one is measured in epochs, the other in iterations")
    pair = override(groups[0], groups[1])
    before, after = pair.baseline.runs[0].run, pair.candidate.runs[0].run
    found = differences(before, after, Axis(()))
    told = {name: values for name, values in found.items() if BROUGHT.get(name) not in found}
    return replace(
        pair,
        axis=tuple(told),
        baseline=replace(pair.baseline, setting=_setting(told, 1, before)),
        candidate=replace(pair.candidate, setting=_setting(told, 0, after)),
    )


def _setting(told: Mapping[str, tuple[object, object]], side: int, run: Run) -> Setting:
    """What tells an arm from the other one: `threads 8`, `machine T4`."""
    values = {name: pair[side] for name, pair in told.items()}
    if "machine" in values:
        values["machine"] = run.machine
    if "variant" in values:
        values["variant"] = run.spec.variant.arm
    return tuple(values.items())


def differs_text(pair: Comparison) -> str:
    """`Differs in: threads 8 against 2, machine A100 against T4`."""
    found = differences(pair.baseline.runs[0].run, pair.candidate.runs[0].run)
    return "Differs in: " + ", ".join(difference_text(*item) for item in found.items())


def set_override(value: str | None) -> None:
    """To or from the address."""
    if value is None:
        st.query_params.pop("override", None)
    else:
        st.query_params["override"] = value


def no_ratio(groups: Groups, view_only: bool) -> None:
    """In what the two differ, and the ways out: what is missing is queued, or a ratio anyway."""
    baseline, candidate = (group[0].run for group in groups)
    found = differences(baseline, candidate)
    with st.container(border=True):
        st.markdown("**No ratio: these runs differ in more than the variant**")
        badges = (f":yellow-badge[{plain(difference_text(*item))}]" for item in found.items())
        st.markdown(" ".join(badges))
        if candidate.spec.workload.unit != baseline.spec.workload.unit:
            st.markdown(
                "One is measured in epochs, the other in iterations: they have no ratio at all."
            )
            return
        st.markdown("A speedup would mix up the effects.")
        work = baseline.spec.workload
        changed = [name for name in found if name in Workload.model_fields]
        elsewhere = [
            name for name in found if name not in changed and BROUGHT.get(name) not in found
        ]
        if elsewhere:
            st.markdown(
                "Measure both on one machine, with one version of torch and as many threads."
            )
        with st.container(horizontal=True):
            if not (elsewhere or view_only or work.is_foreign):
                variant = candidate.spec.variant
                wanted = " and ".join(f"{name} {getattr(work, name)}" for name in changed)
                if st.button(f"Queue {plain(variant.name)} with {plain(wanted)}", type="primary"):
                    experiment = Experiment(
                        models=(work.model,),
                        batch_sizes=(work.batch_size,),
                        precisions=(work.precision,),
                        variants=(variant.arm,),
                        device=baseline.spec.device,
                        workload=dict(work),
                        measurement=baseline.spec.measurement,
                    )
                    link = link_of(values_of(experiment), experiment.variants, "custom")
                    st.switch_page(RUN_PAGE, query_params=link)
            st.button(
                "Compare anyway",
                on_click=set_override,
                args=("1",),
                help="Shows the ratio with what else differs beside it. It is in no mean.",
            )
