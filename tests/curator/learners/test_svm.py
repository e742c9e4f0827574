"""The SVM: sums of squares, factors and solutions, Newton's steps, minima, and where it begins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize as slowly
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from common.data.distributions.gaussians import GaussianHalfSpace
from common.local.hypotheses.hypothesis import Linear
from common.local.hypotheses.rules import Constant
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners import svm
from curator.learners.base import learn_from
from curator.learners.svm import ActiveSet, Svm, add_squares, factor, padded, solve
from curator.sample.base import LocalSample
from curator.sample.reweighing import Distinct, Reweighing
from curator.sample.rows import GatheredRows
from tests.tiers import for_each


@for_each(("width", "count"), [(1, 3), (16, 40), (37, 500), (201, 900)])
def test_solutions_are_those_of_the_equations(width, count):
    generator = np.random.default_rng(width)
    rows = np.zeros((count, padded(width)))
    rows[:, :width] = generator.normal(size=(count, width))
    matrix = np.eye(len(rows[0]))
    add_squares(matrix, rows)
    expected = np.eye(len(rows[0])) + rows.T @ rows
    np.testing.assert_allclose(np.triu(matrix), np.triu(expected), rtol=0, atol=1e-12 * count)
    values = np.zeros(len(matrix))
    values[:width] = generator.normal(size=width)
    solution = np.linalg.solve(expected, values)
    assert factor(matrix)
    solve(matrix, values)
    np.testing.assert_allclose(values, solution, rtol=0, atol=2e-11 * np.abs(solution).max())


def test_what_is_not_positive_definite_has_no_factor():
    assert not factor(-np.eye(16))
    assert not factor(np.full((16, 16), np.nan))


def rows(m=3000, d=12, noise=0.0, seed=1):
    random = np.random.default_rng(seed)
    features = random.normal(size=(m, d)).astype(np.float32)
    labels = np.where(features[:, 0] + 0.5 * features[:, 1] > 0.3, 1, -1).astype(np.int8)
    labels[random.random(m) < noise] *= -1
    return features, labels


def minimize(features, labels, penalty=1.0, intercept=1.0, *, start=None, separate=False, times=None):
    times = np.ones(len(labels), dtype=np.int64) if times is None else times
    drawn = Distinct(LocalSample.from_records(Records(features, labels)), np.arange(len(labels)), times)
    start = np.zeros(features.shape[1] + (intercept > 0)) if start is None else start
    return svm.minimize(drawn, start, penalty, intercept, separate=separate)


def signed(features, labels, intercept=1.0):
    return labels[:, None] * np.hstack([features.astype(float), np.full((len(features), 1), intercept)])


def objective(weights, features, labels, penalty, intercept=1.0):
    short = np.maximum(1.0 - signed(features, labels, intercept) @ weights, 0.0)
    return 0.5 * weights @ weights + penalty * np.square(short).sum()


@for_each("penalty", [0.01, 1.0, 100.0])
@for_each("noise", [0.0, 0.1])
def test_the_minimum_is_that_of_scikit_learn(penalty, noise):
    features, labels = rows(noise=noise)
    found = minimize(features, labels, penalty)
    model = LinearSVC(C=penalty, dual=False, tol=1e-10, max_iter=100_000).fit(features, labels)
    known = np.append(model.coef_[0], model.intercept_)
    np.testing.assert_allclose(found, known, rtol=1e-4, atol=1e-4 * np.abs(known).max())
    assert objective(found, features, labels, penalty) <= objective(known, features, labels, penalty) * (1 + 1e-7)


def test_without_intercept_the_hyperplane_goes_through_the_origin():
    features, labels = rows(m=500, d=3, noise=0.1)
    found = minimize(features, labels, intercept=0.0)
    padded = lambda w: objective(np.append(w, 0.0), features, labels, 1.0)  # noqa: E731
    assert padded(found) <= slowly(padded, np.zeros(3), method="BFGS").fun * (1 + 1e-9)


def test_what_can_be_separated_is_separated_and_no_further():
    features, labels = rows(m=4000, d=40)
    found = minimize(features, labels, 1e4, separate=True)
    assert (signed(features, labels) @ found).min() > 0.0
    np.testing.assert_array_equal(minimize(features, labels, 1e4, start=found, separate=True), found)
    best = minimize(features, labels, 1e4, start=found)
    assert objective(best, features, labels, 1e4) < objective(found, features, labels, 1e4)


def test_a_row_that_counts_twice_is_as_good_as_two_rows():
    features, labels = rows(m=600, noise=0.1)
    times = np.random.default_rng(5).integers(1, 4, size=600)
    one = minimize(features, labels, 3.0, times=times)
    twice = minimize(np.repeat(features, times, axis=0), np.repeat(labels, times), 3.0)
    np.testing.assert_allclose(one, twice, rtol=1e-6, atol=1e-8)


def test_the_number_of_threads_changes_nothing():
    (features, labels), found = rows(m=20_000, d=80), []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(minimize(features, labels, 100.0, separate=True))
    np.testing.assert_array_equal(*found)


def active(k=400, d=30, intercept=0.7, directions=None, scale=1.0, cost=200.0, dtype=np.float32):
    """Return near rows, and what they hold: signed rows and costs in double precision."""
    random = np.random.default_rng(1)
    directions = np.eye(d) if directions is None else random.normal(size=(directions, d))
    features = scale * random.normal(size=(k, len(directions))) @ directions
    features, labels = features if dtype == np.float32 else features > 0, random.choice(np.array([-1, 1], np.int8), k)
    held = Records(features.astype(dtype), labels)
    costs = cost * random.integers(1, 4, k)
    whole = signed(held.features, held.labels, intercept)
    return ActiveSet(GatheredRows.from_records(held), costs, intercept), whole if intercept else whole[:, :-1], costs


@for_each("intercept", [0.0, 0.7])
@for_each("dtype", [np.float32, np.uint8])
def test_margins_are_those_of_the_signed_rows(intercept, dtype):
    rows, signed, _ = active(intercept=intercept, dtype=dtype)
    weights = np.random.default_rng(2).normal(size=signed.shape[1])
    np.testing.assert_allclose(rows.margins(weights), signed @ weights, rtol=1e-12, atol=1e-12)


@for_each(
    ("given", "near", "accuracy"),
    [({}, 400, 1e-8), ({}, 200, 1e-8), ({}, 0, 1e-8), ({"directions": 5, "cost": 2e6}, 400, 1e-4)],
    ids=["all", "some", "none", "ill-conditioned"],
)
def test_steps_solve_newtons_equations(given, near, accuracy):
    rows, signed, costs = active(**given)
    random = np.random.default_rng(3)
    weights, margins = random.normal(size=signed.shape[1]), np.full(len(costs), 2.0)
    margins[:near] = random.normal(size=near)
    held, weighed = signed[margins < 1.0], costs[margins < 1.0]
    gradient = weights - held.T @ (weighed * (1.0 - margins[margins < 1.0]))
    exact = np.linalg.solve(np.eye(len(weights)) + held.T @ (weighed[:, None] * held), -gradient)
    step, falling = rows.step(weights, margins)
    np.testing.assert_allclose(step, exact, rtol=accuracy, atol=accuracy * np.abs(exact).max())
    assert falling == pytest.approx(-gradient @ exact, rel=accuracy)


def test_features_whose_squares_single_precision_does_not_hold():
    rows, signed, costs = active(scale=1e25)
    step, _ = rows.step(np.zeros(signed.shape[1]), np.linspace(-1.0, 2.0, len(costs)))
    assert np.isfinite(step).all()
    assert np.abs(step).max() > 0.0


def test_it_separates_its_own_draws_and_begins_at_the_hypothesis_released_last(monkeypatch):
    people = GaussianHalfSpace(side="source", d=60, close=4, sigma_source=1.0, sigma_target=0.1, share=0.1)
    records = people.draw(1, np.arange(6000))
    sampler, begun, minimize = Reweighing(6000, None, 0.01).sampler(records), [], svm.minimize
    monkeypatch.setattr(svm, "minimize", lambda *all, **more: begun.append(all[1]) or minimize(*all, **more))

    def learned(seed: int, previous: Any = None, **settings: Any) -> Any:
        return learn_from(Svm(**settings), sampler, RandomSource.seeded(seed), previous)

    whole = learned(1, draws=4000)
    assert whole.mistakes(sampler.draws(4000, RandomSource.seeded(1).derive("draws"))).sum() == 0
    assert 0 < whole.mistakes(records).mean() < 0.02
    first = learned(1, draws=500, intercept=2.0)
    for previous in (first, Constant(label=1), Linear(weights=(1.0,) * 5, threshold=0.0)):
        learned(2, previous, draws=500, intercept=2.0)
    np.testing.assert_allclose(begun[2], [*first.weights, -first.threshold / 2.0], rtol=1e-12)
    # Another kind of hypothesis, or of another dimension, is no start.
    assert [not start.any() for start in begun] == [True, True, False, True, True]
