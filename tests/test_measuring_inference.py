"""A measuring process of task infer: what its blocks hold, and under which grad mode it calls."""

from __future__ import annotations

from itertools import repeat
from pathlib import Path

import pytest
import torch

from bench_core.events import Aftermath, Epoch, Failed, Prepared
from bench_core.measuring.inference import time_block
from bench_core.spec import Measurement, RunSpec, SpecError, Variant, Workload
from tests.measuring_child import MeasuringChild, write_model

CPU = torch.device("cpu")
EAGER = Variant()
FAST_COMPILE = Variant(execution="compile", backend="aot_eager")


def spec(variant: Variant = EAGER, iterations: int = 30, **workload: object) -> RunSpec:
    # One thread: two of them wait for each other on a machine that does other work.
    small = {"model": "small_cnn", "image_size": 32, "batch_size": 4, "threads": 1}
    fields = {"task": "infer", **small}
    return RunSpec(
        workload=Workload(**{**fields, **workload}),
        variant=variant,
        measurement=Measurement(iterations=iterations),
    )


def measured(run: RunSpec, data: Path) -> MeasuringChild:
    """A whole run: `go` until all iterations are there, then `stop`."""
    with MeasuringChild(run, data) as child:
        child.read_until(Prepared)
        done = 0
        while done < run.measurement.iterations:
            child.say("go")
            done += len(child.read_until(Epoch).step_seconds)
        child.say("stop")
        assert child.read_to_end() == 0, child.log_text()
    return child


def test_every_latency_is_told_and_there_are_as_many_as_asked_for(tmp_path: Path) -> None:
    child = measured(spec(iterations=2100), tmp_path)
    blocks = child.said(Epoch)
    assert sum(len(block.step_seconds) for block in blocks) == 2100
    assert [block.epoch for block in blocks] == list(range(1, len(blocks) + 1))
    assert len(blocks) > 1, "a block ends after half a second or 2,000 iterations"
    for block in blocks:
        assert sum(block.step_seconds) <= block.wall_seconds
        assert block.samples == 4 * len(block.step_seconds)
        assert block.loss is None and block.device_seconds == ()
    [after] = child.said(Aftermath)
    assert after.shares is not None and after.shares["convolution"] > 0


def test_a_compile_window_names_its_iteration(tmp_path: Path) -> None:
    """The model compiles again when its input doubles in the fifth call."""
    write_model(
        tmp_path,
        "grows.py",
        """
        import torch

        class Grows(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.nn.Parameter(torch.ones(()))
                self.calls = 0

            def forward(self, x):
                return x * self.scale + self.calls // 4

            def __call__(self, x):
                self.calls += 1
                return super().__call__(x)

        def build_model():
            return Grows()

        calls = 0

        def make_batch(batch_size):
            global calls
            calls += 1
            return torch.ones(batch_size, 8 if calls < 6 else 16), torch.zeros(batch_size)
        """,
    )
    run = spec(FAST_COMPILE, model="file:grows.py", pipeline="on_the_fly", iterations=12)
    blocks = measured(run, tmp_path).said(Epoch)
    windows, before = [], 0
    for block in blocks:
        windows += [before + window.iteration for window in block.compile_windows]
        before += len(block.step_seconds)
    assert windows[0] == 0
    assert len(windows) > 1 and all(number > 0 for number in windows[1:])


@pytest.mark.parametrize(
    ("variant", "workload", "enabled", "inference"),
    [
        (EAGER, {}, False, False),
        (EAGER, {"grad_mode": "inference_mode"}, False, True),
        (FAST_COMPILE, {"grad_mode": "inference_mode", "compile_in_grad_mode": True}, False, True),
        (FAST_COMPILE, {"backward": True}, True, False),
    ],
)
def test_the_grad_mode_is_the_one_asked_for(
    tmp_path: Path, variant: Variant, workload: dict, enabled: bool, inference: bool
) -> None:
    write_model(
        tmp_path,
        "tells.py",
        f"""
        import torch

        class Tells(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(8))

            def forward(self, x):
                return x * self.weight

            def __call__(self, x):
                assert torch.is_grad_enabled() is {enabled}
                assert torch.is_inference_mode_enabled() is {inference}
                assert not self.training
                return super().__call__(x)

        def build_model():
            return Tells()

        def make_batch(batch_size):
            return torch.ones(batch_size, 8), torch.zeros(batch_size)
        """,
    )
    child = measured(spec(variant, model="file:tells.py", iterations=5, **workload), tmp_path)
    assert not child.said(Failed)


