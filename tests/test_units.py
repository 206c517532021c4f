"""Numbers as people read them. In the expected texts `~` stands for U+00A0 and `_` for the thin
space of thousands, which an eye cannot tell from a plain one."""

from __future__ import annotations

import math

import pytest

from bench_core import units

ACROSS = "between 7~% slower and 1~% faster"


def spaced(text: str) -> str:
    return text.replace("~", "\u00a0").replace("_", "\u202f")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (950e-6, "950~µs"),
        (0.975, "975~ms"),
        (0.00975, "9.75~ms"),
        (8.884, "8.88~s"),
        (61.13, "61.1~s"),
        (212.4, "212~s"),
        (6600.0, "6_600~s"),
        (0.9997, "1.00~s"),
        (9.996, "10.0~s"),
        (99.96, "100~s"),
        (0.0009996, "1.00~ms"),
        (12e-9, "12.0~ns"),
        (0, "0~s"),
        (-8.884, "−8.88~s"),
    ],
)
def test_seconds_in_a_table_have_three_digits(seconds: float, text: str) -> None:
    assert units.seconds_text(seconds) == spaced(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (8.884, "8.88~s"),
        (120, "120~s"),
        (121, "2~min 1~s"),
        (420, "7~min"),
        (446, "7~min 26~s"),
        (3599.7, "1~h"),
        (6600, "1~h 50~min"),
        (7170, "2~h"),
        (183_600, "2~d 3~h"),
        (-446, "−7~min 26~s"),
    ],
)
def test_durations_in_a_sentence_have_two_units(seconds: float, text: str) -> None:
    assert units.duration_text(seconds) == spaced(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "a few seconds"),
        (38, "about 40~seconds"),
        (60, "about a minute"),
        (100, "about 2~minutes"),
        (700, "about 12~minutes"),
        (1500, "about 25~minutes"),
        (1620, "about 25~minutes"),
        (3600, "about an hour"),
        (5600, "about 1.5~hours"),
        (10_800, "about 3~hours"),
        (40_000, "about 11~hours"),
        (260_000, "about 3~days"),
    ],
)
def test_estimates_are_round(seconds: float, text: str) -> None:
    assert units.estimate_text(seconds) == spaced(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0~B"),
        (512, "512~B"),
        (52_000, "52~kB"),
        (750e6, "750~MB"),
        (999.6e6, "1.0~GB"),
        (3.9e9, "3.9~GB"),
        (14.2e9, "14~GB"),
        (2.5e15, "2_500~TB"),
        (-3.9e9, "−3.9~GB"),
    ],
)
def test_bytes_read_as_on_a_data_sheet(size_bytes: float, text: str) -> None:
    assert units.bytes_text(size_bytes) == spaced(text)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (163, "163"), (1278, "1_278"), (-1_000_000, "−1_000_000")]
)
def test_thousands_are_set_apart(count: int, text: str) -> None:
    assert units.count_text(count) == spaced(text)


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (0.4567, "0.457"),
        (18.24, "18.2"),
        (57.37, "57.4"),
        (999.7, "1_000"),
        (1239.8, "1_240"),
        (6.25e8, "625~million"),
        (2.5e9, "2.50~billion"),
        (math.nan, ""),
        (math.inf, ""),
    ],
)
def test_a_rate_has_three_digits(rate: float, text: str) -> None:
    assert units.rate_text(rate) == spaced(text)


