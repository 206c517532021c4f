"""What Compare compares: the axis and its baseline, and the filters. All of it is in the address.

The label of the popover is its state, which is known before its widgets are drawn: from the
session, or from the address at the first look at a link.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from bench_core.comparison import EAGER
from bench_core.measured import Measured
from bench_core.pairing import Axis, Setting, comparisons, conditions_of, setting_of
from bench_core.spec import Experiment, Workload
from bench_core.units import counted
from pages.parts.kinds import kind_of
from pages.parts.text import plain

# What can differ on purpose, as a person calls it. `side` are the equal arms of an A/A.
AXES = {
    "variant": "variant",
    "precision": "precision",
    "memory_layout": "memory layout",
    "pipeline": "data pipeline",
    "loader_workers": "loader workers",
    "drop_last": "dropping the last batch",
    "threads": "threads",
    "tf32": "TF32",
    "optimizer": "optimiser",
    "image_size": "image size",
    "grad_mode": "grad mode",
    "side": "nothing (A/A)",
}


# Beyond as many models a row of pills is a wall.
MOST_PILLS = 12


@dataclass(frozen=True)
class Choice:
    """The runs that match the filters, the axis they are compared along, and whether the filters
    leave runs out."""

    axis: Axis
    matching: tuple[Measured, ...]
    narrowed: bool


def state_of(key: str, missing: Any = None) -> Any:
    """A bound widget's value before it is drawn."""
    found = st.query_params.get(key, missing)
    return st.session_state.get(key, found == "true" if isinstance(missing, bool) else found)


def clear_filter() -> None:
    st.session_state.update(machines=[], models=[], batches=[], precisions=[])


def axes_of(measured: Sequence[Measured], experiments: Iterable[Experiment]) -> list[str]:
    """The axes along which runs differ that are equal else: names, joined by commas.

    First the variant, then single fields, then what the arms of an experiment vary together.
    """
    found = ["variant"]
    for name in list(AXES)[1:]:
        runs = with_axis(measured, (name,))
        # Most fields are the same everywhere, which is seen faster than pairs are formed.
        specs = (one.run.spec for one in runs)
        values = {getattr(spec.workload, name, spec.measurement.side) for spec in specs}
        if len(values) > 1 and _varies(runs, Axis((name,))):
            found.append(name)
    of_experiments = (",".join(experiment.axis) for experiment in experiments if experiment.rungs)
    return list(dict.fromkeys([*found, *filter(None, of_experiments)]))


def _varies(runs: Iterable[Measured], axis: Axis) -> bool:
    """Whether there is a pair along the axis: looked for until one is found."""
    alike: dict[tuple[object, ...], list[Measured]] = {}
    for one in runs:
        if one.steady.median_seconds is None:
            continue
        others = alike.setdefault(tuple(conditions_of(one.run, axis).items()), [])
        others.append(one)
        setting = setting_of(one.run.spec, axis.names)
        if setting != setting_of(others[0].run.spec, axis.names) and (
            comparisons(others, axis, floors={}).pairs
        ):
            return True
    return False


def with_axis(measured: Iterable[Measured], names: Sequence[str]) -> list[Measured]:
    """Runs that belong on the axis: an A/A is between its own arms only."""
    return [one for one in measured if "side" not in names or one.run.spec.measurement.side]


def axis_text(names: str) -> str:
    """`precision`, `memory layout and variant`."""
    words = [AXES.get(name, name.replace("_", " ")) for name in names.split(",")]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if words[1:] else words[0]


def arms_of(
    measured: Sequence[Measured], names: tuple[str, ...], usual: Axis
) -> dict[str, Setting]:
    """The arms on an axis by name, the usual baseline first: what no one changes, or eager."""
    arms: dict[str, Setting] = {}
    first_of: dict[Setting, Measured] = {}
    for one in sorted(measured, key=lambda one: one.run.number):
        first_of.setdefault(setting_of(one.run.spec, names), one)
    for setting, one in first_of.items():
        name = Axis(names).arm(setting, (one,)).name
        arms.setdefault(
            one.run.spec.measurement.side or "" if names == ("side",) else name, setting
        )
    unchanged = {name: field.default for name, field in Workload.model_fields.items()}
    unchanged |= {"variant": EAGER, "side": "A"}
    first = usual.baseline if usual.names == names else None

    def place(item: tuple[str, Setting]) -> tuple[bool, int]:
        setting = item[1]
        return setting != first, -sum(unchanged.get(name) == value for name, value in setting)

    return dict(sorted(arms.items(), key=place))