def test_gradients_are_handed_back_and_not_added_up(tmp_path: Path) -> None:
    write_model(
        tmp_path,
        "watches.py",
        """
        import torch

        class Watches(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(8))
                self.backwards = 0
                self.weight.register_hook(self.count)

            def count(self, gradient):
                self.backwards += 1

            def __call__(self, x):
                assert self.weight.grad is None
                self.calls = getattr(self, "calls", 0) + 1
                assert self.backwards == self.calls - 1
                return x * self.weight

        def build_model():
            return Watches()

        def make_batch(batch_size):
            return torch.ones(batch_size, 8), torch.zeros(batch_size)
        """,
    )
    run = spec(model="file:watches.py", backward=True, iterations=5)
    assert not measured(run, tmp_path).said(Failed)


def test_batches_that_come_through_the_loader_begin_anew(tmp_path: Path) -> None:
    run = spec(pipeline="cached", samples=12, iterations=10)
    child = measured(run, tmp_path)
    [prepared] = child.said(Prepared)
    assert prepared.steps_per_epoch == 3
    assert all(block.data_wait_seconds > 0 for block in child.said(Epoch))
    [after] = child.said(Aftermath)
    assert after.loader_only_seconds is not None


def test_a_model_that_fails_in_a_call_is_told_from_a_fault_of_ours(tmp_path: Path) -> None:
    write_model(
        tmp_path,
        "raises.py",
        """
        import torch

        class Raises(torch.nn.Module):
            def forward(self, x):
                raise ZeroDivisionError("no such luck")

        def build_model():
            return Raises()

        def make_batch(batch_size):
            return torch.ones(batch_size, 8), torch.zeros(batch_size)
        """,
    )
    with MeasuringChild(spec(model="file:raises.py"), tmp_path) as child:
        child.read_until(Prepared)
        child.say("go")
        failed = child.read_until(Failed)
    assert failed.failure == "model error"
    assert "ZeroDivisionError in the first block of iterations: no such luck" in failed.reason


def test_bf16_and_channels_last_run(tmp_path: Path) -> None:
    run = spec(precision="bf16", memory_layout="channels_last", iterations=5)
    assert not measured(run, tmp_path).said(Failed)


def test_a_block_ends_with_its_time_or_with_its_iterations() -> None:
    few = time_block(lambda _: None, repeat(None), CPU, iterations=7)
    assert len(few.step_seconds) == len(few.ended_ns) == 7
    none = time_block(lambda _: None, repeat(None), CPU, iterations=7, seconds=0)
    assert len(none.step_seconds) == 1, "one at least, however long it takes"


def test_a_moment_belongs_to_the_iteration_that_ends_after_it() -> None:
    block = time_block(lambda _: None, repeat(None), CPU, iterations=3)
    assert block.iteration_at(block.began_ns) == 0
    assert block.iteration_at(block.ended_ns[1]) == 1
    assert block.iteration_at(block.ended_ns[1] + 1) == 2
    assert block.iteration_at(block.ended_ns[2] + 10**9) == 2


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"optimizer": "sgd"}, "optimizer is only read by task train, got 'sgd'"),
        ({"evaluate": "variant"}, "evaluate is only read by task train"),
        ({"drop_last": False}, "drop_last is only read by task train"),
        ({"backward": True, "grad_mode": "no_grad"}, "backward needs grad_mode enabled"),
        ({"grad_mode": "enabled"}, "backward needs grad_mode enabled"),
        ({"task": "train", "grad_mode": "no_grad"}, "grad_mode is only read by task infer"),
        ({"task": "train", "model": "function:sin_cos"}, "has no parameters to train"),
        ({"model": "function:sin_cos", "precision": "bf16"}, "measured with precision fp32"),
    ],
)
def test_what_a_task_does_not_read_is_refused(fields: dict, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        spec(**fields)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"workload": {"task": "train"}}, "execution onednn_graph is for inference"),
        ({"device": "cuda:0"}, "onednn_graph runs on the CPU only"),
        ({"workload": {"task": "infer", "model": "function:sin_cos"}}, "eager or compile"),
        ({"workload": {"task": "infer", "backward": True}}, "eager or compile"),
    ],
)
def test_an_execution_that_cannot_do_it_is_refused(fields: dict, sentence: str) -> None:
    workload = {"model": "small_cnn", **fields.get("workload", {"task": "infer"})}
    with pytest.raises(SpecError, match=sentence):
        RunSpec(
            workload=Workload(**workload),
            variant=Variant(execution="onednn_graph"),
            device=fields.get("device", "cpu"),
        )


def test_inference_keeps_its_input_on_the_device_unless_told_otherwise() -> None:
    assert spec().workload.pipeline == "resident"
    assert spec().workload.samples == 4
    assert spec().workload.grad_mode == "no_grad"
    assert spec(pipeline="cached").workload.samples == 4 * 32
    assert spec(backward=True).workload.grad_mode == "enabled"
    with pytest.raises(SpecError, match="cache must be cold, got 'warm'"):
        Variant(execution="export_aot", cache="warm")
    with pytest.raises(SpecError, match="only backend inductor freezes"):
        Variant(execution="compile_frozen", backend="aot_eager")
