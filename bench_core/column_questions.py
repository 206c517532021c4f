"""What is asked of any other table with a column of times: what each column is, what none says.

The times may be those of one arm each (`arm:HEADER`), or stand in one column beside a column, or an
answer, that says which variant they are of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench_core.column_roles import (
    BESIDES,
    MIDDLES,
    MOST_VALUES,
    ROLES,
    TIMES,
    UNIT_SECONDS,
    Column,
    arm_in,
    columns_of,
    is_time,
    roles_of,
    shown,
    task_of,
    unit_in,
)
from bench_core.file_words import Fact, facts_of
from bench_core.foreign_run import question
from bench_core.imported import IGNORE, Answers, Question, settled
from bench_core.run import NOT_STATED
from bench_core.table_file import BadFile, TableFile
from bench_core.variant_words import plainly, suggestion

COLUMN, ARM, VARIANT = "column:", "arm:", "variant:"


def questions(table: TableFile, answers: Answers) -> Sequence[Question]:
    """What each column is, and what none says. BadFile: no column of times holds a number."""
    columns = columns_of(table)
    times = [one for one in columns if is_time(one.header) and one.is_number and one.values]
    if not times:
        raise BadFile("no latency column: none whose header speaks of a time holds numbers", 1)
    named = facts_of(table.name)
    asked = _times(times, answers, _suggested_variants(columns, answers))
    others = [one for one in columns if one.header not in {time.header for time in times}]
    facts = roles_of(others)
    for column in others:
        fact = facts[column.header]
        key = COLUMN + column.header
        if column.varies or fact.value != IGNORE or key in answers:
            text = f"What is the column {column.header} ({shown(column)})?"
            asked.append(Question(key, text, fact.value, ROLES, fact.why))
    said = settled(asked, answers)
    roles = {role: key.removeprefix(COLUMN) for key, role in said.items() if key.startswith(COLUMN)}
    asked += _unstated(columns, roles, said, named)
    return asked


def _suggested_variants(columns: Sequence[Column], answers: Answers) -> bool:
    """Whether a column says which variant a row is."""
    facts = roles_of([one for one in columns if not is_time(one.header)])
    said = [answers.get(COLUMN + header) or fact.value for header, fact in facts.items()]
    return "variant" in said


def _times(times: Sequence[Column], answers: Answers, variants: bool) -> list[Question]:
    """What each column of times is: that of an arm, or of the variant that its row names."""
    arms = not variants and any(arm_in(one.header) for one in times)
    taken: set[str] = set()
    asked = []
    # The middle of a distribution says more of it than its ends.
    middles = [one for one in times if {*MIDDLES} & {*one.words}]
    for column in times:
        header = column.header
        beside = bool(BESIDES & {*column.words}) or bool(middles and column not in middles)
        as_arm = ARM + header in answers or (arms and COLUMN + header not in answers)
        if as_arm:
            arm = None if beside else arm_in(header)
            why = f"{arm} by its header" if arm else "its header names no variant"
            text = f"Which variant are the times in {header} of ({shown(column)})?"
            asked.append(Question(ARM + header, text, arm or IGNORE, (), why))
            continue
        role = "time"
        for word in column.words:
            role = {"infer": "infer_time", "train": "train_time"}.get(task_of(word) or "", role)
        if {"compile", "compilation", "compiling"} & {*column.words}:
            role, beside = "start_time", False
        if beside or role in taken or ("time" in taken and role in TIMES):
            fact = Fact(IGNORE, "it is no time of a call" if beside else "another column has them")
        else:
            taken.add(role)
            fact = Fact(role, "by its header")
        text = f"What are the times in {header} ({shown(column)})?"
        asked.append(Question(COLUMN + header, text, fact.value, ROLES, fact.why))
    return asked


def _unstated(
    columns: Sequence[Column],
    roles: Mapping[str, str],
    said: Mapping[str, str],
    named: Mapping[str, Fact],
) -> list[Question]:
    """What is asked of the whole file, once it is known what its columns are."""
    by_header = {one.header: one for one in columns}
    used = [key for key, value in said.items() if is_time_of_a_run(key, value)]
    asked = []
    if "model" not in roles:
        asked.append(Question("model", "Which model is it? No column says so"))
    if "machine" not in roles:
        asked.append(question("machine"))
    if "device" not in roles:
        torch = by_header[roles["torch"]].values if "torch" in roles else {}
        build = next((text for text in torch if "+cu" in text), None)
        found = Fact("cuda:0", f"PyTorch is {build}") if build else named.get("device")
        asked.append(question("device", found))
    if any(not TIMES.get(said[key]) for key in used) and "task" not in roles:
        asked.append(question("task", named.get("task")))
    if "precision" not in roles:
        precision = named.get("precision")
        known = precision if precision and precision.value != "amp" else None
        asked.append(question("precision", known))
    if "torch" not in roles:
        fact = named.get("torch") or Fact(NOT_STATED, "no column says it")
        asked.append(question("torch", fact))
    if "variant" in roles:
        asked += _meanings(by_header[roles["variant"]])
    elif any(key.startswith(COLUMN) for key in used):
        asked.append(question("variant", named.get("variant")))
    units = {unit_in(key) for key in used} - {None}
    unit = units.pop() if len(units) == 1 else None
    why = f"{unit} in the header" if unit else ""
    text = "In which unit are the times, each of one call or step?"
    asked.append(Question("unit", text, unit, tuple(UNIT_SECONDS), why))
    start = roles.get("start_time")
    if start and unit_in(start) is None:
        text = f"In which unit are the times in {start}?"
        asked.append(Question("start_unit", text, None, tuple(UNIT_SECONDS)))
    return asked


def is_time_of_a_run(key: str, value: str) -> bool:
    return value in TIMES if key.startswith(COLUMN) else key.startswith(ARM) and value != IGNORE


def _meanings(column: Column) -> list[Question]:
    """What each text of the column of variants means."""
    if len(column.values) == MOST_VALUES:
        raise BadFile(
            f"holds {MOST_VALUES} texts and more, so it cannot be the variant; say what it is with "
            f"{COLUMN}{column.header}",
            column=column.header,
        )
    return [
        Question(
            VARIANT + text,
            f"Which variant is {text!r} of the column {column.header}?",
            plainly(text) or suggestion(text),
            why="as it reads",
        )
        for text in column.values
    ]
