"""Individual agents over real HTTP, and what they send again, and in which order they do what."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from common.core.errors import BadData, Forged, PeerUnavailable, PolicyRefused
from common.crypto.identity import Signed
from common.local.naming import Names
from common.local.records import Records
from common.scenario import loading
from common.scenario.plan import resolve
from curator.startup import open_curator
from local_agent.cli import app as agent_command
from local_agent.cli import read_record
from local_agent.client import RefereeClient
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.person.consent import ActivityLog, Consent
from local_agent.policy import PersonalPolicy, chosen_queries
from referee.audit.audit import audit
from tests.support import TOKEN, Bench, leave_folder, operated, quiet, tiny
from tests.tiers import for_each

PERSON = {"features": [0.1] * 8, "label": 1}
FEW = ("agents.count=600", "agents.batch=600", "curator.rounds=1", "agents.deadline=600")
"""One question that goes to everybody: so each individual is asked."""


def record() -> Records:
    return Records(np.full((1, 8), 0.1, dtype=np.float32), np.ones(1, dtype=np.int8))


TABLE: dict[str, Any] = {
    "label": {"column": "insured", "positive": ["yes"], "negative": ["no"]},
    "features": [
        {"kind": "number", "column": "visits", "low": 0.0, "high": 30.0},
        {"kind": "category", "column": "plan", "values": ["basic", "pro"]},
    ],
}
PEOPLE, REFUSING = 16, 2


def portfolio_of_a_table(folder: Path) -> Path:
    """Write two tables of invented people and a scenario about them, of the protocol that ``referee init`` writes."""
    rows = [f"{i % 30},{'basic' if i % 3 else 'pro'},{'yes' if i % 30 > 14 else 'no'}" for i in range(400)]
    for name in ("s.csv", "t.csv"):
        (folder / name).write_text("\n".join(["visits,plan,insured", *rows]) + "\n")
    learner = {"name": "sgd", "loss": "logistic", "steps": 40, "clip": 1.0, "noise": "plan", "diameter": 8.0}
    scenario = {
        "name": "insured",
        "title": "Who is insured",
        "protocol": "portfolio",
        "people": "simulated",
        "alpha": 0.1,
        "data": str(folder),
        **{side: {"table": {"files": [f"{side[0]}.csv"], **TABLE}} for side in ("source", "target")},
        "curator": {"n": 400, "epsilon": 2.0, "delta": 1e-5, "rounds": 1, "learner": learner},
        "agents": {"count": PEOPLE, "deadline": 600, "mechanism": {"name": "warner", "epsilon": 2.0}},
    }
    path = folder / "scenario.yaml"
    path.write_text(json.dumps(scenario))  # JSON is YAML, too
    return path


@pytest.mark.slow
def test_a_portfolio_of_individuals_from_fields_by_column_to_an_audited_answer(tmp_path):
    """Nobody but individuals, over HTTP, each with a record made of its own fields; some refuse one kind."""
    path = portfolio_of_a_table(tmp_path)
    chosen = resolve(loading.load(str(path)))
    shown: dict[int, list[str]] = {i: [] for i in range(PEOPLE)}
    refused: list[tuple[int, str]] = []
    over = threading.Event()
    with (
        closing(open_curator(chosen, tmp_path / "curator", 1, None)) as curator,
        operated(tmp_path, curator) as (referee, address, remote),
        ExitStack() as stack,
    ):
        key = referee.identity.public

        def enrolled(i: int) -> Host:
            fields, me, state = (tmp_path / f"{what}-{i}" for what in ("fields", "me", "agent"))
            fields.write_text(json.dumps({"visits": i, "plan": "pro", "insured": "yes" if i % 2 else "no"}))
            made = CliRunner().invoke(agent_command, ["record", str(path), str(fields), "--output", str(me)])
            assert made.exit_code == 0, made.output
            policy = PersonalPolicy(key, 2.0, queries=chosen_queries((), ("residual",) if i < REFUSING else ()))
            record, names = read_record(me)
            agent = Agent(record, policy, state, names)
            consent = Consent(address, policy, ActivityLog(state), shown[i].append, lambda: True)
            client = stack.enter_context(closing(RefereeClient(address, patience=600)))
            host = stack.enter_context(closing(Host(agent, client, key, consent=consent)))
            host.enrol(TOKEN)
            return host

        def take_part(i: int, host: Host) -> None:
            while not (over.is_set() or host.finished):
                try:
                    host.step()
                except PolicyRefused as error:
                    refused.append((i, error.detail))
                    return
                over.wait(0.05)

        with ThreadPoolExecutor(PEOPLE) as pool:
            try:
                taking = [pool.submit(take_part, i, enrolled(i)) for i in range(PEOPLE)]
                finished = remote.run(chosen, 1, "run", quiet)
            finally:
                over.set()  # the pool waits for all, also where the run has failed
            for one in taking:
                one.result()
    result = finished.result
    assert result["status"] in ("done", "exhausted"), result["reason"]
    assert all(i < REFUSING and "questions of kind 'residual' are not accepted" in why for i, why in refused)
    assert result["lost"] == {"silent": 0, "declined": {"policy": len(refused)} if refused else {}}
    assert result["agents"]["answered"] == result["agents"]["asked"] - len(refused)
    assert audit(leave_folder(tmp_path / "run", chosen, 1, finished)).status == result["status"]
    texts = [" ".join(text.split()) for each in shown.values() for text in each]
    assert len(texts) == result["agents"]["answered"]
    for text in texts:
        assert '"Who is insured", in the words of the referee' in text
        assert '"insured"' in text
        assert "These are the columns that your record was made for." in text
    assert sum('whether "insured" is "yes": the value is 1 if so' in text for text in texts) > 0
    assert sum("errs about you: the difference between" in text and '"visits" and "plan"' in text for text in texts) > 0


def test_what_a_record_says_of_its_columns_is_read_or_refused(tmp_path):
    path = tmp_path / "me.json"
    path.write_text(json.dumps(PERSON))
    assert read_record(path)[1] is None
    names = Names.of_table({**TABLE})
    path.write_text(json.dumps({**PERSON, "names": names.wire()}))
    assert read_record(path)[1] == names
    wrong: Any
    for wrong in (None, 7, [], {"features": 7}, {"columns": []}):
        path.write_text(json.dumps({**PERSON, "names": wrong}))
        with pytest.raises(BadData, match="make the record again"):
            read_record(path)
    path.write_text(json.dumps({"visits": 3, "plan": "pro", "insured": "yes"}))
    with pytest.raises(BadData, match=r'local-agent record SCENARIO me\.json" makes that of fields'):
        read_record(path)


@for_each(("more", "why"), [
    (["--accept", "los"], "no question is of kind 'los'"),
    (["--refuse", "scores"], "no question is of kind 'scores'"),
    (["--accept", "loss", "--refuse", "loss"], "leave no kind of question"),
])  # fmt: skip
def test_kinds_that_do_not_exist_are_refused_before_anything_is_sent(tmp_path, more, why):
    (tmp_path / "me.json").write_text(json.dumps(PERSON))
    nowhere = ["--token", TOKEN, "--referee", "http://127.0.0.1:9", "--state", str(tmp_path / "state")]
    for command in (["answer", str(tmp_path / "me.json"), "--yes"], ["host", "ball"]):
        ended = CliRunner().invoke(agent_command, [*command, *nowhere, *more])
        assert (ended.exit_code, ended.stderr.count("\n")) == (1, 1)
        assert why in ended.stderr
        assert not (tmp_path / "state").exists()


class Flaky:
    """A referee that goes away after the question, and refuses the report in the end."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.errors: list[Exception] = []
        self.seen: list[Signed] = []
        self.away = False  # whether it takes no enrolment

    def __getattr__(self, name: str) -> object:
        return getattr(self.bench.referee, name)

    def enrol(self, signed: Signed, token: str) -> Signed:
        if self.away:
            raise PeerUnavailable("it is away")
        return self.bench.referee.enrol(signed, token)

    def report(self, signed: Signed) -> Signed:
        self.seen.append(signed)
        if self.errors:
            raise self.errors.pop(0)
        return self.bench.referee.report(signed)


