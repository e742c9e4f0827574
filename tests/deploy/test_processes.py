"""Real processes over loopback: killed at any time and started again, the run ends as it would have."""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from common.core.errors import PeerUnavailable
from common.log.ledger import LEDGER, Chain
from common.scenario.loading import load
from common.scenario.scenario import ResolvedScenario
from deploy.checking import checked
from deploy.deployment import Embedded, RunOutput
from deploy.processes import PartyProcess, Processes
from deploy.remote import Remote
from referee.audit.audit import audit
from tests.support import Halted, leave_folder, quiet, tiny
from tests.tiers import for_each

SLOW = ("curator.learner.steps=2000000", "curator.n=20000", "curator.epsilon=300", "agents.deadline=60")
"""Each learn takes about a second: there is time to kill somebody in the middle of it."""


def essence(finished: RunOutput) -> dict[str, Any]:
    """Return what must not depend on the deployment, nor on who died when."""
    return {name: finished.result[name] for name in ("status", "iterations", "answer", "estimate", "agents", "privacy")}


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    address = f"file:{database}?mode=ro"
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(address, uri=True, timeout=30)) as connection:
        return connection.execute(query).fetchall()
    return []  # not created yet


def until(condition: Callable[[], Any], seconds: float = 600.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the event did not come"
        time.sleep(0.005)


class Killer:
    """Kills parties as a run goes on: each (name, event) in turn, with SIGKILL, once the event has come."""

    def __init__(self, state: Path, *plan: tuple[str, Callable[[Path], bool]]) -> None:
        self._state = state
        self._plan = plan
        self.killed: list[str] = []
        self._thread: threading.Thread | None = None

    def started(self, parties: dict[str, PartyProcess]) -> None:
        self._thread = threading.Thread(target=self._work, args=(parties,))
        self._thread.start()

    def _work(self, parties: dict[str, PartyProcess]) -> None:
        for name, event in self._plan:
            until(partial(event, self._state))
            victim = parties[name].process
            os.kill(victim.pid, signal.SIGKILL)
            victim.wait()
            self.killed.append(name)

    def join(self) -> None:
        assert self._thread is not None
        self._thread.join(120)


def learning(number: int) -> Callable[[Path], bool]:
    """Operation ``number`` is charged and has no result yet."""
    return lambda state: charges(state).get(str(number), True) is None


def charges(state: Path) -> dict[str, Any]:
    """Return the result of every charged operation, None where there is none yet."""
    found: dict[str, Any] = {}
    for entry in Chain(state / "curator" / LEDGER).entries:
        kind, body = entry.kind, entry.body
        if kind == "charge":
            found[body["request"]["message"]["operation_id"]] = None
        elif kind == "result":
            found[body["operation_id"]] = body["result"]
    return found


def asked(count: int) -> Callable[[Path], bool]:
    """So many questions have been opened."""
    return lambda state: len(rows(state / "referee" / "referee.sqlite", "SELECT 1 FROM questions")) >= count


@pytest.fixture(scope="module")
def slow() -> ResolvedScenario:
    return tiny(*SLOW)


@pytest.fixture(scope="module")
def expected(slow, tmp_path_factory) -> dict[str, Any]:
    return essence(Embedded(tmp_path_factory.mktemp("embedded")).run(slow, 1, "run", quiet))


def check(state: Path, folder: Path, slow: ResolvedScenario, finished: RunOutput, expected: dict[str, Any]) -> None:
    assert essence(finished) == expected
    found = charges(state)
    assert len(found) == 5
    assert None not in found.values()
    assert audit(leave_folder(folder, slow, 1, finished)).answers == expected["agents"]["answered"]


PLANS: dict[str, tuple[tuple[str, Callable[[Path], bool]], ...]] = {
    "the curator in the middle of a learn, the agents, the referee": (
        ("curator", learning(0)),
        ("agents", asked(1)),
        ("referee", learning(3)),
    ),
    "the referee while it asks, the curator again": (("referee", asked(1)), ("curator", learning(3))),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if len(PLANS[name]) > 2 else pytest.mark.thorough) for name in PLANS],
)
def test_processes_that_are_killed_lead_to_the_result_of_one_process(tmp_path, slow, expected, name):
    state = tmp_path / "state"
    killer = Killer(state, *PLANS[name])
    finished = Processes(state, started=killer.started).run(slow, 1, "run", quiet)
    killer.join()
    assert killer.killed == [victim for victim, _ in PLANS[name]]
    check(state, tmp_path / "run", slow, finished, expected)


