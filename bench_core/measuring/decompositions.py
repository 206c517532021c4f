"""What AOTAutograd replaces by decompositions, PrimTorch's and TorchInductor's: counted, timed."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any

from bench_core.measuring import private_names
from bench_core.measuring.graph_stages import Fields


class Decompositions:
    """TorchInductor's table of decompositions, counting what AOTAutograd replaces by it."""

    def __init__(self) -> None:
        self.counts: dict[str, Fields] = {}
        self.depth = 0

    def table(self) -> Mapping[Any, Any] | None:
        select = private_names.find("select_decomp_table")
        if select is None or private_names.find("get_proxy_mode") is None:
            return None
        return {operator: self._counted(operator, made) for operator, made in select().items()}

    def _counted(self, operator: Any, decompose: Callable[..., Any]) -> Callable[..., Any]:
        proxy_mode: Any = private_names.find("get_proxy_mode")

        def counted(*args: Any, **kwargs: Any) -> Any:
            mode = proxy_mode()
            if mode is None or self.depth:  # shapes alone are asked for; or one within another
                return decompose(*args, **kwargs)
            graph = mode.tracer.graph
            before, began = len(graph.nodes), time.perf_counter()
            self.depth += 1
            try:
                made = decompose(*args, **kwargs)
            finally:
                self.depth -= 1
            if made is not NotImplemented:
                fresh = {"source": _source(decompose), "calls": 0, "made": 0, "seconds": 0.0}
                count = self.counts.setdefault(str(operator), fresh)
                count["calls"] += 1
                count["made"] += len(graph.nodes) - before
                count["seconds"] += time.perf_counter() - began
            return made

        return counted

    def found(self) -> list[Fields]:
        found = [{"operator": operator, **count} for operator, count in self.counts.items()]
        return sorted(found, key=lambda one: (-one["made"], one["operator"]))


def _source(decompose: Any) -> str:
    """The module that defines it, without what wraps it: `torch._refs`, `torch._decomp`."""
    home = getattr(inspect.unwrap(decompose), "__module__", "") or ""
    return ".".join(home.split(".")[:2])
