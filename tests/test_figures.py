"""What the charts draw: the right points, bounded, in colours with one meaning."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bench_core.batch_figures import (
    SecondsBar,
    SpeedupPoint,
    absolute_seconds_by_batch,
    speedup_by_batch,
)
from bench_core.chart_frame import (
    ARM_STYLES,
    GRAY,
    ORANGE,
    arm_styles,
    axis_unit,
    machine_styles,
    on_log_axes,
    thinned,
)
from bench_core.figures import (
    Line,
    cumulative_seconds,
    epoch_seconds,
    mean_series,
    spark,
    step_times,
)
from bench_core.iteration_figures import latency_shares, running_percentiles
from bench_core.measured import measure
from bench_core.pairing import comparisons
from bench_core.saved_figure import Saved, seconds_saved
from bench_core.stats import Band, break_even, saved_after
from bench_core.store import Store
from bench_core.units import place_text
from tests import planted

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
    assert (mark.x, mark.y) == (14, 0), "on the line of no difference, like its interval"


def test_a_crossing_beyond_the_axis_is_not_marked():
    far = break_even(0.0, 700.0, 66.2, 61.1, measured_epochs=19)
    assert not seconds_saved([Saved("compile", SAVED.seconds, False, 5.1, far)]).layout.annotations


def test_cumulative_lines_cross_where_they_are_marked():
    figure = cumulative_seconds([EAGER, COMPILED], even=EVEN, epochs=30)
    eager, compiled = traces(figure, "eager")[0], traces(figure, "compile")[0]
    assert compiled.y[13] > eager.y[13]
    assert compiled.y[14] <= eager.y[14]
    assert figure.layout.annotations[0].x == 14


def test_a_crossing_is_what_was_measured_and_the_break_even_a_line_with_its_interval():
    # One epoch that was hit puts the crossing off; the verdict stands.
    hit = Line("compile", [131.1, *[61.1] * 11, 75.0, *[61.1] * 6])
    figure = cumulative_seconds([EAGER, hit], even=EVEN, even_ends=Band(12.4, np.inf), epochs=30)
    assert figure.layout.annotations[0].text == "first ahead at epoch 17"
    line, band = figure.layout.shapes
    assert (line.x0, line.x1) == (14, 14)
    assert (band.x0, band.x1) == (12.4, 30), "never is beyond the axis"


def test_lines_that_never_cross_have_no_mark():
    figure = cumulative_seconds([EAGER, Line("compile", COMPILED.seconds[:5])], even=EVEN)
    assert not figure.layout.annotations


@pytest.fixture
def trained(tmp_path):
    with Store(tmp_path / "bench.db") as store:
        planted.planted_experiment(store, models=("resnet101",))
        runs = store.runs()
        epochs = store.epochs([run.number for run in runs])
    [pair] = comparisons([measure(run, epochs[run.number]) for run in runs]).pairs
    return pair


def test_what_is_saved_has_the_band_of_the_outlook_also_where_it_is_projected(trained):
    saved = Saved.from_cold(trained)
    assert saved
    figure = seconds_saved([saved], epochs=30)
    band = next(trace for trace in figure.data if trace.fill == "toself")
    last = saved_after(trained.outlook("cold"), 30)
    assert (max(band.y), band.x.max()) == (pytest.approx(last.high), 30)
    assert last.low < saved.at(30) < last.high
    assert saved_after(trained.outlook("warm"), 30).low > last.high, "a warm start has its own"


def test_the_break_even_has_its_interval_on_the_line_of_no_difference(trained):
    saved = Saved.from_cold(trained)
    assert saved
    figure = seconds_saved([saved], epochs=30)
    [bar] = [trace for trace in figure.data if trace.line.width == 7]
    assert bar.x[0] < saved.even.epoch <= bar.x[1] + 1
    assert not bar.y.any()


def test_a_baseline_is_grey_whatever_it_is_called():
    figure = epoch_seconds([Line("threads 2", [1.0, 1.0]), Line("threads 8", [0.7, 0.7])])
    assert [trace.line.color for trace in figure.data] == [GRAY, ORANGE]


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


# Inference

CALLS = Line("eager", [0.217, *[0.046] * 199], unit="iteration")
COMPILED_CALLS = Line(
    "compile", [31.05, *[0.055] * 99, 0.071, *[0.055] * 99], [31.0], unit="iteration"
)


def words(text):
    return text.replace("\u00a0", " ").replace("\u202f", " ")


def test_a_first_call_far_above_the_others_makes_the_axis_a_logarithmic_one():
    figure = epoch_seconds([CALLS, COMPILED_CALLS], epochs=200)
    assert figure.layout.yaxis.type == "log"
    assert [words(tick) for tick in figure.layout.yaxis.ticktext] == ["100 ms", "1 s", "10 s"]
    assert figure.layout.xaxis.title.text == "iteration"
    assert epoch_seconds([CALLS], epochs=200).layout.yaxis.type is None
    assert epoch_seconds([EAGER, COMPILED], epochs=30).layout.yaxis.type is None


def test_compiling_stands_on_what_is_left_of_the_first_call():
    # Two clocks: the compiler's window may come out longer than the call around it.
    line = Line("compile", [31.0, *[0.055] * 9], [31.01], unit="iteration")
    (bar,) = traces(epoch_seconds([line]), "of which compiling or tracing")
    assert bar.base[0] > 0, "a logarithmic axis has no 0"
    assert bar.base[0] + bar.y[0] == pytest.approx(31.0)


def test_of_thousands_of_calls_the_usual_time_is_drawn_and_each_spike_behind_it():
    seconds = [0.05, 0.05, 0.06] * 4000
    seconds[7776] = 0.09
    spikes, usual = epoch_seconds([Line("eager", seconds, unit="iteration")]).data
    assert len(spikes.x) <= 300 and len(usual.x) <= 150
    assert max(spikes.y) == pytest.approx(90)
    assert spikes.x[int(np.argmax(spikes.y))] == 7777
    assert set(usual.y) == {50.0}
    assert spikes.opacity < 0.5 and not spikes.showlegend
    assert len(epoch_seconds([Line("eager", seconds[:300], unit="iteration")]).data) == 1


def test_short_times_have_a_unit_of_their_own():
    assert axis_unit(6e-6) == (1e-6, "µs")
    assert axis_unit(0.0002) == (1e-3, "ms")
    (line,) = traces(epoch_seconds([Line("eager", [6e-6] * 9, unit="iteration")]), "eager")
    assert line.y[0] == pytest.approx(6)


def test_a_logarithmic_axis_names_each_tick_in_a_unit_that_fits():
    figure = on_log_axes(step_times({"eager": [0.004, 0.02, 0.8]}))
    ticks = [words(tick) for tick in figure.layout.yaxis.ticktext]
    assert ticks == ["5 ms", "10 ms", "20 ms", "50 ms", "100 ms", "200 ms", "500 ms"]


def test_a_break_even_far_ahead_is_named_as_roughly_as_it_is_known():
    assert words(place_text("iteration", 3944, projected=True)) == "about iteration 3 900"
    assert words(place_text("iteration", 3944, projected=False)) == "iteration 3 944"
    assert place_text("epoch", 14, projected=True) == "about epoch 14"


@pytest.fixture
def infer(tmp_path):
    """A comparison of each variant with eager: measured as planted, one run an arm."""
    words = ("eager", "compile", "export_aot", "onednn_graph")
    arms = [planted.Variant(execution=word) for word in words]
    with Store(tmp_path / "bench.db") as store:
        planted.planted_experiment(
            store,
            models=("resnet18",),
            batch_sizes=(1,),
            variants=arms,
            repeats=1,
            machine="CPU",
            workload={"task": "infer"},
        )
        runs = store.runs()
        epochs = store.epochs([run.number for run in runs])
    return comparisons([measure(run, epochs[run.number]) for run in runs]).pairs


def test_seconds_saved_count_the_export_before_the_first_answer(infer):
    _, export, _ = infer
    assert mean_series(export.candidate)[0] == pytest.approx(41.06, abs=0.01)
    saved = Saved.from_cold(export)
    assert saved is not None
    assert saved.unit == "iteration"
    assert saved.seconds[0] == pytest.approx(0.216 - 41.06, abs=0.01)
    assert saved.even is not None and saved.even.kind == "epoch"
    # A break-even is where the line of the chart, gone on with, comes to zero.
    assert saved.at(saved.even.epoch) == pytest.approx(0, abs=0.05)
    line = Line.of(export.candidate.runs[0])
    assert line.seconds[0] == pytest.approx(41.06, abs=0.01)
    assert line.compile_seconds[0] == pytest.approx(41.0)


def test_an_arm_without_a_cache_is_neither_from_a_cold_nor_from_a_warm_one(infer):
    compiled, _, onednn = infer
    assert Saved.of(compiled, None).even is None, "its runs found caches in no one state"
    assert Saved.from_cold(onednn).even.kind == "epoch"


def test_percentiles_so_far_end_at_those_of_all():
    latencies = np.random.default_rng(1).gamma(9, 0.005, 5000).tolist()
    figure = running_percentiles({"eager": [latencies], "compile": [[]]})
    middle, high = figure.data
    assert len(middle.x) <= 60
    assert (middle.x[-1], high.x[-1]) == (5000, 5000)
    assert middle.y[-1] == pytest.approx(1e3 * np.percentile(latencies, 50))
    assert high.y[-1] == pytest.approx(1e3 * np.percentile(latencies, 90))
    assert [trace.showlegend for trace in figure.data] == [True, False]


def test_shares_rise_to_all_of_the_iterations_and_one_outlier_flattens_nothing():
    latencies = [*np.linspace(0.040, 0.050, 999), 3.0]
    figure = latency_shares({"eager": [latencies]})
    (line,) = figure.data
    assert line.y[-1] == 100 and line.x[-1] == pytest.approx(3000)
    assert line.x[line.y == 50.0][0] == pytest.approx(45, abs=0.1)
    assert figure.layout.xaxis.range[1] < 60
    assert len(line.x) <= 300


def test_each_run_has_a_line_of_its_own_and_an_arm_one_entry_in_the_legend():
    runs = {"eager": [[0.010] * 60, [0.020] * 60]}
    shares, so_far = latency_shares(runs), running_percentiles(runs)
    assert [set(line.x) for line in shares.data] == [{10.0}, {20.0}]
    assert [line.showlegend for line in shares.data] == [True, False]
    assert [line.y[-1] for line in so_far.data] == pytest.approx([10, 10, 20, 20])
    assert [line.x[-1] for line in so_far.data] == [60] * 4
    assert [line.showlegend for line in so_far.data] == [True, False, False, False]


def test_long_tails_are_on_a_logarithmic_axis():
    latencies = [*[60e-6] * 90, *[5e-3] * 10]
    axis = latency_shares({"eager": [latencies]}).layout.xaxis
    assert axis.type == "log"
    assert 10 ** axis.range[0] < 60 and 10 ** axis.range[1] > 5000
    assert "1 ms" in [words(tick) for tick in axis.ticktext]


def test_executions_have_colours_that_no_machine_has():
    colours = {style.color for arm, style in ARM_STYLES.items() if " " not in arm}
    assert len(colours) == 6
    frozen = arm_styles(["compile_frozen", "compile_frozen max-autotune"])
    assert len({style.color for style in frozen.values()}) == 1
    assert len({style.dash for style in frozen.values()}) == 2


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
        running_percentiles({"eager": [[1.0] * 9]}, title="finding"),
        latency_shares({"eager": [[1.0] * 9]}, title="finding"),
    ):
        layout = json.loads(figure.to_json())["layout"]
        assert layout["meta"] == {"title": "finding"}
        assert layout["uirevision"] == "kept"
        assert "#000001" not in figure.to_json()


def test_a_spark_line_is_relative_to_the_steady_epoch():
    assert spark([131.1, 61.1, 61.1], 61.1)[1:] == [1.0, 1.0]
    assert len(spark(list(np.linspace(1, 2, 1000)), 1.0)) <= 40


def test_eager_makes_nothing_that_could_be_hatched(infer):
    eager = infer[0].baseline.runs[0]
    assert eager.run.prepared is not None
    timed = replace(eager.run, prepared=eager.run.prepared.changed(execution_seconds=2e-6))
    line = Line.of(replace(eager, run=timed))
    assert not traces(epoch_seconds([line]), "of which compiling or tracing")
