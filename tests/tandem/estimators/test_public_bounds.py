"""Bounds by the public sample, and the word where declared bounds do not fit it."""

from __future__ import annotations

import warnings

import numpy as np
import polars
import pytest

from common.core.errors import BadFit
from tandem.estimators import DomainAdapter, DomainAdapterRegressor, PublicClippingWarning
from tandem.estimators.schema import public_pairs, response_cost, widened

RAW = {"iterations": 100, "epsilon": 4.0, "agent_epsilon": 4.0, "random_state": 0}


def far(count, seed, shift=0.0):
    """People in units of their own: features in the thousands, and responses around 500 with a deviation of 20."""
    draw = np.random.default_rng(seed)
    X = 5000.0 + 1000.0 * draw.normal(size=(count, 3)) + 300.0 * shift
    return X, 500.0 + (X - 5000.0) @ np.array([0.012, -0.008, 0.012]) + 5.0 * draw.normal(size=count)


def test_a_regressor_that_is_far_off_does_not_report_an_error_of_0_without_a_word():
    public, mine, others = far(1000, 1), far(500, 2, 1.0), far(500, 3, 1.0)
    model = DomainAdapterRegressor(bounds=(0, 10_000), response_bounds=(-1, 1), **RAW)
    with pytest.warns(
        PublicClippingWarning, match=r"100.0% of the public sample's responses .* estimate_ is the error"
    ):
        model.fit(*mine, public=public, population=others)
    assert model.public_clipped_["response"] == 1.0
    assert np.mean((model.predict(others[0]) - others[1]) ** 2) > 400.0**2 > 100 * model.estimate_.value


def test_by_default_bounds_are_the_public_samples_and_raw_units_do():
    public, mine, others = far(2000, 1), far(1000, 2, 1.0), far(1000, 3, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = DomainAdapterRegressor(**RAW).fit(*mine, public=public, population=others)
    error = float(np.mean((model.predict(others[0]) - others[1]) ** 2))
    assert error < 2.0 * 25.0
    assert model.estimate_.low <= error <= model.estimate_.high
    assert model.public_clipped_ == {}
    learner = model._scenario["curator"]["learner"]
    assert (learner["residual_clip"], learner["start"], learner["whitening"]) == ("public", "public", "public")
    signs = [(X, np.where(y > 500, "up", "down")) for X, y in (public, mine, others)]
    labels = DomainAdapter(**RAW).fit(*signs[1], public=signs[0], population=signs[2])
    assert labels.score(*signs[2]) > 0.9


def test_bounds_take_nothing_from_the_private_people():
    public, mine = far(300, 1), far(300, 2)
    wild = (mine[0].copy(), mine[1].copy())
    wild[0][0], wild[1][0] = 1e9, -1e9
    learned = []
    for people in (mine, wild):
        model = DomainAdapterRegressor(**RAW).fit(*people, public=public, population=far(100, 3))
        learned.append((model._schema, model._range, model._scenario["curator"]))
    assert learned[0] == learned[1]
    assert learned[0][1] == (public[1].min(), public[1].max())


def test_features_of_the_public_sample_beyond_declared_bounds_are_told():
    public, mine = far(400, 1), far(400, 2)
    signs = [(X, y > 500) for X, y in (public, mine)]
    with pytest.warns(PublicClippingWarning, match="beyond its bounds in 3 features"):
        model = DomainAdapter(**RAW).set_params(bounds=(0, 5000)).fit(*signs[1], public=signs[0])
    assert set(model.public_clipped_) == {"x0", "x1", "x2"}
    assert all(0.4 < share < 0.6 for share in model.public_clipped_.values())


@pytest.mark.slow
def test_a_good_public_source_is_kept_by_the_defaults():
    # 60 people at epsilon 1: nothing of their own can be heard.
    public, mine, others = far(4000, 1), far(60, 2), far(2000, 3)
    errors = []
    for seed in range(3):
        model = DomainAdapterRegressor(epsilon=1.0, random_state=seed).fit(*mine, public=public, population=others)
        errors.append(np.mean((model.predict(others[0]) - others[1]) ** 2))
    assert np.mean(errors) < 1.3 * 25.0


@pytest.mark.parametrize("frame", [True, False])
def test_pairs_of_columns(frame):
    X = np.array([[1.0, 7.0, np.nan], [3.0, 7.0, np.nan]])
    given = polars.DataFrame({"b": X[:, 1], "a": X[:, 0], "c": X[:, 2], "y": [0, 1]}) if frame else X
    assert public_pairs(given, ["a", "b", "c"]) == [(1.0, 3.0), (3.5, 10.5), (-0.5, 0.5)]


def test_what_a_public_sample_must_have():
    with pytest.raises(BadFit, match="no column 'c'"):
        public_pairs(polars.DataFrame({"a": [1.0]}), ["a", "c"])
    with pytest.raises(BadFit, match="has 2 features, and X has 3"):
        public_pairs(np.zeros((4, 2)), ["a", "b", "c"])
    with pytest.raises(BadFit, match="numbers only"):
        public_pairs(np.array([["a"]]), ["a"])


def test_what_clipping_costs():
    assert response_cost(np.array([-1.0, 1.0]), -1.0, 1.0) == 0.0
    assert response_cost(np.array([0.0, 4.0]), 0.0, 2.0) == pytest.approx(0.5)
    assert response_cost(np.array([5.0, 5.0]), 0.0, 2.0) == np.inf
    assert widened(np.array([np.inf, 2.0])) == (1.0, 3.0)
