"""What a capture finds in real models: each stage, its counts, breaks, other ways, failures.

The captures are taken once for this file, without building a kernel; those that take minutes are
marked long.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import TypeGuard

import pytest

pytest.importorskip("torch")

from bench_core import captures, kernel_costs  # noqa: E402
from bench_core.captured import FX_DRAWING, Capture  # noqa: E402
from bench_core.graph import STAGES  # noqa: E402
from bench_core.measuring import generated_code, graph_stages, graphs, private_names  # noqa: E402
from bench_core.spec import RunSpec, Variant, Workload  # noqa: E402
from tests.measuring_child import write_model  # noqa: E402

BREAKS = """
    import os

    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x):
            x = self.first(x)
            if x.sum() > 0:
                x = sum(part * 2 for part in (x, x))
            return self.second(x)

    def build_model():
        print("a model prints")
        os.write(1, b"and writes to descriptor 1\\n")
        return Net()

    def make_batch(batch_size):
        return torch.ones(batch_size, 8), torch.zeros(batch_size, dtype=torch.long)
"""
RAISES = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(x)

    def build_model():
        return Net()

    def make_batch(batch_size):
        return torch.ones(batch_size, 8), torch.zeros(batch_size, dtype=torch.long)
"""


# No machine has a petabyte: the graphs are captured on tensors without memory, and the call fails.
TOO_LARGE = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def forward(self, x):
            return self.layer(x) + torch.empty(2**50, dtype=torch.uint8).max()

    def build_model():
        return Net()

    def make_batch(batch_size):
        return torch.ones(batch_size, 8), torch.zeros(batch_size, dtype=torch.long)
"""


def a_spec(model: str, task: str = "infer", **fields: object) -> RunSpec:
    work = {"batch_size": 4, "samples": 4, "image_size": 32, **fields}
    return RunSpec(
        workload=Workload(task=task, model=model, **work), variant=Variant(execution="compile")
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings of all captures here: they share what is known of the C++ compiler."""
    data = tmp_path_factory.mktemp("captures")
    write_model(data, "breaks.py", BREAKS)
    write_model(data, "raises.py", RAISES)
    write_model(data, "too_large.py", TOO_LARGE)
    return {
        "BENCH_DATA": str(data),
        "BENCH_CACHES": str(data / "caches"),
        "BENCH_MACHINE_LOCK": str(data / "machine.lock"),
        "TORCHINDUCTOR_CACHE_DIR": str(data / "of_others"),
    }


