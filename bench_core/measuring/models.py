"""Models by name: our own, torchvision's and timm's classifiers, the user's files; functions too.

Every model has its original head (1,000 classes for the classifiers). A model file stands in
paths.models_dir() and defines `build_model() -> nn.Module` and, where images are not what the
model eats, `make_batch(batch_size) -> (inputs, labels)`. A function's file stands there too and
defines `fn(*inputs)` and `make_inputs(n) -> (tensor, ...)`.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torchvision
from torch import Tensor, nn

from bench_core import paths
from bench_core.measuring import yolov7
from bench_core.measuring.failures import ModelError
from bench_core.measuring.functions import FUNCTIONS
from bench_core.spec import Workload

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


def build(workload: Workload, weights: str) -> Built:
    """The model as the spec names it, on the CPU, contiguous, fp32. Raises ModelError.

    `pretrained` falls back to random weights where none can be had, and says so.
    """
    kind, _, name = workload.model.partition(":")
    name = name or kind
    if kind == "file":
        return _from_file(name)
    if kind == "function":
        return _own_function(name) if name in FUNCTIONS else _function_from_file(name)
    if kind == "timm":
        return _from_timm(name, weights)
    if name == "yolov7":
        return _yolov7(workload, weights)
    if name in OWN_MODELS:
        return Built(OWN_MODELS[name](), _random(name, weights))
    return _from_torchvision(name, weights)


def _random(name: str, wanted: str) -> str:
    return "random" if wanted == "random" else f"random (no pretrained weights: {name} has none)"


def _yolov7(workload: Workload, weights: str) -> Built:
    """The deploy form for inference, the training form for training, with batches of its own."""
    module = yolov7.yolov7(deploy=workload.task == "infer")
    return Built(
        module,
        _random("yolov7", weights),
        make_batch=yolov7.batches_of(workload.image_size),
        loss=yolov7.detection_loss,
    )


def torchvision_names() -> list[str]:
    return torchvision.models.list_models(module=torchvision.models)


def timm_names() -> list[str]:
    """Raises ModelError where timm is not installed, or broken."""
    return _timm().list_models()


def _timm() -> Any:
    """Not a requirement: imported where it is asked for."""
    try:
        return importlib.import_module("timm")
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "timm"
        what = "is not installed for" if missing else f"does not import ({error}) in"
        raise ModelError(f"timm {what} {sys.executable}; run `pip install timm` with it") from error


def _from_timm(name: str, weights: str) -> Built:
    timm = _timm()
    names = timm.list_models()
    # What follows the dot names pretrained weights: resnet50.a1_in1k.
    if name.split(".")[0] not in names:
        raise ModelError(f"timm has no model {name!r}; {_near(name, names)}")
    said = "random"
    if weights == "pretrained":
        try:
            with _short_downloads():
                return Built(timm.create_model(name, pretrained=True), "pretrained")
        except (OSError, RuntimeError) as error:  # no network; no weights for this model
            said = _not_loaded(error)
    try:
        return Built(timm.create_model(name, pretrained=False), said)
    except RuntimeError as error:  # weights that it does not know, after the dot
        raise ModelError(f"timm cannot build {name!r}: {error}") from error


@contextmanager
def _short_downloads() -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(DOWNLOAD_TIMEOUT_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _not_loaded(error: Exception) -> str:
    return f"random (pretrained could not be loaded: {str(error)[:200]})"


def _near(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=4)
    return f"near it are {', '.join(near)}" if near else f"it has {len(names)}, e.g. resnet18"


def _from_torchvision(name: str, weights: str) -> Built:
    names = torchvision_names()
    if name not in names:
        raise ModelError(
            f"torchvision {torchvision.__version__} has no classification model {name!r}; "
            f"{_near(name, names)}"
        )
    options = OPTIONS.get(name, {})
    if weights == "random":
        return Built(torchvision.models.get_model(name, weights=None, **options), "random")
    chosen = torchvision.models.get_model_weights(name).DEFAULT
    try:
        with _short_downloads():
            module = torchvision.models.get_model(name, weights=chosen, **options)
        return Built(module, f"pretrained ({chosen.name})")
    except (OSError, RuntimeError) as error:  # no network; a file whose hash is wrong
        module = torchvision.models.get_model(name, weights=None, **options)
        return Built(module, _not_loaded(error))


def _from_file(file_name: str) -> Built:
    file = _in_models_dir(file_name, "model")
    code = _imported(file)
    build_model = _defined(
        code,
        file,
        "build_model()",
        "a function of that name without arguments that returns the torch.nn.Module",
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
        _sha256(file),
        getattr(code, "make_batch", None),
    )


NO_WEIGHTS = "none: a function has no weights"


def _own_function(name: str) -> Built:
    function = FUNCTIONS[name]
    return Built(function.fn, NO_WEIGHTS, make_inputs=function.make_inputs)


def _function_from_file(file_name: str) -> Built:
    file = _in_models_dir(file_name, "function")
    code = _imported(file)
    fn = _defined(code, file, "fn(...)", "the function to be measured under that name")
    make_inputs = _defined(
        code,
        file,
        "make_inputs(n)",
        "a function of that name that returns the inputs of fn in size n, a tuple of tensors",
    )
    return Built(fn, NO_WEIGHTS, _sha256(file), make_inputs=make_inputs)


def _in_models_dir(file_name: str, kind: str) -> Path:
    file = paths.models_dir() / file_name
    if not file.is_file():
        raise ModelError(f"there is no {kind} file {file}; put {file_name} into that folder")
    return file


def _defined(code: object, file: Path, signature: str, meaning: str) -> Callable[..., Any]:
    found = getattr(code, signature.partition("(")[0], None)
    if not callable(found):
        raise ModelError(f"{file} defines no {signature}; add {meaning}")
    return found


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _imported(file: Path) -> object:
    name = f"bench_model_{file.stem}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(file):
        return known  # built again for parity; what a file registers with torch it registers once
    recipe = importlib.util.spec_from_file_location(name, file)
    if recipe is None or recipe.loader is None:
        raise ModelError(f"{file} cannot be imported as Python")
    code = importlib.util.module_from_spec(recipe)
    sys.modules[name] = code  # Dynamo and pickling look the module up by its name
    try:
        recipe.loader.exec_module(code)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        del sys.modules[name]
        raise ModelError(
            f"{file} does not import: {type(error).__name__}: {error}; try it with `python {file}`"
        ) from error
    return code
