"""The folders that hold compile caches: a run's own empty one, or a filled one kept for reuse."""

from __future__ import annotations

import json
import shutil
from importlib import metadata
from pathlib import Path

from bench_core.paths import caches_dir
from bench_core.run import Run
from bench_core.store import Store

WARM_FOLDERS_KEPT = 10  # each holds about 150 MB of precompiled headers


def folder_of(store: Store, run: Run) -> tuple[Path | None, bool]:
    """The run's own cache folder, and whether an earlier compile has filled it.

    A cold run gets an empty one, removed after; but when a warm run of the same compile waits
    in the same experiment, the cold run fills that one's folder, and no priming is needed.
    """
    cache = run.spec.variant.cache
    if cache is None:
        return None, False
    warm = caches_dir() / f"warm-{run.spec.cache_key}"
    if cache == "warm":
        return warm, is_primed(warm)
    handed_on = cache == "cold" and any(
        other.spec.cache_key == run.spec.cache_key and other.spec.variant.cache == "warm"
        for other in store.runs(run.experiment_id, statuses=("queued",))
    )
    folder = warm if handed_on else caches_dir() / f"cold-{run.id}"
    shutil.rmtree(folder, ignore_errors=True)
    return folder, False


def is_primed(folder: Path) -> bool:
    """Whether an earlier compile with this torch filled the folder."""
    try:
        return json.loads((folder / "PRIMED").read_text())["torch"] == _torch_version()
    except (OSError, ValueError, KeyError, TypeError):
        return False


def mark_primed(folder: Path) -> None:
    """Keep the folder for warm runs to come."""
    (folder / "PRIMED").write_text(json.dumps({"torch": _torch_version()}))


def remove_remains() -> None:
    """Folders of cold runs that did not end, half-filled warm ones, and the oldest warm ones.

    Only for the process that holds the worker's lock.
    """
    for folder in caches_dir().glob("cold-*"):
        shutil.rmtree(folder, ignore_errors=True)
    warm = sorted(caches_dir().glob("warm-*"), key=_primed_at)
    for folder in warm[:-WARM_FOLDERS_KEPT]:
        shutil.rmtree(folder, ignore_errors=True)


def _primed_at(folder: Path) -> float:
    """When the folder was filled; 0 when it never was."""
    try:
        return (folder / "PRIMED").stat().st_mtime
    except OSError:
        return 0.0


def _torch_version() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""