@pytest.fixture(autouse=True)
def set_folders(folders: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCH_MODELS", raising=False)
    for name, value in folders.items():
        monkeypatch.setenv(name, value)


Taken = Callable[[RunSpec], Capture]


@pytest.fixture(scope="module")
def taken() -> Taken:
    """The graphs of a run: captured the first time that a test asks."""
    return lambda spec: captures.take(spec, ["graphs"])


def fused_ops(capture: Capture, part: str = "forward") -> list[int]:
    """How many nodes of before_fusion each node of after_fusion holds."""
    [file] = capture.at("after_fusion", part)
    return [len(node.members) or 1 for node in captures.read_graph(capture, file).nodes]


def test_sin_and_cos_become_one_kernel_whose_code_can_be_read(taken: Taken) -> None:
    capture = taken(a_spec("function:sin_cos", batch_size=1000, samples=1000))
    assert capture.failures == {} and capture.missing == ()
    assert capture.operators("dynamo") == capture.operators("after_passes") == 3
    [frame] = capture.frames
    assert (frame.breaks, frame.place, frame.function) == ((), "functions.py:20", "sin_cos")
    assert frame.guards
    [before] = captures.read_graph(capture, capture.at("after_passes")[0]).modules.items()
    assert before == ("", 3)
    [fused] = captures.read_graph(capture, capture.at("after_fusion")[0]).nodes
    [kernel] = captures.read_kernels(capture)
    assert (kernel.kind, kernel.nodes, kernel.origins) == ("C++", (fused.name,), fused.origins)
    assert kernel.operators == ("aten.sin.default", "aten.cos.default", "aten.add.Tensor")
    assert fused.kernel == kernel.name == "cpp_fused_add_cos_sin_0"
    code = captures.source_of(capture, kernel)
    assert code.startswith(kernel.name) and ".sin()" in code and ".cos()" in code
    assert [way.captured for way in capture.alternatives] == [True] * 5


def test_torch_fx_draws_the_first_and_the_last_of_its_graphs(taken: Taken) -> None:
    pytest.importorskip("pydot")
    capture = taken(a_spec("function:sin_cos", batch_size=1000, samples=1000))
    drawn: dict[str, str] = {
        file.stage: captures.read_file(capture, file.drawing)
        for file in capture.graphs
        if file.drawing
    }
    assert set(drawn) == {"dynamo", "after_passes"}
    for stage, name in (("dynamo", "torch.sin"), ("after_passes", "torch.ops.aten.sin.default")):
        assert drawn[stage].startswith("digraph")
        assert rf"op_code=call_function\n|target={name}\n" in drawn[stage]
        assert drawn[stage].count(" -> ") == 5


@pytest.mark.parametrize("task", ["train", pytest.param("infer", marks=pytest.mark.long)])
def test_a_small_network_shows_every_stage(taken: Taken, task: str) -> None:
    capture = taken(a_spec("small_cnn", task))
    assert capture.failures == {} and capture.missing == ()
    parts = ["forward", "backward"] if task == "train" else ["forward"]
    for stage in ("before_passes", "after_passes", "before_fusion", "after_fusion"):
        assert [file.part for file in capture.at(stage)] == parts
    assert [file.part for file in capture.at("joint")] == ["both" if task == "train" else "forward"]
    assert capture.operators("before_fusion") == capture.ir_nodes_before_fusion
    for part in parts:
        [before] = capture.at("before_fusion", part)
        assert sum(fused_ops(capture, part)) == before.operators
    modules = captures.read_graph(capture, capture.at("dynamo")[0]).modules
    assert {"features.0", "features.1", "features.2", "features.3", "head"} <= set(modules)
    convolutions = [
        kernel for kernel in captures.read_kernels(capture) if "convolution" in kernel.name
    ]
    of_libraries = [kernel for kernel in convolutions if kernel.kind == "extern"]
    if task == "train":
        assert [kernel.modules for kernel in of_libraries] == [
            ("features.0",), ("features.3",), ("features.3",), ("features.0",),
        ]  # fmt: skip
    assert capture.decompositions and capture.decomposition_seconds > 0


def test_kernels_are_those_that_the_code_defines_and_calls(taken: Taken) -> None:
    capture = taken(a_spec("small_cnn", "train"))
    for code in capture.code:
        text = captures.read_file(capture, code.file)
        assert code.kernels == text.count("async_compile.cpp_pybinding(") > 0
        names = {ast.unparse(one.targets[0]) for one in ast.parse(text).body if is_kernel(one)}
        found = [
            kernel
            for kernel in captures.read_kernels(capture)
            if kernel.file == code.file and kernel.kind == "C++"
        ]
        assert {kernel.name for kernel in found} == names
        lines = text.splitlines()
        for kernel in found:
            assert all(lines[line - 1].strip().startswith(kernel.name) for line in kernel.calls)
            assert kernel.calls and kernel.nodes and kernel.origins
            assert lines[kernel.first_line - 1].startswith(f"{kernel.name} = ")
            assert lines[kernel.last_line - 1].endswith("''')")


def is_kernel(node: ast.stmt) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign) and "async_compile.cpp_pybinding" in ast.unparse(node.value)


