"""Fixtures that more than one test file uses."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from bench_core import compile_caches
from bench_core.events import Primed
from bench_core.store import Store
from tests.measuring_child import WARM_COMPILE, MeasuringChild, cache_environment


@pytest.fixture(scope="session")
def warm_caches(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder for BENCH_CACHES where WARM_COMPILE is primed: the session's cold compile.

    Of several pytest workers the first one compiles, and the others wait for its folder.
    """
    base = tmp_path_factory.getbasetemp()
    caches = (base if worker_id == "master" else base.parent) / "warm-caches"
    folder = caches / f"warm-{WARM_COMPILE.cache_key}"
    with FileLock(f"{caches}.lock"):
        if compile_caches.is_primed(folder, WARM_COMPILE):
            return caches
        environment = cache_environment(caches, WARM_COMPILE)
        for path in environment.values():
            Path(path).mkdir(parents=True)
        data = tmp_path_factory.mktemp("data")
        with MeasuringChild(WARM_COMPILE, data, BENCH_PRIME="1", **environment) as child:
            child.read_until(Primed)
            assert child.read_to_end() == 0
        compile_caches.mark_primed(folder, WARM_COMPILE)
    return caches


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store in a folder of its own."""
    with Store(tmp_path / "bench.db") as opened:
        yield opened


@pytest.fixture
def held_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """BENCH_DATA, which a worker seems to hold, so that nothing is measured behind a test."""
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    monkeypatch.delenv("BENCH_VIEW_ONLY", raising=False)
    with (tmp_path / "worker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield tmp_path
