"""A question about items, from the referee to a hosted population and an individual, and their answers back."""

from __future__ import annotations

import secrets
from collections import Counter
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage, PolicyRefused
from common.local.hypotheses.linear import Linear
from common.local.mechanisms.mechanism import parse_mechanism
from common.local.queries.features import ItemQuery
from common.local.queries.loss import LossQuery
from common.local.queries.query import Answers
from common.local.records import Records
from common.net import messages
from common.scenario.sections import AgentsSection
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.policy import ALL_QUERIES, PersonalPolicy
from referee import stored_questions
from tests.support import TOKEN, Bench, seal, tiny

EPSILON = 2.0
QUERY = ItemQuery(bits=6, prefixes=(2, 6), public=123)
"""64 items; a value above 0 is a one. Individuals hold the item 101010."""
PERSON = Records(np.array([[1, -1, 1, -1, 1, -1, -1, -1]], dtype=np.float32), np.ones(1, dtype=np.int8))
PEOPLE = 3000


@pytest.fixture
def _of_another_protocol(monkeypatch):
    """Let the run be of a protocol that asks for values: here questions are asked by hand, and no protocol runs."""
    warner = parse_mechanism({"name": "warner", "epsilon": EPSILON})
    monkeypatch.setattr("common.scenario.accepting.check_answers", lambda scenario: None)
    monkeypatch.setattr(AgentsSection, "value_mechanism", property(lambda section: warner))


class Asked:
    """A referee with an open run whose agents randomize items: a hosted population and one individual."""

    def __init__(self, folder: Any, mechanism: str, **wire: Any) -> None:
        chosen = tiny(f"agents.mechanism.name={mechanism}", f"agents.count={PEOPLE}")
        self.bench = Bench(folder / "bench", chosen, individuals=1)
        referee = self.bench.referee
        self.agent = Agent(
            PERSON, PersonalPolicy(referee.identity.public, EPSILON, queries=ALL_QUERIES), folder / "agent"
        )
        self.host = Host(self.agent, referee, referee.identity.public)
        self.host.enrol(TOKEN)
        referee.create("run", chosen.wire(), 1)
        assert referee.drive()
        referee._execution(referee.store.run("run")).begin(lambda note: None)

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *exception: object) -> None:
        self.agent.close()
        self.bench.close()

    def ask(self, query: Any, work: Any) -> Answers:
        return self.bench.referee.collection.ask("run", 1, query, PEOPLE, 5.0, work)[0]


@pytest.mark.usefixtures("_of_another_protocol")
@pytest.mark.parametrize(
    ("mechanism", "answer", "most"), [("krr", 64.0, 63), ("krr", 0.5, 63), ("olh", -1.0, 7), ("hadamard", 2.0, 1)]
)
def test_an_individuals_answer_is_one_of_the_symbols(tmp_path, mechanism, answer, most):
    with Asked(tmp_path, mechanism) as asked:

        def work(seconds: float) -> None:
            poll = messages.Poll(participant=asked.agent.identity.public)
            assignment = asked.bench.referee.poll(seal(asked.agent.identity, poll))
            assert assignment is not None
            question = messages.Assignment.parse(assignment.message)
            report = messages.Report(
                report_id=secrets.token_hex(16),
                run="run",
                digest=question.digest,
                question=1,
                assignment=question.fingerprint(),
                answer=answer,
            )
            with pytest.raises(BadMessage, match=f"one of 0 to {most} under this run's mechanism"):
                asked.bench.referee.report(seal(asked.agent.identity, report))
            asked.bench.host.step()
            asked.host.step()

        assert len(asked.ask(QUERY, work).values) == PEOPLE


@pytest.mark.usefixtures("_of_another_protocol")
def test_a_question_that_the_mechanism_cannot_answer_is_never_opened(tmp_path):
    with Asked(tmp_path, "krr") as asked:
        query = LossQuery(hypothesis=Linear(weights=(1.0,) * 8, threshold=0.0))
        with pytest.raises(PolicyRefused, match="randomizes an item"):
            asked.ask(query, lambda seconds: None)
        assert asked.bench.referee.store.questions("run") == []


def read_in_a_run(tmp_path, monkeypatch, rounds: int) -> tuple[int, int]:
    """Return how many questions a run asks, and how many it reads from its database."""
    calls: Counter[str] = Counter()
    real = stored_questions._question

    def counted(row):
        calls["read"] += 1
        return real(row)

    monkeypatch.setattr(stored_questions, "_question", counted)
    chosen = tiny(f"curator.rounds={rounds}", "agents.count=4000", "alpha=0.001")
    with Bench(tmp_path / f"bench-{rounds}", chosen) as bench:
        bench.run()
        read = calls["read"]
        return len(bench.referee.store.questions("run")), read


def test_a_question_is_read_a_few_times_however_many_there_are(tmp_path, monkeypatch):
    asked, read = read_in_a_run(tmp_path, monkeypatch, 8)
    assert asked >= 5
    assert read <= 3 * asked  # once to take answers, once at the end for the orders in use, once for the run folder
