"""Whether this machine is measuring something now, for the navigation. Reads the store only."""

from bench_core.store import Store


def running_now() -> bool:
    """True while a run is being measured."""
    with Store() as store:
        return bool(store.running())
