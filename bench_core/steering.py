"""A run from its start to its end, however it ends; or the arms of a round, which take turns.

The life of a run is a generator that hands over wherever another arm may have the machine: when
its warm cache is filled, and after each epoch (block). A run by itself goes straight through it;
the arms of a round are alive side by side, in the order A B | B A | A B ..., and only one of them
ever holds a `go`. Whatever ends a run, its whole process group goes and its epochs stay.
"""

from __future__ import annotations

import os
import shutil
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench_core import compile_caches, events
from bench_core.child import POLL_SECONDS, Child, ChildFailed, Stopped, TimedOut, check
from bench_core.file_lock import locked
from bench_core.free_memory import free_bytes
from bench_core.paths import caches_dir, machine_lock
from bench_core.run import Run
from bench_core.spec import RunSpec
from bench_core.store import Store
from bench_core.units import bytes_text

# The next arm's process is taken to need so many times what the first one's epoch did.
MEMORY_MARGIN = 1.2
# What a child has left to say of its epoch, and what its threads spin on, is over by then.
SETTLE_SECONDS = 0.05
COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}
Watch = Callable[[Run, events.Event], None]


class NoRoom(Exception):
    """Another process does not fit into memory beside those of the round. Its text says why."""


@dataclass(eq=False)
class Arm:
    """A run on its way. `round` holds the arms that take turns, itself among them.

    `spent_seconds` and `timed_seconds` are of its own turns: all of them, and those with a `go`.
    `measured` counts epochs, in inference iterations.
    """

    store: Store
    run: Run
    watch: Watch | None
    round: list[Arm]
    life: Generator[None, None, None] = field(init=False)
    child: Child | None = None
    folder: Path | None = None
    over: bool = False
    deadline: float = float("inf")
    spent_seconds: float = 0.0
    timed_seconds: float = 0.0
    epochs: int = 0
    measured: int = 0
    peak_bytes: int = 0
    ended_early: str | None = None

    @property
    def whole(self) -> bool:
        return self.measured >= self.run.spec.is_done_after

    @property
    def others(self) -> list[Arm]:
        """The arms of its round that have not ended."""
        return [arm for arm in self.round if arm is not self and not arm.over]


def measure(store: Store, runs: list[Run], watch: Watch | None = None) -> None:
    """Steer what was claimed, one run or the arms of a round, from its start to its end."""
    arms: list[Arm] = []
    arms += [Arm(store, run, watch, arms) for run in runs]
    for arm in arms:
        arm.life = _life(arm)
        next(arm.life)  # from here on it records its own end
    order = list(arms)
    lock = None
    try:
        lock = _turn_on_this_machine(arms)
        compile_caches.remove_remains()
        for arm in arms:
            if arm.others:
                _rest(arm)
        for arm in arms:
            _step(arm)  # the caches are filled before anybody is timed
        while any(not arm.over for arm in arms):
            for arm in order:
                _step(arm)
            order.reverse()
    except BaseException as error:
        for arm in arms:
            try:
                _step(arm, error)
            except BaseException as raised:
                if raised is not error:  # the other arms must be ended all the same
                    traceback.print_exception(raised)
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _step(arm: Arm, error: BaseException | None = None) -> None:
    """Let the run go on until it hands over, or have it end by the error."""
    if arm.over:
        return
    began = time.monotonic()
    arm.deadline = began + arm.run.spec.measurement.timeout_seconds - arm.spent_seconds
    try:
        if error:
            arm.life.throw(error)
        else:
            next(arm.life)
    except StopIteration:
        arm.over = True
    arm.spent_seconds += time.monotonic() - began


def _turn_on_this_machine(arms: list[Arm]) -> int | None:
    """Wait until no other data folder's worker measures here; None when all were stopped before."""
    lock = locked(machine_lock())
    if lock is not None:
        return lock
    for arm in arms:
        arm.store.set_phase(arm.run.number, "waiting")
    while (lock := locked(machine_lock())) is None:
        for arm in arms:
            _look_at(arm)
        if all(arm.over for arm in arms):
            return None
        time.sleep(POLL_SECONDS)
    for arm in arms:
        arm.store.set_phase(arm.run.number, "starting")
    return lock


def _look_at(arm: Arm) -> None:
    """One that waits: was it told to end, or has its process died?"""
    if arm.over:
        return
    try:
        check(arm.store, arm.run)
        event = arm.child.report(0) if arm.child else None
    except (Stopped, ChildFailed) as ended:
        _step(arm, ended)
    else:
        if event:
            _note(arm, event)


