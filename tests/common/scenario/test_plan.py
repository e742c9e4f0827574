"""Plans: known answers, nothing left open, every broken bound is named; and settings that fit the size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.learners.base import Calls
from common.learners.half_spaces import MIN_NOISE
from common.local.losses import Costs
from common.local.mechanisms.mechanism import Laplace, Warner
from common.privacy.budget import PRECISION, cost, sampling_schedule
from common.privacy.events import Release
from common.protocols.portfolio import Portfolio, Roles
from common.scenario import fitting
from common.scenario import scenario as scenarios
from common.scenario.accepting import accepted, violations
from common.scenario.forecasting import (
    OFTEN,
    answers_within,
    detectable,
    detectable_beside_a_constant,
    forecast,
    half_width,
    of_judges,
    of_one,
    points,
    worst_constant,
)
from common.scenario.loading import altered, load
from common.scenario.plan import plan, resolve, rows
from common.scenario.scenario import Scenario
from common.statistics.finalists import OF_CONSTANTS, Difference, Ones, ToConstant, judges_needed
from curator.curator import planned_events
from curator.learners.base import parse_learner
from referee.protocols.base import PROTOCOLS
from tests.tiers import for_each

SLOW, THOROUGH = pytest.mark.slow, pytest.mark.thorough
BALL = {"name": "gaussian-ball", "d": 8, "close": 2, "sigma_source": 0.1, "sigma_target": 0.07, "inside": 0.4}
SGD = {"name": "sgd", "steps": 5_000, "clip": 0.1, "noise": "plan", "diameter": 1.0}
FREE = {"curator__epsilon": None, "curator__delta": None}
"""Without a budget, where none matters: the people whose calls keep to one take seconds to find."""


def make(**changes: Any) -> Scenario:
    """A small private scenario; dotted keys are written with two underscores."""
    tree: dict[str, Any] = {
        "name": "small",
        "title": "Small",
        "alpha": 0.08,
        "divergence": {"chi_squared": 1.3515339910798754},
        "vc_dimension": 9,
        "source": {"distribution": {**BALL, "side": "source"}},
        "target": {"distribution": {**BALL, "side": "target"}},
        "curator": {"epsilon": 0.5, "delta": 1e-4, "learner": dict(SGD)},
        "agents": {"mechanism": {"name": "warner", "epsilon": 1.0}},
    }
    for key, value in changes.items():
        *parents, last = key.split("__")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return scenarios.parse(tree)


EXPONENTIAL = {"name": "exponential", "hypotheses": "stumps", "draws": "plan", "epsilon": "plan"}


def test_known_answers() -> None:
    paper, tight = (plan(make(), bounds) for bounds in ("paper", "tight"))
    assert (paper.rounds.value, paper.eta.value) == (141_570, 0.01)
    assert tight.eta.value == pytest.approx(0.12)
    assert tight.kappa.value == pytest.approx(0.0574177, rel=1e-4)
    found = {row.name: row for row in rows(paper.numbers, tight.numbers)}
    names = ["rounds", "kappa", "eta", "sample", "n", "steps", "noise", "alone", "answers", "answers_clear", "agents"]
    assert list(found) == names
    assert found["rounds"].tight == 265
    assert "Algorithm 2" in found["rounds"].paper_source
    assert "corrections" in found["rounds"].tight_source


@pytest.mark.slow
def test_appendix_d() -> None:
    appendix = make(
        curator__rounds=1000,
        curator__kappa=0.08 / (4 * 1.35),
        curator__learner={**SGD, "steps": 50_000_000, "noise": 20**0.5},
        agents__mechanism={"name": "gaussian", "epsilon": 1.0, "delta": 1e-4},
    )
    paper, tight = plan(appendix, "paper"), plan(appendix, "tight")
    assert paper.n.value == 324_814_045
    assert paper.answers.value == 74_171
    # The accountant alone needs 4.19e7 (docs/people.md); early rounds, which cost less, save a little more.
    assert 4.1e7 < tight.n.value <= 4.19e7
    assert (paper.rounds.value, paper.rounds.rule) == (1000, 141_570)
    assert paper.rounds.formula.startswith("given; 128 log_2")


@for_each("bounds", ["paper", "tight"])
@for_each(
    "changes",
    [
        pytest.param({}, marks=THOROUGH),
        pytest.param({"curator__learner": {**SGD, "steps": "plan"}}, marks=SLOW),
        pytest.param({"curator__n": 3_000_000, "curator__rounds": 20}, marks=THOROUGH),
        pytest.param(
            {"hypotheses": 1000, "curator__learner": EXPONENTIAL, "agents__dropout": 0.2}, marks=SLOW
        ),
        {**FREE, "curator__kappa": None},
        pytest.param({"mode": "agnostic", "curator__rounds": 12}, marks=SLOW),
        pytest.param({"agents__test": "fixed", "agents__mechanism": {"name": "none"}}, marks=THOROUGH),
        pytest.param({"divergence__supremum": 2.04, "vc_dimension": None}, marks=SLOW),
        {"divergence__moments": [{"order": 4, "bound": 3.36}]},
    ],
    ids=str,
)  # fmt: skip
def test_nothing_is_left_open_and_the_privacy_holds(bounds: str, changes: dict[str, Any]) -> None:
    resolved = resolve(make(bounds=bounds, **changes))
    assert "'plan'" not in str(resolved.wire())
    assert resolve(resolved) is resolved
    curator = resolved.curator
    if bounds == "tight" and curator.epsilon is not None:
        asked = Calls(curator.n, curator.kappa, curator.eta, curator.rounds).spent(curator.settings, curator.delta)
        assert asked <= curator.epsilon
        assert not [text for text in violations(resolved) if text.startswith("privacy")]


@pytest.mark.thorough  # the search composes privacy losses of twenty kinds of events: over a minute
def test_what_is_given_is_kept() -> None:
    given = make(curator__n=3_000_000, curator__rounds=20, curator__eta=0.3, curator__kappa=0.05, agents__count=7)
    found = resolve(given)
    curator = found.curator
    settings: Any = curator.settings
    assert (curator.n, curator.rounds, curator.eta, curator.kappa) == (3_000_000, 20, 0.3, 0.05)
    assert found.agents.count == 7
    # The least noise: neither a 256th less fits, nor four or sixteen of them. In between some may: here privacy losses
    # are composed at the end of what a grid holds.
    assert settings.noise > MIN_NOISE
    for steps in (1, 4, 16):
        less = settings.model_copy(update={"noise": (1.0 - steps * PRECISION) * settings.noise})
        assert Calls(3_000_000, 0.05, 0.3, 20).spent(less, 1e-4) > 0.5


def test_the_papers_circle_of_sigma_steps_and_n_is_closed() -> None:
    circle = make(bounds="paper", curator__learner={**SGD, "steps": "plan"})
    found = plan(circle)
    again = plan(resolve(circle))
    assert again.n.rule == found.n.value
    assert found.settings["noise"].value >= 20**0.5


def sound(learner: dict[str, Any] | None = None, **changes: Any) -> Scenario:
    """Return a scenario that breaks no bound, but for what changes of it and of its learner's settings."""
    tree = {"alpha": 0.1, "hypotheses": 20, "vc_dimension": None, "divergence__supremum": 2.04}
    return make(**{**tree, "curator__learner": {**EXPONENTIAL, **(learner or {})}, **changes})


