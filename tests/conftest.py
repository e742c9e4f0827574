"""Fixtures of all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

# Two workers share two cores: threads of linear algebra that wait for each other would only spin beside them.
# The library reads this when it is loaded; what runs on several threads on purpose says so itself.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if TYPE_CHECKING:  # the parties are imported by the fixtures: only who uses one waits for it
    from deploy.base import Finished
    from tests.postgres import Server
    from tests.support import Bench

# How long an example takes, to be made or to be run, says how busy the machine is.
settings.register_profile("tandem", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tandem")


@pytest.fixture(autouse=True, scope="session")
def _state_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let nothing that tests do, or processes that they start, write into the state directory of whoever runs them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("xdg-state")))
        yield


@pytest.fixture(autouse=True)
def _people_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test meet the people of another one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg-state"))


def pytest_configure(config: pytest.Config) -> None:
    """Let the workers of a run, if there are several, compile each loop once."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        from tests.compiling import share

        share(Path(config.option.basetemp).parent / "compiling")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Share out the largest loops among the workers of a large run, before any test waits for one."""
    from tests.compiling import MANY, compile_part

    if "PYTEST_XDIST_WORKER" in os.environ and len(session.items) >= MANY:
        compile_part(int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """The three parties of a tiny run, fresh."""
    from tests.support import Bench

    with Bench(tmp_path / "state") as parties:
        yield parties


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A real PostgreSQL server, the same for all tests of a process; skips where there is none."""
    from tests.postgres import start

    server = start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    """The tiny run as it goes when nothing happens: its state directory, and what it leaves. Read only."""
    from tests.support import Bench, leave_folder

    folder = tmp_path_factory.mktemp("undisturbed")
    with Bench(folder / "state") as parties:
        parties.run()
        finished = parties.finished()
    leave_folder(folder / "run", parties.chosen, parties.seed, finished)
    return folder, finished
