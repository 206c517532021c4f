"""Captures as they are kept: which run has which, what a part's lines become, how costs are shared.

No torch: the lines are those that a capture process prints.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench_core import capture_part, captures, graph_files, kernel_costs
from bench_core.captured import Capture, Cost, Kernel, ModuleCost, Timeline
from bench_core.cli import main
from bench_core.events import Failed
from bench_core.file_lock import locked
from bench_core.graph import STAGES, Graph, Node
from bench_core.spec import Measurement, RunSpec, Variant, Workload
from tests.planted_capture import BREAK, capture_spec, plant_capture

COMPILE = Variant(execution="compile")


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("BENCH_CACHES", str(tmp_path / "caches"))
    monkeypatch.setenv("BENCH_MACHINE_LOCK", str(tmp_path / "machine.lock"))
    monkeypatch.delenv("BENCH_MODELS", raising=False)
    return tmp_path


def a_spec(**workload: object) -> RunSpec:
    return RunSpec(workload=Workload(**{"model": "small_cnn", **workload}), variant=COMPILE)


# Which run has which capture


def test_what_changes_no_graph_shares_a_capture() -> None:
    one = captures.key_of(a_spec())
    assert one == captures.key_of(a_spec(samples=64, pipeline="cached", dataset="cifar10"))
    assert one == captures.key_of(a_spec().changed(measurement=Measurement(epochs=99, repeat=2)))
    warm = COMPILE.changed(cache="warm")
    assert one == captures.key_of(a_spec().changed(variant=warm))


@pytest.mark.parametrize(
    "other",
    [
        a_spec(batch_size=8),
        a_spec(image_size=64),
        a_spec(precision="bf16"),
        a_spec(task="infer"),
        a_spec().changed(variant=Variant(execution="compile", dynamic=True)),
        a_spec().changed(device="cuda:0"),
    ],
)
def test_what_changes_the_graphs_has_a_capture_of_its_own(other: RunSpec) -> None:
    assert captures.key_of(a_spec()) != captures.key_of(other)


def test_a_changed_model_file_is_captured_anew(folders: Path) -> None:
    (folders / "models").mkdir()
    file = folders / "models" / "net.py"
    file.write_text("one")
    before = captures.key_of(a_spec(model="file:net.py"))
    file.write_text("two")
    assert captures.key_of(a_spec(model="file:net.py")) != before


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (RunSpec(workload=Workload(model="small_cnn")), "got execution 'eager'; choose compile"),
        (a_spec(model="torchbench:BERT_pytorch"), "known from imported results only"),
        (
            a_spec().changed(variant=Variant(execution="compile", disable=True)),
            "switches torch.compile off",
        ),
    ],
)
def test_a_run_without_a_capture_says_why(spec: RunSpec, said: str) -> None:
    assert said in captures.objection(spec)
    with pytest.raises(captures.CannotCapture, match=said):
        captures.find(spec)


# What a part's lines become


def lines_of_sin() -> list[dict[str, object]]:
    node = {"name": "sin", "op": "call_function", "target": "aten.sin.default", "inputs": ["x"]}
    nodes = [{"name": "x", "op": "placeholder"}, node]
    code = "kernel = async_compile.cpp_pybinding([], r'''\n''')\n\ndef call(args):\n    kernel(x)"
    kernel = {"name": "kernel", "kind": "C++", "first_line": 1, "last_line": 2, "calls": [5]}
    graph = {"event": "graph", "number": 0, "nodes": nodes}
    return [
        {"event": "phase", "phase": "capturing the graphs"},
        {**graph, "stage": "dynamo", "part": "forward", "text": "torch's own"},
        {**graph, "stage": "after_passes", "part": "forward"},
        {
            "event": "code",
            "number": 0,
            "part": "forward",
            "text": code,
            "kernels": [{**kernel, "nodes": ["op0"], "origins": ["sin"], "modules": ["layer"]}],
        },
        {"event": "frame", "number": 0, "nodes": 2, "operators": 1, "guards": 7},
        {"event": "missing", "what": "the joint graph", "reason": "torch 9 has no such pass"},
        {"event": "counts", "ir_nodes_before_fusion": 1},
        {"event": "finished"},
    ]


def kept(lines: list[dict[str, object]]) -> Capture:
    spec = captures.essence(a_spec())
    key = captures.key_of(spec)
    captures.folder_of(key).mkdir(parents=True, exist_ok=True)
    heard = capture_part._Taken(Capture(key=key, spec=spec), "graphs", captures.folder_of(key))
    for line in lines:
        heard.note(json.dumps(line).encode())
    return heard.keep(1.5)


def test_a_capture_is_read_as_it_was_kept() -> None:
    capture = kept(lines_of_sin())
    assert captures.find(a_spec()) == capture and captures.stored() == [capture]
    [file] = capture.at("dynamo")
    assert (file.nodes, file.operators, capture.operators("dynamo")) == (2, 1, 1)
    assert captures.read_graph(capture, file).edges == [("x", "sin")]
    assert captures.read_file(capture, file.text) == "torch's own"
    assert capture.operators("joint") is None and capture.missing[0].what == "the joint graph"
    [kernel] = captures.read_kernels(capture)
    assert captures.source_of(capture, kernel).startswith("kernel = async_compile")
    assert (capture.kernels, capture.extern_calls, capture.ir_nodes_before_fusion) == (1, 0, 1)
    assert captures.title_of(capture) == "small_cnn, training, batch 16, 224 px, compile on cpu"
    captures.delete(capture.key)
    assert captures.stored() == []


def test_of_a_graph_that_was_captured_twice_the_last_one_counts() -> None:
    lines = lines_of_sin()
    once_more = {**lines[1], "nodes": [{"name": "sin", "op": "call_function"}]}
    [file] = kept([*lines[:2], once_more, *lines[2:]]).at("dynamo")
    assert (file.nodes, file.operators) == (1, 1)


def test_a_part_that_failed_keeps_what_it_reached() -> None:
    failed: dict[str, object] = {
        "event": "failed",
        "failure": "out of memory",
        "reason": "no room",
        "phase": "here",
    }
    capture = kept([*lines_of_sin()[:2], failed])
    assert capture.failures["graphs"].failure == "out of memory"
    assert [file.stage for file in capture.graphs] == ["dynamo"] and capture.parts == ("graphs",)


def test_a_line_that_is_none_of_ours_lands_in_the_log_and_fails_nothing() -> None:
    spec = captures.essence(a_spec())
    captures.folder_of("key").mkdir(parents=True)
    heard = capture_part._Taken(Capture(key="key", spec=spec), "graphs", captures.folder_of("key"))
    foreign = (b"hello\n", b"3\n", b"{}\n", b"\xff\n")
    for line in foreign:
        heard.note(line)
    capture = heard.keep(1.0)
    assert capture.failures == {}
    assert (captures.folder_of("key") / "log.txt").read_bytes() == b"".join(foreign)


def test_new_graphs_begin_anew_and_later_parts_add_to_them() -> None:
    """What was absent or timed before is of the graphs that are gone."""
    before = kept(lines_of_sin())
    failed = Failed(failure="error", reason="no room", phase="")
    timeline = Timeline(cache="cold", first_call_seconds=1.0)
    before = before.changed(
        parts=("graphs", "cost", "warm"), failures={"graphs": failed, "warm": failed},
        cost=Cost(
            steps=5, step_seconds=1, eager_step_seconds=1, kernel_seconds=1, extern_seconds=0
        ),
        timelines=(timeline,),
    )  # fmt: skip
    folder = captures.folder_of(before.key)
    again = capture_part._Taken(before, "graphs", folder).keep(1.0)
    assert (again.missing, again.failures, again.cost, again.timelines) == ((), {}, None, ())
    assert captures.left(again) == ["cost", "warm"]
    assert capture_part._Taken(before, "cost", folder).keep(1.0).missing == before.missing


def test_of_a_log_that_grows_without_end_the_end_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with open(log, "ab", buffering=0) as writer:
        writer.write(b"first\n" + b"x" * 100)
        capture_part.keep_the_end(log, most_bytes=106)
        assert log.read_bytes().startswith(b"first"), "a short one is left alone"
        writer.write(b"the end")
        capture_part.keep_the_end(log, most_bytes=20)
        writer.write(b", and on")
    assert log.read_bytes() == b"xxxthe end, and on"


def test_a_lock_is_waited_for_while_others_only_look(tmp_path: Path) -> None:
    looking = locked(tmp_path / "lock", shared=True)
    assert looking is not None and locked(tmp_path / "lock") is None
    threading.Timer(0.1, os.close, [looking]).start()
    held = locked(tmp_path / "lock", patience_seconds=30)
    assert held is not None and locked(tmp_path / "lock", shared=True) is None
    os.close(held)


def test_a_line_a_graph_says_its_operators_and_below_it_what_ended_it() -> None:
    capture = plant_capture(capture_spec(), blocks=3, breaks=(BREAK,))
    assert list(graph_files.described(capture, ("dynamo", "after_fusion"))) == [
        "graph 0 at model.py:3, operators: captured 13, after fusion 6 + 6 (forward + backward)",
        "  break at model.py:7: data-dependent jump",
    ]


def test_a_model_that_makes_its_own_batches_has_no_size_in_pixels(folders: Path) -> None:
    (folders / "models").mkdir()
    (folders / "models" / "own.py").write_text("def make_batch(batch_size): ...\n")
    (folders / "models" / "net.py").write_text("# no make_batch here\n")

    def title(model: str, image_size: int) -> str:
        spec = captures.essence(a_spec(model=model, image_size=image_size, task="infer"))
        return captures.title_of(Capture(key="", spec=spec))

    assert title("file:net.py", 32) != title("file:net.py", 64)
    for model in ("file:own.py", "function:sin_cos"):
        assert title(model, 32) == title(model, 64) and "px" not in title(model, 32)


@pytest.mark.parametrize(
    ("printed", "said"), [("", ", nor printed anything"), ("bye", "; what it printed stands in ")]
)
def test_a_capture_that_ends_without_a_word_names_its_log(
    folders: Path, printed: str, said: str
) -> None:
    (folders / "models").mkdir()
    (folders / "models" / "gone.py").write_text(
        f"import os, sys\nprint({printed!r}, end='', file=sys.stderr, flush=True)\nos._exit(3)\n"
    )
    capture = captures.take(captures.essence(a_spec(model="file:gone.py")), ("graphs",))
    reason = capture.failures["graphs"].reason
    assert reason.startswith(f"the capture process ended with code 3 and did not say why{said}")


def test_a_part_that_talks_without_end_ends_at_its_deadline(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.touch()
    talking = [sys.executable, "-c", "while True: print('{}')"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(talking, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    try:
        with pytest.raises(TimeoutError):
            began = time.monotonic()
            for _ in capture_part._lines(process, "", began + 0.5, log):
                assert time.monotonic() < began + 20, "the deadline was not looked at"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("package", ["torchvision", "timm"])
def test_another_version_of_what_makes_models_is_captured_anew(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = captures.key_of(a_spec())
    installed = tmp_path / "site" / f"{package}-99.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 99.0\n")
    monkeypatch.syspath_prepend(installed.parent)
    assert captures.key_of(a_spec()) != before


def test_a_capture_of_an_older_form_counts_as_none() -> None:
    capture = kept(lines_of_sin())
    file = captures.folder_of(capture.key) / "capture.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "shape": "old"}))
    assert captures.find(a_spec()) is None and captures.stored() == []


def test_a_first_call_has_the_phases_of_its_own_process() -> None:
    """Decompositions were timed in another one: they have seconds, and no stretch of this call."""
    found = [{"operator": "a", "source": "torch._refs", "calls": 1, "made": 2, "seconds": 0.5}]
    capture = kept([*lines_of_sin()[:-1], {"event": "decompositions", "found": found}])
    assert capture.decomposition_seconds == 0.5
    heard = capture_part._Taken(capture, "cost", captures.folder_of(capture.key))
    phase = {"name": "AOTAutograd", "began_seconds": 1.0, "ended_seconds": 3.0, "seconds": 2.0}
    line = {"cache": "cold", "first_call_seconds": 4.0, "phases": [phase]}
    heard.note(json.dumps({"event": "timeline", **line}).encode())
    [told] = heard.keep(1.0).timelines
    assert [one.model_dump() for one in told.phases] == [phase]


def test_a_part_that_failed_is_left_to_be_taken() -> None:
    capture = kept(lines_of_sin())
    assert captures.left(capture) == ["cost", "warm"]
    failed = Failed(failure="error", reason="no room", phase="")
    every = {"parts": ("graphs", "cost", "warm")}
    assert captures.left(capture.changed(**every)) == []
    assert captures.left(capture.changed(**every, failures={"cost": failed})) == ["cost"]
    again = captures.left(capture.changed(**every, failures={"graphs": failed}))
    assert again == ["graphs", "cost", "warm"], "costs are of the kernels that are captured anew"


def test_a_capture_is_written_as_files_with_torch_fxs_own_drawing_beside_ours(
    folders: Path,
) -> None:
    lines = lines_of_sin()
    lines[1] = {**lines[1], "drawing": "digraph graph { x -> sin; }"}
    capture = kept(lines)
    written = {path.name: path for path in graph_files.write(capture, folders / "out", STAGES)}
    assert set(written) - {"00-forward-dynamo.fx.svg"} == {
        *(f"00-forward-{stage}.{kind}" for stage in ("dynamo", "after_passes")
          for kind in ("dot", "svg")),
        "00-forward-dynamo.txt", "00-forward-dynamo.fx.dot", "00-forward.py", "summary.json",
    }  # fmt: skip
    assert written["00-forward-dynamo.fx.dot"].read_text() == "digraph graph { x -> sin; }"
    assert json.loads(written["summary.json"].read_text())["kernels"][0]["name"] == "kernel"


# Costs


def test_time_is_shared_out_and_eagers_stands_beside_whole_modules_only() -> None:
    nodes = [
        Node(name=name, op="call_function", module=module)
        for name, module in (("a", "bn"), ("b", "bn"), ("c", "relu"), ("conv", "conv"))
    ]

    def a_kernel(name: str, kind: str, line: int, *origins: str) -> Kernel:
        fields = {"number": 0, "part": "forward", "file": "code", "name": name, "kind": kind}
        fields |= {"first_line": line, "last_line": line, "calls": (line,)}
        return Kernel(**fields, origins=origins, modules=("conv",) if "conv" in origins else ())

    kernels = [
        a_kernel("both", "C++", 1, "a", "c"),
        a_kernel("rest", "C++", 2, "b"),
        a_kernel("library", "extern", 3, "conv"),
        a_kernel("layout", "C++", 4, "conv"),  # copies for the library, and computes nothing
    ]
    text = "the code"
    sha256 = kernel_costs.sha256_of(text)
    seconds = (2.0, 1.0, 10.0, 4.0)
    calls = [
        kernel_costs.CallCost(sha256=sha256, line=line, seconds=spent)
        for line, spent in enumerate(seconds, 1)
    ]
    eager = {"bn": 6.0, "relu": 1.0, "conv": 9.0}
    cost = Cost(
        steps=5, step_seconds=1, eager_step_seconds=1, kernel_seconds=7, extern_seconds=10,
        modules=tuple(
            ModuleCost(module=name, part="forward", eager_seconds=spent)
            for name, spent in eager.items()
        ),
    )  # fmt: skip
    side: kernel_costs.Side = (0, "forward")
    shared, timed = kernel_costs.shared_out(cost, kernels, calls, {side: nodes}, {side: text})
    assert [kernel.seconds for kernel in timed] == list(seconds)
    # Both kernels compute a part of bn: they stand together beside eager's bn and relu.
    assert [(one.eager_seconds, one.together_seconds, one.together) for one in timed] == [
        (7.0, 3.0, 2), (7.0, 3.0, 2), (9.0, 10.0, 1), (None, None, 1),
    ]  # fmt: skip
    assert {one.module: one.seconds for one in shared.modules} == {
        "bn": 2.0, "relu": 1.0, "conv": 14.0,
    }  # fmt: skip
    other = {side: "generated otherwise"}
    cold, unknown = kernel_costs.shared_out(cost, timed, calls, {side: nodes}, other)
    assert [one.seconds for one in cold.modules] == [None] * 3, "not measured is no zero"
    assert [kernel.seconds for kernel in unknown] == [None] * 4
    assert [kernel.eager_seconds for kernel in unknown] == [None] * 4
    some, part = kernel_costs.shared_out(cost, kernels, calls[1:], {side: nodes}, {side: text})
    assert [kernel.eager_seconds for kernel in part] == [None, None, 9.0, None]
    assert {one.module: one.seconds for one in some.modules} == {
        "bn": None, "relu": None, "conv": 14.0,
    }  # fmt: skip


def test_equal_graphs_have_equal_parts_of_the_one_module_that_runs() -> None:
    """Inductor finds the second one's code in its cache: both run what was made for the first."""
    texts: dict[kernel_costs.Side, str] = {
        (number, "forward"): f"# AOT ID: ['{number}_inference']\nk0 = 1\n" for number in (0, 1)
    }
    fields = {"part": "forward", "file": "", "name": "k0", "kind": "C++", "calls": (2,)}
    kernels = [
        Kernel(number=number, first_line=2, last_line=2, origins=("a",), **fields)
        for number in (0, 1)
    ]
    nodes: dict[kernel_costs.Side, list[Node]] = {
        (number, "forward"): [Node(name="a", op="call_function", module=f"block.{number}")]
        for number in (0, 1)
    }
    sha256 = kernel_costs.sha256_of(texts[0, "forward"])
    calls = [kernel_costs.CallCost(sha256=sha256, line=2, seconds=6.0)]
    cost = Cost(
        steps=5, step_seconds=9, eager_step_seconds=9, kernel_seconds=6, extern_seconds=0
    )  # fmt: skip
    shared, timed = kernel_costs.shared_out(cost, kernels, calls, nodes, texts)
    assert [kernel.seconds for kernel in timed] == [3.0, 3.0]
    assert [(one.module, one.number, one.seconds) for one in shared.modules] == [
        ("block.0", 0, 3.0), ("block.1", 1, 3.0),
    ]  # fmt: skip


