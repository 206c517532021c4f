"""From which input size on a variant pays: the answer over comparisons at several sizes.

Pure. What pays here is a steady call; when its compiling is earned back is each comparison's own
break-even.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from bench_core.comparison import COMPILE, Comparison
from bench_core.stats import RUNS_FOR_A_VERDICT
from bench_core.units import count_text


@dataclass(frozen=True, slots=True)
class Sizes:
    """Where a variant is faster, of the sizes that were measured, each in order.

    `onward`: the size from which on it is faster at every measured size; None where the largest is
    not. `alone` are the others at which it is faster. A first look rests on too few runs somewhere.
    """

    measured: tuple[int, ...]
    onward: int | None
    alone: tuple[int, ...]
    first_look: bool


def sizes_that_pay(pairs: Sequence[Comparison]) -> Sizes:
    """Of comparisons that differ in the size alone: one function, machine and variant.

    Faster means that a difference is shown, or for a first look at least seen. ValueError: none.
    """
    if not pairs:
        raise ValueError("no comparison was given, so no size was measured; give one at least")
    faster: dict[int, list[bool]] = defaultdict(list)
    for pair in pairs:
        faster[pair.workload.batch_size].append(pair.differs and pair.speedup.ratio > 1)
    measured = tuple(sorted(faster))
    paying = [size for size in measured if all(faster[size])]
    onward = None
    for size in reversed(measured):
        if size not in paying:
            break
        onward = size
    return Sizes(
        measured=measured,
        onward=onward,
        alone=tuple(size for size in paying if onward is None or size < onward),
        first_look=any(pair.speedup.kind == "first look" for pair in pairs),
    )


def sizes_text(pairs: Sequence[Comparison]) -> str:
    """`Compiling pays from n = 10 000 on (sin_cos, CPU)`: one sentence that stands alone."""
    one = pairs[0]
    name = one.workload.model.removeprefix("function:").removesuffix(".py")
    words = f"{pays_text(pairs)} ({name}, {one.machine})"
    if sizes_that_pay(pairs).first_look:
        words = f"First look: {words}; no verdict before {RUNS_FOR_A_VERDICT} runs an arm"
    return words[0].upper() + words[1:]


def pays_text(pairs: Sequence[Comparison]) -> str:
    """`compiling pays from n = 10 000 on`, for where the rest is said already."""
    variant = pairs[0].candidate.variant
    return f"{'compiling' if variant == COMPILE else variant.name} {_pays(sizes_that_pay(pairs))}"


def _pays(found: Sizes) -> str:
    pays = "seems to pay" if found.first_look else "pays"
    smallest, largest = (count_text(size) for size in (found.measured[0], found.measured[-1]))
    alone = ", ".join(count_text(size) for size in found.alone)
    if len(found.measured) == 1:
        if found.onward is None:
            pays = "does not seem to pay" if found.first_look else "does not pay"
        return f"{pays} at n = {largest}, the only size measured"
    if found.onward is None and not alone:
        return f"{pays} at no measured size, n = {smallest} to {largest}"
    if found.onward is None:
        return f"{pays} only at n = {alone}, not at {largest}"
    if found.onward == found.measured[0]:
        return f"{pays} from n = {smallest} on, the smallest measured"
    return f"{pays} from n = {count_text(found.onward)} on" + (f", and at {alone}" * bool(alone))
