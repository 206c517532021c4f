"""What the command line prints of runs and comparisons: tables and answers. No logic."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import click

from bench_core import inference_tables, pairing, stats
from bench_core.comparison import Comparison, told_apart
from bench_core.comparison_json import means_by_task
from bench_core.doubts import doubts_text
from bench_core.measured import Arm, Measured
from bench_core.run import NOT_STATED, Run
from bench_core.spec import Experiment, Measurement, Task
from bench_core.units import bytes_text, counted, interval_text, ratio_text, seconds_text
from bench_core.until_sure import outcome_text

WIDTH = 116
# So many runs are named one by one; of more, so many models and reasons of a kind.
MOST_NUMBERS, MOST_NAMED = 12, 6
OF_THE_OTHER_TASK: dict[Task, tuple[str, ...]] = {
    "train": ("iterations", "grad_mode", "compile_in_grad_mode", "backward"),
    "infer": (
        "epochs", "optimizer", "learning_rate", "evaluate", "drop_last", "steps_per_epoch",
        "remainder",
    ),
}  # fmt: skip
# A function makes its own input of size n.
NOT_OF_FUNCTIONS = ("dataset", "image_size", "samples", "pipeline", "loader_workers", "weights")


def print_runs(measured: list[Measured]) -> None:
    """A table a task: training counts epochs, inference iterations and their percentiles.

    What has stated times in the place of single ones stands in a third.
    """
    for of_it, head, row in (
        (_has_epochs, TRAINING_HEAD, _training_row),
        (_has_calls, inference_tables.RUN_HEAD, inference_tables.run_row),
        (_is_stated, STATED_HEAD, _stated_row),
    ):
        rows = [row(one) for one in measured if of_it(one)]
        if rows:
            click.echo()
            print_table(head, rows)
    for one in measured:
        if one.run.status == "failed":
            click.echo(f"run {one.run.number} failed: {one.run.reason}")
        if one.run.protocol_note:
            click.echo(f"run {one.run.number} {one.run.protocol_note}")


TRAINING_HEAD = (
    "run", "model", "batch", "variant", "status", "epochs", "first", "compiling", "steady epoch",
    "peak memory",
)  # fmt: skip


def _training_row(one: Measured) -> tuple[str, ...]:
    work = one.run.spec.workload
    return (
        str(one.run.number),
        work.model,
        str(work.batch_size) if one.run.states("batch_size") else "",
        _variant_text(one.run),
        one.run.status,
        str(len(one.epochs)),
        seconds_text(one.first_seconds),
        seconds_text(one.compile_seconds) if one.compile_seconds else "",
        seconds_text(one.steady.median_seconds),
        bytes_text(max((e.peak_memory_bytes or 0 for e in one.epochs), default=0) or None),
    )


STATED_HEAD = (
    "run", "model", "size", "precision", "variant", "status", "stated", "start-up", "peak memory",
    "machine", "file",
)  # fmt: skip


def _is_stated(one: Measured) -> bool:
    return one.run.stated is not None


def _has_epochs(one: Measured) -> bool:
    return one.unit == "epoch" and not one.run.stated


def _has_calls(one: Measured) -> bool:
    return one.unit == "iteration" and not one.run.stated


def _stated_row(one: Measured) -> tuple[str, ...]:
    run, work = one.run, one.run.spec.workload
    return (
        str(run.number),
        work.model_name,
        work.size_text if run.states("batch_size") else "",
        work.precision if run.states("precision") else "",
        run.spec.variant.name,
        run.status,
        f"{seconds_text(one.steady.median_seconds)} an {one.unit}",
        seconds_text(one.excess_seconds),
        bytes_text(one.peak_memory_bytes),
        run.machine,
        run.source.file if run.source else "",
    )


def _variant_text(run: Run) -> str:
    """With the side, where equal arms have one."""
    side = run.spec.measurement.side
    return f"{side}: {run.arm_with_cache}" if side else run.arm_with_cache


def print_sureness(experiment: Experiment, measured: list[Measured]) -> None:
    """`small_cnn, batch 16: sure after 4 of at most 12 pairs: ±1.8 %`, a line a cell."""
    cells: dict[int | None, list[Measured]] = defaultdict(list)
    for one in measured:
        cells[one.run.cell].append(one)
    for cell in cells.values():
        if outcome := outcome_text(experiment, cell):
            work = cell[0].run.spec.workload
            click.echo(f"{work.model}, {work.size_text}: {outcome}")


def print_answers(measured: list[Measured], found: pairing.Comparisons) -> None:
    """Training: a few sentences a comparison. Inference: the table of the arms."""
    for pair in found.pairs:
        if pair.unit == "iteration":
            continue
        try:
            _ = pair.speedup
        except stats.ScipyMissing as missing:  # the one thing a notebook may lack
            click.echo(f"\n{pair.workload.model}: {missing}")
            continue
        click.echo(f"\n{pair.headline}.\n  {pair.detail}")
        if doubts := doubts_text(pair):
            click.echo(f"  {doubts}")
        if pair.speedup.kind != "first look" and pair.shows_difference:
            click.echo(f"  {pair.saving_text}")
    print_arms(measured, found)


def print_arms(measured: list[Measured], found: pairing.Comparisons) -> None:
    """A table for each workload on each machine; below it what is too long for a cell."""
    for table in inference_tables.arm_tables(measured, found):
        click.echo(f"\n{table.title}")
        print_table(table.head, table.rows)
        for note in table.notes:
            click.echo(click.wrap_text(note, WIDTH, "  ", "    "))
    if sentences := inference_tables.size_sentences(found):
        click.echo()
    for sentence in sentences:
        click.echo(f"{sentence}.")


def print_comparisons(measured: list[Measured], found: pairing.Comparisons) -> None:
    """Training in one table, a comparison a row; inference as arms beside each other.

    Inference whose times are stated only has no percentiles to set beside each other: a row too.
    """
    in_rows = [pair for pair in found.pairs if pair.unit == "epoch" or _of_stated(pair)]
    if in_rows:
        usual = all(pair.axis == ("variant",) for pair in in_rows)
        arms = ("variant",) if usual else ("arm", "against")
        told = told_apart(in_rows)
        also = ("also",) if any(told) else ()
        head = ("model", "machine", "batch", *also, *arms, "speedup", "95 % interval", "runs")
        rows = [
            _answer_row(pair, (words,) if also else ())
            for pair, words in zip(in_rows, told, strict=True)
        ]
        print_table((*head, "verdict", "pays off"), rows)
    for means in means_by_task(in_rows).values():
        several = [mean for mean in means.means if mean.workloads > 1]
        for mean in several:
            noun = "first look" if means.first_looks else "comparison"
            over = counted(mean.workloads, noun)
            click.echo(f"geometric mean of {mean.name}: {ratio_text(mean.ratio)} over {over}")
        for clause in means.left_out if several else ():
            click.echo(f"  {clause}")
    print_arms(measured, found)


def _of_stated(pair: Comparison) -> bool:
    return any(m.run.stated for arm in (pair.baseline, pair.candidate) for m in arm.runs)


def print_left_out(found: pairing.Comparisons, failed: bool = True) -> None:
    """Runs without a part in any ratio; without the failed ones where these were named before."""
    for kind, alike in found.left_out_kinds.items():
        runs = [run for left in alike for run in left.runs if failed or run.status != "failed"]
        if len(runs) <= MOST_NUMBERS:
            for left in alike:
                numbers = ", ".join(str(run.number) for run in left.runs if run in runs)
                if numbers:
                    click.echo(f"left out: run {numbers}: {left.reason}")
            continue
        click.echo(f"left out: {counted(len(runs), 'run')}: {kind}")
        reasons = Counter(left.reason for left in alike for _ in left.runs)
        if len(reasons) > 1:
            for reason, count in reasons.most_common(MOST_NAMED):
                click.echo(f"  {counted(count, 'run')}: {reason}")
        models = list(dict.fromkeys(run.spec.workload.model_name for run in runs))
        more = f" and {len(models) - MOST_NAMED} more" if len(models) > MOST_NAMED else ""
        click.echo(f"  {', '.join(models[:MOST_NAMED])}{more}")


def print_series(one: Measured) -> None:
    """The times of one run: each epoch or block, then its steady state."""
    head: tuple[str, ...] = ("epoch", "wall", "data wait", "compiling")
    if one.unit == "iteration":
        head = ("block", "calls", "median call", *head[1:])
    rows = []
    for epoch in one.epochs:
        cells = [str(epoch.epoch)]
        if one.unit == "iteration":
            median = stats.percentiles(epoch.step_seconds, (50,))[0]
            cells += [str(len(epoch.step_seconds)), seconds_text(median)]
        parts = [seconds_text(epoch.wall_seconds)]
        for name in ("data_wait_seconds", "compile_seconds"):
            parts.append(seconds_text(getattr(epoch, name)) if one.run.states(name) else "")
        rows.append((*cells, *parts))
    click.echo()
    if rows:
        print_table(head, rows)
    steady = one.steady
    if one.run.stated:
        starts = f", its start {seconds_text(one.excess_seconds)}" if one.excess_seconds else ""
        peak = bytes_text(one.peak_memory_bytes)
        used = f", peak memory {peak}" if peak else ""
        click.echo(
            f"stated: {seconds_text(steady.median_seconds)} an {one.unit}, without single times"
            f"{starts}{used}"
        )
        return
    if steady.first is None or steady.spread is None:
        click.echo(f"no steady state: {steady.reason}")
        return
    click.echo(
        f"steady from {one.unit} {steady.first + 1}: median {seconds_text(steady.median_seconds)}, "
        f"spread {steady.spread:.1%}"
    )
    if one.unit == "iteration":
        found = Arm(one.run.spec.variant.arm, (one,)).known_percentiles()
        shown = ", ".join(f"p{q} {seconds_text(s)}" for q, s in found.items() if s is not None)
        made = inference_tables.MADE_BY.get(one.run.spec.variant.execution)
        before = f", of which {made} {seconds_text(one.execution_seconds)}" if made else ""
        click.echo(f"{shown}; first call {seconds_text(one.first_seconds)}{before}")


def print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as their widest cell; every row has as many cells as the head."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def print_run_facts(run: Run) -> None:
    """What was asked for and what was found out, but for the times."""
    unread = OF_THE_OTHER_TASK[run.spec.workload.task]
    if run.spec.workload.is_function:
        unread += NOT_OF_FUNCTIONS
    # Another tool's file says nothing of how often and how long this one would measure.
    unread += (*run.unstated, *(Measurement.model_fields if run.by_another_tool else ()))
    unread += () if run.states("cache") else ("cache",)
    for part in (run.spec.workload, run.spec.variant, run.spec.measurement):
        facts = {name: value for name, value in part if name not in unread}
        _print_facts(type(part).__name__, facts)
    if source := run.source:
        inferred = {f"{name} (inferred)": why for name, why in source.inferred.items()}
        unstated = {NOT_STATED: ", ".join(run.unstated)}
        _print_facts("source", {**dict(source), "inferred": None, **inferred, **unstated})
    for title in ("environment", "prepared", "activity", "aftermath"):
        if part := getattr(run, title):
            facts = {name: value for name, value in part if name not in ("event", *unread)}
            if title == "aftermath":
                facts |= {"effective": "; ".join(each.text for each in part.effective or ())}
                facts |= {"parity": part.parity and f"{part.parity.verdict}, {part.parity.text}"}
            _print_facts(title, facts)


def _print_facts(title: str, facts: dict[str, Any]) -> None:
    known = {name: value for name, value in facts.items() if value not in (None, (), {}, "")}
    if known:
        click.echo(f"\n{title.lower()}")
    for name, value in known.items():
        click.echo(f"  {name}: {value}")


def _answer_row(pair: Comparison, also: tuple[str, ...]) -> tuple[str, ...]:
    speedup = pair.speedup
    return (
        pair.model_text,
        pair.machine,
        str(pair.workload.batch_size) if pair.states("batch_size") else "",
        *also,
        *((pair.candidate.name,) if pair.axis == ("variant",) else _arm_names(pair)),
        ratio_text(speedup.ratio, speedup.low, speedup.high),
        interval_text(speedup.low, speedup.high),
        f"{speedup.baseline_runs} + {speedup.candidate_runs}",
        pair.verdict_text,
        pair.pays_off_text,
    )


def _arm_names(pair: Comparison) -> tuple[str, str]:
    return pair.candidate.name, pair.baseline.name