def test_the_backward_tells_what_it_computes_again(taken: Taken) -> None:
    capture = taken(a_spec("small_cnn", "train"))
    forward, backward = (
        captures.read_graph(capture, capture.at("before_passes", part)[0])
        for part in ("forward", "backward")
    )
    computed = {node.name for node in forward.nodes if node.is_operator}
    again = {node.name for node in backward.nodes if node.recomputed}
    assert again and again == computed & {n.name for n in backward.nodes if n.is_operator}
    [*convolutions] = (node for node in forward.nodes if "convolution" in node.target)
    assert len(convolutions) == 2
    assert all(node.place.startswith("models.py:") for node in convolutions)


def test_a_graph_break_shows_two_graphs_the_line_and_the_reason(taken: Taken) -> None:
    capture = taken(a_spec("file:breaks.py", "train"))
    assert capture.failures == {}
    assert [frame.number for frame in capture.frames] == [0, 1]
    [broken] = capture.frames[0].breaks
    assert capture.frames[1].breaks == () and capture.graph_breaks == 1
    assert broken.place == "breaks.py:13" and broken.line == "if x.sum() > 0:"
    assert broken.reason.startswith("Data-dependent branching")
    assert capture.frames[1].function.startswith("torch_dynamo_resume_in_forward")
    assert len(capture.at("after_fusion", "backward")) == 2


def test_other_ways_say_why_they_do_not_take_what_dynamo_takes(taken: Taken) -> None:
    ways = {way.way: way for way in taken(a_spec("file:breaks.py", "train")).alternatives}
    dynamo = ways.pop("TorchDynamo")
    assert dynamo.captured and dynamo.graphs == 2 and dynamo.place == "breaks.py:13"
    assert {way: found.captured for way, found in ways.items()} == {
        "torch.jit.script": False,
        "torch.jit.trace": False,
        "torch.fx.symbolic_trace": False,
        "torch.export": False,
    }
    assert ways["torch.jit.script"].reason and ways["torch.jit.script"].place == "breaks.py:14"
    assert ways["torch.fx.symbolic_trace"].reason.startswith("TraceError")
    assert ways["torch.jit.trace"].reason.startswith("traced path only")
    for way in ("torch.jit.trace", "torch.fx.symbolic_trace", "torch.export"):
        assert ways[way].place == "breaks.py:13"


def test_what_a_model_prints_is_in_the_log_and_fails_nothing(taken: Taken) -> None:
    capture = taken(a_spec("file:breaks.py", "train"))
    assert capture.failures == {}
    log = captures.read_file(capture, "log.txt")
    assert "a model prints" in log and "and writes to descriptor 1" in log


def test_without_a_compiler_what_was_reached_is_kept_and_the_reason_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_CACHES", str(tmp_path))
    monkeypatch.setenv("CXX", "/there/is/no/compiler")
    capture = captures.take(a_spec("function:sin_cos"), ["graphs"])
    failure = capture.failures["graphs"]
    assert failure.failure == "compiler missing"
    assert "needs a C++ compiler, and it was not found while TorchInductor" in failure.reason
    assert {file.stage for file in capture.graphs} == set(STAGES)
    assert capture.code == () and captures.read_kernels(capture) == ()


def test_a_model_that_raises_is_a_fact_of_its_capture(taken: Taken) -> None:
    capture = taken(a_spec("file:raises.py", "train"))
    failure = capture.failures["graphs"]
    assert failure.failure == "model error" and capture.parts == ("graphs",)
    assert failure.reason.startswith("the model failed while TorchDynamo captured the model")
    assert failure.phase == "while TorchDynamo captured the model"
    assert not any(way.captured for way in capture.alternatives if way.way == "torch.jit.trace")


