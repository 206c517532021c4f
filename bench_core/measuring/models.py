"""Models by name: two small ones of our own, torchvision's classifiers, the user's own files.

Every model has its original head (1,000 classes for ours and torchvision's). A model file stands
in paths.models_dir() and defines `build_model() -> nn.Module` and, where images are not what the
model eats, `make_batch(batch_size) -> (inputs, labels)`.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torchvision
from torch import Tensor, nn

from bench_core import paths
from bench_core.measuring.failures import ModelError

CLASSES = 1000
DOWNLOAD_TIMEOUT_SECONDS = 20

MakeBatch = Callable[[int], tuple[Tensor, Tensor]]


class SmallCNN(nn.Module):
    """Compiles in seconds from warm caches: for the demo, for tests, for a first look."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )
        self.head = nn.Linear(32, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images).mean((2, 3)))


class PointwiseCNN(nn.Module):
    """Chains of cheap elementwise functions: shows compile at its best.

    Eager moves the whole signal through memory for each of them; a compiler fuses them into one
    pass. Costly functions (tanh, exp) would hide that: eager's library computes them as fast.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(32)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        signal = self.norm(self.stem(images))
        for _ in range(3):
            signal = torch.relu(signal) * 0.5 + signal.abs().clamp(max=2.0) - 0.1 * signal
        return self.head(signal.mean((2, 3)))


OWN_MODELS: dict[str, Callable[[], nn.Module]] = {
    "small_cnn": SmallCNN,
    "pointwise_cnn": PointwiseCNN,
}
# In training these two return a second output for an auxiliary loss unless told not to.
NO_AUXILIARY_HEAD = {"aux_logits": False, "init_weights": True}
OPTIONS = {"googlenet": NO_AUXILIARY_HEAD, "inception_v3": NO_AUXILIARY_HEAD}


@dataclass(frozen=True)
class Built:
    """`weights` says in words what the model starts from; `sha256` is the model file's.

    A function stands in `module` as it is, and brings `make_inputs`.
    """

    module: Any
    weights: str
    sha256: str | None = None
    make_batch: MakeBatch | None = None
    make_inputs: Callable[[int], tuple[Tensor, ...]] | None = None
    loss: Callable[[Any, Tensor], Tensor] = nn.functional.cross_entropy


def parameters_of(callee: Any) -> list[nn.Parameter]:
    return list(callee.parameters()) if isinstance(callee, nn.Module) else []


def build(name: str, weights: str) -> Built:
    """The model as the spec names it, on the CPU, contiguous, fp32. Raises ModelError.

    `pretrained` falls back to random weights where none can be had, and says so.
    """
    if name.startswith("file:"):
        return _from_file(name.removeprefix("file:"))
    if name in OWN_MODELS:
        why = "" if weights == "random" else f" (no pretrained weights: {name} has none)"
        return Built(OWN_MODELS[name](), f"random{why}")
    return _from_torchvision(name.removeprefix("torchvision:"), weights)


def torchvision_names() -> list[str]:
    return torchvision.models.list_models(module=torchvision.models)


def _from_torchvision(name: str, weights: str) -> Built:
    names = torchvision_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=4)
        hint = f"near it are {', '.join(near)}" if near else f"it has {len(names)}, e.g. resnet18"
        raise ModelError(
            f"torchvision {torchvision.__version__} has no classification model {name!r}; {hint}"
        )
    options = OPTIONS.get(name, {})
    if weights == "random":
        return Built(torchvision.models.get_model(name, weights=None, **options), "random")
    chosen = torchvision.models.get_model_weights(name).DEFAULT
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(DOWNLOAD_TIMEOUT_SECONDS)
    try:
        module = torchvision.models.get_model(name, weights=chosen, **options)
        return Built(module, f"pretrained ({chosen.name})")
    except (OSError, RuntimeError) as error:  # no network; a file whose hash is wrong
        module = torchvision.models.get_model(name, weights=None, **options)
        return Built(module, f"random (pretrained could not be loaded: {str(error)[:200]})")
    finally:
        socket.setdefaulttimeout(before)


def _from_file(file_name: str) -> Built:
    file = paths.models_dir() / file_name
    if not file.is_file():
        raise ModelError(f"there is no model file {file}; put {file_name} into that folder")
    code = _imported(file)
    build_model = getattr(code, "build_model", None)
    if not callable(build_model):
        raise ModelError(
            f"{file} defines no build_model(); add a function of that name without arguments "
            "that returns the torch.nn.Module"
        )
    try:
        module = build_model()
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise ModelError(
            f"build_model() in {file} raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(module, nn.Module):
        raise ModelError(
            f"build_model() in {file} returned {type(module).__name__}, not a torch.nn.Module"
        )
    return Built(
        module,
        "as build_model() makes them",
        hashlib.sha256(file.read_bytes()).hexdigest(),
        getattr(code, "make_batch", None),
    )


def _imported(file: Path) -> object:
    name = f"bench_model_{file.stem}"
    recipe = importlib.util.spec_from_file_location(name, file)
    if recipe is None or recipe.loader is None:
        raise ModelError(f"{file} cannot be imported as Python")
    code = importlib.util.module_from_spec(recipe)
    sys.modules[name] = code  # Dynamo and pickling look the module up by its name
    try:
        recipe.loader.exec_module(code)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise ModelError(
            f"{file} does not import: {type(error).__name__}: {error}; try it with `python {file}`"
        ) from error
    return code
