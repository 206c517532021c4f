"""Causes in the compiling: start, graph breaks, recompiles, ragged batch, caches, CUDA graphs.

Each function gives a cause where it holds, and nothing where it does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean
from typing import Literal

from bench_core.cause import Case, Cause, percent
from bench_core.late_compiles import (
    FEWEST_STEPS,
    SETTLING_STEPS,
    Recompile,
    level_of_full_batches,
    recompiles,
)
from bench_core.measured import Arm, Measured, cache_found
from bench_core.remedies import Remedy, of_its_workload
from bench_core.spec import COMPILES, Variant
from bench_core.time_parts import compiling_seconds
from bench_core.units import counted, duration_text, seconds_text

MOST_NAMED = 5


def start_up(case: Case) -> Iterator[Cause]:
    pair, arm = case.pair, case.pair.candidate
    start = pair.first_start
    after = arm.excess_seconds(start)
    before = pair.baseline.excess_seconds(pair.baseline_start(start))
    if after is None or before is None:
        return
    shown = [one for one in arm.runs if start in (None, cache_found(one.run))]
    # Recompiles have their own causes, with their own price.
    apart = fmean(math.fsum(at.seconds for at in _told_apart(case, one)) for one in shown)
    compiling = fmean(map(compiling_seconds, shown)) - apart
    if compiling < 1e-6:  # what a difference of sums leaves of nothing
        return
    text = (
        f"Until it was steady it lost {duration_text(max(0.0, after))}; {pair.baseline.name} lost "
        f"{duration_text(max(0.0, before))}."
    )
    warm = arm.compile_seconds("warm")
    if start == "cold" and warm is not None:
        text += f" From a warm cache compiling took {seconds_text(warm)}."
    late = [
        f"{seconds_text(epoch.compile_seconds)} in epoch {epoch.epoch}"
        for epoch in shown[0].epochs[1:]
        if epoch.compile_seconds and pair.unit == "epoch"
    ]
    if apart:
        text += f" {duration_text(apart)} of that are recompiles, told and priced apart."
    elif late:
        text += f" Run {shown[0].run.number} compiled after its first epoch too: "
        text += f"{', '.join(late[:MOST_NAMED])}."
    if pair.differs and pair.speedup.ratio > 1:
        text += f" {pair.pays_off_text}"
    # What is exported or traced is made anew every time.
    by_cache = arm.variant.execution in COMPILES
    remedies: tuple[Remedy, ...] = ()
    if warm is None and by_cache and arm.variant.cache == "cold":
        # Runs of the arm are stored, but none from there.
        starts = case.remedy("a warm start", candidate=arm.variant.changed(cache="warm"))
        remedies = tuple(replace(one, measured=None) for one in starts)
    yield Cause(
        kind="start-up",
        title=f"{_making(arm.variant)} took {duration_text(compiling)}, paid at each start",
        text=text.strip(),
        sure="measured",
        seconds=max(0.0, after - before - apart) / case.after.count,
        next_step=(
            "Keep the compile cache between starts (TORCHINDUCTOR_CACHE_DIR), or make "
            if by_cache
            else "It has no cache that a start could find: make "
        )
        + f"more {pair.unit}s of each start.",
        remedies=remedies,
    )


def _making(variant: Variant) -> str:
    """What comes before the first steady call."""
    if variant.execution in COMPILES:
        return "Compiling"
    return "Exporting" if variant.execution == "export_aot" else "Tracing"


def _told_apart(case: Case, one: Measured) -> list[Recompile]:
    """The run's late compiles that other causes hold: those with a reason for recompiling."""
    of_ragged = _of_ragged_batch(case, one)
    if not _split_reasons(case, one)[1]:
        return of_ragged
    return recompiles(one)


