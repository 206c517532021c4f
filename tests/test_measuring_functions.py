"""Functions without a model: the built-in one, the user's files, what is said of broken ones."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402

from bench_core import capabilities, spec  # noqa: E402
from bench_core.events import Activity, Epoch, Failed, Prepared  # noqa: E402
from bench_core.lacks import lacks_of  # noqa: E402
from bench_core.measuring import datasets, functions, models  # noqa: E402
from bench_core.measuring.failures import ModelError  # noqa: E402
from bench_core.spec import Measurement, RunSpec, Variant, Workload  # noqa: E402
from tests.measuring_child import measured, write_model  # noqa: E402
from tests.test_capabilities import HERE  # noqa: E402

CPU = torch.device("cpu")
SCALE = """
    import torch

    def fn(x, y, shift):
        return {"scaled": x * y, "more": [x + shift]}

    def make_inputs(n):
        return torch.ones(n, 4), torch.full((4,), 2.0), torch.ones(())
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    monkeypatch.delenv("BENCH_MODELS", raising=False)
    return tmp_path


def a_run(model: str = "function:sin_cos", backward: bool = False, **variant: object) -> RunSpec:
    return RunSpec(
        workload=Workload(task="infer", model=model, batch_size=1000, backward=backward),
        variant=Variant(**variant),
        measurement=Measurement(iterations=5),
    )


def inputs_of(run: RunSpec) -> tuple[torch.Tensor, ...]:
    built = models.build(run.workload, "random")
    [(inputs, labels)] = datasets.prepare(run, CPU, built).training
    assert labels is None
    return inputs


def test_every_named_function_is_built() -> None:
    assert {f"function:{name}" for name in functions.FUNCTIONS} == set(spec.NAMED_FUNCTIONS)
    built = models.build(a_run().workload, "random")
    x, y = inputs_of(a_run())
    assert torch.equal(built.module(x, y), x.sin() + y.cos())
    assert (built.weights, built.sha256) == ("none: a function has no weights", None)
    assert models.parameters_of(built.module) == []


def test_inputs_follow_the_seed_and_the_size_and_want_gradients_only_when_asked() -> None:
    def drawn(**fields: bool) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(5)
        return inputs_of(a_run(**fields))

    first, again = drawn(), drawn(backward=True)
    assert all(torch.equal(one, same) for one, same in zip(first, again, strict=True))
    assert [one.shape for one in first] == [(1000,)] * 2
    assert [one.requires_grad for one in (*first, *again)] == [False, False, True, True]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("variant", [{}, {"execution": "compile", "backend": "aot_eager"}])
def test_the_built_in_function_is_measured(
    backward: bool, variant: dict[str, str], own_folder: Path
) -> None:
    child = measured(a_run(backward=backward, **variant), own_folder, epochs=2)
    assert child.said(Failed) == [], child.log_text()
    [prepared] = child.said(Prepared)
    assert (prepared.parameters, prepared.weights) == (0, "none: a function has no weights")
    assert sum(len(block.step_seconds) for block in child.said(Epoch)) >= 5
    graphs = [activity.graphs for activity in child.said(Activity)]
    assert graphs[-1:] == ([1] if variant else [])


def test_a_function_of_a_file_is_measured(own_folder: Path) -> None:
    write_model(own_folder, "scale.py", SCALE)
    code = (own_folder / "models" / "scale.py").read_bytes()
    child = measured(a_run("function:scale.py", backward=True), own_folder, epochs=1)
    assert child.said(Failed) == [], child.log_text()
    assert child.said(Prepared)[0].model_sha256 == hashlib.sha256(code).hexdigest()
    assert child.said(Epoch)[0].step_seconds


FN = "def fn(x): return x\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (None, r"there is no function file .*mine\.py; put mine\.py into that folder"),
        ("import nothing_of_that_name", "does not import: ModuleNotFoundError"),
        ("fn = 3", r"mine\.py defines no fn\(\.\.\.\); add the function"),
        (FN, r"defines no make_inputs\(n\); add a function"),
        (
            FN + "def make_inputs(n): return 1 / 0",
            r"make_inputs\(1000\) of function:mine.py raised",
        ),
        (FN + "def make_inputs(n): return [n]", r"a tuple of tensors.*; it returned list"),
        (FN + "def make_inputs(n): return ()", "it returned tuple of nothing"),
        (FN + "def make_inputs(n): return n, 'x'", "it returned tuple of int, str"),
    ],
)
def test_a_broken_file_is_told_from_its_cause(
    own_folder: Path, code: str | None, said: str
) -> None:
    if code is not None:
        write_model(own_folder, "mine.py", code)
    with pytest.raises(ModelError, match=said):
        inputs_of(a_run("function:mine.py"))


def test_whole_numbers_have_no_gradients_and_the_way_out_is_said(own_folder: Path) -> None:
    code = FN + "import torch\ndef make_inputs(n): return torch.ones(n), torch.arange(n)"
    write_model(own_folder, "mine.py", code)
    assert [one.dtype for one in inputs_of(a_run("function:mine.py"))] == [
        torch.float32,
        torch.int64,
    ]
    with pytest.raises(ModelError, match="returned tensors of float32, int64; make all of them"):
        inputs_of(a_run("function:mine.py", backward=True))


# What is known of them without torch


def test_files_of_functions_are_told_from_files_of_models(own_folder: Path) -> None:
    write_model(own_folder, "scale.py", SCALE)
    write_model(own_folder, "net.py", "def build_model(): ...")
    write_model(own_folder, "both.py", SCALE + "\n    def build_model(): ...")
    assert [file.name for file in capabilities.model_files()] == ["both.py", "net.py"]
    assert [file.name for file in capabilities.function_files()] == ["scale.py"]


def test_the_named_function_and_files_that_are_there_raise_no_objection() -> None:
    assert lacks_of(a_run(), HERE) == []
    [said] = lacks_of(a_run("function:unett.py"), HERE)
    assert "there is no function file unett.py in" in said and "did you mean unet.py?" in said


def test_a_torch_without_onednn_graph_is_said_before_the_run() -> None:
    run = RunSpec(
        workload=Workload(task="infer", model="yolov7"), variant=Variant(execution="onednn_graph")
    )
    assert lacks_of(run, HERE) == []
    [said] = lacks_of(run, HERE.changed(onednn_graph=False))
    assert said.startswith("torch 2.14.1 is built without oneDNN Graph here; choose execution")


@pytest.mark.parametrize("execution", ["compile_frozen", "export_aot"])
def test_every_execution_that_builds_code_needs_a_compiler(execution: str) -> None:
    run = RunSpec(
        workload=Workload(task="infer", model="resnet18"), variant=Variant(execution=execution)
    )
    assert lacks_of(run, HERE) == []
    [said] = lacks_of(run, HERE.changed(compiler=None))
    assert "needs a C++ compiler and none was found" in said
