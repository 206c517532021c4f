"""The SQLite file: experiments, runs and their epochs. It is the queue too.

The only module with SQL, one statement a method. Any number of processes may hold it open (WAL);
a run is claimed by one `UPDATE ... RETURNING`, so by one worker only. Raw times only: nothing
that can be computed from them is stored.
"""

from __future__ import annotations

import json
import sqlite3
import time
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from bench_core.events import Activity, Aftermath, CompileWindow, Environment, Epoch, Prepared
from bench_core.paths import FolderError, data_dir
from bench_core.run import ENDED, Run, Status
from bench_core.spec import Experiment, Frozen, RunSpec, SpecError, new_id

# Append only: the file's user_version says how many of these it has seen.
MIGRATIONS = (
    """
    CREATE TABLE experiments (
        id TEXT PRIMARY KEY,
        created_at REAL NOT NULL,
        spec TEXT NOT NULL
    );
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        experiment_id TEXT NOT NULL REFERENCES experiments (id) ON DELETE CASCADE,
        spec TEXT NOT NULL,
        status TEXT NOT NULL DEFAULT 'queued',
        failure TEXT,
        reason TEXT,
        traceback TEXT,
        phase TEXT,
        phase_epoch INTEGER,
        phase_since REAL,
        compiling_since REAL,
        stop_requested INTEGER NOT NULL DEFAULT 0,
        created_at REAL NOT NULL,
        started_at REAL,
        ended_at REAL,
        child_pid INTEGER,
        child_created REAL,
        priming_seconds REAL,
        environment TEXT,
        prepared TEXT,
        activity TEXT,
        aftermath TEXT
    );
    CREATE INDEX runs_by_status ON runs (status, number);
    CREATE INDEX runs_by_experiment ON runs (experiment_id, number);
    CREATE TABLE epochs (
        run_number INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
        epoch INTEGER NOT NULL,
        started_at REAL NOT NULL,
        wall_seconds REAL NOT NULL,
        data_wait_seconds REAL NOT NULL,
        compile_seconds REAL NOT NULL,
        compile_windows TEXT NOT NULL,
        samples INTEGER NOT NULL,
        loss REAL,
        evaluation_seconds REAL,
        evaluation_compile_seconds REAL,
        accuracy REAL,
        peak_memory_bytes INTEGER,
        peak_reserved_bytes INTEGER,
        foreign_cpu_share REAL,
        step_seconds BLOB NOT NULL,
        PRIMARY KEY (run_number, epoch)
    );
    """,
    "ALTER TABLE epochs ADD COLUMN device_seconds BLOB NOT NULL DEFAULT x''",
    """
    ALTER TABLE runs ADD COLUMN round TEXT;
    ALTER TABLE runs ADD COLUMN protocol_note TEXT;
    ALTER TABLE runs ADD COLUMN unstated TEXT NOT NULL DEFAULT '[]';
    """,
    "ALTER TABLE runs ADD COLUMN cell INTEGER",
)

PARTS: dict[str, type[Frozen]] = {
    "spec": RunSpec,
    "environment": Environment,
    "prepared": Prepared,
    "activity": Activity,
    "aftermath": Aftermath,
}
RUN_COLUMNS = ", ".join(Run.__slots__)
EPOCH_COLUMNS = (
    "epoch, started_at, wall_seconds, data_wait_seconds, compile_seconds, compile_windows, "
    "samples, loss, evaluation_seconds, evaluation_compile_seconds, accuracy, peak_memory_bytes, "
    "peak_reserved_bytes, foreign_cpu_share"
)
STEP_COLUMNS = "step_seconds, device_seconds"
REPEAT = "json_extract(spec, '$.measurement.repeat')"
PROTOCOL = "json_extract(spec, '$.measurement.protocol')"
_windows = TypeAdapter(tuple[CompileWindow, ...])


class StoreError(RuntimeError):
    """The file cannot be used. The text says which file and what to do."""


