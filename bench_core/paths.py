"""Where things are kept. `BENCH_DATA` moves all that is written; shipped files stay in data/."""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
SHIPPED = CHECKOUT / "data"


class FolderError(RuntimeError):
    """The data folder cannot be used. The text names it and the way out."""


def data_dir() -> Path:
    """The folder of bench.db, logs, data sets and caches; made on first use."""
    folder = Path(os.environ.get("BENCH_DATA") or SHIPPED).expanduser().resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(
            f"{folder} cannot be used as the data folder ({error.strerror}); set BENCH_DATA to "
            "a folder that can be written"
        ) from error
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


def machine_lock() -> Path:
    """The file whose lock says that somebody measures on this machine, whatever data folder."""
    return Path(os.environ.get("BENCH_MACHINE_LOCK") or "/tmp/bench_core-measuring.lock")


def settings() -> dict[str, str]:
    """The folders as environment variables for a process with another working directory."""
    return {
        "BENCH_DATA": str(data_dir()),
        "BENCH_MODELS": str(models_dir()),
        "BENCH_DATASETS": str(datasets_dir()),
        "BENCH_CACHES": str(caches_dir()),
    }
