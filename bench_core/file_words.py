"""What the name of a results file says of the runs in it.

Tools that write no column for precision, layout or versions put them into the file's name. All of
it is a suggestion that a person confirms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PRECISIONS = {
    "fp32": "fp32",
    "float32": "fp32",
    "float": "fp32",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "fp16",
    "float16": "fp16",
    "half": "fp16",
}
LAYOUTS = {"nchw": "contiguous", "nhwc": "channels_last"}
TASKS = {
    "infer": "infer",
    "inference": "infer",
    "forward": "infer",
    "eval": "infer",
    "train": "train",
    "training": "train",
}
COMPILED = ("dynamo", "compile", "compiled", "inductor", "torchcompile")


@dataclass(frozen=True, slots=True)
class Fact:
    value: str
    why: str


def facts_of(name: str) -> dict[str, Fact]:
    """By the key of the question that they answer, and `cuda`.

    `machine` is what is left of timm's names, `benchmark-infer-amp-nchw-pt291-cu128-4090.csv`.
    """
    stem = re.sub(r"(\.(csv|tsv|txt|gz))+$|\s*\(\d+\)(?=\.|$)", "", name.lower())
    found: dict[str, Fact] = {}
    left = []
    for part in stem.split("-"):
        told = [_told(word) for word in {part: 0, **dict.fromkeys(re.split(r"[_. ]", part))}]
        for facts in told:
            for key, value in facts.items():
                found.setdefault(key, Fact(value, f"{facts['']} in the file's name"))
        if not any(told) and part != "benchmark":
            left.append(part)
    found.pop("", None)
    if amp := found.pop("amp", None):
        found.setdefault("precision", amp)
    if stem.startswith("benchmark-") and "task" in found:
        found.setdefault("variant", Fact("eager", "no -dynamo in the file's name"))
        if left:
            found["machine"] = Fact("-".join(left), "what is left of the file's name")
    return found


def _told(word: str) -> dict[str, str]:
    """What one word says, by key, and under the empty key the word itself."""
    if word in PRECISIONS:
        return {"": word, "precision": PRECISIONS[word]}
    if word == "amp":
        return {"": word, "amp": word}
    if word in LAYOUTS:
        return {"": word, "memory_layout": LAYOUTS[word]}
    if word in TASKS:
        return {"": word, "task": TASKS[word]}
    if word in COMPILED:
        return {"": word, "variant": "compile"}
    if word in ("cpu", "cuda", "gpu"):
        return {"": word, "device": "cpu" if word == "cpu" else "cuda:0"}
    if match := re.fullmatch(r"cu(\d{2,3})", word):
        digits = match[1]
        return {"": word, "device": "cuda:0", "cuda": f"{digits[:-1]}.{digits[-1]}"}
    if match := re.fullmatch(r"pt(\d{2,5})", word):
        return {"": word, "torch": torch_version(match[1])}
    return {}


def torch_version(digits: str) -> str:
    """Of `pt291` 2.9.1, of `pt2100` 2.10.0, of `pt112` 1.12, of `pt1121` 1.12.1."""
    if digits[0] == "1":
        parts = [digits[1:3], digits[3:]]
    elif len(digits) > 2:
        parts = [digits[1:-1], digits[-1]]
    else:
        parts = [digits[1:]]
    return ".".join(filter(None, (digits[0], *parts)))
