"""The adaptation learners: what they see, what they release, what they refuse."""

from typing import Any

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score

from common.core.errors import BadScenario
from common.learners.base import parse_settings
from common.local.hypotheses.hypothesis import Linear, Regressor
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.budget import cost
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.scenario.accepting import violations
from common.scenario.loading import load
from common.scenario.plan import resolve
from curator.learners.adaptation import AdaptationLearner
from curator.learners.base import learn_from, parse_learner
from curator.learners.discriminant import Discriminant
from curator.sample.reweighing import Reweighing
from tests.support import tiny
from tests.tiers import for_each

COMMON = {"features": 3, "alpha": 0.3, "norm": 1.0, "radius": 3.0, "iterations": 1500, "kappa_1": 5.0, "mu": 3.0}
REGRESSION = {**COMMON, "name": "cnvx-adap", "response": 4}
LABELS = {**COMMON, "name": "ncnvx-adap", "output": "average"}
SOURCE = RandomSource.seeded(1)


def people(n, seed, shift=0.0):
    """Three features, one that nobody may look at, and a response in [0, 1] that the label is about."""
    draw = np.random.default_rng(seed)
    features = draw.uniform(size=(n, 5)).astype(np.float32)
    line = np.array([0.5, -0.3 + shift, 0.2])
    features[:, 4] = np.clip(0.55 + (features[:, :3] - 0.5) @ line + 0.02 * draw.normal(size=n), 0, 1)
    return Records(features, np.where(features[:, 4] > 0.5, 1, -1).astype(np.int8))


def learned(settings, own, public):
    sampler = Reweighing(len(own), None, 1.0).sampler(own)
    return learn_from(parse_learner(settings), sampler, SOURCE, None, public)


@pytest.mark.parametrize("private", ["target", "source"])
def test_a_regressor_of_the_response_column(private):
    own, public, test = people(3000, 1), people(2000, 2), people(2000, 3)
    if private == "source":
        own, public = public, own
    found = learned({**REGRESSION, "private": private}, own, public)
    assert isinstance(found, Regressor)
    assert found.response == 4
    assert len(found.weights) == 3
    assert float(((found.values(test.features) - found.responses(test)) ** 2).mean()) < 0.003


@pytest.mark.slow
def test_a_half_space_where_the_label_is_wanted():
    own, public, test = people(3000, 1), people(2000, 2), people(2000, 3)
    for settings in (LABELS, {**COMMON, "name": "cnvx-adap"}):
        found = learned(settings, own, public)
        assert isinstance(found, Linear)
        assert len(found.weights) == 3
        assert found.mistakes(test).mean() < 0.1


def test_without_privacy_weights_and_intercept_are_those_of_least_squares():
    own, public = people(3000, 1), people(50, 2)
    settings = {**REGRESSION, "mu": None, "alpha": 0.001, "kappa_1": 100.0, "kappa_2": 0.0, "output": "last"}
    found = learned(settings, own, public)
    design = np.column_stack([own.features[:, :3], np.ones(len(own))]).astype(np.float64)
    plain = np.linalg.lstsq(design, own.features[:, 4].astype(np.float64))[0]
    assert np.abs(np.array([*found.weights, found.intercept]) - plain).max() < 0.02


@pytest.mark.slow
def test_the_source_is_worth_less_where_it_differs():
    own, near, far = people(3000, 1), people(2000, 2), people(2000, 2, shift=0.8)
    errors = []
    for public in (near, far):
        found = learned({**REGRESSION, "kappa_1": 0.5}, own, public)
        errors.append(float(((found.values(own.features) - found.responses(own)) ** 2).mean()))
    assert errors[0] < 0.003
    assert errors[1] < 0.02  # regression on the far source alone errs by more than .05


@pytest.mark.parametrize("settings", [REGRESSION, LABELS])
def test_what_it_cannot_adapt_from_is_refused_first(settings):
    learner = parse_learner(settings)
    with pytest.raises(BadScenario, match="section public"):
        learner.check_public(None)
    with pytest.raises(BadScenario, match="same features"):
        learner.check_public(Records(np.zeros((4, 2), np.float32), np.ones(4, np.int8)))
    for few, learner_of in ((2, learner), (4, parse_learner(REGRESSION))):
        with pytest.raises(BadScenario, match=f"people have {few}"):
            learner_of.check(np.dtype(np.float32), few)
    learner.check(np.dtype(np.float32), 5)
    learner.check_public(people(5, 1))


