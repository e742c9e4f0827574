"""The referee as a whole: creating runs, crashing anywhere, resuming, and ending in every possible way."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.exc import OperationalError

import referee.service.runner
from common.core.errors import BadInput, BadMessage, BadScenario, Conflict, NotFound
from common.crypto.identity import Identity
from common.net import messages
from curator.curator import Curator
from curator.startup import open_curator
from local_agent.hosted.population import Population
from referee.audit.audit import audit
from referee.service.app import referee_app
from referee.service.referee import Referee
from referee.service.runner import Follower, Runner
from referee.store import RefereeStore
from tests.support import TOKEN, Bench, Curators, asking, leave_folder, seal, tiny
from tests.tiers import for_each, thinned

pytestmark = pytest.mark.usefixtures("each_store")

SAME = ("status", "reason", "iterations", "answer", "estimate", "rounds", "agents", "privacy")


class Crash(BaseException):
    """The end of the process."""


PLACES: dict[str, tuple[Any, str]] = {
    "storing the configuration": (RefereeStore, "configure"),
    "writing a transcript entry": (RefereeStore, "add_entry"),
    "opening a question": (RefereeStore, "open_question"),
    "storing a report": (RefereeStore, "add_reports"),
    "closing a question": (RefereeStore, "close_question"),
    "finishing": (RefereeStore, "finish"),
    "the curator agrees": (Curator, "open_run"),
    "the curator performs": (Curator, "perform"),
    "the people answer": (Population, "answer"),
}


@for_each("after", [False, True], ids=["before", "after"])
@for_each("place", thinned(sorted(PLACES), 3))
def test_a_crash_anywhere_changes_nothing(tmp_path, monkeypatch, undisturbed, place, after):
    """Die at the first, third, ... call of a method, again and again, until the run ends: it ends the same."""
    owner, method = PLACES[place]
    real, calls = getattr(owner, method), []

    def dying(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        doomed = len(calls) % 2 == 1 and len(calls) < 12
        if doomed and not after:
            raise Crash
        result = real(*arguments, **named)
        if doomed:
            raise Crash
        return result

    monkeypatch.setattr(owner, method, dying)
    crashes = 0
    while crashes < 20:
        with Bench(tmp_path / "state") as bench:
            try:
                result = bench.run()
            except Crash:
                crashes += 1
                continue
            finished = bench.finished()
        break
    monkeypatch.undo()
    assert crashes >= 1
    assert {name: result[name] for name in SAME} == {name: undisturbed[1].result[name] for name in SAME}
    assert audit(leave_folder(tmp_path / "run", tiny(), 1, finished)).answers == 1200


def at_once(work: Callable[..., None], arguments: Iterable[tuple[Any, ...]]) -> None:
    """Do the same with each of the arguments in a thread of its own, and wait for the ends of all."""
    threads = [threading.Thread(target=work, args=each) for each in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_run_is_created_once_and_means_one_request(bench):
    wire = bench.chosen.wire()
    first = bench.referee.create("a", {**wire, "data": "/home/somebody/records"}, 1)
    assert first.scenario["data"] is None  # nobody's path is published
    assert bench.referee.create("a", wire, 1) == first
    for other, seed in ((wire, 2), ({**wire, "alpha": 0.1}, 1)):
        with pytest.raises(Conflict):
            bench.referee.create("a", other, seed)
    for name in ("a", "b"):
        with pytest.raises(NotFound):
            bench.referee.configuration(name)


def test_many_create_the_same_and_other_runs_at_once(bench):
    """Twelve threads, four names: every request is answered, four runs exist."""
    barrier, done = threading.Barrier(12), []

    def work(number: int) -> None:
        barrier.wait()
        bench.referee.create(f"run-{number % 4}", bench.chosen.wire(), 1)
        bench.referee.enrol(seal(Identity.create(), messages.Enrolment(agents=number + 1)), TOKEN)
        done.append(number)

    at_once(work, [(number,) for number in range(12)])
    assert (len(done), len(bench.referee.store.unfinished())) == (12, 4)
    after = 0
    for participant in bench.referee.store.participants():
        assert participant.first == after
        after += participant.agents
    assert after == 6000 + 78


def test_what_is_left_at_plan_is_refused(bench):
    wire = bench.chosen.wire()
    curator = wire["curator"]
    for change, error, why in (
        *(
            ({"curator": {**curator, part: "plan"}}, BadScenario, "resolved")
            for part in ("n", "rounds", "eta", "kappa")
        ),
        ({"agents": {**wire["agents"], "count": "plan"}}, BadScenario, "resolved"),
        ({"protocol": "gossip"}, BadInput, "gossip"),
        ({"curator": {**curator, "learner": {"steps": float("nan")}}}, BadMessage, None),
    ):
        with pytest.raises(error, match=why):
            bench.referee.create("a", {**wire, **change}, 1)


def test_a_second_run_asks_only_agents_that_were_never_asked(tmp_path, monkeypatch):
    """The budget of this curator is used up: the second run is refused, in one sentence, and asks nobody."""
    monkeypatch.setattr("referee.runs.execution.ENROLMENT_PATIENCE", 0.05)
    with Bench(tmp_path) as bench:
        bench.run("first")
        second = bench.run("second")
        assert second["status"] == "failed"
        assert "wants 6000 agents that were never asked, 4800 are enrolled" in second["reason"]
    with Bench(tmp_path / "large", tiny("agents.count=1000")) as bench:
        bench.referee.enrol(seal(Identity.create(), messages.Enrolment(agents=5000)), TOKEN)
        bench.open("first")
        bench.referee._execution(bench.referee.create("second", bench.chosen.wire(), 1)).begin(lambda note: None)
        again = bench.run("second")
        assert (again["status"], again["answer"]) == ("refused", None)
        assert "belongs to run 'first'" in again["reason"]


@for_each("what", ["no terms", "another key", "another kind", "no fields"])
def test_a_curator_whose_reply_is_anothers_or_none_ends_the_run_without_an_answer(tmp_path, what):
    with Bench(tmp_path) as bench:
        gate, own, stranger = bench._gate, bench.curator._journal.identity, Identity.create()
        method, sign = {
            "no terms": ("open_run", lambda message: stranger.sign("perform", message)),
            "another key": ("perform", lambda message: stranger.sign("release", message)),
            "another kind": ("perform", lambda message: own.sign("terms", message)),
            "no fields": ("perform", lambda message: own.sign("release", {})),
        }[what]
        honest = getattr(gate, method)
        setattr(gate, method, lambda signed: sign(honest(signed).message))
        result = bench.run()
        status = "refused" if what == "no fields" else "failed"
        assert (result["status"], result["answer"], result["estimate"]) == (status, None, None)
        assert bench.run() == result


# The thread that carries runs -----------------------------------------------------------------------------------------


def until(condition: Any) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@contextmanager
def running(bench: Bench) -> Iterator[Runner]:
    runner = Runner(bench.referee)
    runner.start()
    try:
        yield runner
    finally:
        runner.stop()


def ended(bench: Bench, run: str, wire: Any = None) -> Any:
    """Wait for the end of a run, which is created if there is a scenario; return its result."""
    if wire is not None:
        bench.referee.create(run, wire, 1)
    until(lambda: bench.referee.store.run(run).result is not None)
    return bench.referee.store.run(run).result


@contextmanager
def driving(
    folder: Path, agents: int, watching: Sequence[Any] = ()
) -> Iterator[tuple[Bench, Runner, Follower, httpx.Client]]:
    """A referee with a curator for each run that serves its operator, and has not begun to drive."""
    with (
        closing(Curators(folder / "curators", lambda own: open_curator(tiny(), own, 1, None))) as curators,
        Bench(
            folder / "bench", tiny(f"agents.count={agents}"), curator=lambda own: curators, watching=watching
        ) as bench,
    ):
        bench.referee.allow("operator", TOKEN)
        runner, follower = Runner(bench.referee), Follower(bench.referee)
        with asking(referee_app(bench.referee, runner, [follower.threads])) as operator:
            try:
                yield bench, runner, follower, operator
            finally:
                follower.stop()
                runner.stop()


def test_a_bug_fails_its_run_and_a_database_that_is_away_fails_nothing(bench, monkeypatch, caplog):
    monkeypatch.setattr(referee.service.runner, "PAUSE", 0.01)
    monkeypatch.setattr("referee.runs.execution.ENROLMENT_PATIENCE", 0.05)
    real = Referee.execute
    raised = [OSError(28, "full"), OperationalError("insert", {}, Exception("disk I/O error"))]

    def shaky(self: Referee, run: str, **named: Any) -> Any:
        if run == "first":
            raise ZeroDivisionError("a bug")
        if raised:
            raise raised.pop()
        return real(self, run, **named)

    monkeypatch.setattr(Referee, "execute", shaky)
    for name in ("first", "second"):
        bench.referee.create(name, bench.chosen.wire(), 1)
    with running(bench) as runner:  # it takes up what is unfinished, and what is new
        ended(bench, "second")
        bench.referee.create("third", bench.chosen.wire(), 1)
        runner.wake()
        ended(bench, "third")
    first = bench.referee.store.run("first")
    assert (first.status, first.result["answer"], bench.referee.store.run("second").status) == (
        "failed",
        None,
        "exhausted",
    )
    assert "fault of the referee" in first.result["reason"]
    assert all(words in caplog.text for words in ("ZeroDivisionError", "tried again"))


def test_a_run_given_up_in_the_middle_can_be_audited(tmp_path):
    with Bench(tmp_path / "state") as bench:
        bench.open()
        bench.referee.give_up("run", "a fault")
        assert audit(bench.leave()).status == "failed"


def test_one_state_directory_is_one_referees(bench):
    with pytest.raises(BadInput, match="in use by another process"):
        Referee(bench.folder / "referee", bench.curator)
