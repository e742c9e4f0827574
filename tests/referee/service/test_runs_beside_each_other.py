"""Several runs at one referee: one that waits for answers keeps nobody from going on, and who is asked stays exact."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from common.core.errors import AuditFailed, Superseded
from common.wire import messages
from common.wire.identity import Identity
from common.wire.transcript import Entry
from curator.service.curator import Curator
from curator.service.startup import open_curator
from referee.audit.audit import audit
from referee.service.runner import Runner
from tests.referee.service.test_referee import until
from tests.support import TOKEN, Bench, leave_folder, seal, tiny

SLOW = ("agents.count=1200", "agents.batch=600", "agents.deadline=100000")
QUICK = ("agents.count=1200", "agents.batch=400")


class Curators:
    """A curator for each run: one curator has a budget for one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.of: dict[str, Curator] = {}

    def _find(self, run: str) -> Curator:
        if run not in self.of:
            self.of[run] = open_curator(tiny(), self._folder / run, 1, None)
        return self.of[run]

    def open_run(self, signed: Any) -> Any:
        return self._find(signed.message["run"]).open_run(signed)

    def perform(self, signed: Any) -> Any:
        return self._find(signed.message["run"]).perform(signed)

    def acknowledge(self, signed: Any) -> None:
        self._find(signed.message["run"]).acknowledge(signed)

    def close(self) -> None:
        for curator in self.of.values():
            curator.close()


@pytest.fixture
def curators(tmp_path: Path) -> Iterator[Curators]:
    made = Curators(tmp_path / "curators")
    yield made
    made.close()


@contextmanager
def beside(folder: Path, curators: Curators) -> Iterator[tuple[Bench, Runner, Callable[[], None]]]:
    """A referee with 2,400 hosted people who answer, and 1,200 who keep silent until they are told to decline."""
    with Bench(folder, tiny("agents.count=2400"), curator=lambda own: curators) as bench:
        quiet = Identity.create()
        bench.referee.enrol(seal(quiet, messages.Enrolment(agents=1200)), TOKEN)
        working = threading.Lock()

        def wait(seconds: float) -> None:
            with working:
                if not bench.host.step():
                    bench.clock.wait(1.0)
                    threading.Event().wait(0.002)

        def speak() -> None:
            asked = bench.referee.poll(seal(quiet, messages.Poll(participant=quiet.public)))
            if asked is not None:
                found = messages.Assignment.parse(asked.message)
                said = {"run": found.run, "digest": found.digest, "question": found.question, "reason": "policy"}
                bench.referee.decline(
                    seal(quiet, messages.Decline.parse({**said, "assignment": found.fingerprint()}))
                )

        bench.referee._wait = wait
        yield bench, Runner(bench.referee), speak


def positions(bench: Bench, run: str) -> set[int]:
    """Return the places in the committed order that a run has asked."""
    parts = [part for question in bench.referee.store.questions(run) for part in question.parts]
    return {place for part in parts for place in range(part.start, part.stop)}


def test_a_run_that_waits_for_answers_blocks_no_other(tmp_path, curators):
    """Some of those whom the first run asks keep silent until a deadline far away; the second run ends meanwhile."""
    with beside(tmp_path / "state", curators) as (bench, runner, speak):
        store, chosen = bench.referee.store, {"slow": tiny(*SLOW), "quick": tiny(*QUICK)}
        bench.referee.create("slow", chosen["slow"].wire(), 1)
        bench.referee.create("quick", chosen["quick"].wire(), 2)
        runner.start()
        until(lambda: store.run("quick").result is not None)
        assert store.run("slow").status == "running"
        assert len(store.questions("slow")) == 1
        (waits, _) = bench.referee.standing()
        assert waits[1].startswith("agents: ")

        def over() -> bool:
            speak()
            return store.run("slow").result is not None

        until(over)
        runner.stop()
        slow, quick = positions(bench, "slow"), positions(bench, "quick")
        assert slow | quick == set(range(len(slow) + len(quick)))  # nobody twice, and nobody is left out
        between = [
            Entry.model_validate_json(line).body.get("others")
            for line in store.entries("slow")
            if Entry.model_validate_json(line).kind == "question"
        ]
        assert between[0] is None
        assert {(run, number) for run, number, *_ in between[1]} == {
            ("quick", question.question) for question in store.questions("quick")
        }
        found = {
            run: audit(leave_folder(tmp_path / run, chosen[run], seed, bench.finished(run)))
            for seed, run in enumerate(chosen, start=1)
        }
    assert found["slow"].others == {"quick": len(quick)}
    assert found["quick"].others == {}