@for_each(
    ("settings", "says"),
    [
        ({**REGRESSION, "response": 2}, "among the 3 features"),
        ({**REGRESSION, "mu": 1e-6}, "too small for 1500 iterations"),
        ({**LABELS, "response": 4}, "unknown key"),
        *(({**settings, "alpha": alpha}, "alpha") for settings in (REGRESSION, LABELS) for alpha in (0.0, 1.0, 1.2)),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, says):
    with pytest.raises(BadScenario, match=says):
        parse_learner(settings)


def correlated(n, seed):
    """People whose features are far from the middle, narrow, and nearly the same number."""
    draw = np.random.default_rng(seed)
    common = draw.normal(size=n)
    features = np.zeros((n, 5), dtype=np.float32)
    features[:, :3] = 0.9 + 0.01 * (common[:, None] + 0.3 * draw.normal(size=(n, 3)))
    line = 12.0 * (features[:, 0] - features[:, 1]) + 4.0 * (features[:, 2] - 0.9)
    features[:, 4] = np.clip(0.5 + line + 0.02 * draw.normal(size=n), 0, 1)
    return Records(features, np.where(features[:, 4] > 0.5, 1, -1).astype(np.int8))


@for_each("private", ["target", "source"])
@for_each("intercept", [True, False])
def test_whitening_by_the_public_sample_learns_what_narrow_correlated_features_say(private, intercept):
    own, public, test = correlated(2000, 1), correlated(2000, 2), correlated(2000, 3)
    settings = {**REGRESSION, "iterations": 600, "private": private, "intercept": intercept, "output": "suffix"}
    errors = {}
    for kind in ("none", "public"):
        found = learned({**settings, "whitening": kind}, own, public)
        errors[kind] = float(((found.values(test.features) - found.responses(test)) ** 2).mean())
    assert errors["public"] < 0.003
    assert errors["none"] > 2.0 * errors["public"]


def test_whitening_takes_nothing_from_the_private_side():
    own, public = correlated(300, 1), correlated(300, 2)
    shifted = Records(own.features * np.float32(0.5), own.labels)
    learner = parse_learner({**REGRESSION, "whitening": "public"})
    assert isinstance(learner, AdaptationLearner)
    scaling = learner._scaling(public)
    moved = [learner._side(records, scaling=scaling).features for records in (own, shifted)]
    assert not np.allclose(*moved)
    alone = learner._side(Records(own.features[:1], own.labels[:1]), scaling=scaling)
    assert alone.features[0] == pytest.approx(moved[0][0], rel=1e-12)  # each row by itself
    assert np.mean(np.linalg.norm(learner._side(public, scaling=scaling).features[:, :3], axis=1) < 1.0) > 0.7


D = 6


def discriminant_people(n: int, share: float = 0.5, seed: int = 1) -> Records:
    """Return two normal classes, of whom ``share`` is +1; three of six features tell them apart."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < share, 1, -1).astype(np.int8)
    middle = np.array([0.3, -0.2, 0.1, 0.0, 0.0, 0.0])
    features = (0.2 + 0.25 * rng.normal(size=(n, D)) + 0.5 * labels[:, None] * middle).astype(np.float32)
    return Records(features, labels)


def discriminant_learned(records: Records, seed: int = 1, **settings: Any) -> Any:
    learner = Discriminant.parse({"name": "discriminant", "norm": 2.0, **settings})
    return learn_from(learner, Reweighing(len(records), None, 1.0).sampler(records), RandomSource.seeded(seed))


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_without_noise_it_is_fishers(share):
    records = discriminant_people(20_000, share)
    found = discriminant_learned(records, mu=100.0, ridge=1e-3)
    fisher = LinearDiscriminantAnalysis(solver="lsqr").fit(records.features, records.labels)
    assert np.array(found.weights) == pytest.approx(fisher.coef_[0], abs=0.2)
    assert found.threshold == pytest.approx(-fisher.intercept_[0], abs=0.1)


@pytest.mark.slow
def test_with_few_people_it_learns_what_noisy_gradients_do_not():
    """Both spend epsilon = 1 on 1,500 people of whom a tenth is +1, and rank others."""
    others = discriminant_people(20_000, 0.1, seed=9)
    chosen = tiny(
        "curator.n=1500", "curator.epsilon=1", "curator.delta=1e-6", "curator.rounds=1", "protocol=learn-and-test"
    )

    def ranked(settings: dict[str, Any], seed: int) -> float:
        asked = chosen.model_copy(
            update={"curator": chosen.curator.model_copy(update={"learner": parse_settings(settings)})}
        )
        learner = parse_learner(resolve(asked).curator.learner)
        records = discriminant_people(1500, 0.1, seed=seed)
        sampler = Reweighing(1500, None, 1.0).sampler(records)
        scores = learn_from(learner, sampler, RandomSource.seeded(seed), tv_bound=1.0 / 1500).scores(others.features)
        return float(roc_auc_score(others.labels, scores))

    discriminant = {"name": "discriminant", "norm": 1.0, "mu": "plan"}
    steps = {"name": "sgd", "steps": 2000, "clip": 1.0, "noise": "plan", "diameter": 30.0}
    found = [np.mean([ranked(settings, seed) for seed in range(8)]) for settings in (discriminant, steps)]
    assert found[0] > found[1] + 0.05


def test_its_score_is_about_the_logarithm_of_the_odds():
    records, found = discriminant_people(20_000, 0.2), discriminant_learned(discriminant_people(20_000, 0.2), mu=0.5)
    scores = found.scores(records.features)
    near = np.abs(scores + 1.0) < 0.25
    assert (records.labels[near] > 0).mean() == pytest.approx(1.0 / (1.0 + np.e), abs=0.06)


def test_a_class_with_nobody_and_features_that_never_vary_give_a_model_all_the_same():
    same = Records(np.ones((50, 3), dtype=np.float32), -np.ones(50, dtype=np.int8))
    found = discriminant_learned(same, mu=1.0)
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
