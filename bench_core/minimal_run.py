"""The rows of one run of the minimal CSV as a run with its epochs."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from bench_core.events import CompileWindow, Environment, Epoch, Failure
from bench_core.imported import ImportedRun, machine_id_of
from bench_core.minimal_cells import ENVIRONMENT, WORKLOAD, dataset_in
from bench_core.run import NOT_STATED, Run, Status
from bench_core.source import SYNCHRONISED, Source
from bench_core.spec import Measurement, RunSpec, SpecError, Variant, Workload
from bench_core.table_file import BadFile, TableFile

# Facts of the workload that mean nothing for the other task, and those that have no default that
# a file could leave unstated.
OF_TRAINING = {"optimizer", "learning_rate", "evaluate", "drop_last"}
OF_INFERENCE = {"grad_mode", "compile_in_grad_mode", "backward"}
NEVER_UNSTATED = {"task", "model", "dataset_path"}
# Of epochs, which have numbers all the same.
OF_EPOCHS = ("compile_seconds", "data_wait_seconds")
TAKEN_AS_0 = f"{NOT_STATED}: taken as 0"


class Ending(NamedTuple):
    status: Status = "done"
    failure: Failure | None = None
    reason: str = ""


class EpochRow(NamedTuple):
    """Seconds, bytes and Unix seconds; None is not stated."""

    line: int
    seconds: float
    peak_memory_bytes: int | None = None
    compile_seconds: float | None = None
    data_wait_seconds: float | None = None
    evaluation_seconds: float | None = None
    accuracy: float | None = None
    loss: float | None = None
    started_at: float | None = None


def run_of(
    table: TableFile,
    line: int,
    facts: Mapping[str, Any],
    rows: Mapping[int, EpochRow],
    ending: Ending,
    family: str,
) -> ImportedRun:
    """`facts` by role; those that are not stated are missing. Raises BadFile with the line."""
    ordered = _in_order(rows, line)
    try:
        spec = _spec(facts, len(ordered))
        place = Environment(
            machine=facts["machine"],
            machine_id=machine_id_of(facts["machine"]),
            threads=facts.get("threads"),
            **{name: facts[name] for name in ENVIRONMENT if name in facts},
        )
    except SpecError as error:
        named = re.split("[ :]", str(error), maxsplit=1)[0]
        raise BadFile(str(error), line, named if named in facts else None) from None
    epochs = _epochs(spec, ordered)
    unstated = unstated_of(spec, facts)
    if facts.get("threads", 0) is None:  # asked for as PyTorch's own choice: how many is not said
        unstated = (*unstated, "threads in use")
    if spec.device != "cpu":
        unstated = (*unstated, SYNCHRONISED)
    inferred = {
        **facts["inferred"],
        **({} if "cache" in facts else cache_inferred(spec.variant, facts["variant_text"])),
        **{
            name: TAKEN_AS_0
            for name in OF_EPOCHS
            if ordered and all(getattr(row, name) is None for row in ordered)
        },
    }
    started_at = ordered[0].started_at if ordered else None
    content = [spec.to_json(), place.to_json(), unstated, ending, [row[1:] for row in ordered]]
    run_id = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]
    run = Run(
        number=0,
        id=run_id,
        experiment_id=table.sha256[:12],
        spec=spec,
        status=ending.status,
        failure=ending.failure,
        reason=ending.reason or (f"{table.name} says no more of it" if ending.failure else None),
        traceback=None,
        phase=None,
        phase_epoch=None,
        phase_since=None,
        compiling_since=None,
        created_at=started_at or time.time(),
        started_at=started_at,
        ended_at=None,
        child_pid=None,
        child_created=None,
        priming_seconds=None,
        environment=place,
        prepared=None,
        activity=None,
        aftermath=None,
        unstated=unstated,
        source=Source(
            file=table.name,
            family=family,
            line=line,
            variant=facts["variant_text"],
            inferred=inferred,
        ),
    )
    return ImportedRun(run, epochs)


def _in_order(rows: Mapping[int, EpochRow], line: int) -> list[EpochRow]:
    """Epochs count from 1 or from 0, without a gap: what is missing may be the compiling."""
    ordered = [rows[number] for number in sorted(rows)]
    first = min(rows, default=1)
    if first not in (0, 1):
        raise BadFile(
            f"the first epoch of this run is {first}; a run begins with epoch 1, and all that its "
            "rows share stands on each of them",
            rows[first].line,
            "epoch",
        )
    for expected, number in enumerate(sorted(rows), first):
        if number != expected:
            raise BadFile(
                f"epoch {number} follows epoch {expected - 1} of the run that begins on line "
                f"{line}; every epoch needs its row",
                rows[number].line,
                "epoch",
            )
    return ordered


def _spec(facts: Mapping[str, Any], count: int) -> RunSpec:
    """Raises SpecError."""
    work = {name: facts[name] for name in WORKLOAD if name in facts}
    if "dataset" in work:
        work |= dataset_in(work["dataset"])
    if "samples" not in work and work.get("task") != "infer":
        # Not stated: any number that makes a whole step does.
        work["samples"] = max(Workload.model_fields["samples"].default, work["batch_size"])
    variant = facts["variant"]
    if "cache" in facts and variant.cache:
        variant = variant.changed(cache=facts["cache"])
    infers = work.get("task") == "infer"
    return RunSpec(
        workload=Workload(**work),
        variant=variant,
        measurement=Measurement(
            repeat=facts.get("repeat", 1),
            label=facts.get("label", ""),
            **{"iterations" if infers else "epochs": max(1, count)},
        ),
        device=facts["device"],
    )


def unstated_of(spec: RunSpec, stated: Collection[str]) -> tuple[str, ...]:
    """Conditions of a comparison that no source states and that mean something for such a run.

    `stated` names those that one does: fields of the workload, `torch`, `device_name`.
    """
    work = spec.workload
    meaningless = NEVER_UNSTATED | (OF_TRAINING if work.task == "infer" else OF_INFERENCE)
    if spec.device == "cpu":
        meaningless |= {"tf32"}
    if "pipeline" in stated and work.pipeline == "resident":  # it has no loader
        meaningless |= {"loader_workers"}
    names = [name for name in WORKLOAD if name not in stated and name not in meaningless]
    names += [name for name in ("torch", "device_name") if name not in stated]
    names += ["threads in use"] if "threads" not in stated else []
    return (*names, "parameters")


def cache_inferred(variant: Variant, text: str) -> dict[str, str]:
    """What `Source.inferred` says of a cache that neither a column nor the variant's text names."""
    taken = variant.cache == "cold" and '"cache"' not in text
    return {"cache": f"{NOT_STATED}: taken as cold"} if taken else {}


