"""Fixtures that more than one test file uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_core import compile_caches
from bench_core.events import Primed
from tests.measuring_child import WARM_COMPILE, MeasuringChild, cache_environment


@pytest.fixture(scope="session")
def warm_caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for BENCH_CACHES where WARM_COMPILE is primed: the session's cold compile."""
    caches = tmp_path_factory.mktemp("caches")
    environment = cache_environment(caches, WARM_COMPILE)
    for folder in environment.values():
        Path(folder).mkdir(parents=True)
    data = tmp_path_factory.mktemp("data")
    with MeasuringChild(WARM_COMPILE, data, BENCH_PRIME="1", **environment) as child:
        child.read_until(Primed)
        assert child.read_to_end() == 0
    compile_caches.mark_primed(caches / f"warm-{WARM_COMPILE.cache_key}", WARM_COMPILE)
    return caches
