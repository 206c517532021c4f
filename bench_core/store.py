"""The SQLite file: experiments, runs and their epochs. It is the queue too.

The only module with SQL, one statement a method. Any number of processes may hold it open (WAL);
a run is claimed by one `UPDATE ... RETURNING`, so by one worker only. What counts are raw times:
the table `derived` keeps what was computed from them, may be emptied at any time, and is not looked
at once a formula has changed.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

from bench_core.epoch_columns import FIELDS, LISTS, EpochColumns, packed
from bench_core.events import Activity, Aftermath, Environment, Epoch, Prepared
from bench_core.imported import Import, Imported, ImportedRun
from bench_core.measured import FORMULA, Derived, measure_all
from bench_core.paths import FolderError, data_dir
from bench_core.run import ENDED, Run, Status
from bench_core.spec import Experiment, SpecError, new_id
from bench_core.store_rows import (
    DERIVED_NAMES,
    EPOCH_NAMES,
    IMPORTED_NAMES,
    RUN_NAMES,
    derived_of,
    derived_row,
    epoch_of,
    epoch_row,
    imported_row,
    packed_row,
    run_of,
)
from bench_core.table_file import BadFile

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
    CREATE TABLE packed_epochs (
        run_number INTEGER PRIMARY KEY REFERENCES runs (number) ON DELETE CASCADE,
        count INTEGER NOT NULL,
        epoch BLOB,
        started_at BLOB,
        wall_seconds BLOB,
        data_wait_seconds BLOB,
        compile_seconds BLOB,
        samples BLOB,
        loss BLOB,
        evaluation_seconds BLOB,
        evaluation_compile_seconds BLOB,
        accuracy BLOB,
        peak_memory_bytes BLOB,
        peak_reserved_bytes BLOB,
        foreign_cpu_share BLOB,
        compile_windows TEXT,
        steps BLOB,
        step_seconds BLOB,
        device_seconds BLOB
    );
    CREATE INDEX runs_by_import ON runs (import_id);
    CREATE TABLE derived (
        run_number INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
        evaluation INTEGER NOT NULL,
        formula TEXT NOT NULL,
        steady_first INTEGER,
        steady_median_seconds REAL,
        steady_spread REAL,
        steady_count INTEGER NOT NULL,
        steady_reason TEXT,
        excess_seconds REAL,
        epochs INTEGER NOT NULL,
        count INTEGER NOT NULL,
        first_seconds REAL,
        compile_seconds REAL NOT NULL,
        peak_memory_bytes INTEGER,
        tested INTEGER NOT NULL,
        PRIMARY KEY (run_number, evaluation)
    ) WITHOUT ROWID
    """,
)

