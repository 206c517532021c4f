"""Each kind of doubt is raised by what it names and by nothing else, and says what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench_core import doubts, pairing
from bench_core.comparison import Comparison
from bench_core.doubts import KINDS, Doubt, doubts_of_pair, doubts_of_run, doubts_text
from bench_core.events import Aftermath, Finding, Parity
from bench_core.measured import Measured, measure
from bench_core.source import Source
from bench_core.store import Store
from tests.planted import COMPILE, EAGER, measured_in, planted_experiment

SAME = Parity(verdict="same", text="its outputs agree with eager's")
UNCHECKED = Parity(verdict="not checked", text="parity itself failed (OSError).")


def changed(one: Measured, epochs: dict[str, Any] | None = None, **run: Any) -> Measured:
    """The run with other facts, and with other values in each of its epochs."""
    return measure(
        replace(one.run, **run), [epoch.changed(**(epochs or {})) for epoch in one.epochs]
    )


def timed(one: Measured, seconds: list[float], compiling: dict[int, float] | None = None):
    """The run with other wall seconds and, by the number of the epoch, compile seconds."""
    return measure(
        one.run,
        [
            one.epochs[0].changed(
                epoch=at,
                step_seconds=(wall,),
                wall_seconds=wall,
                compile_seconds=(compiling or {}).get(at, 0.0),
                compile_windows=(),
            )
            for at, wall in enumerate(seconds, start=1)
        ],
    )


def gpu(**facts: int) -> dict[str, Any]:
    usual = {"sm_clock_mhz": 1590, "sm_clock_max_mhz": 1590, "throttle_reasons": 0}
    return {"aftermath": Aftermath(gpu={**usual, "other_processes": 0, **facts}, parity=SAME)}


def unmet(met: bool) -> dict[str, Any]:
    finding = Finding(asked="CUDA graphs", got="none was recorded", met=met)
    return {"aftermath": Aftermath(effective=(finding,), parity=SAME)}


def with_cache(one: Measured, hits: int, misses: int) -> Measured:
    assert one.run.activity
    return changed(one, activity=one.run.activity.changed(cache_hits=hits, cache_misses=misses))


def times_of(words: str) -> Source:
    return Source(file="steps.csv", family="timm", inferred={"samples": words})


QUIET = [80.0, 61.0, 61.3, 60.9, 61.1, 61.2, 60.8, 61.0, 61.1, 60.9]
SCATTERED = [80.0, 61.0, 81.0, 50.0, 61.2, 75.0, 48.0, 61.0, 79.0, 52.0]
DRIFTING = [80.0, *(61.0 * (1 + 0.005 * at + 0.005 * (-1) ** at) for at in range(9))]
# Of a compile run from an empty cache: what raises the kind, and what is close to it and does not.
OF_A_RUN: dict[str, tuple[Callable[[Measured], Measured], Callable[[Measured], Measured], str]] = {
    "unsynchronised": (
        lambda one: changed(one, unstated=("synchronised",)),
        lambda one: changed(one, unstated=("cudnn",)),
        "does not state whether the device's work was waited for",
    ),
    "no spread": (
        lambda one: changed(timed(one, [61.0] * 10), unstated=("torch",)),
        lambda one: timed(one, [61.0] * 10),  # measured here
        "states no single epochs",
    ),
    "epoch is a step": (
        lambda one: changed(one, source=times_of("one step here, since an epoch is one step here")),
        lambda one: changed(one, source=times_of("a column of the file")),
        "what is called an epoch is one step of 16 samples. Read epochs as steps",
    ),
    "other programs": (
        lambda one: changed(one, {"foreign_cpu_share": 0.8}),
        lambda one: changed(one, {"foreign_cpu_share": 0.05}),
        "Other programs used 80\u00a0% of this machine's cores during run 2 (compile). Measure",
    ),
    "other GPU process": (
        lambda one: changed(one, **gpu(other_processes=2)),
        lambda one: changed(one, round="taking turns", **gpu(other_processes=1)),
        "2 other processes held the device",
    ),
    "throttled": (
        lambda one: changed(one, **gpu(throttle_reasons=0x24)),
        lambda one: changed(one, **gpu(throttle_reasons=0x3)),  # idle, and clocks that were set
        "held back when run 2 (compile) ended (power limit, heat, by the driver)",
    ),
    "low clock": (
        lambda one: changed(one, **gpu(sm_clock_mhz=900)),
        lambda one: changed(one, **gpu(sm_clock_mhz=300, throttle_reasons=1)),  # idle by then
        "at 900 of 1590\u00a0MHz",
    ),
    "spread": (
        lambda one: timed(one, SCATTERED),
        lambda one: timed(one, QUIET),
        "Single epochs of run 2 (compile) scatter by",
    ),
    "drift": (
        lambda one: timed(one, DRIFTING),
        lambda one: timed(one, QUIET),
        "longer than the first. Measure again with the arms taking turns",
    ),
    "compiled late": (
        lambda one: timed(one, QUIET, {1: 19.0, 5: 12.0}),
        lambda one: changed(one, {"evaluation_seconds": 9.0, "evaluation_compile_seconds": 7.0}),
        "Run 2 (compile) compiled again in epoch 5, 12.0\u00a0s",
    ),
    "ended early": (
        lambda one: changed(timed(one, QUIET[:6]), status="stopped"),
        lambda one: timed(one, QUIET[:6]),
        "Run 2 (compile) was stopped after 6 of 10 epochs. Queue it again.",
    ),
    "no turns taken": (
        lambda one: changed(one, protocol_note="measured one after the other: no memory."),
        lambda one: changed(one, protocol_note=None),
        "was to take turns; measured one after the other: no memory. Mend",
    ),
    "not got": (
        lambda one: changed(one, **unmet(met=False)),
        lambda one: changed(one, **unmet(met=True)),
        "did not get CUDA graphs (got: none was recorded)",
    ),
    "cache": (
        lambda one: with_cache(one, 2, 0),
        lambda one: with_cache(one, 0, 2),
        "asked for a cold compile cache and had a warm one (2 hits, 0 misses)",
    ),
    "not checked": (
        lambda one: changed(one, aftermath=Aftermath(parity=UNCHECKED)),
        lambda one: changed(one, aftermath=Aftermath(parity=SAME)),
        "were not held against eager's, parity itself failed (OSError). Let",
    ),
    "not stated": (
        lambda one: changed(one, unstated=("torch", "threads in use")),
        lambda one: changed(one, unstated=("spread",)),
        "does not state: torch, threads in use",
    ),
}


@pytest.mark.parametrize("kind", OF_A_RUN)
def test_a_run_is_doubted_for_what_it_shows(store: Store, kind: str) -> None:
    planted_experiment(store, repeats=1)
    plain = measured_in(store)[1]
    assert doubts_of_run(plain) == ()
    bad, near, sentence = OF_A_RUN[kind]
    [found] = [one for one in doubts_of_run(bad(plain)) if one.kind == kind]
    assert sentence in found.sentence
    assert kind not in [one.kind for one in doubts_of_run(near(plain))]


def pairs(*measured: Measured) -> Comparison:
    [pair] = pairing.comparisons(measured).pairs
    return pair


def kinds(found: tuple[Doubt, ...]) -> list[str]:
    return [one.kind for one in found]


def test_three_quiet_runs_an_arm_leave_no_doubt(store: Store) -> None:
    planted_experiment(store, epochs=20)
    assert doubts_of_pair(pairs(*measured_in(store))) == ()


def test_fewer_than_three_runs_are_doubted(store: Store) -> None:
    planted_experiment(store, repeats=2)
    [found] = doubts_of_pair(pairs(*measured_in(store)))
    assert (found.kind, found.label) == ("too few runs", "2 runs an arm")
    assert found.sentence.endswith("Repeat until each arm has 3 runs.")


def test_runs_that_disagree_are_doubted_unless_both_arms_moved_together(store: Store) -> None:
    planted_experiment(store, protocol="paired")
    measured = measured_in(store)

    def slower(one: Measured) -> Measured:
        return timed(one, [3 * seconds for seconds in one.series_seconds], {1: 70.0})

    [first, second, *others] = measured
    alone = [replace(one, run=replace(one.run, round=None)) for one in (slower(first), *measured)]
    found = {one.kind: one for one in doubts_of_pair(pairs(alone[0], *alone[2:]))}
    assert "Runs of eager differ by 3.0 times. Measure again on a quiet" in (
        found["runs apart"].sentence
    )
    together = pairs(slower(first), slower(second), *others)
    assert together.speedup.kind == "paired"
    assert "runs apart" not in kinds(doubts_of_pair(together))
    apart = doubts_of_pair(pairs(slower(first), second, *others))
    assert "The pairs' speedups differ by 3.0 times" in apart[0].sentence


def test_what_a_person_compared_against_the_gate_is_named_with_both_values(store: Store) -> None:
    planted_experiment(store, variants=(EAGER,), workload={"threads": 8})
    planted_experiment(store, variants=(COMPILE,), workload={"threads": 2})
    measured = measured_in(store)
    found = doubts_of_pair(pairing.override(measured[:3], measured[3:]))
    assert found[0].kind == "differs besides"
    assert found[0].label == "differs in threads"
    assert "compile and eager differ in more: threads 2 against 8" in found[0].text


def test_a_pair_has_each_kind_once_the_worst_and_in_order_of_weight(store: Store) -> None:
    planted_experiment(store, repeats=2)
    loud = [
        changed(one, {"foreign_cpu_share": share}, unstated=("torch",))
        for one, share in zip(measured_in(store), (0.2, 0.7, 0.4, 0.1), strict=True)
    ]
    found = doubts_of_pair(pairs(*loud))
    assert kinds(found) == ["too few runs", "other programs", "not stated"]
    assert found[1].label == "other programs 70\u00a0%"
    assert doubts_text(pairs(*loud)) == " ".join(one.sentence for one in found)
    assert kinds(found) == sorted(kinds(found), key=KINDS.index)


def test_every_kind_has_one_way_to_be_found_and_a_test() -> None:
    assert set(KINDS) == {*doubts.OF_A_RUN, *doubts.OF_A_PAIR}
    assert set(OF_A_RUN) == set(doubts.OF_A_RUN)


def test_one_arm_that_was_checked_in_some_run_is_checked(store: Store) -> None:
    planted_experiment(store)
    measured = [
        changed(one, aftermath=None if one.run.spec.variant.cache == "warm" else one.run.aftermath)
        for one in measured_in(store)
    ]
    assert "not checked" not in kinds(doubts_of_pair(pairs(*measured)))
    [warm] = [one for one in measured if one.run.aftermath is None][:1]
    assert "not checked" in kinds(doubts_of_run(warm))


def test_a_slow_down_before_the_steady_part_is_a_drift_and_a_warm_up_is_none(store: Store) -> None:
    planted_experiment(store, repeats=1)
    one = measured_in(store)[1]
    cool, hot = [61.0, 61.1, 60.9, 61.05, 60.95], [66.0, 66.1, 65.9, 66.05, 65.95]
    slowed = timed(one, [80.0, *cool, *hot])
    assert slowed.steady.first == 6
    [found] = [found for found in doubts_of_run(slowed) if found.kind == "drift"]
    assert found.label == "drift +8.2\u00a0%"
    assert "From epoch 7 on those of run 2 (compile) take 8.2\u00a0% longer" in found.text
    warmed = timed(one, [80.0, *hot, *cool])
    assert warmed.steady.first == 6
    assert doubts_of_run(warmed) == ()


def test_inference_is_doubted_by_its_iterations(store: Store) -> None:
    planted_experiment(
        store, models=("resnet18",), machine="CPU", batch_sizes=(1,), variants=(EAGER, COMPILE),
        repeats=1, workload={"task": "infer"},
    )  # fmt: skip
    compiled = measured_in(store)[1]
    assert doubts_of_run(compiled) == ()
    [window] = compiled.epochs[0].compile_windows
    late = compiled.epochs[1].changed(
        compile_windows=(window.changed(seconds=4.0, iteration=9),), compile_seconds=4.0
    )
    again = measure(compiled.run, [compiled.epochs[0], late, *compiled.epochs[2:]])
    [found] = doubts_of_run(again)
    assert found.label == "compiled in iteration 11"


# How often a quiet run is called

Noise = Callable[[np.random.Generator, int], np.ndarray]
NOISES: dict[str, Noise] = {
    "normal": lambda random, count: random.standard_normal(count),
    "Laplace": lambda random, count: random.laplace(size=count) / np.sqrt(2),
    "Student": lambda random, count: random.standard_t(3, count) / np.sqrt(3),
    "correlated": lambda random, count: np.convolve(
        random.standard_normal(count + 30), 0.3 ** np.arange(31), mode="valid"
    ),
}


@pytest.mark.parametrize("count", [7, 10, 20, 50])
@pytest.mark.parametrize("noise", NOISES)
def test_quiet_noise_is_called_a_drift_in_at_most_one_of_twenty(
    store: Store, noise: str, count: int
) -> None:
    planted_experiment(store, repeats=1, measured=1)
    eager = measured_in(store)[0]
    random = np.random.default_rng(count)
    called = 0
    for _ in range(200):
        seconds = 60 * np.exp(0.025 * NOISES[noise](random, count))
        called += "drift" in kinds(doubts_of_run(timed(eager, seconds.tolist())))
    assert called <= 0.05 * 200


def test_a_drift_of_four_per_cent_in_one_per_cent_of_noise_is_found() -> None:
    random = np.random.default_rng(0)
    found = [
        doubts.trend(np.linspace(1, 1.06, 20) * np.exp(0.01 * random.standard_normal(20)))
        for _ in range(200)
    ]
    assert sum(one is not None for one in found) > 190
    assert np.median([one for one in found if one]) == pytest.approx(0.04, abs=0.01)
