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
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from bench_core.events import (
    Activity,
    Aftermath,
    CompileWindow,
    Environment,
    Epoch,
    Prepared,
    StepSummary,
)
from bench_core.imported import Import, Imported, ImportedRun
from bench_core.paths import FolderError, data_dir
from bench_core.run import ENDED, Run, Status
from bench_core.source import Source, Stated
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
    """
    CREATE TABLE imports (
        id TEXT PRIMARY KEY,
        at REAL NOT NULL,
        file TEXT NOT NULL,
        sha256 TEXT NOT NULL UNIQUE,
        family TEXT NOT NULL,
        rows INTEGER NOT NULL,
        runs INTEGER NOT NULL
    );
    CREATE TABLE machines (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        came_as TEXT NOT NULL,
        label TEXT NOT NULL,
        price_per_hour REAL,
        UNIQUE (id, came_as)
    );
    INSERT INTO machines (id, came_as, label)
        SELECT machine_id, machine, machine FROM (
            SELECT json_extract(environment, '$.machine_id') AS machine_id,
                json_extract(environment, '$.machine') AS machine, min(number) AS first
            FROM runs WHERE environment IS NOT NULL GROUP BY 1, 2
        ) ORDER BY first;
    ALTER TABLE runs ADD COLUMN import_id TEXT REFERENCES imports (id) ON DELETE CASCADE;
    ALTER TABLE runs ADD COLUMN source TEXT;
    ALTER TABLE runs ADD COLUMN stated TEXT;
    ALTER TABLE epochs ADD COLUMN steps TEXT;
    CREATE INDEX runs_by_import ON runs (import_id)
    """,
)