RUN_COLUMNS = ", ".join(RUN_NAMES)
IMPORTED_COLUMNS = ", ".join(IMPORTED_NAMES)
EPOCH_COLUMNS = ", ".join(EPOCH_NAMES)
STEP_COLUMNS = ", ".join(LISTS)
PACKED_COLUMNS = f"count, {', '.join(FIELDS)}"
DERIVED_COLUMNS = f"evaluation, formula, {', '.join(DERIVED_NAMES)}"
REPEAT = "json_extract(spec, '$.measurement.repeat')"
PROTOCOL = "json_extract(spec, '$.measurement.protocol')"
ADD_EPOCH = f"""
    INSERT INTO epochs (run_number, {EPOCH_COLUMNS}, {STEP_COLUMNS}) VALUES (?{", ?" * 16})
"""
# A file that comes in is written here first, which locks nobody out. `run_number` is a place.
STAGES = {
    "new_runs": f"SELECT 0 AS place, {IMPORTED_COLUMNS} FROM runs",
    "new_packed_epochs": f"SELECT run_number, {PACKED_COLUMNS} FROM packed_epochs",
    "new_derived": f"SELECT run_number, {DERIVED_COLUMNS} FROM derived",
}
MACHINE = ("machine_id", "machine")
# So many runs are looked at together: their epochs are in memory at once.
RUNS_AT_ONCE = 200


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

    def _execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        try:
            self._db.executemany(sql, rows)
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"{self.path} cannot be used now: {error}; if it stays so, move the file away"
            ) from error

    def _run(self, row: tuple[Any, ...]) -> Run:
        try:
            return run_of(str(self.path), row)
        except SpecError as error:
            raise StoreError(
                f"{error}; move bench.db away, or take the row out of its table runs"
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
                self._execute_many(
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
        return self._run(row) if row else None

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
        return sorted(map(self._run, rows), key=lambda run: run.number)

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
        return self._run(row) if row else None

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
            self._execute_many(
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
        self._execute(ADD_EPOCH, (number, *epoch_row(epoch)))

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
        return [self._run(row) for row in rows]

    def delete(self, numbers: Iterable[int]) -> None:
        """Remove ended runs and their epochs, and experiments and imports left without a run."""
        with self._transaction():
            self._execute_many(
                f"DELETE FROM runs WHERE number = ? AND status IN ({_marks(ENDED)})",
                [(number, *ENDED) for number in numbers],
            )
            self._execute(
                "DELETE FROM experiments WHERE id NOT IN (SELECT experiment_id FROM runs)"
            )
            self._execute(
                "DELETE FROM imports WHERE NOT EXISTS "
                "(SELECT 1 FROM runs WHERE import_id = imports.id)"
            )

    # Results of other machines

    def import_runs(
        self, file: str, sha256: str, family: str, runs: Iterable[ImportedRun]
    ) -> Imported:
        """Write a file's runs, all or none; those whose id is here already are left as they are.

        Runs of a file that was imported before, in part, join its import. Whatever `runs` raises
        ends the import, and nothing of it stays. While they are read nothing is locked: a worker
        goes on writing, and so may another import.
        """
        before = self.import_of(sha256)
        record = before or Import(new_id(), time.time(), file, sha256, family, runs=0)
        with self._staging():
            experiments, ids = self._stage(record, runs)
            with self._transaction():
                # Another process may have brought the file, or taken it out, meanwhile.
                new = self._count_new() if self.import_of(sha256) == before else 0
                if new:
                    record = replace(record, runs=record.runs + new)
                    self._execute(
                        "INSERT INTO imports (id, at, file, sha256, family, runs) "
                        "VALUES (?, ?, ?, ?, ?, ?) "
                        "ON CONFLICT (id) DO UPDATE SET runs = excluded.runs",
                        (record.id, record.at, file, sha256, family, record.runs),
                    )
                    self._take_over(experiments)
        return Imported(record if new else None, new, len(ids) - new)

    @contextmanager
    def _staging(self) -> Iterator[None]:
        """Empty tables of this connection alone, in a nameless file that goes when it is let go.

        Dropping tables of temp would go through all of their pages.
        """
        self._execute("ATTACH '' AS stage")
        try:
            for name, of in STAGES.items():
                self._execute(f"CREATE TABLE stage.{name} AS {of} WHERE 0")
            yield
        finally:
            self._execute("DETACH stage")

    def _stage(
        self, record: Import, runs: Iterable[ImportedRun]
    ) -> tuple[dict[str, tuple[float, str]], set[str]]:
        """Write the runs that are not here into the stages.

        Returns the experiments that they name, by id the time and the JSON, and the ids of all.
        """
        here, ids = self.run_ids(), set[str]()
        experiments: dict[str, tuple[float, str]] = {}
        waiting, place = iter(runs), 0
        self._execute("BEGIN")
        try:
            with ThreadPoolExecutor(1) as beside:  # SQLite writes some while the next are read
                writing: Future[None] | None = None
                while some := list(islice(waiting, RUNS_AT_ONCE)):
                    for one in some:
                        if one.run.id in ids:
                            line = one.run.source.line if one.run.source else None
                            raise BadFile(f"run {one.run.id} stands there twice", line)
                        ids.add(one.run.id)
                    new = [one for one in some if one.run.id not in here]
                    for one in new:
                        run = one.run
                        if one.experiment or run.experiment_id not in experiments:
                            told = (run.created_at, one.experiment or "")
                            experiments[run.experiment_id] = told
                    rows = _staged_rows(record, new, place)
                    place += len(new)
                    if writing:
                        writing.result()
                    writing = beside.submit(self._insert, rows)
                if writing:
                    writing.result()
            self._execute("COMMIT")
        except BaseException:
            self._db.rollback()
            raise
        return experiments, ids

    def _insert(self, rows: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """By table. All rows of one go in by one statement: other threads run meanwhile."""
        for table, of_table in rows.items():
            if of_table:
                marks = ", ".join([f"({_marks(of_table[0])})"] * len(of_table))
                self._execute(
                    f"INSERT INTO {table} VALUES {marks}", [*chain.from_iterable(of_table)]
                )

    def _count_new(self) -> int:
        """How many staged runs stay, once those are out that another has brought meanwhile."""
        self._execute("DELETE FROM new_runs WHERE id IN (SELECT id FROM runs)")
        count: int = self._execute("SELECT count(*) FROM new_runs").fetchone()[0]
        return count

    def _take_over(self, experiments: Mapping[str, tuple[float, str]]) -> None:
        """From the stages into the tables, under new numbers."""
        self._execute_many(
            "INSERT INTO experiments (id, created_at, spec) VALUES (?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET spec = excluded.spec WHERE spec = ''",
            ((name, at, spec) for name, (at, spec) in experiments.items()),
        )
        self._label_staged()
        row = self._execute("SELECT seq FROM sqlite_sequence WHERE name = 'runs'").fetchone()
        of_new = "run_number IN (SELECT place FROM new_runs)"
        for table, columns, named in (
            ("runs", IMPORTED_COLUMNS, "number"),
            ("packed_epochs", PACKED_COLUMNS, "run_number"),
            ("derived", DERIVED_COLUMNS, "run_number"),
        ):
            place, which = ("place", "1") if table == "runs" else ("run_number", of_new)
            self._execute(
                f"INSERT INTO {table} ({named}, {columns}) "
                f"SELECT ? + {place}, {columns} FROM new_{table} WHERE {which} ORDER BY rowid",
                (row[0] if row else 0,),
            )
        self._execute(
            "DELETE FROM experiments WHERE spec = '' AND id NOT IN (SELECT experiment_id FROM runs)"
        )

    def _label_staged(self) -> None:
        """Staged runs get the labels that their machines have here; new machines get a place."""
        machine_id, label = (f"json_extract(environment, '$.{name}')" for name in MACHINE)
        found = self._execute(
            f"SELECT {machine_id}, {label} FROM new_runs WHERE environment IS NOT NULL "
            "GROUP BY 1, 2 ORDER BY min(place)"
        ).fetchall()
        for one in found:
            here = self._label(*one)
            if here != one[1]:
                self._execute(
                    "UPDATE new_runs SET environment = json_set(environment, '$.machine', ?) "
                    f"WHERE {machine_id} = ? AND {label} = ?",
                    (here, *one),
                )

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
            "SELECT id, at, file, sha256, family, runs FROM imports ORDER BY at DESC, id"
        ).fetchall()
        return [Import(*row) for row in rows]

    def import_of(self, sha256: str) -> Import | None:
        """The import of a file with this content; `runs` are those of it that are here now."""
        row = self._execute(
            "SELECT id, at, file, sha256, family, "
            "(SELECT count(*) FROM runs WHERE import_id = imports.id) "
            "FROM imports WHERE sha256 = ?",
            (sha256,),
        ).fetchone()
        return Import(*row) if row else None

    def run_ids(self) -> set[str]:
        return {row[0] for row in self._execute("SELECT id FROM runs")}

    # Machines

    def _labelled(self, environment: Environment) -> Environment:
        """The environment under the label that its machine has here; a new machine gets a place."""
        label = self._label(environment.machine_id, environment.machine)
        return environment.changed(machine=label)

    def _label(self, machine_id: str, came_as: str) -> str:
        return self._execute(
            "INSERT INTO machines (id, came_as, label) VALUES (:id, :label, :label) "
            "ON CONFLICT (id, came_as) DO UPDATE SET id = id RETURNING label",
            {"id": machine_id, "label": came_as},
        ).fetchone()[0]

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
        return self._run(row) if row else None

    def equal_arms(self) -> list[Run]:
        """Runs of A/A experiments, which measure how far equal arms lie apart."""
        rows = self._execute(
            f"""
            SELECT {RUN_COLUMNS} FROM runs
            WHERE json_extract(spec, '$.measurement.side') IS NOT NULL ORDER BY number
            """
        ).fetchall()
        return [self._run(row) for row in rows]

    def last_measured(self) -> Run | None:
        """The run that ended last, of those that had begun."""
        row = self._execute(
            f"""
            SELECT {RUN_COLUMNS} FROM runs WHERE started_at IS NOT NULL AND ended_at IS NOT NULL
            ORDER BY ended_at DESC, number DESC LIMIT 1
            """
        ).fetchone()
        return self._run(row) if row else None

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
        return [self._run(row) for row in rows]

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
        return {number: list(self._epochs(number, steps)) for number in numbers}

    def epoch_columns(self, number: int) -> EpochColumns:
        """The epochs of a run as columns, without the single steps of a training run."""
        found = self._epochs(number, steps=False)
        if isinstance(found, EpochColumns):
            return found
        columns = packed(found)
        return EpochColumns(len(found), lambda: columns)

    def _epochs(self, number: int, steps: bool) -> Sequence[Epoch]:
        of_import = self._execute(
            f"SELECT {PACKED_COLUMNS} FROM packed_epochs WHERE run_number = ?", (number,)
        ).fetchone()
        if of_import:
            count, *values = of_import
            columns = dict(zip(FIELDS, values, strict=True))
            return EpochColumns(count, lambda: columns)
        with_steps = steps or self._is_inference(number)
        names = (*EPOCH_NAMES, *(LISTS if with_steps else ()))
        rows = self._execute(
            f"SELECT {', '.join(names)} FROM epochs WHERE run_number = ? ORDER BY epoch", (number,)
        )
        return [epoch_of(names, row) for row in rows]

    def _is_inference(self, number: int) -> bool:
        row = self._execute(
            "SELECT json_extract(spec, '$.workload.task') = 'infer' FROM runs WHERE number = ?",
            (number,),
        ).fetchone()
        return bool(row and row[0])

    def derived(self, numbers: Sequence[int], evaluation: bool) -> dict[int, Derived]:
        """What was computed of these runs by the present formulas, by run number.

        With `evaluation` their testing counts, where there was any.
        """
        if not numbers:
            return {}
        # Thousands are found faster by a look at all from the first to the last.
        few = list(numbers) if len(numbers) <= RUNS_AT_ONCE else []
        rows = self._execute(
            f"SELECT run_number, {', '.join(DERIVED_NAMES)} FROM derived "
            "WHERE formula = ? AND (evaluation = ? OR NOT tested) "
            f"AND run_number BETWEEN ? AND ? {f'AND run_number IN ({_marks(few)})' if few else ''}",
            (FORMULA, evaluation, min(numbers), max(numbers), *few),
        )
        wanted = set(numbers)
        return {number: derived_of(values) for number, *values in rows if number in wanted}

    def keep_derived(self, found: Mapping[int, Derived], evaluation: bool) -> None:
        """Keep what was computed of runs that have ended; of others nothing is kept."""
        if not found:
            return
        with self._transaction():
            self._execute_many(
                f"INSERT OR REPLACE INTO derived (run_number, {DERIVED_COLUMNS}) "
                f"SELECT number, ?, ?{', ?' * len(DERIVED_NAMES)} FROM runs "
                f"WHERE number = ? AND status IN ({_marks(ENDED)})",
                (
                    # Without testing it is the same either way, and stands there once.
                    (evaluation and one.tested, FORMULA, *derived_row(one), number, *ENDED)
                    for number, one in found.items()
                ),
            )

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


def _staged_rows(
    record: Import, new: Sequence[ImportedRun], place: int
) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of STAGES for runs that come after the first `place`."""
    numbered = list(enumerate(new, place + 1))
    rows: dict[str, list[tuple[Any, ...]]] = {
        "new_runs": [(at, *imported_row(one.run, record.id)) for at, one in numbered],
        "new_packed_epochs": [
            (at, len(one.epochs), *packed_row(one.epochs)) for at, one in numbered if one.epochs
        ],
        "new_derived": [],
    }
    for evaluation in (False, True):
        measured = measure_all(((one.run, one.epochs) for _, one in numbered), evaluation)
        both = list(zip(numbered, measured, strict=True))
        rows["new_derived"] += [
            (at, evaluation, FORMULA, *derived_row(of.derived)) for (at, _), of in both
        ]
        numbered = [one for one, of in both if of.derived.tested]
    return rows
