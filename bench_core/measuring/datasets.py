"""What one epoch passes over: batches of (inputs, labels) on the CPU, made anew by each `iter`.

Three data sets (synthetic, CIFAR-10, a folder of class folders) go through the same transforms
(shorter side to 256/224 of the image size, centre crop, to tensor) and one of three pipelines:
`on_the_fly` transforms in the loader as the article does, `cached` transforms once into memory,
`resident` keeps one batch on the device and loads nothing. The order is shuffled by the seed.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import psutil
import torch
import torchvision
from PIL import Image
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, Subset
from torchvision import transforms

from bench_core import paths
from bench_core.measuring.failures import DataMissing, ModelError, NotEnoughMemory
from bench_core.measuring.models import Built, MakeBatch
from bench_core.measuring.training import placement
from bench_core.spec import RunSpec, Workload

CLASSES = 10
CIFAR_ARCHIVE = "cifar-10-python.tar.gz"
CIFAR_MD5 = "c58f30108f718f92721af3b95e74349a"
DOWNLOAD_TIMEOUT_SECONDS = 20
# More synthetic images than CIFAR-10 has are the same images again: 150 MB hold them.
DISTINCT_IMAGES = 50_000

Batch = tuple[Tensor, Tensor]
MakeInputs = Callable[[int], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Data:
    """`training` and `evaluation` can be iterated again and again, each time for one epoch."""

    training: Any
    evaluation: Any | None


def prepare(spec: RunSpec, device: torch.device, built: Built) -> Data:
    """Raises DataMissing, NotEnoughMemory, ModelError."""
    workload, seed = spec.workload, spec.measurement.seed
    evaluated = workload.evaluate != "none"
    if built.make_inputs is not None:
        return _from_function(workload, built.make_inputs, device)
    if built.make_batch is not None:
        return _from_make_batch(workload, built.make_batch, device)
    training, testing = SOURCES[workload.dataset](workload, seed, evaluated)
    return Data(
        training=_pipeline(training, workload, seed, device),
        evaluation=_pipeline(testing, workload, seed + 1, device) if testing else None,
    )


def transform(image_size: int) -> Callable[[Any], Tensor]:
    return transforms.Compose(
        [
            transforms.Resize(round(image_size * 256 / 224)),
            transforms.CenterCrop(image_size),
            transforms.ToTensor(),
        ]
    )


class SyntheticImages(Dataset):
    """Images shaped as CIFAR-10's (uint8, 32 x 32 x 3) and labels, from a seed."""

    def __init__(self, samples: int, seed: int, to_tensor: Callable[[Any], Tensor]) -> None:
        generator = numpy.random.default_rng(seed)
        distinct = min(samples, DISTINCT_IMAGES)
        self.images = generator.integers(0, 256, (distinct, 32, 32, 3), dtype=numpy.uint8)
        self.labels = generator.integers(0, CLASSES, samples).tolist()
        self.to_tensor = to_tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = Image.fromarray(self.images[index % len(self.images)])
        return self.to_tensor(image), self.labels[index]


def _synthetic(workload: Workload, seed: int, evaluated: bool) -> tuple[Dataset, Dataset | None]:
    to_tensor = transform(workload.image_size)
    training = SyntheticImages(workload.samples, seed, to_tensor)
    # The second seed is far from the seeds that repeats are likely to use.
    testing = SyntheticImages(workload.samples, seed + 2**32, to_tensor) if evaluated else None
    return training, testing


def _cifar10(workload: Workload, seed: int, evaluated: bool) -> tuple[Dataset, Dataset | None]:
    folder = paths.datasets_dir() / "cifar10"
    to_tensor = transform(workload.image_size)
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(DOWNLOAD_TIMEOUT_SECONDS)
    try:
        kind = torchvision.datasets.CIFAR10
        training = kind(folder, train=True, transform=to_tensor, download=True)
        testing = kind(folder, train=False, transform=to_tensor, download=False)
    except (OSError, RuntimeError) as error:  # no network; a file whose checksum is wrong
        folder.mkdir(parents=True, exist_ok=True)
        raise DataMissing(
            f"CIFAR-10 is not in {folder} and could not be downloaded ({error}); put "
            f"{CIFAR_ARCHIVE} (md5 {CIFAR_MD5}) into that folder, or take dataset synthetic"
        ) from error
    finally:
        socket.setdefaulttimeout(before)
    # The test split has 10,000 images; a larger training part is tested on all of them.
    return (
        _first(training, workload.samples, "CIFAR-10's training split"),
        _first(testing, min(workload.samples, len(testing)), "CIFAR-10's test split")
        if evaluated
        else None,
    )


def _imagefolder(workload: Workload, seed: int, evaluated: bool) -> tuple[Dataset, Dataset | None]:
    folder = Path(workload.dataset_path or "").expanduser()
    if not folder.is_dir():
        raise DataMissing(f"dataset_path {folder} is no folder; give a folder of class folders")
    try:
        images = torchvision.datasets.ImageFolder(str(folder), transform(workload.image_size))
    except (FileNotFoundError, OSError) as error:
        raise DataMissing(
            f"{folder} is no folder of class folders with images in them: {error}"
        ) from error
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed)).tolist()
    wanted = workload.samples * (2 if evaluated else 1)
    if len(order) < wanted:
        halves = " (half of them for the evaluation)" if evaluated else ""
        raise DataMissing(
            f"{folder} has {len(order)} images, {wanted} are needed{halves}; "
            f"set samples to at most {len(order) // (2 if evaluated else 1)}"
        )
    training = Subset(images, order[: workload.samples])
    return training, Subset(images, order[workload.samples : wanted]) if evaluated else None


