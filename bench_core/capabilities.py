"""What the torch of this machine offers, asked once and kept; lacks.py holds a run against it.

Torch is never imported here: `python -m bench_core.measuring probe` imports it and prints one JSON
line. That takes several seconds, so its answer is kept in a file whose name follows from all that
may change it. Pages read `cached()` and start a probe when there is nothing yet; the command line
waits for `probe()`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from bench_core import whole_file
from bench_core.file_lock import locked
from bench_core.paths import CHECKOUT, data_dir, models_dir, settings
from bench_core.spec import Frozen, SpecError

PROBE_SECONDS = 300.0
RETRY_SECONDS = 60.0  # it may have been the end of the app that ended the probe
_OWN_BATCH = re.compile(r"^(def make_batch\b|make_batch\s*=)", re.MULTILINE)


class ProbeFailed(RuntimeError):
    """Torch could not be asked what it offers. The text says why and what to do."""


class Reported(Frozen):
    """A part of the probe's answer; what a newer probe adds is not an error."""

    model_config = ConfigDict(extra="ignore")


class Device(Reported):
    id: str
    name: str
    memory_bytes: int | None = None
    compute_capability: str | None = None
    multiprocessors: int | None = None


class Backend(Reported):
    """A name for `torch.compile(backend=...)`; not `proven` when torch only lists it."""

    name: str
    proven: bool = True


class InductorOption(Reported):
    """One key of `torch.compile(options=...)`: its Python type, as text, and its default."""

    type: str
    default: Any


class Capabilities(Reported):
    torch: str
    torchvision: str
    devices: tuple[Device, ...]
    backends: tuple[Backend, ...]
    modes: tuple[str, ...]
    inductor_options: dict[str, InductorOption]
    torchvision_models: tuple[str, ...]
    timm: str | None = None
    timm_models: tuple[str, ...] = ()
    model_files: tuple[str, ...] = ()
    onednn_graph: bool = True
    compiler: str | None = None
    compiler_version: str | None = None
    openssl: str | None = None
    cpu_name: str
    cpu_cores: int
    cpu_affinity: int
    cpu_isa: str
    memory_bytes: int

    @property
    def best_device(self) -> str:
        """The first GPU, or the CPU where there is none."""
        return next((device.id for device in self.devices if device.id != "cpu"), "cpu")


# Asking, and keeping the answer


def cached() -> Capabilities | None:
    """The kept answer, or None. Starts nothing and takes about a millisecond."""
    try:
        return Capabilities.from_json(answer_file().read_bytes())
    except (FileNotFoundError, SpecError):  # an answer of an older form counts as none
        return None


def probe() -> Capabilities:
    """Ask torch now, unless somebody else just did, and keep the answer. Raises ProbeFailed."""
    answer = answer_file()
    with _only_one(answer):
        if found := cached():
            return found
        try:
            found = _ask()
        except ProbeFailed as failed:
            whole_file.write(_failure_file(), str(failed))
            raise
        whole_file.write(answer, found.to_json())
        _failure_file().unlink(missing_ok=True)
        return found


def start_probe() -> None:
    """Ask in the background, so that a page need not wait; nothing when somebody asks already."""
    if _being_asked():
        return
    _failure_file().unlink(missing_ok=True)

    def ask() -> None:
        with contextlib.suppress(ProbeFailed):  # kept in a file, for `failure`
            probe()

    threading.Thread(target=ask, name="probe", daemon=True).start()


def failure() -> str | None:
    """Why the last probe failed, or None when it did not, or long enough ago to ask again."""
    file = _failure_file()
    try:
        if time.time() - file.stat().st_mtime > RETRY_SECONDS:
            return None
        return file.read_text()
    except FileNotFoundError:
        return None


def _ask() -> Capabilities:
    command = [sys.executable, "-m", "bench_core.measuring", "probe"]
    retry = f"try `{' '.join(command)}` in {CHECKOUT}"
    # A low priority: a measurement may be going on.
    polite = ["nice", "-n", "10"] if shutil.which("nice") else []
    try:
        done = subprocess.run(
            [*polite, *command],
            cwd=CHECKOUT,
            env={**os.environ, **settings()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise ProbeFailed(
            f"torch did not say what it offers within {PROBE_SECONDS:.0f} s; {retry}"
        ) from None
    if done.returncode:
        raise ProbeFailed(
            f"torch cannot be asked what it offers (exit code {done.returncode}): "
            f"{_last_line(done.stderr) or 'it said nothing'}; mend that or reinstall with "
            f"`pip install -r requirements.txt`, then {retry}"
        )
    try:
        return Capabilities.from_json(_last_line(done.stdout))
    except SpecError as error:
        raise ProbeFailed(f"what the probe printed cannot be read: {error}; {retry}") from error


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _folder() -> Path:
    folder = data_dir() / "capabilities"
    folder.mkdir(exist_ok=True)
    return folder


def answer_file() -> Path:
    """Where the answer is kept; another name as soon as it may have changed."""
    return _folder() / f"{cache_key()}.json"


def _failure_file() -> Path:
    return _folder() / f"{cache_key()}.failed"


def cache_key() -> str:
    """Changes with whatever may change the answer, read without importing torch."""
    parts = [
        platform.node(),
        sys.prefix,
        sys.version,
        *(_version(name) for name in ("torch", "torchvision", "timm")),
        _text_of(Path("/proc/driver/nvidia/version")),
        *(os.environ.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "CXX")),
        *(shutil.which(program) or "" for program in ("g++", "clang++", "openssl")),
        str(usable_cores()),
        *(f"{file.name} {file.stat().st_mtime_ns}" for file in own_files()),
        # An answer to other questions is an old one.
        _text_of(CHECKOUT / "bench_core" / "measuring" / "probe.py"),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def own_files() -> list[Path]:
    """The user's own models and functions, by name; a leading `_` or `.` hides a file."""
    files = [path for path in models_dir().glob("*.py") if path.is_file()]
    return sorted(path for path in files if path.name[0] not in "_.")


def model_files() -> list[Path]:
    """Those of `own_files` that define a model."""
    return [file for file in own_files() if not _holds_a_function(file)]


def function_files() -> list[Path]:
    """Those of `own_files` that define a function and no model."""
    return [file for file in own_files() if _holds_a_function(file)]


def _holds_a_function(file: Path) -> bool:
    """By the words in it: its code runs in a measuring process only."""
    text = _text_of(file)
    return "make_inputs" in text and "build_model" not in text


def takes_images(model: str) -> bool:
    """Whether its input has a size in pixels; a file with a `make_batch` of its own says no."""
    kind, _, name = model.partition(":")
    if kind != "file":
        return kind != "function"
    return not _OWN_BATCH.search(_text_of(models_dir() / name))


def usable_cores() -> int:
    """CPUs this process may run on; all of them where the system cannot tell (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _text_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@contextlib.contextmanager
def _only_one(answer: Path) -> Iterator[None]:
    with open(answer.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _being_asked() -> bool:
    lock = locked(answer_file().with_suffix(".lock"))
    if lock is None:
        return True
    os.close(lock)
    return False
