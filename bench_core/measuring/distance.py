"""How far what one pass computes is from what another one does. Relative, on the CPU, in fp64."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import torch
from torch import Tensor

# What one pass computes, by name: `loss`, `gradients`, `outputs`, those that there are.
Result = dict[str, list[Tensor]]
Differences = dict[str, float]


def differences(mine: Result, right: Result) -> Differences:
    """By name; of the outputs the worst one's."""
    found = {what: relative_difference(mine[what], right[what]) for what in right}
    if len(mine["outputs"]) == len(right["outputs"]):
        pairs = zip(mine["outputs"], right["outputs"], strict=True)
        found["outputs"] = max(relative_difference([one], [other]) for one, other in pairs)
    return found


def summary(each: Sequence[Differences]) -> Differences:
    """Of several batches the worst; of the gradients the median, unless one is no number."""

    def summed_up(what: str) -> float:
        values = [one[what] for one in each]
        if what != "gradients" or math.inf in values:
            return max(values)
        return statistics.median(values)

    return {what: summed_up(what) for what in each[0]}


def relative_difference(mine: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    """Norm of the difference over the norm of `right`, all tensors taken together.

    inf where the shapes differ, and where a number that is not finite in one of the two is not the
    same in the other.
    """
    if [one.shape for one in mine] != [one.shape for one in right]:
        return math.inf
    # Scaled by a power of 2, which rounds nothing: the square of a large number is inf.
    largest = max((_largest(_wide(one)) for one in (*mine, *right)), default=0.0)
    scale = math.ldexp(1.0, math.frexp(largest)[1] - 1)
    apart = size = 0.0
    for one, other in zip(mine, right, strict=True):
        one, other = _wide(one), _wide(other)
        finite = other.isfinite()
        if not torch.equal(one.isfinite(), finite) or not torch.allclose(
            one[~finite], other[~finite], equal_nan=True
        ):
            return math.inf
        one, other = one[finite] / scale, other[finite] / scale
        apart += torch.linalg.vector_norm(one - other).item() ** 2
        size += torch.linalg.vector_norm(other).item() ** 2
    if apart == 0:
        return 0.0
    return math.sqrt(apart / size) if size else math.inf


def _wide(tensor: Tensor) -> Tensor:
    """In fp64 on the CPU, since not every device has it; a complex number as its two parts."""
    parts = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return parts.cpu().double()


def _largest(tensor: Tensor) -> float:
    """The largest finite magnitude; 0 where there is none."""
    finite = tensor[tensor.isfinite()]
    return finite.abs().max().item() if finite.numel() else 0.0
