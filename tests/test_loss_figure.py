"""Promises of the loss curves and of logarithmic axes."""

from __future__ import annotations

import math

import numpy as np

from bench_core.chart_frame import on_log_axes
from bench_core.figures import Line, cumulative_seconds, epoch_seconds
from bench_core.loss_figure import loss_by_epoch
from bench_core.stats import break_even


def test_each_run_is_a_line_and_each_arm_one_entry_of_the_legend():
    figure = loss_by_epoch({"eager": [[3.0, 2.0], [3.1, 2.1]], "compile": [[3.0, 2.0, 1.5]]})
    assert [(trace.name, trace.showlegend) for trace in figure.data] == [
        ("eager", True),
        ("eager", False),
        ("compile", True),
    ]
    assert list(figure.data[2].x) == [1, 2, 3]
    assert list(figure.data[2].y) == [3.0, 2.0, 1.5]


def test_names_from_files_are_no_tags():
    assert loss_by_epoch({"<b>x</b>": [[1.0]]}).data[0].name == "&lt;b&gt;x&lt;/b&gt;"


def test_logarithmic_axes_have_ticks_at_1_2_5_and_fit_the_data():
    figure = on_log_axes(loss_by_epoch({"eager": [list(np.geomspace(6.0, 0.3, 30))]}))
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert list(figure.layout.xaxis.ticktext) == ["1", "2", "5", "10", "20"]
    assert list(figure.layout.yaxis.ticktext) == ["0.5", "1", "2", "5"]
    assert figure.layout.xaxis.autorange is True


def test_a_mark_stays_on_its_line_on_logarithmic_axes():
    lines = [Line("eager", [2.0] * 20), Line("compile", [11.0] + [1.0] * 19)]
    even = break_even(0.0, 10.0, 2.0, 1.0, 20)
    figure = on_log_axes(cumulative_seconds(lines, even=even))
    (note,) = figure.layout.annotations
    assert (note.x, note.y) == (math.log10(10), math.log10(20.0))


def test_values_that_may_be_negative_keep_their_axis():
    figure = on_log_axes(loss_by_epoch({"eager": [[-1.0, 2.0]]}), y=False)
    assert figure.layout.yaxis.type is None


def test_ticks_keep_their_unit_and_the_foot_of_a_bar_counts():
    seconds = [131.0] + [60.0 + epoch % 3 for epoch in range(20)]
    figure = on_log_axes(epoch_seconds([Line("compile", seconds, [70.0])]))
    assert figure.layout.yaxis.tickmode == "auto"  # 60 to 131: 70 is a length and no value
    long = on_log_axes(epoch_seconds([Line("compile", [500.0] + [4.0] * 9)]))
    assert [text.replace("\u00a0", " ") for text in long.layout.yaxis.ticktext] == [
        "5 s",
        "10 s",
        "20 s",
        "50 s",
        "100 s",
        "200 s",
        "500 s",
    ]
