"""Costs of steps: a real profiler over marks of which it is known which step made them."""

from __future__ import annotations

import time
from itertools import chain, repeat

import pytest
import torch
from torch.profiler import record_function

from bench_core.measuring import models, step_costs

CPU = torch.device("cpu")


def test_the_first_step_under_the_profiler_is_not_counted() -> None:
    counts = iter(range(step_costs.STEPS + 1))

    def step() -> None:
        with record_function(f"{step_costs.MARK}sha:{1 if next(counts) == 0 else 2}"):
            torch.ones(8).sum()

    watched = step_costs.watch(step, CPU, 3.0)
    calls = step_costs.call_seconds(watched, CPU)
    assert list(calls) == [("sha", 2)]
    assert 0 < calls["sha", 2] <= 3.0, "parts of a step are no more than the step"
    events = step_costs._steady_events(watched)
    marked = sum(one.cpu_time_total for one in events if one.name == f"{step_costs.MARK}sha:2")
    share = marked / 1e6 / step_costs.STEPS / watched.watched_seconds
    assert calls["sha", 2] == pytest.approx(3.0 * share), "the share, of the unwatched step"


def test_a_step_is_timed_without_profiler_by_the_median_of_a_few() -> None:
    waits = chain([0.4], repeat(0.001))
    seconds = step_costs.unwatched_seconds(lambda: time.sleep(next(waits)), CPU)
    assert 0.001 <= seconds < 0.4, "one slow step is not the median"


def test_modules_have_the_time_of_the_steps_after_the_first() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    first = iter([model[0]])

    def step() -> None:
        next(first, model[1])(torch.ones(2, 4, requires_grad=True)).sum().backward()

    with step_costs.marked_modules(model):
        watched = step_costs.watch(step, CPU, 1.0)
    found = {(one["module"], one["part"]) for one in step_costs.module_seconds(watched, CPU)}
    assert found == {("1", "forward"), ("1", "backward")}


def test_modules_sum_up_to_what_the_profilers_own_table_has_of_an_eager_step() -> None:
    """Its inclusive times of the root's range and of the backward's nodes, less the marks' own."""
    model = models.SmallCNN()
    images, labels = torch.randn(4, 3, 32, 32), torch.zeros(4, dtype=torch.long)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    with step_costs.marked_modules(model):
        watched = step_costs.watch(step, CPU, 1.0)
    found: dict[str, float] = {"forward": 0.0, "backward": 0.0}
    for one in step_costs.module_seconds(watched, CPU):
        found[one["part"]] += one["eager_seconds"]
    events = step_costs._steady_events(watched)
    marks = sum(one.self_cpu_time_total for one in events if one.name.startswith("module:"))
    roots = [one.cpu_time_total for one in events if one.name == "module:"]
    assert len(roots) == step_costs.STEPS
    per_step = 1 / watched.scale
    assert found["forward"] == pytest.approx((sum(roots) - marks) / per_step, rel=1e-3)
    # The loss is in no module: its nodes and the sums into .grad are what is left out.
    outside = ("NllLoss", "LogSoftmax", "AccumulateGrad")
    nodes = [
        one.cpu_time_total
        for one in events
        if one.name.startswith("autograd::engine::evaluate_function:")
        and not any(word in one.name for word in outside)
    ]
    assert found["backward"] == pytest.approx(sum(nodes) / per_step, rel=1e-3)
    assert sum(found.values()) < watched.seconds
