"""Models and data sets: what is built, and what is said when it cannot be."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402

from bench_core import capabilities  # noqa: E402
from bench_core.events import Epoch, Failed  # noqa: E402
from bench_core.lacks import lacks_of  # noqa: E402
from bench_core.measuring import datasets, models  # noqa: E402
from bench_core.measuring.failures import (  # noqa: E402
    DataMissing,
    ModelError,
    NotEnoughMemory,
)
from bench_core.spec import RunSpec, Workload  # noqa: E402
from tests.measuring_child import CANONICAL, eager, measured, write_model  # noqa: E402
from tests.test_capabilities import HERE  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    for name in ("BENCH_MODELS", "BENCH_DATASETS"):
        monkeypatch.delenv(name, raising=False)


def data_of(**workload: Any) -> datasets.Data:
    eats_images = models.Built(torch.nn.Identity(), "random")
    return datasets.prepare(eager(**workload), CPU, eats_images)


def build(name: str, weights: str = "random") -> models.Built:
    return models.build(Workload(model=name), weights)


# Models


@pytest.mark.parametrize("name", ["small_cnn", "pointwise_cnn", "resnet18", "torchvision:alexnet"])
def test_models_keep_their_head_of_a_thousand_classes(name: str) -> None:
    built = build(name)
    assert built.weights == "random"
    assert built.module.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 1000)


def test_models_with_a_second_output_in_training_are_built_without_it() -> None:
    module = build("torchvision:googlenet").module
    assert module.train()(torch.zeros(2, 3, 64, 64)).shape == (2, 1000)


def test_the_same_seed_gives_both_arms_the_same_weights() -> None:
    def first_weight() -> torch.Tensor:
        torch.manual_seed(7)
        return next(build("small_cnn").module.parameters())

    assert torch.equal(first_weight(), first_weight())


def test_an_unknown_torchvision_name_names_those_near_it() -> None:
    with pytest.raises(ModelError, match="no classification model 'resnet19'; near it are resnet"):
        build("torchvision:resnet19")


def test_pretrained_weights_that_nobody_made_are_said_to_be_random() -> None:
    assert build("small_cnn", "pretrained").weights == (
        "random (no pretrained weights: small_cnn has none)"
    )


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (None, "there is no model file"),
        ("import nothing_of_that_name", "does not import: ModuleNotFoundError"),
        ("pass", r"defines no build_model\(\)"),
        ("def build_model(): return 3", "returned int, not a torch.nn.Module"),
        ("def build_model(): return 1 / 0", "raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_broken_model_file_is_told_from_its_cause(
    tmp_path: Path, code: str | None, said: str
) -> None:
    if code is not None:
        write_model(tmp_path, "mine.py", code)
    with pytest.raises(ModelError, match=said):
        build("file:mine.py")


def test_a_model_file_may_bring_batches_of_its_own(tmp_path: Path) -> None:
    write_model(
        tmp_path,
        "tokens.py",
        """
        import torch
        from torch import nn

        class Tokens(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = nn.Embedding(50, 8)

            def forward(self, tokens):
                return self.embedding(tokens).mean(1)

        def build_model():
            return Tokens()

        def make_batch(batch_size):
            return torch.randint(50, (batch_size, 12)), torch.randint(8, (batch_size,))
        """,
    )
    spec = eager(model="file:tokens.py", samples=40, drop_last=False, pipeline="on_the_fly")
    child = measured(spec, tmp_path, epochs=1)
    assert child.process.returncode == 0, child.log_text()
    [epoch] = child.said(Epoch)
    assert (len(epoch.step_seconds), epoch.samples) == (3, 40)


# timm, which is no requirement

TIMM = """
    from torch import nn

    def list_models():
        return ["convnext_nano", "resnet26", "resnet26d"]

    def create_model(name, pretrained=False):
        if "." in name and not name.endswith(".ours"):
            raise RuntimeError(f"Invalid pretrained tag in {name}.")
        if pretrained and not name.endswith(".ours"):
            raise RuntimeError(f"No pretrained weights exist for {name}.")
        return nn.Linear(2 if pretrained else 3, 1000)
"""


@pytest.fixture
def timm_folder(tmp_path: Path) -> Path:
    """A package of that name with the two functions of timm's interface, as pip leaves one."""
    folder = tmp_path / "packages"
    (folder / "timm").mkdir(parents=True)
    (folder / "timm" / "__init__.py").write_text(textwrap.dedent(TIMM))
    (folder / "timm-9.9.dist-info").mkdir()
    about = "Metadata-Version: 2.1\nName: timm\nVersion: 9.9\n"
    (folder / "timm-9.9.dist-info" / "METADATA").write_text(about)
    return folder


@pytest.fixture
def with_timm(timm_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(timm_folder)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    yield
    sys.modules.pop("timm", None)


def test_a_timm_model_without_timm_says_how_to_get_it() -> None:
    if importlib.util.find_spec("timm"):
        pytest.skip("timm is installed here")
    with pytest.raises(
        ModelError, match=f"timm is not .* {sys.executable}; run `pip install timm`"
    ):
        build("timm:resnet26")
    [said] = check_of("timm:resnet26", HERE)
    assert said == "model timm:resnet26 needs timm, which is not installed; run `pip install timm`"


def test_a_timm_model_is_built_and_pretrained_falls_back(with_timm: None) -> None:
    assert build("timm:resnet26").weights == "random"
    assert build("timm:resnet26").module.in_features == 3
    trained = build("timm:resnet26.ours", "pretrained")
    assert (trained.weights, trained.module.in_features) == ("pretrained", 2)
    untrained = build("timm:resnet26d", "pretrained")
    assert untrained.module.in_features == 3
    assert untrained.weights == (
        "random (pretrained could not be loaded: No pretrained weights exist for resnet26d.)"
    )


def test_an_unknown_timm_name_names_those_near_it(with_timm: None) -> None:
    with pytest.raises(ModelError, match="timm has no model 'resnet27'; near it are resnet26"):
        build("timm:resnet27")
    with pytest.raises(ModelError, match="timm cannot build 'resnet26.no': Invalid pretrained tag"):
        build("timm:resnet26.no", "pretrained")


def test_timms_models_are_offered_where_it_is_installed(
    timm_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(timm_folder))
    monkeypatch.syspath_prepend(timm_folder)  # the answer's file is named after the version
    found = capabilities.probe()
    assert (found.timm, found.timm_models) == ("9.9", ("convnext_nano", "resnet26", "resnet26d"))
    assert check_of("timm:resnet26.ours", found) == []
    [said] = check_of("timm:resnet27", found)
    assert said == "timm 9.9 has no model 'resnet27'; did you mean resnet26 or resnet26d?"


def check_of(model: str, found: capabilities.Capabilities) -> list[str]:
    return lacks_of(RunSpec(workload=Workload(model=model)), found)


# What goes wrong in a step, told by a real process

FAILING = """
import torch
from torch import nn

class Failing(nn.Linear):
    def forward(self, images):
        return self.fail(super().forward(images.flatten(1)))

    def fail(self, logits):
        {body}

def build_model():
    return Failing(3 * 32 * 32, 10)
"""


@pytest.fixture
def failure_of(tmp_path: Path) -> Callable[[str], Failed]:
    def run(body: str) -> Failed:
        write_model(tmp_path, "failing.py", FAILING.format(body=body))
        child = measured(eager(model="file:failing.py"), tmp_path)
        assert child.process.returncode == 1
        assert isinstance(child.events[-1], Failed)
        assert "Traceback" in child.events[-1].traceback
        return child.events[-1]

    return run


def test_a_forward_that_raises_is_the_models_error(failure_of: Callable[[str], Failed]) -> None:
    failed = failure_of("raise KeyError('no such layer')")
    assert failed.failure == "model error"
    assert failed.reason == (
        "the model or its loss raised KeyError in the first epoch: 'no such layer'"
    )


def test_out_of_memory_names_batch_size_place_and_way_out(
    failure_of: Callable[[str], Failed],
) -> None:
    failed = failure_of("return logits + torch.empty(1 << 50).sum()")
    assert failed.failure == "out of memory"
    assert failed.reason.startswith("out of memory in the first epoch with batch size 16 at 32 px")
    assert "take a smaller batch" in failed.reason


def test_a_loss_that_is_nan_ends_the_run_after_its_epoch_was_told(tmp_path: Path) -> None:
    write_model(tmp_path, "failing.py", FAILING.format(body="return logits * float('nan')"))
    child = measured(eager(model="file:failing.py"), tmp_path)
    *_, epoch, failed = child.events
    assert isinstance(epoch, Epoch) and epoch.loss is None
    assert isinstance(failed, Failed) and failed.failure == "nan loss"
    assert failed.reason.startswith("the loss was nan in epoch 1; ")


def test_a_device_that_torch_does_not_see_is_said_to_be_missing(tmp_path: Path) -> None:
    if torch.cuda.device_count() > 7:
        pytest.skip("this machine has the device")
    child = measured(RunSpec(workload=CANONICAL, device="cuda:7"), tmp_path)
    [failed] = child.said(Failed)
    assert failed.failure == "device missing"
    assert failed.reason.startswith("cuda:7 was asked for, and torch ")


# Data


@pytest.mark.parametrize("pipeline", ["on_the_fly", "cached", "resident"])
def test_every_pipeline_ends_with_the_ragged_batch(pipeline: str) -> None:
    data = data_of(pipeline=pipeline, samples=40, drop_last=False)
    for _ in range(2):
        assert [len(labels) for _, labels in data.training] == [16, 16, 8]
    assert [len(labels) for _, labels in data_of(pipeline=pipeline, samples=40).training] == [
        16
    ] * 2


def test_both_arms_see_the_same_images_in_the_same_order_and_epochs_differ() -> None:
    def epochs(pipeline: str) -> list[torch.Tensor]:
        training = data_of(pipeline=pipeline).training
        return [torch.cat([images for images, _ in training]) for _ in range(2)]

    cached, again, on_the_fly = epochs("cached"), epochs("cached"), epochs("on_the_fly")
    assert torch.equal(cached[0], again[0]) and torch.equal(cached[1], again[1])
    assert torch.equal(cached[0], on_the_fly[0])
    assert not torch.equal(cached[0], cached[1])


def test_images_come_through_the_transforms_in_the_size_asked_for() -> None:
    images, labels = next(iter(data_of(image_size=56, pipeline="on_the_fly").training))
    assert images.shape == (16, 3, 56, 56)
    assert images.dtype == torch.float32
    assert 0 <= images.min() < images.max() <= 1
    assert 0 <= labels.min() <= labels.max() < 10


def test_the_evaluation_sees_other_images_than_the_training() -> None:
    data = data_of(evaluate="variant")
    assert data.evaluation is not None
    trained = torch.cat([images for images, _ in data.training])
    tested = torch.cat([images for images, _ in data.evaluation])
    assert trained.shape == tested.shape
    assert not (trained[:, None] == tested[None]).flatten(2).all(2).any()


def test_missing_cifar10_names_the_file_its_checksum_and_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchvision.datasets.CIFAR10.url", "http://127.0.0.1:9/nothing")
    with pytest.raises(DataMissing) as caught:
        data_of(dataset="cifar10")
    for part in (datasets.CIFAR_ARCHIVE, datasets.CIFAR_MD5, str(tmp_path / "datasets/cifar10")):
        assert part in str(caught.value)


def test_a_folder_of_class_folders_is_a_data_set(tmp_path: Path) -> None:
    from PIL import Image

    for number in range(20):
        folder = tmp_path / "images" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (number * 10, 0, 0)).save(folder / f"{number}.png")
    images = {"dataset": "imagefolder", "dataset_path": str(tmp_path / "images")}

    seen = torch.cat([labels for _, labels in data_of(**images, samples=16).training])
    assert set(seen.tolist()) == {0, 1}
    with pytest.raises(
        DataMissing, match="has 20 images, 32 are needed; set samples to at most 20"
    ):
        data_of(**images, samples=32)
    with pytest.raises(DataMissing, match="is no folder"):
        data_of(dataset="imagefolder", dataset_path=str(tmp_path / "nowhere"))


def test_cached_images_that_do_not_fit_are_refused_before_they_fill_the_memory() -> None:
    with pytest.raises(NotEnoughMemory, match="take fewer samples or pipeline on_the_fly"):
        data_of(samples=10_000_000, image_size=1024)
