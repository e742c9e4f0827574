"""The portfolio of several classes: what is asked, what is taught and judged, and that an audit replays it."""

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage, BadScenario
from common.local.hypotheses.composed import Argmax, column_classes
from common.local.hypotheses.hypothesis import Linear, parse_hypothesis
from common.local.queries.query import parse_query
from common.local.queries.residuals import ClassResidualQuery
from common.local.records import Records
from common.operations.operation import ClassScores, Learned
from common.scenario.loading import load
from common.scenario.plan import resolve
from common.scenario.scenario import Scenario
from deploy.checking import checked
from deploy.simulation import SimulatedAgents
from referee.protocols import portfolio_classes
from referee.runs.verdict import LabelNames
from tests.referee.protocols.test_portfolio import Replies, sample_of_target
from tests.referee.protocols.test_protocol_contract import played
from tests.support import Bench, audited
from tests.tiers import for_each

SMALL = ("curator.n=3000", "curator.epsilon=8", "agents.count=8000", "agents.mechanism.epsilon=4", "agents.deadline=5")


def small_classes(*changes: str) -> Scenario:
    return checked(load("portfolio-classes", [*SMALL, *changes]))


def test_a_run_is_audited_and_what_was_taught_is_better_than_both_sides_alone(tmp_path):
    """The volunteers have mostly the first class, and the population has each of four as often."""
    with Bench(tmp_path / "state", small_classes()) as bench:
        result = bench.run()
        assert result["status"] == audited(bench).status == "done"
    people = sample_of_target(bench.chosen)
    true = [parse_hypothesis(judged["hypothesis"]).mistakes(people).mean() for judged in result["candidates"]]
    assert [judged["name"] for judged in result["candidates"]] == ["model, recalibrated", "model"]
    assert true[0] < true[1] - 0.02
    for judged, mean in zip(result["candidates"], true, strict=True):
        assert judged["estimate"]["low"] - 0.01 <= mean <= judged["estimate"]["high"] + 0.01
    calibrated: Any = parse_hypothesis(result["calibrated"])
    own = column_classes(people.features, 4, 4)
    chances = calibrated.probabilities(people.features)
    assert -np.log(chances[np.arange(len(own)), own]).mean() < 0.45 < np.log(4.0)
    assert chances.mean(axis=0) == pytest.approx(np.full(4, 0.25), abs=0.08)


def test_a_model_that_is_wrong_about_everybody_has_the_constant_of_the_most_frequent_class_as_its_rival():
    scenario = resolve(small_classes("target.distribution.side=source", "agents.count=20000"))
    wrong = Argmax(first=4, hypotheses=tuple(Linear(weights=(0.0,), threshold=float(-c)) for c in range(4)))
    law = ClassScores(shares=(0.1, 0.2, 0.3, 0.4), means=4 * ((0.0, 1.0, 2.0, 3.0),), root=4 * ((0.0,) * 4,))
    outcome = played(scenario, Replies(scenario, SimulatedAgents(scenario, 1), Learned(hypothesis=wrong, scores=law)))
    rival: Any = outcome.judged[1].hypothesis
    assert (outcome.judged[1].name, rival.always) == ("constant 1", 0)
    assert LabelNames(scenario).of("constant 1", rival.wire()) == "Saying class 1 to everybody"


def test_a_model_whose_numbers_become_too_large_while_it_is_taught_is_judged_as_it_is(monkeypatch):
    """A curator may release weights of 1e30, and no multiple of them can be sent."""
    scenario, moved, rounds = resolve(small_classes("agents.count=6000")), portfolio_classes.moved, iter(range(9))

    def too_large(model: Argmax, odds: Any) -> Argmax:
        if next(rounds) == 1:
            raise BadMessage("weights: 2e30 is too large")
        return moved(model, odds)

    monkeypatch.setattr(portfolio_classes, "moved", too_large)
    outcome = played(scenario, Replies(scenario, SimulatedAgents(scenario, 1)))
    assert outcome.judged[0].name == "model"
    assert outcome.judged[1].name.startswith("constant")
    assert outcome.calibrated is None


