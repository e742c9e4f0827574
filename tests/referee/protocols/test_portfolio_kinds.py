"""The portfolio of several classes, and of a regression: what is asked, planned, taught and judged, and audited."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from common.core.errors import BadMessage, BadScenario
from common.local.hypotheses.composed import Argmax, column_classes
from common.local.hypotheses.hypothesis import Linear, Regressor, parse_hypothesis
from common.local.queries.query import parse_query
from common.local.queries.residuals import ClassResidualQuery, ResponseResidualQuery
from common.local.records import Records
from common.operations.operation import ClassScores, Learned
from common.protocols.portfolio import SURVEYED, Portfolio, Roles, enrolled
from common.scenario.loading import load
from common.scenario.plan import plan, resolve
from common.scenario.scenario import Scenario
from common.statistics import finalists
from deploy.checking import checked
from deploy.simulation import SimulatedAgents
from referee.protocols import portfolio_classes, portfolio_regression
from referee.protocols.teaching import PortfolioPlan
from referee.runs.verdict import LabelNames
from tests.referee.protocols.test_portfolio import Replies, conducted, sample_of_target
from tests.referee.protocols.test_protocol_contract import played
from tests.support import Bench, audited, small
from tests.tiers import for_each

CLASSES, REGRESSION = "portfolio-classes", "portfolio-regression"
SMALL = ("curator.n=3000", "curator.epsilon=8", "agents.count=8000", "agents.deadline=5")
OF_AGENTS = {CLASSES: "agents.mechanism.epsilon=4", REGRESSION: "agents.mechanism.epsilon=3"}


def small_of(protocol: str, *changes: str) -> Scenario:
    return checked(load(protocol, [*SMALL, OF_AGENTS[protocol], *changes]))


def run_of(protocol: str, tmp_path) -> tuple[dict[str, Any], Records]:
    """Run and audit; return the result, and people of the population."""
    with Bench(tmp_path / "state", small_of(protocol)) as bench:
        result = bench.run()
        assert result["status"] == audited(bench).status == "done"
    assert [judged["name"] for judged in result["candidates"]] == ["model, recalibrated", "model"]
    return result, sample_of_target(bench.chosen, 20_000 if protocol == CLASSES else 50_000)


@for_each(
    ("protocol", "change", "refused"),
    [
        (CLASSES, "curator.learner={name: discriminant, mu: plan}", "with the columns in which they stand"),
        (CLASSES, "curator.learner.classes.count=5", "the source people have 8"),
        (CLASSES, "agents.count=30", "30 agents are too few to tell of 4 classes"),
        (CLASSES, "agents.costs={miss: 2, false_alarm: 1}", "leave costs out"),
        (REGRESSION, "agents.loss=zero-one", "set agents.loss to squared"),
        (REGRESSION, "curator.learner={name: discriminant, norm: 2.0, mu: plan}", "take a learner of that loss"),
        (REGRESSION, "agents.count=3", "3 agents are too few"),
    ],
)
def test_what_has_no_classes_or_predicts_no_number_is_refused_before_anything_is_spent(protocol, change, refused):
    zero = ("agents.bound=1",) if "zero-one" in change else ()
    scenario = resolve(load(protocol, [*SMALL, OF_AGENTS[protocol], change, *zero]))
    with pytest.raises(BadScenario, match=refused):
        played(scenario, lambda step: pytest.fail("a question was asked"))


@for_each(
    ("protocol", "changes", "owner", "name"),
    [(CLASSES, ("agents.count=6000",), portfolio_classes, "moved"), (REGRESSION, (), Regressor, "recalibrated")],
)
def test_a_model_whose_numbers_become_too_large_while_it_is_taught_is_judged_as_it_is(
    protocol, changes, owner, name, monkeypatch
):
    """A curator may release weights of 1e30, and no multiple of them can be sent."""
    scenario, real, rounds = resolve(small_of(protocol, *changes)), getattr(owner, name), iter(range(9))

    def too_large(*given: Any) -> Any:
        if next(rounds) == 1:
            raise BadMessage("weights: 2e30 is too large")
        return real(*given)

    monkeypatch.setattr(owner, name, too_large)
    outcome = played(scenario, Replies(scenario, SimulatedAgents(scenario, 1)))
    assert [judged.name.partition(" ")[0] for judged in outcome.judged] == ["model", "constant"]
    assert outcome.calibrated is None


PLANS = {
    "portfolio": PortfolioPlan.of,
    "portfolio-classes": portfolio_classes._plan,
    "portfolio-regression": portfolio_regression._plan,
}


@for_each("protocol", PLANS)
def test_a_plan_counts_with_the_judges_that_a_run_has(protocol):
    for agents in (6_000, 30_000):
        scenario = small(protocol, f"agents.count={agents}")
        run = PLANS[protocol](resolve(scenario))
        judging = finalists.sure_width(run.mechanism, run.roles.judges, run.beta)
        assert plan(scenario).settings["gap"].value == judging


@for_each("protocol", PLANS)
def test_as_many_agents_are_planned_as_it_takes_for_so_many_judges(protocol):
    surveys = protocol == "portfolio"

    def judges(agents):
        roles = Roles.of(agents, Portfolio())
        return (roles if surveys else roles.unsurveyed).judges

    for needed in (500, 4_999, 5_000, 5_001, 6_999, 7_000, 7_001, 20_000):
        agents = enrolled(needed, Portfolio(), surveys=surveys)
        assert judges(agents) >= needed > judges(agents - 10)
    assert (enrolled(7_280, Portfolio(), surveys=surveys) > 25_000) == surveys
    assert enrolled(5_000, Portfolio(), surveys=surveys) == SURVEYED


# Several classes ------------------------------------------------------------------------------------------------------


def test_a_run_of_classes_is_audited_and_what_was_taught_is_better_than_both_sides_alone(tmp_path):
    """The volunteers have mostly the first class, and the population has each of four as often."""
    result, people = run_of(CLASSES, tmp_path)
    true = [parse_hypothesis(judged["hypothesis"]).mistakes(people).mean() for judged in result["candidates"]]
    assert true[0] < true[1] - 0.02
    for judged, mean in zip(result["candidates"], true, strict=True):
        assert judged["estimate"]["low"] - 0.01 <= mean <= judged["estimate"]["high"] + 0.01
    calibrated: Any = parse_hypothesis(result["calibrated"])
    own = column_classes(people.features, 4, 4)
    chances = calibrated.probabilities(people.features)
    assert -np.log(chances[np.arange(len(own)), own]).mean() < 0.45 < np.log(4.0)
    assert chances.mean(axis=0) == pytest.approx(np.full(4, 0.25), abs=0.08)


def test_a_model_that_is_wrong_about_everybody_has_the_constant_of_the_most_frequent_class_as_its_rival():
    scenario = resolve(small_of(CLASSES, "target.distribution.side=source", "agents.count=20000"))
    wrong = Argmax(first=4, hypotheses=tuple(Linear(weights=(0.0,), threshold=float(-c)) for c in range(4)))
    law = ClassScores(shares=(0.1, 0.2, 0.3, 0.4), means=4 * ((0.0, 1.0, 2.0, 3.0),), root=4 * ((0.0,) * 4,))
    outcome = played(scenario, Replies(scenario, SimulatedAgents(scenario, 1), Learned(hypothesis=wrong, scores=law)))
    rival: Any = outcome.judged[1].hypothesis
    assert (outcome.judged[1].name, rival.always) == ("constant 1", 0)
    assert LabelNames(scenario).of("constant 1", rival.wire()) == "Saying class 1 to everybody"


def test_every_class_is_asked_about_and_no_agent_twice():
    for count, both in ((2_000, 0), (6_000, 1)):
        scenario = resolve(small_of(CLASSES, f"agents.count={count}"))
        played(scenario, replies := Replies(scenario, SimulatedAgents(scenario, 1)))
        asked = [step.query for step in replies.questions if isinstance(step.query, ClassResidualQuery)]
        assert [step.query.kind for step in replies.questions][:6] == 5 * ["loss"] + ["class-residual"]
        own: Any = replies.questions[4].query  # whether the model errs, after one question about each of four classes
        assert own.hypothesis.always is None
        assert [query.chosen for query in asked[:3]] == [(1, 3), (2, 3), (1, 2)]
        assert sum(not query.chosen for query in asked) == 3 * both
        assert sum(step.count for step in replies.questions) <= count


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


# A number in the place of a label -------------------------------------------------------------------------------------


def error(hypothesis: Any, people: Records) -> float:
    return float(np.mean((hypothesis.values(people.features) - hypothesis.responses(people)) ** 2))


def test_a_run_of_a_regression_is_audited_and_what_was_taught_is_better_than_both_sides_alone(tmp_path):
    """The volunteers' line is too high and too flat for the population."""
    result, people = run_of(REGRESSION, tmp_path)
    true = [error(parse_hypothesis(judged["hypothesis"]), people) for judged in result["candidates"]]
    assert true[0] < min(0.6 * true[1], 0.5 * people.features[:, -1].var())
    for judged, mean in zip(result["candidates"], true, strict=True):
        assert judged["estimate"]["low"] - 0.02 <= mean / 0.25 <= judged["estimate"]["high"] + 0.02


