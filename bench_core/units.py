"""Numbers as people read them: seconds, bytes, counts, ratios and intervals.

Called where something is drawn or printed, never where something is stored. A missing value (None,
nan or infinite) becomes the empty text. Numbers keep their unit on the same line (U+00A0).
"""

from __future__ import annotations

import math

NO_BREAK = "\u00a0"
THIN_SPACE = "\u202f"
MINUS = "\u2212"
EN_DASH = "\u2013"
TIMES = "\u00d7"

# More digits than these are noise whatever the interval says.
_MOST_DECIMALS = 4
_MOST_DECIMALS_BESIDE_ONE = 6
# From here on per cent are hard to read: `401 % faster` is 5 times as fast.
TIMES_AS_FAST = 5.0
_LARGE = (("billion", 1e9), ("million", 1e6))


def seconds_text(seconds: float | None) -> str:
    """Three significant digits for tables: `950 µs`, `975 ms`, `8.88 s`, `212 s`, `6 600 s`."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    if seconds == 0:
        return f"0{NO_BREAK}s"
    # Rounded first: 999.7 ms is 1.00 s, not 1000 ms.
    rounded = float(f"{seconds:.2e}") if abs(seconds) < 1000 else seconds
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(rounded) >= size:
            return f"{_three_significant(seconds / size)}{NO_BREAK}{unit}"
    return f"{_three_significant(seconds / 1e-9)}{NO_BREAK}ns"


def value_text(value: object) -> str:
    """A fact's value; of a machine its label and id. None, which nobody set, is `default`."""
    if isinstance(value, tuple):
        return f"{value[0]} ({value[1]})"
    return "default" if value is None else str(value)


def duration_text(seconds: float | None) -> str:
    """For sentences: as in tables up to 120 s, then `7 min 26 s`, `1 h 50 min`, `2 d 3 h`."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    size = abs(seconds)
    if size < 120.5:
        return seconds_text(seconds)
    if round(size) < 3600:
        big, small = divmod(round(size), 60)
        units = ("min", "s")
    elif round(size / 60) < 48 * 60:
        big, small = divmod(round(size / 60), 60)
        units = ("h", "min")
    else:
        big, small = divmod(round(size / 3600), 24)
        units = ("d", "h")
    text = f"{big}{NO_BREAK}{units[0]}"
    if small:
        text += f" {small}{NO_BREAK}{units[1]}"
    return MINUS + text if seconds < 0 else text


def estimate_text(seconds: float | None) -> str:
    """What is left to wait, as round as a guess should be: `about 25 minutes`."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    minutes = seconds / 60
    if seconds < 10:
        return "a few seconds"
    if seconds < 55:
        return f"about {_to_the(seconds, 10):.0f}{NO_BREAK}seconds"
    if seconds < 90:
        return "about a minute"
    if minutes < 20:
        return f"about {minutes:.0f}{NO_BREAK}minutes"
    if minutes < 57.5:
        return f"about {_to_the(minutes, 5):.0f}{NO_BREAK}minutes"
    if minutes < 75:
        return "about an hour"
    if minutes < 10 * 60:
        return f"about {_to_the(minutes / 60, 0.5):g}{NO_BREAK}hours"
    if minutes < 48 * 60:
        return f"about {minutes / 60:.0f}{NO_BREAK}hours"
    return f"about {minutes / (24 * 60):.0f}{NO_BREAK}days"


def bytes_text(size_bytes: float | None) -> str:
    """Decimal units, as on a data sheet: `512 B`, `52 kB`, `750 MB`, `3.9 GB`."""
    if size_bytes is None or not math.isfinite(size_bytes):
        return ""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(size) < 999.5 or unit == "TB":
            break
        size /= 1000
    decimals = 1 if unit != "B" and abs(size) < 9.95 else 0
    return f"{_number(size, decimals)}{NO_BREAK}{unit}"


def count_text(count: float | None) -> str:
    """A whole number, thousands set apart: `1 278`."""
    if count is None or not math.isfinite(count):
        return ""
    return _number(count, 0)


