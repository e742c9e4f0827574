"""A run whose questions nobody accepts is refused before the curator is charged, and says who refuses what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from common.core.errors import PolicyRefused, TandemError
from common.data.population import open_records
from common.local.answers import AskAgents
from common.local.queries.query import QUERIES
from common.net.messages import AgentPolicy
from common.numerics.randomness import subseed
from common.scenario.resolved import ResolvedScenario
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.policy import Policy
from referee.audit.audit import audit
from referee.collection.enrolment import check_accepted
from referee.protocols.base import PROTOCOLS, protocol_of
from referee.service.referee import Referee
from tests.referee.protocols.test_protocol_contract import World, play
from tests.support import TOKEN, Bench, leave_folder, small

ALL = frozenset(QUERIES.shipped())
PORTFOLIO = small("portfolio", "agents.mechanism.epsilon=3")


class Individuals(Bench):
    """A bench of whose agents some are individuals with rules of their own, beside those of the host.

    ``opened`` counts how often the curator was asked for its terms, which charge it.
    """

    def __init__(
        self,
        folder: Path,
        chosen: ResolvedScenario,
        individuals: int,
        queries: Callable[[int], frozenset[str]] = lambda i: ALL,
        epsilon: float | None = None,
    ) -> None:
        self.opened = 0
        super().__init__(folder, chosen, individuals=individuals)
        self.lifetime = chosen.agents.mechanism.guarantee[0] if epsilon is None else epsilon
        people = open_records(chosen.target, None, subseed(9, "target"), individuals)
        self.hosts: list[Host] = []
        for i in range(individuals):
            policy = Policy(self.referee.identity.public, self.lifetime, queries=queries(i))
            agent = Agent(people.records(np.array([i])), policy, folder / f"person-{i}")
            self.hosts.append(Host(agent, self.referee, policy.referee))
            self.hosts[-1].enrol(TOKEN)
        real = self._gate.open_run

        def open_run(signed):
            self.opened += 1
            return real(signed)

        self._gate.open_run = open_run  # type: ignore[method-assign]

    def __enter__(self) -> Individuals:
        return self

    def allow(self, queries: frozenset[str]) -> None:
        """Have the host's people accept these kinds alone: it says so by enrolling again."""
        self.population._policy = Policy(self.referee.identity.public, self.lifetime, queries=queries)
        self.host.enrol(TOKEN)

    def wait(self, seconds: float) -> None:
        """Let everybody work, or else the seconds pass."""
        busy = False
        for host in [self.host, *self.hosts]:
            try:
                busy |= not host.finished and host.step()
            except TandemError:
                busy = True
        if not busy:
            self.clock.wait(seconds)

    def close(self) -> None:
        for host in self.hosts:
            host.close()
        super().close()