# One run


def _life(arm: Arm) -> Generator[None, None, None]:
    store, run = arm.store, arm.run
    spec = run.spec
    try:
        yield
        try:
            arm.folder, primed = _folder_of(arm)
            if arm.folder and spec.variant.cache == "warm" and not primed:
                with Child(store, run, arm.folder, priming=True) as arm.child:
                    _prime(arm)
                arm.child = None
                compile_caches.mark_primed(arm.folder, spec)
            if arm.others:
                _rest(arm)
                yield
                _make_sure_of_room(arm)
            with Child(store, run, arm.folder) as arm.child:
                yield from _turns(arm)
            if arm.folder and arm.folder.name.startswith("warm-"):
                compile_caches.mark_primed(arm.folder, spec)
        finally:
            arm.child = None
            _leave_folder(arm)
        store.finish(run.number, "done", reason=arm.ended_early)
    except Stopped:
        store.finish(run.number, "stopped", reason="stopped on request; what was measured is kept")
    except TimedOut:
        fewer = "epochs or samples" if spec.workload.task == "train" else "iterations"
        reason = (
            f"no end after {spec.measurement.timeout_seconds:g} s (timeout_seconds); allow more "
            f"time, or measure fewer {fewer}"
        )
        _fail(arm, events.Failed(failure="timed out", reason=reason, phase=""))
    except NoRoom as full:
        _measure_by_itself(arm, f"measured one after the other: {full}", str(full))
    except ChildFailed as failed:
        if arm.others and not run.protocol_note and not arm.whole and _ran_out_of_memory(failed):
            beside = ", ".join(dict.fromkeys(other.run.spec.variant.name for other in arm.others))
            killed = failed.event.failure == "killed"
            end = "was killed, maybe for want of memory" if killed else "ran out of memory"
            _measure_by_itself(
                arm,
                f"measured by itself: beside {beside} it {end}",
                f"beside this run {run.spec.variant.name} {end}",
            )
        else:
            _fail(arm, failed.event)
    except BaseException as error:
        # Ctrl-C, SIGTERM or a fault of the worker itself: the run must not stay `running`.
        deliberate = isinstance(error, (KeyboardInterrupt, SystemExit))
        store.finish(
            run.number,
            "stopped" if deliberate else "interrupted",
            reason="the worker was told to end; what was measured is kept"
            if deliberate
            else f"the worker failed: {error}; what was measured is kept",
        )
        raise


def _folder_of(arm: Arm) -> tuple[Path | None, bool]:
    """The run's cache folder, and whether it is filled; never one that another arm has emptied."""
    spec = arm.run.spec
    alike = any(other.folder and other.run.spec.cache_key == spec.cache_key for other in arm.others)
    if alike and spec.variant.cache == "cold":
        return caches_dir() / f"cold-{arm.run.id}", False
    return compile_caches.folder_of(arm.store, arm.run)


def _leave_folder(arm: Arm) -> None:
    """Remove the link to the folder, and the folder unless it was filled for runs to come."""
    folder = arm.folder
    if folder is None or any(other.folder == folder for other in arm.others):
        return
    compile_caches.short_path(folder / "tmp").unlink(missing_ok=True)
    if not compile_caches.is_primed(folder, arm.run.spec):
        shutil.rmtree(folder, ignore_errors=True)


def _fail(arm: Arm, event: events.Failed) -> None:
    """A run whose timing is over is done, by its epochs or by its seconds: the rest is an extra."""
    store, run = arm.store, arm.run
    if arm.whole or arm.ended_early:
        timed = arm.ended_early or "all was timed that was asked for"
        store.finish(
            run.number,
            "done",
            reason=f"{timed}; what comes after the timing failed: {event.reason}",
            traceback=event.traceback,
        )
        return
    store.finish(
        run.number,
        "failed",
        failure=event.failure,
        reason=event.reason,
        traceback=event.traceback,
    )
    if arm.watch:
        arm.watch(run, event)


def _prime(arm: Arm) -> None:
    for event in _events(arm):
        _note(arm, event)
        if isinstance(event, events.Primed):
            arm.store.set_priming_seconds(arm.run.number, event.seconds)


