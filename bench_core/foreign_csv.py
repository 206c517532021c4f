"""Other tools' results files that have columns of their own."""

from __future__ import annotations

from bench_core import dynamo_csv, timm_csv
from bench_core.imported import Family

FAMILIES: tuple[Family, ...] = (timm_csv.FAMILY, dynamo_csv.FAMILY)