def test_out_of_memory_is_named_and_the_stages_before_it_are_kept(taken: Taken) -> None:
    capture = taken(a_spec("file:too_large.py"))
    failure = capture.failures["graphs"]
    assert failure.failure == "out of memory"
    assert failure.reason.startswith("out of memory while the model ran with batch size 4")
    assert {file.stage for file in capture.graphs} == set(STAGES) and capture.kernels
    ways = {way.way: way for way in capture.alternatives}
    assert ways["TorchDynamo"].captured
    assert "can't allocate memory" in ways["torch.jit.trace"].reason


def test_a_capture_leaves_the_caches_of_others_alone(taken: Taken, folders: dict[str, str]) -> None:
    taken(a_spec("function:sin_cos", batch_size=1000, samples=1000))
    assert not Path(folders["TORCHINDUCTOR_CACHE_DIR"]).exists()
    assert {path.name for path in Path(folders["BENCH_CACHES"]).iterdir()} == {"captures"}
    assert not Path(folders["BENCH_DATA"], "bench.db").exists()


def test_a_drawing_that_torch_fx_cannot_make_is_missing_by_the_name_that_the_page_knows() -> None:
    pytest.importorskip("pydot")
    told: list[dict[str, object]] = []
    stages = graphs.Stages(a_spec("small_cnn"), lambda _, fields: told.append(fields))
    assert stages._drawing("no module") == ""
    assert [one["what"] for one in told] == [FX_DRAWING]


def test_both_processes_know_code_by_the_same_name_whatever_its_graphs_number() -> None:
    texts = [f"# AOT ID: ['{number}_inference']\nimport torch\n" for number in (0, 1)]
    names = {generated_code.sha256_of(text) for text in texts}
    assert names == {kernel_costs.sha256_of(text) for text in texts} and len(names) == 1
    assert generated_code.sha256_of("import math\n") not in names


@pytest.mark.parametrize("key", private_names.TABLE)
def test_this_torch_has_the_private_name(key: str) -> None:
    assert private_names.find(key) is not None, private_names.missing(key)


def test_a_name_that_is_gone_is_told_with_what_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    name = private_names.Name("torch._inductor.config", "no_such_pass", "the joint graph")
    monkeypatch.setitem(private_names.TABLE, "gone", name)
    [lack] = private_names.missing("gone")
    assert lack["what"] == "the joint graph"
    assert "has no torch._inductor.config.no_such_pass" in lack["reason"]


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("L['self']", ""),
        ("L['self'].layer1.0.conv1", "layer1.0.conv1"),
        ("L['self'].layer1[0].conv1", "layer1.0.conv1"),
        ("L['self']._modules['layer1']._modules['0']", "layer1.0"),
        ("layer1.0.conv1", "layer1.0.conv1"),
    ],
)
def test_modules_have_the_path_that_users_know(path: str, module: str) -> None:
    assert graph_stages.module_path(path) == module


GENERATED = """
async_compile = AsyncCompile()
triton_a = async_compile.triton('triton_a', '''
def triton_(x): pass
''', device_str='cuda')

class Runner:
    def call(self, args):
        with torch.cuda._DeviceGuard(0):
            buf0 = empty_strided_cuda((4, ), (1, ), torch.float32)
            triton_a.run(arg0, buf0, 4, stream=stream0)
            buf1 = torch.ops.aten.sort.default(buf0)
            extern_kernels.mm(buf0, arg0, out=buf2)
            buf3 = torch.ops.inductor._alloc_from_pool(buf0, 0)
        return (buf1, )
"""


def test_generated_code_of_a_gpu_is_read_too() -> None:
    parsed = generated_code.parse(GENERATED)
    assert parsed.definitions == (generated_code.Definition("triton_a", "Triton", 3, 5),)
    assert [call[:3] for call in parsed.calls] == [
        (11, "triton_a", False), (12, "aten.sort.default", True), (13, "extern_kernels.mm", True),
    ]  # fmt: skip
    assert [call.buffers for call in parsed.calls] == [(), ("buf1",), ("buf2",)]
    assert list(generated_code.watched(GENERATED)) == ["call"]


