"""A file that is written in one piece."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Whoever reads at the same time sees the old file or the new one."""
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, delete=False, encoding="utf-8", errors="replace"
    ) as file:
        file.write(text)
    os.replace(file.name, path)