SOURCES: dict[str, Callable[[Workload, int, bool], tuple[Dataset, Dataset | None]]] = {
    "synthetic": _synthetic,
    "cifar10": _cifar10,
    "imagefolder": _imagefolder,
}


def _first(images: Any, samples: int, name: str) -> Dataset:
    if len(images) < samples:
        raise DataMissing(
            f"{name} has {len(images)} images, {samples} are needed; "
            f"set samples to at most {len(images)}"
        )
    return Subset(images, range(samples))


def _pipeline(images: Any, workload: Workload, seed: int, device: torch.device) -> Any:
    # A user's loader for a GPU pins its memory; nothing else copies while the device computes.
    pinned = device.type == "cuda"
    order = RandomSampler(images, generator=torch.Generator().manual_seed(seed))
    if workload.pipeline == "on_the_fly":
        return DataLoader(
            images,
            batch_size=workload.batch_size,
            sampler=order,
            num_workers=workload.loader_workers,
            drop_last=workload.drop_last,
            pin_memory=pinned,
        )
    if workload.pipeline == "cached":
        # Whole batches are indexed at once; stacking samples one by one would be the loader's cost.
        return DataLoader(
            _InMemory(images, workload),
            batch_size=None,
            sampler=BatchSampler(order, workload.batch_size, workload.drop_last),
            num_workers=workload.loader_workers,
            pin_memory=pinned,
        )
    first = [images[index] for index in list(order)[: workload.batch_size]]
    inputs = torch.stack([image for image, _ in first])
    labels = torch.tensor([label for _, label in first])
    return Resident((inputs, labels), workload, device)


class _InMemory(Dataset):
    """Every image transformed once; an item is the batch of a list of indices."""

    def __init__(self, images: Any, workload: Workload) -> None:
        needed = 4 * 3 * workload.image_size**2 * len(images)
        free = psutil.virtual_memory().available
        if needed > 0.8 * free:
            raise NotEnoughMemory(
                f"pipeline cached needs {needed / 2**30:.1f} GiB for {len(images)} images at "
                f"{workload.image_size} px, {free / 2**30:.1f} GiB are free; take fewer samples "
                "or pipeline on_the_fly"
            )
        self.images = torch.empty(len(images), 3, workload.image_size, workload.image_size)
        self.labels = torch.empty(len(images), dtype=torch.int64)
        for index in range(len(images)):
            self.images[index], self.labels[index] = images[index]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, indices: Sequence[int]) -> Batch:
        return self.images[indices], self.labels[indices]


class Resident:
    """One batch on the device for every step of the epoch; the ragged one is cut from it."""

    def __init__(self, batch: Batch, workload: Workload, device: torch.device) -> None:
        inputs, labels = placement(workload, device)(*batch)
        full = workload.samples // workload.batch_size
        self.batches = [(inputs, labels)] * full
        if workload.remainder:
            cut = workload.remainder
            self.batches.append((inputs[:cut].clone(), labels[:cut].clone()))

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)


class _MadePerStep:
    """Batches of a model's own make_batch, made while the step waits."""

    def __init__(self, make_batch: MakeBatch, sizes: list[int]) -> None:
        self.make_batch, self.sizes = make_batch, sizes

    def __iter__(self) -> Iterator[Batch]:
        return (self.make_batch(size) for size in self.sizes)


def _from_make_batch(workload: Workload, make_batch: MakeBatch, device: torch.device) -> Data:
    """The model brings its own batches; the spec's data set is then not read."""
    if workload.loader_workers:
        raise ModelError(
            f"{workload.model} makes its own batches, in the process that measures, so "
            f"loader_workers must be 0, got {workload.loader_workers}"
        )
    batch = make_batch(workload.batch_size)
    if not (isinstance(batch, tuple) and len(batch) == 2 and all(map(torch.is_tensor, batch))):
        raise ModelError("make_batch(batch_size) must return (inputs, labels), two tensors")
    sizes = [workload.batch_size] * (workload.samples // workload.batch_size)
    sizes += [workload.remainder] if workload.remainder else []
    batches: Any = {
        "on_the_fly": lambda: _MadePerStep(make_batch, sizes),
        "cached": lambda: [make_batch(size) for size in sizes],
        "resident": lambda: Resident(batch, workload, device),
    }[workload.pipeline]()
    return Data(batches, batches if workload.evaluate != "none" else None)


def _from_function(workload: Workload, make_inputs: MakeInputs, device: torch.device) -> Data:
    """The function's own inputs of size n, on the device, for every iteration."""
    try:
        made = make_inputs(workload.batch_size)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise ModelError(
            f"make_inputs({workload.batch_size}) of {workload.model} raised "
            f"{type(error).__name__}: {error}"
        ) from error
    if not (isinstance(made, tuple) and made and all(map(torch.is_tensor, made))):
        raise ModelError(
            f"make_inputs(n) of {workload.model} must return a tuple of tensors, also for one: "
            f"(x,); it returned {_kinds(made)}"
        )
    if workload.backward and not all(one.is_floating_point() for one in made):
        kinds = ", ".join(str(one.dtype).removeprefix("torch.") for one in made)
        raise ModelError(
            f"backward needs inputs that can have gradients, and make_inputs(n) of "
            f"{workload.model} returned tensors of {kinds}; make all of them floating point or "
            "leave backward out"
        )
    inputs = tuple(one.detach().to(device).requires_grad_(workload.backward) for one in made)
    return Data([(inputs, None)], None)


def _kinds(made: Any) -> str:
    """`list`, `tuple of Tensor, int`."""
    if not isinstance(made, tuple):
        return type(made).__name__
    return f"tuple of {', '.join(type(one).__name__ for one in made) or 'nothing'}"
