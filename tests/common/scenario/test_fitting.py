"""Settings that fit the size: what is told apart is told apart, and who cannot help is named beforehand."""

import math

import numpy as np
import pytest

from common.local.mechanisms.mechanism import Laplace, Warner
from common.protocols.portfolio import Portfolio, candidates
from common.scenario.fitting import (
    IGNORANT,
    Advice,
    Sizes,
    advice,
    advice_of,
    advise,
    diameter,
    likely,
    points,
    private_excess,
)
from common.scenario.loading import altered, load
from common.scenario.scenario import Scenario
from common.statistics.race import detectable_gap
from referee.protocols.base import PROTOCOLS
from tests.tiers import for_each

WARNER = Warner(epsilon=1.0)


def sizes(n: int = 20_000, agents: int = 20_000, **changes: object) -> Sizes:
    given = {"dimension": 8, "epsilon": 1.0, "delta": 1e-6, "mechanism": WARNER, "beta": 0.05}
    return Sizes(n=n, agents=agents, **{**given, **changes})


def shifted(*changes: str) -> Scenario:
    return load("portfolio", ["curator.learner.noise=5", *changes])


@for_each("epsilon", [0.5, 1.0, 3.0])
def test_the_better_of_two_candidates_that_differ_as_is_told_has_the_smaller_estimate_in_95_of_100_runs(epsilon):
    """Among three candidates there are two questions, each answered by half of the agents."""
    mechanism, agents, runs = Warner(epsilon=epsilon), 5_000, 4_000
    gap = likely(mechanism, agents, 3)
    source, each = np.random.default_rng(3), agents // 2

    def estimates(loss: float) -> np.ndarray:
        ones = source.binomial(each, (1.0 - mechanism.truth) + (2.0 * mechanism.truth - 1.0) * loss, size=runs)
        return (ones / each - (1.0 - mechanism.truth)) / (2.0 * mechanism.truth - 1.0)

    def right(difference: float) -> float:
        return float(np.mean(estimates(0.5 - difference / 2.0) < estimates(0.5 + difference / 2.0)))

    assert right(gap) == pytest.approx(0.95, abs=0.015)
    assert right(gap / 3.0) == pytest.approx(0.71, abs=0.03)  # in 70 of 100 runs


