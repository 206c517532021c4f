"""Stored runs with what is derived of them, and their epochs once somebody looks at one.

What was derived of a run that has ended stays in the store, so that a page with thousands of runs
reads a row of each and no epoch. Epochs that were read stay in memory, up to a limit.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from bench_core.epoch_columns import EpochColumns, Packed
from bench_core.measured import Derived, Measured, measure_all
from bench_core.run import ENDED, Run
from bench_core.store import RUNS_AT_ONCE, Store, StoreError

# Runs whose epochs are in memory: of 100 epochs each they take about 100 MB.
MOST_READ = 2_000
MOST_KEPT = 50_000
# By run, import and number: numbers begin anew in a new file, a file that was mended comes again,
# and so does a run that was deleted, under another number.
Key = tuple[str, str | None, int]
_read: dict[Key, Packed] = {}
_kept: dict[tuple[Key, bool], Measured] = {}


def measured_runs(store: Store, runs: Sequence[Run], evaluation: bool = False) -> list[Measured]:
    """The runs in their order. `evaluation`: the testing after each epoch counts too."""
    if len(_kept) > MOST_KEPT:
        _kept.clear()
    found = {
        run.id: known if known.run is run else replace(known, run=run)  # with another label
        for run in runs
        if run.status in ENDED and (known := _kept.get((_key(run), evaluation)))
    }
    new = [run for run in runs if run.id not in found]
    derived = store.derived([run.number for run in new], evaluation)
    for run in new:
        if run.number in derived:
            found[run.id] = _lazy(store, run, derived[run.number], evaluation)
    never = iter([run for run in new if run.number not in derived])
    while some := list(islice(never, RUNS_AT_ONCE)):
        measured = measure_all(((run, store.epoch_columns(run.number)) for run in some), evaluation)
        ended = {one.run.number: one.derived for one in measured if one.run.status in ENDED}
        store.keep_derived(ended, evaluation)
        for one in measured:
            lazy = _lazy(store, one.run, one.derived, evaluation)
            found[one.run.id] = lazy if one.run.number in ended else one
    for run in runs:  # those with another label, too: the same run is the same object next time
        if run.status in ENDED:
            _kept[_key(run), evaluation] = found[run.id]
    if len(new) > RUNS_AT_ONCE:
        # They stay: the collector would go through all of them in every run of a page's script.
        gc.collect()
        gc.freeze()
    return [found[run.id] for run in runs]


def read_epochs(store: Store, measured: Iterable[Measured]) -> None:
    """Have the epochs of these runs at hand, read in one go: one by one each opens the store.

    Those of a run that has not ended are read already, and are never kept: more will come.
    """
    for one in measured:
        if one.run.status in ENDED and one.epochs and _key(one.run) not in _read:
            _columns(store, one.run)


def _key(run: Run) -> Key:
    return run.id, run.import_id, run.number


def _lazy(store: Store, run: Run, derived: Derived, evaluation: bool) -> Measured:
    epochs = EpochColumns(derived.epochs, partial(_epochs, str(store.path), run))
    return Measured(run, epochs, derived, evaluation)


def _epochs(path: str, run: Run) -> Packed:
    if known := _read.get(_key(run)):
        return known
    with Store(path) as store:
        return _columns(store, run)


def _columns(store: Store, run: Run) -> Packed:
    found = store.epoch_columns(run.number)
    if not found:
        raise StoreError(f"run {run.number} was deleted meanwhile: load the page again")
    if len(_read) >= MOST_READ:
        _read.clear()
    _read[_key(run)] = found.packed
    return found.packed