class Store:
    """One connection. Open it, use it, close it: opening costs well under a millisecond."""

    def __init__(self, path: Path | str | None = None) -> None:
        try:
            self.path = Path(path) if path else data_dir() / "bench.db"
        except FolderError as error:
            raise StoreError(str(error)) from error
        try:
            self._db = sqlite3.connect(
                self.path, timeout=30, isolation_level=None, check_same_thread=False
            )
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute("PRAGMA foreign_keys = ON")
            self._migrate()
        except sqlite3.Error as error:
            raise StoreError(
                f"{self.path} cannot be opened as the results file ({error}); move it away or set "
                "BENCH_DATA to another folder"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def _execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
        try:
            return self._db.execute(sql, values)
        except sqlite3.DatabaseError as error:  # a full disk, a lock never given back, bad bytes
            raise StoreError(
                f"{self.path} cannot be used now: {error}; if it stays so, move the file away"
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            self._db.rollback()
            raise

    def _migrate(self) -> None:
        if self._version() == len(MIGRATIONS):
            return
        with self._transaction():
            version = self._version()  # another process may have been first
            if version > len(MIGRATIONS):
                raise StoreError(
                    f"{self.path} was written by a newer version of this program (format "
                    f"{version}, known here up to {len(MIGRATIONS)}); update, or set BENCH_DATA "
                    "to another folder"
                )
            for script in MIGRATIONS[version:]:
                # executescript would end the transaction
                for statement in script.split(";\n"):
                    self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def _version(self) -> int:
        return self._db.execute("PRAGMA user_version").fetchone()[0]

    # Queueing and claiming

    def queue(self, experiment: Experiment) -> bool:
        """Write the experiment's runs as queued. False when its id is here already."""
        now = time.time()
        with self._transaction():
            new = self._execute(
                "INSERT OR IGNORE INTO experiments (id, created_at, spec) VALUES (?, ?, ?)",
                (experiment.id, now, experiment.to_json()),
            ).rowcount
            if new:
                a_cell = len(experiment.rungs or experiment.variants) * experiment.repeats
                self._db.executemany(
                    "INSERT INTO runs (id, experiment_id, spec, created_at, cell) "
                    "VALUES (?, ?, ?, ?, ?)",
                    [
                        (new_id(), experiment.id, run.to_json(), now, place // a_cell)
                        for place, run in enumerate(experiment.runs())
                    ],
                )
        return bool(new)

    def claim(self, experiment_id: str | None = None) -> Run | None:
        """Take the oldest queued run (of one experiment, if named); it is `running` from now on."""
        row = self._execute(
            f"""
            UPDATE runs SET status = 'running', started_at = :now, phase = 'starting',
                phase_since = :now
            WHERE number = (
                SELECT number FROM runs
                WHERE status = 'queued' AND (:experiment IS NULL OR experiment_id = :experiment)
                ORDER BY number LIMIT 1
            )
            RETURNING {RUN_COLUMNS}
            """,
            {"now": time.time(), "experiment": experiment_id},
        ).fetchone()
        return _run(row) if row else None

    def claim_round(self, experiment_id: str | None = None) -> list[Run]:
        """Take what is measured next: the oldest queued run, with the runs it takes turns with.

        Those are the queued runs of its cell and repeat where the protocol is `paired`. A run with
        a note has been found unable to take turns, and goes by itself. In the order of the queue;
        empty when nothing is queued.
        """
        rows = self._execute(
            f"""
            UPDATE runs SET status = 'running', started_at = :now, phase = 'starting',
                phase_since = :now
            WHERE number IN (
                SELECT one.number FROM runs AS one, (
                    SELECT number, experiment_id, cell, {REPEAT} AS repeat,
                        {PROTOCOL} = 'paired' AND protocol_note IS NULL AS paired
                    FROM runs
                    WHERE status = 'queued' AND (:experiment IS NULL OR experiment_id = :experiment)
                    ORDER BY number LIMIT 1
                ) AS first
                WHERE one.number = first.number OR (
                    first.paired AND one.status = 'queued' AND one.protocol_note IS NULL
                    AND one.experiment_id = first.experiment_id AND one.cell = first.cell
                    AND {REPEAT} = first.repeat
                )
            )
            RETURNING {RUN_COLUMNS}
            """,
            {"now": time.time(), "experiment": experiment_id},
        ).fetchall()
        return sorted(map(_run, rows), key=lambda run: run.number)

    def next_queued(self, experiment_id: str | None = None) -> Run | None:
        """The run that would be claimed next."""
        row = self._execute(
            f"""
            SELECT {RUN_COLUMNS} FROM runs
            WHERE status = 'queued' AND (:experiment IS NULL OR experiment_id = :experiment)
            ORDER BY number LIMIT 1
            """,
            {"experiment": experiment_id},
        ).fetchone()
        return _run(row) if row else None

    def remove_queued(self, numbers: Iterable[int]) -> None:
        """Take runs out of the queue that need not be measured: they leave no trace."""
        chosen = list(numbers)
        self._execute(
            f"DELETE FROM runs WHERE status = 'queued' AND number IN ({_marks(chosen)})", chosen
        )

    def put_back(self, number: int, note: str) -> None:
        """A running run is queued again in its place, to be measured afresh and by itself."""
        with self._transaction():
            self._execute("DELETE FROM epochs WHERE run_number = ?", (number,))
            self._execute(
                """
                UPDATE runs SET status = 'queued', protocol_note = ?, round = NULL, phase = NULL,
                    phase_epoch = NULL, phase_since = NULL, compiling_since = NULL,
                    started_at = NULL, child_pid = NULL, child_created = NULL,
                    environment = NULL, prepared = NULL, activity = NULL, aftermath = NULL
                WHERE number = ? AND status = 'running'
                """,
                (note, number),
            )

    # What the worker reports of a running run

    def set_child(self, number: int, pid: int, created: float) -> None:
        """Remember the measuring process by pid and create time: a pid alone may be reused."""
        self._execute(
            "UPDATE runs SET child_pid = ?, child_created = ? WHERE number = ?",
            (pid, created, number),
        )

    def set_round(self, numbers: Iterable[int], name: str | None) -> None:
        """These runs take turns with each other, one epoch each; None: they did not after all."""
        with self._transaction():
            self._db.executemany(
                "UPDATE runs SET round = ? WHERE number = ?", [(name, one) for one in numbers]
            )

    def set_protocol_note(self, number: int, note: str) -> None:
        self._execute("UPDATE runs SET protocol_note = ? WHERE number = ?", (note, number))

    def set_phase(self, number: int, phase: str, epoch: int | None = None) -> None:
        self._execute(
            """
            UPDATE runs SET phase = ?, phase_epoch = ?, phase_since = ?, compiling_since = NULL
            WHERE number = ?
            """,
            (phase, epoch, time.time(), number),
        )

    def set_compiling(self, number: int, since: float | None) -> None:
        self._execute("UPDATE runs SET compiling_since = ? WHERE number = ?", (since, number))

    def set_environment(self, number: int, environment: Environment) -> None:
        self._execute(
            "UPDATE runs SET environment = ? WHERE number = ?", (environment.to_json(), number)
        )

    def set_prepared(self, number: int, prepared: Prepared) -> None:
        self._execute("UPDATE runs SET prepared = ? WHERE number = ?", (prepared.to_json(), number))

    def set_activity(self, number: int, activity: Activity) -> None:
        self._execute("UPDATE runs SET activity = ? WHERE number = ?", (activity.to_json(), number))

    def set_aftermath(self, number: int, aftermath: Aftermath) -> None:
        self._execute(
            "UPDATE runs SET aftermath = ? WHERE number = ?", (aftermath.to_json(), number)
        )

    def set_priming_seconds(self, number: int, seconds: float) -> None:
        self._execute("UPDATE runs SET priming_seconds = ? WHERE number = ?", (seconds, number))

    def add_epoch(self, number: int, epoch: Epoch) -> None:
        self._execute(
            f"INSERT INTO epochs (run_number, {EPOCH_COLUMNS}, {STEP_COLUMNS}) "
            f"VALUES (?{', ?' * 16})",
            (
                number,
                epoch.epoch,
                epoch.started_at,
                epoch.wall_seconds,
                epoch.data_wait_seconds,
                epoch.compile_seconds,
                _windows.dump_json(epoch.compile_windows).decode(),
                epoch.samples,
                epoch.loss,
                epoch.evaluation_seconds,
                epoch.evaluation_compile_seconds,
                epoch.accuracy,
                epoch.peak_memory_bytes,
                epoch.peak_reserved_bytes,
                epoch.foreign_cpu_share,
                array("d", epoch.step_seconds).tobytes(),
                array("d", epoch.device_seconds).tobytes(),
            ),
        )

    def finish(
        self,
        number: int,
        status: Status,
        *,
        failure: str | None = None,
        reason: str | None = None,
        traceback: str | None = None,
    ) -> None:
        """End a running run. One that has ended already keeps how it ended."""
        self._execute(
            """
            UPDATE runs SET status = ?, failure = ?, reason = ?, traceback = ?, ended_at = ?,
                compiling_since = NULL
            WHERE number = ? AND status = 'running'
            """,
            (status, failure, reason, traceback, time.time(), number),
        )

    # Stopping and deleting

    def stop(self, *, number: int | None = None, experiment_id: str | None = None) -> None:
        """Stop one run, one experiment, or all: queued runs end now, a running one is asked to."""
        which = {"number": number, "experiment": experiment_id, "now": time.time()}
        chosen = """
            (:number IS NULL OR number = :number)
            AND (:experiment IS NULL OR experiment_id = :experiment)
        """
        with self._transaction():
            self._execute(
                f"""
                UPDATE runs SET status = 'stopped', reason = 'stopped before it started',
                    ended_at = :now
                WHERE status = 'queued' AND {chosen}
                """,
                which,
            )
            self._execute(
                f"UPDATE runs SET stop_requested = 1 WHERE status = 'running' AND {chosen}", which
            )

    def stop_requested(self, number: int) -> bool:
        row = self._execute(
            "SELECT stop_requested FROM runs WHERE number = ?", (number,)
        ).fetchone()
        return row is None or bool(row[0])  # a run that was deleted must not go on either

    def interrupt_running(self) -> list[Run]:
        """Mark runs that nobody is measuring any more; returns them, so that remains can go.

        Only for the process that holds the worker's lock.
        """
        rows = self._execute(
            f"""
            UPDATE runs SET status = 'interrupted', ended_at = :now, compiling_since = NULL,
                reason = 'the worker ended before the run did; what was measured is kept'
            WHERE status = 'running' RETURNING {RUN_COLUMNS}
            """,
            {"now": time.time()},
        ).fetchall()
        return [_run(row) for row in rows]

    def delete(self, numbers: Iterable[int]) -> None:
        """Remove ended runs and their epochs, and experiments left without a run."""
        with self._transaction():
            self._db.executemany(
                f"DELETE FROM runs WHERE number = ? AND status IN ({_marks(ENDED)})",
                [(number, *ENDED) for number in numbers],
            )
            self._execute(
                "DELETE FROM experiments WHERE id NOT IN (SELECT experiment_id FROM runs)"
            )

    # Reading

    def run(self, reference: int | str) -> Run | None:
        """By number (41) or id ('3f9c0a71b2d4'); None when there is no such run."""
        row = self._execute(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE id = :text OR CAST(number AS TEXT) = :text",
            {"text": str(reference)},
        ).fetchone()
        return _run(row) if row else None

    def equal_arms(self) -> list[Run]:
        """Runs of A/A experiments, which measure how far equal arms lie apart."""
        rows = self._execute(
            f"""
            SELECT {RUN_COLUMNS} FROM runs
            WHERE json_extract(spec, '$.measurement.side') IS NOT NULL ORDER BY number
            """
        ).fetchall()
        return [_run(row) for row in rows]

    def last_measured(self) -> Run | None:
        """The run that ended last, of those that had begun."""
        row = self._execute(
            f"""
            SELECT {RUN_COLUMNS} FROM runs WHERE started_at IS NOT NULL AND ended_at IS NOT NULL
            ORDER BY ended_at DESC, number DESC LIMIT 1
            """
        ).fetchone()
        return _run(row) if row else None

    def runs(
        self, experiment_id: str | None = None, statuses: Iterable[Status] | None = None
    ) -> list[Run]:
        """In the order they were queued."""
        wanted = list(statuses) if statuses is not None else None
        rows = self._execute(
            f"""
            SELECT {RUN_COLUMNS} FROM runs
            WHERE (? IS NULL OR experiment_id = ?)
                AND {"1" if wanted is None else f"status IN ({_marks(wanted)})"}
            ORDER BY number
            """,
            (experiment_id, experiment_id, *(wanted or ())),
        ).fetchall()
        return [_run(row) for row in rows]

    def running(self) -> list[Run]:
        return self.runs(statuses=("running",))

    def queued(self) -> list[Run]:
        """In the order in which they will be claimed."""
        return self.runs(statuses=("queued",))

    def epochs(self, numbers: Iterable[int], *, steps: bool = False) -> dict[int, list[Epoch]]:
        """Epochs by run number, in order.

        The times of single steps are what an inference run consists of; those of a training run
        are left out unless `steps`.
        """
        found: dict[int, list[Epoch]] = {number: [] for number in numbers}
        for number in found:
            columns = EPOCH_COLUMNS
            if steps or self._is_inference(number):
                columns += f", {STEP_COLUMNS}"
            rows = self._execute(
                f"SELECT {columns} FROM epochs WHERE run_number = ? ORDER BY epoch", (number,)
            )
            found[number] = [_epoch(row) for row in rows]
        return found

    def _is_inference(self, number: int) -> bool:
        row = self._execute(
            "SELECT json_extract(spec, '$.workload.task') = 'infer' FROM runs WHERE number = ?",
            (number,),
        ).fetchone()
        return bool(row and row[0])

    def experiment(self, experiment_id: str) -> Experiment | None:
        row = self._execute(
            "SELECT spec FROM experiments WHERE id = ?", (experiment_id,)
        ).fetchone()
        return Experiment.from_json(row[0]) if row else None

    def experiments(self, limit: int | None = None) -> list[Experiment]:
        """Newest first."""
        rows = self._execute(
            "SELECT spec FROM experiments ORDER BY created_at DESC, rowid DESC LIMIT ?",
            (-1 if limit is None else limit,),
        ).fetchall()
        return [Experiment.from_json(row[0]) for row in rows]

    def machines(self) -> list[str]:
        """Labels of machines in the order of their first run: the order that fixes colours."""
        rows = self._execute(
            """
            SELECT json_extract(environment, '$.machine') AS machine FROM runs
            WHERE environment IS NOT NULL GROUP BY machine ORDER BY min(number)
            """
        ).fetchall()
        return [row[0] for row in rows]


def _marks(values: Iterable[object]) -> str:
    return ", ".join("?" for _ in values)


def _run(row: sqlite3.Row) -> Run:
    fields: dict[str, Any] = dict(row)
    for name, kind in PARTS.items():
        if fields[name] is not None:
            try:
                fields[name] = _part(kind, fields[name])
            except SpecError as error:
                raise StoreError(
                    f"run {row['number']} cannot be read ({name}: {error}); move bench.db away, or "
                    "take the row out of its table runs"
                ) from error
    fields["unstated"] = tuple(json.loads(fields["unstated"]))
    return Run(**fields)


@lru_cache(maxsize=8192)
def _part(kind: type[Frozen], line: str) -> Frozen:
    """Pages read the same runs again and again, and many runs share an environment."""
    return kind.from_json(line)


def _epoch(row: sqlite3.Row) -> Epoch:
    fields: dict[str, Any] = dict(row)
    fields["compile_windows"] = _windows.validate_json(fields["compile_windows"])
    for name in STEP_COLUMNS.split(", "):
        seconds = array("d")
        seconds.frombytes(fields.get(name, b""))
        fields[name] = tuple(seconds)
    return Epoch.model_construct(**fields)  # checked when it was written
