"""Fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from deploy.base import Finished
from tests.support import Bench, leave_folder

# How long an example takes, to be made or to be run, says how busy the machine is.
settings.register_profile("tandem", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tandem")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """The three parties of a tiny run, fresh."""
    with Bench(tmp_path / "state") as parties:
        yield parties


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    """The tiny run as it goes when nothing happens: its state directory, and what it leaves. Read only."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with Bench(folder / "state") as parties:
        parties.run()
        finished = parties.finished()
    leave_folder(folder / "run", parties.chosen, parties.seed, finished)
    return folder, finished