def test_every_class_is_asked_about_and_no_agent_twice():
    for count, both in ((2_000, 0), (6_000, 1)):
        scenario = resolve(small_classes(f"agents.count={count}"))
        played(scenario, replies := Replies(scenario, SimulatedAgents(scenario, 1)))
        asked = [step.query for step in replies.questions if isinstance(step.query, ClassResidualQuery)]
        assert [step.query.kind for step in replies.questions][:6] == 5 * ["loss"] + ["class-residual"]
        own: Any = replies.questions[4].query  # whether the model errs, after one question about each of four classes
        assert own.hypothesis.always is None
        assert [query.chosen for query in asked[:3]] == [(1, 3), (2, 3), (1, 2)]
        assert sum(not query.chosen for query in asked) == 3 * both
        assert sum(step.count for step in replies.questions) <= count


@for_each(
    ("change", "refused"),
    [
        ("curator.learner={name: discriminant, mu: plan}", "with the columns in which they stand"),
        ("curator.learner.classes.count=5", "the source people have 8"),
        ("agents.count=30", "30 agents are too few to tell of 4 classes"),
        ("agents.costs={miss: 2, false_alarm: 1}", "leave costs out"),
    ],
)
def test_what_has_no_classes_is_refused_before_anything_is_spent(change, refused):
    scenario = resolve(load("portfolio-classes", [*SMALL, change]))
    with pytest.raises(BadScenario, match=refused):
        played(scenario, lambda step: pytest.fail("a question was asked"))


PEOPLE = Records(
    np.array([[0.3, -1, 1, 0, 0], [2, 0.5, 0, 1, 0], [-1, 2, 0, 0, 1], [1, 1, 1, 1, 0], [0, 0, 0, 0, 0]], np.float32),
    np.ones(5, np.int8),
)
SCORED = Argmax(
    first=2,
    hypotheses=tuple(Linear(weights=(a, b), threshold=c) for a, b, c in ((1, 0, 0.5), (-0.5, 1, 0), (0, 0.3, 0.1))),
)


@for_each("how", [{"chosen": (1,)}, {"chosen": (0, 2)}, {}])
def test_a_residual_is_a_value_from_0_to_1_of_mean_one_half_where_the_probabilities_are_right(how):
    """Theorem; each class is taken as often as its probability says. Those of no class, or several, answer 1/2."""
    query = ClassResidualQuery(hypothesis=SCORED, **how)
    chances = SCORED.probabilities(PEOPLE.features)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    mean = np.zeros(5)
    for number in range(3):
        features = PEOPLE.features.copy()
        features[:, 2:] = np.eye(3)[number]
        values = query.evaluate(Records(features, PEOPLE.labels), np.arange(5))
        assert ((values >= 0.0) & (values <= 1.0)).all()
        mean += chances[:, number] * values
    np.testing.assert_allclose(mean, 0.5, atol=1e-6)
    assert query.evaluate(PEOPLE, np.arange(5))[3:].tolist() == [0.5, 0.5]


def test_scores_as_large_as_can_be_still_give_a_value_from_0_to_1():
    steep = Argmax(first=2, hypotheses=tuple(Linear(weights=(w, 1e30), threshold=-w) for w in (1e30, -1e30, 0.0)))
    for how in ({"chosen": (1,)}, {}):
        values = ClassResidualQuery(hypothesis=steep, **how).evaluate(PEOPLE, np.arange(5))
        assert ((values >= 0.0) & (values <= 1.0)).all()


@for_each(
    "wrong",
    [
        {"chosen": [3]},
        {"chosen": [1, 1]},
        {"chosen": [0, 1, 2]},
        {"chosen": [0], "hypothesis": {"kind": "linear", "weights": [1.0], "threshold": 0.0}},
    ],
)
def test_a_residual_names_some_of_the_classes_that_there_are_each_once(wrong):
    with pytest.raises(BadMessage):
        parse_query({"kind": "class-residual", "hypothesis": SCORED.wire(), **wrong})
