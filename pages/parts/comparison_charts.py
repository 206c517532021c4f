"""The charts of Compare: one card each, titled with what it shows, for one chosen pair."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import streamlit as st

from bench_core import figures, pair_figures
from bench_core.batch_figures import SecondsBar, absolute_seconds_by_batch
from bench_core.chart_frame import CONFIG, on_log_axes
from bench_core.chart_titles import epochs_title, training_caption
from bench_core.comparison import Comparison
from bench_core.loss_figure import loss_by_epoch
from bench_core.measured import Measured
from bench_core.pairing import LeftOut
from bench_core.spec import Cache
from bench_core.units import count_text
from pages.parts.comparison_titles import batch_title, even_title
from pages.parts.comparison_words import (
    of_machine,
    pair_name,
    parity_text,
    same_arm,
    workloads_vary_in,
)
from pages.parts.text import plain

HEIGHT = 290


def chart_card(
    title: str, caption: str, figure: Any, key: str, *, height: int = HEIGHT, note: str = ""
) -> None:
    """`note` is Markdown of our own between the caption and the chart."""
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown(f"**{plain(title)}**")
        st.caption(plain(caption))
        if note:
            st.markdown(note)
        figure.update_layout(height=height)
        st.plotly_chart(figure, key=key, config=CONFIG, alt=f"{title}. {caption}")


def speedup_card(chosen: Comparison, pairs: Sequence[Comparison], machines: Sequence[str]) -> None:
    """Speedup by size, a line a machine; the chosen pair's model, precision and arm."""
    alike = of_any_size(chosen, pairs)
    title = batch_title([pair for pair in alike if pair.machine == chosen.machine], absolute=False)
    figure, caption = pair_figures.speedup_by_size(chosen, alike, machines, title)
    figure.update_xaxes(title_text=size_word(chosen))
    figure.update_xaxes(ticktext=[count_text(size) for size in figure.layout.xaxis.tickvals])
    chart_card(title, caption, figure, "by_batch")


def seconds_card(chosen: Comparison, pairs: Sequence[Comparison]) -> None:
    """Steady seconds per epoch by batch size, a bar an arm, on the chosen pair's machine."""
    alike = [pair for pair in of_any_size(chosen, pairs) if pair.machine == chosen.machine]
    bars = [
        SecondsBar(arm.name, pair.workload.batch_size, arm.steady_seconds)
        for pair in alike
        for arm in (pair.baseline, pair.candidate)
    ]
    title = batch_title(alike, absolute=True)
    caption = f"{chosen.workload.model} on {chosen.machine}: seconds of a steady epoch."
    figure = absolute_seconds_by_batch(bars, title=title)
    chart_card(title, caption, figure, "by_batch")


def of_any_size(chosen: Comparison, pairs: Sequence[Comparison]) -> list[Comparison]:
    """Those of the chosen arm that differ from the chosen one in size and machine at most.

    A machine's are of one device, one torch and as many threads: those of the chosen one, and on
    the other machines those of the chosen one's device if there are any, of the latest else.
    """
    alike = [
        pair
        for pair in pairs
        if same_arm(pair, chosen)
        and workloads_vary_in("batch_size", pair, chosen)
        and pair.states("batch_size")
    ]
    shown = {chosen.machine: chosen}
    for pair in sorted(
        alike, key=lambda pair: (pair.device != chosen.device, -pair.candidate.runs[0].run.number)
    ):
        shown.setdefault(pair.machine, pair)
    return [pair for pair in alike if of_machine(pair) == of_machine(shown[pair.machine])]


def size_word(pair: Comparison) -> str:
    return "input size n" if pair.workload.is_function else "batch size"


def saved_card(chosen: Comparison) -> None:
    """Seconds saved against the baseline, from a cold and from a warm cache."""
    title = even_title(chosen)
    figure, caption = pair_figures.saved(chosen, title)
    chart_card(title, caption, figure, "over_epochs")


