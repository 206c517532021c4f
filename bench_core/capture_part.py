"""One part of a capture: its process from start to end, and what it said, kept as files.

The process is `python -m bench_core.measuring capture PART`: the spec in, JSON lines out.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
from pydantic import TypeAdapter

from bench_core import events, kernel_costs
from bench_core.captured import (
    Alternative,
    Capture,
    CodeFile,
    Cost,
    Decomposition,
    Frame,
    GraphFile,
    Kernel,
    Missing,
    PartName,
    Timeline,
)
from bench_core.child import child_environment, end_processes
from bench_core.graph import Graph, Node
from bench_core.paths import CHECKOUT
from bench_core.whole_file import write

PART_SECONDS = 1800.0
MOST_LOG_BYTES = 4_000_000  # a model may print for ever
POLL_SECONDS = 0.2
_kernels: TypeAdapter[tuple[Kernel, ...]] = TypeAdapter(tuple[Kernel, ...])


def taken(
    capture: Capture, part: PartName, folder: Path, cache: Path, told: Callable[[str], None]
) -> Capture:
    """One process from its start to its end, and the capture with what it said."""
    began = time.monotonic()
    told("starting")
    heard = _Taken(capture, part, folder)
    mark = f"capture-{capture.key}"
    spec = capture.spec
    if part == "graphs":
        # Only the probe of the machine's vector instructions is kept there, ten seconds of C++
        # compiler; the capture switches the caches of graphs off.
        cache = folder.parent / "instructions"
    environment = child_environment(spec, mark, cache)
    environment["BENCH_CAPTURE_FOLDER"] = str(folder)
    with open(folder / "log.txt", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench_core.measuring", "capture", part],
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    created = psutil.Process(process.pid).create_time()
    try:
        for line in _lines(process, spec.to_json(), began + PART_SECONDS, folder / "log.txt"):
            if phase := heard.note(line):
                told(phase)
    except TimeoutError:
        reason = f"the part {part} of the capture took more than {PART_SECONDS:.0f} s"
        heard.fail(events.Failed(failure="timed out", reason=reason, phase=heard.phase))
    finally:
        end_processes(mark, process.pid, created)
        process.wait()
    if not heard.ended:
        heard.fail(_ended_without_a_word(process.returncode, heard.phase, folder / "log.txt"))
    return heard.keep(time.monotonic() - began)


def _lines(
    process: subprocess.Popen[bytes], first: str, deadline: float, log: Path
) -> Iterator[bytes]:
    """What the process says until it ends; its log is held short meanwhile. Raises TimeoutError."""
    assert process.stdin and process.stdout
    said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    stream = process.stdout

    def read_all() -> None:
        for line in stream:
            said.put(line)
        said.put(None)

    threading.Thread(target=read_all, daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(first.encode() + b"\n")
        process.stdin.flush()
    while True:
        if time.monotonic() > deadline:
            raise TimeoutError
        keep_the_end(log)
        try:
            line = said.get(timeout=POLL_SECONDS)
        except queue.Empty:
            continue
        if line is None:
            return
        yield line


def keep_the_end(log: Path, most_bytes: int = MOST_LOG_BYTES) -> None:
    """Halve a log that grew beyond `most_bytes`; whoever appends to it goes on at its new end."""
    if log.stat().st_size <= most_bytes:
        return
    with open(log, "r+b") as file:
        file.seek(-(most_bytes // 2), os.SEEK_END)
        end = file.read(most_bytes // 2)
        file.seek(0)
        file.truncate()
        file.write(end)


def _ended_without_a_word(code: int, phase: str, log: Path) -> events.Failed:
    if code == -signal.SIGKILL:
        reason = (
            "the capture process was killed; if nobody did that, memory ran out and the kernel "
            "did: try a smaller batch or image"
        )
        return events.Failed(failure="killed", reason=reason, phase=phase)
    where = f"; what it printed stands in {log}" if log.stat().st_size else ", nor printed anything"
    reason = f"the capture process ended with code {code} and did not say why{where}"
    return events.Failed(failure="error", reason=reason, phase=phase)


class _Taken:
    """What one part said so far. Files are written as they come, the summary at the end."""

    def __init__(self, capture: Capture, part: PartName, folder: Path) -> None:
        self.capture, self.part, self.folder = capture, part, folder
        self.phase = "starting"
        self.ended = False
        self.failure: events.Failed | None = None
        self.graphs: list[GraphFile] = []
        self.frames: list[Frame] = []
        self.code: list[CodeFile] = []
        self.kernels: list[Kernel] = []
        self.decompositions: list[Decomposition] = []
        self.alternatives: list[Alternative] = []
        self.missing: list[Missing] = []
        self.facts: dict[str, Any] = {}
        self.costs: list[kernel_costs.CallCost] = []
        if part == "graphs":
            for name in ("graphs", "code"):
                shutil.rmtree(self.folder / name, ignore_errors=True)
                (self.folder / name).mkdir()

    def note(self, line: bytes) -> str:
        """Take one line; the phase when it is a new one.

        What the process prints goes to its log, apart from its events; a line that is none of
        these was printed before it came to that, and goes there too.
        """
        try:
            said = json.loads(line)
            kind = said.pop("event")
        except (ValueError, KeyError, AttributeError, TypeError):
            with open(self.folder / "log.txt", "ab") as log:
                log.write(line)
            return ""
        match kind:
            case "phase":
                before, self.phase = self.phase, said["phase"]
                return self.phase if self.phase != before else ""
            case "environment":
                self.facts["environment"] = events.parse(line)
            case "prepared":
                self.facts["parameters"] = said["parameters"]
            case "failed":
                self.fail(events.Failed(**said))
            case "finished":
                self.ended = True
            case "graph":
                kept = self._keep_graph(said)
                # Dynamo may capture a graph once more, and means the last one.
                self.graphs = [one for one in self.graphs if one.file != kept.file] + [kept]
            case "frame":
                self.frames.append(Frame(**said))
            case "code":
                self._keep_code(said)
            case "decompositions":
                self.decompositions += [Decomposition(**one) for one in said["found"]]
            case "alternative":
                self.alternatives.append(Alternative(**said))
            case "missing":
                self.missing.append(Missing(**said))
            case "counts":
                self.facts["ir_nodes_before_fusion"] = said["ir_nodes_before_fusion"]
            case "timeline":
                others = [one for one in self.capture.timelines if one.cache != said["cache"]]
                self.facts["timelines"] = (*others, Timeline(**said))
            case "cost":
                self.costs = [kernel_costs.CallCost(**one) for one in said.pop("calls")]
                self.facts["cost"] = Cost(**said)
        return ""

    def fail(self, failed: events.Failed) -> None:
        """The first one stands: what follows may follow from it."""
        self.failure = self.failure or failed
        self.ended = True

    def _keep_graph(self, said: dict[str, Any]) -> GraphFile:
        text, drawing = said.pop("text", ""), said.pop("drawing", "")
        graph = Graph(**said)
        name = f"{graph.number:02}-{graph.part}-{graph.stage}"
        write(self.folder / "graphs" / f"{name}.json", graph.to_json())
        if text:
            write(self.folder / "graphs" / f"{name}.txt", text)
        if drawing:
            write(self.folder / "graphs" / f"{name}.dot", drawing)
        return GraphFile(
            stage=graph.stage,
            part=graph.part,
            number=graph.number,
            file=f"graphs/{name}.json",
            text=f"graphs/{name}.txt" if text else "",
            drawing=f"graphs/{name}.dot" if drawing else "",
            nodes=len(graph.nodes),
            operators=graph.operators,
        )

    def _keep_code(self, said: dict[str, Any]) -> None:
        number, part, text = said["number"], said["part"], said["text"]
        file = f"code/{number:02}-{part}.py"
        write(self.folder / file, text)
        kernels = [
            Kernel(number=number, part=part, file=file, **kernel) for kernel in said["kernels"]
        ]
        generated = [kernel for kernel in kernels if kernel.kind != "extern"]
        self.kernels += kernels
        self.code.append(
            CodeFile(
                number=number,
                part=part,
                file=file,
                kernels=len(generated),
                kernel_calls=sum(len(kernel.calls) for kernel in generated),
                extern_calls=len(kernels) - len(generated),
                lines=text.count("\n") + 1,
            )
        )

    def keep(self, seconds: float) -> Capture:
        """The capture with this part; on disk when this returns.

        With new graphs it begins anew: what else was kept is of the kernels that were before.
        """
        before, part = self.capture, self.part
        if part == "graphs":
            before = Capture(key=before.key, spec=before.spec)
        failures = {name: one for name, one in before.failures.items() if name != part}
        if self.failure:
            failures[part] = self.failure
        fields: dict[str, Any] = {
            **self.facts,
            "captured_at": time.time(),
            "parts": tuple(dict.fromkeys((*before.parts, part))),
            "failures": failures,
            "seconds": {**before.seconds, part: seconds},
            "missing": tuple(dict.fromkeys((*before.missing, *self.missing))),
        }
        if environment := self.facts.get("environment"):
            fields["torch"] = environment.torch or ""
        if part == "graphs":
            fields |= {
                "frames": tuple(self.frames),
                "graphs": tuple(self.graphs),
                "code": tuple(self.code),
                "decompositions": tuple(self.decompositions),
                "alternatives": tuple(self.alternatives),
            }
            self._write_kernels(self.kernels)
        elif self.costs:
            fields["cost"], kernels = self._shared_out(fields["cost"])
            self._write_kernels(kernels)
        capture = before.changed(**fields)
        write(self.folder / "capture.json", capture.to_json())
        return capture

    def _shared_out(self, cost: Cost) -> tuple[Cost, list[Kernel]]:
        kernels = list(kernels_in(self.folder))
        nodes: dict[kernel_costs.Side, list[Node]] = {}
        for file in self.capture.at("after_passes"):
            graph = Graph.from_json((self.folder / file.file).read_bytes())
            nodes[file.number, file.part] = list(graph.nodes)
        texts = {
            (code.number, code.part): (self.folder / code.file).read_text(encoding="utf-8")
            for code in self.capture.code
        }
        return kernel_costs.shared_out(cost, kernels, self.costs, nodes, texts)

    def _write_kernels(self, kernels: Sequence[Kernel]) -> None:
        text = _kernels.dump_json(tuple(kernels), exclude_defaults=True).decode()
        write(self.folder / "kernels.json", text)


def kernels_in(folder: Path) -> tuple[Kernel, ...]:
    """Empty where the graphs were not captured."""
    try:
        return _kernels.validate_json((folder / "kernels.json").read_bytes())
    except OSError:
        return ()
