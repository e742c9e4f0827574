"""Costs of mistakes: a weighted loss is the mean cost of a person, and agents tell it as they tell any mean."""

import math

import numpy as np
import pytest

from common.core.errors import BadMessage, BadScenario
from common.local.hypotheses.hypothesis import Linear, parse_hypothesis
from common.local.hypotheses.rules import Constant
from common.local.losses import Costs, evaluate
from common.local.naming import UNNAMED
from common.local.queries.query import LossQuery
from common.local.records import Records
from deploy.baselines import evaluation_source, loss
from referee.audit.audit import audit
from referee.runs.verdict import verdict
from tests.support import Bench, leave_folder, tiny
from tests.tiers import for_each

FIRST = Linear(weights=(1.0,), threshold=0.0)
COSTS = [Costs(miss=24.0, false_alarm=1.0), Costs(miss=1.0, false_alarm=3.0), Costs(miss=2.0, false_alarm=2.0)]


def people(count: int, seed: int = 0) -> Records:
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, 1)).astype(np.float32)
    labels = np.where(generator.uniform(size=count) < 1.0 / (1.0 + np.exp(-4.0 * features[:, 0] + 2.0)), 1, -1)
    return Records(features, labels.astype(np.int8))


@for_each("costs", COSTS)
def test_a_weighted_loss_is_the_mean_cost_of_a_person_in_units_of_the_heavier(costs):
    records = people(5000)
    for hypothesis in (FIRST, Constant(label=1), Constant(label=-1)):
        values = evaluate("zero-one", hypothesis, records, costs=costs)
        assert values.min() >= 0.0
        assert values.max() <= 1.0
        positive = hypothesis.predict(records.features) > 0
        misses = np.count_nonzero(~positive & (records.labels > 0))
        alarms = np.count_nonzero(positive & (records.labels < 0))
        expected = (misses * costs.miss + alarms * costs.false_alarm) / len(records)
        assert costs.heaviest * values.mean() == pytest.approx(expected, rel=1e-12)
        asked = LossQuery(hypothesis=hypothesis, costs=costs).evaluate(records, np.zeros(len(records), np.int64))
        np.testing.assert_array_equal(asked, values)
        if costs.miss == costs.false_alarm:
            np.testing.assert_array_equal(values, hypothesis.mistakes(records))


def test_a_cost_is_a_number_and_no_boolean():
    assert Costs.parse({"miss": 1, "false_alarm": "2.5"}) == Costs(miss=1.0, false_alarm=2.5)
    for boolean in (True, False, np.True_):
        with pytest.raises(BadMessage, match="miss: must be a number, found"):
            Costs.parse({"miss": boolean, "false_alarm": 1.0})
    with pytest.raises(BadScenario, match=r"agents\.costs\.false_alarm: must be a number, found True"):
        tiny("agents.costs={miss: 2, false_alarm: true}")


@for_each(("costs", "odds"), [((1.0, 3.0), "0x1.193ea7aad030ap+0"), ((100.0, 1.0), "-0x1.26bb1bbb55516p+2")])
def test_the_odds_of_costs_are_the_same_on_every_machine(costs, odds):
    """C libraries end these logarithms in another bit, and questions that an audit asks again have them in them."""
    assert Costs(miss=costs[0], false_alarm=costs[1]).odds.hex() == odds


@for_each("costs", COSTS)
def test_no_other_cut_of_the_true_odds_costs_less(costs):
    """The people's log odds are 4 x - 2: with 200,000 of them no cut beside the one for the costs is cheaper."""
    records = people(200_000, seed=1)
    odds = Linear(weights=(4.0,), threshold=2.0 + costs.odds)
    best = evaluate("zero-one", odds, records, costs=costs)
    for apart in (-2.0, -1.0, 1.0, 2.0):
        moved = odds.model_copy(update={"threshold": odds.threshold + apart})
        gains = evaluate("zero-one", moved, records, costs=costs) - best
        assert gains.mean() > 4.0 * gains.std() / math.sqrt(len(gains))


def test_a_person_is_told_what_the_value_would_be():
    said = LossQuery(hypothesis=FIRST, costs=COSTS[0]).asks(UNNAMED, 0)
    assert "is wrong about you: then the value is 1 if the label of your record is +1 or 0.0416667 if" in said


@for_each("loss", ["hinge", "logistic", "squared"])
def test_costs_are_of_mistakes(loss):
    with pytest.raises(BadMessage, match="costs are of mistakes"):
        LossQuery.parse({"kind": "loss", "hypothesis": FIRST, "loss": loss, "costs": COSTS[0]})
    with pytest.raises(BadScenario, match="costs are of mistakes"):
        tiny("protocol=learn-and-test", f"agents.loss={loss}", "agents.costs={miss: 2, false_alarm: 1}")


@for_each(
    "costs",
    ["{miss: 0, false_alarm: 1}", "{miss: 1, false_alarm: .inf}", "{miss: -1, false_alarm: 1}", "{miss: 1}", "3"],
)
def test_costs_that_are_none_are_refused_with_their_name(costs):
    with pytest.raises(BadScenario, match=r"agents\.costs"):
        tiny("protocol=learn-and-test", f"agents.costs={costs}")


def test_costs_are_for_protocols_that_learn_one_model_for_the_population():
    with pytest.raises(BadScenario, match=r"agents\.costs: costs are for protocols that learn one model"):
        tiny("agents.costs={miss: 2, false_alarm: 1}")


@pytest.mark.slow
def test_agents_tell_what_mistakes_cost(tmp_path):
    """The interval of the result holds what the answer costs the population, and its audit passes."""
    chosen = tiny("protocol=learn-and-test", "agents.count=20000", "curator.rounds=1", "agents.mechanism.epsilon=3",
                  "agents.costs={miss: 5, false_alarm: 2}")  # fmt: skip
    with Bench(tmp_path / "state", chosen) as bench:
        result = bench.run()
        folder = leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished())
    assert audit(folder).status == result["status"]
    found, costs = result["estimate"], Costs(miss=5.0, false_alarm=2.0)
    answer = parse_hypothesis(result["answer"])
    true = loss(answer, evaluation_source(chosen, 3), costs=costs)
    assert found["low"] < true < found["high"] < found["low"] + 0.08
    assert result["costs"] == costs.wire()
    title = verdict(chosen, result).sentences[0]
    assert title.startswith(f"The model costs {500.0 * found['value']:.4g}"[:19])
    assert "a hundred people, where a miss costs 5, a false alarm 2" in title
