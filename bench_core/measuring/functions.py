"""Functions to measure without a model, each with its inputs of size n.

Run in a measuring process, which sets the seed before the inputs are made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Function(NamedTuple):
    fn: Callable[..., Tensor]
    make_inputs: Callable[[int], tuple[Tensor, ...]]


def sin_cos(x: Tensor, y: Tensor) -> Tensor:
    """The article's example, two passes over memory that a compiler makes one.

    The article decorates it with `torch._dynamo.optimize("inductor")`, the old spelling of
    `torch.compile`.
    """
    return torch.sin(x) + torch.cos(y)


def two_vectors(n: int) -> tuple[Tensor, Tensor]:
    return torch.randn(n), torch.randn(n)


FUNCTIONS = {"sin_cos": Function(sin_cos, two_vectors)}
