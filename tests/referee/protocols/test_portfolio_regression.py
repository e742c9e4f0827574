"""The portfolio of a regression: what is asked, what is taught and judged, and that an audit replays it."""

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage, BadScenario
from common.local.hypotheses.hypothesis import Regressor, parse_hypothesis
from common.local.queries.residuals import ResponseResidualQuery
from common.local.records import Records
from common.scenario.loading import load
from common.scenario.plan import resolve
from common.scenario.scenario import Scenario
from deploy.checking import checked
from deploy.simulation import SimulatedAgents
from tests.referee.protocols.test_portfolio import Replies, conducted, sample_of_target
from tests.referee.protocols.test_protocol_contract import played
from tests.support import Bench, audited
from tests.tiers import for_each

SMALL = ("curator.n=3000", "curator.epsilon=8", "agents.count=8000", "agents.mechanism.epsilon=3", "agents.deadline=5")


def small_regression(*changes: str) -> Scenario:
    return checked(load("portfolio-regression", [*SMALL, *changes]))


def target(scenario: Scenario) -> Records:
    return sample_of_target(scenario, 50_000)


def error(hypothesis: Any, people: Records) -> float:
    return float(np.mean((hypothesis.values(people.features) - hypothesis.responses(people)) ** 2))


def test_a_run_is_audited_and_what_was_taught_is_better_than_both_sides_alone(tmp_path):
    """The volunteers' line is too high and too flat for the population."""
    with Bench(tmp_path / "state", small_regression()) as bench:
        result = bench.run()
        assert result["status"] == audited(bench).status == "done"
    people = target(bench.chosen)
    true = [error(parse_hypothesis(judged["hypothesis"]), people) for judged in result["candidates"]]
    assert [judged["name"] for judged in result["candidates"]] == ["model, recalibrated", "model"]
    assert true[0] < min(0.6 * true[1], 0.5 * people.features[:, -1].var())
    for judged, mean in zip(result["candidates"], true, strict=True):
        assert judged["estimate"]["low"] - 0.02 <= mean / 0.25 <= judged["estimate"]["high"] + 0.02


def test_a_model_that_is_wrong_about_everybody_has_the_constant_as_its_rival():
    """Its slope has the wrong sign: agents tell that a constant is better, and that is judged."""
    scenario = resolve(small_regression())
    wrong = Regressor(weights=(-1.0, 0.5, 1.0), intercept=0.3, response=3, center=0.5, spread=0.4)
    replies = Replies(scenario, SimulatedAgents(scenario, 1), type("Released", (), {"hypothesis": wrong})())
    outcome = played(scenario, replies)
    assert outcome.judged[1].name == "constant"
    constant = outcome.judged[1].hypothesis.values(target(scenario).features)
    assert constant == pytest.approx(target(scenario).features[:, -1].mean(), abs=0.05)


def test_a_model_whose_weights_become_too_large_while_it_is_taught_is_judged_as_it_is(monkeypatch):
    """A curator may release weights of 1e30, and no multiple of them can be sent."""
    scenario, recalibrated, rounds = resolve(small_regression()), Regressor.recalibrated, iter(range(9))

    def too_large(model: Regressor, slope: float, intercept: float) -> Regressor:
        if next(rounds) == 1:
            raise BadMessage("weights: 2e30 is too large")
        return recalibrated(model, slope, intercept)

    monkeypatch.setattr(Regressor, "recalibrated", too_large)
    outcome = played(scenario, Replies(scenario, SimulatedAgents(scenario, 1)))
    assert [judged.name for judged in outcome.judged] == ["model", "constant"]


def test_the_constant_alone_is_the_rival_where_nobody_teaches():
    outcome = conducted(resolve(small_regression("portfolio.teach=0")))
    assert [judged.name for judged in outcome.judged] == ["model", "constant"]
    assert resolve(small_regression()).margins_mu == 0.0


def test_few_agents_tell_the_offset_and_many_the_slope_too():
    for count, kinds in ((2_000, 1), (5_000, 2)):
        scenario = resolve(small_regression(f"agents.count={count}"))
        played(scenario, replies := Replies(scenario, SimulatedAgents(scenario, 1)))
        asked = [step.query for step in replies.questions if isinstance(step.query, ResponseResidualQuery)]
        assert len(asked) == 1 + 3 * kinds
        assert {query.reach for query in asked[1:]} == {0.5}  # the root of the bound
        assert sum(step.count for step in replies.questions) <= count


@for_each(
    ("change", "refused"),
    [
        ("agents.loss=zero-one", "set agents.loss to squared"),
        ("curator.learner={name: discriminant, norm: 2.0, mu: plan}", "take a learner of that loss"),
        ("agents.count=3", "3 agents are too few"),
    ],
)
def test_what_predicts_no_number_is_refused_before_anything_is_spent(change, refused):
    zero = ("agents.bound=1",) if "zero-one" in change else ()
    scenario = resolve(load("portfolio-regression", [*SMALL, change, *zero]))
    with pytest.raises(BadScenario, match=refused):
        played(scenario, lambda step: pytest.fail("a question was asked"))


@for_each("spread", [None, 0.2])
def test_the_mean_residual_is_minus_half_the_derivative_of_the_squared_error(spread):
    """Theorem, in the offset and in the slope; with standardised predictions that the cut leaves as they are."""
    people = target(small_regression()).take(np.arange(4000))
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
