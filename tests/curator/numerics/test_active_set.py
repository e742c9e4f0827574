"""Newton's equations over the rows near the boundary: solved as exactly as in double precision throughout."""

import numpy as np
import pytest

from common.local.records import Records
from curator.numerics import active_set as near_rows
from curator.numerics.active_set import ActiveSet
from curator.sample.rows.gathered_rows import GatheredRows


def given(k=400, d=30, intercept=0.7, scale=1.0, rank=None, cost=200.0, dtype=np.float32):
    """Return near rows, and what they hold: signed rows and costs in double precision."""
    random = np.random.default_rng(1)
    directions = np.eye(d) if rank is None else random.normal(size=(rank, d))
    features = (
        scale * random.normal(size=(k, len(directions))) @ directions
        if dtype == np.float32
        else random.integers(0, 2, (k, d))
    )
    labels = random.choice(np.array([-1, 1], dtype=np.int8), k)
    costs = cost * random.integers(1, 4, k)
    held = Records(features.astype(dtype), labels)
    rows = ActiveSet(GatheredRows.of(held), costs, intercept, d + (intercept > 0.0))
    last = np.full((k, int(intercept > 0.0)), intercept)
    return rows, labels[:, None] * np.hstack([held.features.astype(float), last]), costs


def equations(signed, costs, weights, margins):
    """Return Newton's matrix and gradient, added up plainly."""
    active = signed[margins < 1.0]
    weighed = costs[margins < 1.0]
    gradient = weights - active.T @ (weighed * (1.0 - margins[margins < 1.0]))
    return np.eye(len(weights)) + active.T @ (weighed[:, None] * active), gradient


@pytest.mark.parametrize("intercept", [0.0, 0.7])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_margins_are_those_of_the_signed_rows(intercept, dtype):
    rows, signed, _ = given(intercept=intercept, dtype=dtype)
    weights = np.random.default_rng(2).normal(size=signed.shape[1])
    np.testing.assert_allclose(rows.margins(weights), signed @ weights, rtol=1e-12, atol=1e-12)


def test_steps_solve_the_equations_whoever_comes_and_goes():
    rows, signed, costs = given()
    random = np.random.default_rng(3)
    margins = random.normal(1.0, 1.0, size=len(costs))
    weights = random.normal(size=signed.shape[1])
    for moved in (0, 3, 40, 400, 0, 1):
        margins[:moved] = random.normal(1.0, 1.0, size=moved)
        step, falling = rows.step(weights, margins)
        matrix, gradient = equations(signed, costs, weights, margins)
        exact = np.linalg.solve(matrix, -gradient)
        np.testing.assert_allclose(step, exact, rtol=1e-8, atol=1e-9 * np.abs(exact).max())
        assert falling == pytest.approx(-gradient @ exact, rel=1e-9)


def test_where_single_precision_fails_the_equations_are_solved_in_double(monkeypatch):
    rows, signed, costs = given(rank=5, cost=2e6)
    refined, found = near_rows._refined, []
    monkeypatch.setattr(near_rows, "_refined", lambda *all: found.append(refined(*all)) or found[-1])
    margins = np.linspace(-1.0, 2.0, len(costs))
    weights = np.zeros(signed.shape[1])
    step, _ = rows.step(weights, margins)
    assert found[0] is None
    matrix, gradient = equations(signed, costs, weights, margins)
    np.testing.assert_allclose(step, np.linalg.solve(matrix, -gradient), rtol=1e-4, atol=1e-4 * np.abs(step).max())


def test_features_whose_squares_single_precision_does_not_hold():
    rows, signed, costs = given(scale=1e25)
    margins = np.linspace(-1.0, 2.0, len(costs))
    step, _ = rows.step(np.zeros(signed.shape[1]), margins)
    assert np.isfinite(step).all()
    assert np.abs(step).max() > 0.0


def test_with_no_row_near_the_step_goes_to_zero():
    rows, signed, costs = given()
    weights = np.arange(1.0, signed.shape[1] + 1.0)
    step, falling = rows.step(weights, np.full(len(costs), 2.0))
    np.testing.assert_allclose(step, -weights, rtol=1e-12)
    assert falling == pytest.approx(weights @ weights)