def test_a_graph_counts_operators_by_module() -> None:
    nodes = (
        Node(name="x", op="placeholder"),
        Node(name="a", op="call_function", module="layer", inputs=("x",)),
        Node(name="b", op="loop", module="layer", inputs=("a", "x")),
        Node(name="out", op="output", inputs=("b",)),
    )
    graph = Graph(stage="after_fusion", nodes=nodes)
    assert graph.operators == 2 and graph.modules == {"layer": 2}
    assert graph.edges == [("x", "a"), ("a", "b"), ("x", "b"), ("b", "out")]
    assert Graph.from_json(graph.to_json()) == graph


# Taking one


def test_a_capture_waits_for_a_measurement_and_can_be_stopped(folders: Path) -> None:
    spec = a_spec(image_size=32)
    with (folders / "machine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        captures.start(spec)
        wait(lambda: (now := captures.state(spec)) is not None and now.phase == "waiting")
        with pytest.raises(captures.CaptureBusy):
            captures.take(spec)
        captures.start(spec)  # one is enough
        captures.stop(spec)
        wait(lambda: captures.state(spec) is None)
    assert captures.find(spec) is None
    assert not (captures.folder_of(captures.key_of(spec)) / "state.json").exists()


def test_the_caches_of_a_killed_capture_go_with_the_next_one_that_is_taken(folders: Path) -> None:
    caches = folders / "caches"
    for key in ("killed", "deleted", "being-taken"):
        (caches / f"capture-{key}" / "inductor").mkdir(parents=True)
    for key in ("killed", "being-taken"):
        captures.folder_of(key).mkdir(parents=True)
    with captures._only_one("being-taken"):
        captures._remove_remains()
    assert {path.name for path in caches.glob("capture-*")} == {"capture-being-taken"}
    assert captures.stored() == []


def test_whoever_looks_at_a_capture_holds_up_nobody() -> None:
    captures.folder_of("key").mkdir(parents=True)
    lock = captures.folder_of("key") / "lock"
    one, other = locked(lock, shared=True), locked(lock, shared=True)
    assert one is not None and other is not None, "two may look at a time"
    os.close(other)
    threading.Timer(0.2, os.close, (one,)).start()
    with captures._only_one("key"):
        assert locked(lock, shared=True) is None


def wait(happened: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--variant", "eager"], "a capture shows what torch.compile makes of a model"),
        (["--model", "function:sin_cos", "--task", "train"], "has no parameters to train"),
        (["--stage", "nothing"], "'nothing' is not one of"),
    ],
)
def test_the_command_says_what_cannot_be_captured(
    arguments: list[str], said: str, folders: Path
) -> None:
    given = ["graph", "--model", "small_cnn", "--device", "cpu", "--out", str(folders / "out")]
    done = CliRunner().invoke(main, [*given, *arguments])
    assert done.exit_code == 2 and said in done.output
    assert not (folders / "out").exists()