CALLS = {
    "domain-adaptation": ("curator.n=2000", "public.count=2000", "curator.learner.iterations=12000", "alpha=0.1"),
    "model-agnostic": ("curator.n=20000", "curator.learner.chunks=600"),
}
"""Half a second or more of adapting, and of teachers voting."""


@pytest.mark.thorough
@for_each("name", CALLS)
def test_a_call_on_the_sample_itself_that_is_killed_is_repeated_alike(tmp_path, name):
    chosen = checked(load(name, CALLS[name]))
    state = tmp_path / "state"
    killer = Killer(state, ("curator", learning(0)))
    finished = Processes(state, started=killer.started).run(chosen, 1, "run", quiet)
    killer.join()
    assert killer.killed == ["curator"]
    assert essence(finished) == essence(Embedded(tmp_path / "embedded").run(chosen, 1, "run", quiet))
    assert len(charges(state)) == 1
    assert audit(leave_folder(tmp_path / "run", chosen, 1, finished)).answers == finished.result["agents"]["answered"]


@pytest.mark.slow
def test_a_whole_deployment_that_dies_is_taken_up_by_the_next(tmp_path, slow, expected, monkeypatch):
    """Everybody is killed at once and nobody starts them again; a second deployment on the same state ends the run."""
    state = tmp_path / "state"

    parties: dict[str, PartyProcess] = {}

    def dies(self: Remote, scenario: ResolvedScenario, seed: int, run: str, *rest: Any) -> RunOutput:
        self.create(scenario, seed, run)
        until(lambda: learning(3)(state))
        for party in parties.values():
            party.let_die(for_good=True)
            party.process.kill()
        raise Halted

    monkeypatch.setattr(Remote, "run", dies)
    with pytest.raises(Halted):
        Processes(state, started=parties.update).run(slow, 1, "run", quiet)
    monkeypatch.undo()
    check(state, tmp_path / "run", slow, Processes(state).run(slow, 1, "run", quiet), expected)


def party(folder: Path, code: str) -> PartyProcess:
    (folder / "partytest.py").write_text(code)
    return PartyProcess("party", ["partytest"], folder, {"PYTHONPATH": str(folder), "COVERAGE_PROCESS_CONFIG": ""})


def test_a_party_that_cannot_start_says_why_in_one_line(tmp_path):
    broken = party(tmp_path, "import sys; sys.exit('no budget left')")
    with pytest.raises(PeerUnavailable, match="the party did not start: no budget left"):
        broken.wait_for("listens")
    broken.stop()


def test_a_party_that_dies_is_started_again_until_it_is_stopped(tmp_path):
    lively = party(tmp_path, "import os, time\nprint('up', os.getpid(), flush=True)\ntime.sleep(600)")
    lively.wait_for("up")
    first = lively.process
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: len(lively.printed) == 2)
    second = lively.process
    assert second.pid != first.pid
    lively.stop()
    assert second.poll() is not None
    assert not lively._watcher.is_alive()
    assert lively.process is second


def test_a_party_that_ignores_requests_to_end_is_ended(tmp_path, monkeypatch):
    stubborn = party(
        tmp_path,
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(600)",
    )
    stubborn.wait_for("up")
    real = stubborn.process.wait
    monkeypatch.setattr(stubborn.process, "wait", lambda timeout=None: real(0.1 if timeout else None))
    stubborn.stop()
    assert stubborn.process.returncode == -signal.SIGKILL
