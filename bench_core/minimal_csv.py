"""The smallest results file: one row an epoch, six columns that a person writes by hand.

Rows that agree in all that is no epoch's own are one run, wherever they stand. With `task` infer a
row is one call: `epoch` is its number, `epoch_seconds` its latency.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench_core.device_names import device_of, is_name, short_name
from bench_core.imported import IGNORE, Answers, Family, ImportedRun, Question, settled
from bench_core.minimal_cells import (
    FAILED,
    NEEDED,
    OF_RUN,
    PEAKS,
    ROLES,
    ended_in,
    epoch_readings,
    is_stated,
    readings,
    role_of,
    sayable,
    text_in,
)
from bench_core.minimal_run import Ending, EpochRow, run_of
from bench_core.spec import SpecError, Variant
from bench_core.table_file import BadFile, Row, TableFile, not_known, shortened
from bench_core.variant_words import plainly, suggestion, variant_named

# More than these are another kind of file, or a wrong column.
MOST_ASKED = 20
MOST_ROWS = 1_000_000
FAMILY_KEY = "minimal"

TEMPLATE = """\
device,machine,model,variant,batch_size,precision,torch,epoch,epoch_seconds,label
cuda:0,Example GPU,resnet18,eager,16,fp32,2.9.0,1,11.0,example: put your own rows here
cuda:0,Example GPU,resnet18,eager,16,fp32,2.9.0,2,10.1,example: put your own rows here
cuda:0,Example GPU,resnet18,eager,16,fp32,2.9.0,3,10.0,example: put your own rows here
cuda:0,Example GPU,resnet18,eager,16,fp32,2.9.0,4,10.1,example: put your own rows here
cuda:0,Example GPU,resnet18,compile,16,fp32,2.9.0,1,40.0,example: put your own rows here
cuda:0,Example GPU,resnet18,compile,16,fp32,2.9.0,2,9.1,example: put your own rows here
cuda:0,Example GPU,resnet18,compile,16,fp32,2.9.0,3,9.0,example: put your own rows here
cuda:0,Example GPU,resnet18,compile,16,fp32,2.9.0,4,9.1,example: put your own rows here
"""

Places = Mapping[str, int]


def missing(header: Sequence[str]) -> tuple[str, ...]:
    there = {role_of(name) for name in header}
    return tuple(name for name in NEEDED if name not in there)


def questions(table: TableFile, answers: Answers) -> Sequence[Question]:
    """Of strange columns, free texts for variants and devices, and the machine. Raises BadFile."""
    asked = [_about_column(table, name) for name in table.header if name and not role_of(name)]
    if len(asked) > MOST_ASKED:
        names = ", ".join(name for name in table.header if name and not role_of(name))
        raise BadFile(
            f"{len(asked)} columns are not known, at most {MOST_ASKED} are asked for; take out "
            f"those that are not needed: {shortened(names, 200)}",
            table.header_line,
        )
    at = _places(table, answers)
    texts: dict[str, Question] = {}
    nameless: dict[str | None, None] = {}
    seen: set[tuple[str, ...]] = set()
    named = [at[role] for role in ("device", "variant", "machine", "device_name") if role in at]
    for row in table.rows():
        cells = tuple(row.cells[place] for place in named)
        if cells in seen:
            continue
        seen.add(cells)
        device = table.read(row, at["device"], text_in)
        variant = table.read(row, at["variant"], text_in)
        if variant and plainly(variant) is None:
            texts[f"variant:{variant}"] = _about_variant(variant)
        if device and device_of(device) is None:
            texts[f"device:{device}"] = _about_device(device)
        if _name_of(table, row, at, device) is None:
            nameless[_device_said(device, answers)] = None
        if len(texts) > MOST_ASKED:
            raise BadFile(
                f"more than {MOST_ASKED} texts in the columns variant and device are not known; "
                "write eager or compile, and cpu or cuda:0",
                row.line,
                table.header[at["variant"]],
            )
    machines = [_about_machine(table, said, len(nameless) > 1) for said in nameless]
    return [*texts.values(), *asked, *machines]


def read(table: TableFile, answers: Answers) -> Iterator[ImportedRun]:
    """Yield the file's runs in the order of their first rows. Raises BadFile."""
    at = _places(table, answers)
    free = {name: answers[name] for name in sayable(table.header) if name in answers}
    given = settled(questions(table, answers), answers)
    groups = _groups(table, at, given, _said(table, at, free))
    repeats = [group.facts.get("repeat", 1) for group in groups]
    first_repeat = min(repeats, default=1)
    ids: dict[str, int] = {}
    for group in groups:
        if first_repeat == 0:  # counted from 0
            group.facts["repeat"] = group.facts.get("repeat", 1) + 1
        one = run_of(table, group.line, group.facts, group.epochs, group.ending, FAMILY.key)
        if one.run.id in ids:
            raise BadFile(
                f"the rows of this run say the same as those from line {ids[one.run.id]} on; take "
                "one of the copies out",
                group.line,
            )
        ids[one.run.id] = group.line
        group.epochs = {}
        yield one


