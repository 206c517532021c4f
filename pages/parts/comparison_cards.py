"""Which cards stand below Compare's table, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from bench_core.comparison import Comparison
from bench_core.pair_figures import has_series
from bench_core.pairing import LeftOut, setting_of
from bench_core.run import Run
from bench_core.store import Store
from pages.parts import comparison_charts as charts
from pages.parts import comparison_latency as latency
from pages.parts.comparison_projection import projection_card
from pages.parts.comparison_table import facts_card, matrix_card
from pages.parts.comparison_words import vary_in
from pages.parts.diagnosis_card import diagnosis_card, parts_card, with_stored_steps
from pages.parts.planner_card import planner_card

Card = Callable[[], None]


def cards_of(
    chosen: Comparison,
    pairs: Sequence[Comparison],
    left_out: Sequence[LeftOut],
    machines: Sequence[str],
    store: Store,
    view: str,
    log: bool,
) -> list[Card]:
    """By size and over time, where the time goes, why, what it is worth, and what differs.

    An arm whose source states no single times has nothing over time, and no parts.
    """
    if not has_series(chosen):
        cards = _of_stated(chosen, pairs, machines)
    elif chosen.unit == "epoch":
        cards = _of_training(chosen, pairs, machines, view, log)
    else:
        cards = _of_inference(chosen, pairs, machines)
    stepped = with_stored_steps(chosen, store)
    # A function has no parts; a file that states no wait for data leaves them open, and with
    # them where the time goes.
    has_parts = has_series(chosen) and chosen.states("data_wait_seconds")
    if has_parts and not chosen.workload.is_function:
        cards.append(partial(parts_card, stepped))
    # The matrix is of one batch size and one variant: those of the chosen pair.
    alike = [pair for pair in pairs if like(pair.candidate.runs[0].run, chosen)]
    failed = [
        run
        for left in left_out
        for run in left.runs
        if run.status == "failed" and like(run, chosen)
    ]
    if len(alike) > 1 or failed:
        cards.append(partial(matrix_card, chosen, alike, failed, machines))
    if "side" not in chosen.axis:  # equal arms are worth nothing
        if has_parts:
            cards.append(partial(diagnosis_card, stepped, store))
        cards.append(partial(_worth, chosen))
    if chosen.unit == "epoch" and has_series(chosen):
        cards.append(partial(charts.epochs_card, chosen, log))
        if charts.has_loss(chosen):
            cards.append(partial(charts.loss_card, chosen, left_out, log))
    cards.append(partial(facts_card, chosen))
    return cards


def _of_stated(
    chosen: Comparison, pairs: Sequence[Comparison], machines: Sequence[str]
) -> list[Card]:
    several = len(charts.of_any_size(chosen, pairs)) > 1
    return [partial(charts.speedup_card, chosen, pairs, machines)] if several else []


def _worth(chosen: Comparison) -> None:
    """Two short cards beside the tall one that says why."""
    planner_card(chosen)
    projection_card(chosen)


def _of_training(
    chosen: Comparison, pairs: Sequence[Comparison], machines: Sequence[str], view: str, log: bool
) -> list[Card]:
    if view == "absolute":
        return [
            partial(charts.seconds_card, chosen, pairs),
            partial(charts.cumulative_card, chosen, log),
        ]
    saved = partial(charts.saved_card, chosen)
    # One point without a floor to hold it against says what the table does.
    sizes = len(charts.of_any_size(chosen, pairs))
    if sizes == 0 or (sizes == 1 and chosen.floor is None):
        return [saved]
    return [partial(charts.speedup_card, chosen, pairs, machines), saved]


def _of_inference(
    chosen: Comparison, pairs: Sequence[Comparison], machines: Sequence[str]
) -> list[Card]:
    work = chosen.workload
    speedup = partial(charts.speedup_card, chosen, pairs, machines)
    by_size = _others_vary(chosen, pairs, "batch_size")
    cards: list[Card]
    if work.is_function and by_size:
        cards = [partial(latency.sizes_card, chosen, pairs), speedup]
    else:
        cards = [partial(latency.latency_card, chosen, pairs)]
        if by_size and not work.is_function:
            cards.append(partial(latency.throughput_card, chosen, pairs))
    cards.append(partial(latency.first_card, chosen, pairs))
    cards.append(partial(charts.saved_card, chosen))
    if _others_vary(chosen, pairs, "precision"):
        cards.append(partial(latency.precision_card, chosen, pairs))
    if not work.is_function and len(charts.of_any_size(chosen, pairs)) > 1:
        cards.append(speedup)
    return cards


def _others_vary(chosen: Comparison, pairs: Sequence[Comparison], name: str) -> bool:
    """Whether the chosen pair's workload was measured with another value of that field too."""
    value = getattr(chosen.workload, name)
    return any(
        vary_in(name, pair, chosen) and getattr(pair.workload, name) != value for pair in pairs
    )


def like(run: Run, chosen: Comparison) -> bool:
    """Whether the run's arm, batch size and precision are those of the chosen pair."""
    if chosen.overridden:
        return False
    work, wanted = run.spec.workload, chosen.workload
    names = [name for name, _ in chosen.candidate.setting]
    return (
        run.spec.variant.arm == chosen.candidate.variant
        and setting_of(run.spec, names) == chosen.candidate.setting
        and work.batch_size == wanted.batch_size
        and work.precision == wanted.precision
    )
