"""A PostgreSQL server that crashes: requests are told to come again, and nothing that was acknowledged is lost."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import referee.tables
from common.core.database import sqlite_url
from common.core.errors import AlreadyAnswered, BadInput, CannotWrite, PatternViolation, Superseded, Unauthorized
from common.crypto.identity import Identity, Signed
from common.net import messages
from deploy.load.client import LightAgent
from referee.audit.audit import audit
from referee.collection.judging import Sent, claims
from referee.service.app import referee_app
from referee.service.referee import Referee, RefereeSettings
from referee.service.runner import Runner
from tests import postgres, support
from tests.referee.service.test_referee import at_once
from tests.support import TOKEN, Bench, leave_folder, seal, served, tiny


@pytest.fixture
def server(postgresql):
    """A server of this test alone: the other tests' one is not for crashing."""
    own = postgres.start()
    yield own
    own.close()


def test_while_the_server_is_away_everybody_is_told_to_come_again_and_nothing_is_lost(tmp_path, server, monkeypatch):
    url = server.database()
    monkeypatch.setattr(support, "database_of", lambda folder: url)
    agents = [LightAgent.fresh() for _ in range(30)]
    stranger = Identity.create()
    enrolment = seal(stranger, messages.Enrolment(agents=1)).model_dump_json().encode()
    chosen = tiny("agents.count=100", "agents.batch=100", "curator.rounds=1")
    with Bench(tmp_path / "state", chosen, individuals=30) as bench:
        bench.referee.allow("operator", TOKEN)
        for agent in agents:
            bench.referee.enrol(Signed.model_validate_json(agent.enrolment()), TOKEN)

        def attack() -> None:
            app = referee_app(bench.referee, Runner(bench.referee))
            with served(app) as address, httpx.Client(base_url=address, trust_env=False, timeout=60) as client:

                def say(method: str, path: str, body: bytes = b"") -> httpx.Response:
                    headers = {"Authorization": f"Bearer {TOKEN}"}
                    return client.request(method, path, content=body, headers=headers)

                def report(agent: LightAgent, body: bytes) -> httpx.Response:
                    return say("PUT", f"/v1/reports/{agent.report_id.decode()}", body)

                bodies = [agent.answer(say("POST", "/v1/polls", agent.poll()).content) for agent in agents]
                ways: list[Any] = [
                    lambda: report(agents[20], bodies[20]),
                    lambda: say("POST", "/v1/enrolments", enrolment),
                    lambda: say("GET", "/v1/runs/run"),
                    lambda: say("POST", "/v1/polls", LightAgent.fresh().poll()),
                ]
                for agent, body in zip(agents[:20], bodies[:20], strict=True):
                    assert report(agent, body).status_code == 200
                server.stop(signal.SIGQUIT)
                for ask in ways:
                    refused = ask()
                    assert (refused.status_code, refused.headers.get("retry-after")) == (503, "2"), refused.text
                assert say("POST", "/v1/polls", agents[20].poll()).status_code == 200  # that is known without it
                server.start()
                for agent, body in zip(agents, bodies, strict=True):
                    assert report(agent, body).status_code == 200
                assert say("POST", "/v1/enrolments", enrolment).json()["message"]["first"] == 100

        bench.meanwhile(attack)
        result = bench.run()
        assert result["agents"] == {"enrolled": 101, "asked": 100, "answered": 100, "rejected": 0}
        assert audit(leave_folder(tmp_path / "run", chosen, 1, bench.finished())).reports == 31


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


@pytest.fixture
def people(tmp_path: Path) -> Iterator[tuple[Bench, list[LightAgent]]]:
    """A bench of 40 hosted people and 60 individuals, all of whom are asked one question."""
    chosen = tiny("agents.count=100", "agents.batch=100", "curator.rounds=1")
    agents = [LightAgent.fresh() for _ in range(60)]
    with Bench(tmp_path / "state", chosen, individuals=60) as bench:
        for agent in agents:
            bench.referee.enrol(Signed.model_validate_json(agent.enrolment()), TOKEN)
        yield bench, agents


def sent(agent: LightAgent, through: Referee) -> Sent:
    found = through.poll(Signed.model_validate_json(agent.poll()))
    assert found is not None
    return Sent(Signed.model_validate_json(agent.answer(found.model_dump_json().encode())))


@pytest.mark.usefixtures("each_store")
def test_a_report_to_two_processes_is_one_report_and_another_one_is_refused(people):
    bench, agents = people

    def attack() -> None:
        with beside(bench) as second:
            for agent in agents:
                first, other = sent(agent, bench.referee), sent(agent, second)
                assert bench.referee.collection.accept(claims([first])) == [None]
                # The second has not looked since: it finds out when it wants to store.
                assert second.collection.accept(claims([first, first])) == [None, None]
                assert isinstance(second.collection.accept(claims([other]))[0], AlreadyAnswered)
            assert second.collection.rejected == {"already-answered": 60}
            second.collection.refresh()

    bench.meanwhile(attack)
    result = bench.run()
    assert result["agents"] == {"enrolled": 100, "asked": 100, "answered": 100, "rejected": 60}
    assert audit(leave_folder(bench.folder / "run", bench.chosen, 1, bench.finished())).reports == 61