PARTS: dict[str, type[Frozen]] = {
    "spec": RunSpec,
    "environment": Environment,
    "prepared": Prepared,
    "activity": Activity,
    "aftermath": Aftermath,
    "source": Source,
    "stated": Stated,
}
RUN_COLUMNS = ", ".join(Run.__slots__)
EPOCH_COLUMNS = (
    "epoch, started_at, wall_seconds, data_wait_seconds, compile_seconds, compile_windows, "
    "samples, loss, evaluation_seconds, evaluation_compile_seconds, accuracy, peak_memory_bytes, "
    "peak_reserved_bytes, foreign_cpu_share, steps"
)
STEP_COLUMNS = "step_seconds, device_seconds"
REPEAT = "json_extract(spec, '$.measurement.repeat')"
PROTOCOL = "json_extract(spec, '$.measurement.protocol')"
_windows = TypeAdapter(tuple[CompileWindow, ...])
ADD_EPOCH = f"""
    INSERT INTO epochs (run_number, {EPOCH_COLUMNS}, {STEP_COLUMNS}) VALUES (?{", ?" * 17})
"""
# Of an imported run; the rest is of a run that is measured here.
IMPORTED_COLUMNS = (
    "id, experiment_id, spec, status, failure, reason, phase, created_at, started_at, ended_at, "
    "priming_seconds, environment, prepared, activity, aftermath, round, protocol_note, unstated, "
    "source, stated, import_id"
)
ADD_IMPORTED = f"INSERT INTO runs ({IMPORTED_COLUMNS}) VALUES (?{', ?' * 20}) RETURNING number"


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
        with self._transaction():
            labelled = self._labelled(environment)
            self._execute(
                "UPDATE runs SET environment = ? WHERE number = ?", (labelled.to_json(), number)
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
        self._execute(ADD_EPOCH, _epoch_row(number, epoch))

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

    # Results of other machines

    def import_runs(
        self, file: str, sha256: str, family: str, runs: Iterable[ImportedRun]
    ) -> Imported:
        """Write a file's runs, all or none; those whose id is here already are left as they are.

        Whatever `runs` raises ends the import, and nothing of it stays.
        """
        record = Import(new_id(), time.time(), file, sha256, family, rows=0, runs=0)
        rows = new = known = 0
        with self._transaction():
            self._execute(
                "INSERT INTO imports (id, at, file, sha256, family, rows, runs) "
                "VALUES (?, ?, ?, ?, ?, 0, 0)",
                (record.id, record.at, file, sha256, family),
            )
            here = self.run_ids()
            for one in runs:
                if one.run.id in here:
                    known += 1
                    continue
                number = self._add_imported(one, record.id)
                self._db.executemany(ADD_EPOCH, (_epoch_row(number, epoch) for epoch in one.epochs))
                rows += max(1, len(one.epochs))
                new += 1
            if not new:
                self._execute("DELETE FROM imports WHERE id = ?", (record.id,))
                return Imported(None, 0, known)
            self._execute(
                "UPDATE imports SET rows = ?, runs = ? WHERE id = ?", (rows, new, record.id)
            )
        return Imported(replace(record, rows=rows, runs=new), new, known)

    def _add_imported(self, one: ImportedRun, import_id: str) -> int:
        run = one.run
        self._execute(
            "INSERT OR IGNORE INTO experiments (id, created_at, spec) VALUES (?, ?, ?)",
            (run.experiment_id, run.created_at, one.experiment or ""),
        )
        environment = run.environment
        if environment is not None:
            environment = self._labelled(environment)
        parts = {
            name: part and part.to_json()
            for name, part in (
                ("spec", run.spec),
                ("environment", environment),
                ("prepared", run.prepared),
                ("activity", run.activity),
                ("aftermath", run.aftermath),
                ("source", run.source),
                ("stated", run.stated),
            )
        }
        facts = {
            name: getattr(run, name)
            for name in IMPORTED_COLUMNS.split(", ")
            if name not in (*parts, "import_id", "unstated")
        }
        facts |= {"unstated": json.dumps(run.unstated), "import_id": import_id, **parts}
        values = [facts[name] for name in IMPORTED_COLUMNS.split(", ")]
        return self._execute(ADD_IMPORTED, values).fetchone()[0]

    def undo_import(self, import_id: str) -> int:
        """Take everything that one import brought out again; how many runs that were."""
        with self._transaction():
            count = self._execute("DELETE FROM runs WHERE import_id = ?", (import_id,)).rowcount
            self._execute("DELETE FROM imports WHERE id = ?", (import_id,))
            self._execute(
                "DELETE FROM experiments WHERE id NOT IN (SELECT experiment_id FROM runs)"
            )
        return count

    def imports(self) -> list[Import]:
        """Newest first."""
        rows = self._execute(
            "SELECT id, at, file, sha256, family, rows, runs FROM imports ORDER BY at DESC, id"
        ).fetchall()
        return [Import(**dict(row)) for row in rows]

    def import_of(self, sha256: str) -> Import | None:
        """The import of a file with this content."""
        row = self._execute(
            "SELECT id, at, file, sha256, family, rows, runs FROM imports WHERE sha256 = ?",
            (sha256,),
        ).fetchone()
        return Import(**dict(row)) if row else None

    def run_ids(self) -> set[str]:
        return {row[0] for row in self._execute("SELECT id FROM runs")}

    # Machines

    def _labelled(self, environment: Environment) -> Environment:
        """The environment under the label that its machine has here; a new machine gets a place."""
        row = self._execute(
            "INSERT INTO machines (id, came_as, label) VALUES (:id, :label, :label) "
            "ON CONFLICT (id, came_as) DO UPDATE SET id = id RETURNING label",
            {"id": environment.machine_id, "label": environment.machine},
        ).fetchone()
        return environment.changed(machine=row[0])

    def rename_machine(self, machine_id: str, label: str, new_label: str) -> None:
        """Another label for a machine, on all of its runs, those to come too."""
        with self._transaction():
            self._execute(
                "UPDATE machines SET label = ? WHERE id = ? AND label = ?",
                (new_label, machine_id, label),
            )
            self._execute(
                """
                UPDATE runs SET environment = json_set(environment, '$.machine', ?)
                WHERE json_extract(environment, '$.machine_id') = ?
                    AND json_extract(environment, '$.machine') = ?
                """,
                (new_label, machine_id, label),
            )

    def set_price(self, machine_id: str, price_per_hour: float | None) -> None:
        """What an hour on a machine costs, in whatever money the user counts."""
        self._execute(
            "UPDATE machines SET price_per_hour = ? WHERE id = ?", (price_per_hour, machine_id)
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
        return Experiment.from_json(row[0]) if row and row[0] else None

    def experiments(self, limit: int | None = None) -> list[Experiment]:
        """Newest first; those of which only imported runs are known are none."""
        rows = self._execute(
            "SELECT spec FROM experiments WHERE spec != '' "
            "ORDER BY created_at DESC, rowid DESC LIMIT ?",
            (-1 if limit is None else limit,),
        ).fetchall()
        return [Experiment.from_json(row[0]) for row in rows]

    def machines(self) -> list[str]:
        """Labels of machines in the order in which they came: the order that fixes colours.

        A machine keeps its place when its runs are gone.
        """
        rows = self._execute(
            "SELECT label FROM machines GROUP BY label ORDER BY min(number)"
        ).fetchall()
        return [row[0] for row in rows]

    def labelled_machines(self) -> list[tuple[str, str]]:
        """Id and label of the machines that have runs, in the order in which they came."""
        rows = self._execute(
            """
            SELECT id, label FROM machines WHERE EXISTS (
                SELECT 1 FROM runs WHERE json_extract(environment, '$.machine_id') = machines.id
                    AND json_extract(environment, '$.machine') = machines.label
            ) GROUP BY id, label ORDER BY min(number)
            """
        ).fetchall()
        return [(row[0], row[1]) for row in rows]

    def prices(self) -> dict[str, float]:
        """Price of an hour by machine id, where one was given."""
        rows = self._execute(
            "SELECT id, price_per_hour FROM machines WHERE price_per_hour IS NOT NULL "
            "ORDER BY number"
        ).fetchall()
        return {row[0]: row[1] for row in rows}


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


def _epoch_row(number: int, epoch: Epoch) -> tuple[Any, ...]:
    """The values of ADD_EPOCH."""
    windows = epoch.compile_windows
    return (
        number,
        epoch.epoch,
        epoch.started_at,
        epoch.wall_seconds,
        epoch.data_wait_seconds,
        epoch.compile_seconds,
        _windows.dump_json(windows).decode() if windows else "[]",
        epoch.samples,
        epoch.loss,
        epoch.evaluation_seconds,
        epoch.evaluation_compile_seconds,
        epoch.accuracy,
        epoch.peak_memory_bytes,
        epoch.peak_reserved_bytes,
        epoch.foreign_cpu_share,
        epoch.steps and epoch.steps.to_json(),
        array("d", epoch.step_seconds).tobytes(),
        array("d", epoch.device_seconds).tobytes(),
    )


def _epoch(row: sqlite3.Row) -> Epoch:
    fields: dict[str, Any] = dict(row)
    fields["compile_windows"] = _windows.validate_json(fields["compile_windows"])
    if fields["steps"] is not None:
        fields["steps"] = StepSummary.from_json(fields["steps"])
    for name in STEP_COLUMNS.split(", "):
        seconds = array("d")
        seconds.frombytes(fields.get(name, b""))
        fields[name] = tuple(seconds)
    return Epoch.model_construct(**fields)  # checked when it was written