FAMILY = Family(FAMILY_KEY, "the minimal CSV", missing, questions, read, sayable)


# Columns


def _places(table: TableFile, answers: Answers) -> Places:
    """Where each role stands; strange columns have what was said of them. Raises BadFile."""
    at: dict[str, int] = {}
    for place, name in enumerate(table.header):
        role = role_of(name) or (name and answers.get(f"column:{name}")) or IGNORE
        if role == IGNORE:
            continue
        if role not in ROLES:
            raise BadFile(
                f"{shortened(role)!r} is nothing that a column holds; it is {IGNORE} or one of "
                f"{', '.join(ROLES)}",
                table.header_line,
                name,
            )
        if role in at:
            raise BadFile(
                f"{role} stands in column {at[role] + 1} already; rename one or take it out",
                table.header_line,
                name,
            )
        at[role] = place
    return at


def _about_column(table: TableFile, name: str) -> Question:
    there = {role_of(other) for other in table.header}
    free = tuple(role for role in ROLES if role not in there)
    text = f"What does the column {shortened(name)} hold?"
    return Question(f"column:{name}", text, IGNORE, (IGNORE, *free), "its name is not known")


def _about_variant(text: str) -> Question:
    return Question(
        f"variant:{text}",
        f"Which variant is {shortened(text)!r}: eager, compile, or compile with arguments, as in "
        'compile:{"mode":"max-autotune"}?',
        suggestion(text),
    )


def _about_device(text: str) -> Question:
    words = f"Which kind of device is {shortened(text)!r}?"
    return Question(f"device:{text}", words, None, ("cpu", "cuda:0", "mps"))


def _about_machine(table: TableFile, device: str | None, several: bool) -> Question:
    """Of a device that no column names the machine of: in a file of several each has its own."""
    on = f" on {device}" if several else ""
    # Of this file alone: nothing says that the machines of two files are one.
    label = f"{'CPU' if device == 'cpu' else 'GPU'} of {shortened(table.name)}"
    what = f"were the runs on {device}" if several else "was it"
    text = f"Which machine {what} measured on?"
    return Question(f"machine{on}", text, label, (), "no column machine names it")


# Rows


@dataclass(slots=True)
class _Group:
    """The rows of one run: where the first stands, what they share, and each epoch's own."""

    line: int
    facts: dict[str, Any]
    epochs: dict[int, EpochRow] = field(default_factory=dict)
    ending: Ending = Ending()


def _said(table: TableFile, at: Places, answers: Answers) -> dict[str, Any]:
    """Facts that were said of all rows, by role; a column holds more. Raises BadFile."""
    reading = readings(table)
    said: dict[str, Any] = {}
    for role, text in answers.items():
        if role in at:
            raise BadFile(
                f"{role} was said of all rows, and the column {table.header[at[role]]} holds it; "
                "say it once",
                table.header_line,
            )
        if not is_stated(role, text):
            continue
        try:
            said[role] = reading[role](text)
        except ValueError as error:
            raise BadFile(f"{role}, as said of all rows, {error}") from None
    return said


def _groups(
    table: TableFile, at: Places, answers: Answers, of_all: Mapping[str, Any]
) -> list[_Group]:
    identity = [at[role] for role in OF_RUN if role in at]
    reading, epoch_reading = readings(table), epoch_readings(table)
    groups: dict[tuple[str, ...], _Group] = {}
    for count, row in enumerate(table.rows(), 1):
        if count > MOST_ROWS:
            raise BadFile(
                f"at most {MOST_ROWS} rows of a minimal CSV are read; split the file", row.line
            )
        key = tuple([row.cells[place].strip() for place in identity])
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(row.line, _facts(table, row, at, reading, answers, of_all))
        _add(table, row, at, epoch_reading, group)
    return list(groups.values())