@pytest.mark.usefixtures("each_store")
def test_two_processes_at_once_store_one_report_of_each(people):
    """Every individual sends one report here and another one there at the same time: one of them is stored."""
    bench, agents = people
    outcomes: list[list[Any]] = [[], []]

    def attack() -> None:
        with beside(bench) as second:
            both = bench.referee, second
            reports = [[sent(agent, process) for agent in agents] for process in both]
            barrier = threading.Barrier(2)

            def work(i: int) -> None:
                barrier.wait()
                for at in range(0, 60, 4):
                    outcomes[i] += both[i].collection.accept(claims(reports[i][at : at + 4]))

            at_once(work, [(0,), (1,)])

    bench.meanwhile(attack)
    result = bench.run()
    taken = [[problem is None for problem in found] for found in outcomes]
    assert all(here != there for here, there in zip(*taken, strict=True))
    refused = [problem for found in outcomes for problem in found if problem is not None]
    assert all(isinstance(problem, AlreadyAnswered) for problem in refused)
    assert result["agents"]["answered"] == 100
    assert audit(leave_folder(bench.folder / "run", bench.chosen, 1, bench.finished())).answers == 100


@pytest.mark.usefixtures("each_store")
def test_what_was_closed_by_the_driver_takes_nothing_anywhere(people):
    bench, agents = people
    late: list[Any] = []

    def attack() -> None:
        with beside(bench) as second:
            report = sent(agents[0], second)
            bench.referee.collection.close("run")
            assert second.collection.questions.find("run", 1).open  # it has not heard of it yet
            late.extend(second.collection.accept(claims([report])))

    bench.meanwhile(attack)
    result = bench.run()
    assert isinstance(late[0], PatternViolation)
    assert result["agents"]["answered"] == 0


@pytest.mark.usefixtures("each_store")
def test_a_process_that_missed_reports_cannot_store_any(people, monkeypatch):
    """Even one that takes no turn and does not look: the number of its report is taken."""
    bench, agents = people

    def attack() -> None:
        with beside(bench) as second:
            first, other = sent(agents[0], bench.referee), sent(agents[0], second)
            assert bench.referee.collection.accept(claims([first])) == [None]
            with monkeypatch.context() as broken:
                broken.setattr(referee.tables, "alone", lambda connection, turn: None)
                broken.setattr(second.store, "_taken", lambda connection, newest: [])
                assert isinstance(second.collection.accept(claims([other]))[0], CannotWrite)
            assert isinstance(second.collection.accept(claims([other]))[0], AlreadyAnswered)

    bench.meanwhile(attack)
    assert bench.run()["agents"]["answered"] == 41


@pytest.mark.usefixtures("each_store")
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


@pytest.mark.usefixtures("each_store")
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


@pytest.mark.usefixtures("each_store")
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


@pytest.mark.usefixtures("each_store")
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
        store = second.store
        assert [entry.count('"kind":"result"') for entry in store.entries("run")].count(1) == 1
        assert {name: ended[0][name] for name in SAME} == {name: undisturbed[1].result[name] for name in SAME}
        bench.referee.registrar.refresh()
        assert audit(leave_folder(tmp_path / "run", tiny(), 1, bench.finished())).answers == 1200


@pytest.mark.usefixtures("each_store")
def test_a_driver_that_lost_its_lease_does_not_wait_for_the_question_to_end(people):
    """It would be of no use for as long: nobody else might be there to drive when the new one dies."""
    bench, _ = people

    def lost() -> None:
        with beside(bench) as second:
            bench.referee.store.renew_lease(0.0)
            assert second.drive()
            bench.referee.store.renew_lease(10.0)  # as its thread does: it learns that it has lost

    bench.meanwhile(lost)
    with pytest.raises(Superseded):
        bench.run()
    assert list(bench.referee.store.open_questions().values()) == [("run", 1)]


@pytest.mark.usefixtures("each_store")
def test_whoever_does_not_hold_the_lease_writes_nothing_of_a_run(people):
    bench, _ = people
    bench.open()
    with beside(bench) as second:
        before = second.store.entries("run")
        entry = second.store.last_entry("run")
        question = bench.referee.store.questions("run")
        writes = [
            lambda store: store.add_entry("run", entry.__class__.parse({**entry.wire(), "index": 99})),
            lambda store: store.finish("run", "failed", {}, None),
            lambda store: store.configure("run", {}, None, entry),
            *[lambda store, q=q: store.close_question(q) for q in question],
        ]
        for write in writes:
            with pytest.raises(Superseded):
                write(second.store)
        with pytest.raises(Superseded):
            second.execute("run")
        assert second.store.entries("run") == before
        assert second.store.run("run").status == "running"


@pytest.mark.usefixtures("each_store")
def test_another_referees_database_is_refused(bench):
    database = support.database_of(bench.folder) or sqlite_url(bench.folder / "referee" / "referee.sqlite")
    with pytest.raises(BadInput, match="give its key file with --key"):
        Referee(bench.folder / "stranger", bench._gate, settings=RefereeSettings(database))