def cumulative_card(chosen: Comparison, log: bool) -> None:
    """Seconds since the start of both arms, from a cold cache or none if that was measured."""
    cold = chosen.candidate.mean_series("cold") or chosen.candidate.mean_series("off")
    lines = [
        figures.Line(
            chosen.baseline.name,
            chosen.baseline.mean_series(chosen.baseline_start(chosen.first_start)),
        ),
        figures.Line(chosen.candidate.name, cold or chosen.candidate.mean_series()),
    ]
    even = chosen.break_even_cold if cold and chosen.differs else None
    start: Cache = "cold" if chosen.break_even("cold") else "off"
    ends = chosen.break_even_interval(start) if even else None
    title = even_title(chosen)
    figure = figures.cumulative_seconds(lines, even=even, even_ends=ends, title=title)
    caption = training_caption("Seconds since the first epoch began", _runs(chosen))
    if figure.layout.annotations:
        caption += " Ring: the first crossing, as measured."
    if figure.layout.shapes:
        caption += " Dotted: the break-even" + (", with its 95 % interval." if ends else ".")
    chart_card(title, caption, on_log_axes(figure) if log else figure, "over_epochs")


def _runs(pair: Comparison) -> tuple[Measured, ...]:
    return (*pair.baseline.runs, *pair.candidate.runs)


def epochs_card(chosen: Comparison, log: bool) -> None:
    """Seconds of each epoch of every run of the pair."""
    arms = (chosen.baseline, chosen.candidate)
    lines = [figures.Line.of(one, arm.name) for arm in arms for one in arm.runs]
    steady = {arm.name: arm.steady_seconds for arm in arms}
    title = epochs_title(lines, steady, chosen.baseline.name)
    figure = figures.epoch_seconds(lines, title=title)
    caption = f"{pair_name(chosen)}. Seconds of each epoch, a line a run."
    chart_card(title, caption, on_log_axes(figure) if log else figure, "epochs")


def loss_card(chosen: Comparison, left_out: Sequence[LeftOut], log: bool) -> None:
    """Loss curves of both arms from the same seed, parity's verdict, and where a loss became NaN.

    Needs `has_loss`.
    """
    losses, shared = _loss_curves(chosen)
    # At an epoch that both arms have: one that was stopped earlier has a higher loss for no fault.
    last = min(max(map(len, curves)) for curves in losses.values())
    ends = {
        arm: fmean(curve[last - 1] for curve in curves if len(curve) >= last)
        for arm, curves in losses.items()
    }
    ended = ", ".join(f"{arm} {loss:.3g}" for arm, loss in ends.items())
    title = f"Losses in epoch {last}: {ended}"
    figure = loss_by_epoch(losses, title=title)
    caption = "Mean training loss of each epoch, a line a run" + (
        f", from seed {', '.join(map(str, shared))}."
        if shared
        else ". The arms started from different seeds, so their losses differ anyway."
    )
    notes = [
        f":small[:red[:material/error:] {plain(text)}]" for text in _nan_texts(chosen, left_out)
    ]
    if chosen.candidate.parity:
        notes.append(f":small[{plain(parity_text(chosen.candidate.parity))}]")
    figure = on_log_axes(figure) if log else figure
    chart_card(title, caption, figure, "loss", note="  \n".join(notes))


def _nan_texts(chosen: Comparison, left_out: Sequence[LeftOut]) -> list[str]:
    """Runs of the pair's arms whose loss became NaN: they failed and are in no curve."""
    arms = {chosen.baseline.variant, chosen.candidate.variant}
    return [
        f"Run {run.number}, {run.spec.variant.name}: {run.reason or 'the loss became NaN'}"
        for left in left_out
        for run in left.runs
        if run.failure == "nan loss"
        and run.spec.workload == chosen.workload
        and run.spec.variant.arm in arms
    ]


def has_loss(chosen: Comparison) -> bool:
    return len(_loss_curves(chosen)[0]) == 2


def _loss_curves(chosen: Comparison) -> tuple[dict[str, list[list[float]]], list[int]]:
    """Curves by arm, of runs from the seeds that both have; of all runs where none is shared."""
    found: dict[str, dict[int, list[list[float]]]] = {}
    for arm in (chosen.baseline, chosen.candidate):
        for one in arm.runs:
            curve = [epoch.loss for epoch in one.epochs if epoch.loss is not None]
            if curve:
                of_seeds = found.setdefault(arm.name, {})
                of_seeds.setdefault(one.run.spec.measurement.seed, []).append(curve)
    shared = sorted(set.intersection(*map(set, found.values())) if found else ())
    losses = {
        arm: [
            curve
            for seed, curves in of_seeds.items()
            for curve in curves
            if seed in shared or not shared
        ]
        for arm, of_seeds in found.items()
    }
    return losses, shared
