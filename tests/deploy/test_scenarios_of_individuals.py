"""Every shipped scenario, small, with individual agents alone and over HTTP, gives the answer that a host gives."""

import json
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.data.population import open_records
from common.numerics.randomness import subseed
from common.privacy.guarantee import repeated
from common.scenario.loading import load, shipped
from common.scenario.scenario import ResolvedScenario, data_folder
from curator.startup import open_curator
from deploy.checking import checked
from deploy.deployment import Embedded, RunOutput
from local_agent.client import RefereeClient
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.policy import PersonalPolicy
from referee.audit.audit import audit
from referee.protocols.base import PROTOCOLS
from tests.support import SHELF, TOKEN, leave_folder, operated, quiet

FEW = ("agents.count=40", "agents.batch=40", "baselines=[]")
LEARNING = ("curator.n=1200", "curator.kappa=0.2", "curator.eta=0.2", "curator.rounds=2", *FEW)
PRIVATELY = ("curator.epsilon=60", "curator.learner.steps=300", *LEARNING)
LOUD = "agents.mechanism.epsilon=10"
"""Little noise, so that a problem needs few agents; its size, alpha and beta do the rest."""


def sides(**people: Any) -> tuple[str, ...]:
    return tuple(f"{side}.distribution.{key}={value}" for side in ("source", "target") for key, value in people.items())


def small_of(name: str, *more: str) -> tuple[str, ...]:
    """Take the people and the problem of the protocol's own small example."""
    example = PROTOCOLS[name].example()[0]
    found = {"problem": example.problem, "source": example.source, "target": example.target}
    return (*(f"{key}={json.dumps(value.wire())}" for key, value in found.items()), *more)


SMALL: dict[str, tuple[str, ...]] = dict.fromkeys(shipped(), FEW) | {
    "ball": PRIVATELY,
    "ball-few-agents": PRIVATELY,
    "public-source": LEARNING,
    "ball-lasso": LEARNING,
    "ball-nonprivate": LEARNING,
    "ball-paper-nonprivate": LEARNING,
    "ball-paper-size": PRIVATELY,
    "convex-hinge": PRIVATELY,
    "convex-squared": PRIVATELY,
    "blender": small_of("blender", LOUD, "beta=0.45"),
    "blender-pairs": small_of("blender", LOUD, "beta=0.45", "problem.query=4"),
    "discrepancy": PRIVATELY,
    "domain-adaptation-network": ("curator.learner.iterations=20", *FEW),
    "hand-over": PRIVATELY,
    "hypothesis-testing": small_of("hypothesis-testing", "agents.mechanism.epsilon=4", "beta=0.1"),
    "local-gradient": ("agents.answers=100", *sides(d=2, close=1), *FEW),
    "one-of-many-parities": (
        LOUD, "beta=0.1", "problem.c=2", "problem.d=1", "problem.shares=2", *sides(c=2, d=1, shares=2),
    ),
    "parity": (LOUD, *FEW),
    "parity-and-threshold": (
        LOUD, "alpha=0.45", "beta=0.4", "problem.c=2", "problem.b=2", *sides(c=2, b=2, secret="[1]", threshold=2),
    ),
    "parity-chooses-secret": small_of("parity-chooses-secret", LOUD, "beta=0.1"),
    "parity-xor-threshold": (
        "agents.mechanism.epsilon=20", "alpha=0.49", "beta=0.45", "problem.c=2", "problem.b=2", "problem.blocks=8",
        *sides(c=2, b=2, secret="[1]", threshold=2),
    ),
    "parity-xor-threshold-rounds": (
        LOUD, "curator.epsilon=20", "alpha=0.49", "beta=0.45", "problem.c=2", "problem.b=1",
        *sides(c=2, b=1, secret="[1]", threshold=1),
    ),
    "portfolio": ("curator.n=1200", *FEW),
    "portfolio-classes": ("curator.n=1200", *FEW, "agents.count=60"),
    "portfolio-regression": ("curator.n=1200", *FEW),
    "select-then-estimate": small_of("select-then-estimate", LOUD, "alpha=0.4", "beta=0.45"),
    "statistical-query": small_of("statistical-query", LOUD, "alpha=0.3", "beta=0.1"),
    "transfer-classes": (
        "curator.n=40000", "curator.epsilon=8", "curator.learner.draws=4000", "curator.learner.queries=40", *FEW,
    ),
    "two-laws": (),
}  # fmt: skip
"""What makes each shipped scenario small."""
VARIANTS = {
    "adaptation-few-labels", "adult", "adult-biased", "ball-few-agents", "ball-lasso", "ball-nonprivate",
    "ball-paper-nonprivate", "ball-paper-size", "blender", "blender-pairs", "convex-hinge", "convex-squared",
    "discrepancy", "domain-adaptation", "domain-adaptation-network", "domain-adaptation-nonconvex", "flights",
    "halfspace", "model-agnostic-classes", "model-agnostic-stream", "model-agnostic-transfer", "parity",
    "parity-and-threshold", "parity-xor-threshold", "parity-xor-threshold-rounds", "public-source",
    "reverse-adaptation", "select-then-estimate", "sparse", "transfer-classes", "two-laws",
}  # fmt: skip
"""Of protocols, learners and kinds of people that CI runs otherwise, too, or whose questions agents in Node answer
there; one has 1,870 agents."""
NOISY = {
    "adult", "adult-biased", "blender", "blender-pairs", "flights", "local-gradient", "portfolio",
    "portfolio-classes", "portfolio-regression", "statistical-query", "transfer-classes",
}  # fmt: skip
SAME = set(SMALL) - NOISY
"""The others' answers, and whether they are sure, depend on the agents' noise, of which each individual has its own."""