def _facts(
    table: TableFile,
    row: Row,
    at: Places,
    reading: Mapping[str, Callable[[str], Any]],
    answers: Answers,
    of_all: Mapping[str, Any],
) -> dict[str, Any]:
    """What a run's rows share, by role; what is not stated is left out. Raises BadFile.

    `of_all`: what holds for all rows of the file.
    """
    facts: dict[str, Any] = {**of_all}
    for role in OF_RUN:
        if role not in at:
            continue
        cell = row.cells[at[role]]
        if role in NEEDED and not cell.strip():
            raise BadFile("is empty, and every row needs it", row.line, table.header[at[role]])
        if role in NEEDED or is_stated(role, cell):
            facts[role] = table.read(row, at[role], reading[role])
    device = facts["device"]
    said = _device_said(device, answers)
    if said is None:
        raise BadFile(
            f"{shortened(device)!r} is no device that is known; write cpu, mps or cuda:0, and the "
            "name into a column device_name",
            row.line,
            table.header[at["device"]],
        )
    name = _name_of(table, row, at, device)
    facts["inferred"] = dict.fromkeys(of_all, "said with the import")
    if name is None:
        name = answers.get(f"machine on {said}") or answers["machine"]
        facts["inferred"]["machine"] = "no column names it"
    if is_name(device):
        facts.setdefault("device_name", device)
        facts["inferred"]["device"] = f"{device} in the column device"
    return facts | {
        "device": said,
        "machine": name,
        "variant": table.read(row, at["variant"], lambda cell: _variant(text_in(cell), answers)),
        "variant_text": facts["variant"],
    }


def _variant(text: str, answers: Answers) -> Variant:
    argument = plainly(text) or answers.get(f"variant:{text}")
    if argument is None:
        raise ValueError(f"{shortened(text)!r} is no variant that is known; write eager or compile")
    try:
        return variant_named(argument)
    except SpecError as error:
        raise ValueError(f"{shortened(text)!r} was said to be {error}") from None


def _device_said(text: str, answers: Answers) -> str | None:
    said = device_of(text) or answers.get(f"device:{text}")
    return said and device_of(said)


def _name_of(table: TableFile, row: Row, at: Places, device: str) -> str | None:
    """The machine's label as the row tells it: the machine, else the GPU, in short."""
    for role in ("machine", "device_name"):
        if role in at and not not_known(row.cells[at[role]]):
            text = table.read(row, at[role], text_in)
            if role == "machine":
                return text
            if device_of(device) != "cpu":
                return short_name(text)
    nameless = not is_name(device) or device_of(device) == "cpu"
    return None if nameless else short_name(device)


def _add(
    table: TableFile,
    row: Row,
    at: Places,
    epoch_reading: Mapping[str, Callable[[str], Any]],
    group: _Group,
) -> None:
    """One row's epoch, or how its run ended. Raises BadFile."""
    cell = row.cells[at["epoch_seconds"]].strip()
    ending = Ending()
    if "status" in at:
        ending = Ending(*table.read(row, at["status"], ended_in))
    if cell.partition(":")[0].strip().lower() in FAILED:
        ending, cell = Ending(*table.read(row, at["epoch_seconds"], ended_in)), ""
    if ending.status != "done":
        if "reason" in at and row.cells[at["reason"]].strip():
            ending = Ending(ending.status, ending.failure, table.read(row, at["reason"], text_in))
        group.ending = ending
    if not cell:
        if ending.status == "done":
            raise BadFile(
                "is empty; write seconds, or say in a column status why there are none, as failed "
                "or oom",
                row.line,
                table.header[at["epoch_seconds"]],
            )
        return
    epoch = table.read(row, at["epoch"], table.whole)
    before = group.epochs.get(epoch)
    if before is not None:
        raise BadFile(
            f"epoch {epoch} of the same run stands on line {before.line} already; if they are two "
            "runs, tell them apart by a column repeat with 1, 2, 3",
            row.line,
            table.header[at["epoch"]],
        )
    told = {
        role: table.read(row, at[role], reading)
        for role, reading in epoch_reading.items()
        if role in at
    }
    peaks = [told.pop(role) for role in PEAKS if role in told]
    peak = next((peak for peak in peaks if peak is not None), None)
    group.epochs[epoch] = EpochRow(row.line, told.pop("epoch_seconds"), peak, **told)
