"""Why a pair is not faster and what to try; and where its time goes. One card each.

The runs of a remedy are queued by a press of its button: the experiment's id is kept from drawing
to drawing, so that pressing twice queues once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import streamlit as st

from bench_core import capabilities, worker
from bench_core.capabilities import Capabilities
from bench_core.cause import Cause
from bench_core.chart_frame import CONFIG
from bench_core.comparison import Comparison
from bench_core.diagnosis import ceiling_text, diagnose, gain_text, with_steps
from bench_core.estimates import KnownRun, estimate_seconds
from bench_core.lacks import lacks_of
from bench_core.measured import Measured
from bench_core.parts_figure import KIND_NAMES, parts_title, time_parts
from bench_core.remedies import Remedy
from bench_core.spec import new_id
from bench_core.store import Store
from bench_core.time_parts import Parts, parts, step_shares
from bench_core.units import counted, estimate_text, seconds_text
from pages.parts.compiler_choice import capture_link
from pages.parts.estimates import known_runs, ran_on
from pages.parts.measured import measured_runs
from pages.parts.text import plain

PAGES = Path(__file__).resolve().parent.parent
MOST_CAUSES = 4
BAR_HEIGHT = 46


def diagnosis_card(pair: Comparison, store: Store) -> None:
    """The causes in order, each with what would show its effect. Needs `with_stored_steps`."""
    if pair.overridden:
        with st.container(border=True, height="stretch"):
            st.markdown(
                f"**Why is not told**  \nThe arms differ in {plain(', '.join(pair.axis))}: what "
                "each of these did cannot be told apart."
            )
        return
    others = others_of(pair, store)
    causes = diagnose(pair, others)
    faster = pair.differs and pair.speedup.ratio > 1
    with st.container(border=True, gap="small", height="stretch"):
        if faster:
            st.markdown("**Where it comes from, and what holds it back**")
            st.markdown(plain(gain_text(pair, others)))
        else:
            st.markdown("**Why not faster, and what to try**")
        if not causes:
            st.markdown("Nothing stands out in the step, the data or the compiling.")
            return
        if limit := ceiling_text(pair, others):
            st.caption(limit)
        here = capabilities.cached()
        known = known_runs(store, here)
        for cause in causes[:MOST_CAUSES]:
            _draw(cause, pair, store, known, here)
        if rest := causes[MOST_CAUSES:]:
            with st.expander(f"{counted(len(rest), 'smaller cause')}"):
                for cause in rest:
                    _draw(cause, pair, store, known, here)
        run = pair.candidate.runs[0].run
        if not run.import_id:
            capture_link(run.spec)


def others_of(pair: Comparison, store: Store) -> list[Measured]:
    """What a diagnosis reads besides: all runs, testing counted as in the pair's."""
    return measured_runs(store, store.runs(), pair.candidate.runs[0].evaluation)


def _draw(
    cause: Cause,
    pair: Comparison,
    store: Store,
    known: Sequence[KnownRun],
    here: Capabilities | None,
) -> None:
    with st.container(gap="xxsmall"):
        st.markdown(
            f"**{plain(cause.title)}.** :gray-badge[{cause.sure}]  \n{plain(cause.text)}  \n"
            f":small[:gray[Next: {plain(cause.next_step)}]]"
        )
        for remedy in cause.remedies:
            if remedy.measured:
                st.markdown(f":small[{plain(effect_text(remedy, remedy.measured, pair))}]")
        offered = [remedy for remedy in cause.remedies if not remedy.measured]
        if not offered or os.environ.get("BENCH_VIEW_ONLY") == "1":
            return
        with st.container(horizontal=True):
            if here is None or not ran_on(pair.candidate.runs[0].run, here):
                _commands(offered, pair)
                return
            for remedy in offered:
                if lack := _lack(remedy, here):
                    st.markdown(f":small[:gray[{plain(f'Not here, {remedy.name}: {lack}')}.]]")
                else:
                    _button(remedy, cause, pair, store, known)


