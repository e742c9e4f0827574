"""Least squares from one release: without noise it is the textbook's, and it says how its predictions lie."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from common.core.errors import BadScenario
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.budget import cost
from common.scenario.loading import load
from common.scenario.plan import resolve
from curator.learners.base import learn_from, parse_learner
from curator.learners.least_squares import LeastSquares
from curator.sample.reweighing import Reweighing
from tests.tiers import for_each


def people(n: int, seed: int = 1) -> Records:
    """Return people of three correlated features and one that never varies; the last feature is the response."""
    rng = np.random.default_rng(seed)
    x = np.clip(0.6 + 0.1 * rng.normal(size=(n, 3)) @ [[1.0, 0.5, 0.0], [0.0, 1.0, 0.2], [0.0, 0.0, 0.3]], 0.0, 1.0)
    y = np.clip(0.4 + 0.8 * (x[:, 0] - 0.6) - 0.5 * (x[:, 1] - 0.6) + 0.04 * rng.normal(size=n), 0.0, 1.0)
    return Records(np.column_stack([x, np.full(n, 0.5), y]).astype(np.float32), np.ones(n, dtype=np.int8))


def learned(records: Records, seed: int = 1, **settings: Any) -> Any:
    sampler = Reweighing(len(records), None, 1.0).sampler(records)
    return learn_from(LeastSquares(**{"norm": 2.3, "mu": 100.0, **settings}), sampler, RandomSource.seeded(seed))


@for_each(("precondition", "off"), [(0.0, 0.02), (0.15, 0.1)])
def test_without_noise_it_is_least_squares_and_its_predictions_lie_as_it_says(precondition, off):
    """Records that are shortened have smaller residuals on the far side, so weights are a tenth too small at most."""
    records = people(20_000)
    found = learned(records, precondition=precondition)
    best = LinearRegression().fit(records.features[:, :4], records.features[:, 4])
    assert found.weights[:3] == pytest.approx(best.coef_[:3], abs=off)
    values = found.values(records.features)
    assert values == pytest.approx(best.predict(records.features[:, :4]), abs=0.05)
    assert found.center == pytest.approx(values.mean(), abs=0.01)
    assert found.spread == pytest.approx(values.std(), rel=0.15)


def test_with_noise_it_errs_little_more_and_says_no_spread_that_is_far_off():
    others = people(10_000, 9)
    for seed in range(4):
        found = learned(people(3000, seed), seed, mu=0.25)
        values = found.values(others.features)
        assert np.mean((values - others.features[:, 4]) ** 2) < 0.6 * others.features[:, 4].var()
        assert 0.5 < found.spread / values.std() < 2.0


@for_each("features", [np.ones((50, 3)), np.zeros((2, 3)), np.full((9, 3), np.nan), np.full((9, 3), 1e38)])
@for_each("mu", [1e-5, 1.0, 100.0])
def test_any_records_give_a_regression(features, mu):
    found = learned(Records(features.astype(np.float32), np.ones(len(features), dtype=np.int8)), mu=mu, norm=1.0)
    assert np.isfinite([*found.weights, found.intercept, found.center, found.spread]).all()


def test_one_feature_is_too_few_and_a_plan_gives_its_releases_the_whole_budget():
    with pytest.raises(BadScenario, match="one is too few"):
        LeastSquares(mu=1.0, norm=1.0).check(np.dtype(np.float32), 1)
    learner: Any = parse_learner(resolve(load("portfolio-regression", [])).curator.learner)
    assert 0.999 < cost([(learner.event(1.0), 1)], 1e-6) <= 1.0
