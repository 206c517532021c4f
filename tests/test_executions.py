"""Each way to execute a model: that it does what it is called, and says so where it did not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from bench_core.events import Activity, Aftermath, Epoch, Finding, Prepared  # noqa: E402
from bench_core.measuring import models  # noqa: E402
from bench_core.measuring.failures import CompileRefused  # noqa: E402
from bench_core.measuring.inference import call_of  # noqa: E402
from bench_core.measuring.variants import EXECUTIONS  # noqa: E402
from bench_core.spec import (  # noqa: E402
    EXECUTION_WORDS,
    Execution,
    Measurement,
    RunSpec,
    SpecError,
    Variant,
    Workload,
)
from tests.measuring_child import (  # noqa: E402
    CANONICAL,
    WARM_COMPILE,
    MeasuringChild,
    cache_environment,
    write_model,
)

CPU = torch.device("cpu")
FREEZING = {"TORCHINDUCTOR_FREEZING": "1"}  # what the worker sets
THROUGH_DYNAMO = {"execution": "compile", "backend": "eager"}  # no wait for a C++ compiler

BRANCHING = """
from torch import nn

class Branching(nn.Linear):
    def forward(self, images):
        logits = super().forward(images.flatten(1))
        if logits.sum() > 0:
            return logits * 2
        return logits

def build_model():
    return Branching(3 * 32 * 32, 10)
"""
HIDDEN = """
import torch

class Hidden(torch.nn.Linear):
    @torch.compiler.disable
    def forward(self, images):
        return super().forward(images.flatten(1))

def build_model():
    return Hidden(3 * 32 * 32, 10)
"""
COUNTING = """
from torch import nn

class Counting(nn.Linear):
    calls = 0

    def forward(self, images):
        self.calls += 1
        return super().forward(images.flatten(1)) * self.calls

def build_model():
    return Counting(3 * 32 * 32, 10)
"""
SWITCHING = """
import torch
from bench_core.measuring.models import SmallCNN

class Switching(SmallCNN):
    def forward(self, images):
        torch.jit.enable_onednn_fusion(False)
        return super().forward(images)

def build_model():
    return Switching()
