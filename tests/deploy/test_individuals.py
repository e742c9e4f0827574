"""Individual agents over real HTTP, beside a hosted population, in one run."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from common.core.errors import PeerUnavailable, Refused
from common.vocabulary.records import Records
from common.wire import messages
from common.wire.identity import Signed
from deploy.remote import Remote
from local_agent.cli import app as agent_command
from local_agent.client import RefereeClient
from local_agent.host import Host
from local_agent.hosted.setup import open_population
from local_agent.person.agent import Agent
from local_agent.policy import Policy
from referee.audit.audit import audit
from referee.service.app import referee_app
from referee.service.referee import Referee
from referee.service.runner import Runner
from tests.support import TOKEN, Bench, leave_folder, served, tiny

PERSON = {"features": [0.1] * 8, "label": 1}
FEW = ("agents.count=600", "agents.batch=600", "curator.rounds=1", "agents.deadline=600")
"""One question that goes to everybody: so each individual is asked."""


def record() -> Records:
    return Records(np.full((1, 8), 0.1, dtype=np.float32), np.ones(1, dtype=np.int8))


@pytest.mark.slow
def test_a_population_and_a_few_individuals_answer_the_same_question(tmp_path):
    chosen = tiny(*FEW)
    with Bench(tmp_path / "bench", chosen) as bench:  # for its curator alone: the referee below is the one that serves
        referee = Referee(tmp_path / "referee", bench.curator)
        referee.allow("enrolment", TOKEN)
        referee.allow("operator", TOKEN)
        runner = Runner(referee)
        runner.start()
        key = referee.identity.public
        with served(referee_app(referee, runner)) as address:
            people = open_population(chosen, tmp_path / "people", 1, key, 597)
            clients = [RefereeClient(address, patience=600) for _ in range(4)]
            agents = [Agent(record(), Policy(key, 2.0), tmp_path / f"agent-{n}") for n in range(2)]
            hosts = [Host(answerer, client, key) for answerer, client in zip([people, *agents], clients, strict=False)]
            for host in hosts:
                host.enrol(TOKEN)
            me = tmp_path / "me.json"
            me.write_text(json.dumps(PERSON))
            arguments = ["answer", str(me), "--epsilon", "2", "--referee", address, "--max-delay", "0.05", "--yes"]
            arguments += ["--state", str(tmp_path / "me")]
            said: list[str] = []
            command = threading.Thread(
                target=lambda: said.append(
                    CliRunner().invoke(agent_command, arguments, env={"TANDEM_ENROLMENT_TOKEN": TOKEN}).output
                )
            )
            command.start()
            remote = Remote(address, TOKEN, patience=600)
            done: list[threading.Thread] = []

            def work(host: Host) -> None:
                while not host.step():
                    pass

            for host in hosts:
                done.append(threading.Thread(target=work, args=(host,)))
                done[-1].start()
            finished = remote.run(chosen, 1, "run", lambda text, numbers: None)
            for thread in [*done, command]:
                thread.join()
            assert finished.result["agents"] == {"enrolled": 600, "asked": 600, "answered": 600, "rejected": 0}
            assert audit(leave_folder(tmp_path / "run", chosen, 1, finished)).reports == 4
            assert "this agent answers once" in said[0]
            _restart(tmp_path, agents[0], clients[1], key, hosts[1])
            again = CliRunner().invoke(agent_command, arguments, env={"TANDEM_ENROLMENT_TOKEN": TOKEN})
            assert again.exit_code == 0  # it sends what it has on disk again, and the referee accepts the same again
            assert referee.store.answered("run") == 600
            for closing in [*hosts, *clients, remote]:
                closing.close()  # type: ignore[attr-defined]
        runner.stop()
        referee.close()


def _restart(tmp_path: Path, agent: Agent, client: RefereeClient, key: str, host: Host) -> None:
    """After a restart the answered flag stands, and the same report leaves again; nothing is asked anew."""
    report = agent.report
    agent.close()
    again = Agent(record(), Policy(key, 2.0), tmp_path / "agent-0")
    host._answerer = again
    assert again.answered
    assert again.report == report
    assert host.step()
    assert host.finished


class Flaky:
    """A referee that goes away after the question, and refuses the report in the end."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.errors: list[Exception] = []
        self.seen: list[Signed] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.bench.referee, name)

    def report(self, signed: Signed) -> Signed:
        self.seen.append(signed)
        if self.errors:
            raise self.errors.pop(0)
        return self.bench.referee.report(signed)


def test_an_answer_that_did_not_arrive_is_sent_again_and_never_drawn_again(tmp_path):
    chosen = tiny(*FEW)
    with Bench(tmp_path / "bench", chosen, individuals=1) as bench:
        port, key = Flaky(bench), bench.referee.identity.public
        agent = Agent(record(), Policy(key, 2.0), tmp_path / "agent")
        host = Host(agent, port, key)
        host.enrol(TOKEN)

        def meanwhile() -> None:
            port.errors = [PeerUnavailable("it is away")]
            with pytest.raises(PeerUnavailable):
                host.step()
            assert agent.answered
            assert not host.finished
            assert host.step()
            assert host.finished
            assert port.seen[0] == port.seen[1]
            port.errors = [Refused("closed")]
            with pytest.raises(Refused):
                host.step()
            assert host.finished

        bench.meanwhile(meanwhile)
        assert bench.run()["agents"]["answered"] == 600
        assert len({signed.signature for signed in port.seen}) == 1
        host.close()


def test_the_delay_of_an_answer_is_drawn_before_the_record_is_seen(tmp_path):
    with Bench(tmp_path / "bench", tiny(*FEW), individuals=1) as bench:
        key, order = bench.referee.identity.public, []
        agent = Agent(record(), Policy(key, 2.0), tmp_path / "agent")
        real = agent.answer
        agent.answer = lambda *question: order.append("answer") or real(*question)  # type: ignore[method-assign]
        host = Host(agent, bench.referee, key, delay=lambda: order.append("delay") or 0.01)
        host.enrol(TOKEN)
        bench.meanwhile(lambda: host.step() and None)
        bench.run()
        assert order == ["delay", "answer"]
        agent.close()


def test_an_enrolment_that_another_referee_signed_is_refused(tmp_path):
    from common.core.errors import Forged

    with Bench(tmp_path / "bench") as bench:
        agent = Agent(record(), Policy("0" * 64, 2.0), tmp_path / "agent")
        with pytest.raises(Forged):
            Host(agent, bench.referee, "0" * 64).enrol(TOKEN)
        assert messages.Enrolment(agents=1).wire() == {"agents": 1}
        agent.close()