@pytest.mark.parametrize(
    ("speedup", "low", "high", "ratio", "interval", "percent", "percent_interval"),
    [
        (1.0838, 1.0711, 1.0963, "1.084×", "1.071–1.096", "8.4~% faster", "7.1–9.6~%"),
        (0.97, 0.931, 1.011, "0.97×", "0.93–1.01", "3~% slower", ACROSS),
        (0.9620, 0.9502, 0.9741, "0.962×", "0.950–0.974", "3.8~% slower", "2.6–5.0~%"),
        # By the noise alone these would read 1.00-1.06 and 0.94-1.00.
        (1.031, 1.004, 1.058, "1.031×", "1.004–1.058", "3.1~% faster", "0.4–5.8~%"),
        (0.969, 0.942, 0.9962, "0.969×", "0.942–0.996", "3.1~% slower", "0.4–5.8~%"),
        # An end that rounds to 1 stays there when the interval does hold 1.
        (1.02, 0.998, 1.058, "1.02×", "1.00–1.06", "2~% faster", "between 0~% and 6~% faster"),
        (2.3, 1.9, 2.7, "2.3×", "1.9–2.7", "130~% faster", "90–170~%"),
        (12.3, 8.1, 16.5, "12×", "8–16", "12 times as fast", "8–16 times as fast"),
        (1.0, 1.0, 1.0, "1.0000×", "1.0000–1.0000", "equally fast", "between 0~% and 0~%"),
    ],
)
def test_digits_follow_the_noise(
    speedup: float,
    low: float,
    high: float,
    ratio: str,
    interval: str,
    percent: str,
    percent_interval: str,
) -> None:
    assert units.ratio_text(speedup, low, high) == spaced(ratio)
    assert units.interval_text(low, high) == spaced(interval)
    assert units.percent_text(speedup, low, high) == spaced(percent)
    assert units.percent_interval_text(low, high) == spaced(percent_interval)


@pytest.mark.parametrize("low", [1.004, 1.0004, 1.00004, 1.000004])
def test_an_interval_that_excludes_one_never_reads_as_touching_it(low: float) -> None:
    assert not units.interval_text(low, 1.3).startswith(("1.0–", "1.00–", "1.000–", "1.0000–"))
    assert float(units.interval_text(low, 1.3).split("–")[0]) > 1


@pytest.mark.parametrize(
    ("speedup", "ratio", "percent"),
    [
        (1.0838, "1.08×", "8~% faster"),
        (0.9620, "0.962×", "3.8~% slower"),
        (12.34, "12.3×", "12.3 times as fast"),
        (1.0004, "1.00×", "equally fast"),
    ],
)
def test_a_first_look_has_three_digits(speedup: float, ratio: str, percent: str) -> None:
    assert units.ratio_text(speedup) == ratio
    assert units.percent_text(speedup) == spaced(percent)


@pytest.mark.parametrize("missing", [None, math.nan, math.inf])
@pytest.mark.parametrize(
    "text_of",
    [
        units.seconds_text,
        units.duration_text,
        units.estimate_text,
        units.bytes_text,
        units.count_text,
        units.ratio_text,
        units.percent_text,
        lambda missing: units.interval_text(missing, 1.1),
        lambda missing: units.interval_text(1.1, missing),
        lambda missing: units.percent_interval_text(missing, 1.1),
    ],
)
def test_a_missing_number_is_an_empty_text(text_of, missing: float | None) -> None:
    assert text_of(missing) == ""


def test_a_rounded_away_minus_leaves_no_sign() -> None:
    assert units.count_text(-0.2) == "0"


@pytest.mark.parametrize(
    ("count", "nouns", "text"),
    [
        (0, ("run",), "0 runs"),
        (1, ("run",), "1 run"),
        (6, ("run",), "6 runs"),
        (1, ("miss", "misses"), "1 miss"),
        (2, ("miss", "misses"), "2 misses"),
        (1278, ("epoch",), "1_278 epochs"),
    ],
)
def test_what_is_counted_is_singular_only_for_one(count, nouns, text):
    assert units.counted(count, *nouns) == spaced(text)


def test_from_five_times_on_a_ratio_is_told_as_times_and_not_in_per_cent() -> None:
    assert units.percent_text(5.012, 4.98, 5.05) == "5.01 times as fast"
    assert units.percent_text(99921.0) == "99\u202f921.0 times as fast"
    assert units.percent_interval_text(5.01, 5.05) == "5.01–5.05 times as fast"
    assert units.percent_text(4.9) == "390\u00a0% faster"