@for_each(
    ("changes", "said"),
    [
        ({"curator__n": 20}, "privacy: kappa n must be above 10"),
        ({"curator__n": 2_000, "learner": {"draws": 500}}, "privacy: "),
        ({**FREE, "curator__kappa": 0.6}, "accuracy: kappa = 0.6 is above"),
        ({**FREE, "curator__rounds": 3}, "accuracy: rounds = 3 is below"),
        ({"curator__kappa": None}, "privacy: kappa is null"),
        (
            {"curator__learner": {"name": "scikit", "classifier": "GaussianNB", "draws": 9}},
            "privacy: planning knows no guarantee of the learner 'scikit'",
        ),
        ({"accuracy": {"learner": 2.0}}, "accuracy: the gap"),
        (
            {**FREE, "accuracy": {"learner": 2.0}, "curator__rounds": 9, "curator__eta": 0.1},
            "accuracy: no number of rounds",
        ),
        ({**FREE, "alpha": 0.3}, "accuracy: a test needs 0 < low < high < 1"),
        ({**FREE, "bounds": "paper", "alpha": 0.2}, "accuracy: Theorem 4.3 assumes"),
        pytest.param(
            {"bounds": "paper", "agents__mechanism__epsilon": 4.0}, "accuracy: the paper's N0 needs", marks=SLOW
        ),
        pytest.param(
            {"bounds": "paper", "curator__epsilon": 2.0, "curator__learner": SGD},
            "privacy: Algorithm 4 is proven",
            marks=SLOW,
        ),
        ({**FREE, "curator__learner": {**SGD, "noise": 4.0, "steps": 10}}, "accuracy: steps = 10 is below"),
        ({"hypotheses": None, "learner": {"draws": 5, "epsilon": 1.0}}, "accuracy: draws = 5 cannot be"),
    ],
    ids=str,
)
def test_what_breaks_a_bound_is_named(changes: dict[str, Any], said: str) -> None:
    told = violations(sound(**changes))
    assert any(text.startswith(said) for text in told), told


