"""Whether the variant computes what eager computes; asked in the same process after the timing.

Both arms pass over the same batches from the same state: in training forward and backward from the
initial weights, in inference one call. The variant is called as it was timed, and may not compile
again. Where the two disagree, eager is asked whether it agrees with itself, and then the model in
fp64 which of the two is nearer.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from bench_core.events import Parity
from bench_core.measuring import models
from bench_core.measuring.distance import Differences, Result, differences, summary
from bench_core.measuring.inference import call_of, grad_mode_of, tensors_of
from bench_core.measuring.training import Criterion, loss_function, placement
from bench_core.measuring.variants import records_cuda_graphs
from bench_core.spec import COMPILES, RunSpec, Variant

MOST_BATCHES = 5
LONGEST_SECONDS = 30.0
# What may be judged in fp64, which takes two to five times as long as fp32 on a CPU and up to 32
# times on a GPU. Seconds are those of one arm's pass over one batch.
MOST_REFEREED_PARAMETERS = 200_000_000
LONGEST_REFEREED_SECONDS = {"cpu": 20.0, "cuda": 1.0, "mps": 1.0}
# Of two correct results one is always farther from fp64 than the other.
AS_CLOSE = 2.0
# Without a judge: so far beyond a limit that rounding does not explain it.
FAR_BEYOND = 4.0
# Small gradients are zero in fp16 without it. GradScaler starts higher, where they may overflow.
LOSS_SCALE = {"fp16": 1024.0}


# Relative to eager, by task and arithmetic. Correct code seldom passes them. Against fp64, eager
# torchvision models from random weights were off (batch 8, 64 and 224 px):
#   fp32: loss 2e-6; gradients 3e-2 (resnet101 5e-2); outputs in training, where batch norm
#   magnifies what rounding began, 5e-5 (resnet101 3e-4); outputs in eval mode 5e-5;
#   bf16: loss 1e-2; gradients 0.4 (resnet18) to 1.4 (resnet101), since a rounded activation falls
#   on the other side of a ReLU; outputs in training 0.03 to 0.5, in eval mode 0.005 to 0.2.
# fp16 and TF32 have 3 bits more than bf16: outputs are 8 times nearer, gradients about 3 times.
LIMITS: dict[tuple[str, str], Differences] = {
    ("train", "fp32"): {"loss": 1e-4, "gradients": 0.05, "outputs": 1e-3},
    ("train", "tf32"): {"loss": 2e-2, "gradients": 0.2, "outputs": 3e-2},
    ("train", "fp16"): {"loss": 2e-2, "gradients": 0.2, "outputs": 3e-2},
    ("train", "bf16"): {"loss": 2e-2, "gradients": 0.5, "outputs": 0.2},
    ("infer", "fp32"): {"gradients": 0.05, "outputs": 1e-4},
    ("infer", "tf32"): {"gradients": 0.2, "outputs": 1e-2},
    ("infer", "fp16"): {"gradients": 0.2, "outputs": 1e-2},
    ("infer", "bf16"): {"gradients": 0.5, "outputs": 5e-2},
}
FIELDS = {
    "loss": "loss_difference",
    "gradients": "gradient_difference",
    "outputs": "output_difference",
}


class NotChecked(Exception):
    """Nothing can be said; the text is the reason."""


class NoReferee(Exception):
    """The model in fp64 would cost too much; the text says what."""


def check(
    spec: RunSpec,
    device: torch.device,
    original: Any,
    variant: Any,
    criterion: Criterion,
    batches: Iterable[Any],
) -> Parity | None:
    """Parity of `variant`, which was made from `original`; None for eager, the reference.

    Raises nothing, since the times stand. After training, `original` is left in its initial state.
    """
    if spec.variant.execution == "eager":
        return None
    try:
        return _Comparison(spec, device, original, variant, criterion).parity(batches)
    except NotChecked as reason:
        return Parity(verdict="not checked", text=f"{reason}.")
    except Exception as error:  # whatever a model or a backend raises when it is called again
        return Parity(verdict="not checked", text=f"parity itself failed ({_gist(error)}).")


class _Comparison:
    """One variant against eager and, where they disagree, both against fp64."""

    def __init__(
        self,
        spec: RunSpec,
        device: torch.device,
        original: Any,
        variant: Any,
        criterion: Criterion,
    ) -> None:
        self.spec, self.device, self.criterion = spec, device, criterion
        self.original, self.variant = original, variant
        self.limits = LIMITS[spec.workload.task, _arithmetic(spec, device)]
        self.initial = self._initial_state() if spec.workload.task == "train" else None

    def _initial_state(self) -> dict[str, Tensor]:
        """Made anew, so that nothing had to be kept in memory during the timing."""
        torch.manual_seed(self.spec.measurement.seed)
        try:
            built = models.build(self.spec.workload, self.spec.measurement.weights)
            self.original.load_state_dict(built.module.state_dict())
        except Exception as error:  # a user's build_model may raise anything
            raise NotChecked(f"the model could not be built again ({_gist(error)})") from error
        return built.module.state_dict()

    def parity(self, batches: Iterable[Any]) -> Parity:
        """The verdict on some of these batches. Raises NotChecked."""
        compared: list[tuple[Any, Differences]] = []
        few = _few(batches, self.spec)
        began = time.perf_counter()
        for batch in few:
            compared.append((batch, self._compared(batch)))
            if time.perf_counter() - began > LONGEST_SECONDS:
                break
        seconds_a_pass = (time.perf_counter() - began) / len(compared) / 2
        found = summary([apart for _, apart in compared])
        on = "one batch" if len(compared) == 1 else f"{len(compared)} batches"
        text = f"on {on} it differs from eager by {self._in_words(found)}"
        known = {FIELDS[what]: value for what, value in found.items() if math.isfinite(value)}
        if self._excess(found) <= 1:
            return Parity(verdict="same", text=f"{text}.", **known)
        self._must_agree_with_itself(compared[0][0])
        # The worst batch first: the time may not suffice for all.
        compared.sort(key=lambda one: self._excess(one[1]), reverse=True)
        try:
            self._must_be_affordable(seconds_a_pass)
            mine, eagers = self._distances_from_fp64([batch for batch, _ in compared])
        except Exception as error:  # a model may refuse fp64 in any way, or memory run out
            why = str(error) if isinstance(error, NoReferee) else _gist(error)
            text = f"{text}, and no run in fp64 could judge ({why})"
            if self._excess(found) < FAR_BEYOND:
                raise NotChecked(text) from error
        else:
            beyond = [what for what, value in found.items() if value > self.limits[what]]
            text = f"{text}; from fp64 " + ", ".join(
                f"it differs by {mine[what]:.2g} in the {what}, eager by {eagers[what]:.2g}"
                for what in beyond
            )
            if all(self._is_as_close(what, mine[what], eagers[what]) for what in beyond):
                return Parity(verdict="closer to fp64 than eager", text=f"{text}.", **known)
        return Parity(verdict="differs", text=f"{text}; {_way_out(self.spec)}.", **known)

    def _compared(self, batch: Any) -> Differences:
        mine, right = self._of_variant(batch), self._of_eager(batch)
        if not right["outputs"]:
            raise NotChecked("what eager returns holds no tensor")
        if not any(output.isfinite().any() for output in right["outputs"]):
            raise NotChecked("what eager returns holds no finite number")
        return differences(mine, right)

    def _of_variant(self, batch: Any) -> Result:
        """Under a stance that forbids to compile: neither counters nor minutes may be spent."""
        compiles = self.spec.variant.execution in COMPILES
        try:
            with torch.compiler.set_stance("fail_on_recompile") if compiles else nullcontext():
                return self._pass(self.variant, batch, self.spec)
        except RuntimeError as error:
            if "fail_on_recompile" not in str(error):
                raise
            raise NotChecked("the variant would have to compile again to be checked") from error

    def _of_eager(self, batch: Any) -> Result:
        return self._pass(self.original, batch, self.spec.changed(variant=Variant()))

    def _pass(self, callee: Any, batch: Any, spec: RunSpec) -> Result:
        parameters = models.parameters_of(self.original)
        if self.initial is not None:
            self.original.load_state_dict(self.initial)
            for parameter in parameters:
                parameter.grad = None  # as each step of the training begins
        # A model may write into its input; the next pass must find what this one found.
        return _pass(callee, parameters, _cloned(batch), spec, self.device, self.criterion)

    def _must_agree_with_itself(self, batch: Any) -> None:
        again = differences(self._of_eager(batch), self._of_eager(batch))
        if self._excess(again) > 0.5:
            raise NotChecked(
                f"on the same batch eager differs from itself by {self._in_words(again)}: the "
                "model draws random numbers, as dropout does, and the variant draws others"
            )

    def _must_be_affordable(self, seconds: float) -> None:
        count = sum(parameter.numel() for parameter in models.parameters_of(self.original))
        if count > MOST_REFEREED_PARAMETERS:
            raise NoReferee(
                f"{count / 1e6:.0f} million parameters are more than "
                f"{MOST_REFEREED_PARAMETERS / 1e6:g} million"
            )
        longest = LONGEST_REFEREED_SECONDS[self.device.type]
        if seconds > longest:
            raise NoReferee(f"{seconds:.0f} s for one batch are more than {longest:g} s")

    def _distances_from_fp64(self, batches: Sequence[Any]) -> tuple[Differences, Differences]:
        """How far the variant and eager are from the model in fp64."""
        device = torch.device("cpu") if self.device.type == "mps" else self.device  # has no fp64
        spec = self.spec.changed(workload=self.spec.workload.changed(precision="fp32"))
        exact = self.original
        if isinstance(exact, torch.nn.Module):
            if self.initial is not None:
                exact.load_state_dict(self.initial)
            exact = copy.deepcopy(exact).to(device).double()
        parameters = models.parameters_of(exact)
        mine, eagers = [], []
        began = time.perf_counter()
        for batch in batches:
            wide = _in_fp64(batch, device)
            right = _pass(exact, parameters, wide, spec, device, self.criterion)
            mine.append(differences(self._of_variant(batch), right))
            eagers.append(differences(self._of_eager(batch), right))
            if time.perf_counter() - began > LONGEST_SECONDS:
                break
        return summary(mine), summary(eagers)

    def _excess(self, found: Differences) -> float:
        """The worst difference as a multiple of its limit."""
        return max(value / self.limits[what] for what, value in found.items())

    def _is_as_close(self, what: str, mine: float, eagers: float) -> bool:
        return mine <= (AS_CLOSE * eagers if math.isfinite(eagers) else self.limits[what])

    def _in_words(self, found: Differences) -> str:
        return ", ".join(
            f"{value:.2g} in the {what} (limit {self.limits[what]:g})"
            if math.isfinite(value)
            else f"inf in the {what} (NaN, inf or another shape in one of the two)"
            for what, value in found.items()
        )


def _few(batches: Iterable[Any], spec: RunSpec) -> list[Any]:
    """In inference the first; in training some of the size that an epoch begins with.

    The ragged one is not among them, and the only one of pipeline resident is there once.
    """
    if spec.workload.task == "infer":
        return list(islice(batches, 1))
    few: list[Any] = []
    for batch in islice(batches, MOST_BATCHES):
        if all(batch is not one and len(batch[1]) == len(one[1]) for one in few):
            few.append(batch)
    return few


def _pass(
    callee: Any,
    parameters: Sequence[Tensor],
    batch: Any,
    spec: RunSpec,
    device: torch.device,
    criterion: Criterion,
) -> Result:
    """One batch through the callee: copies, for the next replay of a CUDA graph writes over it."""
    work = spec.workload
    result: Result = {"outputs": []}

    def noting(*inputs: Any) -> Any:
        returned = callee(*inputs)
        result["outputs"] += tensors_of(returned)
        return returned

    if work.task == "infer":
        with grad_mode_of(spec):
            returned = call_of(noting, spec, device, parameters)(batch[0])
            if work.backward:
                trained = [parameter for parameter in parameters if parameter.requires_grad]
                leaves = batch[0] if work.is_function else trained
                result["gradients"] = _zeros_for_none(returned, leaves)
            return _copied(result)
    if records_cuda_graphs(spec.variant, device.type):
        torch.compiler.cudagraph_mark_step_begin()
    inputs, labels = placement(work, device)(*batch)
    loss = loss_function(noting, criterion, work, device)(inputs, labels)
    scale = LOSS_SCALE.get(work.precision, 1.0)
    leaves = [parameter for parameter in parameters if parameter.requires_grad]
    gradients = torch.autograd.grad(loss * scale, leaves, allow_unused=True)
    result["loss"] = [loss]
    result["gradients"] = [one / scale for one in _zeros_for_none(gradients, leaves)]
    return _copied(result)


def _zeros_for_none(gradients: Sequence[Tensor | None], leaves: Sequence[Tensor]) -> list[Tensor]:
    return [
        torch.zeros_like(leaf) if gradient is None else gradient
        for gradient, leaf in zip(gradients, leaves, strict=True)
    ]


def _copied(result: Result) -> Result:
    return {
        what: [tensor.detach().clone() for tensor in result[what]]
        for what in FIELDS
        if what in result
    }


def _cloned(value: Any) -> Any:
    """A batch's copy, of the same kind: Dynamo tells tensors of inference_mode from others."""
    if isinstance(value, list | tuple):
        return tuple(_cloned(part) for part in value)
    if not torch.is_tensor(value):
        return value
    with torch.inference_mode(value.is_inference()):
        copied = value.detach().clone()
        return copied.requires_grad_() if value.requires_grad else copied


