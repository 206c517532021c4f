"""What the charts draw: the right points, bounded, in colours with one meaning."""

import json

import numpy as np
import pytest

from bench_core.chart_frame import arm_styles, machine_styles, thinned
from bench_core.figures import (
    Line,
    Saved,
    SecondsBar,
    SpeedupPoint,
    absolute_seconds_by_batch,
    cumulative_seconds,
    epoch_seconds,
    seconds_saved,
    spark,
    speedup_by_batch,
    step_times,
)
from bench_core.stats import break_even

EAGER = Line("eager", [67.4, *[66.2] * 29])
COMPILED = Line("compile", [131.1, *[61.1] * 18], [70.0, *[0.0] * 18])
EVEN = break_even(1.2, 70.0, 66.2, 61.1, measured_epochs=19)
SAVED = Saved("compile", np.cumsum(np.array([-63.7, *[5.1] * 18])).tolist(), False, 5.1, EVEN)


def traces(figure, name):
    return [trace for trace in figure.data if trace.name == name]


def test_a_short_series_is_drawn_whole():
    assert thinned([3.0, 1.0, 2.0]).tolist() == [0, 1, 2]


def test_thinning_keeps_ends_extremes_and_what_is_asked_for():
    seconds = np.ones(10_000)
    seconds[[4321, 7000]] = [9.0, 0.1]
    at = thinned(seconds, keep=[17, 5000])
    assert len(at) <= 300
    assert {0, 17, 4321, 5000, 7000, 9999} <= set(at.tolist())
    assert (np.diff(at) > 0).all()


def test_thinning_stays_bounded_when_every_epoch_compiles():
    seconds = np.arange(1000.0)
    at = thinned(seconds, keep=list(range(1000)))
    assert len(at) <= 300
    assert {0, 999} <= set(at.tolist())


def test_compile_seconds_stand_hatched_on_the_rest_of_the_epoch():
    figure = epoch_seconds([EAGER, COMPILED], epochs=30)
    (bar,) = traces(figure, "of which compiling")
    assert bar.base[0] == pytest.approx(61.1)
    assert bar.base[0] + bar.y[0] == pytest.approx(131.1)
    assert bar.marker.pattern.shape == "/"


def test_repeats_of_an_arm_share_its_colour_and_one_legend_entry():
    figure = epoch_seconds([EAGER, COMPILED, COMPILED, EAGER])
    compiled = traces(figure, "compile")
    assert {trace.line.color for trace in compiled} == {"#E0590B"}
    assert [trace.showlegend for trace in compiled] == [True, False]
    single = traces(epoch_seconds([COMPILED]), "compile")[0]
    assert compiled[0].line.width < single.line.width


def test_markers_are_drawn_for_short_lines_only():
    long = Line("eager", [2.0] * 61)
    assert traces(epoch_seconds([EAGER]), "eager")[0].mode == "lines+markers"
    assert traces(epoch_seconds([long]), "eager")[0].mode == "lines"


def test_an_arm_without_an_epoch_draws_nothing_and_fails_nothing():
    assert len(epoch_seconds([Line("eager", [])]).data) == 0
    assert len(epoch_seconds([], epochs=10).data) == 0


def test_savings_start_at_nothing_and_go_on_dotted_as_projected():
    figure = seconds_saved([SAVED], epochs=30)
    (line,) = traces(figure, "compile")
    assert (line.x[0], line.y[0]) == (0, 0)
    (projected,) = traces(figure, "projected")
    assert projected.line.dash == "dot"
    assert projected.y[-1] == pytest.approx(SAVED.seconds[-1] + 11 * 5.1)


def test_the_crossing_is_marked_at_the_break_even_epoch():
    assert seconds_saved([SAVED], epochs=30).layout.annotations[0].text == "even at epoch 14"
    before = Saved("compile", SAVED.seconds[:5], False, 5.1, EVEN)
    mark = seconds_saved([before], epochs=30).layout.annotations[0]
    assert mark.text == "even at about epoch 14"
    assert mark.y == pytest.approx(before.seconds[-1] + 9 * 5.1)


