"""What our loops cost a step or a call, and that training times the article's loop as it is."""

import statistics
import time

import pytest

from bench_core import stats

torch = pytest.importorskip("torch")

from bench_core.measuring.inference import MOST_ITERATIONS, endless, time_block  # noqa: E402
from bench_core.measuring.models import build  # noqa: E402
from bench_core.measuring.training import step_of, train_epoch  # noqa: E402
from bench_core.spec import RunSpec, Workload  # noqa: E402

CPU = torch.device("cpu")
STEPS = 10_000


def bare_loop_seconds(step, batches) -> float:
    """The loop as the article writes it, with nothing but the step and the sum of losses."""
    began = time.perf_counter()
    total = torch.zeros(())
    for images, labels in batches:
        total += step(images, labels)
    return time.perf_counter() - began


def our_loop_seconds(step, batches) -> float:
    return timed_seconds(train_epoch(step, batches, CPU, len(batches)))


def timed_seconds(timed) -> float:
    return (timed.ended_ns - timed.began_ns) / 1e9


def test_the_loop_costs_at_most_50_us_a_step():
    batch = torch.zeros(1), torch.zeros(1)
    loss = torch.zeros(())
    batches = [batch] * STEPS

    def empty(images, labels):
        return loss

    costs = []
    for _ in range(9):
        ours = our_loop_seconds(empty, batches)
        bare = bare_loop_seconds(empty, batches)
        costs.append((ours - bare) / STEPS)
    cost = statistics.median(costs)
    print(f"\nour loop adds {cost * 1e6:.2f} us a step (median of 9 x {STEPS:,} empty steps)")
    assert cost < 50e-6


def test_the_latency_loop_costs_at_most_20_us_a_call():
    """A whole block of empty calls, its report included, against a bare loop over as many."""

    def empty(inputs):
        return None

    inputs = [torch.zeros(1)] * MOST_ITERATIONS
    costs, seen = [], []
    for _ in range(25):
        source = endless([(inputs[0], None)])
        began = time.perf_counter()
        block = time_block(empty, source, CPU, MOST_ITERATIONS, seconds=60)
        ours = time.perf_counter() - began
        began = time.perf_counter()
        for one in inputs:
            empty(one)
        costs.append((ours - (time.perf_counter() - began)) / MOST_ITERATIONS)
        seen.append(statistics.median(block.step_seconds))
        assert len(block.step_seconds) == MOST_ITERATIONS
    cost = statistics.median(costs)
    print(
        f"\nthe latency loop adds {cost * 1e6:.2f} us a call, of which a latency holds "
        f"{statistics.median(seen) * 1e6:.2f} us (median of 25 blocks of {MOST_ITERATIONS:,} "
        "empty calls)"
    )
    assert cost < 20e-6


def test_against_the_articles_bare_loop():
    """A B B A, one process, resnet18 at 32 px: reported with its interval, not judged."""
    spec = RunSpec(workload=Workload(model="resnet18", image_size=32, batch_size=8, samples=160))
    torch.manual_seed(0)
    module = build("resnet18", "random").module.train()
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    step = step_of(module, optimizer, torch.nn.functional.cross_entropy, spec, CPU)
    batches = [(torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,)))] * 20
    our_loop_seconds(step, batches)
    bare: list[float] = []
    ours: list[float] = []
    for block in range(8):
        order = [(bare, bare_loop_seconds), (ours, our_loop_seconds)]
        for times, loop in order if block % 2 == 0 else order[::-1]:
            times.append(loop(step, batches))
    found = stats.paired_speedup(bare, ours)
    print(
        f"\nbare loop / our loop: {found.ratio:.4f}, 95 % interval {found.low:.4f} to "
        f"{found.high:.4f} ({len(bare)} pairs of 20 steps; {statistics.median(ours) / 20:.4f} s "
        "a step)"
    )
