"""What torch.compile makes of a model, stage by stage: graphs, fusion and code; no kernel is built.

A backend of our own keeps what Dynamo hands it, lets TorchInductor lower it with hooks between its
stages and stops where the kernels would be built; the model then runs in eager mode, so that what
lies behind a graph break is captured too. Reads torch's private names through private_names.py.
"""

from __future__ import annotations

import contextlib
import copy
import linecache
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from bench_core.measuring import generated_code, graph_stages, private_names
from bench_core.measuring.capture_subject import Subject
from bench_core.measuring.compile_activity import LIMIT_HIT, gist_of
from bench_core.measuring.decompositions import Decompositions
from bench_core.measuring.failures import failed
from bench_core.measuring.graph_stages import Fields
from bench_core.measuring.replaced import replaced
from bench_core.spec import RunSpec

Tell = Callable[[str, Fields], None]
# Where the last words of each stage are found, for a sentence about a failure.
WHERE = {
    "": "while TorchDynamo captured the model",
    "dynamo": "while AOTAutograd traced the graph",
    "joint": "while AOTAutograd divided the graph",
    "before_passes": "while TorchInductor replaced operators",
    "after_passes": "while TorchInductor lowered the graph",
    "before_fusion": "while TorchInductor fused loops",
    "after_fusion": "while TorchInductor generated code",
}

# What Dynamo's record of a break calls by the name of its own function.
PLAIN_REASONS = {"generic_jump": "Data-dependent branching: a tensor's value decides what follows"}


def capture(subject: Subject, tell: Tell) -> Fields:
    """Tell of every stage that is reached; what fails is told too, and ends nothing else.

    Returns how far TorchDynamo came, as capture_alternatives has it of the others.
    """
    for lack in private_names.missing():
        tell("missing", lack)
    if (backend := subject.spec.variant.backend) != "inductor":
        reason = f"backend {backend} does not hand its graphs to TorchInductor; choose inductor"
        tell("missing", {"what": "everything that follows TorchDynamo", "reason": reason})
    stages = Stages(subject.spec, tell)
    compiled = subject.compiled_with(stages.backend)
    try:
        with stages.hooks():
            subject.step_with(compiled)()
    except Exception as error:
        stages.tell_failure(error)
    stages.tell_frames()
    stages.tell_decompositions()
    tell("counts", {"ir_nodes_before_fusion": private_names.find("ir_nodes_pre_fusion")})
    return stages.summed_up()


