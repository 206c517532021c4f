"""Lines out and lines in: the child's whole talk with the worker.

Events leave on a private copy of stdout and words arrive on a private copy of stdin. What
libraries, compilers and model files print goes to stderr, which is the run's log file, and what
they read is empty.
"""

from __future__ import annotations

import os
import threading

from bench_core import events


class Stopped(BaseException):
    """The worker asked for the end by SIGTERM.

    Not an Exception: Dynamo turns every Exception that passes through it into its own.
    """


class EventStream:
    """Takes over stdin and stdout of this process. Remembers the phase for whoever must name it."""

    def __init__(self) -> None:
        self._events = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self._words = os.fdopen(os.dup(0), "rb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self._writing = threading.Lock()
        self._main_thread_writes = False
        self._stop_wanted = False
        self.phase: events.Phase = "starting"
        self.epoch: int | None = None

    def read_line(self) -> bytes:
        """The next line of stdin; empty at its end."""
        return self._words.readline()

    def emit(self, event: events.Event) -> None:
        """One whole line, flushed. Called from any thread: a backward may compile in its own."""
        line = event.to_json().encode() + b"\n"
        in_main = threading.current_thread() is threading.main_thread()
        self._main_thread_writes = in_main
        try:
            with self._writing:
                self._events.write(line)
                self._events.flush()
        finally:
            if in_main:
                self._main_thread_writes = False
        if in_main and self._stop_wanted:
            self._stop_wanted = False
            raise Stopped

    def enter(self, phase: events.Phase, epoch: int | None = None) -> None:
        self.phase, self.epoch = phase, epoch
        self.emit(events.PhaseStarted(phase=phase, epoch=epoch))

    def stop(self) -> None:
        """Raise Stopped in the main thread, after the line that it is writing, if any."""
        if self._main_thread_writes:
            self._stop_wanted = True
        else:
            raise Stopped