def rate_text(per_second: float) -> str:
    """Three digits: `18.2`, `1 240`, `625 million`; empty where it is not known."""
    if not (math.isfinite(per_second) and per_second > 0):
        return ""
    rate = float(f"{per_second:.2e}")
    name, size = next(((n, s) for n, s in _LARGE if rate >= s), ("", 1.0))
    return NO_BREAK.join(filter(None, (_three_significant(rate / size), name)))


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 run`, `6 runs`; a plural that is more than an s is given: `2 misses`."""
    return f"{count_text(count)} {noun if count == 1 else plural or noun + 's'}"


def ratio_text(speedup: float | None, low: float | None = None, high: float | None = None) -> str:
    """`1.084×`: digits follow the interval, three significant ones where there is none."""
    if speedup is None or not math.isfinite(speedup):
        return ""
    return f"{_number(speedup, _ratio_decimals(speedup, low, high))}{TIMES}"


def interval_text(low: float | None, high: float | None) -> str:
    """The ends of a speedup's interval as ratios: `1.071–1.096`."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    decimals = _ratio_decimals(low, low, high)
    return f"{_number(low, decimals)}{EN_DASH}{_number(high, decimals)}"


def place_text(unit: str, number: int, projected: bool) -> str:
    """`epoch 14`, `about iteration 3 900`: what lies far ahead is not known to the last digit."""
    if not projected:
        return f"{unit} {count_text(number)}"
    return f"about {unit} {count_text(float(f'{number:.1e}') if number >= 100 else number)}"


def percent_text(speedup: float | None, low: float | None = None, high: float | None = None) -> str:
    """A speedup in words: `8.4 % faster`, `3.8 % slower`, `equally fast` where it rounds to 0.

    It words the ratio and judges nothing: whether a difference is shown is for the interval to say.
    """
    if speedup is None or not math.isfinite(speedup):
        return ""
    if speedup >= TIMES_AS_FAST:
        number = _number(speedup, _ratio_decimals(speedup, low, high) if low else 1)
        return f"{number} times as fast"
    return _side_text(speedup, _percent_decimals(speedup, low, high)) or "equally fast"


def percent_interval_text(low: float | None, high: float | None) -> str:
    """`7.1–9.6 %` on one side of 1, `between 4 % slower and 2 % faster` across it."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    if low >= TIMES_AS_FAST:
        return f"{interval_text(low, high)} times as fast"
    decimals = _percent_decimals(low, low, high)
    if low > 1 or high < 1:
        near, far = sorted((abs(low - 1), abs(high - 1)))
        ends = f"{_number(near * 100, decimals)}{EN_DASH}{_number(far * 100, decimals)}"
        return f"{ends}{NO_BREAK}%"
    zero = f"0{NO_BREAK}%"
    return f"between {_side_text(low, decimals) or zero} and {_side_text(high, decimals) or zero}"


def _side_text(speedup: float, decimals: int) -> str:
    percent = _number(abs(speedup - 1) * 100, decimals)
    if float(percent.replace(THIN_SPACE, "")) == 0:
        return ""
    return f"{percent}{NO_BREAK}% {'faster' if speedup > 1 else 'slower'}"


def _percent_decimals(speedup: float, low: float | None, high: float | None) -> int:
    return max(0, _ratio_decimals(speedup, low, high, most=3) - 2)


def _ratio_decimals(
    speedup: float, low: float | None, high: float | None, most: int = _MOST_DECIMALS
) -> int:
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return _three_significant_decimals(speedup)
    half = (high - low) / 2
    if half <= 0:
        return most
    digits, exponent = f"{half:e}".split("e")
    decimals = -int(exponent) + (digits[0] == "1")
    decimals = min(max(decimals, 0), most)
    if low < 3:  # the end of a wide interval: `0` or `1` could be anything
        decimals = max(decimals, 1)
    # An interval that excludes 1 must not read as if it touched it.
    while decimals < _MOST_DECIMALS_BESIDE_ONE and any(
        float(f"{end:.{decimals}f}") == 1 for end in (low, high) if low > 1 or high < 1
    ):
        decimals += 1
    return decimals


def _three_significant(value: float) -> str:
    return _number(value, _three_significant_decimals(value))


def _three_significant_decimals(value: float) -> int:
    if value == 0:
        return 0
    return max(0, 2 - int(f"{value:.2e}".split("e")[1]))


def _number(value: float, decimals: int) -> str:
    text = f"{abs(value):,.{decimals}f}".replace(",", THIN_SPACE)
    return MINUS + text if value < 0 and text.strip("0.") else text


def _to_the(value: float, step: float) -> float:
    return round(value / step) * step