class Stages:
    """The backend, and what its hooks have seen so far of the graph that is being compiled."""

    def __init__(self, spec: RunSpec, tell: Tell) -> None:
        self.spec, self._tell = spec, tell
        self.frames: list[Fields] = []
        self.breaks_told = 0
        self.reason = ""  # of the first failure
        self.stage = ""
        self.part = "forward"
        self.forward_operators: list[str] = []
        self.operators: dict[str, Fields] = {}
        self.before_fusion: list[Fields] = []
        self.after_fusion: list[Fields] = []
        self.makers: dict[str, str] = {}  # buffers by the node of after_fusion that writes them
        self.kernels_of: dict[str, list[str]] = {}
        self.decompositions = Decompositions()

    # The backend and its hooks

    def backend(self, module: Any, inputs: list[Any]) -> Callable[..., Any]:
        self.stage = ""
        self._tell_dynamo(module)
        in_eager = copy.deepcopy(module)  # TorchInductor owns what it is given, and changes it
        if self.spec.variant.backend == "inductor":
            try:
                self._lower(module, inputs)
            except Exception as error:
                if "RestartAnalysis" in {kind.__name__ for kind in type(error).__mro__}:
                    # No failure: Dynamo captures the same graph once more, with what it learned.
                    self.breaks_told -= len(self.frames.pop()["breaks"])
                    raise
                self.tell_failure(error, lowering=True)
        return in_eager.forward

    def _lower(self, module: Any, inputs: list[Any]) -> None:
        compile_fx = private_names.find("compile_fx")
        if compile_fx is None:
            return
        self.part, self.forward_operators = "forward", []
        compile_fx(
            module,
            inputs,
            inner_compile=self._inner_compile,
            config_patches=self._config(),
            decompositions=self.decompositions.table(),
        )

    def _inner_compile(self, module: Any, inputs: Any, **arguments: Any) -> Any:
        self.part = "backward" if arguments.get("is_backward") else "forward"
        compile_inner: Any = private_names.find("compile_fx_inner")
        return compile_inner(module, inputs, **arguments)

    def _config(self) -> dict[str, Any]:
        variant, modes = self.spec.variant, private_names.find("list_mode_options")
        # Every stage anew; what the environment switches off would take the probe of the
        # machine's vector instructions with it, ten seconds of C++ compiler.
        config: dict[str, Any] = {"fx_graph_cache": False, "fx_graph_remote_cache": False}
        if variant.mode and variant.mode != "default" and modes:
            config |= modes(variant.mode, variant.dynamic)
        for name, value in (variant.options or {}).items():
            config[name.replace("-", "_")] = value
        hooks = {
            "joint_custom_post_pass": self._joint,
            "post_grad_custom_pre_pass": self._before_passes,
            "post_grad_custom_post_pass": self._after_passes,
            "_pre_fusion_custom_pass": self._before_fusion,
            "_post_fusion_custom_pass": self._after_fusion,
        }
        return config | {name: hook for name, hook in hooks.items() if private_names.find(name)}

    @contextlib.contextmanager
    def hooks(self) -> Iterator[None]:
        """For the time of a capture: lower backward graphs at once, and build no kernel."""
        with contextlib.ExitStack() as stack:
            lowering, patch = self._backward_switches(), private_names.find("functorch_config")
            if lowering and patch:
                stack.enter_context(patch(lowering))
            if private_names.find("compile_to_module"):
                from torch._inductor.graph import GraphLowering

                keep = self._code
                stack.enter_context(
                    replaced(GraphLowering, "compile_to_module", lambda lowering: keep(lowering))
                )
            for key in ("cpp_kernels", "triton_kernels"):
                if private_names.find(key):
                    home: Any = private_names.holder_of(key)
                    defining = self._defining(home.define_kernel)
                    stack.enter_context(replaced(home, "define_kernel", defining))
            yield

    @staticmethod
    def _backward_switches() -> dict[str, bool]:
        wanted = {"force_non_lazy_backward_lowering": True, "enable_autograd_cache": False}
        return {name: value for name, value in wanted.items() if private_names.find(name)}

    # The stages

    def _tell_dynamo(self, module: Any) -> None:
        number = len(self.frames)
        nodes = graph_stages.fx_nodes(module.graph)
        self._tell_graph("dynamo", nodes, graph_stages.fx_text(module), self._drawing(module))
        current = private_names.find("current_compile_id")
        self.frames.append(
            {
                "number": number,
                "compile_id": str(current() or "") if current else "",
                "nodes": len(nodes),
                "operators": len(graph_stages.operators(nodes)),
                "breaks": self._new_breaks(),
            }
        )

    def _drawing(self, module: Any) -> str:
        try:
            return graph_stages.fx_drawing(module) if module is not None else ""
        except Exception as error:  # it formats what users put into their graphs
            reason = f"{type(error).__name__}: {error}"
            self._tell("missing", {"what": "torch.fx's own drawing of a graph", "reason": reason})
            return ""

    def _tell_graph(
        self, stage: str, nodes: list[Fields], text: str = "", drawing: str = ""
    ) -> None:
        number = len(self.frames) - (stage != "dynamo")
        part = "both" if stage == "joint" and _holds_backward(nodes) else self.part
        if stage == "dynamo":
            part = "forward"
        self.stage = stage
        self._tell(
            "graph",
            {
                "stage": stage,
                "part": part,
                "number": number,
                "nodes": nodes,
                "text": text,
                "drawing": drawing,
            },
        )

    def _joint(self, graph: Any) -> None:
        self._tell_graph("joint", graph_stages.fx_nodes(graph), _text_of(graph))

    def _before_passes(self, graph: Any) -> None:
        nodes = graph_stages.fx_nodes(graph, self._of_the_forward())
        if self.part == "forward":
            self.forward_operators = graph_stages.operators(nodes)
        self._tell_graph("before_passes", nodes, _text_of(graph))

    def _after_passes(self, graph: Any) -> None:
        nodes = graph_stages.fx_nodes(graph, self._of_the_forward())
        self.operators = {node["name"]: node for node in nodes if node["op"].startswith("call_")}
        drawing = self._drawing(graph.owning_module)
        self._tell_graph("after_passes", nodes, _text_of(graph), drawing)

    def _of_the_forward(self) -> list[str]:
        return self.forward_operators if self.part == "backward" else []

    def _before_fusion(self, nodes: Any) -> Any:
        self.before_fusion = graph_stages.scheduled(nodes, self.operators)
        self.stage = "before_fusion"
        return nodes

    def _after_fusion(self, nodes: Any) -> Any:
        self.after_fusion = graph_stages.scheduled(nodes, self.operators)
        self.makers = {name: one.get_name() for one in nodes for name in one.get_buffer_names()}
        self.stage = "after_fusion"
        return nodes

    def _defining(self, define: Callable[..., str]) -> Callable[..., str]:
        """Generated kernels by the scheduler's nodes that they hold."""
        kernels_of = self.kernels_of

        def defining(scheduling: Any, source: str, nodes: Any, *more: Any, **named: Any) -> str:
            nodes = list(nodes)
            kernel = define(scheduling, source, nodes, *more, **named)
            for node in nodes:
                if hasattr(node, "get_nodes"):  # between them stand marks of loops
                    for one in node.get_nodes():
                        kernels_of.setdefault(one.get_name(), []).append(kernel)
            return kernel

        return defining

    def _code(self, lowering: Any) -> Any:
        """In the place of building the kernels: the text, and what it consists of."""
        self.kernels_of.clear()
        self.before_fusion, self.after_fusion = [], []
        generate = lowering.codegen_with_cpp_wrapper if lowering.cpp_wrapper else lowering.codegen
        try:
            made = generate()
        finally:
            self._tell_fusion()  # what was fused is known though the code cannot be written
        text = made[0].value
        try:
            parsed = generated_code.parse(text)
        except SyntaxError as error:
            reason = f"the generated module is not read as Python: {error}"
            self._tell("missing", {"what": "the kernels", "reason": reason})
            parsed = generated_code.Parsed((), ())
        self._tell(
            "code",
            {
                "number": len(self.frames) - 1,
                "part": self.part,
                "text": text,
                "kernels": [*self._generated(parsed), *self._externs(parsed)],
            },
        )
        return NotBuilt()

    def _tell_fusion(self) -> None:
        """Both graphs of the scheduler, now that each node's kernel is known."""
        group_of = {
            member: node["name"]
            for node in self.after_fusion
            for member in node.get("members", (node["name"],))
        }
        for node in self.before_fusion:
            name = node["name"]
            node["group"] = group_of.get(name, "")
            node["kernel"] = ", ".join(dict.fromkeys(self.kernels_of.get(name, ())))
        for node in self.after_fusion:
            members = node.get("members", (node["name"],))
            kernels = [one for name in members for one in self.kernels_of.get(name, ())]
            node["kernel"] = ", ".join(dict.fromkeys(kernels))
        if self.before_fusion:
            self._tell_graph("before_fusion", self.before_fusion)
        if self.after_fusion:
            self._tell_graph("after_fusion", self.after_fusion)

    def _generated(self, parsed: generated_code.Parsed) -> Iterator[Fields]:
        for one in parsed.definitions:
            nodes = [node for node in self.after_fusion if one.name in node["kernel"].split(", ")]
            yield {
                "name": one.name,
                "kind": one.kind,
                "first_line": one.first_line,
                "last_line": one.last_line,
                "calls": [call.line for call in parsed.calls if call.name == one.name],
                **self._contents(nodes),
            }

    def _externs(self, parsed: generated_code.Parsed) -> Iterator[Fields]:
        for call in parsed.calls:
            if call.extern:
                makers = {self.makers.get(name) for name in call.buffers}
                nodes = [node for node in self.after_fusion if node["name"] in makers]
                yield {
                    "name": call.name,
                    "kind": "extern",
                    "first_line": call.line,
                    "last_line": call.line,
                    "calls": [call.line],
                    **self._contents(nodes),
                }

    def _contents(self, nodes: list[Fields]) -> Fields:
        """What a kernel was made from."""
        wanted = {name for node in nodes for name in node.get("origins", ())}
        made_from = [node for name, node in self.operators.items() if name in wanted]
        return {
            "nodes": [node["name"] for node in nodes],
            "origins": [node["name"] for node in made_from],
            "operators": list(dict.fromkeys(node["target"] for node in made_from)),
            "modules": list(dict.fromkeys(node.get("module", "") for node in made_from)),
        }

    # What is told at the end

    def _new_breaks(self) -> list[Fields]:
        """The reasons that came since the last graph: Dynamo gives them before it compiles."""
        reasons = private_names.find("graph_break_reasons")
        if not isinstance(reasons, list):
            return []
        new, self.breaks_told = reasons[self.breaks_told :], len(reasons)
        return [_break(one) for one in new if LIMIT_HIT not in one.reason]

    def tell_frames(self) -> None:
        metrics = private_names.find("compilation_metrics")
        known = {one.compile_id: one for one in metrics()} if metrics else {}
        if self.frames:
            self.frames[-1]["breaks"] += self._new_breaks()
        for frame in self.frames:
            if found := known.get(frame["compile_id"]):
                frame["guards"] = found.guard_count
                frame["function"] = found.co_name or ""
                file = Path(found.co_filename or "").name
                frame["place"] = f"{file}:{found.co_firstlineno}" if file else ""
            self._tell("frame", frame)

    def summed_up(self) -> Fields:
        breaks = [one for frame in self.frames for one in frame["breaks"]]
        first: Fields = breaks[0] if breaks else {}
        return {
            "captured": bool(self.frames),
            "graphs": len(self.frames),
            "operators": sum(frame["operators"] for frame in self.frames),
            "reason": first.get("reason", "" if self.frames else self.reason),
            "place": first.get("place", ""),
        }

    def tell_decompositions(self) -> None:
        self._tell("decompositions", {"found": self.decompositions.found()})

    def tell_failure(self, error: BaseException, lowering: bool = False) -> None:
        """The first one; a later one may follow from it."""
        if self.reason:
            return
        said = failed(error, self.spec, "capture", compiling="DYNAMO" if lowering else None)
        kinds = {kind.__name__ for kind in type(error).__mro__}
        compiling = lowering or "TorchDynamoException" in kinds
        where = WHERE[self.stage] if compiling else "while the model ran"
        self.reason = said.reason.replace(said.phase, where)
        self._tell(
            "failed", said.changed(phase=where, reason=self.reason).model_dump(exclude={"event"})
        )


class NotBuilt:
    """Stands for the module that would have been built; nobody calls it."""

    def call(self, *_: Any) -> None:
        raise RuntimeError("this module was captured, not built")


def _break(reason: Any) -> Fields:
    """A graph break, from Dynamo's own record of it."""
    gist = gist_of(reason.reason)
    found: Fields = {"reason": PLAIN_REASONS.get(gist.split(" ")[0], gist)}
    if reason.user_stack:
        at = reason.user_stack[-1]
        line = at.line or linecache.getline(at.filename, at.lineno or 0)
        found |= {
            "place": f"{Path(at.filename).name}:{at.lineno}",
            "function": at.name,
            "line": line.strip(),
        }
    return found


def _holds_backward(nodes: Iterable[Fields]) -> bool:
    return any(node["op"] == "placeholder" and "tangents" in node["name"] for node in nodes)


def _text_of(graph: Any) -> str:
    module = graph.owning_module
    return graph_stages.fx_text(module) if module is not None else str(graph)