def choose(
    measured: Sequence[Measured],
    machines: Sequence[str],
    usual: Axis,
    experiments: Sequence[Experiment],
) -> Choice:
    """Draw the rows of pills and the popover. Nothing chosen in a row of pills means all of it.

    `usual` is the axis that is taken where the address names none. Where nothing was measured there
    is nothing to choose.
    """
    ended = [one for one in measured if one.begun]
    if not ended:
        return Choice(usual, tuple(measured), narrowed=False)
    works = [one.run.spec.workload for one in ended]
    with st.container(horizontal=True, vertical_alignment="center"):
        here = {one.run.machine for one in ended}
        in_row: dict[str, Any] = {
            "selection_mode": "multi",
            "format_func": plain,
            "bind": "query-params",
            "label_visibility": "collapsed",
        }
        chosen_machines = st.pills(
            "Machines", [name for name in machines if name in here], key="machines", **in_row
        )
        models = list(dict.fromkeys(work.model for work in works))
        if len(models) > MOST_PILLS:
            chosen_models = st.multiselect(
                "Models",
                models,
                format_func=plain,
                placeholder=f"All {counted(len(models), 'model')}",
                key="models",
                bind="query-params",
                label_visibility="collapsed",
                width=320,
            )
        else:
            chosen_models = st.pills("Models", models, key="models", wrap=True, **in_row)
        rest = st.container(width="content")

        usual_axis = axis_text(",".join(usual.names))
        # By its words, which stand in the address too.
        axes = {axis_text(names): names for names in axes_of(ended, experiments)}
        axes.setdefault(usual_axis, ",".join(usual.names))
        axis = state_of("axis", usual_axis)
        axis = axis if axis in axes else usual_axis
        names = tuple(axes[axis].split(","))
        sizes = "input sizes" if kind_of(works[0]) == "Functions" else "batch sizes"
        arms = arms_of(with_axis(ended, names), names, usual)
        baseline = state_of("baseline")
        if baseline not in arms:  # of another axis, or of an old link
            baseline = next(iter(arms), EAGER.name)
            if "baseline" in st.session_state:  # else the box would go on showing the old one
                st.session_state["baseline"] = baseline
        label = _label(sizes, axis, baseline)
        with rest, st.popover(plain(label), icon=":material/tune:", key="rest"):
            st.selectbox(
                "What differs",
                list(axes),
                index=list(axes).index(usual_axis),
                key="axis",
                bind="query-params",
                help="Along this axis arms are compared; in all else they agree. Offered is what "
                "differs between runs that are equal else.",
            )
            chosen_baseline = st.selectbox(
                "Baseline",
                list(arms) or [EAGER.name],
                key="baseline",
                bind="query-params",
                help="The arm that every other one is compared with.",
            )
            chosen_batches = st.pills(
                sizes.capitalize(),
                sorted({work.batch_size for work in works}),
                selection_mode="multi",
                key="batches",
                bind="query-params",
            )
            chosen_precisions = []
            if "precision" not in names:
                chosen_precisions = st.pills(
                    "Precision",
                    sorted({work.precision for work in works}),
                    selection_mode="multi",
                    key="precisions",
                    bind="query-params",
                )
            if any(one.derived.tested for one in ended):
                st.toggle(
                    "Count testing too",
                    key="testing",
                    bind="query-params",
                    help="Adds the testing after each epoch to its seconds, as the article did.",
                )

    matching = tuple(
        one
        for one in with_axis(measured, names)
        if (not chosen_machines or one.run.machine in chosen_machines)
        and (not chosen_models or one.run.spec.workload.model in chosen_models)
        and (not chosen_batches or one.run.spec.workload.batch_size in chosen_batches)
        and (not chosen_precisions or one.run.spec.workload.precision in chosen_precisions)
    )
    against = arms.get(chosen_baseline, usual.baseline)
    return Choice(Axis(names, against), matching, len(matching) < len(measured))


def _label(sizes: str, axis: str, baseline: str) -> str:
    """`batch size 16, bf16 · against eager`, `all batch sizes · precision against fp32`."""
    batches = st.session_state.get("batches", st.query_params.get_all("batches"))
    precisions = st.session_state.get("precisions", st.query_params.get_all("precisions"))
    size = f"{sizes[:-1]} {', '.join(map(str, batches))}" if batches else f"all {sizes}"
    words = [size, *(precisions if "precision" not in axis else ())]
    words += ["testing counted"] if state_of("testing", False) else []
    along = "" if axis == AXES["variant"] else f"{axis} "
    return f"{', '.join(words)} · {along}against {baseline}"
