"""Signals, and the watch over the parent's life: nothing of a run may outlive its worker.

Started once, by __main__, before torch is imported.
"""

from __future__ import annotations

import os
import signal
import threading
import time

import psutil

from bench_core.measuring.event_stream import EventStream

LOOK_EVERY_SECONDS = 0.5


def tie_to_parent(stream: EventStream) -> None:
    """SIGTERM ends this process with its last words; the parent's death ends it without any."""
    # Ctrl-C in a terminal reaches the whole group; what then becomes of a run is the worker's say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: stream.stop())
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()


def _die_with(parent: int) -> None:
    # Also in the middle of a compile: waiting for g++ and running operators release the GIL.
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY_SECONDS)
    end_descendants()
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def end_descendants() -> None:
    """Kill compilers, compile workers and data loaders, whatever session they put themselves in."""
    for _ in range(2):  # the second look finds what the first one's victims started meanwhile
        for process in psutil.Process().children(recursive=True):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
