"""The phases of a first call: a row a phase, cold above warm, and the finding as the title."""

import pytest

from bench_core.captured import Phase, Timeline
from bench_core.phase_figure import phase_timeline, phase_title


def line(cache: str, *phases: tuple[str, float, float]) -> Timeline:
    return Timeline(
        cache=cache,
        first_call_seconds=max((end for _, _, end in phases), default=1.0),
        phases=tuple(
            Phase(name=name, began_seconds=start, ended_seconds=end, seconds=end - start)
            for name, start, end in phases
        ),
    )


COLD = line(
    "cold",
    ("first call", 0.0, 0.5),
    ("TorchDynamo", 0.5, 2.0),
    ("C++/OpenMP", 2.0, 12.0),
    ("TorchDynamo", 12.0, 13.0),
    ("C++/OpenMP", 13.0, 20.0),
)
WARM = line("warm", ("TorchDynamo", 0.0, 1.5), ("first call", 1.5, 2.0))


def test_the_title_names_the_longest_phase_and_what_a_warm_cache_leaves_of_it():
    told = "C++/OpenMP takes 17.0\u00a0s of the first call's 20.0\u00a0s"
    assert phase_title([WARM, COLD]) == f"{told}; a warm cache skips it"
    assert phase_title([COLD]) == told
    slow = line("warm", ("C++/OpenMP", 0.0, 4.0), ("TorchDynamo", 4.0, 5.0))
    assert phase_title([COLD, slow]) == f"{told}; from a warm cache 4.00\u00a0s of 5.00\u00a0s"
    assert phase_title([WARM]).endswith("2.00\u00a0s, from a warm cache")
    assert phase_title([line("cold")]) == "The first call takes 1.00\u00a0s"


def test_each_stretch_is_a_bar_and_a_rows_sum_stands_once():
    figure = phase_timeline([WARM, COLD], "title")
    warm, cold = figure.data  # groups are drawn from below
    assert [trace.name for trace in figure.data] == ["warm cache", "cold cache"]
    assert list(cold.base) == [0.0, 0.5, 2.0, 12.0, 13.0]
    assert list(cold.x) == pytest.approx([0.5, 1.5, 10.0, 1.0, 7.0])
    assert list(cold.text) == ["500\u00a0ms", "", "", "2.50\u00a0s", "17.0\u00a0s"]
    assert cold.marker.color != warm.marker.color
    assert figure.layout.meta["title"] == "title"


def test_what_is_in_no_phase_is_the_last_row():
    figure = phase_timeline([COLD, WARM], "")
    rows = list(figure.layout.yaxis.categoryarray)[::-1]
    assert rows == ["TorchDynamo", "C++/OpenMP", "first call"]


def test_names_are_text():
    figure = phase_timeline([line("cold", ("<b>x</b>", 0.0, 1.0))], "")
    assert list(figure.data[0].y) == ["&lt;b&gt;x&lt;/b&gt;"]
