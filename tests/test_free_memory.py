"""What one more process may take: what is free, and no more than a person allows."""

import psutil
import pytest

from bench_core.free_memory import free_bytes


def test_a_limit_is_shared_by_all_that_measure(monkeypatch):
    monkeypatch.setenv("BENCH_MEMORY_BYTES", "3000000")
    assert free_bytes("cpu", in_use=1_000_000) == 2_000_000
    assert free_bytes("cpu", in_use=4_000_000) == 0


def test_without_a_limit_it_is_what_the_machine_has_free(monkeypatch):
    monkeypatch.delenv("BENCH_MEMORY_BYTES", raising=False)
    free = free_bytes("cpu", in_use=10**15)
    assert free is not None
    assert 0 < free <= psutil.virtual_memory().total


def test_a_limit_that_is_no_number_is_named(monkeypatch):
    monkeypatch.setenv("BENCH_MEMORY_BYTES", "4 GB")
    with pytest.raises(ValueError, match="a whole number of bytes, got '4 GB'"):
        free_bytes("cpu", in_use=0)
