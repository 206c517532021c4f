"""Published claims as data/claims.csv holds them: one a row, in our words, with their conditions.

`low` and `high` are a claim's range as a ratio: 1.08 is 8 % faster. A single number, with or
without "about", stands for plus or minus 2 percentage points, or a tenth of the gain where that is
more: `about 5 %` is 1.03 to 1.07, `43 %` is 1.387 to 1.473. A range (8 to 9 %) is as given. An
effect within 2 % is none. Whether a claim holds is for `judging` to say.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from bench_core.paths import SHIPPED
from bench_core.presets import PRESETS
from bench_core.spec import Execution, Precision, Variant


class ClaimError(ValueError):
    """A row of the claims file that cannot be read. The text names the line and the way out."""


@cache
def _compiles_in_grad_mode(preset: str) -> bool:
    """Asked for each run and claim, and an experiment takes long to make."""
    found = PRESETS.get(preset)
    return bool(found and found.experiment("cpu").workload.get("compile_in_grad_mode"))


@dataclass(frozen=True)
class Claim:
    """One published sentence and its conditions; an empty condition asks for nothing.

    `models` are names or patterns (`resnet*`), `devices` parts of a GPU's name, `CPU`, `any GPU` or
    `any`. `preset` is what it is measured with here; without one, many small models.
    """

    id: str
    claim: str
    source: str
    url: str
    year: int
    kind: str
    execution: Execution
    task: Literal["train", "infer", "any"]
    models: tuple[str, ...]
    devices: tuple[str, ...]
    precisions: tuple[Precision, ...]
    batch_sizes: tuple[int, ...]
    image_sizes: tuple[int, ...]
    epochs: int | None
    isa: tuple[str, ...]
    low: float | None
    high: float | None
    preset: str
    note: str

    @property
    def variant(self) -> Variant:
        """What is held against eager."""
        return Variant(execution=self.execution)

    @property
    def counts_testing(self) -> bool:
        return self.id.startswith("article-") and self.task == "train"

    @property
    def compiles_in_grad_mode(self) -> bool:
        """Whether it is about torch.compile called inside of inference_mode, as its preset is."""
        return _compiles_in_grad_mode(self.preset)

    @property
    def where(self) -> str:
        """`a T4`, `a T4 or an A100`, `a GPU`, `a CPU with bf16`."""
        names = {"any": "any machine", "any GPU": "a GPU", "CPU": "a CPU"}
        told = [names.get(name) or f"a{'n' * (name[0] in 'AEIO')} {name}" for name in self.devices]
        return " or ".join(told) + (" with bf16" if self.isa else "")

    def takes_model(self, model: str) -> bool:
        """`*` is every model that is a network, and none that is a function."""
        name = model.removeprefix("torchvision:")
        return not model.startswith("function:") and any(
            fnmatchcase(name, pattern) for pattern in self.models
        )

    def takes_device(self, device: str, name: str) -> bool:
        kind = {"any": True, "any GPU": device != "cpu", "CPU": device == "cpu"}
        return any(
            kind.get(wanted, bool(re.search(rf"\b{re.escape(wanted)}\b", name)))
            for wanted in self.devices
        )

    def takes_isa(self, flags: str) -> bool:
        return not self.isa or any(flag in flags.split(", ") for flag in self.isa)

    def meets(self, low: float, high: float) -> bool:
        """Whether its range and that interval have a number in common."""
        return (self.low is None or high >= self.low) and (self.high is None or low <= self.high)

    def holds(self, low: float, high: float) -> bool:
        """Whether that interval lies inside of its range."""
        return (self.low is None or low >= self.low) and (self.high is None or high <= self.high)


COLUMNS = (
    "id", "claim", "source", "url", "year", "kind", "execution", "task", "models", "device",
    "precision", "batch_sizes", "image_sizes", "epochs", "isa", "low", "high", "preset", "note",
)  # fmt: skip


def load(kinds: Mapping[str, bool], file: Path = SHIPPED / "claims.csv") -> tuple[Claim, ...]:
    """The claims in the file's order. Raises ClaimError at the first bad row.

    `kinds`: by name whether a claim of that kind needs a range.
    """
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = csv.DictReader(lines)
            if tuple(rows.fieldnames or ()) != COLUMNS:
                raise ClaimError(
                    f"{file.name}, line 1: the columns must be {', '.join(COLUMNS)}, got "
                    f"{', '.join(rows.fieldnames or ['none'])}"
                )
            claims = tuple(_claim(row, f"{file.name}, line {rows.line_num}", kinds) for row in rows)
    except OSError as error:
        raise ClaimError(
            f"{file} cannot be read ({error.strerror}); it belongs to this program: restore it"
        ) from error
    twice = {one.id for one in claims if [other.id for other in claims].count(one.id) > 1}
    if twice:
        raise ClaimError(f"{file.name} has the id {min(twice)!r} twice; give each claim its own")
    return claims


def _claim(row: dict[str, str], place: str, kinds: Mapping[str, bool]) -> Claim:
    if None in row or None in row.values():
        raise ClaimError(f"{place}: {len(COLUMNS)} cells are needed; quote a cell with a comma")

    def checked(name: str, allowed: Iterable[str]) -> str:
        if row[name] not in allowed:
            raise ClaimError(
                f"{place}: {name} must be one of {', '.join(allowed)}, got {row[name]!r}"
            )
        return row[name]

    def number(name: str, kind: Callable[[str], float] = float) -> float | None:
        try:
            found = kind(row[name]) if row[name] else None
        except ValueError:
            found = math.nan
        if found is not None and not 0 < found < math.inf:
            what = "a whole number" if kind is int else "a number"
            raise ClaimError(f"{place}: {name} must be {what} above 0, got {row[name]!r}")
        return found

    def numbers(name: str) -> tuple[int, ...]:
        if not all(size.isdecimal() and int(size) for size in parts(name)):
            raise ClaimError(f"{place}: {name} must be whole numbers above 0, got {row[name]!r}")
        return tuple(map(int, parts(name)))

    def parts(name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in row[name].split(";") if part.strip())

    for name in ("id", "claim", "source", "year", "models", "device"):
        if not row[name].strip():
            raise ClaimError(f"{place}: {name} is empty; give it a value")
    if not row["url"].startswith("https://"):
        raise ClaimError(f"{place}: url must begin with https://, got {row['url']!r}")
    low, high = number("low"), number("high")
    if low and high and low > high:
        raise ClaimError(f"{place}: low must not be above high, got {low} and {high}")
    precisions = parts("precision")
    for word in precisions:
        if word not in get_args(Precision):
            raise ClaimError(
                f"{place}: precision must be of {', '.join(get_args(Precision))}, got {word!r}"
            )
    kind = checked("kind", tuple(kinds))
    if kinds[kind] and low is None and high is None:
        raise ClaimError(f"{place}: a claim of the kind {kind!r} needs low, high or both")
    if kind == "over epochs" and not row["epochs"]:
        raise ClaimError(f"{place}: a claim of the kind {kind!r} needs epochs")
    return Claim(
        id=row["id"],
        claim=row["claim"],
        source=row["source"],
        url=row["url"],
        year=int(number("year", int) or 0),
        kind=kind,
        execution=checked("execution", get_args(Execution)),  # type: ignore[arg-type]
        task=checked("task", ("train", "infer", "any")),  # type: ignore[arg-type]
        models=parts("models"),
        devices=parts("device"),
        precisions=precisions,  # type: ignore[arg-type]
        batch_sizes=numbers("batch_sizes"),
        image_sizes=numbers("image_sizes"),
        epochs=int(number("epochs", int) or 0) or None,
        isa=parts("isa"),
        low=low,
        high=high,
        preset=checked("preset", ("", *PRESETS)),
        note=row["note"],
    )