@contextmanager
def individual(folder: Path, epsilon: float = 2.0, **ways: Any) -> Iterator[tuple[Bench, Flaky, Agent, Host]]:
    """One individual that has enrolled at a bench, by way of a referee that may go away."""
    with Bench(folder / "bench", tiny(*FEW), individuals=1) as bench:
        port, key = Flaky(bench), bench.referee.identity.public
        agent = Agent(record(), PersonalPolicy(key, epsilon), folder / "agent")
        with closing(Host(agent, port, key, **ways)) as host:
            host.enrol(TOKEN)
            yield bench, port, agent, host


def test_an_answer_that_did_not_arrive_is_sent_again_and_never_drawn_again(tmp_path):
    with individual(tmp_path) as (bench, port, agent, host):

        def meanwhile() -> None:
            port.errors = [PeerUnavailable("it is away")]
            with pytest.raises(PeerUnavailable):
                host.step()
            assert agent.answered
            assert not host.finished
            assert host.step()
            assert host.finished
            assert port.seen[0] == port.seen[1]

        bench.meanwhile(meanwhile)
        assert bench.run()["agents"]["answered"] == 600
        assert len({signed.signature for signed in port.seen}) == 1


def test_an_enrolment_for_a_further_run_that_did_not_arrive_is_sent_again(tmp_path):
    with individual(tmp_path, 4.0) as (bench, port, _, host):

        def meanwhile() -> None:
            port.away = True
            with pytest.raises(PeerUnavailable):
                host.step()
            port.away = False
            assert bench.referee.registrar.roster.agents == 600  # its answer is there, and not a further place
            host.step()
            assert bench.referee.registrar.roster.agents == 601

        bench.meanwhile(meanwhile)
        assert bench.run()["agents"] == {"enrolled": 600, "asked": 600, "answered": 600, "rejected": 0}


def test_the_delay_of_an_answer_is_drawn_before_the_record_is_seen(tmp_path):
    order: list[str] = []
    with individual(tmp_path, delay=lambda: order.append("delay") or 0.01) as (bench, _, agent, host):
        real = agent.answer
        agent.answer = lambda *question: order.append("answer") or real(*question)  # type: ignore[method-assign]
        bench.meanwhile(lambda: host.step() and None)
        bench.run()
    assert order == ["delay", "answer"]


def test_an_enrolment_that_another_referee_signed_is_refused(tmp_path):
    with (
        Bench(tmp_path / "bench") as bench,
        closing(Agent(record(), PersonalPolicy("0" * 64, 2.0), tmp_path / "agent")) as agent,
        pytest.raises(Forged),
    ):
        Host(agent, bench.referee, "0" * 64).enrol(TOKEN)
