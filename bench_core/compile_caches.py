"""The folders that hold compile caches: a run's own empty one, or a filled one kept for reuse."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from importlib import metadata
from pathlib import Path

from bench_core.paths import caches_dir, models_dir
from bench_core.run import Run
from bench_core.spec import RunSpec
from bench_core.store import Store

WARM_FOLDERS_KEPT = 10  # each holds about 150 MB of precompiled headers
SHORT_PATHS, SHORT_NAME = Path("/tmp"), "bench_core-tmp-"


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
        return warm, is_primed(warm, run.spec)
    handed_on = cache == "cold" and any(
        other.spec.cache_key == run.spec.cache_key and other.spec.variant.cache == "warm"
        for other in store.runs(run.experiment_id, statuses=("queued",))
    )
    folder = warm if handed_on else caches_dir() / f"cold-{run.id}"
    shutil.rmtree(folder, ignore_errors=True)
    return folder, False


def is_primed(folder: Path, spec: RunSpec) -> bool:
    """Whether an earlier compile of the same code with this torch filled the folder."""
    try:
        return json.loads((folder / "PRIMED").read_text()) == _filled_with(spec)
    except (OSError, ValueError):
        return False


def mark_primed(folder: Path, spec: RunSpec) -> None:
    """Keep the folder for warm runs to come; without the mark it is not kept."""
    with contextlib.suppress(OSError):  # the folder, or the model file, was taken away meanwhile
        (folder / "PRIMED").write_text(json.dumps(_filled_with(spec)))


def _filled_with(spec: RunSpec) -> dict[str, str]:
    """What the folder's name does not tell: the torch, and the content of a model file."""
    filled = {"torch": _torch_version()}
    kind, _, name = spec.workload.model.partition(":")
    if kind == "file" or name.endswith(".py"):
        filled["model_sha256"] = hashlib.sha256((models_dir() / name).read_bytes()).hexdigest()
    return filled


def remove_remains() -> None:
    """Folders of cold runs that did not end, half-filled warm ones, and the oldest warm ones.

    Only for the process that holds the machine's lock: nobody else measures, so nobody uses them.
    """
    warm = sorted(caches_dir().glob("warm-*"), key=_primed_at)
    unfilled = [folder for folder in warm if not _primed_at(folder)]
    for folder in {*caches_dir().glob("cold-*"), *unfilled, *warm[:-WARM_FOLDERS_KEPT]}:
        shutil.rmtree(folder, ignore_errors=True)
    for link in SHORT_PATHS.glob(f"{SHORT_NAME}*"):
        if link.is_symlink() and not link.exists():
            link.unlink(missing_ok=True)


def short_path(folder: Path) -> Path:
    """A link to the folder under a short name that stays the same for the same folder.

    Loader workers open sockets below TMPDIR, whose paths may have about 100 characters; and what
    the compiler keeps there is found again by its path only.
    """
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    link = SHORT_PATHS / f"{SHORT_NAME}{name}"
    link.unlink(missing_ok=True)
    link.symlink_to(folder)
    return link


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