def graph_breaks(case: Case) -> Iterator[Cause]:
    broken = [one for one in case.compiled if one.run.activity and one.run.activity.graph_breaks]
    if not broken:
        return
    run = broken[0].run
    reasons = run.activity.graph_breaks if run.activity else ()
    placed = [
        one
        for one in (run.aftermath.breaks if run.aftermath else ())
        if one.reason in reasons  # an evaluation's are not the training's
    ]
    told = [f"{one.place or 'place not known'}: {one.reason}" for one in placed]
    told += [reason for reason in reasons if reason not in {one.reason for one in placed}]
    count = len(told)
    text = "; ".join(told[:MOST_NAMED]) + ("; and more." if count > MOST_NAMED else ".")
    whole = [
        one
        for one in of_its_workload(case.others, case.pair)
        if one.run.spec.variant.execution == case.pair.candidate.variant.execution
        and _but_fullgraph(one.run.spec.variant) == _but_fullgraph(run.spec.variant)
        and one.steady.median_seconds is not None
        and one.run.activity
        and one.run.activity.graphs
        and not one.run.activity.graph_breaks
    ]
    price: float | None = None
    sure: Literal["measured", "not priced"] = "not priced"
    if whole:
        arm = Arm(whole[0].run.spec.variant.arm, tuple(whole))
        price = case.pair.candidate.steady_seconds - arm.steady_seconds
        sure = "measured"
        text += (
            f" Without a break {case.an_epoch} takes {seconds_text(arm.steady_seconds)} against "
            f"{seconds_text(case.pair.candidate.steady_seconds)} (measured, "
            f"{counted(len(whole), 'run')})."
        )
    else:
        text += " Not priced: no run of this workload without a break is stored."
    yield Cause(
        kind="graph breaks",
        title=f"{counted(count, 'graph break')}: between the graphs Python goes on",
        text=text,
        sure=sure,
        seconds=max(0.0, price) if price is not None else None,
        next_step="Change the lines named here; fullgraph=True then refuses any break that is "
        "left, and its run prices them.",
    )


def _but_fullgraph(variant: Variant) -> Variant:
    return variant.arm.changed(fullgraph=False)


_SIZES = re.compile(r"size mismatch at index 0\. expected (\d+), actual (\d+)")


def _split_reasons(case: Case, one: Measured) -> tuple[list[str], list[str]]:
    """The reasons for recompiles that the ragged batch gave, and the others."""
    work = case.pair.workload
    sizes = {str(work.batch_size), str(work.remainder)} if work.remainder else set()
    reasons = one.run.activity.recompiles if one.run.activity else ()
    ragged = [
        reason
        for reason in reasons
        if (found := _SIZES.search(reason)) and set(found.groups()) <= sizes
    ]
    return ragged, [reason for reason in reasons if reason not in ragged]


def _of_ragged_batch(case: Case, one: Measured) -> list[Recompile]:
    """Recompiles in the last step of an epoch; in runs that had the reason."""
    if not case.pair.workload.remainder or not _split_reasons(case, one)[0]:
        return []
    last = case.pair.workload.steps_per_epoch - 1
    return [late for late in recompiles(one) if late.step in (None, last)]


def recompiled(case: Case) -> Iterator[Cause]:
    for one in case.compiled:
        reasons = _split_reasons(case, one)[1]
        if not reasons:
            continue
        of_ragged = _of_ragged_batch(case, one)
        late = [at for at in recompiles(one) if at not in of_ragged]
        lost = math.fsum(at.seconds for at in late)
        if len(late) == len(reasons):
            told = [
                f"{_plain_reason(reason)} ({case.pair.unit} {at.epoch}, {seconds_text(at.seconds)})"
                for reason, at in zip(reasons, late, strict=True)
            ]
        else:
            told = [_plain_reason(reason) for reason in reasons]
        text = "; ".join(told[:MOST_NAMED]) + ("; and more." if len(told) > MOST_NAMED else ".")
        when = sorted({at.epoch for at in late})
        if late:
            epochs = ", ".join(map(str, when[:MOST_NAMED]))
            text += f" In run {one.run.number} they took {seconds_text(lost)} in {_blocks(case)} "
            text += f"{epochs}."
        else:
            text += " Their seconds lie in the first compile's windows."
        if one.run.activity and one.run.activity.recompile_limit_hit:
            text += " The recompile limit was hit: the rest ran as eager."
        title = f"{counted(len(reasons), 'recompile')} after the first compile"
        yield Cause(
            kind="recompiles",
            title=f"{title}: {seconds_text(lost)}" if late else title,
            text=text,
            sure="measured" if late else "not priced",
            seconds=lost / case.after.count if late else None,
            next_step="Keep shapes and Python values that the model reads the same from step to "
            "step, or compile for changing sizes with dynamic=True.",
            remedies=case.remedy(
                "dynamic=True", candidate=case.pair.candidate.variant.changed(dynamic=True)
            ),
        )
        return


