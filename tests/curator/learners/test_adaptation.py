"""The adaptation learners: what they see, what they release, what they refuse."""

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.regressor import Regressor
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Gaussian, NonPrivate
from curator.learners.adaptation.learners import AdaptationLearner
from curator.learners.base import learn_from, parse_learner
from curator.weights.reweighing import Reweighing
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


def test_what_it_costs_does_not_depend_on_the_weights():
    for settings in (REGRESSION, LABELS):
        assert parse_learner(settings).event(1e-4) == Gaussian(count=1, mu=3.0)
        assert parse_learner({**settings, "mu": None}).event(1e-4) == NonPrivate()


@for_each("alpha", [0.0, 1.0, 1.2])
@for_each("settings", [REGRESSION, LABELS])
def test_alpha_outside_the_open_interval_is_refused(settings, alpha):
    with pytest.raises(BadScenario, match="alpha"):
        parse_learner({**settings, "alpha": alpha})


@pytest.mark.parametrize("settings", [REGRESSION, LABELS])
def test_what_it_cannot_adapt_from_is_refused_first(settings):
    learner = parse_learner(settings)
    with pytest.raises(BadScenario, match="section public"):
        learner.check_public(None)
    with pytest.raises(BadScenario, match="same features"):
        learner.check_public(Records(np.zeros((4, 2), np.float32), np.ones(4, np.int8)))
    with pytest.raises(BadScenario, match="people have 2"):
        learner.check(np.dtype(np.float32), 2)
    learner.check(np.dtype(np.float32), 5)
    learner.check_public(people(5, 1))


def test_a_response_among_the_features_is_refused():
    with pytest.raises(BadScenario, match="among the 3 features"):
        parse_learner({**REGRESSION, "response": 2})
    with pytest.raises(BadScenario, match="looks at features up to number 4"):
        parse_learner(REGRESSION).check(np.dtype(np.float32), 4)


def test_a_mu_that_no_noise_is_for_is_refused():
    with pytest.raises(BadScenario, match="too small for 1500 iterations"):
        parse_learner({**REGRESSION, "mu": 1e-6})


def test_labels_only_for_the_logistic_loss():
    with pytest.raises(BadScenario, match="unknown key"):
        parse_learner({**LABELS, "response": 4})


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