@for_each(
    ("changes", "words"),
    [
        ({"mode": "agnostic", "curator__kappa": 0.5}, "tell every round's loss to within alpha/2"),
        ({"protocol": "learn-and-test", "curator__rounds": 1}, "tell a loss to within alpha"),
        (
            {"protocol": "portfolio", "curator__rounds": 1},
            "bring the stated gap to alpha unless the rival seems better: the run may state a wider gap",
        ),
    ],
    ids=str,
)
def test_a_size_is_too_small_only_where_a_theorem_asks_for_more(changes: dict[str, Any], words: str) -> None:
    """Elsewhere what the agents' answers show holds for a sample and a learner of any size: only they may be few."""
    few: dict[str, Any] = {**FREE, "curator__n": 2_000, "learner": {"draws": 9}, "agents__count": 100}
    assert violations(sound()) == violations(resolve(sound())) == []
    told = "; ".join(violations(sound(**few)))
    assert "accuracy: n = 2000 is below" in told
    assert "accuracy: draws = 9 is below" in told
    (told,) = violations(sound(**few | changes))
    assert told.startswith("agents: count = 100 is below")
    assert words in told


@pytest.mark.slow
def test_what_cannot_be_planned_is_refused_in_one_sentence() -> None:
    endless = {"curator__learner": {**SGD, "steps": 10**9}, "curator__n": 200, "curator__kappa": 0.5}
    for changes in ({"curator__learner": EXPONENTIAL}, endless, {"accuracy": {"learner": 1.9}}, {"alpha": 0.26}):
        with pytest.raises(BadScenario):
            resolve(make(**changes))
        assert violations(make(**changes))


def test_a_higher_moment_is_planned_with() -> None:
    """Six times the density, as many rounds, and the same scenario over the wire."""
    known = make(divergence__moments=[{"order": 4, "bound": 3.36}], **FREE)
    second, fourth = plan(make(**FREE)), plan(known)
    assert fourth.kappa.formula == "(1 - 3 alpha/8)/tau_4"
    assert fourth.kappa.value > 6.0 * second.kappa.value
    assert fourth.rounds.value == second.rounds.value
    assert scenarios.parse(known.wire()) == known
    with pytest.raises(BadScenario, match="order"):
        make(divergence__moments=[{"order": 2, "bound": 3.0}])


LIGHT = ["curator.n=4000", "curator.epsilon=2", "curator.learner.steps=2000"]
"""Few steps: their price is soon worked out."""
NOISE = "curator.learner.noise=5"


def light(*changes: str) -> Scenario:
    return load("portfolio", [*LIGHT, *changes])


@pytest.mark.slow  # searches for the least noise
@pytest.mark.parametrize(
    "changes",
    [
        LIGHT,
        # The accountant that prices these calls best cannot price them beside the counts: 1.024 was planned of 1.
        ["curator.n=600", "agents.count=600"],
    ],
)
def test_the_models_and_the_counts_together_fit_the_budget(changes):
    chosen = resolve(load("portfolio", changes))
    section, before = chosen.curator, len(chosen.handed_over)
    events: Any = planned_events(
        parse_learner(section.learner), section.n, section.kappa, section.eta, section.rounds, before
    )
    bounds = sampling_schedule(section.n, section.kappa, section.eta, section.rounds + before)[before:]
    assert [event.tv_bound for event in events] == list(bounds)
    assert len(chosen.planned_margins) == 1
    spent = cost([(event, 1) for event in (*events, *chosen.planned_margins)], section.delta)
    assert 0.5 * section.epsilon < spent <= section.epsilon
    assert not [told for told in violations(chosen) if told.startswith("privacy")]


def test_calls_that_fit_alone_and_not_beside_the_counts_are_named():
    few = load("portfolio", ["curator.n=600", "agents.count=600", "curator.learner.noise=8.853"])
    alone, together = violations(few.model_copy(update={"portfolio": Portfolio(teach=0.0)})), violations(few)
    assert not [told for told in alone if told.startswith("privacy")]
    assert [told for told in together if told.startswith("privacy: 1 rounds and 1 counts")]


def test_people_are_planned_so_that_their_budget_holds_the_counts_too():
    """1,253 were planned, and then refused: with the counts they would have cost 1.04 of 1."""
    chosen = resolve(light("curator.n=plan", NOISE))
    assert not [told for told in violations(chosen) if told.startswith("privacy")]


def test_people_are_not_planned_where_any_number_of_them_costs_the_same():
    """1 was planned, and then refused as too few."""
    for scenario in ("portfolio", "ball-few-agents"):
        with pytest.raises(BadScenario, match=r"curator\.n: give it: a call of the learner 'full-batch' costs"):
            plan(load(scenario, ["curator.n=plan", "curator.learner={name: full-batch, mu: plan}"]))


def test_counts_cost_their_share_of_the_budget():
    counts = resolve(light("portfolio.margins=0.2", NOISE)).planned_margins
    assert {type(event) for event in counts} == {Release}
    assert 0.4 * (1 - 1e-9) <= sum(event.epsilon for event in counts) <= 0.4


