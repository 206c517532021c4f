"""Wrong code is called so, correct code never is, and asking costs the timed part nothing.

Real measuring processes, and the comparison itself on small models where no process matters.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402

from bench_core.events import (  # noqa: E402
    Activity,
    Aftermath,
    CompileStarted,
    CompileWindow,
    Finished,
    Parity,
    PhaseStarted,
)
from bench_core.measuring import parity  # noqa: E402
from bench_core.measuring.distance import relative_difference  # noqa: E402
from bench_core.measuring.models import SmallCNN  # noqa: E402
from bench_core.paths import CHECKOUT  # noqa: E402
from bench_core.spec import RunSpec, Variant, Workload  # noqa: E402
from tests.measuring_child import (  # noqa: E402
    CANONICAL,
    WARM_COMPILE,
    cache_environment,
    measured,
    write_model,
)

CPU = torch.device("cpu")
INFER = Workload(task="infer", model="small_cnn", batch_size=4, image_size=32)
# A variant for spec.variant; what is really called is given to check() beside it.
COMPILED = Variant(execution="compile", backend="eager")
TRACED = Variant(execution="jit_trace_frozen")

# Backends that a model file brings along, as a user's own would; they are no faster, only wrong.
WRONG_KERNELS = """
from functorch.compile import make_boxed_func, nop
from torch._dynamo import list_backends, register_backend
from torch._dynamo.backends.common import aot_autograd

from bench_core.measuring.models import SmallCNN as build_model


def one_percent_off(graph, inputs):
    return lambda *given: [1.01 * made for made in graph(*given)]


def fifth_too_much(graph, inputs):
    return make_boxed_func(
        lambda *given: [None if made is None else 1.2 * made for made in graph(*given)]
    )


if "one_percent_off" not in list_backends(exclude_tags=()):
    register_backend(one_percent_off)
    register_backend(aot_autograd(fw_compiler=nop, bw_compiler=fifth_too_much), "wrong_backward")
"""

DROPPING = """
from torch import nn

def build_model():
    return nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(3 * 32 * 32, 10))
"""

# Compiled once, asked for ten seeds: other weights, other images, the same graph.
TEN_SEEDS = """
import copy, json, sys

import torch
from torch._dynamo.utils import counters

from bench_core.measuring import datasets, models, parity
from bench_core.spec import RunSpec

spec, device = RunSpec.from_json(sys.argv[1]), torch.device("cpu")
built = models.build(spec.workload, "random")
original = built.module.train()
compiled = torch.compile(original)
inputs, labels = next(iter(datasets.prepare(spec, device, built).training))
built.loss(compiled(inputs), labels).backward()
before = copy.deepcopy(counters)
for seed in range(10):
    seeded = spec.changed(measurement=spec.measurement.changed(seed=seed))
    batches = datasets.prepare(seeded, device, built).training
    print(parity.check(seeded, device, original, compiled, built.loss, batches).to_json())