def check_alike(name: str, found: dict[str, Any], hosted: dict[str, Any]) -> None:
    """Check that a run with individuals ended as the one with a host did; where noise decides, that it ended well."""
    if name in SAME:
        assert (found["status"], found["answer"]) == (hosted["status"], hosted["answer"]), found["reason"]
    else:
        assert {found["status"], hosted["status"]} <= {"done", "exhausted"}, found["reason"]


WORKERS = 64  # threads in which individuals take part


def individuals(
    chosen: ResolvedScenario, folder: Path, seed: int, referee: str, runs: int = 1, budgets: Sequence[float] = ()
) -> list[Agent]:
    """Return an agent for each person of the scenario's population, with the record that a host would have.

    Their lifetime budgets pay for so many runs, or are the given epsilons by turns.
    """
    people = open_records(chosen.target, data_folder(chosen), subseed(seed, "target"), chosen.agents.count)
    policies = [PersonalPolicy(referee, epsilon) for epsilon in budgets]
    policies = policies or [PersonalPolicy(referee, *repeated(chosen.agents.cost, runs))]
    return [
        Agent(people.records(np.array([i]), None), policies[i % len(policies)], folder / f"agent-{i}")
        for i in range(chosen.agents.count)
    ]


class Crowd:
    """Agents that take part until they have answered, or until the run is over."""

    def __init__(self, address: str, referee: str, agents: list[Agent]) -> None:
        self._clients = [RefereeClient(address, patience=600) for _ in range(min(WORKERS, len(agents)))]
        self.agents = agents
        self._hosts = [Host(agent, self._clients[i % WORKERS], referee) for i, agent in enumerate(agents)]
        self._over, self._pool = threading.Event(), ThreadPoolExecutor(WORKERS)
        self._working: list[Future[None]] = []

    @property
    def answered(self) -> int:
        return sum(host.counts["answered"] for host in self._hosts)

    def start(self) -> None:
        """Enrol them one after the other, so that number i is person i, and let them come."""
        for host in self._hosts:
            host.enrol(TOKEN)
        shares = (self._hosts[n::WORKERS] for n in range(len(self._clients)))
        self._working = [self._pool.submit(self._take_part, share) for share in shares]

    def close(self) -> None:
        """Let them go, and wait until the last has gone."""
        self._over.set()
        self._pool.shutdown()
        for host in self._hosts:
            host.close()
        for client in self._clients:
            client.close()
        for working in self._working:
            working.result()

    def _take_part(self, hosts: list[Host]) -> None:
        while not self._over.is_set() and (left := [host for host in hosts if not host.finished]):
            for host in left:
                if not self._over.is_set() and not host.step() and len(hosts) > 1:
                    self._over.wait(WORKERS / 100)  # all share 100 polls a second: with more the referee falls behind