def test_a_regression_that_is_wrong_about_everybody_has_the_constant_as_its_rival():
    """Its slope has the wrong sign: agents tell that a constant is better, and that is judged."""
    scenario = resolve(small_of(REGRESSION))
    wrong = Regressor(weights=(-1.0, 0.5, 1.0), intercept=0.3, response=3, center=0.5, spread=0.4)
    replies = Replies(scenario, SimulatedAgents(scenario, 1), type("Released", (), {"hypothesis": wrong})())
    outcome = played(scenario, replies)
    assert outcome.judged[1].name == "constant"
    constant = outcome.judged[1].hypothesis.values(sample_of_target(scenario, 50_000).features)
    assert constant == pytest.approx(sample_of_target(scenario, 50_000).features[:, -1].mean(), abs=0.05)


def test_the_constant_alone_is_the_rival_where_nobody_teaches():
    outcome = conducted(resolve(small_of(REGRESSION, "portfolio.teach=0")))
    assert [judged.name for judged in outcome.judged] == ["model", "constant"]
    assert resolve(small_of(REGRESSION)).margins_mu == 0.0


def test_few_agents_tell_the_offset_and_many_the_slope_too():
    for count, kinds in ((2_000, 1), (5_000, 2)):
        scenario = resolve(small_of(REGRESSION, f"agents.count={count}"))
        played(scenario, replies := Replies(scenario, SimulatedAgents(scenario, 1)))
        asked = [step.query for step in replies.questions if isinstance(step.query, ResponseResidualQuery)]
        assert len(asked) == 1 + 3 * kinds
        assert {query.reach for query in asked[1:]} == {0.5}  # the root of the bound
        assert sum(step.count for step in replies.questions) <= count


