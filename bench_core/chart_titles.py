"""Titles and captions of the charts by epoch or iteration: what each shows, what it counts.

Pure; plain text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from bench_core.figures import Line
from bench_core.measured import Measured, cache_found
from bench_core.saved_figure import Saved
from bench_core.stats import percentiles
from bench_core.units import counted, duration_text, place_text, seconds_text

# Above this share over the median the slowest hundredth of the steps is worth a word.
UNEVEN = 1.15
# With more arms than these beside the baseline a title names the fastest only.
MOST_NAMED = 2


def epochs_title(
    lines: Sequence[Line], steady_seconds: Mapping[str, float], baseline: str = "eager"
) -> str:
    """`Compiled epochs take 61.1 s against 66.2 s; the first took 131 s`.

    `steady_seconds` by arm, of the arms that have a steady state. In inference of iterations.
    """
    drawn = [line for line in lines if len(line.seconds)]
    unit = lines[0].unit if lines else "epoch"
    if not drawn:
        return f"The first {unit} has not ended yet"
    arms = [arm for arm in dict.fromkeys(line.arm for line in lines) if arm in steady_seconds]
    others = [arm for arm in arms if arm != baseline]
    if not arms:
        latest = drawn[-1]
        first = seconds_text(latest.seconds[0])
        return f"{_capital(_units_of(latest.arm, unit))}: the first took {first}"
    if not others:
        return f"{_capital(_units_of(arms[0], unit))} take {seconds_text(steady_seconds[arms[0]])}"
    if len(others) > MOST_NAMED:
        fastest = min(others, key=lambda arm: steady_seconds[arm])
        words = f"Fastest: {_units_of(fastest, unit)}, {seconds_text(steady_seconds[fastest])}"
        if baseline in steady_seconds:
            words += f" against {seconds_text(steady_seconds[baseline])} of {baseline}"
        return words
    first, *further = others
    words = f"{_capital(_units_of(first, unit))} take {seconds_text(steady_seconds[first])}"
    for arm in further:
        words += f", {_units_of(arm, unit)} {seconds_text(steady_seconds[arm])}"
    if baseline in steady_seconds:
        words += f" against {seconds_text(steady_seconds[baseline])}"
    firsts = [line.seconds[0] for line in drawn if line.arm == others[0]]
    if len(others) == 1 and max(firsts) > 1.2 * steady_seconds[others[0]]:
        first_one = "the first" if unit == "epoch" else "the first answer"
        words += f"; {first_one} took {seconds_text(max(firsts))}"
    return words


def _units_of(arm: str, unit: str) -> str:
    if arm in ("eager", "compile"):
        return f"{'compiled' if arm == 'compile' else arm} {unit}s"
    return f"{unit}s of {arm}"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def saved_title(saved: Saved | None) -> str:
    """`Even at epoch 14; 30 s saved by now`, before that `70 s behind; even at about epoch 14`."""
    if saved is None or not len(saved.seconds):
        return "Nothing to compare yet"
    now, even, measured = saved.seconds[-1], saved.even, len(saved.seconds)
    amount = duration_text(abs(now))
    standing = f"{amount} {'saved' if now >= 0 else 'behind'} by now"
    if even is None:
        side = "ahead" if now >= 0 else "behind"
        return f"{amount} {side} after {counted(measured, saved.unit)}"
    number = even.epoch or 0
    place = place_text(saved.unit, number, number > measured)
    match even.kind:
        case "never":
            return f"Never even: {standing}"
        case "at once" if min(saved.seconds) < 0:  # by its start-up it should not have been
            return _capital(standing)
        case "at once":
            return f"Ahead from the start; {standing}"
        case "ahead until":
            return f"Ahead until {place}, then slower; {standing}"
        case "epoch" if even.epoch is not None and even.epoch <= measured:
            return f"Even at {place}; {standing}"
        case _:
            return f"{_capital(standing)}; even at {place}"


def training_caption(what: str, runs: Iterable[Measured], more: str = "") -> str:
    """`Seconds saved so far against eager, all compile time counted.`

    In inference that is everything before the first answer: tracing and exporting too. Where the
    runs evaluate, and that is not counted in, it says that `what` is of training only, and what
    compiling the evaluation took on top: the mean of the runs that did not start from a warm
    cache, if any.
    """
    runs = list(runs)
    if any(one.unit == "iteration" for one in runs):
        return f"{what}, all that came before the first answer counted{more}."
    if not any(epoch.evaluation_seconds for one in runs for epoch in one.epochs):
        return f"{what}, all compile time counted{more}."
    if any(one.evaluation for one in runs):
        return f"{what}, testing and all compile time counted{more}."
    further: dict[bool, list[float]] = {True: [], False: []}
    for one in runs:
        seconds = sum(epoch.evaluation_compile_seconds or 0.0 for epoch in one.epochs)
        if seconds:
            further[cache_found(one.run) == "warm"].append(seconds)
    compiled = further[False] or further[True]
    apart = f" and compiled for another {seconds_text(fmean(compiled))}" if compiled else ""
    return (
        f"{what} in training, its compile time counted{more}; the evaluation is timed apart{apart}."
    )


def steps_title(steps: Mapping[str, Sequence[float]]) -> str:
    """`Steps are even: 975 ms, one in a hundred above 1.02 s`, of the arm measured last."""
    arms = [arm for arm, seconds in steps.items() if len(seconds)]
    if not arms:
        return "No step has been timed yet"
    middle, high = percentiles(steps[arms[-1]], [50, 99])
    of = "" if len(arms) == 1 else f" with {arms[-1]}"
    if len(steps[arms[-1]]) < 50:
        return f"Steps{of} take {seconds_text(middle)}"
    how = "are even" if high < UNEVEN * middle else "vary"
    return f"Steps{of} {how}: {seconds_text(middle)}, one in a hundred above {seconds_text(high)}"


def percentiles_title(known: Mapping[str, Mapping[int, float | None]]) -> str:
    """`Half of the iterations end within 55.0 ms, nine in ten within 55.4 ms`, of the last arm.

    `known` are the `known_percentiles` of each arm that has a steady state.
    """
    arm = list(known)[-1]
    of = "" if len(known) == 1 else f" with {arm}"
    words = f"Half of the iterations{of} end within {seconds_text(known[arm][50])}"
    high = seconds_text(known[arm][90])
    return f"{words}, nine in ten within {high}" if high else words


def tails_title(known: Mapping[str, Mapping[int, float | None]]) -> str:
    """`One iteration in a hundred takes over 71.6 ms with compile, 59.8 ms with eager`.

    Last arm first; `known` as in `percentiles_title`. One in ten, or in two, where there are few.
    """
    arms = list(known)
    shown = [arms[-1], arms[0]] if len(arms) > 1 else arms
    often = {99: "a hundred", 90: "ten", 50: "two"}
    q = next(q for q in often if all(known[arm][q] for arm in shown))
    words = ", ".join(f"{seconds_text(known[arm][q])} with {arm}" for arm in shown)
    return f"One iteration in {often[q]} takes over {words}"