@pytest.mark.long
def test_shapes_that_vary_make_dynamo_start_again_and_that_is_no_failure(taken: Taken) -> None:
    spec = a_spec("small_cnn").changed(variant=Variant(execution="compile", dynamic=True))
    capture = taken(spec)
    assert capture.failures == {} and [frame.number for frame in capture.frames] == [0]
    assert {file.stage for file in capture.graphs} == set(STAGES)


# Minutes


RESNET18_NODES = {
    ("dynamo", "forward"): 213,
    ("joint", "both"): 1390,
    ("before_passes", "forward"): 753,
    ("before_passes", "backward"): 755,
    ("after_passes", "forward"): 753,
    ("after_passes", "backward"): 755,
    ("before_fusion", "forward"): 254,
    ("after_fusion", "forward"): 97,
    ("before_fusion", "backward"): 163,
    ("after_fusion", "backward"): 102,
}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("task", ["train", "infer"])
@pytest.mark.parametrize("model", ["resnet18", "resnet101"])
def test_every_stage_of_a_resnet_agrees_with_the_compilers_own_counts(
    taken: Taken, model: str, task: str
) -> None:
    capture = taken(a_spec(model, task, batch_size=8, samples=8))
    assert capture.failures == {} and capture.missing == () and capture.graph_breaks == 0
    nodes = {(file.stage, file.part): file.nodes for file in capture.graphs}
    parts = ("forward", "backward") if task == "train" else ("forward",)
    assert set(nodes) == {
        ("dynamo", "forward"),
        ("joint", "both" if task == "train" else "forward"),
        *((stage, part) for part in parts for stage in list(STAGES)[2:]),
    }
    assert capture.operators("before_fusion") == capture.ir_nodes_before_fusion
    for part in parts:
        [before] = capture.at("before_fusion", part)
        assert sum(fused_ops(capture, part)) == before.operators
    kernels = captures.read_kernels(capture)
    assert [code.part for code in capture.code] == list(parts)
    for code in capture.code:
        text = captures.read_file(capture, code.file)
        own = [one for one in kernels if one.file == code.file]
        defined = {ast.unparse(one.targets[0]) for one in ast.parse(text).body if is_kernel(one)}
        assert {one.name for one in own if one.kind == "C++"} == defined
        assert code.kernels == len(defined) == text.count("async_compile.cpp_pybinding(")
        assert code.extern_calls == sum(one.kind == "extern" for one in own)
    if (model, task) == ("resnet18", "train"):
        assert nodes == RESNET18_NODES
        assert [code.kernels for code in capture.code] == [17, 14]
        # 61 of the backward's nodes are a library's; 39 of them are one of several results.
        assert [code.extern_calls for code in capture.code] == [21, 22]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_steady_step_is_tied_to_kernels_and_modules() -> None:
    capture = captures.take(a_spec("small_cnn", "train"))
    assert capture.failures == {} and capture.parts == ("graphs", "cost", "warm")
    assert {line.cache: bool(line.phases) for line in capture.timelines} == {
        "cold": True,
        "warm": True,
    }
    for line in capture.timelines:
        total = sum(phase.seconds for phase in line.phases)
        assert total == pytest.approx(line.first_call_seconds, rel=0.01)
    kernels = captures.read_kernels(capture)
    assert all(kernel.seconds is not None for kernel in kernels)
    assert sum(kernel.seconds or 0.0 for kernel in kernels) == pytest.approx(
        capture.cost.kernel_seconds + capture.cost.extern_seconds
    )
    eager = {(one.module, one.part): one.eager_seconds for one in capture.cost.modules}
    assert eager["features.0", "forward"] > 0 and eager["features.3", "backward"] > 0
    assert (captures.folder_of(capture.key) / capture.cost.trace).stat().st_size > 1000
    caches = captures.folder_of(capture.key).parent.parent
    assert {path.name for path in caches.iterdir()} == {"captures"}
