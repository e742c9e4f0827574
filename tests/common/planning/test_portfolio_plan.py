"""Planning a portfolio: noise for raked weights, a budget that holds counts and models, and what agents tell apart."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.local.mechanisms.laplace import Laplace
from common.local.mechanisms.warner import Warner
from common.planning.accepting import violations
from common.planning.plan import plan, resolve
from common.privacy.budget import cost
from common.privacy.calibration import sampling_schedule
from common.privacy.events import Release
from common.protocols.portfolio import Portfolio, compares, judges, label_reporters, labels_for_each_judge
from common.scenario.loading import load
from common.scenario.scenario import Scenario
from common.statistics.gaps import detectable_gap, judges_needed
from common.statistics.intervals import estimate
from common.statistics.race import Race
from curator.learners.base import parse_learner
from curator.service.curator import planned_events

LIGHT = ["curator.n=4000", "curator.epsilon=2", "curator.learner.steps=2000"]
"""Few steps: their price is soon worked out."""
NOISE = "curator.learner.noise=5"


def light(*changes: str) -> Scenario:
    return load("portfolio", [*LIGHT, *changes])


@pytest.mark.slow  # searches for the least noise
@pytest.mark.parametrize(
    "changes", [[], ["portfolio.raking=true"], pytest.param(["curator.rounds=2"], marks=pytest.mark.thorough)]
)
def test_the_models_and_the_counts_together_fit_the_budget(changes):
    """A call after raking may see a record twice as often as one before it: planning must not think it is the first."""
    chosen = resolve(light(*changes))
    section, before = chosen.curator, chosen.reweighs_before
    assert before == int("portfolio.raking=true" in changes)
    learner = parse_learner(section.learner)
    events = planned_events(learner, None, section.n, section.kappa, section.eta, section.rounds, before)
    bounds = sampling_schedule(section.n, section.kappa, section.eta, section.rounds + before)[before:]
    assert [event.tv_bound for event in events] == list(bounds)  # type: ignore[attr-defined]
    assert len(chosen.planned_margins) == section.rounds + 1  # of labels, and by score for every model
    everything = [(event, 1) for event in (*events, *chosen.planned_margins)]
    assert cost(everything, section.delta) <= section.epsilon
    assert cost(everything, section.delta) > 0.5 * section.epsilon
    assert not [told for told in violations(chosen) if told.startswith("privacy")]


@pytest.mark.slow  # searches for the least noise
def test_a_few_hundred_people_s_models_and_counts_fit_the_budget_together():
    """The accountant that prices these calls best cannot price them beside the counts: 1.024 was planned of 1."""
    chosen = resolve(load("portfolio", ["curator.n=600", "agents.count=600"]))
    section = chosen.curator
    events = planned_events(
        parse_learner(section.learner), None, section.n, section.kappa, section.eta, section.rounds, 0
    )
    assert cost([(event, 1) for event in (*events, *chosen.planned_margins)], section.delta) <= section.epsilon


def test_calls_that_fit_alone_and_not_beside_the_counts_are_named():
    few = load("portfolio", ["curator.n=600", "agents.count=600", "curator.learner.noise=8.853"])
    alone, together = violations(few.model_copy(update={"portfolio": Portfolio(repair=0.0)})), violations(few)
    assert not [told for told in alone if told.startswith("privacy")]
    assert [told for told in together if told.startswith("privacy: 1 rounds and 2 counts")]


@pytest.mark.slow
def test_raking_costs_noise():
    raked, plain = (resolve(light(f"portfolio.raking={raking}")) for raking in ("true", "false"))
    assert raked.curator.learner.noise > 1.05 * plain.curator.learner.noise


def test_counts_cost_their_share_of_the_budget():
    chosen = resolve(light("portfolio.margins=0.2", NOISE))
    assert all(isinstance(event, Release) for event in chosen.planned_margins)
    assert sum(event.epsilon for event in chosen.planned_margins) == pytest.approx(0.4, rel=1e-9)
    assert sum(event.epsilon for event in chosen.planned_margins) <= 0.4


def test_more_agents_tell_smaller_gaps_apart_and_planning_asks_for_as_many_as_alpha_takes():
    mechanism = Warner(epsilon=1.0)
    found = [detectable_gap(mechanism, agents, 4, 0.05) for agents in (3, 100, 10_000, 1_000_000)]
    assert found == sorted(found, reverse=True)
    assert found[0] == 1.0
    needed = judges_needed(mechanism, 0.05, 4, 0.05)
    assert detectable_gap(mechanism, needed, 4, 0.05) <= 0.05 < detectable_gap(mechanism, needed - 4, 4, 0.05)
    assert detectable_gap(Laplace(epsilon=1.0), 10_000, 4, 0.05) < 1.0
    planned = plan(light("agents.count=plan", NOISE))
    labels = labels_for_each_judge(Portfolio())
    needed, more = judges_needed(mechanism, 0.05, 4, 0.05, labels), needed
    assert needed < more  # labels judge the constants, too
    assert planned.answers.value == needed
    assert planned.agents.value == pytest.approx(needed / 0.6, abs=2)
    assert planned.settings["gap"].value <= 0.05
    assert plan(light("agents.count=617", NOISE)).settings["gap"].value > 0.3


def test_what_agents_are_sure_to_tell_is_what_a_race_shows_where_nobody_leaves():
    """All candidates have the greatest variance and nobody leaves: the gap that is stated is at most the plan's."""
    mechanism, generator = Warner(epsilon=1.0), np.random.default_rng(3)
    for rivals, agents, labels in ((4, 6000, 0.25), (6, 9000, 0.1), (3, 4000, 0.0)):
        race = Race(mechanism, rivals, 0.95, planned=agents // (rivals - 1), mirrored=(0, 1))
        telling = int(labels * agents)
        race.add(1, telling // 2, telling)
        race.update({k: generator.integers(0, 2, agents // (rivals - 1), dtype=np.uint8) for k in range(1, rivals)})
        told = detectable_gap(mechanism, agents, rivals, 0.05, labels)
        assert race.gap <= told
        alone = estimate(mechanism, agents // rivals // 2, agents // rivals, 0.95, among=rivals)
        assert told < 0.9 * (alone.high - alone.low)  # what intervals alone are sure to tell


def test_pairs_are_planned_where_a_rare_event_varies_half_as_much_as_a_loss_may():
    chosen = [compares(Warner(epsilon=epsilon), Portfolio()) for epsilon in (0.5, 1.0, 1.75, 1.8, 4.0)]
    assert chosen == [False, False, False, True, True]
    assert compares(Warner(epsilon=0.5), Portfolio(judging="pairs"))
    assert not compares(Warner(epsilon=4.0), Portfolio(judging="losses"))


def test_without_repairs_an_eighth_tells_labels_and_the_others_judge():
    settings = Portfolio(repair=0.0)
    assert (judges(8000, settings), label_reporters(8000, settings)) == (7000, 1000)
    assert labels_for_each_judge(settings) == pytest.approx(1 / 7)
    assert (judges(1000, Portfolio()), label_reporters(1000, Portfolio())) == (600, 160)
    assert labels_for_each_judge(Portfolio()) == pytest.approx(160 / 600)


def test_counts_that_would_be_noise_alone_are_refused_beforehand():
    with pytest.raises(BadScenario, match=r"2 counts of the curator's people share epsilon = 0\.003"):
        plan(light("curator.epsilon=0.03", NOISE, "portfolio.raking=true"))


def test_settings_of_a_portfolio_are_for_it_alone():
    with pytest.raises(BadScenario, match="portfolio is for protocol portfolio"):
        load("ball", ["portfolio.repair=0.3"])


def test_the_shipped_portfolio_has_agents_who_are_sure_to_tell_its_alpha() -> None:
    """A run of it that ends without its answer would be chance, and the page that shows it says ``done``."""
    shipped = light(NOISE)
    assert plan(shipped).settings["gap"].value <= shipped.alpha


@pytest.mark.parametrize("raking", ["curator.rounds=2", "portfolio.raking=true"])
def test_raking_for_a_learner_that_never_looks_at_weights_is_refused(raking: str) -> None:
    asked = load("portfolio", ["curator.learner={name: discriminant, norm: 1.0, mu: plan}", raking])
    with pytest.raises(BadScenario, match="learns from the sample as it is"):
        resolve(asked)


def test_agents_who_tell_labels_and_learn_alone_leave_some_to_recalibrate() -> None:
    with pytest.raises(BadScenario, match="leave nobody to recalibrate"):
        load("portfolio", ["portfolio.labels=0.7", "portfolio.alone=0.3"])


@pytest.mark.slow
def test_groups_of_features_that_nobody_has_are_refused_before_anything_is_spent():
    """Their counts are asked of the curator only after agents have answered."""
    with pytest.raises(BadScenario, match=r"portfolio.groups: feature 8 .* records have 8, from 0 to 7"):
        resolve(light("portfolio.groups=[3, 8]"))
    resolve(light("portfolio.groups=[3, 7]"))