def _turns(arm: Arm) -> Iterator[None]:
    """One `go` an epoch (a block), until what was asked for or the seconds are used up."""
    spec, child = arm.run.spec, arm.child
    assert child
    limit = spec.measurement.max_seconds or float("inf")
    go_at = 0.0
    for event in _events(arm):
        _note(arm, event)
        match event:
            case events.Prepared():
                go_at = time.monotonic()
                child.say("go")
            case events.Epoch():
                arm.timed_seconds += time.monotonic() - go_at
                arm.epochs = event.epoch
                arm.measured += events.measured_by(spec, event)
                used = (event.peak_memory_bytes or 0, event.peak_reserved_bytes or 0)
                arm.peak_bytes = max(arm.peak_bytes, *used)
                over = arm.timed_seconds >= limit
                if over and not arm.whole:
                    arm.ended_early = _ended_early(spec, arm.measured)
                if arm.others:
                    _settle(arm, child)
                    _name_round(arm)
                    _rest(arm)
                    yield
                go_at = time.monotonic()
                child.say("stop" if over or arm.whole else "go")


def _ended_early(spec: RunSpec, measured: int) -> str:
    limit = spec.measurement.max_seconds
    return f"ended by max_seconds {limit:g} after {spec.workload.unit} {measured}"


def _events(arm: Arm) -> Iterator[events.Event]:
    """What the child reports until it has finished, while the arms that wait are looked after."""
    assert arm.child
    while True:
        check(arm.store, arm.run, arm.deadline)
        event = arm.child.report()
        for other in arm.others:
            _look_at(other)
        if isinstance(event, events.Finished):
            return
        if event:
            yield event


def _note(arm: Arm, event: events.Event) -> None:
    """Into the store at once: what stands there survives whatever happens next."""
    store, number = arm.store, arm.run.number
    match event:
        case events.PhaseStarted():
            store.set_phase(number, event.phase, event.epoch)
        case events.Environment():
            store.set_environment(number, event)
        case events.Prepared():
            store.set_prepared(number, event)
        case events.CompileStarted():
            store.set_compiling(number, time.time())
        case events.CompileWindow():
            store.set_compiling(number, None)
        case events.Epoch():
            store.add_epoch(number, event)
        case events.Activity():
            store.set_activity(number, event)
        case events.Aftermath():
            store.set_aftermath(number, event)
    if arm.watch:
        arm.watch(arm.run, event)


# Taking turns


def _rest(arm: Arm) -> None:
    arm.store.set_phase(arm.run.number, "waiting", arm.epochs)


def _settle(arm: Arm, child: Child) -> None:
    """Let the child come to rest before another one gets its `go`."""
    until = time.monotonic() + SETTLE_SECONDS
    while (left := until - time.monotonic()) > 0:
        event = child.report(left)
        if event:
            _note(arm, event)


def _name_round(arm: Arm) -> None:
    """From its first epoch beside another arm that has one, they take turns."""
    together = [one for one in (arm, *arm.others) if one.epochs]
    if arm.epochs == 1 and len(together) > 1:
        run = arm.run
        name = f"{run.experiment_id}-{run.cell}-{run.spec.measurement.repeat}"
        arm.store.set_round([one.run.number for one in together], name)


def _make_sure_of_room(arm: Arm) -> None:
    """Raises NoRoom where a process as large as those that wait would not fit beside them."""
    peaks = [other.peak_bytes for other in arm.others if other.child and other.peak_bytes]
    if not peaks:
        return
    largest, in_use = max(peaks), sum(peaks)
    free = free_bytes(arm.run.spec.device, in_use)
    if free is not None and free < MEMORY_MARGIN * largest:
        count = COUNTS.get(len(peaks) + 1, str(len(peaks) + 1))
        raise NoRoom(
            f"{count} processes of {bytes_text(largest)}, with a fifth to spare, do not fit into "
            f"{bytes_text(free + in_use)} of free memory"
        )


def _measure_by_itself(arm: Arm, note: str, cause: str) -> None:
    """Queue the run again, alone; the arm that is left with nobody has no round either."""
    arm.store.put_back(arm.run.number, note)
    others = [other for other in arm.others if other.child]
    if len(others) == 1:
        left = others[0].run.number
        arm.store.set_round([left], None)
        arm.store.set_protocol_note(left, f"measured one after the other: {cause}")


def _ran_out_of_memory(failed: ChildFailed) -> bool:
    """By its own word, or killed as the kernel does it when there is no more."""
    event = failed.event
    return event.failure == "out of memory" or (
        event.failure == "killed" and "SIGKILL" in event.reason
    )
