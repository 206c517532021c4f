"""Costs of steps: a real profiler over marks of which it is known which step made them."""

from __future__ import annotations

import torch
from torch.profiler import record_function

from bench_core.measuring import step_costs

CPU = torch.device("cpu")


def test_the_first_step_under_the_profiler_is_not_counted() -> None:
    counts = iter(range(step_costs.STEPS + 1))

    def step() -> None:
        with record_function(f"{step_costs.MARK}sha:{1 if next(counts) == 0 else 2}"):
            torch.ones(8).sum()

    watched = step_costs.watch(step, CPU)
    calls = step_costs.call_seconds(watched, CPU)
    assert list(calls) == [("sha", 2)]
    assert 0 < calls["sha", 2] <= watched.seconds, "parts of a step are no more than the step"


def test_modules_have_the_time_of_the_steps_after_the_first() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    first = iter([model[0]])

    def step() -> None:
        next(first, model[1])(torch.ones(2, 4, requires_grad=True)).sum().backward()

    with step_costs.marked_modules(model):
        watched = step_costs.watch(step, CPU)
    found = {(one["module"], one["part"]) for one in step_costs.module_seconds(watched, CPU)}
    assert found == {("1", "forward"), ("1", "backward")}
