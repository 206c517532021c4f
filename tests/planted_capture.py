"""Captures written without torch, in the stored form: a network of residual blocks.

`plant_capture(spec)` writes what a capture of such a run would leave: graphs of every stage, code,
kernels with their times, phases, other ways to capture. The same call gives the same capture;
`blocks` says how large it is, and 33 are a resnet101.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any

from pydantic import TypeAdapter

from bench_core import captures
from bench_core.captured import (
    Alternative,
    Break,
    Capture,
    CodeFile,
    Cost,
    Decomposition,
    Frame,
    GraphFile,
    Kernel,
    ModuleCost,
    Phase,
    Timeline,
)
from bench_core.graph import Graph, Node, Part, Stage
from bench_core.spec import Measurement, RunSpec, Variant, Workload

OF_NORM = ("var_mean", "add", "rsqrt", "sub", "mul", "mul", "add")
BREAK = Break(
    reason="data-dependent jump", place="model.py:7", function="forward", line="if x.sum() > 0:"
)
KERNEL_LINES = 20
KERNELS: TypeAdapter[tuple[Kernel, ...]] = TypeAdapter(tuple[Kernel, ...])


def capture_spec(
    model: str = "resnet18", task: str = "train", device: str = "cpu", **changed: Any
) -> RunSpec:
    variant = changed.pop("variant", Variant(execution="compile"))
    return RunSpec(
        workload=Workload(
            model=model,
            task=task,
            batch_size=16,
            samples=16,
            pipeline="resident",
            **changed,
        ),
        variant=variant,
        measurement=Measurement(weights="random"),
        device=device,
    )


class _Chain:
    """Nodes in a row, each reading the one before it."""

    def __init__(self, start: str = "") -> None:
        self.nodes: list[Node] = []
        self.last = start

    def add(self, name: str, op: str, target: str, module: str, *more: str, **rest: Any) -> str:
        inputs = tuple(filter(None, (self.last, *more)))
        self.nodes.append(
            Node(name=name, op=op, target=target, module=module, inputs=inputs, **rest)
        )
        self.last = name
        return name


def _dynamo(blocks: int) -> list[Node]:
    chain = _Chain("x")
    chain.nodes.append(Node(name="x", op="placeholder", target="L_x_"))
    for one in range(blocks):
        entry, path = chain.last, f"layer.{one}"
        chain.add(f"conv_{one}", "call_function", "torch.conv2d", f"{path}.conv")
        chain.add(f"bn_{one}", "call_function", "F.batch_norm", f"{path}.bn")
        chain.add(f"plus_{one}", "call_function", "operator.iadd", path, entry)
        chain.add(f"relu_{one}", "call_function", "F.relu", f"{path}.relu")
    chain.add("fc", "call_function", "F.linear", "fc")
    chain.add("output", "output", "output", "")
    return chain.nodes


def _traced(blocks: int, backward: bool) -> list[Node]:
    """ATen operators of one direction; the backward computes each first operator again."""
    chain = _Chain()
    chain.nodes.append(Node(name="arg", op="placeholder", target="arg"))
    chain.last = "arg"
    back: dict[str, Any] = {"backward": True} if backward else {}
    word = "convolution_backward" if backward else "convolution"
    order = reversed(range(blocks)) if backward else range(blocks)
    for one in order:
        path = f"layer.{one}"
        entry = chain.last
        chain.add(f"conv{'_b' * backward}_{one}", "call_function", f"aten.{word}.default",
                  f"{path}.conv", **back)  # fmt: skip
        for place, name in enumerate(OF_NORM):
            again = backward and place == 0
            chain.add(
                f"{name}{'_b' * backward}_{one}_{place}",
                "call_function",
                f"aten.{name}.Tensor",
                f"{path}.bn",
                recomputed=again,
                **back,
            )
        chain.add(
            f"relu{'_b' * backward}_{one}", "call_function", "aten.relu.default",
            f"{path}.relu", entry, **back,
        )  # fmt: skip
    chain.add("output", "output", "output", "")
    return chain.nodes


def _scheduled(blocks: int, part: Part, kind: str) -> tuple[list[Node], list[Node]]:
    """The scheduler's nodes before and after fusion: a library's call and a loop a block."""
    before, after = _Chain(), _Chain()
    back: dict[str, Any] = {"backward": True} if part == "backward" else {}
    mark = "_b" if part == "backward" else ""
    called = "convolution_backward" if mark else "convolution"
    for one in range(blocks):
        path = f"layer.{one}"
        call = dict(module=f"{path}.conv", origins=(f"conv{mark}_{one}",), **back)
        first = 10 * one
        before.add(f"op{first}", "extern", f"extern_kernels.{called}", **call)
        after.add(f"op{first}", "extern", f"extern_kernels.{called}", **call)
        members = []
        kernel = _kernel_name(kind, one)
        group = "_".join(f"op{first + 1 + place}" for place in range(len(OF_NORM)))
        for place, name in enumerate(OF_NORM):
            made = f"{name}{mark}_{one}_{place}"
            members.append(f"op{first + 1 + place}")
            before.add(members[-1], "loop", f"{name}", f"{path}.bn", group=group, kernel=kernel,
                       origins=(made,), **back)  # fmt: skip
        after.add(
            group,
            "loop",
            ", ".join(dict.fromkeys(OF_NORM)),
            f"{path}.bn",
            kernel=kernel,
            members=tuple(members),
            origins=tuple(f"{name}{mark}_{one}_{place}" for place, name in enumerate(OF_NORM)),
            **back,
        )
    return before.nodes, after.nodes


def _kernel_name(kind: str, number: int) -> str:
    return f"{'cpp' if kind == 'C++' else 'triton_poi'}_fused_batch_norm_relu_{number}"


def _code(blocks: int, part: Part, kind: str) -> tuple[str, list[Kernel]]:
    """A module as TorchInductor writes it, short, and its kernels in the order of their calls."""
    maker = "cpp_pybinding" if kind == "C++" else "triton"
    file, lines, kernels = f"code/00-{part}.py", ["# AOT ID: ['0_planted']"], []
    first_call = 2 + blocks * KERNEL_LINES + 1
    mark = "_b" if part == "backward" else ""
    called = "convolution_backward" if mark else "convolution"
    for one in range(blocks):
        name = _kernel_name(kind, one)
        first = len(lines) + 1
        lines.append(f"{name} = async_compile.{maker}('''")
        lines += [f"    tmp{line} = in_ptr0[{line}];" for line in range(KERNEL_LINES - 2)]
        lines.append("''')")
        line = first_call + 2 * one
        kernels.append(
            Kernel(
                number=0, part=part, name=f"extern_kernels.{called}", kind="extern", file=file,
                first_line=line, last_line=line, calls=(line,), nodes=(f"op{10 * one}",),
                origins=(f"conv{mark}_{one}",), operators=(f"aten.{called}.default",),
                modules=(f"layer.{one}.conv",), seconds=0.004 + 0.0001 * one,
                eager_seconds=0.004 + 0.0001 * one, together_seconds=0.004 + 0.0001 * one,
            )
        )  # fmt: skip
        group = "_".join(f"op{10 * one + 1 + place}" for place in range(len(OF_NORM)))
        kernels.append(
            Kernel(
                number=0, part=part, name=name, kind=kind, file=file,
                first_line=first, last_line=first + KERNEL_LINES - 1, calls=(line + 1,),
                nodes=(group,),
                origins=tuple(f"{one_}{mark}_{one}_{at}" for at, one_ in enumerate(OF_NORM)),
                operators=tuple(dict.fromkeys(f"aten.{one_}.Tensor" for one_ in OF_NORM)),
                modules=(f"layer.{one}.bn", f"layer.{one}.relu"), seconds=0.001,
                eager_seconds=0.0019, together_seconds=0.001,
            )
        )  # fmt: skip
    lines.append("def call(args):")
    for one in range(blocks):
        lines.append(f"    extern_kernels.{called}(buf{one}, out=buf{one + 1})")
        lines.append(f"    {_kernel_name(kind, one)}(buf{one + 1})")
    return "\n".join(lines) + "\n", kernels


def plant_capture(
    spec: RunSpec | None = None,
    *,
    blocks: int = 3,
    breaks: Sequence[Break] = (),
    timed: bool = True,
    without: Sequence[Stage | str] = (),
    kind: str = "C++",
    **changed: Any,
) -> Capture:
    """Write a capture of `spec` and return it. `without` names stages, or `code`, that are not
    there; `changed` sets fields of the summary."""
    spec = captures.essence(spec or capture_spec())
    key = captures.key_of(spec)
    folder = captures.folder_of(key)
    for name in ("graphs", "code"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    trains = spec.workload.task == "train"
    parts: list[Part] = ["forward", "backward"] if trains else ["forward"]
    joint = [*_traced(blocks, False)[:-1], *(_traced(blocks, True)[1:] if trains else [])]
    made: list[tuple[Stage, Part, list[Node]]] = [
        ("dynamo", "forward", _dynamo(blocks)),
        ("joint", "both" if trains else "forward", joint),
    ]
    codes, kernels = [], []
    for part in parts:
        traced = _traced(blocks, part == "backward")
        before, after = _scheduled(blocks, part, kind)
        made += [("before_passes", part, traced), ("after_passes", part, traced)]
        made += [("before_fusion", part, before), ("after_fusion", part, after)]
        text, of_part = _code(blocks, part, kind)
        if "code" not in without:
            (folder / "code" / f"00-{part}.py").write_text(text, encoding="utf-8")
            codes.append(
                CodeFile(
                    number=0, part=part, file=f"code/00-{part}.py", kernels=blocks,
                    kernel_calls=blocks, extern_calls=blocks, lines=text.count("\n"),
                )
            )  # fmt: skip
            kernels += of_part
    files = []
    for stage, part, nodes in made:
        if stage not in without:
            graph = Graph(stage=stage, part=part, nodes=tuple(nodes))
            name = f"graphs/00-{part}-{stage}"
            (folder / f"{name}.json").write_text(graph.to_json(), encoding="utf-8")
            (folder / f"{name}.txt").write_text(f"def forward(self):  # {stage}\n")
            files.append(
                GraphFile(
                    stage=stage, part=part, number=0, file=f"{name}.json", text=f"{name}.txt",
                    nodes=len(graph.nodes), operators=graph.operators,
                )
            )  # fmt: skip
    if not timed:
        kernels = [
            one.changed(seconds=None, eager_seconds=None, together_seconds=None) for one in kernels
        ]
    (folder / "kernels.json").write_bytes(KERNELS.dump_json(tuple(kernels)))
    extern = sum(kernel.seconds or 0.0 for kernel in kernels if kernel.kind == "extern")
    loops = sum(kernel.seconds or 0.0 for kernel in kernels if kernel.kind != "extern")
    fields: dict[str, Any] = {
        "torch": metadata.version("torch"),
        "captured_at": 1_764_000_000.0,
        "parameters": 1000 * blocks,
        "parts": ("graphs", "cost", "warm") if timed else ("graphs",),
        "seconds": {"graphs": 22.0, **({"cost": 51.0, "warm": 9.0} if timed else {})},
        "frames": (_frame(files, breaks),) if "dynamo" not in without else (),
        "graphs": tuple(files),
        "code": tuple(codes),
        "decompositions": (
            Decomposition(
                operator="aten.batch_norm.default",
                source="torch._decomp",
                calls=blocks,
                made=blocks * len(OF_NORM),
                seconds=0.02,
            ),
        ),
        "alternatives": (
            Alternative(way="TorchDynamo", captured=True, graphs=1, operators=4 * blocks + 1),
            Alternative(way="torch.jit.script", captured=True, graphs=1, operators=9),
            Alternative(
                way="torch.fx.symbolic_trace",
                captured=False,
                reason="symbolically traced variables cannot be used as inputs to control flow",
                place="model.py:7",
            ),
        ),
    }
    if timed:
        fields["timelines"] = (
            _timeline("cold", (0.9, 0.5, 3.2, 17.6, 0.9)),
            _timeline("warm", (0.62, 0.1, 0.2, 0.0, 0.08)),
        )
        fields["cost"] = Cost(
            steps=5,
            step_seconds=extern + loops + 0.012,
            eager_step_seconds=extern + 2 * loops + 0.012,
            kernel_seconds=loops,
            extern_seconds=extern,
            modules=tuple(
                ModuleCost(
                    module=f"layer.{one}.bn",
                    part=part,
                    number=0,
                    seconds=0.001,
                    eager_seconds=0.002,
                )
                for one in range(blocks)
                for part in parts
            ),
        )
    capture = Capture(key=key, spec=spec, **{**fields, **changed})
    (folder / "capture.json").write_text(capture.to_json(), encoding="utf-8")
    return capture


def _frame(files: Sequence[GraphFile], breaks: Sequence[Break]) -> Frame:
    first = next(file for file in files if file.stage == "dynamo")
    return Frame(
        number=0,
        compile_id="0/0",
        function="forward",
        place="model.py:3",
        nodes=first.nodes,
        operators=first.operators,
        guards=12,
        breaks=tuple(breaks),
    )


PHASES = ("TorchDynamo", "AOTAutograd", "TorchInductor", "C++/OpenMP", "first call")


def _timeline(cache: str, seconds: Sequence[float]) -> Timeline:
    phases, began = [], 0.0
    for name, lasted in zip(PHASES, seconds, strict=True):
        if lasted:
            phases.append(
                Phase(name=name, began_seconds=began, ended_seconds=began + lasted, seconds=lasted)
            )
        began += lasted
    return Timeline(
        cache=cache,
        first_call_seconds=sum(seconds),
        phases=tuple(phases),
    )