def test_more_agents_tell_smaller_gaps_apart_and_planning_asks_for_as_many_as_alpha_takes():
    mechanism = Warner(epsilon=1.0)
    needed = judges_needed(mechanism, 0.05, 0.05)
    planned = plan(light("agents.count=plan", NOISE))
    assert planned.answers.value == needed
    assert planned.agents.value == pytest.approx(4 * needed, abs=4)
    assert planned.settings["gap"].value <= 0.05
    assert plan(light("agents.count=617", NOISE)).settings["gap"].value > 0.3
    shipped = light(NOISE)
    assert plan(shipped).settings["gap"].value <= shipped.alpha


def test_settings_of_a_portfolio_that_make_no_sense_are_refused_beforehand():
    """The count of the curator's people is asked for only after agents have answered."""
    for scenario, changes, why in (
        ("ball", ["portfolio.teach=0.3"], "portfolio is for protocol portfolio"),
        ("portfolio", [*LIGHT, "curator.epsilon=0.003", NOISE], r"has epsilon = 0\.0003"),
        ("portfolio", [*LIGHT, NOISE, "curator.rounds=2"], "a portfolio has one model"),
    ):
        with pytest.raises(BadScenario, match=why):
            resolve(load(scenario, changes))


def test_settings_of_a_portfolio_that_make_no_sense_are_refused_beforehand_where_nothing_is_left_to_plan():
    for protocol in ("portfolio", "portfolio-classes", "portfolio-regression"):
        given = resolve(PROTOCOLS[protocol].example()[0])
        assert accepted(given) == given
        with pytest.raises(BadScenario, match="a portfolio has one model"):
            accepted(altered(given, ["curator.rounds=2"]))
    with pytest.raises(BadScenario, match=r"has epsilon = 0\.0003"):
        accepted(altered(resolve(PROTOCOLS["portfolio"].example()[0]), ["curator.epsilon=0.003"]))


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
    assert few.sentences[0] == of_judges(WARNER, Roles.of(617, Portfolio()), 0.05)
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
            Difference(WARNER, Ones(int(a) + judges // 2 - int(b), judges // 2 * 2)).high(miss) < 0.0
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
        ToConstant(WARNER, Ones(int(a), judges), Ones(int(b), tellers)).high(0.025 * OF_CONSTANTS["constant"]) < 0.0
        for a, b in zip(*ones, strict=True)
    ]
    assert OFTEN - 0.05 < np.mean(shown) < OFTEN + 0.15
    of_three = Roles.of(20_000, Portfolio()).of_classes
    assert of_three.of_constants(3) == (3_500, of_three.labels // 3)
    told = of_judges(WARNER, of_three, 0.05, 3)
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
    assert says in of_judges(WARNER, roles.of_classes if classes else roles, 0.05, classes, costs)
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
    assert judging == of_judges(mechanism, Roles.of(10_000, Portfolio()), beta)
    for changes, agents, words in (
        (["protocol=learn-and-test"], 469, "to within 10 points, with 95% confidence; nothing is asked about saying"),
        (["mode=agnostic", "curator.rounds=3"], 3 * 469, "to within 13 points, with 95% confidence"),
        (["mode=realizable"], 469, "that the model errs on less than 32% of the population, if the agents' tests"),
    ):
        sets = ["curator.n=2000", "agents.mechanism.epsilon=1", *changes]
        assert words in forecast(load("ball", ["beta=0.05", "alpha=0.08", "accuracy.halt_below=4", *sets]), agents)
    assert forecast(load("ball", ["agents.loss=hinge"]), 469) is None
    assert forecast(load("select-then-estimate"), 469) is None
    assert "to within 50 points" in of_one(WARNER, 0, 0.05)


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
    of_one = forecast(portfolio_of(*costs, "protocol=learn-and-test"), 469)
    yes, probably = (
        math.ceil(400.0 * detectable(WARNER, Roles.of(16_000, Portfolio()).judges, miss)) for miss in (0.025, 0.05)
    )
    assert f"costs {yes} a hundred people less (a miss costs 4, a false alarm 1) than the best" in told
    assert f"'probably' from {probably} a hundred people on" in told
    assert "what the model costs (a miss costs 4, a false alarm 1), to within 40 a hundred people, with 95%" in of_one
    assert "of less than" in told
    assert "mostly that it cannot be told. Where that best" in told
    assert of_one.endswith("so whether the model is better cannot be told")
    assert "point" not in told + of_one
    assert "errs" not in told + of_one
    few = fitting.advice(portfolio_of(*costs), 20_000, 100)
    assert "100 agents cannot tell less than a cost of 153 a hundred people apart" in few.warnings[0]
