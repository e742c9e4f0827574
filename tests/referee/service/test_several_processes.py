"""Several processes on one database: all take requests, one drives, and what one has stored the others know."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import referee.tables
from common.core.database import sqlite_url
from common.core.errors import AlreadyAnswered, BadInput, CannotWrite, PatternViolation, Superseded, Unauthorized
from common.crypto.identity import Identity, Signed
from common.net import messages
from deploy.load.client import LightAgent
from referee.audit.audit import audit
from referee.collection.judging import Sent, claims
from referee.service.referee import Referee, RefereeSettings
from tests import support
from tests.referee.service.test_referee import at_once
from tests.support import TOKEN, Bench, seal, tiny

ONE_QUESTION = tiny("agents.count=100", "agents.batch=100", "curator.rounds=1")
pytestmark = pytest.mark.usefixtures("each_store")
SAME = ("status", "reason", "iterations", "answer", "estimate", "agents", "privacy")


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


def sent(agent: LightAgent, through: Referee) -> Sent:
    found = through.poll(Signed.model_validate_json(agent.poll()))
    return Sent(Signed.model_validate_json(agent.answer(found.model_dump_json().encode())))


def test_a_report_to_two_processes_is_one_report_and_another_one_is_refused(people):
    def attack(driver: Referee, second: Referee, agents: list[LightAgent]) -> None:
        for agent in agents:
            first, other = sent(agent, driver), sent(agent, second)
            assert driver.collection.accept(claims([first])) == [None]
            # The second has not looked since: it finds out when it wants to store.
            assert second.collection.accept(claims([first, first])) == [None, None]
            assert isinstance(second.collection.accept(claims([other]))[0], AlreadyAnswered)
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
        assert isinstance(here or there, AlreadyAnswered)
    assert audit(people[0].leave()).answers == 100


def test_what_was_closed_by_the_driver_takes_nothing_anywhere(people):
    def attack(driver: Referee, second: Referee, agents: list[LightAgent]) -> None:
        report = sent(agents[0], second)
        driver.collection.close("run")
        assert second.collection.questions.find("run", 1).open  # it has not heard of it yet
        assert isinstance(second.collection.accept(claims([report]))[0], PatternViolation)

    assert run_with(people, attack)["agents"]["answered"] == 0


def test_a_process_that_missed_reports_cannot_store_any(people, monkeypatch):
    """Even one that takes no turn and does not look: the number of its report is taken."""

    def attack(driver: Referee, second: Referee, agents: list[LightAgent]) -> None:
        first, other = sent(agents[0], driver), sent(agents[0], second)
        assert driver.collection.accept(claims([first])) == [None]
        with monkeypatch.context() as broken:
            broken.setattr(referee.tables, "alone", lambda connection, turn: None)
            broken.setattr(second.store, "_taken", lambda connection, newest: [])
            assert isinstance(second.collection.accept(claims([other]))[0], CannotWrite)
        assert isinstance(second.collection.accept(claims([other]))[0], AlreadyAnswered)

    assert run_with(people, attack)["agents"]["answered"] == 41


def test_numbers_are_given_once_and_everybody_is_known_everywhere(tmp_path):
    with Bench(tmp_path / "state") as bench, beside(bench) as second:
        twice = [seal(Identity.create(), messages.Enrolment(agents=2)) for _ in range(20)]
        told: list[list[Any]] = [[], []]

        def work(i: int, process: Referee) -> None:
            for request in twice if i else reversed(twice):
                told[i].append(process.enrol(request, TOKEN))

        with pytest.raises(Unauthorized):
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
        with pytest.raises(Superseded):
            bench.run()
        assert bench.referee.store.fence is None
        with pytest.raises(Superseded):
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

    with pytest.raises(Superseded):
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
            with pytest.raises(Superseded):
                write()
        assert (store.entries("run"), store.run("run").status) == (before, "running")


def test_another_referees_database_is_refused(bench):
    database = support.database_of(bench.folder) or sqlite_url(bench.folder / "referee" / "referee.sqlite")
    with pytest.raises(BadInput, match="give its key file with --key"):
        Referee(bench.folder / "stranger", bench._gate, settings=RefereeSettings(database))
