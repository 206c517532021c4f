"""Figures that the README states. They judge a quiet machine, so `make test` leaves them out."""

from pathlib import Path

import pytest

from tests.browser.conftest import *  # noqa: F403  (the same browser, servers and rules)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Only when this folder is named: `make benchmarks`."""
    named = [Path(argument.split("::")[0]).resolve() for argument in config.args]
    here = Path(__file__).resolve().parent
    return None if any(path == here or here in path.parents for path in named) else True
