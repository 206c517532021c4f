"""The three charts of the live page: seconds per epoch, seconds saved, single steps.

In inference latencies by iteration, seconds saved or percentiles, and how the latencies scatter.
Each is built when there is something new and handed on as the same text otherwise, so that a
second in which nothing ended costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from bench_core.chart_frame import MOST_POINTS
from bench_core.chart_titles import (
    epochs_title,
    percentiles_title,
    saved_title,
    steps_title,
    tails_title,
    training_caption,
)
from bench_core.comparison import Comparison
from bench_core.figures import Line, cumulative_seconds, epoch_seconds, mean_series, step_times
from bench_core.iteration_figures import Latencies, latency_shares, running_percentiles
from bench_core.measured import Arm
from bench_core.run import ENDED
from bench_core.saved_figure import Saved, break_even_from, seconds_saved
from bench_core.spec import Cache
from bench_core.stats import seconds_saved as saved_by_epoch
from bench_core.store import Store
from pages.parts.live_chart import Figure, live_chart
from pages.parts.live_reading import Cell, kept, latest_steps
from pages.parts.text import plain

HEIGHT = 290
CACHES: tuple[Cache, ...] = ("cold", "off", "warm")
SAVED, TOTALS, PERCENTILES = "Seconds saved", "Running totals", "Percentiles"
# What the second chart may be, by what is measured.
SECOND = {"epoch": (SAVED, TOTALS), "iteration": (SAVED, PERCENTILES)}
# A break-even so many times beyond what is measured is worth a longer axis.
FARTHEST_EVEN = 50


@dataclass(frozen=True)
class Drawn:
    """A figure as the text that the browser gets; without one only the words stand there."""

    text: str
    title: str
    caption: str

    def to_json(self) -> str:
        return self.text


def draw_charts(cell: Cell, second: str, count: int, place: str) -> None:
    """The first two charts side by side, up to `count` epochs or iterations.

    `place` names what is watched: another starts unzoomed.
    """
    build = {SAVED: _saved_chart, TOTALS: _totals_chart, PERCENTILES: _percentiles_chart}[second]
    left, right = st.columns(2, gap="small")
    with left:
        _card("epochs", (place, cell.key), lambda: _series_chart(cell, count, place))
    with right:
        _card("saved", (place, second, cell.key), lambda: build(cell, count, place))


def draw_single(store: Store, cell: Cell, place: str) -> None:
    """The third chart: single steps of the last epochs, or how single iterations scatter."""
    if cell.unit == "epoch":
        _card("steps", (place, cell.key), lambda: _steps_chart(latest_steps(store, cell), place))
    else:
        _card("steps", (place, cell.key), lambda: _shares_chart(cell, place))


def _card(name: str, key: Hashable, build: Callable[[], Drawn]) -> None:
    drawn = kept(f"live_{name}", key, build)
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown(f"**{plain(drawn.title)}**")
        st.caption(plain(drawn.caption))
        if drawn.text:
            live_chart(
                drawn, key=f"{name}_chart", height=HEIGHT, alt=f"{drawn.title}. {drawn.caption}"
            )


def _drawn(figure: Figure, title: str, caption: str) -> Drawn:
    return Drawn(figure.to_json() or "", title, caption)


def _series_chart(cell: Cell, count: int, place: str) -> Drawn:
    lines = [Line.of(one, cell.arm_name(one)) for one in cell.measured if one.epochs]
    unit = cell.unit
    what = {"epoch": "Seconds per epoch", "iteration": "Latency of each iteration"}[unit]
    if not lines:
        return Drawn("", f"No {unit} has ended", f"{what} stands here once one has.")
    title = epochs_title(lines, steady_seconds(cell), cell.baseline)
    several = any(sum(other.arm == line.arm for other in lines) > 1 for line in lines)
    hatched = "of which compiling" if unit == "epoch" else "compiling, tracing or exporting"
    lines_are = ", a line a run" if several else ""
    if unit == "iteration" and any(len(line.seconds) > MOST_POINTS for line in lines):
        lines_are += ": medians over the pale single ones"
    caption = f"{what}{lines_are}. Hatched: {hatched}."
    figure = epoch_seconds(lines, epochs=count, title=title, uirevision=place)
    return _drawn(figure, title, caption)


def steady_seconds(cell: Cell) -> dict[str, float]:
    """Seconds of a steady epoch or iteration by arm, of the arms that have a steady state."""
    arms = {name: _arms(cell, name)[0] for name in cell.arms}
    return {name: arm.steady_seconds for name, arm in arms.items() if arm.medians}


def _saved_chart(cell: Cell, count: int, place: str) -> Drawn:
    curves = saved_curves(cell)
    if not curves:
        return _nothing_to_compare(cell)
    title = saved_title(curves[0])
    figure = seconds_saved(
        curves,
        baseline=cell.baseline,
        epochs=_reach(curves[0], count),
        title=title,
        uirevision=f"{place} {SAVED}",
    )
    caption = training_caption(f"Seconds saved so far against {cell.baseline}", cell.measured)
    return _drawn(figure, title, caption)


def _reach(curve: Saved, count: int) -> int:
    """How far the axis goes: iterations are many, so it goes on to a break-even beyond them."""
    even = curve.even.epoch if curve.even else None
    if curve.unit == "epoch" or even is None or not count < even <= FARTHEST_EVEN * count:
        return count
    return round(1.25 * even)


def _totals_chart(cell: Cell, count: int, place: str) -> Drawn:
    curves = saved_curves(cell)
    if not curves:
        return _nothing_to_compare(cell)
    arm, _, seconds = _candidates(cell)[0]
    title = saved_title(curves[0])
    figure = cumulative_seconds(
        [Line(cell.baseline, _mean_epochs(cell, cell.baseline)), Line(arm, seconds)],
        even=curves[0].even,
        epochs=count,
        title=title,
        uirevision=f"{place} {TOTALS}",
    )
    caption = training_caption("Seconds since the first epoch began", cell.measured)
    return _drawn(figure, title, caption)


def _nothing_to_compare(cell: Cell) -> Drawn:
    unit = cell.unit
    if all(one.run.status in ENDED for one in cell.measured):
        caption = f"No {unit} of another variant than {cell.baseline} was measured."
        return Drawn("", "Nothing to compare", caption)
    what = f"Seconds saved against {cell.baseline}"
    caption = f"{what} stand here once {cell.baseline} and another variant have an {unit}."
    return Drawn("", "Nothing to compare yet", caption)


def saved_curves(cell: Cell) -> list[Saved]:
    """Each other arm against the baseline, from each state of the cache it started from."""
    before = _mean_epochs(cell, cell.baseline)
    if not before:
        return []
    pairs = {p.candidate.name: p for p in cell.comparisons if p.differs}
    curves = []
    for arm, cache, after in _candidates(cell):
        pair = pairs.get(arm)
        curves.append(
            Saved(
                arm=arm,
                seconds=saved_by_epoch(before, after),
                warm=cache == "warm",
                gain_seconds=_gain_seconds(pair) if pair else None,
                even=break_even_from(pair, cache) if pair else None,
                unit=cell.unit,
            )
        )
    return curves


def _gain_seconds(pair: Comparison) -> float:
    return pair.baseline.steady_seconds - pair.candidate.steady_seconds


def _candidates(cell: Cell) -> list[tuple[str, Cache | None, list[float]]]:
    """Arm, cache and mean epochs of what is compared; what is measured now comes first.

    Without a cache where all runs of an arm found theirs partly warm.
    """
    arms = list(cell.arms)
    pair = cell.candidate
    now = pair.candidate.name if pair else None
    arms.sort(key=lambda arm: arm != now)
    found: list[tuple[str, Cache | None, list[float]]] = []
    for arm in arms:
        if arm != cell.baseline:
            starts = [(arm, cache, _mean_epochs(cell, arm, cache)) for cache in CACHES]
            known = [start for start in starts if start[2]]
            found += known or [(arm, None, _mean_epochs(cell, arm))]
    return [one for one in found if one[2]]


def _arms(cell: Cell, name: str) -> list[Arm]:
    """The arm as it is compared, if it is by now; then the arm with all of its runs."""
    sides = (arm for pair in cell.comparisons for arm in (pair.baseline, pair.candidate))
    compared = [arm for arm in sides if arm.name == name][:1]
    return [*compared, cell.arm(cell.arms[name])]


def _mean_epochs(cell: Cell, name: str, cache: Cache | None = None) -> list[float]:
    """Seconds of epoch 1, 2, ...; before an arm is compared those of its runs so far."""
    means = (mean_series(arm, cache) for arm in _arms(cell, name))
    return next((seconds for seconds in means if seconds), [])


def _steps_chart(steps: Mapping[str, Sequence[float]], place: str) -> Drawn:
    if not any(steps.values()):
        return Drawn("", "No step was timed", "Times of single steps stand here after an epoch.")
    title = steps_title(steps)
    figure = step_times(steps, title=title, uirevision=place)
    caption = "Time of single steps in the last three epochs, thinned to 300 points."
    return _drawn(figure, title, caption)


def _steady_arms(cell: Cell) -> dict[str, Arm]:
    """The arms that have steady iterations, by name; that of the answer comes last."""
    found = {name: _arms(cell, name)[0] for name in cell.arms}
    if cell.candidate:
        answer = cell.candidate.candidate.name
        found[answer] = found.pop(answer)
    return {name: arm for name, arm in found.items() if arm.medians}


def _percentiles_chart(cell: Cell, count: int, place: str) -> Drawn:
    arms = _steady_arms(cell)
    if not arms:
        return _nothing_steady()
    title = percentiles_title({name: arm.known_percentiles() for name, arm in arms.items()})
    latencies = _latencies(arms)
    figure = running_percentiles(latencies, title=title, uirevision=f"{place} {PERCENTILES}")
    caption = f"Percentiles of the steady iterations so far: 50 thick, 90 thin{_lines(latencies)}."
    return _drawn(figure, title, caption)


def _shares_chart(cell: Cell, place: str) -> Drawn:
    arms = _steady_arms(cell)
    if not arms:
        return _nothing_steady()
    title = tails_title({name: arm.known_percentiles() for name, arm in arms.items()})
    latencies = _latencies(arms)
    figure = latency_shares(latencies, title=title, uirevision=place)
    caption = f"Share of the steady iterations that end within a time{_lines(latencies)}."
    return _drawn(figure, title, caption)


def _latencies(arms: Mapping[str, Arm]) -> Latencies:
    return {name: [one.steady_seconds for one in arm.runs] for name, arm in arms.items()}


def _lines(latencies: Latencies) -> str:
    """Said where an arm has several: the title's numbers are means over them."""
    several = any(sum(map(bool, runs)) > 1 for runs in latencies.values())
    return ", a line a run; the title holds means over the runs" if several else ""


def _nothing_steady() -> Drawn:
    caption = "Latencies stand here once start-up and compiling are over."
    return Drawn("", "No steady iteration yet", caption)
