"""What people call variants: `compiled`, `torch.compile`, `baseline`, `max-autotune`. Pure."""

from __future__ import annotations

import re

from bench_core.spec import SpecError, Variant, parse_variant

# By the words alone, in lower case and without what joins them.
MEANINGS = dict.fromkeys(
    (
        *("eager mode", "baseline", "base", "no compile", "nocompile", "not compiled", "none"),
        *("uncompiled", "without compile", "without torch compile", "no torch compile", "vanilla"),
        *("plain", "native", "original", "pytorch", "pytorch eager", "torch eager", "no", "false"),
        *("off", "0"),
    ),
    "eager",
) | dict.fromkeys(
    (
        *("compiled", "torch compile", "torchcompile", "torch compiled", "with compile", "dynamo"),
        *("with torch compile", "compile default", "default", "inductor", "torchinductor"),
        *("compile inductor", "torch compile inductor", "torch inductor", "torchdynamo", "pt2"),
        *("pytorch 2", "optimized", "yes", "true", "on", "1"),
    ),
    "compile",
)
# In a longer text, the longer word first.
MODES = ("max-autotune-no-cudagraphs", "max-autotune", "reduce-overhead")
BACKENDS = ("aot_eager", "cudagraphs")


def plainly(text: str) -> str | None:
    """The argument that it is already, in whatever case; None where a person has to say."""
    for word in (text, text.lower()):
        try:
            parse_variant(word)
        except SpecError:
            continue
        return word
    return None


def suggestion(text: str) -> str | None:
    """What it probably means, as spec.parse_variant reads it."""
    words = re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()
    if words in MEANINGS:
        return MEANINGS[words]
    for name, values in (("mode", MODES), ("backend", BACKENDS)):
        for value in values:
            if re.sub("[-_]", " ", value) in words:
                return f'compile:{{"{name}": "{value}"}}'
    return None


def variant_named(argument: str) -> Variant:
    """Raises SpecError, with the way out."""
    try:
        return parse_variant(argument)
    except SpecError as error:
        raise SpecError(
            f"{error}. A variant is eager, compile, or with arguments such as "
            'compile:{"mode":"max-autotune"}'
        ) from None
