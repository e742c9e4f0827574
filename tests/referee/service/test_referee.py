"""The referee as a whole: creating runs, crashing anywhere, resuming, and ending in every possible way."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.exc import OperationalError

import referee.service.runner
import referee.tables
from common.core import errors
from common.core.database import sqlite_url
from common.crypto.identity import Identity, Signed
from common.net import messages
from curator.curator import Curator
from curator.startup import open_curator
from deploy.load.client import LightAgent
from local_agent.hosted.population import Population
from referee.audit.audit import audit
from referee.collection.judging import ReceivedReport, claims
from referee.service.app import referee_app
from referee.service.referee import Referee, RefereeSettings
from referee.service.runner import Follower, Runner
from referee.store import RefereeStore
from tests import support
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
@for_each("place", thinned(sorted(PLACES), 3, rest=pytest.mark.thorough))
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
        with pytest.raises(errors.Conflict):
            bench.referee.create("a", other, seed)
    for name in ("a", "b"):
        with pytest.raises(errors.NotFound):
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
        ({"curator": {**curator, "n": "plan"}}, errors.BadScenario, "resolved"),
        ({"agents": {**wire["agents"], "count": "plan"}}, errors.BadScenario, "resolved"),
        ({"protocol": "gossip"}, errors.BadInput, "gossip"),
        ({"curator": {**curator, "learner": {"steps": float("nan")}}}, errors.BadMessage, None),
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
    assert (first.status, first.result["answer"]) == ("failed", None)
    assert bench.referee.store.run("second").status == "exhausted"
    assert "fault of the referee" in first.result["reason"]
    assert all(words in caplog.text for words in ("ZeroDivisionError", "tried again"))


def test_a_run_given_up_in_the_middle_can_be_audited(tmp_path):
    with Bench(tmp_path / "state") as bench:
        bench.open()
        bench.referee.give_up("run", "a fault")
        assert audit(bench.leave()).status == "failed"


def test_a_run_that_is_refused_as_it_goes_on_says_what_its_curator_has_promised(tmp_path, monkeypatch):
    """A referee that was put back to before it went on: its witness has seen more."""
    with Bench(tmp_path / "state") as bench:
        bench.open()

        def seen_more(run: str, digest: str) -> None:
            raise errors.RolledBack("the witness has seen more of this run")

        with monkeypatch.context() as patched:
            patched.setattr(bench.referee.checkpoints, "make", seen_more)
            result = bench.run()
        assert (result["status"], result["reason"]) == ("refused", "the witness has seen more of this run")
        assert result["privacy"]["curator"] == bench.curator.guarantee.wire()
        assert audit(bench.leave()).status == "refused"


def test_one_state_directory_is_one_referees(bench):
    with pytest.raises(errors.BadInput, match="in use by another process"):
        Referee(bench.folder / "referee", bench.curator)


ONE_QUESTION = tiny("agents.count=100", "agents.batch=100", "curator.rounds=1")


@contextmanager
def beside(bench: Bench, name: str = "beside", wait: Any = None, **more: Any) -> Iterator[Referee]:
    """Open a further referee on the database of a bench, as another process with its own state directory."""
    database = support.database_of(bench.folder) or sqlite_url(bench.folder / "referee" / "referee.sqlite")
    key = bench.folder / "referee" / "identity.key"
    settings = RefereeSettings(database, key, **more)
    second = Referee(bench.folder / name, bench._gate, settings=settings, wait=wait, clock=bench.clock)
    try:
        yield second
    finally:
        second.close()


People = tuple[Bench, list[LightAgent]]


@pytest.fixture
def people(tmp_path: Path) -> Iterator[People]:
    """A bench of 40 hosted people and 60 individuals, all of whom are asked one question."""
    agents = [LightAgent.fresh() for _ in range(60)]
    with Bench(tmp_path / "state", ONE_QUESTION, individuals=60) as bench:
        for agent in agents:
            bench.referee.enrol(Signed.model_validate_json(agent.enrolment()), TOKEN)
        yield bench, agents


def run_with(people: People, attack: Callable[[Referee, Referee, list[LightAgent]], None]) -> dict[str, Any]:
    """Run, and let another process do something beside the one that drives while the question is open."""
    bench, agents = people

    def meanwhile() -> None:
        with beside(bench) as second:
            attack(bench.referee, second, agents)

    bench.meanwhile(meanwhile)
    return bench.run()


def sent(agent: LightAgent, through: Referee) -> ReceivedReport:
    found = through.poll(Signed.model_validate_json(agent.poll()))
    return ReceivedReport(Signed.model_validate_json(agent.answer(found.model_dump_json().encode())))


def test_a_report_to_two_processes_is_one_report_and_another_one_is_refused(people):
    def attack(driver: Referee, second: Referee, agents: list[LightAgent]) -> None:
        for agent in agents:
            first, other = sent(agent, driver), sent(agent, second)
            assert driver.collection.accept(claims([first])) == [None]
            # The second has not looked since: it finds out when it wants to store.
            assert second.collection.accept(claims([first, first])) == [None, None]
            assert isinstance(second.collection.accept(claims([other]))[0], errors.AlreadyAnswered)
        assert second.collection.rejected == {"already-answered": 60}
        second.collection.refresh()

    result = run_with(people, attack)
    assert result["agents"] == {"enrolled": 100, "asked": 100, "answered": 100, "rejected": 60}
    assert audit(people[0].leave()).reports == 61


def test_two_processes_at_once_store_one_report_of_each(people):
    """Every individual sends one report here and another one there at the same time: one of them is stored."""
    outcomes: list[list[Any]] = [[], []]

    def attack(*args: Any) -> None:
        *both, agents = args
        reports = [[sent(agent, process) for agent in agents] for process in both]
        barrier = threading.Barrier(2)

        def work(i: int) -> None:
            barrier.wait()
            for at in range(0, 60, 4):
                outcomes[i] += both[i].collection.accept(claims(reports[i][at : at + 4]))

        at_once(work, [(0,), (1,)])

    assert run_with(people, attack)["agents"]["answered"] == 100
    for here, there in zip(*outcomes, strict=True):
        assert sorted((here is None, there is None)) == [False, True]
        assert isinstance(here or there, errors.AlreadyAnswered)
    assert audit(people[0].leave()).answers == 100


def test_what_was_closed_by_the_driver_takes_nothing_anywhere(people):
    def attack(driver: Referee, second: Referee, agents: list[LightAgent]) -> None:
        report = sent(agents[0], second)
        driver.collection.close("run")
        assert second.collection.questions.find("run", 1).open  # it has not heard of it yet
        assert isinstance(second.collection.accept(claims([report]))[0], errors.PatternViolation)

    assert run_with(people, attack)["agents"]["answered"] == 0


def test_a_process_that_missed_reports_cannot_store_any(people, monkeypatch):
    """Even one that takes no turn and does not look: the number of its report is taken."""

    def attack(driver: Referee, second: Referee, agents: list[LightAgent]) -> None:
        first, other = sent(agents[0], driver), sent(agents[0], second)
        assert driver.collection.accept(claims([first])) == [None]
        with monkeypatch.context() as broken:
            broken.setattr(referee.tables, "alone", lambda connection, turn: None)
            broken.setattr(second.store, "_reports_after", lambda connection, newest: [])
            assert isinstance(second.collection.accept(claims([other]))[0], errors.CannotWrite)
        assert isinstance(second.collection.accept(claims([other]))[0], errors.AlreadyAnswered)

    assert run_with(people, attack)["agents"]["answered"] == 41


def test_numbers_are_given_once_and_everybody_is_known_everywhere(tmp_path):
    with Bench(tmp_path / "state") as bench, beside(bench) as second:
        twice = [seal(Identity.create(), messages.Enrolment(agents=2)) for _ in range(20)]
        told: list[list[Any]] = [[], []]

        def work(i: int, process: Referee) -> None:
            for request in twice if i else reversed(twice):
                told[i].append(process.enrol(request, TOKEN))

        with pytest.raises(errors.Unauthorized):
            second.enrol(twice[0], "another token")
        at_once(work, enumerate((bench.referee, second)))
        assert told[1] == list(reversed(told[0]))
        assert Counter(reply.message["first"] for reply in told[1]) == Counter(range(6000, 6040, 2))
        late = Identity.create()
        bench.referee.enrol(seal(late, messages.Enrolment(agents=1)), TOKEN)
        assert second.poll(seal(late, messages.Poll(participant=late.public))) is None  # and not: not enrolled
        assert list(second.registrar.roster) == list(bench.referee.registrar.roster)


def test_questions_that_the_driver_opens_are_handed_out_by_others(people):
    bench, agents = people
    announced: list[int] = []

    def attack() -> None:
        second.collection.refresh()
        second.collection.refresh()
        assert announced == [1]
        for agent in agents:
            assert second.collection.accept(claims([sent(agent, second)])) == [None]

    with beside(bench) as second:
        second.collection.questions.on_question = lambda: announced.append(1)
        bench.meanwhile(attack)
        assert bench.run()["agents"]["answered"] == 100
        second.collection.refresh()
        assert second.poll(Signed.model_validate_json(agents[0].poll())) is None


def test_what_others_store_before_the_driver_knows_of_its_own_question_is_counted(people, monkeypatch):
    """Whoever looks for news meanwhile waits: it would pass over reports on a question that is not known yet."""
    bench, agents = people
    looking = threading.Thread(target=bench.referee.collection.refresh)
    really = bench.referee.store.open_question

    def stored(question: Any, entry: Any) -> int:
        key = really(question, entry)
        second.collection.refresh()
        for agent in agents:
            assert second.collection.accept(claims([sent(agent, second)])) == [None]
        looking.start()
        looking.join(0.3)
        return key

    with beside(bench) as second:
        monkeypatch.setattr(bench.referee.store, "open_question", stored)
        bench.meanwhile(looking.join)
        assert bench.run()["agents"]["answered"] == 100
        taking = bench.referee.collection.questions.find("run", 1)
        assert taking is not None
        assert taking.heard == 100


# One drives -----------------------------------------------------------------------------------------------------------


def test_one_process_drives_until_it_is_not_heard_of(tmp_path):
    with Bench(tmp_path / "state") as bench, beside(bench, lease=600.0) as second, beside(bench, "third") as third:
        assert second.drive()
        assert not bench.referee.drive()
        second.store.renew_lease(0.0)
        assert bench.referee.drive()
        assert not third.drive()
        second.store.renew_lease(60.0)  # in vain
        assert second.store.fence is None
        assert not second.drive()
        bench.referee.store.release_lease()
        assert third.drive()
        assert third.store.fence == 3


def test_a_driver_that_was_replaced_writes_nothing_and_its_run_goes_on_elsewhere(tmp_path, undisturbed):
    """It was stopped while a question was open; another one took over and ends the run as it would have ended."""
    ended: list[Any] = []

    def wait(seconds: float) -> None:
        bench.referee.collection.refresh()  # there the people ask
        bench.wait(seconds)
        second.collection.refresh()

    with Bench(tmp_path / "state") as bench, beside(bench, wait=wait) as second:

        def stopped() -> None:
            bench.referee.store.renew_lease(0.0)  # its time has run out
            assert second.drive()
            ended.append(second.execute("run"))

        bench.meanwhile(stopped)
        with pytest.raises(errors.Superseded):
            bench.run()
        assert bench.referee.store.fence is None
        with pytest.raises(errors.Superseded):
            bench.referee.give_up("run", "nothing")
        assert sum('"kind":"result"' in entry for entry in second.store.entries("run")) == 1
        assert {name: ended[0][name] for name in SAME} == {name: undisturbed[1].result[name] for name in SAME}
        bench.referee.registrar.refresh()
        assert audit(bench.leave()).answers == 1200


def test_a_driver_that_lost_its_lease_does_not_wait_for_the_question_to_end(people):
    """It would be of no use for as long: nobody else might be there to drive when the new one dies."""

    def lost(driver: Referee, second: Referee, agents: list[LightAgent]) -> None:
        driver.store.renew_lease(0.0)
        assert second.drive()
        driver.store.renew_lease(10.0)  # as its thread does: it learns that it has lost

    with pytest.raises(errors.Superseded):
        run_with(people, lost)
    assert list(people[0].referee.store.open_questions().values()) == [("run", 1)]


def test_whoever_does_not_hold_the_lease_writes_nothing_of_a_run(people):
    bench, _ = people
    bench.open()
    with beside(bench) as second:
        store, before = second.store, second.store.entries("run")
        entry = store.last_entry("run")
        for write in (
            lambda: store.add_entry("run", entry.__class__.parse({**entry.wire(), "index": 99})),
            lambda: store.finish("run", "failed", {}, None),
            lambda: store.configure("run", {}, None, entry),
            *(lambda q=q: store.close_question(q) for q in bench.referee.store.questions("run")),
            lambda: second.execute("run"),
        ):
            with pytest.raises(errors.Superseded):
                write()
        assert (store.entries("run"), store.run("run").status) == (before, "running")


def test_another_referees_database_is_refused(bench):
    database = support.database_of(bench.folder) or sqlite_url(bench.folder / "referee" / "referee.sqlite")
    with pytest.raises(errors.BadInput, match="give its key file with --key"):
        Referee(bench.folder / "stranger", bench._gate, settings=RefereeSettings(database))