@pytest.mark.slow
@pytest.mark.parametrize("name", PROTOCOLS.shipped())
def test_individuals_answer_what_every_shipped_protocol_asks(tmp_path, name):
    chosen = small(name)
    with Individuals(tmp_path / "bench", chosen, individuals=min(12, chosen.agents.count // 3)) as bench:
        result = bench.run()
        assert result["status"] in ("done", "exhausted"), result["reason"]
        assert result["lost"] == {"silent": 0, "declined": {}}
        assert result["agents"]["asked"] > 0
        finished = bench.finished()
    assert audit(leave_folder(tmp_path / "run", chosen, 1, finished)).status == result["status"]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROTOCOLS.names())
def test_a_run_asks_no_kind_that_its_protocol_does_not_name_beforehand(name):
    scenarios = [small(name)]
    if name == "portfolio":
        scenarios += [PORTFOLIO, small(name, "portfolio.alone=0", "portfolio.judging=losses")]
    for chosen in scenarios:
        asks = protocol_of(chosen).asks(chosen)
        assert asks <= protocol_of(chosen).pattern.kinds("agents")
        for rate in (0.1, 0.5):
            world = World(chosen, rate)
            play(name, chosen, world)
            assert {step.query.kind for _, step, _ in world.log if isinstance(step, AskAgents)} <= asks


@pytest.mark.slow
def test_a_run_that_nobody_accepts_is_refused_before_the_curator_is_charged(tmp_path):
    with Individuals(tmp_path / "bench", PORTFOLIO, 4, lambda i: ALL - {"score"}) as bench:
        bench.allow(frozenset({"loss"}))
        result = bench.run()
        assert result["status"] == "refused"
        assert "no enrolled agent accepts questions of kind 'moment'" not in result["reason"]
        assert "no enrolled agent accepts questions of kind 'score'" in result["reason"]
        assert f"{PORTFOLIO.agents.count:,} refuse this kind" in result["reason"]
        assert (bench.opened, result["agents"]["asked"]) == (0, 0)
        ended = leave_folder(tmp_path / "refused", PORTFOLIO, 1, bench.finished())
        bench.allow(ALL)  # the same people, who have changed their minds: nothing was spent of anybody
        result = bench.run("again")
        assert result["status"] in ("done", "exhausted")
        assert bench.opened == 1
        found = bench.finished("again")
    assert audit(ended).status == "refused"
    assert audit(leave_folder(tmp_path / "run", PORTFOLIO, 1, found)).status == result["status"]


@pytest.mark.slow
def test_a_budget_that_is_too_small_for_one_answer_is_found_out_before_the_curator_is_charged(tmp_path):
    with Individuals(tmp_path, PORTFOLIO, 4, epsilon=2.0) as bench:
        bench.allow(ALL)
        result = bench.run()
        assert result["status"] == "refused"
        assert "have a lifetime budget below (epsilon, delta) = (3, 0)" in result["reason"]
        assert bench.opened == 0


@pytest.mark.slow
def test_some_who_refuse_are_counted_and_keep_nobody_from_the_others(tmp_path):
    with Individuals(tmp_path / "bench", PORTFOLIO, 30, lambda i: frozenset({"item"})) as bench:
        result = bench.run()
        notes = [note.text for note in bench.referee.notes("run")]
        found = bench.finished()
    assert f"30 of {PORTFOLIO.agents.count:,} enrolled agents do not accept" in notes[0]
    assert result["status"] in ("done", "exhausted")
    declined = result["lost"]["declined"]
    assert 0 < declined["policy"] <= 30
    assert result["agents"]["answered"] == result["agents"]["asked"] - declined["policy"]
    assert audit(leave_folder(tmp_path / "run", PORTFOLIO, 1, found)).status == result["status"]


@pytest.mark.slow
def test_what_was_announced_outlives_a_restart_and_the_last_word_counts(tmp_path):
    with Individuals(tmp_path, PORTFOLIO, 2, lambda i: ALL - {"score"}) as bench:
        before = bench.referee.registrar.policies()
        assert sorted(agents for _, agents in before) == [2, PORTFOLIO.agents.count - 2]
        bench.allow(ALL - {"loss"})
        (theirs,) = [said for said, agents in bench.referee.registrar.policies() if agents > 2]
        assert theirs.refuses == ("loss",)
    again = Referee(tmp_path / "referee", bench._gate)
    assert {said.refuses for said, _ in again.registrar.policies()} == {("loss",), ("score",)}
    again.close()


def test_who_refuses_what_is_judged_kind_by_kind():
    def said(*refuses: str, epsilon: float | None = 3.0, features: int = 8) -> AgentPolicy:
        return AgentPolicy(refuses=refuses, epsilon=epsilon, delta=0.0, features=features)

    assert check_accepted({"loss", "score"}, PORTFOLIO, [(said(), 5)], 5) is None
    # Each kind has somebody who accepts it, if not the same.
    apart = [(said("loss"), 3), (said("score"), 4)]
    assert check_accepted({"loss", "score"}, PORTFOLIO, apart, 7) == (
        "4 of 7 enrolled agents do not accept questions of kind 'score': 4 refuse this kind"
    )
    # Whoever said nothing accepts everything.
    assert check_accepted({"loss"}, PORTFOLIO, [(said("loss"), 3)], 4) is not None
    for nobody in (
        [(said("loss"), 3)],
        [(said(epsilon=2.9), 3)],
        [(said(features=7), 3)],
        [(said(epsilon=2), 1), (said("loss"), 2)],
    ):
        with pytest.raises(
            PolicyRefused, match=r"of kind 'loss', which this run asks: .*nothing of the curator's budget"
        ):
            check_accepted({"loss"}, PORTFOLIO, nobody, 3)
    assert check_accepted({"loss"}, PORTFOLIO, [(said(epsilon=None), 3)], 3) is None
    with pytest.raises(PolicyRefused) as refused:
        check_accepted({"loss", "score"}, PORTFOLIO, [(said("score"), 12)], 12)
    page = (Path(__file__).parents[3] / "docs" / "running.md").read_text("utf-8")
    assert f"    refused: {refused.value.detail}\n" in page
    assert check_accepted((), PORTFOLIO, [(said("loss"), 3)], 3) is None
