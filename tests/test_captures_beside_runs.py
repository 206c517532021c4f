"""A capture changes no timed result: it takes its turn, in a process and in folders of its own.

A real worker measures and real captures are taken, in one data folder.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("torch")

from bench_core import captures  # noqa: E402
from bench_core.paths import CHECKOUT, caches_dir, logs_dir  # noqa: E402
from bench_core.spec import Experiment, Measurement, RunSpec, Variant, Workload  # noqa: E402
from bench_core.store import Store  # noqa: E402

# The cheap one needs no C++ compiler: its backend writes no code.
CHEAP, WHOLE = (
    RunSpec(
        workload=Workload(task="infer", model="function:sin_cos", batch_size=1000),
        variant=Variant(execution="compile", backend=backend),
    )
    for backend in ("aot_eager", "inductor")
)
ENDLESS = Measurement(epochs=100_000)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("BENCH_CACHES", str(tmp_path / "caches"))
    monkeypatch.setenv("BENCH_MACHINE_LOCK", str(tmp_path / "machine.lock"))
    monkeypatch.delenv("BENCH_MODELS", raising=False)
    return tmp_path


@pytest.fixture
def worker(data: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-m", "bench_core", "worker"], cwd=CHECKOUT)
    yield process
    process.terminate()  # ends what it measures too
    process.wait(30)
    for spec in (CHEAP, WHOLE):
        captures.stop(spec)


def tiny(measurement: Measurement, variant: Variant | None = None) -> Experiment:
    return Experiment(
        models=("small_cnn",),
        batch_sizes=(16,),
        variants=(variant or Variant(),),
        repeats=1,
        workload={"samples": 64, "image_size": 32, "pipeline": "cached"},
        measurement=measurement,
    )


def wait_for(happened: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def bearing(mark: str) -> set[int]:
    """The processes with this mark: a run's id, or a capture's name."""
    found = set()
    for process in psutil.process_iter():
        try:
            if process.environ().get("BENCH_RUN") == mark and process.status() != "zombie":
                found.add(process.pid)
        except psutil.Error:
            continue
    return found


def kept_of(store: Store, number: int) -> tuple[Any, ...]:
    """What is stored of a run: its row with environment and cache state, its epochs, its log."""
    run = store.run(number)
    log = logs_dir() / f"{run.id}.log"
    return run, store.epochs([number])[number], log.read_bytes(), log.stat().st_mtime_ns


def files_of(folders: set[Path]) -> dict[Path, tuple[int, int]]:
    """Size and time of every file of the caches."""
    return {
        file: (file.stat().st_size, file.stat().st_mtime_ns)
        for folder in folders
        for file in [folder, *folder.rglob("*")]
    }


def beside_a_capture(spec: RunSpec, variant: Variant, worker: subprocess.Popen[bytes]) -> None:
    """A capture is asked for while a run measures, and a run while the capture is taken."""
    mark = f"capture-{captures.key_of(spec)}"

    def phase() -> str:
        now = captures.state(spec)
        return now.phase if now else ""

    with Store() as store:

        def reached(number: int) -> int:
            return len(store.epochs([number])[number])

        store.queue(tiny(ENDLESS, variant))
        wait_for(lambda: reached(1) >= 3)

        # A capture that is asked for while a run measures waits, and the run goes on.
        timed = store.run(1).child_pid
        captures.start(spec, ["graphs"])
        wait_for(lambda: phase() == "waiting")
        so_far = reached(1)
        wait_for(lambda: reached(1) >= so_far + 3)
        assert phase() == "waiting" and bearing(mark) == set()
        assert store.run(1).child_pid == timed and store.run(1).status == "running"

        store.stop(number=1)
        wait_for(lambda: store.run(1).ended_at)
        before = kept_of(store, 1)
        folders = set(caches_dir().glob("*")) - {caches_dir() / "captures"}
        files = files_of(folders)

        # And the other way round: a run waits while the capture is taken.
        wait_for(lambda: bearing(mark))
        assert timed not in bearing(mark) and worker.pid not in bearing(mark)
        store.queue(tiny(Measurement(epochs=3)))
        wait_for(lambda: store.run(2).phase == "waiting")
        assert store.run(2).child_pid is None and captures.state(spec) is not None
        store.stop(number=2)

        wait_for(lambda: captures.state(spec) is None)
        capture = captures.find(spec)
        assert capture is not None and capture.failures == {}
        assert len(capture.at("dynamo")) == 1
        assert kept_of(store, 1) == before and store.run(2).child_pid is None
        assert files_of(folders) == files
        assert set(caches_dir().glob("*")) == {*folders, caches_dir() / "captures"}


def test_a_run_and_a_capture_wait_for_each_other_and_what_was_measured_stays(
    data: Path, worker: subprocess.Popen[bytes]
) -> None:
    kept = caches_dir() / "warm-of-another-run"
    kept.mkdir(parents=True)
    (kept / "PRIMED").write_text("{}")
    (kept / "kernel.so").write_bytes(b"of an earlier compile")
    beside_a_capture(CHEAP, Variant(), worker)
    assert (kept / "kernel.so").read_bytes() == b"of an earlier compile"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_warm_runs_cache_is_the_same_after_a_capture(
    data: Path, worker: subprocess.Popen[bytes]
) -> None:
    beside_a_capture(WHOLE, Variant(execution="compile", cache="warm"), worker)