def effect_text(remedy: Remedy, found: Comparison, pair: Comparison) -> str:
    """What a remedy that was measured already brought, beside what the pair shows."""
    arms = f"{found.candidate.name} against {found.baseline.name}"
    text = (
        f"Measured with {remedy.name}, {arms}: {found.verdict_text}. As here: {pair.verdict_text}."
    )
    if found.workload == pair.workload:
        text += (
            f" A steady {pair.unit} takes {seconds_text(found.candidate.steady_seconds)} instead "
            f"of {seconds_text(pair.candidate.steady_seconds)}."
        )
    return text


def _commands(remedies: Sequence[Remedy], pair: Comparison) -> None:
    """Measured on another machine: there the runs belong."""
    with st.popover(f"Try it on {plain(pair.machine)}", icon=":material/terminal:"):
        st.caption("These runs belong to that machine. In this program's folder there:")
        for remedy in remedies:
            st.code(remedy.experiment.command, language="bash", wrap_lines=True)


def _button(
    remedy: Remedy, cause: Cause, pair: Comparison, store: Store, known: Sequence[KnownRun]
) -> None:
    """The id is in the key: a second press of the button that was drawn finds it gone."""
    numbers = [arm.runs[0].run.number for arm in (pair.baseline, pair.candidate)]
    slot = f"remedy {cause.kind} {remedy.name} {numbers}"
    experiment = remedy.experiment.changed(id=st.session_state.setdefault(slot, new_id()))
    seconds = estimate_seconds(experiment, known)
    runs = counted(len(experiment.runs()), "run")
    if st.button(
        f"Queue {remedy.name}",
        icon=":material/add:",
        key=f"{slot} {experiment.id}",
        help=f"{runs}, {estimate_text(seconds)}; all else as measured here.",
    ):
        store.queue(experiment)
        del st.session_state[slot]
        worker.ensure()
        st.switch_page(PAGES / "live.py", query_params={"experiment": experiment.id})


def _lack(remedy: Remedy, here: Capabilities) -> str:
    """The first thing of its runs that this machine cannot do; empty when it can all."""
    lacks = (lack for run in remedy.experiment.runs() for lack in lacks_of(run, here))
    return next(lacks, "")


def parts_card(pair: Comparison) -> None:
    """The chart of where the time goes: both arms, and the profiled step of the baseline."""
    before, after = parts(pair.baseline), parts(pair.candidate)
    shares = step_shares(pair.baseline)
    title = parts_title(pair, before, after)
    arms = [(pair.baseline.name, before), (pair.candidate.name, after)]
    figure = time_parts(arms, shares, unit=pair.unit, title=title)
    figure.update_layout(height=110 + BAR_HEIGHT * (3 if shares else 2))
    caption = _caption(pair, before, after, shares)
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown(f"**{plain(title)}**")
        st.caption(plain(caption))
        st.plotly_chart(figure, key="time_parts", config=CONFIG, alt=f"{title}. {caption}")


def _caption(
    pair: Comparison, before: Parts, after: Parts, shares: Mapping[str, float] | None
) -> str:
    words = [f"Parts of a mean steady {pair.unit} in per cent of that of {pair.baseline.name}."]
    if after.compiling or before.compiling:
        count = counted(after.count, pair.unit)
        words.append(f"Compiling is spread over the {count} measured.")
    if shares:
        told = sorted(shares.items(), key=lambda item: -item[1])
        named = [f"{KIND_NAMES.get(one, one)} {part:.0%}" for one, part in told if part >= 0.005]
        words.append(
            f"Its steps, profiled: {', '.join(named)}. Dark shades: what compile leaves as it is."
        )
    return " ".join(words).replace("%", "\u00a0%")


def with_stored_steps(pair: Comparison, store: Store) -> Comparison:
    numbers = [m.run.number for arm in (pair.baseline, pair.candidate) for m in arm.runs]
    return with_steps(pair, store.epochs(numbers, steps=True))
