"""The model that is captured, as a measuring process would run it: one step or call, any callee."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from bench_core.measuring import models
from bench_core.measuring.event_stream import EventStream
from bench_core.measuring.inference import call_of, grad_mode_of
from bench_core.measuring.run import Run
from bench_core.measuring.training import OPTIMIZERS, step_of
from bench_core.measuring.variants import AUTOCAST
from bench_core.spec import RunSpec, Variant


class Subject:
    """Model, loss and one batch, prepared as for an eager run of the workload."""

    def __init__(self, spec: RunSpec, stream: EventStream) -> None:
        self.spec = spec
        self._run = Run(spec.changed(variant=Variant()), stream)
        self.device = self._run.device
        self.model = self._run.original
        self.parameters = models.parameters_of(self.model)
        stream.emit(self._run.prepared)
        self.batch: tuple[Any, Any] = next(iter(self._run.data.training))

    @property
    def training(self) -> bool:
        return self.spec.workload.task == "train"

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the model is called with."""
        inputs = self.batch[0]
        return tuple(inputs) if self.spec.workload.is_function else (inputs,)

    def compiled_with(self, backend: Any) -> Any:
        """The model under torch.compile, with the variant's arguments apart from its backend."""
        variant = self.spec.variant
        with self.making():
            return torch.compile(
                self.model, backend=backend, fullgraph=variant.fullgraph, dynamic=variant.dynamic
            )

    def making(self) -> Any:
        """The context in which a variant is made from the model."""
        work = self.spec.workload
        return grad_mode_of(self.spec) if work.compile_in_grad_mode else nullcontext()

    @contextmanager
    def calling(self) -> Iterator[None]:
        """The context in which a model is called: its grad mode, and autocast."""
        dtype = AUTOCAST.get(self.spec.workload.precision)
        casting = torch.autocast(self.device.type, dtype) if dtype else nullcontext()
        with grad_mode_of(self.spec), casting:
            yield

    def step_with(self, callee: Any) -> Callable[[], Any]:
        """One training step, or one call, through the callee."""
        if not self.training:
            call = call_of(callee, self.spec, self.device, self.parameters)

            def called() -> Any:
                with grad_mode_of(self.spec):
                    return call(self.batch[0])

            return called
        work = self.spec.workload
        optimizer = OPTIMIZERS[work.optimizer](self.parameters, lr=work.learning_rate)
        step = step_of(callee, optimizer, self._run.criterion, self.spec, self.device)
        return lambda: step(*self.batch)
