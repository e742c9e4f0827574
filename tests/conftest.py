"""Fixtures of all tests."""

from __future__ import annotations

import gc
import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import chance

# Two workers share two cores: threads of linear algebra that wait for each other would only spin beside them.
# The library reads this when it is loaded; what runs on several threads on purpose says so itself.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if TYPE_CHECKING:  # the parties are imported by the fixtures: only who uses one waits for it
    from deploy.deployment import RunOutput
    from tests.postgres import Server
    from tests.support import Bench

# How long an example takes, to be made or to be run, says how busy the machine is. Examples are the same in each run;
# --hypothesis-profile=explore tries others.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("tandem", settings.get_profile("explore"), derandomize=True)
settings.load_profile("tandem")

_NUMBERS = itertools.count()
OF_A_REFEREE = ("runner", "run ", "lease", "words", "witnesses", "follower")
"""Threads that a referee begins and that end when it is stopped."""
ENDS_WITHIN = 120.0
"""Seconds that they may take to: they look up from what they are at, on a machine that may be busy."""


@pytest.fixture(autouse=True, scope="session")
def _state_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Let nothing that tests do, or processes that they start, write into the state directory of whoever runs them."""
    with pytest.MonkeyPatch.context() as patched:
        folder = tmp_path_factory.mktemp("xdg-state")
        patched.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def _people_of_their_own(_state_of_the_tests: Path) -> Iterator[None]:
    """Let no test meet the people of another one; the folder is made by who writes into it, which few tests do."""
    kept = os.environ["XDG_STATE_HOME"]
    os.environ["XDG_STATE_HOME"] = str(_state_of_the_tests / str(next(_NUMBERS)))
    yield
    os.environ["XDG_STATE_HOME"] = kept


@pytest.fixture(autouse=True)
def _threads_end() -> Iterator[None]:
    """Let no test leave work of a referee to the next one, where it would be at what that one does."""
    before = set(threading.enumerate())
    yield
    left = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith(OF_A_REFEREE)]
    for thread in left:
        thread.join(ENDS_WITHIN)
    assert not [thread.name for thread in left if thread.is_alive()]


def pytest_configure(config: pytest.Config) -> None:
    """Look for garbage as rarely as commands do."""
    from common.net.cli import NEW_OBJECTS

    gc.set_threshold(NEW_OBJECTS)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let what modules draw when they are imported be the same in all workers, which must collect the same tests."""
    with chance.drawn_from("collection"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let what a test draws in its process follow from its name."""
    with chance.drawn_from(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
    """Let what a fixture of several tests draws follow from its own name: any of them may come first."""
    if fixturedef.scope == "function":
        return (yield)
    with chance.drawn_from(f"{fixturedef.baseid} {fixturedef.argname}"):
        return (yield)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the slow tests whatever needs a database server, and begin with what takes longest.

    All tests that were found may together fail by chance with the probability that is allowed to one run.
    """
    if (probability := chance.stated(items)) > chance.MOST:
        raise pytest.UsageError(f"tests fail by chance with probability {probability:.2g}: {chance.MOST:g} is allowed")
    for item in items:
        cases = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        wanted = [*getattr(item, "fixturenames", ()), *(case for case in cases if isinstance(case, str))]
        if "postgresql" in wanted:
            item.add_marker(pytest.mark.slow)
    # A group stays with one worker: begun last, it would go on when all others are done.
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("xdist_group", "slow")])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Look for no garbage among ten thousand collected tests: to go through them again and again takes time."""
    gc.freeze()


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
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunOutput]:
    """The tiny run as it goes when nothing happens: its state directory, and what it leaves. Read only."""
    from tests.support import Bench, leave_folder

    folder = tmp_path_factory.mktemp("undisturbed")
    with Bench(folder / "state") as parties:
        parties.run()
        finished = parties.finished()
    leave_folder(folder / "run", parties.chosen, parties.seed, finished)
    return folder, finished