def test_a_crossing_beyond_the_axis_is_not_marked():
    far = break_even(0.0, 700.0, 66.2, 61.1, measured_epochs=19)
    assert not seconds_saved([Saved("compile", SAVED.seconds, False, 5.1, far)]).layout.annotations


def test_cumulative_lines_cross_where_they_are_marked():
    figure = cumulative_seconds([EAGER, COMPILED], even=EVEN, epochs=30)
    eager, compiled = traces(figure, "eager")[0], traces(figure, "compile")[0]
    assert compiled.y[13] > eager.y[13]
    assert compiled.y[14] <= eager.y[14]
    assert figure.layout.annotations[0].x == 14


def test_a_step_that_compiled_does_not_flatten_the_others():
    steps = {"compile": [70.0, *[0.97, 0.98] * 92]}
    figure = step_times(steps)
    assert figure.layout.yaxis.range[1] < 1200
    assert max(figure.data[0].y) == pytest.approx(70_000)
    assert figure.layout.yaxis.ticksuffix.strip() == "ms"


def test_a_first_look_is_hollow_and_has_no_error_bar():
    points = [SpeedupPoint("T4", 8, 1.01), SpeedupPoint("T4", 16, 1.05, 1.04, 1.06)]
    figure = speedup_by_batch(points, machine_styles(["T4"]), noise=(0.98, 1.02))
    (line,) = traces(figure, "T4")
    assert list(line.marker.symbol) == ["circle-open", "circle"]
    assert np.isnan(line.error_y.array[0])
    assert line.error_y.array[1] == pytest.approx(0.01)
    assert list(figure.layout.xaxis.tickvals) == [8, 16]


def test_seconds_by_batch_have_a_bar_an_arm():
    figure = absolute_seconds_by_batch(
        [
            SecondsBar("eager", 32, 60.0),
            SecondsBar("eager", 16, 66.0),
            SecondsBar("compile", 16, 61),
        ]
    )
    assert [list(bar.x) for bar in figure.data] == [["16", "32"], ["16"]]
    assert figure.data[0].text[0] == "66.0\u00a0s"


def test_an_arm_keeps_its_look_whatever_stands_beside_it():
    alone = arm_styles(["compile max-autotune"])["compile max-autotune"]
    beside = arm_styles(["eager", "compile", "compile max-autotune"])["compile max-autotune"]
    assert alone == beside
    odd = arm_styles(["compile dynamic=False", "compile dynamic=True"])
    assert len(set(odd.values())) == 2
    assert odd["compile dynamic=False"].dash == "solid"
    both = arm_styles(["compile", "compile dynamic=False"])
    assert both["compile dynamic=False"].dash not in ("solid", "dash", "dot")
    assert {style.color for style in odd.values()} == {"#E0590B"}


def test_a_machine_keeps_the_colour_of_its_first_run():
    assert machine_styles(["T4", "A100"])["A100"] == machine_styles(["T4", "A100", "CPU"])["A100"]
    assert len({style.symbol for style in machine_styles(list("abcde")).values()}) == 5


def test_names_from_files_are_no_markup():
    figure = step_times({"compile options=<b>": [1.0, 1.1]})
    assert "<b>" not in figure.data[0].hovertemplate
    assert "<b>" not in figure.data[0].name


def test_every_figure_carries_its_title_and_no_colours_of_a_template():
    for figure in (
        epoch_seconds([EAGER], title="finding"),
        seconds_saved([SAVED], title="finding"),
        cumulative_seconds([EAGER], title="finding"),
        step_times({"eager": [1.0]}, title="finding"),
        speedup_by_batch([SpeedupPoint("T4", 8, 1.0)], machine_styles(["T4"]), title="finding"),
        absolute_seconds_by_batch([SecondsBar("eager", 8, 1.0)], title="finding"),
    ):
        layout = json.loads(figure.to_json())["layout"]
        assert layout["meta"] == {"title": "finding"}
        assert layout["uirevision"] == "kept"
        assert "#000001" not in figure.to_json()


def test_a_spark_line_is_relative_to_the_steady_epoch():
    assert spark([131.1, 61.1, 61.1], 61.1)[1:] == [1.0, 1.0]
    assert len(spark(list(np.linspace(1, 2, 1000)), 1.0)) <= 40
