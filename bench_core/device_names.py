"""Devices as people write them: `Tesla T4`, `cuda`, `NVIDIA A100-SXM4-40GB`, `cpu`. Pure."""

from __future__ import annotations

import re

from bench_core.spec import DEVICE_NAME

MAKERS = re.compile(r"\b(nvidia|tesla|geforce|quadro|amd|instinct|radeon|graphics)\b", re.I)
# A model of a GPU by itself: T4, A100, V100, H200, L40S, K80, GH200, MI250X, A6000.
CHIP = re.compile(r"(?:GH|GB|MI|[ABHKLMPTV])\d{1,4}[A-Z]?(?![A-Za-z0-9])", re.I)
GPU = re.compile(r"nvidia|tesla|geforce|quadro|titan|instinct|radeon|\b[rg]tx\b|\b[rg]tx ?\d", re.I)
CPU = re.compile(
    r"\bcpu\b|\bcpu[-_:]|\b(intel|xeon|epyc|ryzen|threadripper|opteron|graviton|ampere altra)\b"
    r"|\bcore.{0,6}\bi\d|\bi[3579]-\d",
    re.I,
)
PLAIN = {"gpu": "cuda:0", "cuda": "cuda:0", "cpu": "cpu", "mps": "mps"}


def device_of(text: str) -> str | None:
    """`cpu`, `mps` or `cuda:N` of a text in a column `device`; None where that is not clear."""
    word = text.strip().lower()
    if word in PLAIN:
        return PLAIN[word]
    if numbered := re.fullmatch(r"(?:cuda|gpu)[ :_-]?(\d{1,3})", word):
        return f"cuda:{int(numbered[1])}"
    if GPU.search(text) or CHIP.match(text.strip()):
        return "cuda:0"
    if CPU.search(text):
        return "cpu"
    return None


def is_name(text: str) -> bool:
    """Whether it says which device it is, and not only of which kind."""
    word = text.strip().lower()
    return word not in PLAIN and not DEVICE_NAME.fullmatch(word) and not word.startswith("gpu")


def short_name(text: str) -> str:
    """As a label: `T4` of `Tesla T4`, `A100` of `NVIDIA A100-SXM4-40GB`, else without the maker."""
    rest = " ".join(MAKERS.sub(" ", text).split())
    chip = CHIP.match(rest)
    return chip[0].upper() if chip else rest or text.strip()