"""


def spec(variant: dict[str, Any], iterations: int = 6, **workload: Any) -> RunSpec:
    # One thread: two of them wait for each other on a machine that does other work.
    small = {"model": "small_cnn", "image_size": 32, "batch_size": 4, "threads": 1}
    return RunSpec(
        workload=Workload(**{"task": "infer", **small, **workload}),
        variant=Variant(**variant),
        measurement=Measurement(iterations=iterations),
    )


def measured(run: RunSpec, data: Path, **environment: str) -> MeasuringChild:
    """A whole run: `go` until it is done, then `stop`."""
    with MeasuringChild(run, data, **environment) as child:
        child.read_until(Prepared)
        done = 0
        while done < run.is_done_after:
            child.say("go")
            epoch = child.read_until(Epoch)
            done += 1 if run.workload.task == "train" else len(epoch.step_seconds)
        child.say("stop")
        assert child.read_to_end() == 0, child.log_text()
    return child


def findings(child: MeasuringChild) -> dict[str, Finding]:
    """By what was asked for."""
    after = child.said(Aftermath)[-1]
    assert after.effective is not None, after.notes
    return {finding.asked: finding for finding in after.effective}


@pytest.fixture
def images() -> Any:
    return torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def fusion_off_again() -> Iterator[None]:
    yield
    torch.jit.enable_onednn_fusion(False)


def test_every_execution_has_its_words_and_the_old_ones_say_that_they_are_deprecated() -> None:
    assert set(EXECUTION_WORDS) == set(EXECUTIONS)
    deprecated = {name for name, words in EXECUTION_WORDS.items() if "deprecated" in words}
    assert deprecated == {"jit_trace_frozen", "onednn_graph"}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_onednn_graph_fuses_and_counts_its_groups(tmp_path: Path, precision: str) -> None:
    run = spec({"execution": "onednn_graph"}, precision=precision)
    child = measured(run, tmp_path)
    found = findings(child)
    assert found["oneDNN Graph"] == Finding(
        asked="oneDNN Graph", got="3 fused groups", met=True
    )  # two convolutions and the head
    assert found["frozen weights"].met
    assert child.said(Prepared)[0].execution_seconds > 0
    assert ("bf16" in found) == (precision == "bf16")


def test_onednn_graph_says_that_nothing_was_fused(tmp_path: Path) -> None:
    write_model(tmp_path, "switching.py", SWITCHING)
    run = spec({"execution": "onednn_graph"}, model="file:switching.py")
    found = findings(measured(run, tmp_path))["oneDNN Graph"]
    assert (found.got, found.met) == ("no group was fused", False)


def test_compile_frozen_freezes(warm_caches: Path, tmp_path: Path) -> None:
    # Frozen code is never cached; the compiler's headers are.
    environment = cache_environment(warm_caches, WARM_COMPILE) | FREEZING
    child = measured(spec({"execution": "compile_frozen"}), tmp_path, **environment)
    found = findings(child)
    assert found["frozen weights"] == Finding(asked="frozen weights", got="frozen", met=True)
    assert found["compile"].got == "1 graph compiled" and found["compile"].met


def test_compile_frozen_says_that_nothing_was_frozen(tmp_path: Path) -> None:
    write_model(tmp_path, "hidden.py", HIDDEN)
    run = spec({"execution": "compile_frozen"}, model="file:hidden.py")
    found = findings(measured(run, tmp_path, **FREEZING))
    assert not found["frozen weights"].met and not found["compile"].met


def test_compile_frozen_refuses_to_run_unfrozen(images: Any) -> None:
    """This process was started without the variable."""
    run = spec({"execution": "compile_frozen"})
    model = models.SmallCNN().eval()
    with pytest.raises(CompileRefused, match="needs TORCHINDUCTOR_FREEZING=1 .* got None"):
        EXECUTIONS["compile_frozen"](model, run, images)


def test_a_compile_that_compiled_nothing_is_reported(tmp_path: Path) -> None:
    write_model(tmp_path, "hidden.py", HIDDEN)
    run = spec({"execution": "compile"}, model="file:hidden.py")
    child = measured(run, tmp_path)
    assert child.said(Activity)[-1].graphs == 0
    found = findings(child)
    assert found["compile"].got == "nothing compiled: it ran as eager"
    assert not found["compile"].met
    assert "torch.compiler.disable" in found["compile without a graph break"].got


def test_a_compile_that_gave_up_recompiling_is_reported(tmp_path: Path) -> None:
    write_model(tmp_path, "counting.py", COUNTING)
    run = spec(THROUGH_DYNAMO, model="file:counting.py", iterations=12)
    found = findings(measured(run, tmp_path))["compile"]
    assert found.got.startswith("recompile limit hit: 1 of 9 frames ran as eager")
    assert not found.met


def test_training_says_what_was_compiled_too(tmp_path: Path) -> None:
    run = RunSpec(
        workload=CANONICAL, variant=Variant(**THROUGH_DYNAMO), measurement=Measurement(epochs=1)
    )
    found = findings(measured(run, tmp_path))
    assert found == {"compile": Finding(asked="compile", got="1 graph compiled", met=True)}


def test_a_branch_splits_what_is_compiled(tmp_path: Path) -> None:
    write_model(tmp_path, "branching.py", BRANCHING)
    child = measured(spec(THROUGH_DYNAMO, model="file:branching.py"), tmp_path)
    found = findings(child)
    assert found["compile"].got == "2 graphs compiled" and found["compile"].met
    assert found["compile without a graph break"].got.startswith("1 graph break: Data-dependent")
    assert not found["compile without a graph break"].met


def test_a_branch_leaves_a_trace_with_one_path(tmp_path: Path) -> None:
    write_model(tmp_path, "branching.py", BRANCHING)
    run = spec({"execution": "jit_trace_frozen"}, model="file:branching.py")
    found = findings(measured(run, tmp_path))["the whole model"]
    assert found == Finding(
        asked="the whole model",
        got="traced path only: the branch at branching.py:7 was decided by the example input",
        met=False,
    )


def test_a_branch_is_refused_by_export_with_its_line(
    tmp_path: Path, images: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    write_model(tmp_path, "branching.py", BRANCHING)
    run = spec({"execution": "export_aot"}, model="file:branching.py")
    model = models.build(run.workload, "random").module.eval()
    with pytest.raises(CompileRefused, match=r"as one graph: .* at branching\.py:7; choose"):
        EXECUTIONS["export_aot"](model, run, images)


def assert_computes_what_eager_computes(execution: Execution, precision: str, images: Any) -> None:
    torch.manual_seed(0)
    model = models.SmallCNN().eval()
    candidate = spec({"execution": execution}, precision=precision)
    made = EXECUTIONS[execution](model, candidate, images)
    call = call_of(made.callee, candidate, CPU, [])
    eager = call_of(model, spec({"execution": "eager"}, precision=precision), CPU, [])
    with torch.no_grad():
        expected = eager(images)
        # TorchScript watches the first call and compiles in the second.
        for _ in range(3):
            outputs = call(images)
    assert outputs.dtype == expected.dtype == {"fp32": torch.float32}.get(precision, torch.bfloat16)
    tolerance = 1e-5 if precision == "fp32" else 2e-2
    assert (outputs - expected).norm() <= tolerance * expected.norm()
    assert expected.norm() > 0


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("execution", ["jit_trace_frozen", "onednn_graph"])
def test_torchscript_computes_what_eager_computes(
    execution: Execution, precision: str, images: Any, fusion_off_again: None
) -> None:
    assert_computes_what_eager_computes(execution, precision, images)
    # The casts are in the trace, and the autocast around the call adds none.
    assert "autocast" not in str(torch.jit.last_executed_optimized_graph())


def test_onednn_graph_refuses_fp16() -> None:
    with pytest.raises(SpecError, match="fp32 and bf16, got precision 'fp16'"):
        spec({"execution": "onednn_graph"}, precision="fp16")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_library_computes_what_eager_computes(
    precision: str, images: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert_computes_what_eager_computes("export_aot", precision, images)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_library_is_made_before_the_first_call_and_then_runs(tmp_path: Path) -> None:
    run = spec({"execution": "export_aot"})
    environment = cache_environment(tmp_path, run)
    for folder in environment.values():
        Path(folder).mkdir(parents=True)
    child = measured(run, tmp_path, **environment)
    found = findings(child)["a library by AOTInductor"]
    assert (found.got, found.met) == ("loaded and ran", True)
    [prepared] = child.said(Prepared)
    first = child.said(Epoch)[0].step_seconds[0]
    assert prepared.execution_seconds > first, "the compile is over before the first call"