def _in_fp64(value: Any, device: torch.device) -> Any:
    """A batch on the device, its floating numbers as fp64."""
    if isinstance(value, list | tuple):
        return tuple(_in_fp64(part, device) for part in value)
    if not torch.is_tensor(value):
        return value
    there = value.detach().to(device)
    if there.is_floating_point():
        there = there.double().requires_grad_(value.requires_grad)
    return there


def _arithmetic(spec: RunSpec, device: torch.device) -> str:
    """The precision of the spec, or what CUDA makes of fp32: by default TF32 in convolutions."""
    if device.type == "cuda" and spec.workload.precision == "fp32" and spec.workload.tf32 != "off":
        return "tf32"
    return spec.workload.precision


def _way_out(spec: RunSpec) -> str:
    tries = []
    if spec.workload.precision != "fp32":
        tries.append("precision fp32")
    if spec.variant.mode not in (None, "default"):
        tries.append("mode default")
    elif spec.variant.options:
        tries.append("no options")
    if spec.variant.execution != "compile":
        tries.append("execution compile")
    elif spec.variant.backend == "inductor":
        tries.append("backend aot_eager")
    else:
        tries.append("backend inductor")
    return f"try {', '.join(tries)}; report what stays wrong with this run's command"


def _gist(error: Exception) -> str:
    lines = f"{type(error).__name__}: {error}".splitlines()
    return lines[0].rstrip(".: ")[:250]
