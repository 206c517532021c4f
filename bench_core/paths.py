"""Where things are kept. `BENCH_DATA` moves all that is written; shipped files stay in data/."""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
SHIPPED = CHECKOUT / "data"


def data_dir() -> Path:
    """The folder of bench.db, logs, data sets and caches; made on first use."""
    folder = Path(os.environ.get("BENCH_DATA") or SHIPPED).expanduser().resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def models_dir() -> Path:
    """The folder of the user's own model files (may not exist)."""
    return Path(os.environ.get("BENCH_MODELS") or data_dir() / "models").expanduser().resolve()


def datasets_dir() -> Path:
    return Path(os.environ.get("BENCH_DATASETS") or data_dir() / "datasets").expanduser().resolve()


def caches_dir() -> Path:
    """Compile caches, one folder a key. Elsewhere with `BENCH_CACHES`."""
    return Path(os.environ.get("BENCH_CACHES") or data_dir() / "caches").expanduser().resolve()


def logs_dir() -> Path:
    return data_dir() / "logs"
