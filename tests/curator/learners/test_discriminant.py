"""The discriminant: Fisher's where there is no noise, of use where there is much, and planned to the whole budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score

from common.core.errors import BadScenario
from common.learners.base import parse_settings
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.planning.accepting import violations
from common.planning.plan import resolve
from common.privacy.budget import cost
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.scenario.loading import load
from curator.learners.base import learn_from, parse_learner
from curator.learners.discriminant import Discriminant
from curator.weights.reweighing import Reweighing
from tests.support import tiny

D = 6


def people(n: int, share: float = 0.5, seed: int = 1) -> Records:
    """Return two normal classes, of whom ``share`` is +1; three of six features tell them apart."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < share, 1, -1).astype(np.int8)
    middle = np.array([0.3, -0.2, 0.1, 0.0, 0.0, 0.0])
    features = (0.2 + 0.25 * rng.normal(size=(n, D)) + 0.5 * labels[:, None] * middle).astype(np.float32)
    return Records(features, labels)


def learned(records: Records, seed: int = 1, **settings: Any) -> Any:
    learner = Discriminant.parse({"name": "discriminant", "norm": 2.0, **settings})
    return learn_from(learner, Reweighing(len(records), None, 1.0).sampler(records), RandomSource.seeded(seed))


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_without_noise_it_is_fishers(share):
    records = people(20_000, share)
    found = learned(records, mu=100.0, ridge=1e-3)
    fisher = LinearDiscriminantAnalysis(solver="lsqr").fit(records.features, records.labels)
    assert np.array(found.weights) == pytest.approx(fisher.coef_[0], abs=0.2)
    assert found.threshold == pytest.approx(-fisher.intercept_[0], abs=0.1)


@pytest.mark.slow
def test_with_few_people_it_learns_what_noisy_gradients_do_not():
    """Both spend epsilon = 1 on 1,500 people of whom a tenth is +1, and rank others."""
    others = people(20_000, 0.1, seed=9)
    chosen = tiny(
        "curator.n=1500", "curator.epsilon=1", "curator.delta=1e-6", "curator.rounds=1", "protocol=learn-and-test"
    )

    def ranked(settings: dict[str, Any], seed: int) -> float:
        asked = chosen.model_copy(
            update={"curator": chosen.curator.model_copy(update={"learner": parse_settings(settings)})}
        )
        learner = parse_learner(resolve(asked).curator.learner)
        records = people(1500, 0.1, seed=seed)
        sampler = Reweighing(1500, None, 1.0).sampler(records)
        scores = learn_from(learner, sampler, RandomSource.seeded(seed), tv_bound=1.0 / 1500).scores(others.features)
        return float(roc_auc_score(others.labels, scores))

    discriminant = {"name": "discriminant", "norm": 1.0, "mu": "plan"}
    steps = {"name": "sgd", "steps": 2000, "clip": 1.0, "noise": "plan", "diameter": 30.0}
    found = [np.mean([ranked(settings, seed) for seed in range(8)]) for settings in (discriminant, steps)]
    assert found[0] > found[1] + 0.05


def test_its_score_is_about_the_logarithm_of_the_odds():
    records, found = people(20_000, 0.2), learned(people(20_000, 0.2), mu=0.5)
    scores = found.scores(records.features)
    near = np.abs(scores + 1.0) < 0.25
    assert (records.labels[near] > 0).mean() == pytest.approx(1.0 / (1.0 + np.e), abs=0.06)


def test_a_class_with_nobody_and_features_that_never_vary_give_a_model_all_the_same():
    same = Records(np.ones((50, 3), dtype=np.float32), -np.ones(50, dtype=np.int8))
    found = learned(same, mu=1.0)
    assert np.isfinite(found.weights).all()
    assert np.isfinite(found.threshold)


def test_a_plan_gives_its_one_release_the_whole_budget():
    chosen = tiny("curator.epsilon=1", "curator.delta=1e-6", "curator.rounds=1", "protocol=learn-and-test")
    curator = chosen.curator.model_copy(
        update={"learner": parse_settings({"name": "discriminant", "norm": 2.0, "mu": "plan"})}
    )
    learner = parse_learner(resolve(chosen.model_copy(update={"curator": curator})).curator.learner)
    assert 0.999 < cost([(learner.event(1.0), 1)], 1e-6) <= 1.0
    free = curator.model_copy(update={"epsilon": None, "delta": None})
    with pytest.raises(BadScenario, match="needs the curator's epsilon"):
        resolve(chosen.model_copy(update={"curator": free}))


def test_beside_a_portfolio_s_counts_it_has_what_they_leave_together():
    """Gaussian and pure releases compose to less than the sum of their epsilons: mu = .226 where .9 alone buys .215."""
    chosen = resolve(load("portfolio", ["curator.learner={name: discriminant, norm: 2.0, mu: plan}"]))
    learner = parse_learner(chosen.curator.learner)
    events = [learner.event(1.0), *chosen.planned_margins]
    assert 0.99 < cost([(event, 1) for event in events], 1e-6) <= 1.0
    assert isinstance(learner, Discriminant)
    assert learner.mu > 1.04 * mu_allowed(0.9, 1e-6)
    assert not [told for told in violations(chosen) if told.startswith("privacy")]
