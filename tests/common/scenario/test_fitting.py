"""What so many people can give, and what a verdict can say, by their numbers alone and before anything is spent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from common.local.losses import Costs
from common.local.mechanisms.mechanism import Laplace, Warner
from common.protocols.portfolio import Portfolio, Roles
from common.scenario import fitting
from common.scenario.accepting import violations
from common.scenario.forecasting import (
    OFTEN,
    answers_within,
    detectable,
    detectable_beside_a_constant,
    forecast,
    gap_text,
    half_width,
    loss_text,
    points,
    worst_constant,
)
from common.scenario.loading import altered, load
from common.scenario.plan import plan
from common.scenario.scenario import Scenario
from common.statistics.finalists import OF_CONSTANTS, BinomialCount, Difference, ToConstant
from referee.protocols.base import PROTOCOLS
from tests.common.scenario.test_plan import FREE, make
from tests.tiers import for_each

WARNER = Warner(epsilon=1.0)


def sizes(n: int = 20_000, agents: int = 20_000, **changes: object) -> fitting.Sizes:
    given = {"dimension": 8, "epsilon": 1.0, "delta": 1e-6, "mechanism": WARNER, "beta": 0.05}
    return fitting.Sizes(n=n, agents=agents, **{**given, **changes})


def portfolio_of(*changes: str) -> Scenario:
    return load("portfolio", ["curator.learner.noise=5", *changes])


def test_what_agents_teach_and_decide_is_said_beforehand():
    few, many = fitting.advise(sizes(600, 617)), fitting.advise(sizes(agents=10_000))
    assert few.sentences[1] == (
        "462 of 617 agents teach: they tell the mean error of the model's probabilities to within 11 points (one "
        "standard deviation). 155 judge the answer and the best that either side has alone"
    )
    assert few.sentences[0] == gap_text(WARNER, Roles.of(617, Portfolio()), 0.05)
    assert (few.protocol, few.warnings) == ("portfolio", ())
    assert (round(many.sure, 3), round(many.likely, 3)) == (0.086, 0.03)
    assert fitting.advise(sizes(agents=2_500)).sure < 0.18
    assert fitting.accuracy(many) == 0.131
    assert 0.2 < fitting.accuracy(fitting.advise(sizes(agents=100, classes=3))) < 0.23


def test_probabilities_that_may_tell_no_more_than_a_share_are_said_beforehand():
    """A score of few people is mostly noise; what it tells of probabilities is less than few agents tell their mean."""
    for n, agents, vague in ((100, 334, True), (100, 10_000, False), (1_000, 334, False)):
        found = fitting.advise(sizes(n=n, agents=agents))
        assert (found.probabilities is not None) == vague
        assert (found.probabilities in found.sentences) == vague
    found = fitting.advise(sizes(n=100, agents=334))
    assert found.probabilities is not None
    assert found.probabilities.startswith("The model's probabilities may tell no more than the share of the label: by")
    assert f"and 334 agents tell their mean to within {points(found.taught)}" in found.probabilities
    assert fitting.advise(sizes(n=100, agents=334, epsilon=None, delta=None)).probabilities is None
    assert fitting.advise(sizes(n=100, agents=1_000, classes=3)).probabilities is None
    assert fitting.informative(10**9, 1.0, 1e-6, 8) == pytest.approx(1.6 / 6.0, rel=1e-3)


def test_who_can_only_guess_and_whose_model_is_noise_is_told_so():
    guessing, numbers = fitting.advise(sizes(agents=100)), fitting.advise(sizes(mechanism=Laplace(epsilon=1.0)))
    assert guessing.protocol == "portfolio"
    (warning,) = guessing.warnings
    assert "100 agents cannot tell less than 39 points of loss apart: they teach the model, and hardly show" in warning
    for several in (fitting.advise(sizes(agents=100, classes=3)), fitting.advise(sizes(agents=5))):
        assert (several.protocol, several.taught) == ("learn-and-test", None)
        assert "so they judge nothing: the curator's model will be the answer" in several.warnings[0]
    (warning,) = fitting.advise(sizes(agents=1)).warnings
    assert "1 agent cannot tell less than 100 points of loss apart, so it judges nothing: the" in warning
    assert fitting.advise(sizes(agents=0)).sure == 0.5
    assert "take warner" in numbers.warnings[0]
    noisy = fitting.advise(sizes(n=100, reach=30.0))
    assert noisy.noise > fitting.IGNORANT
    assert noisy.protocol == "portfolio"
    assert "with 0.019 of the learner's diameter it would be 0.05" in noisy.sentences[2]
    (warning,) = noisy.warnings
    assert "the model of 100 people with epsilon = 1 may be noise alone" in warning
    assert "diameter" in warning
    assert "diameter" not in fitting.advise(sizes(n=10)).warnings[0] + fitting.advise(sizes()).sentences[2]
    assert fitting.advise(sizes(n=100, reach=30.0, epsilon=None, delta=None)).warnings == ()


def test_the_order_of_what_noise_costs_is_that_of_the_source():
    """Linear in 1/(n epsilon) and in the reach, d where no delta is spent, sqrt(d ln(1/delta)) where that is less."""
    pure, approximate = fitting.private_excess(20_000, 1.0, 0.0, 8), fitting.private_excess(20_000, 1.0, 1e-6, 999)
    assert pure == pytest.approx(9.0 / 20_000)
    assert approximate == pytest.approx(math.sqrt(1_000 * math.log(1e6)) / 20_000)
    usual, twice = fitting.private_excess(20_000, 1.0, 1e-6, 8), fitting.private_excess(40_000, 1.0, 1e-6, 8, 2.0)
    assert twice == pytest.approx(usual)
    assert usual <= pure


def test_the_ball_is_as_wide_as_noise_allows():
    wide, middle, narrow = (fitting.diameter(n, 1.0, 1e-6, 24) for n in (20_000, 4_000, 100))
    assert (wide, narrow) == (60.0, 2.0)
    assert fitting.private_excess(4_000, 1.0, 1e-6, 24, middle / 2.0) == pytest.approx(0.05)
    assert fitting.diameter(4_000, 2.0, 1e-6, 24) == pytest.approx(2.0 * middle)
    assert fitting.diameter(4_000, 1e308, 1e-6, 24) == 60.0  # n epsilon is no double
    for wrong in ((4_000, -1.0, 1e-6), (4_000, 0.0, 1e-6), (4_000, 1.0, -0.1), (0, 1.0, 1e-6)):
        assert fitting.diameter(*wrong, 24) == 2.0  # refused later, where the scenario is read


@for_each("changes", [[], ["agents.count=617"], ["curator.n=500"]])
def test_nothing_of_a_scenario_but_its_numbers_decides(changes):
    """Scenarios with other people and the same numbers get the same advice: no record is read."""
    one, other = portfolio_of(*changes), portfolio_of(*changes, "target.distribution.inside=0.9")
    assert fitting.advice_of(one) == fitting.advice_of(other)
    assert isinstance(fitting.advice_of(one), fitting.Advice)
    half = fitting.advice(portfolio_of("agents.dropout=0.5"), 20_000, 1_234)
    assert half == fitting.advice(portfolio_of(), 20_000, 617)
    assert fitting.advice_of(portfolio_of("agents.count=plan")) is None
    assert fitting.advice(portfolio_of("agents.count=plan"), 20_000, 617) is not None


@for_each("protocol", PROTOCOLS.shipped())
def test_only_models_that_agents_could_judge_get_advice(protocol):
    scenario = PROTOCOLS[protocol].example()[0]
    judged = protocol in ("subsample-test-reweigh", "learn-and-test", "portfolio", "portfolio-classes")
    found = fitting.advice(scenario, 1_000, 1_000)
    assert (found is not None) == judged
    if found is not None:
        classes = protocol == "portfolio-classes"
        assert f"What fits: protocol portfolio{'-classes' if classes else ''}:" in found.sentences[-1]
        assert ("which of 3 classes is theirs" in found.sentences[1]) == classes
        assert fitting.advice(altered(scenario, ("agents.loss=hinge",)), 1_000, 1_000) is None


def wrong_answers(generator: np.random.Generator, agents: int, loss: float) -> Any:
    """Draw how many of so many agents answer that a model with a loss errs, in each of 2,000 runs."""
    return generator.binomial(agents, (1 - WARNER.truth) + (2 * WARNER.truth - 1) * loss, 2_000)


@for_each("agents", [600, 10_000])
def test_a_forecast_verdict_is_given_as_often_as_it_is_forecast(agents):
    """Runs drawn anew: the model errs on 30% or less, its rival on so much more as is forecast to be told."""
    judges, generator = agents // 4, np.random.default_rng(agents)
    for miss in (0.5 * 0.05, 0.05):
        better = detectable(WARNER, judges, miss)
        losses = max(0.0, 0.3 - better), max(0.0, 0.3 - better) + better
        ones = [wrong_answers(generator, judges // 2, loss) for loss in losses]
        shown = [
            Difference(WARNER, BinomialCount(int(a) + judges // 2 - int(b), judges // 2 * 2)).high(miss) < 0.0
            for a, b in zip(*ones, strict=True)
        ]
        assert OFTEN - 0.05 < np.mean(shown) < OFTEN + 0.15


def test_what_is_forecast_beside_a_constant_is_shown_as_often_as_that():
    """Runs drawn anew of 20,000 agents, of whom 2,500 judge the answer and 652 told their label."""
    judges, tellers = Roles.of(20_000, Portfolio()).of_constants()
    assert (judges, tellers) == (2_500, 652)
    better = detectable_beside_a_constant(WARNER, Roles.of(20_000, Portfolio()), 0.05, 0)
    generator = np.random.default_rng(5)
    ones = [wrong_answers(generator, count, loss) for count, loss in ((judges, 0.35 - better), (tellers, 0.35))]
    shown = [
        ToConstant(WARNER, BinomialCount(int(a), judges), BinomialCount(int(b), tellers)).high(
            0.025 * OF_CONSTANTS["constant"]
        )
        < 0.0
        for a, b in zip(*ones, strict=True)
    ]
    assert OFTEN - 0.05 < np.mean(shown) < OFTEN + 0.15
    of_three = Roles.of(20_000, Portfolio()).of_classes
    assert of_three.of_constants(3) == (3_500, of_three.labels // 3)
    told = gap_text(WARNER, of_three, 0.05, 3)
    assert "'better than saying the same to everybody' is shown from 20 points on, too" in told


@for_each(
    ("agents", "classes", "costs", "says"),
    [
        (370, 0, None, "perhaps that it cannot be told, even of a model without mistakes: 'probably' takes 58 points"),
        (600, 0, None, "at best 'probably', where the model errs on 46 points less"),
        (600, 0, None, "'yes' takes 51 points, and saying the better constant to everybody errs on 50 points at most"),
        (370, 3, None, "'yes' where the model errs on 65 points less"),
        (200, 3, None, "to everybody errs on 67 points at most"),
        (16_000, 0, Costs(miss=10.0, false_alarm=1.0), "the better constant to everybody costs 91 a hundred"),
        (50_000, 0, None, "'yes' where the model errs on 6 points less"),
    ],
)
def test_no_verdict_is_forecast_of_a_difference_that_no_model_can_have(agents, classes, costs, says):
    roles = Roles.of(agents, Portfolio())
    assert says in gap_text(WARNER, roles.of_classes if classes else roles, 0.05, classes, costs)
    of_positives = np.linspace(0.0, 1.0, 2001)  # with each share of one label the better of both constants
    miss, false_alarm = (1.0, 1.0) if costs is None else costs.weights
    worst = np.minimum(of_positives * miss, (1.0 - of_positives) * false_alarm).max()
    assert worst_constant(0, costs) == pytest.approx(worst, abs=1e-3)


def test_as_many_answers_are_planned_as_one_look_takes():
    for mechanism, error in ((WARNER, 0.1), (WARNER, 0.02), (Laplace(epsilon=1.0), 0.1)):
        needed = answers_within(mechanism, error, 0.05)
        assert half_width(mechanism, needed, 0.05) <= error < half_width(mechanism, needed - 1, 0.05)
    learnt = make(protocol="learn-and-test", alpha=0.1, curator__rounds=1, curator__n=2_000, agents__count=469, **FREE)
    assert plan(learnt).answers.value == answers_within(WARNER, 0.1, 0.05) == 469
    assert not [broken for broken in violations(learnt) if broken.startswith("agents")]


def test_what_a_verdict_can_say_is_forecast_for_each_protocol_and_for_the_agents_who_answer():
    beta = portfolio_of().beta
    judging = forecast(portfolio_of("agents.dropout=0.5"), 20_000)
    mechanism = Warner(epsilon=portfolio_of().agents.mechanism.guarantee[0])
    assert judging == gap_text(mechanism, Roles.of(10_000, Portfolio()), beta)
    for changes, agents, words in (
        (["protocol=learn-and-test"], 469, "to within 10 points, with 95% confidence; nothing is asked about saying"),
        (["mode=agnostic", "curator.rounds=3"], 3 * 469, "to within 13 points, with 95% confidence"),
        (["mode=realizable"], 469, "that the model errs on less than 32% of the population, if the agents' tests"),
    ):
        sets = ["curator.n=2000", "agents.mechanism.epsilon=1", *changes]
        assert words in forecast(load("ball", ["beta=0.05", "alpha=0.08", "accuracy.halt_below=4", *sets]), agents)
    assert forecast(load("ball", ["agents.loss=hinge"]), 469) is None
    assert forecast(load("select-then-estimate"), 469) is None
    assert "to within 50 points" in loss_text(WARNER, 0, 0.05)


def test_people_who_may_be_too_different_to_help_are_named_beforehand():
    words = "people may be too different from the population: with divergence.chi_squared = 400, 2,000 of them count"
    near, far = (
        fitting.advice(make(divergence__chi_squared=chi).model_copy(update={"people": "real"}), 2_000, 10_000).warnings
        for chi in (100.0, 400.0)
    )
    assert near == fitting.advice(make(divergence__chi_squared=400.0), 2_000, 10_000).warnings == ()
    (warning,) = far
    assert words in warning
    assert "for about 5 of the population's, fewer than the 9 weights of a model" in warning
    once = make(divergence__chi_squared=400.0, protocol="learn-and-test", curator__rounds=1)
    assert fitting.advice(once, 2_000, 10_000).warnings == ()


@for_each(("share", "words"), [(0.1434, "15 points"), (0.15, "15 points"), (0.00723, "0.73 points"), (0.01, "1 point")])
def test_points_are_rounded_to_the_side_that_promises_less(share, words):
    assert points(share) == words


def test_a_forecast_about_mistakes_that_have_costs_is_in_what_a_hundred_people_cost():
    """A loss is a cost as a part of the heavier one: 10 points of it are 40 a hundred people where a miss costs 4."""
    costs = ["agents.costs={miss: 4, false_alarm: 1}"]
    told = forecast(portfolio_of(*costs), 16_000)
    sentence = forecast(portfolio_of(*costs, "protocol=learn-and-test"), 469)
    yes, probably = (
        math.ceil(400.0 * detectable(WARNER, Roles.of(16_000, Portfolio()).judges, miss)) for miss in (0.025, 0.05)
    )
    assert f"costs {yes} a hundred people less (a miss costs 4, a false alarm 1) than the best" in told
    assert f"'probably' from {probably} a hundred people on" in told
    assert "what the model costs (a miss costs 4, a false alarm 1), to within 40 a hundred people, with 95%" in sentence
    assert "of less than" in told
    assert "mostly that it cannot be told. Where that best" in told
    assert sentence.endswith("so whether the model is better cannot be told")
    assert "point" not in told + sentence
    assert "errs" not in told + sentence
    few = fitting.advice(portfolio_of(*costs), 20_000, 100)
    assert "100 agents cannot tell less than a cost of 153 a hundred people apart" in few.warnings[0]
