"""A file's lock, held by one process at a time: whoever has it works, and its end gives it up."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

# So long whoever wants the lock to work waits for those who only look, moments each.
LOOK_SECONDS = 1.0


def locked(path: Path, *, shared: bool = False, patience_seconds: float = 0.0) -> int | None:
    """The file's lock as an open descriptor, or None when somebody holds it.

    `shared` is for whoever only looks whether it is held: several may at a time. With
    `patience_seconds` it is asked for again until they have passed. Raises FileNotFoundError when
    the file's folder is not there.
    """
    deadline = time.monotonic() + patience_seconds
    while (descriptor := _locked_now(path, shared)) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return descriptor


def _locked_now(path: Path, shared: bool) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:  # another user's file in a shared temporary folder
        descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
