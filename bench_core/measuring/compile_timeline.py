"""The phases of a first call, from Dynamo's own log of its events: when each began and ended.

Costs nothing measurable: two functions that torch calls anyway are called through ours. What would
change the keys of its caches, such as a table of decompositions of our own, stays away from here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from bench_core.measuring import private_names
from bench_core.measuring.graph_stages import Fields
from bench_core.measuring.replaced import replaced

BUILD, FIRST_CALL = "build", "first call"
SHORTEST = 0.02
# Torch's names of what it times, by the phase that they belong to; a name's own time is its phase's
# until another one begins within it.
PHASES = {
    "entire_frame_compile": "TorchDynamo",
    "_compile.compile_inner": "TorchDynamo",
    "bytecode_tracing": "TorchDynamo",
    "build_guards": "TorchDynamo",
    "aot_module_simplified": "AOTAutograd",
    "create_aot_dispatcher_function": "AOTAutograd",
    "entire_backward_compile": "AOTAutograd",
    "backward._backward_impl": "AOTAutograd",
    "AOTAutogradCache.inductor_load": "AOTAutograd",
    "compile_fx_inner": "TorchInductor",
    "inductor_compile": "TorchInductor",
    "_recursive_joint_graph_passes": "TorchInductor",
    "GraphLowering.codegen": "TorchInductor",
    # What is compiled by this thread itself: headers, and which instructions the machine has.
    "compile_file": BUILD,
    "async_compile.precompile": BUILD,
    "async_compile.wait": BUILD,
    "PyCodeCache.load_by_key_path": BUILD,
    "CachingAutotuner.precompile": BUILD,
    "triton_bundler.save_static_autotuners": BUILD,
}


class Span(NamedTuple):
    """On the clock of perf_counter_ns."""

    name: str
    began_ns: int
    ended_ns: int


@contextmanager
def recorded() -> Iterator[list[Span]]:
    """The list fills with what torch times in this process: a GPU's backward has its own thread."""
    spans: list[Span] = []
    open_: dict[tuple[int, str], list[int]] = {}
    caller = threading.get_ident()
    with ExitStack() as stack:
        home: Any = private_names.holder_of("event_start")
        if private_names.find("event_start") and private_names.find("event_end"):
            start, end = home.log_event_start, home.log_event_end

            def started(logger: Any, name: str, *more: Any, **named: Any) -> None:
                key = threading.get_ident(), name
                open_.setdefault(key, []).append(time.perf_counter_ns())
                start(logger, name, *more, **named)

            def ended(logger: Any, name: str, *more: Any, **named: Any) -> None:
                end(logger, name, *more, **named)
                key = threading.get_ident(), name
                elsewhere = name == "compile_file" and key[0] != caller
                if (began := open_.get(key)) and not elsewhere:
                    spans.append(Span(name, began.pop(), time.perf_counter_ns()))

            stack.enter_context(replaced(home, "log_event_start", started))
            stack.enter_context(replaced(home, "log_event_end", ended))
        yield spans


def phases(spans: Iterable[Span], began_ns: int, ended_ns: int, build: str) -> list[Fields]:
    """The call as stretches of phases in the order of their starts; each moment counts once.

    What is in no span of torch's is the call itself. `build` names what builds the kernels. A phase
    that is back after less than SHORTEST of the call goes on; what lay between lies within it.
    """
    known = [
        (max(span.began_ns, began_ns), min(span.ended_ns, ended_ns), PHASES[span.name])
        for span in spans
        if span.name in PHASES and span.began_ns < ended_ns and span.ended_ns > began_ns
    ]
    edges = sorted({began_ns, ended_ns, *(edge for one in known for edge in one[:2])})
    patience = SHORTEST * (ended_ns - began_ns)
    stretches: dict[str, list[list[int]]] = {}  # began, ended, own nanoseconds
    for start, stop in zip(edges, edges[1:], strict=False):
        within = [one for one in known if one[0] <= start and one[1] >= stop]
        # The innermost is the one that began last; of equals, the shorter.
        name = max(within, key=lambda one: (one[0], -one[1]))[2] if within else FIRST_CALL
        of_phase = stretches.setdefault(name, [])
        if not of_phase or start - of_phase[-1][1] > patience:
            of_phase.append([start, stop, 0])
        of_phase[-1][1:] = [stop, of_phase[-1][2] + stop - start]
    return sorted(
        (
            {
                "name": build if name == BUILD else name,
                "began_seconds": (start - began_ns) / 1e9,
                "ended_seconds": (stop - began_ns) / 1e9,
                "seconds": own / 1e9,
            }
            for name, found in stretches.items()
            for start, stop, own in found
        ),
        key=lambda one: one["began_seconds"],
    )