def _plain_reason(reason: str) -> str:
    """Without the numbers of frame and compile that lead it."""
    return re.sub(r"^(\d+/\d+: )+", "", reason)


def _blocks(case: Case) -> str:
    return "epoch" if case.pair.unit == "epoch" else "block"


def ragged_batch(case: Case) -> Iterator[Cause]:
    pair, work = case.pair, case.pair.workload
    for one in case.compiled:
        late = _of_ragged_batch(case, one)
        if not late:
            continue
        lost = math.fsum(at.seconds for at in late)
        text = (
            f"{work.samples} samples end in a batch of {work.remainder}. torch.compile compiled "
            f"again for it: {seconds_text(lost)} in run {one.run.number}."
        )
        slower = 0.0
        level = level_of_full_batches(one)
        if level is None:
            text += (
                " What it did to the full batches is not priced: fewer than "
                f"{FEWEST_STEPS} of them before it, the first {SETTLING_STEPS} apart."
            )
        elif level.changed:
            ratio = level.after / level.before
            longer = "longer" if ratio > 1 else "less"
            text += (
                f" Since then the full batches take {percent(abs(ratio - 1))} {longer}: "
                f"{seconds_text(level.after)} a step, before {seconds_text(level.before)}."
            )
            if ratio < 1:
                text += " The device may have been warming up until then."
            slower = max(0.0, level.after - level.before) * (work.samples // work.batch_size)
        else:
            text += (
                f" The full batches run as fast as before: {seconds_text(level.after)} a step, "
                f"before {seconds_text(level.before)}."
            )
        remedies = case.remedy("drop_last", drop_last=True)
        if pair.candidate.variant.dynamic is None:
            static = pair.candidate.variant.changed(dynamic=False)
            remedies += case.remedy("dynamic=False", candidate=static)
        yield Cause(
            kind="ragged batch",
            title=f"The ragged last batch cost {seconds_text(lost)} of compiling"
            + (f" and {seconds_text(slower)} an epoch since" if slower else ""),
            text=text,
            sure="measured",
            seconds=lost / case.after.count + slower,
            next_step="Leave the last batch out in both arms, or compile each size for itself.",
            remedies=remedies,
        )
        return


def cache_state(case: Case) -> Iterator[Cause]:
    for one in case.compiled:
        asked, found = one.run.spec.variant.cache, cache_found(one.run)
        if asked == found:
            continue
        got = found or "some graphs cold and some warm"
        yield Cause(
            kind="cache state",
            title=f"Asked for a {asked} compile cache, got: {got}",
            text=f"Run {one.run.number} says so by the compiler's own counters. Its start-up is "
            f"that of {f'a {found} cache' if found else 'neither'}; steady times are not touched. "
            "Not priced.",
            sure="not priced",
            seconds=None,
            next_step="Measure once more, so that the start has folders of its own.",
        )
        return


def cuda_graphs(case: Case) -> Iterator[Cause]:
    did = [one.run.activity for one in case.compiled if one.run.activity]
    skipped = max((activity.cudagraph_skips for activity in did), default=0)
    if not skipped:
        return
    variant = case.pair.candidate.variant
    remedies = case.remedy("drop_last", drop_last=True) if case.pair.workload.remainder else ()
    if variant.mode:
        remedies += case.remedy("compile without CUDA graphs", candidate=variant.changed(mode=None))
    yield Cause(
        kind="CUDA graphs",
        title=f"{counted(skipped, 'CUDA graph')} asked for and not made",
        text="Those parts are launched kernel by kernel, as without this mode. Changing shapes, "
        "changed inputs and work on the CPU prevent it; the run's log says which. Not priced.",
        sure="not priced",
        seconds=None,
        next_step="Keep shapes the same, or compare with compile without CUDA graphs.",
        remedies=remedies,
    )
