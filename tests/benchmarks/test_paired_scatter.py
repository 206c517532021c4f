"""What taking turns is worth under a changing load, and how soon "until sure" has its answer.

Both are reported, with the goal beside them, and the answer is judged: the same, and within the
interval. About 20 minutes in all at SCALE 1.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

import pytest

from bench_core import pairing, worker
from bench_core.comparison import Comparison
from bench_core.measured import Measured, measure
from bench_core.pairing import Axis
from bench_core.spec import Experiment, Measurement, Rung, Variant
from bench_core.store import Store
from bench_core.until_sure import outcome_text

# 1 is the real thing; 0.1 tries whether it runs at all.
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
TRIALS = max(2, round(8 * SCALE))
LOAD_SECONDS = 20 * SCALE
TIMED_SECONDS = 15 * SCALE  # of each arm, however its turns are cut
ARTICLE_EPOCHS = max(8, round(100 * SCALE))
pytestmark = pytest.mark.timeout(3000)
SMALL = {"samples": 128, "image_size": 32, "pipeline": "cached"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("BENCH_MACHINE_LOCK", str(tmp_path / "machine.lock"))
    with Store() as opened:
        yield opened


def burn_by_turns(seconds: float) -> None:
    """All of one core for `seconds`, then nothing for as long, for ever."""
    while True:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass
        time.sleep(seconds)


@contextmanager
def changing_load() -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    cores = len(os.sched_getaffinity(0))
    burners = [
        context.Process(target=burn_by_turns, args=(LOAD_SECONDS,), daemon=True)
        for _ in range(cores)
    ]
    for burner in burners:
        burner.start()
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.join()


def measured(store: Store, experiment: Experiment) -> tuple[list[Measured], float]:
    """All of its runs, and the seconds from the first one's start to the last one's end."""
    began = time.monotonic()
    store.queue(experiment)
    worker.serve(experiment.id, idle_seconds=0)
    seconds = time.monotonic() - began
    runs = store.runs(experiment.id)
    assert {run.status for run in runs} == {"done"}, [run.reason for run in runs]
    epochs = store.epochs([run.number for run in runs])
    return [measure(run, epochs[run.number]) for run in runs], seconds


def equal_arms(store: Store, protocol: str) -> float:
    """The log ratio of two equal arms, of all that was timed but each one's first epoch."""
    experiment = Experiment(
        models=("small_cnn",),
        batch_sizes=(16,),
        variants=(Variant(),),
        rungs=(Rung(side="A"), Rung(side="B")),
        repeats=1,
        workload=SMALL,
        measurement=Measurement(
            protocol=protocol, epochs=100_000, max_seconds=TIMED_SECONDS, label=protocol
        ),
    )
    runs, _ = measured(store, experiment)
    first, second = (fmean(one.series_seconds[1:]) for one in runs)
    return math.log(first / second)


def rms(values: Sequence[float]) -> float:
    return math.sqrt(fmean(value**2 for value in values))


def test_equal_arms_that_take_turns_scatter_less_under_a_changing_load(store: Store) -> None:
    by_protocol: dict[str, list[float]] = {"sequential": [], "paired": []}
    with changing_load():
        for trial in range(TRIALS):
            for protocol in sorted(by_protocol, reverse=bool(trial % 2)):
                by_protocol[protocol].append(equal_arms(store, protocol))
    scatter = {protocol: rms(ratios) for protocol, ratios in by_protocol.items()}
    print(
        f"\nA/A under a load that changes every {LOAD_SECONDS:g} s, {TIMED_SECONDS:g} s an arm, "
        f"{TRIALS} trials: rms of the log ratio {scatter['paired']:.3f} by turns, "
        f"{scatter['sequential']:.3f} one after the other "
        f"({scatter['paired'] / scatter['sequential']:.2f}; goal at most 0.5)"
    )
    assert scatter["paired"] < scatter["sequential"] / 2 or SCALE < 1


def answer(store: Store, **fields: object) -> tuple[Comparison, float, str]:
    """Eager against compile from a warm cache; the comparison, its seconds, how sure it is."""
    experiment = Experiment(
        **{
            "models": ("pointwise_cnn",),
            "batch_sizes": (16,),
            "variants": (Variant(), Variant(execution="compile", cache="warm")),
            # One thread: an epoch of several is as slow as the most disturbed core, and that noise
            # of the machine is not what is asked about here.
            "workload": {
                **SMALL,
                "samples": max(128, round(2048 * SCALE) // 16 * 16),
                "threads": 1,
            },
            **fields,
        }
    )
    runs, seconds = measured(store, experiment)
    [pair] = pairing.comparisons(runs, Axis.of(experiment)).pairs
    return pair, seconds, outcome_text(experiment, runs)


def test_until_sure_has_the_article_s_answer_in_a_part_of_its_time(store: Store) -> None:
    """The article's protocol: a run of 100 epochs an arm, one after the other."""
    answer(store, repeats=1, measurement=Measurement(epochs=4))  # fills the compile cache
    long, article_seconds, _ = answer(
        store, repeats=1, measurement=Measurement(epochs=ARTICLE_EPOCHS, label="article")
    )
    short, seconds, outcome = answer(
        store,
        repeats=12,
        measurement=Measurement(protocol="paired", until_sure=5.0, epochs=5, label="until sure"),
    )
    ratio, low, high = short.speedup.ratio, short.speedup.low, short.speedup.high
    print(
        f"\n{ARTICLE_EPOCHS} epochs an arm: {long.speedup.ratio:.3f}x after {article_seconds:.0f} "
        f"s; until sure of 5 %: {ratio:.3f}x [{low:.3f} to {high:.3f}] after {seconds:.0f} s "
        f"({seconds / article_seconds:.2f} of it; goal 0.1), {outcome}"
    )
    assert low is not None and high is not None
    # A single run an arm scatters too, by about 2 % between processes.
    assert low * 0.96 <= long.speedup.ratio <= high * 1.04
