"""YOLOv7: the published sizes, two forms of one function, a loss that can be trained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from bench_core.events import Epoch, Failed, Prepared  # noqa: E402
from bench_core.measuring import yolov7  # noqa: E402
from bench_core.model_sizes import size_of  # noqa: E402
from bench_core.spec import Measurement, RunSpec, SpecError, Workload  # noqa: E402
from tests.measuring_child import measured  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """At 64 px a second thread only spins: ten times slower beside another process."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def training_form(one_thread: None) -> nn.Module:
    torch.manual_seed(0)
    model = yolov7.yolov7(deploy=False)
    # Weights and biases of batch norm as training makes them: a fold that forgets one shows.
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.8, 1.2)
            nn.init.uniform_(module.bias, -0.1, 0.1)
    return model


@pytest.fixture(scope="module")
def deploy_form(training_form: nn.Module) -> nn.Module:
    return yolov7.deployed(training_form)


def parameters_of(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def small(**fields: object) -> Workload:
    given = {"model": "yolov7", "image_size": 64, "batch_size": 2, "samples": 4, **fields}
    return Workload(**{"pipeline": "resident", "threads": 1, **given})


def test_both_forms_have_the_published_parameters(
    training_form: nn.Module, deploy_form: nn.Module
) -> None:
    assert parameters_of(training_form) == 37_620_125
    assert parameters_of(deploy_form) == 36_926_621
    assert size_of("yolov7").parameters == pytest.approx(36.926621, abs=0.05)


def test_work_and_outputs_at_640_pixels_are_the_published_ones() -> None:
    with torch.device("meta"):  # shapes without arithmetic
        model = yolov7.YOLOv7()
        heads = [model.head_3, model.head_4, model.head_5]
        for channels, head in zip((128, 256, 512), heads, strict=True):
            head[0] = nn.Sequential(nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.SiLU())
        with FlopCounterMode(display=False) as counter:
            outputs = model.eval()(torch.empty(1, 3, 640, 640))
    assert counter.get_total_flops() == pytest.approx(104.5e9, rel=0.01)
    assert [tuple(output.shape) for output in outputs] == [
        (1, 255, 80, 80),
        (1, 255, 40, 40),
        (1, 255, 20, 20),
    ]
    at_224 = counter.get_total_flops() / 2 / 1e9 * (224 / 640) ** 2
    assert size_of("yolov7").multiply_adds == pytest.approx(at_224, rel=0.01)


def test_the_deploy_form_is_the_same_function(
    training_form: nn.Module, deploy_form: nn.Module
) -> None:
    assert not any(isinstance(module, yolov7.RepConv) for module in deploy_form.modules())
    images = torch.rand(2, 3, 64, 96)
    with torch.no_grad():
        for trained, deployed in zip(training_form(images), deploy_form(images), strict=True):
            assert (trained - deployed).norm() / trained.norm() < 1e-4


def test_outputs_depend_on_the_image(deploy_form: nn.Module) -> None:
    with torch.no_grad():
        for output in deploy_form(torch.rand(2, 3, 64, 64)):
            assert output.isfinite().all()
            assert output.std(0).mean() > 0.01


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
def test_it_can_be_traced_frozen_and_exported(deploy_form: nn.Module) -> None:
    images = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        expected = deploy_form(images)
        traced = torch.jit.freeze(torch.jit.trace(deploy_form, images, check_trace=False))
        exported = torch.export.export(deploy_form, (images,)).module()
        for made in (traced(images), exported(images)):
            torch.testing.assert_close(tuple(made), expected, rtol=1e-3, atol=1e-3)


def test_a_loss_by_hand_for_a_network_that_says_nothing() -> None:
    outputs = [torch.zeros(1, 255, 2, 2)]
    targets = torch.tensor([[[3, 0.25, 0.25, 0.5, 0.5]]])
    # All sigmoids are 1/2: box centre (0 + 1/2) / 2, size 1/2: no box error; ln 2 twice.
    assert yolov7.detection_loss(outputs, targets) == pytest.approx(2 * 0.693147, rel=1e-5)
    aside = torch.tensor([[[3, 0.75, 0.25, 0.5, 0.9]]])  # another cell, 0.4 in one of four numbers
    assert yolov7.detection_loss(outputs, aside) == pytest.approx(2 * 0.693147 + 0.1, rel=1e-5)


def test_the_loss_knows_the_cell_the_class_and_nothing_elsewhere() -> None:
    def loss_with(channel: int, row: int, column: int) -> float:
        output = torch.zeros(1, 255, 2, 2)
        output[0, channel, row, column] = 4.0
        targets = torch.tensor([[[3, 0.75, 0.25, 0.5, 0.5]]])
        return float(yolov7.detection_loss([output], targets))

    nothing = 2 * 0.693147
    assert loss_with(4, 0, 1) < nothing < loss_with(4, 1, 0)  # objectness: right cell, wrong one
    assert loss_with(5 + 3, 0, 1) < nothing < loss_with(5 + 4, 0, 1)  # class


def test_the_same_seed_makes_the_same_batches_whatever_was_drawn_before() -> None:
    torch.manual_seed(3)
    first = yolov7.batches_of(64)(2)
    torch.rand(100)
    images, targets = yolov7.batches_of(64)(2)
    assert torch.equal(images, first[0]) and torch.equal(targets, first[1])
    assert images.shape == (2, 3, 64, 64)
    assert targets.shape == (2, yolov7.BOXES_AN_IMAGE, 5)
    assert targets[..., 0].min() >= 0 and targets[..., 0].max() < yolov7.CLASSES
    assert targets[..., 1:].min() >= 0 and targets[..., 1:].max() < 1


def test_a_fixed_batch_is_learned_and_twice_alike(training_form: nn.Module) -> None:
    start = {name: value.clone() for name, value in training_form.state_dict().items()}
    torch.manual_seed(0)
    images, targets = yolov7.batches_of(64)(2)

    def losses() -> list[float]:
        training_form.load_state_dict(start)
        training_form.train()
        optimizer = torch.optim.SGD(training_form.parameters(), lr=0.05)
        seen = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = yolov7.detection_loss(training_form(images), targets)
            loss.backward()
            seen.append(loss.item())
            optimizer.step()
        gradients = [parameter.grad for parameter in training_form.parameters()]
        assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)
        return seen

    try:
        first = losses()
        assert first == losses()
    finally:
        training_form.load_state_dict(start)
        training_form.eval()
    assert first[-1] < first[0]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"image_size": 100},
            "yolov7 halves the image five times, so image_size must be a multiple of 32, got 100; "
            "take 96 or 128",
        ),
        (
            {"dataset": "cifar10"},
            "yolov7 is measured on synthetic images and boxes, got dataset cifar10; "
            "choose dataset synthetic",
        ),
        (
            {"evaluate": "variant"},
            "yolov7 finds boxes, and evaluate variant counts right classes; choose evaluate none",
        ),
    ],
)
def test_what_it_cannot_do_is_said(fields: dict[str, object], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        small(**fields)
    assert str(caught.value) == said


def test_it_is_measured_in_training_and_in_inference(tmp_path: Path) -> None:
    training = RunSpec(workload=small(samples=2), measurement=Measurement(epochs=1))
    child = measured(training, tmp_path, epochs=1)
    assert child.said(Failed) == [], child.log_text()
    [epoch] = child.said(Epoch)
    assert len(epoch.step_seconds) == 1 and epoch.loss > 0
    [prepared] = child.said(Prepared)
    assert (prepared.parameters, prepared.weights) == (37_620_125, "random")

    inference = RunSpec(
        workload=small(task="infer", samples=2),
        measurement=Measurement(iterations=3),
    )
    child = measured(inference, tmp_path, epochs=1)
    assert child.said(Failed) == [], child.log_text()
    assert child.said(Epoch)[0].step_seconds
    assert child.said(Prepared)[0].parameters == 36_926_621
