"""The three charts of the live page: seconds per epoch, seconds saved, single steps.

Each is built when there is something new and handed on as the same text otherwise, so that a
second in which nothing ended costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from bench_core.chart_titles import epochs_title, saved_title, steps_title, training_caption
from bench_core.figures import (
    Line,
    Saved,
    cumulative_seconds,
    epoch_seconds,
    seconds_saved,
    step_times,
)
from bench_core.measured import Arm
from bench_core.pairing import Comparison
from bench_core.run import ENDED
from bench_core.spec import Cache
from bench_core.stats import seconds_saved as saved_by_epoch
from bench_core.store import Store
from pages.parts.live_chart import Figure, live_chart
from pages.parts.live_reading import Cell, kept, latest_steps
from pages.parts.text import plain

HEIGHT = 290
CACHES: tuple[Cache, ...] = ("cold", "off", "warm")
SAVED, TOTALS = "Seconds saved", "Running totals"


@dataclass(frozen=True)
class Drawn:
    """A figure as the text that the browser gets; without one only the words stand there."""

    text: str
    title: str
    caption: str

    def to_json(self) -> str:
        return self.text


def draw_charts(cell: Cell, second: str, epochs: int, place: str) -> None:
    """The first two charts side by side. `place` names what is watched: another starts unzoomed."""
    left, right = st.columns(2, gap="small")
    with left:
        _card("epochs", (place, cell.key), lambda: _epochs_chart(cell, epochs, place))
    with right:
        build = _saved_chart if second == SAVED else _totals_chart
        _card("saved", (place, second, cell.key), lambda: build(cell, epochs, place))


def draw_steps(store: Store, cell: Cell, place: str) -> None:
    _card("steps", (place, cell.key), lambda: _steps_chart(latest_steps(store, cell), place))


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


def _epochs_chart(cell: Cell, epochs: int, place: str) -> Drawn:
    lines = [Line.of(one) for one in cell.measured if one.epochs]
    if not lines:
        return Drawn("", "No epoch has ended", "Seconds per epoch stand here once one has.")
    title = epochs_title(lines, steady_seconds(cell), cell.baseline)
    caption = "Seconds per epoch. Hatched: of which compiling."
    if any(sum(other.arm == line.arm for other in lines) > 1 for line in lines):
        caption = "Seconds per epoch, a line a run. Hatched: of which compiling."
    figure = epoch_seconds(lines, epochs=epochs, title=title, uirevision=place)
    return _drawn(figure, title, caption)


def steady_seconds(cell: Cell) -> dict[str, float]:
    """Seconds of a steady epoch by arm, of the arms that have a steady state."""
    arms = {name: _arms(cell, name)[0] for name in _names(cell)}
    return {name: arm.steady_seconds for name, arm in arms.items() if arm.medians}


def _saved_chart(cell: Cell, epochs: int, place: str) -> Drawn:
    curves = saved_curves(cell)
    if not curves:
        return _nothing_to_compare(cell)
    title = saved_title(curves[0])
    figure = seconds_saved(
        curves,
        baseline=cell.baseline,
        epochs=epochs,
        title=title,
        uirevision=f"{place} {SAVED}",
    )
    caption = training_caption(f"Seconds saved so far against {cell.baseline}", cell.measured)
    return _drawn(figure, title, caption)


def _totals_chart(cell: Cell, epochs: int, place: str) -> Drawn:
    curves = saved_curves(cell)
    if not curves:
        return _nothing_to_compare(cell)
    arm, _, seconds = _candidates(cell)[0]
    title = saved_title(curves[0])
    figure = cumulative_seconds(
        [Line(cell.baseline, _mean_epochs(cell, cell.baseline)), Line(arm, seconds)],
        even=curves[0].even,
        epochs=epochs,
        title=title,
        uirevision=f"{place} {TOTALS}",
    )
    caption = training_caption("Seconds since the first epoch began", cell.measured)
    return _drawn(figure, title, caption)


def _nothing_to_compare(cell: Cell) -> Drawn:
    if all(one.run.status in ENDED for one in cell.measured):
        caption = f"No epoch of another variant than {cell.baseline} was measured."
        return Drawn("", "Nothing to compare", caption)
    caption = f"Seconds saved against {cell.baseline} stand here once another variant has an epoch."
    return Drawn("", "Nothing to compare yet", caption)


def saved_curves(cell: Cell) -> list[Saved]:
    """Each other arm against the baseline, from each state of the cache it started from."""
    before = _mean_epochs(cell, cell.baseline)
    if not before:
        return []
    pairs = {p.candidate.variant.name: p for p in cell.comparisons if p.differs}
    curves = []
    for arm, cache, after in _candidates(cell):
        pair = pairs.get(arm)
        curves.append(
            Saved(
                arm=arm,
                seconds=saved_by_epoch(before, after),
                warm=cache == "warm",
                gain_seconds=_gain_seconds(pair) if pair else None,
                even=pair.break_even(cache) if pair and cache else None,
            )
        )
    return curves


def _gain_seconds(pair: Comparison) -> float:
    return pair.baseline.steady_seconds - pair.candidate.steady_seconds


def _candidates(cell: Cell) -> list[tuple[str, Cache | None, list[float]]]:
    """Arm, cache and mean epochs of what is compared; what is measured now comes first.

    Without a cache where all runs of an arm found theirs partly warm.
    """
    arms = _names(cell)
    pair = cell.candidate
    now = pair.candidate.variant.name if pair else None
    arms.sort(key=lambda arm: arm != now)
    found: list[tuple[str, Cache | None, list[float]]] = []
    for arm in arms:
        if arm != cell.baseline:
            starts = [(arm, cache, _mean_epochs(cell, arm, cache)) for cache in CACHES]
            known = [start for start in starts if start[2]]
            found += known or [(arm, None, _mean_epochs(cell, arm))]
    return [one for one in found if one[2]]


def _names(cell: Cell) -> list[str]:
    return list(dict.fromkeys(one.run.spec.variant.name for one in cell.measured))


def _arms(cell: Cell, name: str) -> list[Arm]:
    """The arm as it is compared, if it is by now; then the arm with all of its runs."""
    sides = (arm for pair in cell.comparisons for arm in (pair.baseline, pair.candidate))
    compared = [arm for arm in sides if arm.variant.name == name][:1]
    runs = tuple(one for one in cell.measured if one.run.spec.variant.name == name)
    return [*compared, *(Arm(one.run.spec.variant.arm, runs) for one in runs[:1])]


def _mean_epochs(cell: Cell, name: str, cache: Cache | None = None) -> list[float]:
    """Seconds of epoch 1, 2, ...; before an arm is compared those of its runs so far."""
    means = (arm.mean_series(cache) for arm in _arms(cell, name))
    return next((seconds for seconds in means if seconds), [])


def _steps_chart(steps: Mapping[str, Sequence[float]], place: str) -> Drawn:
    if not any(steps.values()):
        return Drawn("", "No step was timed", "Times of single steps stand here after an epoch.")
    title = steps_title(steps)
    figure = step_times(steps, title=title, uirevision=place)
    caption = "Time of single steps in the last three epochs, thinned to 300 points."
    return _drawn(figure, title, caption)
