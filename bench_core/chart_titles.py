"""Titles and captions of the charts by epoch: what each shows, what it counts. Pure; plain text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from bench_core.figures import Line, Saved
from bench_core.measured import Measured, cache_found
from bench_core.stats import percentiles
from bench_core.units import counted, duration_text, seconds_text

# Above this share over the median the slowest hundredth of the steps is worth a word.
UNEVEN = 1.15


def epochs_title(
    lines: Sequence[Line], steady_seconds: Mapping[str, float], baseline: str = "eager"
) -> str:
    """`Compiled epochs take 61.1 s against 66.2 s; the first took 131 s`.

    `steady_seconds` by arm, of the arms that have a steady state.
    """
    if not any(len(line.seconds) for line in lines):
        return "The first epoch has not ended yet"
    arms = [arm for arm in dict.fromkeys(line.arm for line in lines) if arm in steady_seconds]
    others = [arm for arm in arms if arm != baseline]
    if not arms:
        latest = [line for line in lines if len(line.seconds)][-1]
        return f"{_epochs_of(latest.arm)}: the first took {seconds_text(latest.seconds[0])}"
    if not others:
        return f"{_epochs_of(arms[0])} take {seconds_text(steady_seconds[arms[0]])}"
    first, *further = others
    words = f"{_epochs_of(first)} take {seconds_text(steady_seconds[first])}"
    for arm in further:
        words += f", {_epochs_of(arm, inside=True)} {seconds_text(steady_seconds[arm])}"
    if baseline in steady_seconds:
        words += f" against {seconds_text(steady_seconds[baseline])}"
    firsts = [line.seconds[0] for line in lines if line.arm == others[0] and len(line.seconds)]
    if len(others) == 1 and max(firsts) > 1.2 * steady_seconds[others[0]]:
        words += f"; the first took {seconds_text(max(firsts))}"
    return words


def _epochs_of(arm: str, inside: bool = False) -> str:
    if arm == "eager":
        return "eager epochs" if inside else "Eager epochs"
    if arm == "compile":
        return "compiled epochs" if inside else "Compiled epochs"
    return f"{'epochs' if inside else 'Epochs'} of {arm}"


def saved_title(saved: Saved | None) -> str:
    """`Even at epoch 14; 30 s saved by now`, before that `70 s behind; even at about epoch 14`."""
    if saved is None or not len(saved.seconds):
        return "Nothing to compare yet"
    now, even, measured = saved.seconds[-1], saved.even, len(saved.seconds)
    amount = duration_text(abs(now))
    standing = f"{amount} {'saved' if now >= 0 else 'behind'} by now"
    if even is None:
        return f"{amount} {'ahead' if now >= 0 else 'behind'} after {counted(measured, 'epoch')}"
    match even.kind:
        case "never":
            return f"Never even: {standing}"
        case "at once":
            return f"Ahead from the start; {standing}"
        case "ahead until":
            return f"Ahead until epoch {even.epoch}, then slower; {standing}"
        case "epoch" if even.epoch is not None and even.epoch <= measured:
            return f"Even at epoch {even.epoch}; {standing}"
        case _:
            return f"{standing[0].upper()}{standing[1:]}; even at about epoch {even.epoch}"


def training_caption(what: str, runs: Iterable[Measured], more: str = "") -> str:
    """`Seconds saved so far against eager, all compile time counted.`

    Where the runs evaluate it says that `what` is of training only, and what compiling the
    evaluation took on top: the mean of the runs that did not start from a warm cache, if any.
    """
    runs = list(runs)
    if not any(epoch.evaluation_seconds for one in runs for epoch in one.epochs):
        return f"{what}, all compile time counted{more}."
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