@for_each("spread", [None, 0.2])
def test_the_mean_residual_is_minus_half_the_derivative_of_the_squared_error(spread):
    """Theorem, in the offset and in the slope; with standardised predictions that the cut leaves as they are."""
    people = sample_of_target(small_of(REGRESSION), 50_000).take(np.arange(4000))
    model = Regressor(weights=(0.1, 0.15, -0.1), intercept=0.4, response=3)
    query = ResponseResidualQuery(hypothesis=model, center=0.475, spread=spread)
    mean = 2.0 * float(query.evaluate(people, np.zeros(len(people), dtype=np.int64)).mean()) - 1.0
    step = 1e-4
    ways = [(1.0, d) if spread is None else (1.0 + d / 0.2, -d * 0.475 / 0.2) for d in (-step, step)]
    before, after = (error(model.recalibrated(*way), people) for way in ways)
    assert mean == pytest.approx(-0.5 * (after - before) / (2.0 * step), abs=1e-4)


def test_residuals_beyond_the_reach_count_alike():
    query = ResponseResidualQuery(hypothesis=Regressor(weights=(0.0,), intercept=0.5, response=1), reach=0.25)
    records = Records(np.array([[0, 0.0], [0, 0.2], [0, 0.5], [0, 0.625], [0, 1.0]], np.float32), np.ones(5, np.int8))
    assert query.evaluate(records, np.arange(5)).tolist() == [0.0, 0.0, 0.5, 0.75, 1.0]


def test_few_agents_cannot_guarantee_half_a_point_against_the_better_constant():
    """The theorem of docs/portfolio.md: exactly, and by the majority of Warner bits, which attains it."""

    def contradicted(agents, gap):
        right = 0.5 + gap * math.tanh(0.5)  # of a Warner bit with epsilon = 1: true with probability e/(1 + e)
        assert right == pytest.approx((0.5 + gap) * math.e / (1 + math.e) + (0.5 - gap) / (1 + math.e))
        half = agents // 2
        return binom.cdf(half - 1, agents, right) + 0.5 * binom.pmf(half, agents, right)  # a tie decides by a coin

    def least(agents):
        return max(100 * 2 * gap * contradicted(agents, gap) for gap in np.linspace(0.002, 0.1, 197))

    assert least(2_000) == pytest.approx(0.82, abs=0.005)
    assert least(5_400) == pytest.approx(0.5, abs=0.001)
    generator, gap = np.random.default_rng(0), 0.018
    labels = generator.random((4_000, 2_000)) < 0.5 + gap
    reports = labels == (generator.random(labels.shape) < math.e / (1 + math.e))
    excess = 100 * 2 * gap * (1 - np.mean(reports.mean(axis=1) > 0.5) - 0.5 * np.mean(reports.mean(axis=1) == 0.5))
    assert excess == pytest.approx(least(2_000), abs=0.1)
