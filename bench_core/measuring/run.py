"""One run in this process: prepare, one epoch for each `go`, what is read when the timing is over.

The only place that knows the order of things; each thing has its own file.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from itertools import islice
from typing import Any

import torch

from bench_core.events import (
    Activity,
    Aftermath,
    CompileWindow,
    Epoch,
    Finding,
    Parity,
    Prepared,
    Primed,
)
from bench_core.measuring import (
    datasets,
    effective,
    environment,
    gpu_state,
    machine_load,
    models,
    parity,
    profile,
)
from bench_core.measuring.compile_activity import CompilerWatch
from bench_core.measuring.event_stream import EventStream
from bench_core.measuring.failures import DeviceMissing, LossIsNan
from bench_core.measuring.graph_breaks import graph_breaks
from bench_core.measuring.inference import call_of, endless, grad_mode_of, time_block
from bench_core.measuring.training import OPTIMIZERS, evaluate, placement, step_of, train_epoch
from bench_core.measuring.variants import EXECUTIONS, MADE_AHEAD
from bench_core.spec import RunSpec

PROFILED_STEPS = 3
LONGEST_LOADER_SECONDS = 60.0


class Run:
    """Prepared on construction, which raises whatever stands in the way."""

    def __init__(self, spec: RunSpec, stream: EventStream) -> None:
        began = time.perf_counter()
        self.spec, self.stream = spec, stream
        self.epochs = 0
        self.notes: list[str] = []
        self.watch: CompilerWatch | None = None
        self.said = Activity()
        stream.enter("environment")
        self.device = _device(spec.device)
        _set_flags(spec)
        stream.emit(environment.read(self.device))
        # TorchScript compiles without Dynamo, whose import would stand in its peak memory.
        if spec.variant.cache:
            self.watch = CompilerWatch(stream)
            self.notes = self.watch.notes
        stream.enter("model")
        # Before the model is built: both arms must start from the same weights.
        torch.manual_seed(spec.measurement.seed)
        built = models.build(spec.workload, spec.measurement.weights)
        self.original = _placed(built.module, spec, self.device)
        self.criterion = built.loss
        stream.enter("data")
        self.data = datasets.prepare(spec, self.device, built)
        self.inputs = endless(self.data.training)
        self.iterations = 0
        ahead = spec.variant.execution in MADE_AHEAD
        example = self._example_inputs() if ahead else None
        making = time.perf_counter()
        with grad_mode_of(spec) if spec.workload.compile_in_grad_mode else nullcontext():
            self.module, self.findings = EXECUTIONS[spec.variant.execution](
                self.original, spec, example
            )
        execution_seconds = time.perf_counter() - making if ahead else 0.0
        parameters = models.parameters_of(self.original)
        if spec.workload.task == "train":
            optimizer = OPTIMIZERS[spec.workload.optimizer](
                parameters, lr=spec.workload.learning_rate
            )
            self.step = step_of(self.module, optimizer, self.criterion, spec, self.device)
        else:
            call = call_of(self.module, spec, self.device, parameters)
            self.step = lambda inputs, _: call(inputs)
            self.call = call
        self.prepared = Prepared(
            parameters=sum(parameter.numel() for parameter in parameters),
            weights=built.weights,
            model_sha256=built.sha256,
            steps_per_epoch=spec.workload.steps_per_epoch,
            remainder=spec.workload.remainder,
            setup_seconds=time.perf_counter() - began,
            execution_seconds=execution_seconds,
        )

    def answer_words(self) -> None:
        """`go`: an epoch. `stop`: the part after the timing. End of input: nothing more."""
        self.stream.emit(self.prepared)
        while True:
            word = self.stream.read_line().strip()
            if word == b"go" and self.spec.workload.task == "train":
                self._epoch()
            elif word == b"go":
                self._block()
            elif word == b"stop":
                self._after_timing()
                return
            elif word == b"":
                return
            else:
                raise ValueError(f"the worker said {word[:80]!r}; known are go and stop")

    def prime(self) -> None:
        """Compile for every shape of batch in the order of a real run, untimed.

        Two short epochs: a shape that comes back after another one can make the compiler
        generalise, and the timed process must find that graph in the cache too.
        """
        began = time.perf_counter()
        self.stream.enter("priming")
        workload = self.spec.workload
        for _ in range(2):
            if workload.task == "infer":
                with grad_mode_of(self.spec):
                    time_block(self.call, self.inputs, self.device, 1)
                continue
            batches = self._each_shape(self.data.training)
            train_epoch(self.step, batches, self.device, len(batches))
            if self.data.evaluation is not None:
                batches = self._each_shape(self.data.evaluation)
                evaluate(self.module, batches, workload, self.device)
        self.stream.emit(Primed(seconds=time.perf_counter() - began))

    def _each_shape(self, batches: Any) -> list[datasets.Batch]:
        few = list(islice(iter(batches), PROFILED_STEPS))
        cut = self.spec.workload.remainder
        if cut and len(few[0][1]) > cut:
            inputs, labels = few[0]
            few = [batch for batch in few if len(batch[1]) != cut]
            few.append((inputs[:cut].clone(), labels[:cut].clone()))
        return few

    def _begin(self) -> tuple[float, machine_load.CpuUse | None]:
        """The next epoch or block: its time of day, and what the CPUs had done before it."""
        self.epochs += 1
        self.stream.enter("epoch", self.epochs)
        # The collector stays on, as in anybody's training, but starts every epoch with a clean
        # slate, so that what one epoch left behind does not fall into the next one's time.
        gc.collect()
        self._reset_peaks()
        cpu_before = machine_load.cpu_use()
        started_at = time.time()
        if self.watch:
            self.watch.epoch_began_ns = time.perf_counter_ns()
        return started_at, cpu_before

    def _epoch(self) -> None:
        workload, watch = self.spec.workload, self.watch
        started_at, cpu_before = self._begin()
        timed = train_epoch(self.step, self.data.training, self.device, workload.steps_per_epoch)
        cpu_after = machine_load.cpu_use()
        peak_memory, peak_reserved = self._peaks()
        evaluation = self._evaluate()
        finite = math.isfinite(timed.mean_loss)
        span = timed.began_ns, timed.ended_ns
        if watch:
            watch.epoch_began_ns = timed.began_ns
        self.stream.emit(
            Epoch(
                epoch=self.epochs,
                started_at=started_at,
                wall_seconds=(timed.ended_ns - timed.began_ns) / 1e9,
                data_wait_seconds=timed.data_wait_seconds,
                compile_seconds=watch.seconds_between(*span) if watch else 0.0,
                compile_windows=watch.windows_between(*span) if watch else (),
                step_seconds=timed.step_seconds,
                samples=len(timed.step_seconds) * workload.batch_size
                - ((workload.batch_size - workload.remainder) if workload.remainder else 0),
                loss=timed.mean_loss if finite else None,
                peak_memory_bytes=peak_memory,
                peak_reserved_bytes=peak_reserved,
                foreign_cpu_share=machine_load.foreign_cpu_share(cpu_before, cpu_after),
                **evaluation,
            )
        )
        self._tell_activity()
        if not finite:
            raise LossIsNan(
                f"the loss was {timed.mean_loss} in epoch {self.epochs}; take a smaller "
                f"learning_rate than {workload.learning_rate:g} or precision fp32 or bf16"
            )

    def _block(self) -> None:
        """Some iterations of inference, and all that is known of them."""
        watch = self.watch
        started_at, cpu_before = self._begin()
        left = max(1, self.spec.measurement.iterations - self.iterations)
        with grad_mode_of(self.spec):
            block = time_block(self.call, self.inputs, self.device, left)
        cpu_after = machine_load.cpu_use()
        peak_memory, peak_reserved = self._peaks()
        self.iterations += len(block.step_seconds)
        span = block.began_ns, block.ended_ns[-1]
        windows: tuple[CompileWindow, ...] = ()
        if watch:
            watch.epoch_began_ns = block.began_ns
            windows = tuple(
                window.changed(
                    iteration=block.iteration_at(
                        block.began_ns + int((window.offset_seconds + window.seconds) * 1e9)
                    )
                )
                for window in watch.windows_between(*span)
            )
        self.stream.emit(
            Epoch(
                epoch=self.epochs,
                started_at=started_at,
                wall_seconds=(span[1] - span[0]) / 1e9,
                data_wait_seconds=block.data_wait_seconds,
                compile_seconds=watch.seconds_between(*span) if watch else 0.0,
                compile_windows=windows,
                step_seconds=block.step_seconds,
                device_seconds=block.device_seconds,
                samples=len(block.step_seconds) * self.spec.workload.batch_size,
                loss=None,
                peak_memory_bytes=peak_memory,
                peak_reserved_bytes=peak_reserved,
                foreign_cpu_share=machine_load.foreign_cpu_share(cpu_before, cpu_after),
            )
        )
        if watch:
            watch.settle(training=True)
        self._tell_activity()

    def _example_inputs(self) -> Any:
        """One batch's inputs on the device, for what looks at them before the first call."""
        inputs, labels = next(iter(self.data.training))
        if self.spec.workload.pipeline == "resident":
            return inputs
        return placement(self.spec.workload, self.device)(inputs, labels)[0]

    def _evaluate(self) -> dict[str, float]:
        watch = self.watch
        if watch:
            watch.settle(training=True)
        if self.data.evaluation is None:
            return {}
        began = time.perf_counter_ns()
        seconds, accuracy = evaluate(
            self.module, self.data.evaluation, self.spec.workload, self.device
        )
        compiled = 0.0
        if watch:
            compiled = watch.seconds_between(began, time.perf_counter_ns())
            watch.settle(training=False)
        return {
            "evaluation_seconds": seconds,
            "evaluation_compile_seconds": compiled,
            "accuracy": accuracy,
        }

    def _tell_activity(self) -> None:
        if self.watch and self.watch.activity() != self.said:
            self.said = self.watch.activity()
            self.stream.emit(self.said)

    def last_words(self) -> None:
        """After SIGTERM: what the compiler did so far, an unfinished epoch's part included."""
        if self.watch:
            self.watch.settle(training=self.stream.phase == "epoch")
            self._tell_activity()

    def compiling_when_it_failed(self, error: BaseException) -> str | None:
        """The trigger of the compile window that this exception ended."""
        return self.watch.ended_by(error) if self.watch else None

    def _after_timing(self) -> None:
        self.stream.enter("after timing")
        # First: clocks and throttle reasons are those of the work that was timed.
        gpu = gpu_state.read(self.device) if self.device.type == "cuda" else None
        # Before anything else calls the model: TorchScript tells of its last call only.
        found = self._extra("what was asked for and what happened", self._effective)
        breaks = self._extra("where graphs broke", graph_breaks) if self.watch else ()
        profiled = self._extra("where the step's time goes", self._profiled)
        aftermath = Aftermath(
            gpu=gpu,
            loader_only_seconds=self._extra("the loader alone", self._loader_only_seconds),
            shares=profiled.shares if profiled else None,
            profiled_step_seconds=profiled.step_seconds if profiled else None,
            device_busy_seconds=profiled.device_busy_seconds if profiled else None,
            breaks=breaks or (),
            notes=tuple(self.notes),
            effective=found,
        )
        if self.spec.variant.execution == "eager":  # what the others are held against
            self.stream.emit(aftermath)
            return
        # The last, for it leaves the model as it was at the start. Told as not checked before: it
        # takes memory and time enough for the process to be ended in its midst.
        unchecked = Parity(verdict="not checked", text="the check did not come to its end.")
        self.stream.emit(aftermath.changed(parity=unchecked))
        self.stream.emit(aftermath.changed(parity=self._parity()))

    def _parity(self) -> Parity | None:
        batches = self.data.training
        if self.spec.workload.task == "infer":
            # As the timed ones were made: Dynamo tells tensors of inference_mode from others.
            with grad_mode_of(self.spec):
                batches = [(next(self.inputs), None)]
        return parity.check(
            self.spec, self.device, self.original, self.module, self.criterion, batches
        )

    def _effective(self) -> tuple[Finding, ...]:
        windows = self.watch.windows if self.watch else []
        ran = effective.Ran(
            spec=self.spec,
            environment=environment.read(self.device),
            activity=self.watch.activity() if self.watch else Activity(),
            calls=self.iterations,
            recorded_cuda_graphs=sum(trigger == "CUDAGRAPH_RECORDING" for _, _, trigger in windows),
        )
        read = [self._extra(what, partial(check, ran)) for what, check in effective.CHECKS.items()]
        return (*filter(None, read), *self.findings)

    def _extra(self, what: str, read: Callable[[], Any]) -> Any:
        """The epochs have been told and stand, whatever happens to an explanation of them."""
        try:
            return read()
        except Exception as error:  # a profiler, a loader and torch's own counters raise anything
            self.notes.append(f"{what} was not read ({type(error).__name__}: {error})"[:300])
            return None

    def _profiled(self) -> profile.Profiled | None:
        if self.spec.variant.execution != "eager" or self.device.type == "mps":
            return None
        batches: Iterable[Any] = islice(self.data.training, PROFILED_STEPS)
        if self.spec.workload.task == "infer":
            batches = ((inputs, None) for inputs in islice(self.inputs, PROFILED_STEPS))
        with grad_mode_of(self.spec):
            return profile.profiled(self.step, batches, self.device)

    def _loader_only_seconds(self) -> float | None:
        """One epoch of the loader and nothing else: no step can be faster than that."""
        if self.spec.workload.pipeline == "resident":
            return None
        steps = self.spec.workload.steps_per_epoch
        began = time.perf_counter()
        for loaded, _ in enumerate(self.data.training, 1):
            seconds = time.perf_counter() - began
            if seconds > LONGEST_LOADER_SECONDS and loaded < steps:
                self.notes.append(
                    f"the loader alone was timed on {loaded} of {steps} batches and scaled up"
                )
                return seconds * steps / loaded
        return time.perf_counter() - began

    def _reset_peaks(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            machine_load.reset_peak_memory()

    def _peaks(self) -> tuple[int | None, int | None]:
        if self.device.type == "cuda":
            return (
                torch.cuda.max_memory_allocated(self.device),
                torch.cuda.max_memory_reserved(self.device),
            )
        return machine_load.peak_memory_bytes(), None


def _placed(callee: Any, spec: RunSpec, device: torch.device) -> Any:
    """The model on the device, in its layout and mode; a function has none of them."""
    if not isinstance(callee, torch.nn.Module):
        return callee
    layout = {"channels_last": torch.channels_last}.get(
        spec.workload.memory_layout, torch.contiguous_format
    )
    return callee.to(device, memory_format=layout).train(spec.workload.task == "train")


def _device(name: str) -> torch.device:
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        seen = torch.cuda.device_count()
        raise DeviceMissing(
            f"{name} was asked for, and torch {torch.__version__} sees "
            f"{f'{seen} CUDA devices' if seen else 'no CUDA device'}; choose device "
            f"{f'cuda:0 to cuda:{seen - 1}' if seen else 'cpu'}, or check the driver "
            "(nvidia-smi) and that this torch is a CUDA build"
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise DeviceMissing(
            f"mps was asked for, and torch {torch.__version__} has none here; choose device cpu"
        )
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def _set_flags(spec: RunSpec) -> None:
    if spec.workload.threads:
        torch.set_num_threads(spec.workload.threads)
    # Only this family of flags: reading it after the newer one was written raises, in Inductor too.
    if spec.workload.tf32 != "default":
        wanted = spec.workload.tf32 == "on"
        torch.backends.cuda.matmul.allow_tf32 = wanted
        torch.backends.cudnn.allow_tf32 = wanted