print(json.dumps(before == counters))
"""


def ten_seeds(spec: RunSpec, **environment: str) -> tuple[list[Parity], bool]:
    """Parity of ten seeds, and whether the compiler's counters stayed as they were."""
    ran = subprocess.run(
        [sys.executable, "-c", TEN_SEEDS, spec.to_json()],
        cwd=CHECKOUT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    *verdicts, unchanged = ran.stdout.splitlines()
    return [Parity.from_json(line) for line in verdicts], json.loads(unchanged)


def through(backend: str, data: Path, workload: Workload) -> Parity:
    write_model(data, "wrong_kernels.py", WRONG_KERNELS)
    spec = RunSpec(
        workload=workload.changed(model="file:wrong_kernels.py"),
        variant=Variant(execution="compile", backend=backend),
    )
    child = measured(spec, data, epochs=1)
    assert child.process.returncode == 0, child.log_text()
    found = child.said(Aftermath)[-1].parity
    assert found is not None
    return found


def checked(
    original: nn.Module,
    variant: Callable[..., Any],
    inputs: Tensor,
    workload: Workload = INFER,
    how: Variant = TRACED,
) -> Parity:
    """The verdict on anything that can be called, on one batch."""
    spec = RunSpec(workload=workload, variant=how)
    labels = torch.arange(len(inputs))
    original.train(workload.task == "train")
    criterion = nn.functional.cross_entropy
    found = parity.check(spec, CPU, original, variant, criterion, [(inputs, labels)])
    assert found is not None
    return found


@pytest.fixture
def images() -> Tensor:
    torch.manual_seed(0)
    return torch.rand(4, 3, 32, 32)


# Wrong code


def test_a_kernel_that_is_one_percent_off_differs_in_training(tmp_path: Path) -> None:
    found = through("one_percent_off", tmp_path, CANONICAL)
    assert found.verdict == "differs"
    assert found.output_difference == pytest.approx(0.01, rel=1e-3)
    assert "0.01 in the outputs (limit 0.001)" in found.text
    assert "try backend inductor; report what stays wrong with this run's command" in found.text


def test_a_kernel_that_is_one_percent_off_differs_in_inference(tmp_path: Path) -> None:
    found = through("one_percent_off", tmp_path, INFER)
    assert found.verdict == "differs"
    assert found.output_difference == pytest.approx(0.01, rel=1e-3)
    assert found.loss_difference is found.gradient_difference is None


def test_wrong_gradients_differ_though_the_outputs_are_right(tmp_path: Path) -> None:
    found = through("wrong_backward", tmp_path, CANONICAL)
    assert found.verdict == "differs"
    assert found.gradient_difference == pytest.approx(0.2, rel=1e-3)
    assert found.output_difference == 0


def test_a_number_that_is_finite_in_one_arm_only_differs(images: Tensor) -> None:
    model = SmallCNN()

    def one_nan(inputs: Tensor) -> Tensor:
        outputs = model(inputs)
        return outputs.index_fill(0, torch.tensor([0]), float("nan"))

    for workload in (INFER, CANONICAL):
        found = checked(model, one_nan, images, workload, COMPILED)
        assert found.verdict == "differs", found
        assert "inf in the outputs (NaN, inf or another shape in one of the two)" in found.text
        assert found.output_difference is None


def test_outputs_of_another_shape_or_number_differ(images: Tensor) -> None:
    model = SmallCNN()
    assert checked(model, lambda inputs: model(inputs)[:2], images).verdict == "differs"
    assert checked(model, lambda inputs: (model(inputs),) * 2, images).verdict == "differs"


def test_the_worst_of_several_outputs_is_the_one_that_counts(images: Tensor) -> None:
    class TwoHeads(SmallCNN):
        def forward(self, images: Tensor) -> Any:
            return {"large": 1000 * super().forward(images), "small": super().forward(images)}

    model = TwoHeads()

    def small_one_wrong(inputs: Tensor) -> dict[str, Tensor]:
        outputs = model(inputs)
        return {"large": outputs["large"], "small": 1.01 * outputs["small"]}

    found = checked(model, small_one_wrong, images)
    assert found.verdict == "differs"
    assert found.output_difference == pytest.approx(0.01, rel=1e-3)


# Correct code


def test_ten_seeds_of_correct_code_agree_and_leave_the_compilers_counters_alone(
    warm_caches: Path,
) -> None:
    environment = cache_environment(warm_caches, WARM_COMPILE)
    verdicts, unchanged = ten_seeds(WARM_COMPILE, **environment)
    assert [found.verdict for found in verdicts] == ["same"] * 10
    # Compiled code rounds differently: the comparison is not of eager with itself.
    assert any(found.output_difference for found in verdicts)
    assert unchanged


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_ten_seeds_of_resnet18_never_differ(tmp_path: Path) -> None:
    workload = CANONICAL.changed(model="resnet18", batch_size=8, samples=40, image_size=64)
    spec = RunSpec(workload=workload, variant=Variant(execution="compile"))
    environment = cache_environment(tmp_path, spec)
    for folder in environment.values():
        Path(folder).mkdir(parents=True)
    verdicts, unchanged = ten_seeds(spec, **environment)
    assert {found.verdict for found in verdicts} <= {"same", "closer to fp64 than eager"}
    assert len(verdicts) == 10 and unchanged


def test_a_run_tells_parity_after_all_that_belongs_to_its_timing(
    warm_caches: Path, tmp_path: Path
) -> None:
    environment = cache_environment(warm_caches, WARM_COMPILE)
    child = measured(WARM_COMPILE, tmp_path, **environment)
    assert child.process.returncode == 0, child.log_text()
    aftermath = child.said(Aftermath)[-1]
    assert aftermath.parity is not None and aftermath.parity.verdict == "same"
    assert "on 4 batches it differs from eager by " in aftermath.parity.text
    ended = child.events.index(PhaseStarted(phase="after timing"))
    assert {type(event) for event in child.events[ended + 1 :]} == {Aftermath, Finished}
    assert [activity.graphs for activity in child.said(Activity)] == [1]
    assert len(child.said(CompileStarted)) == len(child.said(CompileWindow)) == 1


def test_eager_is_the_reference_and_has_no_parity(images: Tensor) -> None:
    model = SmallCNN()
    spec = RunSpec(workload=INFER)
    assert parity.check(spec, CPU, model, model, nn.functional.cross_entropy, []) is None


@pytest.mark.parametrize("grad_mode", ["no_grad", "inference_mode"])
def test_a_traced_model_is_compared_under_the_runs_grad_mode(
    images: Tensor, grad_mode: str
) -> None:
    model = SmallCNN().eval()
    asked: list[bool] = []

    def traced(inputs: Tensor) -> Tensor:
        asked.append(torch.is_inference_mode_enabled())
        return model(inputs)

    assert checked(model, traced, images, INFER.changed(grad_mode=grad_mode)).verdict == "same"
    assert asked == [grad_mode == "inference_mode"]


def test_a_functions_gradients_are_those_of_its_inputs() -> None:
    workload = Workload(task="infer", model="function:sin_cos", batch_size=100, backward=True)
    spec = RunSpec(workload=workload, variant=COMPILED)

    def right(x: Tensor, y: Tensor) -> Tensor:
        return torch.sin(x) + torch.cos(y)

    def without_y(x: Tensor, y: Tensor) -> Tensor:
        return torch.sin(x) + torch.cos(y.detach())

    inputs = tuple(torch.randn(100).requires_grad_() for _ in range(2))
    for variant, verdict in ((right, "same"), (without_y, "differs")):
        found = parity.check(
            spec, CPU, right, variant, nn.functional.cross_entropy, [(inputs, None)]
        )
        assert found is not None and found.verdict == verdict, found
        assert found.output_difference == 0
        assert bool(found.gradient_difference) == (verdict == "differs")


def test_training_is_compared_from_the_initial_weights(images: Tensor) -> None:
    model = SmallCNN()
    torch.manual_seed(0)
    initial = SmallCNN().state_dict()
    seen: list[Tensor] = []

    def variant(inputs: Tensor) -> Tensor:
        seen.append(model.head.weight.detach().clone())
        return model(inputs)

    assert checked(model, variant, images, CANONICAL, COMPILED).verdict == "same"
    assert torch.equal(seen[0], initial["head.weight"])


# The referee


class Cancelling(nn.Module):
    """The small difference of two large numbers: bf16 leaves nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = (nn.Linear(64, 64, bias=False) for _ in range(2))
        with torch.no_grad():
            self.other.weight.copy_(self.one.weight + 1e-3 * self.other.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.one(inputs) - self.other(inputs)


def test_a_variant_that_rounds_less_than_eager_is_closer_to_fp64() -> None:
    model = Cancelling()

    def without_autocast(inputs: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return model(inputs)

    inputs = torch.randn(4, 64)
    found = checked(model, without_autocast, inputs, INFER.changed(precision="bf16"))
    assert found.verdict == "closer to fp64 than eager", found
    assert "from fp64 it differs by" in found.text
    assert found.output_difference is not None and found.output_difference > 0.05


def test_a_variant_that_rounds_more_than_eager_differs() -> None:
    model = Cancelling()

    def in_bf16(inputs: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return model(inputs)

    assert checked(model, in_bf16, torch.randn(4, 64)).verdict == "differs"


class OwnArithmetic(nn.Linear):
    """Cannot be had in fp64: its weights are made fp32 in each call."""

    def forward(self, inputs: Tensor) -> Tensor:
        return nn.functional.linear(inputs, self.weight.float())


@pytest.mark.parametrize(("factor", "verdict"), [(1.0002, "not checked"), (1.01, "differs")])
def test_without_a_referee_only_what_is_far_beyond_the_limit_differs(
    factor: float, verdict: str
) -> None:
    model = OwnArithmetic(8, 8)
    found = checked(model, lambda inputs: factor * model(inputs), torch.randn(4, 8))
    assert found.verdict == verdict
    assert "no run in fp64 could judge (RuntimeError" in found.text


def test_a_model_too_large_for_fp64_is_not_judged_in_it(
    images: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parity, "MOST_REFEREED_PARAMETERS", 10_000)
    model = SmallCNN()
    found = checked(model, lambda inputs: 1.01 * model(inputs), images)
    assert found.verdict == "differs"
    assert "no run in fp64 could judge (0 million parameters are more than 0.01 million" in (
        found.text
    )


# What cannot be checked


def test_a_model_with_dropout_is_not_checked(tmp_path: Path) -> None:
    write_model(tmp_path, "dropping.py", DROPPING)
    spec = RunSpec(workload=CANONICAL.changed(model="file:dropping.py"), variant=COMPILED)
    found = measured(spec, tmp_path, epochs=1).said(Aftermath)[-1].parity
    assert found is not None and found.verdict == "not checked", found
    assert "eager differs from itself" in found.text and "as dropout does" in found.text


def test_eager_without_a_finite_number_is_no_reference(images: Tensor) -> None:
    model = SmallCNN()
    nn.init.constant_(model.head.weight, float("inf"))
    found = checked(model, model, images)
    assert (found.verdict, found.text) == (
        "not checked",
        "what eager returns holds no finite number.",
    )


def test_a_failing_variant_is_not_checked_and_says_why(images: Tensor) -> None:
    def failing(inputs: Tensor) -> Tensor:
        raise MemoryError("3 GiB are not to be had")

    found = checked(SmallCNN(), failing, images)
    assert found.verdict == "not checked"
    assert found.text == "parity itself failed (MemoryError: 3 GiB are not to be had)."


def test_a_model_that_cannot_be_built_again_is_not_checked(images: Tensor) -> None:
    model = SmallCNN()
    found = checked(model, model, images, CANONICAL.changed(model="file:gone.py"), COMPILED)
    assert found.verdict == "not checked"
    assert "the model could not be built again (ModelError: there is no model file" in found.text


def test_parity_never_compiles_again(images: Tensor) -> None:
    model = SmallCNN().eval()
    compiled = torch.compile(model, backend="eager", dynamic=False)
    with torch.no_grad():
        compiled(images[:2])
    before = copy.deepcopy(counters)
    found = checked(model, compiled, images, how=COMPILED)
    assert found.verdict == "not checked"
    assert found.text == "the variant would have to compile again to be checked."
    assert checked(model, compiled, images[:2], how=COMPILED).verdict == "same"
    assert counters == before


def test_a_model_of_several_graphs_is_checked(images: Tensor) -> None:
    class Branching(SmallCNN):
        def forward(self, images: Tensor) -> Tensor:
            logits = super().forward(images)
            return logits * 2 if logits.sum().item() > 0 else logits

    model = Branching().eval()
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        compiled(images)
    before = copy.deepcopy(counters)
    assert checked(model, compiled, images, how=COMPILED).verdict == "same"
    assert counters == before


# Which batches, for how long


def batches_seen(batches: list[Any], workload: Workload = CANONICAL) -> list[int]:
    """Sizes of the batches that the variant was called on."""
    model = SmallCNN()
    sizes: list[int] = []

    def variant(inputs: Tensor) -> Tensor:
        sizes.append(len(inputs))
        return model(inputs)

    spec = RunSpec(workload=workload, variant=COMPILED)
    found = parity.check(spec, CPU, model, variant, nn.functional.cross_entropy, batches)
    assert found is not None and found.verdict == "same", found
    return sizes


def batch(size: int) -> tuple[Tensor, Tensor]:
    return torch.rand(size, 3, 32, 32), torch.arange(size)


def test_training_is_compared_on_five_batches_of_the_usual_size() -> None:
    assert batches_seen([batch(4) for _ in range(9)]) == [4] * 5
    assert batches_seen([batch(4), batch(4), batch(3)]) == [4, 4]
    assert batches_seen([batch(4)] * 9) == [4]  # pipeline resident


def test_inference_is_compared_on_one_batch() -> None:
    assert batches_seen([batch(4), batch(4)], INFER) == [4]


def test_when_the_time_is_over_one_batch_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "LONGEST_SECONDS", 0.0)
    assert batches_seen([batch(4) for _ in range(5)]) == [4]


# Numbers known by hand


def test_differences_are_relative_to_the_norm_of_all_tensors_together() -> None:
    right = [torch.tensor([3.0]), torch.tensor([4.0])]
    assert relative_difference(right, right) == 0
    assert relative_difference([right[0], torch.tensor([5.0])], right) == 0.2
    assert relative_difference([torch.zeros(1)], [torch.zeros(1)]) == 0
    assert relative_difference([torch.ones(1)], [torch.zeros(1)]) == float("inf")
    assert relative_difference([right[0]], right) == float("inf")


def test_numbers_that_are_infinite_in_both_are_left_out() -> None:
    infinite = torch.tensor([3.0, 4.0, float("inf"), float("nan")])
    other = infinite + torch.tensor([0.0, 1.0, 0.0, 0.0])
    assert relative_difference([other], [infinite]) == 0.2


def test_numbers_that_are_no_numbers_must_be_the_same_ones() -> None:
    inf, nan = float("inf"), float("nan")
    for one, other in ((inf, -inf), (nan, inf)):
        pair = [torch.tensor([1.0, one])], [torch.tensor([1.0, other])]
        assert relative_difference(*pair) == inf


def test_numbers_whose_square_is_infinite_differ_by_what_they_differ() -> None:
    for size in (1e20, 1e200):
        right = torch.tensor([size, size], dtype=torch.float64)
        found = relative_difference([right * 1.05], [right])
        assert found == pytest.approx(0.05)
    right = torch.tensor([1e20, 1e20])
    assert relative_difference([right * 1.05], [right]) == pytest.approx(0.05, rel=1e-5)


def test_complex_numbers_are_judged_with_both_parts() -> None:
    assert relative_difference([torch.tensor([3 + 5j])], [torch.tensor([3 + 4j])]) == 0.2