def asked_of(
    chosen: ResolvedScenario, folder: Path, run: str = "run", runs: int = 1, budgets: Sequence[float] = ()
) -> tuple[RunOutput, Crowd]:
    """Run a scenario whose agents are individuals, over HTTP, with the lifetime budgets of :func:`individuals`."""
    with (
        closing(open_curator(chosen, folder / f"curator-of-{run}", 1, None)) as curator,
        operated(folder, curator) as (referee, address, remote),
    ):
        key = referee.identity.public
        people = individuals(chosen, folder / "agents", 1, key, runs, budgets)
        with closing(Crowd(address, key, people)) as crowd:
            crowd.start()
            return remote.run(chosen, 1, run, quiet), crowd


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough if name in VARIANTS else ()) for name in SMALL]
)
def test_individuals_alone_give_the_answer_that_a_host_gives(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_DATA", str(SHELF))
    assert set(SMALL) == set(shipped())
    chosen = checked(load(name, [*SMALL[name], "agents.deadline=600"]))
    try:
        data_folder(chosen)
    except BadScenario as error:
        pytest.skip(error.detail)
    finished, crowd = asked_of(chosen, tmp_path / "individuals")
    hosted = Embedded(tmp_path / "hosted").run(chosen, 1, "run", quiet)
    agents = finished.result["agents"]
    assert agents["enrolled"] == chosen.agents.count
    assert agents["answered"] == agents["asked"] == crowd.answered > 0
    assert audit(leave_folder(tmp_path / "run", chosen, 1, finished)).answers == crowd.answered
    check_alike(name, finished.result, hosted.result)


@pytest.mark.slow
def test_a_lifetime_budget_pays_for_several_runs_of_a_referee_and_each_asks_a_person_once(tmp_path):
    chosen = checked(load("hypothesis-testing", [*SMALL["hypothesis-testing"], "agents.deadline=600"]))
    people = chosen.agents.count
    for run in ("first", "second"):
        finished, crowd = asked_of(chosen, tmp_path, run, runs=2)
        assert finished.result["status"] == "done"
        assert (
            finished.result["agents"]["enrolled"] == finished.result["agents"]["answered"] == crowd.answered == people
        )
        folder = tmp_path / "folder" / run
        folder.mkdir(parents=True)
        found = audit(leave_folder(folder, chosen, 1, finished))
        assert (found.answers, found.individuals, found.vouching.individuals) == (people, people, people)
    for person in range(people):
        held = json.loads((tmp_path / "agents" / f"agent-{person}" / "answered.json").read_bytes())["answers"]
        assert [answer["report"]["message"]["run"] for answer in held] == ["first", "second"]
        assert [answer["epsilon"] for answer in held] == [4.0, 4.0]


@pytest.mark.slow
def test_agents_with_different_budgets_answer_one_question_at_different_levels(tmp_path):
    levels = "agents.mechanism={name: warner-levels, epsilons: [1.0, 4.0]}"
    chosen = checked(load("reverse-adaptation", [*SMALL["reverse-adaptation"], levels, "agents.deadline=600"]))
    finished, crowd = asked_of(chosen, tmp_path, budgets=(2.5, 4.5))
    # Who has 2.5 answers once at level 1, and would again; who has 4.5 at level 4.
    assert [agent.left[0] for agent in crowd.agents] == [1.5, 0.5] * (chosen.agents.count // 2)
    assert crowd.answered == finished.result["agents"]["answered"] == chosen.agents.count
    assert finished.result["estimate"]["low"] <= finished.result["estimate"]["value"]
    assert audit(leave_folder(tmp_path / "left", chosen, 1, finished)).answers == chosen.agents.count