def test_617_people_tell_15_points_apart_and_not_5():
    found = advise(sizes(600, 617))
    assert (found.protocol, found.repair, found.rounds) == ("portfolio", 0.0, 1)
    assert found.candidates == ("constant -1", "constant +1", "model")
    assert found.sentences[0].startswith("617 agents tell 15 points of loss apart, not 5 points")
    assert "sure" not in found.sentences[0]
    assert found.sentences[0].endswith("points at most if all of them answer, and holds with 95% confidence")
    assert found.sure == detectable_gap(WARNER, 617 - 617 // 8, 3, 0.05, 1 / 7)  # an eighth tells labels
    assert found.warnings == ()


def test_a_recalibration_and_a_second_model_compete_only_where_those_who_judge_tell_them_apart():
    many, few = advise(sizes(agents=20_000)), advise(sizes(agents=2_000))
    assert (many.protocol, many.repair, many.rounds) == ("portfolio", 0.4, 1)
    assert "model, recalibrated" in many.candidates
    assert (few.protocol, few.repair) == ("portfolio", 0.0)
    assert likely(WARNER, 1_200, 4) > 0.1 >= likely(WARNER, 12_000, 4)
    assert advise(sizes(agents=2_000, mechanism=Warner(epsilon=4.0))).repair == 0.4
    most = advise(sizes(agents=600_000))
    assert (most.protocol, most.rounds, len(most.candidates)) == ("portfolio", 2, candidates(2, Portfolio()))
    assert most.likely == likely(WARNER, 360_000, 6)
    assert advise(sizes(agents=600_000, reach=60.0)).rounds == 1  # 2 * .027 of loss
    assert advise(sizes(agents=100_000)).rounds == 1


def test_who_can_only_guess_and_whose_model_is_noise_is_told_so():
    guessing, numbers = advise(sizes(agents=100)), advise(sizes(mechanism=Laplace(epsilon=1.0)))
    assert (guessing.protocol, guessing.candidates) == ("learn-and-test", ("model",))
    (warning,) = guessing.warnings
    assert "100 agents cannot tell less than 36 points of loss apart, so they judge nothing" in warning
    assert advise(sizes(agents=0)).sure == 1.0
    assert "take warner" in numbers.warnings[0]
    noisy = advise(sizes(n=100, reach=30.0))
    assert noisy.noise > IGNORANT
    assert noisy.protocol == "portfolio"
    assert "with 0.019 of the learner's diameter it would be 0.05" in noisy.sentences[1]
    (warning,) = noisy.warnings
    assert "the model of 100 people with epsilon = 1 may be noise alone" in warning
    assert "diameter" in warning
    assert "diameter" not in advise(sizes(n=10)).warnings[0] + advise(sizes()).sentences[1]
    assert advise(sizes(n=100, reach=30.0, epsilon=None, delta=None)).warnings == ()


def test_the_order_of_what_noise_costs_is_that_of_the_source():
    """Linear in 1/(n epsilon) and in the reach, d where no delta is spent, sqrt(d ln(1/delta)) where that is less."""
    pure, approximate = private_excess(sizes(delta=0.0)), private_excess(sizes(dimension=999))
    assert pure == pytest.approx(9.0 / 20_000)
    assert approximate == pytest.approx(math.sqrt(1_000 * math.log(1e6)) / 20_000)
    assert private_excess(sizes(40_000, reach=2.0)) == pytest.approx(private_excess(sizes()))
    assert private_excess(sizes(dimension=8)) <= pure


def test_the_ball_is_as_wide_as_noise_allows():
    wide, middle, narrow = (diameter(n, 1.0, 1e-6, 24) for n in (20_000, 4_000, 100))
    assert (wide, narrow) == (60.0, 2.0)
    assert private_excess(sizes(4_000, dimension=24, reach=middle / 2.0)) == pytest.approx(0.05)
    assert diameter(4_000, 2.0, 1e-6, 24) == pytest.approx(2.0 * middle)
    for wrong in ((4_000, -1.0, 1e-6), (4_000, 0.0, 1e-6), (4_000, 1.0, -0.1), (0, 1.0, 1e-6)):
        assert diameter(*wrong, 24) == 2.0  # refused later, where the scenario is read


@for_each("changes", [[], ["agents.count=617"], ["curator.n=500"]])
def test_nothing_of_a_scenario_but_its_numbers_decides(changes):
    """Scenarios with other people and the same numbers get the same advice: no record is read."""
    one, other = shifted(*changes), shifted(*changes, "target.distribution.inside=0.9")
    assert advice_of(one) == advice_of(other)
    assert isinstance(advice_of(one), Advice)
    assert advice(shifted("agents.dropout=0.5"), 20_000, 1_234) == advice(shifted(), 20_000, 617)
    assert advice_of(shifted("agents.count=plan")) is None
    assert advice(shifted("agents.count=plan"), 20_000, 617) is not None


@for_each("protocol", PROTOCOLS.shipped())
def test_only_models_that_agents_could_judge_get_advice(protocol):
    scenario = PROTOCOLS[protocol].example()[0]
    judged = protocol in ("subsample-test-reweigh", "learn-and-test", "portfolio")
    assert (advice(scenario, 1_000, 1_000) is not None) == judged
    if judged:
        assert advice(altered(scenario, ("agents.loss=hinge",)), 1_000, 1_000) is None


@for_each(("share", "words"), [(0.1434, "15 points"), (0.15, "15 points"), (0.00723, "0.73 points")])
def test_points_are_rounded_to_the_side_that_promises_less(share, words):
    assert points(share) == words