def _epochs(spec: RunSpec, rows: Sequence[EpochRow]) -> tuple[Epoch, ...]:
    """In inference all calls are one block."""
    for row in rows:
        for name in OF_EPOCHS:
            part = getattr(row, name) or 0.0
            if part > row.seconds:
                raise BadFile(
                    f"{part:g} s are more than the {row.seconds:g} s of the whole epoch; "
                    "epoch_seconds holds compiling and waiting too",
                    row.line,
                    name,
                )
    if not rows:
        return ()
    if spec.workload.task == "infer":
        return (_block(spec, rows),)
    clock = 0.0
    epochs = []
    for number, row in enumerate(rows, 1):
        epochs.append(
            Epoch(
                epoch=number,
                started_at=clock if row.started_at is None else row.started_at,
                wall_seconds=row.seconds,
                data_wait_seconds=row.data_wait_seconds or 0.0,
                compile_seconds=row.compile_seconds or 0.0,
                step_seconds=(),
                samples=spec.workload.samples_done,
                loss=row.loss,
                evaluation_seconds=row.evaluation_seconds,
                accuracy=row.accuracy,
                peak_memory_bytes=row.peak_memory_bytes,
            )
        )
        clock = epochs[-1].started_at + row.seconds
    return tuple(epochs)


def _block(spec: RunSpec, rows: Sequence[EpochRow]) -> Epoch:
    clock = 0.0
    windows = []
    for iteration, row in enumerate(rows):
        if row.compile_seconds:
            windows.append(
                CompileWindow(
                    trigger="",
                    offset_seconds=clock,
                    seconds=row.compile_seconds,
                    iteration=iteration,
                )
            )
        clock += row.seconds
    return Epoch(
        epoch=1,
        started_at=rows[0].started_at or 0.0,
        wall_seconds=clock,
        data_wait_seconds=sum(row.data_wait_seconds or 0.0 for row in rows),
        compile_seconds=sum(window.seconds for window in windows),
        compile_windows=tuple(windows),
        step_seconds=tuple(row.seconds for row in rows),
        samples=len(rows) * spec.workload.batch_size,
        loss=None,
        peak_memory_bytes=max(
            (row.peak_memory_bytes for row in rows if row.peak_memory_bytes), default=None
        ),
    )
