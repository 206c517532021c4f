"""A file's lock, held by one process at a time: whoever has it works, and its end gives it up."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def locked(path: Path, *, shared: bool = False) -> int | None:
    """The file's lock as an open descriptor, or None when somebody holds it.

    `shared` is for whoever only looks whether it is held: several may at a time.
    """
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
