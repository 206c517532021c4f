"""Other tools' results files: timm's benchmark, PyTorch's dynamo runner, arms as columns."""

from __future__ import annotations

from bench_core.imported import Family

FAMILIES: tuple[Family, ...] = ()
