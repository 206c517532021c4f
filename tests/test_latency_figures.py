"""What the charts of inference draw: the right numbers, each arm once, ticks in units that fit."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bench_core.chart_frame import arm_styles
from bench_core.latency_figures import (
    Latencies,
    first_against_steady,
    latency_bars,
    latency_by_batch,
    latency_by_precision,
    throughput_by_batch,
)
from bench_core.measured import Arm, measure
from bench_core.stats import geometric_mean, percentiles
from bench_core.store import Store
from tests.planted import COMPILE, planted_experiment

POINTS = [
    Latencies("eager", 1, 0.046, 0.047, 0.060, 0.2),
    Latencies("eager", 8, 0.300, 0.310, 0.390, 0.5),
    Latencies("onednn_graph", 8, 0.215, 0.220, 0.280, 2.4, note="1.395×"),
    Latencies("onednn_graph", 1, 0.033, 0.034, 0.043, 2.2, note="1.394×"),
]


def traces(figure, name):
    return [trace for trace in figure.data if trace.name == name]


def test_an_arms_percentiles_are_means_over_its_runs_and_its_median_is_the_speedups(tmp_path):
    with Store(tmp_path / "bench.db") as store:
        planted_experiment(
            store, models=("resnet18",), machine="CPU", batch_sizes=(1,), workload={"task": "infer"}
        )
        runs = [run for run in store.runs() if run.spec.variant.execution == "compile"]
        measured = [measure(run, store.epochs([run.number])[run.number]) for run in runs]
    arm = Arm(COMPILE, tuple(measured))
    point = Latencies.of(arm, runs[0].spec.workload)
    steady = sorted(seconds for one in measured for seconds in one.steady_seconds)
    assert steady[0] < point.p50 < point.p90 < point.p99 < steady[-1]
    assert point.p50 == pytest.approx(arm.steady_seconds)
    tails = [percentiles(one.steady_seconds, [99])[0] for one in measured]
    assert point.p99 == pytest.approx((tails[0] * tails[1] * tails[2]) ** (1 / 3))
    # Two of three repeats found the cache warm; what somebody waits for is the cold start.
    assert point.first_seconds == pytest.approx(31.06, abs=0.1)


def test_a_handful_of_iterations_has_no_tails(tmp_path):
    with Store(tmp_path / "bench.db") as store:
        for iterations in (8, 60):
            planted_experiment(
                store,
                models=("resnet18",),
                machine="CPU",
                batch_sizes=(1,),
                repeats=1,
                iterations=iterations,
                workload={"task": "infer"},
                variants=(COMPILE,),
            )
        few, more = [measure(run, store.epochs([run.number])[run.number]) for run in store.runs()]
    work = few.run.spec.workload
    point = Latencies.of(Arm(COMPILE, (more,)), work)
    assert point.p90 is not None and point.p99 is None
    # The run with the fewest decides.
    point = Latencies.of(Arm(COMPILE, (few, more)), work)
    assert (point.p90, point.p99) == (None, None)
    medians = [one.steady.median_seconds for one in (few, more)]
    assert point.p50 == pytest.approx(geometric_mean(medians))


def test_tails_that_are_not_known_are_not_drawn():
    known, unknown = POINTS[0], Latencies("compile", 1, 0.050, None, None)
    assert np.isnan(traces(latency_bars([known, unknown]), "p99")[0].x[1])
    [bars] = [trace for trace in latency_bars([known, unknown]).data if trace.type == "bar"]
    assert bars.customdata[1].replace("\u00a0", " ") == "median 50.0 ms"
    figure = latency_by_batch([known, unknown])
    assert np.isnan(traces(figure, "compile")[0].error_y.array).all()
    assert np.isnan(traces(figure, "compile, p99")[0].y).all()
    assert np.isfinite(figure.layout.yaxis.range).all()


def test_medians_stand_under_their_ninetieth_and_ninety_ninth_percentile():
    figure = latency_by_batch(POINTS)
    [eager] = traces(figure, "eager")
    assert list(eager.y) == [0.046, 0.300]
    assert list(eager.error_y.array) == pytest.approx([0.001, 0.010])
    [tails] = traces(figure, "eager, p99")
    assert list(tails.y) == [0.060, 0.390]
    assert not tails.showlegend
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"


def test_arms_of_one_batch_size_stand_beside_each_other_and_within_reach_of_it():
    figure = latency_by_batch(POINTS)
    [eager], [fused] = traces(figure, "eager"), traces(figure, "onednn_graph")
    assert eager.x[0] < 1 < fused.x[0] < eager.x[1] < 8 < fused.x[1]
    alone = latency_by_batch(POINTS, tails=False)
    assert list(traces(alone, "onednn_graph")[0].x) == [1, 8]
    assert len(alone.data) == 2


def test_each_tick_has_the_unit_that_fits_it():
    calls = [
        Latencies("eager", size, seconds, seconds, seconds)
        for size, seconds in ((100, 6.2e-6), (1_000_000, 1.6e-3))
    ]
    axis = latency_by_batch(calls, tails=False).layout
    words = [text.replace("\u00a0", " ") for text in axis.yaxis.ticktext]
    assert words[0] == "10 µs"
    assert words[-1] == "1 ms"
    assert list(axis.xaxis.ticktext) == ["100", "1\u202f000\u202f000"]


def test_batch_sizes_too_near_each_other_share_a_tick():
    sizes = (1, 2, 100, 101, 1000)
    near = [Latencies("eager", size, 0.01, 0.01, 0.01) for size in sizes]
    assert list(latency_by_batch(near).layout.xaxis.tickvals) == [1, 2, 100, 1000]


def test_throughput_is_the_batch_over_its_median():
    [fused] = traces(throughput_by_batch(POINTS), "onednn_graph")
    assert list(fused.y) == pytest.approx([1 / 0.033, 8 / 0.215])


def test_a_bar_an_arm_has_its_median_its_note_and_marks_beyond_it():
    figure = latency_bars([point for point in POINTS if point.batch_size == 1])
    [bars] = [trace for trace in figure.data if trace.type == "bar"]
    assert list(bars.x) == [46.0, 33.0]  # in ms
    assert list(bars.marker.color) == [
        arm_styles(["eager", "onednn_graph"])[arm].color for arm in ("eager", "onednn_graph")
    ]
    assert list(traces(figure, "p90")[0].x) == pytest.approx([47.0, 34.0])
    assert list(traces(figure, "p99")[0].x) == pytest.approx([60.0, 43.0])
    [words] = [trace for trace in figure.data if getattr(trace, "mode", "") == "text"]
    assert [text.replace("\u00a0", " ").strip() for text in words.text] == [
        "46.0 ms",
        "33.0 ms · 1.394×",
    ]
    assert list(figure.layout.yaxis.categoryarray) == ["onednn_graph", "eager"]  # first on top


def test_precisions_are_rows_of_their_own_with_fp32_on_top():
    mixed = [
        Latencies("eager", 1, 0.030, 0.031, 0.04, precision="bf16"),
        Latencies("onednn_graph", 1, 0.021, 0.022, 0.03, precision="bf16", note="1.40×"),
        *(point for point in POINTS if point.batch_size == 1),
    ]
    figure = latency_by_precision(mixed)
    assert list(figure.layout.yaxis.categoryarray)[::-1] == [
        "fp32 · eager",
        "fp32 · onednn_graph",
        "bf16 · eager",
        "bf16 · onednn_graph",
    ]
    [bars] = [trace for trace in figure.data if trace.type == "bar"]
    assert list(bars.x) == pytest.approx([46.0, 33.0, 30.0, 21.0])


def test_the_first_answer_is_a_ring_on_a_logarithmic_axis_and_needs_to_be_known():
    unknown = Latencies("compile", 1, 0.055, 0.056, 0.07)
    figure = first_against_steady([*POINTS[:1], unknown])
    drawn = [trace for trace in figure.data if trace.x[0] is not None]
    assert [list(trace.x) for trace in drawn] == [[0.046, 0.2]]
    assert list(drawn[0].marker.symbol) == ["circle", "circle-open"]
    assert figure.layout.xaxis.type == "log"


def test_names_from_files_are_no_tags():
    hostile = Latencies("<b>x</b>", 1, 0.1, 0.1, 0.1, 0.2, note="<i>1×</i>")
    for draw in (
        latency_by_batch,
        throughput_by_batch,
        latency_bars,
        latency_by_precision,
        first_against_steady,
    ):
        figure = draw([hostile, *POINTS[:1]])
        shown = [str(figure.layout.yaxis.categoryarray)]
        for trace in figure.data:
            shown += [str(trace.name), str(trace.hovertemplate), str(trace.text)]
        assert not re.search("<b>|<i>", " ".join(shown))
        assert "&lt;b&gt;x" in " ".join(shown)


def test_a_title_is_carried_in_the_layout():
    assert latency_bars(POINTS[:1], title="Shortest").layout.meta["title"] == "Shortest"
