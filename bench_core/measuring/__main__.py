"""One run, from the child's side: a spec in on stdin, events out on stdout, then exit.

    python -m bench_core.measuring          stdin: RunSpec line, then `go` for each epoch, `stop`
    python -m bench_core.measuring probe    one JSON line: what this machine's torch offers
    python -m bench_core.measuring capture PART    stdin: RunSpec line; what torch.compile makes of
                                            the model, never timed beside it (capture_parts.py)

With BENCH_PRIME=1 it fills the warm cache by an untimed epoch instead, and asks for no `go`. The
environment (cache folders, threads) is set by the worker: torch reads much of it when imported,
which is why the import comes late, when the worker has already been told that we are here.
Exit codes: 0 done, 1 failed and said so, 143 stopped by SIGTERM.
"""

from __future__ import annotations

import os
import sys

from bench_core.events import Failed, Finished
from bench_core.measuring.event_stream import EventStream, Stopped
from bench_core.measuring.failures import failed
from bench_core.measuring.lifeline import end_descendants, tie_to_parent
from bench_core.spec import RunSpec


def main(arguments: list[str]) -> int:
    if arguments == ["probe"]:
        from bench_core.measuring.probe import print_offer

        print_offer()
        return 0
    part = arguments[1] if len(arguments) == 2 and arguments[0] == "capture" else None
    if arguments and part is None:
        print(__doc__, file=sys.stderr)
        return 2
    stream = EventStream()
    tie_to_parent(stream)
    try:
        code = _captured(stream, part) if part else _measured(stream)
    except BrokenPipeError:  # nobody listens any more
        code = 1
    except Stopped:
        code = 143
    # No orderly end: taking torch, loader threads and compile workers down takes a second or more,
    # and all that is worth keeping has been said.
    end_descendants()
    os._exit(code)


def _measured(stream: EventStream) -> int:
    spec = None
    run = None
    try:
        stream.enter("starting")
        spec = RunSpec.from_json(stream.read_line())
        try:
            from bench_core.measuring.run import Run
        except ModuleNotFoundError as error:
            stream.emit(_not_installed(error))
            return 1
        run = Run(spec, stream)
        if os.environ.get("BENCH_PRIME") == "1":
            run.prime()
        else:
            run.answer_words()
        stream.emit(Finished())
        return 0
    except Stopped:
        if run is not None:
            run.last_words()
        raise
    except BrokenPipeError:
        raise
    except BaseException as error:  # a model file may raise SystemExit or KeyboardInterrupt
        compiling = run.compiling_when_it_failed(error) if run is not None else None
        stream.emit(failed(error, spec, stream.phase, stream.epoch, compiling))
        return 1


def _captured(stream: EventStream, part: str) -> int:
    spec = None
    try:
        stream.enter("starting")
        spec = RunSpec.from_json(stream.read_line())
        try:
            from bench_core.measuring.capture_parts import PARTS
        except ModuleNotFoundError as error:
            stream.emit(_not_installed(error))
            return 1
        PARTS[part](spec, stream)
        stream.emit(Finished())
        return 0
    except (Stopped, BrokenPipeError):
        raise
    except BaseException as error:  # a model file may raise SystemExit or KeyboardInterrupt
        stream.emit(failed(error, spec, stream.phase, stream.epoch))
        return 1


def _not_installed(error: ModuleNotFoundError) -> Failed:
    return Failed(
        failure="error",
        reason=(
            f"{error.name} is not installed for {sys.executable}; "
            "run `pip install torch torchvision psutil numpy` with that Python"
        ),
        phase="while torch was imported",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
