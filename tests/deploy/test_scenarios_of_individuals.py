"""Every shipped scenario, small, with individual agents alone and over HTTP, gives the answer that a host gives."""

import json
import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from common.core.errors import BadScenario
from common.scenario.loading import load, shipped
from common.scenario.scenario import ResolvedScenario, data_folder
from curator.startup import open_curator
from deploy.checking import checked
from deploy.deployment import Embedded, RunOutput
from deploy.remote import Remote
from referee.audit.audit import audit
from referee.protocols.base import PROTOCOLS
from referee.service.app import referee_app
from referee.service.referee import Referee
from referee.service.runner import Runner
from tests.individuals import Crowd, individuals
from tests.support import TOKEN, leave_folder, served

SHELF = Path(os.environ.get("TANDEM_DATA", Path(__file__).parents[3] / "shared" / "data"))
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
    assert example.problem is not None
    found = {"problem": example.problem, "source": example.source, "target": example.target}
    return (*(f"{key}={json.dumps(value.wire())}" for key, value in found.items()), *more)


SMALL: dict[str, tuple[str, ...]] = {
    "adult": FEW,
    "adult-biased": FEW,
    "ball": PRIVATELY,
    "ball-lasso": LEARNING,
    "ball-nonprivate": LEARNING,
    "ball-paper-nonprivate": LEARNING,
    "ball-paper-size": PRIVATELY,
    "blender": small_of("blender", LOUD, "beta=0.45"),
    "domain-adaptation": FEW,
    "domain-adaptation-nonconvex": FEW,
    "flights": FEW,
    "halfspace": FEW,
    "hand-over": PRIVATELY,
    "hypothesis-testing": small_of("hypothesis-testing", "agents.mechanism.epsilon=4", "beta=0.1"),
    "model-agnostic": FEW,
    "model-agnostic-classes": FEW,
    "model-agnostic-transfer": FEW,
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
    "portfolio": ("curator.n=1200", *FEW),
    "reverse-adaptation": FEW,
    "select-then-estimate": small_of("select-then-estimate", LOUD, "alpha=0.4", "beta=0.45"),
    "sparse": FEW,
}  # fmt: skip
"""What makes each shipped scenario small."""
LONG = "parity-and-threshold"
"""It asks a thousand agents, a few at a time: two minutes."""
SAME = set(SMALL) - {"adult", "adult-biased", "blender", "flights", "portfolio"}
"""The others' answers depend on the agents' noise, of which each individual has its own."""


def test_every_shipped_scenario_is_tried():
    assert set(SMALL) == set(shipped())


def asked_of(chosen: ResolvedScenario, folder: Path, run: str = "run", answers: int = 1) -> tuple[RunOutput, Crowd]:
    """Run a scenario whose agents are individuals, over HTTP; each can pay for so many answers."""
    with ExitStack() as opened:
        curator = opened.enter_context(closing(open_curator(chosen, folder / f"curator-of-{run}", 1, None)))
        referee = opened.enter_context(closing(Referee(folder / "referee", curator)))
        referee.allow("enrolment", TOKEN)
        referee.allow("operator", TOKEN)
        runner, key = Runner(referee), referee.identity.public
        runner.start()
        opened.callback(runner.stop)
        address = opened.enter_context(served(referee_app(referee, runner)))
        remote = opened.enter_context(closing(Remote(address, TOKEN, patience=600)))
        people = individuals(chosen, folder / "agents", 1, key, answers)
        crowd = opened.enter_context(closing(Crowd(address, key, people)))
        crowd.start()
        return remote.run(chosen, 1, run, lambda text, numbers: None), crowd


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough if name == LONG else ()) for name in SMALL]
)
def test_individuals_alone_give_the_answer_that_a_host_gives(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_DATA", str(SHELF))
    chosen = checked(load(name, [*SMALL[name], "agents.deadline=600"]))
    try:
        data_folder(chosen)
    except BadScenario as error:
        pytest.skip(error.detail)
    finished, crowd = asked_of(chosen, tmp_path / "individuals")
    hosted = Embedded(tmp_path / "hosted").run(chosen, 1, "run", lambda text, numbers: None)
    agents = finished.result["agents"]
    assert agents["enrolled"] == chosen.agents.count
    assert agents["answered"] == agents["asked"] == crowd.answered > 0
    assert finished.result["status"] == hosted.result["status"], finished.result["reason"]
    assert audit(leave_folder(tmp_path / "run", chosen, 1, finished)).answers == crowd.answered
    if name in SAME:
        assert finished.result["answer"] == hosted.result["answer"]


@pytest.mark.slow
def test_a_lifetime_budget_pays_for_several_runs_of_a_referee_and_each_asks_a_person_once(tmp_path):
    chosen = checked(load("hypothesis-testing", [*SMALL["hypothesis-testing"], "agents.deadline=600"]))
    people = chosen.agents.count
    for run in ("first", "second"):
        finished, crowd = asked_of(chosen, tmp_path, run, answers=2)
        assert finished.result["status"] == "done"
        assert finished.result["agents"]["answered"] == crowd.answered == people
        folder = tmp_path / "folder" / run
        folder.mkdir(parents=True)
        assert audit(leave_folder(folder, chosen, 1, finished)).answers == people
    for person in range(people):
        held = json.loads((tmp_path / "agents" / f"agent-{person}" / "answered.json").read_bytes())["answers"]
        assert [answer["report"]["message"]["run"] for answer in held] == ["first", "second"]
        assert [answer["epsilon"] for answer in held] == [4.0, 4.0]
