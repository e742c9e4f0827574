"""The SVM and its solver: sums of squares, factors and solutions, equations over F_2, minima, active sets."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize as slowly
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from common.core.errors import BadInput
from common.data.distributions.gaussians import GaussianHalfSpace
from common.local.hypotheses.hypothesis import Linear
from common.local.hypotheses.rules import Constant
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners import svm
from curator.learners.base import learn_from
from curator.learners.svm import ActiveSet, Svm, add_squares, factor, padded, solve
from curator.mechanisms.parities import Equations
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from curator.sample.rows import GatheredRows
from curator.sample.sampling import Distinct
from tests.tiers import for_each


@for_each(("dtype", "accuracy"), [(np.float32, 2e-4), (np.float64, 1e-12)])
@for_each(("width", "count"), [(1, 3), (16, 40), (37, 500), (201, 900)])
def test_solutions_are_those_of_the_equations(width, count, dtype, accuracy):
    generator = np.random.default_rng(width)
    rows = np.zeros((count, padded(width)), dtype=dtype)
    rows[:, :width] = generator.normal(size=(count, width))
    matrix = np.eye(len(rows[0]), dtype=dtype)
    add_squares(matrix, rows, 1.0)
    add_squares(matrix, rows[:1], -1.0)
    expected = np.eye(len(rows[0])) + rows[1:].T.astype(np.float64) @ rows[1:]
    np.testing.assert_allclose(np.triu(matrix), np.triu(expected), rtol=0, atol=accuracy * count)
    values = np.zeros(len(matrix), dtype=dtype)
    values[:width] = generator.normal(size=width)
    solution = np.linalg.solve(expected, values.astype(np.float64))
    assert factor(matrix)
    solve(matrix, values)
    np.testing.assert_allclose(values, solution, rtol=0, atol=20 * accuracy * np.abs(solution).max())


def test_what_is_not_positive_definite_has_no_factor():
    matrix = np.eye(16)
    add_squares(matrix, np.ones((1, 16)), -1.0)
    assert not factor(matrix)
    assert not factor(np.full((16, 16), np.nan))


class EveryWord:
    """A source that gives one word again and again: all of them in turn are the law of a source of fair coins."""

    def __init__(self, word):
        self._word = word

    def words(self, count):
        return np.full(count, self._word, dtype=np.uint64)


def system(coefficients, values):
    coefficients = np.asarray(coefficients, dtype=np.uint8)
    equations = Equations(coefficients.shape[1])
    equations.add(coefficients, np.asarray(values, dtype=np.uint8))
    return equations


def plain_rank(rows):
    """Rank over F_2 with Python's integers."""
    basis: list[Any] = []
    for row in rows:
        number = int("".join(map(str, row)), 2) if len(row) else 0
        for known in basis:
            number = min(number, number ^ known)
        if number:
            basis.append(number)
    return len(basis)


@settings(max_examples=150)
@given(st.data())
def test_points_are_uniform_on_exactly_the_solutions(data):
    unknowns = data.draw(st.integers(1, 4))
    rows = data.draw(st.lists(st.tuples(*[st.integers(0, 1)] * (unknowns + 1)), max_size=6))
    table = np.array(rows, dtype=np.uint8).reshape(-1, unknowns + 1)
    equations = system(table[:, :-1], table[:, -1])
    solutions = {a for a in product((0, 1), repeat=unknowns) if all((table[:, :-1] @ np.array(a)) % 2 == table[:, -1])}
    assert equations.consistent == bool(solutions)
    assert equations.rank == plain_rank(table[:, :-1].tolist())
    if solutions:
        drawn = Counter(tuple(equations.point(EveryWord(word)).tolist()) for word in range(1 << unknowns))
        assert set(drawn) == solutions
        assert len(set(drawn.values())) == 1
    else:
        with pytest.raises(BadInput, match="inconsistent"):
            equations.point(RandomSource.seeded(1))


@for_each("unknowns", [1, 2, 63, 64, 65, 127, 128, 200, 1024])
def test_every_width_finds_a_planted_secret(unknowns):
    generator = np.random.default_rng(unknowns)
    secret = generator.integers(0, 2, unknowns).astype(np.uint8)
    coefficients = generator.integers(0, 2, (unknowns + 40, unknowns)).astype(np.uint8)
    values = (coefficients @ secret % 2).astype(np.uint8)
    equations = system(coefficients, values)
    assert equations.rank == unknowns
    assert equations.consistent
    np.testing.assert_array_equal(equations.point(RandomSource.seeded(1)), secret)
    equations.add(coefficients[:1], 1 - values[:1])
    assert not equations.consistent
    assert equations.rank == unknowns


@for_each("count", [0, 3, 64, 65, 130])
def test_rank_is_that_of_plain_elimination(count):
    generator = np.random.default_rng(count)
    coefficients = (generator.random((count, 70)) < 0.03).astype(np.uint8)
    equations = system(coefficients.reshape(-1, 70), np.zeros(count))
    assert equations.rank == plain_rank(coefficients.tolist())


def test_neither_order_nor_pieces_change_the_point():
    generator = np.random.default_rng(2)
    coefficients = generator.integers(0, 2, (3000, 90)).astype(np.uint8)
    coefficients[:, 7] = 0
    values = (coefficients @ generator.integers(0, 2, 90) % 2).astype(np.uint8)
    whole = system(coefficients, values)
    pieces = Equations(90)
    for rows in np.array_split(generator.permutation(3000), 11):
        pieces.add(coefficients[rows], values[rows])
    assert whole.rank == pieces.rank == 89
    for seed in range(5):
        first, second = (system.point(RandomSource.seeded(seed)) for system in (whole, pieces))
        np.testing.assert_array_equal(first, second)


def test_what_does_not_fit_is_refused_and_changes_nothing():
    equations = system([[1, 0]], [1])
    with pytest.raises(BadInput, match="2 unknowns"):
        equations.add(np.ones((1, 3), dtype=np.uint8), np.ones(1, dtype=np.uint8))
    with pytest.raises(BadInput, match="2 equations"):
        equations.add(np.ones((1, 2), dtype=np.uint8), np.ones(2, dtype=np.uint8))
    assert equations.rank == 1
    with pytest.raises(BadInput, match="at least one unknown"):
        Equations(0)
    assert repr(equations) == "Equations(unknowns=2)"


def rows(m=3000, d=12, noise=0.0, seed=1):
    random = np.random.default_rng(seed)
    features = random.normal(size=(m, d)).astype(np.float32)
    labels = np.where(features[:, 0] + 0.5 * features[:, 1] > 0.3, 1, -1).astype(np.int8)
    labels[random.random(m) < noise] *= -1
    return features, labels


def minimize(features, labels, *how, times=None, **more):
    times = np.ones(len(labels), dtype=np.int64) if times is None else times
    drawn = Distinct(LocalSample.of(Records(features, labels)), np.arange(len(labels)), times)
    return svm.minimize(drawn, *how, **more)


def signed(features, labels, intercept=1.0):
    return labels[:, None] * np.hstack([features.astype(float), np.full((len(features), 1), intercept)])


def objective(weights, features, labels, penalty, intercept=1.0):
    short = np.maximum(1.0 - signed(features, labels, intercept) @ weights, 0.0)
    return 0.5 * weights @ weights + penalty * np.square(short).sum()


@for_each("penalty", [0.01, 1.0, 100.0])
@for_each("noise", [0.0, 0.1])
def test_the_minimum_is_that_of_scikit_learn(penalty, noise):
    features, labels = rows(noise=noise)
    found = minimize(features, labels, np.zeros(13), penalty, 1.0, separate=False)
    model = LinearSVC(C=penalty, dual=False, tol=1e-10, max_iter=100_000).fit(features, labels)
    known = np.append(model.coef_[0], model.intercept_)
    np.testing.assert_allclose(found, known, rtol=1e-4, atol=1e-4 * np.abs(known).max())
    assert objective(found, features, labels, penalty) <= objective(known, features, labels, penalty) * (1 + 1e-7)


def test_the_gradient_vanishes_at_the_minimum():
    features, labels = rows(noise=0.05)
    found = minimize(features, labels, np.zeros(13), 10.0, 0.5, separate=False)
    held = signed(features, labels, 0.5)
    gradient = found - 20.0 * held.T @ np.maximum(1.0 - held @ found, 0.0)
    # Cancelled from terms of 20 C times some hundred rows.
    assert np.abs(gradient).max() < 1e-3


def test_without_intercept_the_hyperplane_goes_through_the_origin():
    features, labels = rows(m=500, d=3, noise=0.1)
    found = minimize(features, labels, np.zeros(3), 1.0, 0.0, separate=False)
    padded = lambda w: objective(np.append(w, 0.0), features, labels, 1.0)  # noqa: E731
    assert padded(found) <= slowly(padded, np.zeros(3), method="BFGS").fun * (1 + 1e-9)


def test_what_can_be_separated_is_separated_and_no_further():
    features, labels = rows(m=4000, d=40)
    found = minimize(features, labels, np.zeros(41), 1e4, 1.0, separate=True)
    assert (signed(features, labels) @ found).min() > 0.0
    there = minimize(features, labels, found, 1e4, 1.0, separate=True)
    np.testing.assert_array_equal(there, found)
    best = minimize(features, labels, found, 1e4, 1.0, separate=False)
    assert objective(best, features, labels, 1e4) < objective(found, features, labels, 1e4)


def test_a_row_that_counts_twice_is_as_good_as_two_rows():
    features, labels = rows(m=600, noise=0.1)
    times = np.random.default_rng(5).integers(1, 4, size=600)
    one = minimize(features, labels, np.zeros(13), 3.0, 1.0, separate=False, times=times)
    twice = [np.repeat(features, times, axis=0), np.repeat(labels, times)]
    np.testing.assert_allclose(one, minimize(*twice, np.zeros(13), 3.0, 1.0, separate=False), rtol=1e-6, atol=1e-8)


def test_the_number_of_threads_changes_nothing():
    features, labels = rows(m=20_000, d=80)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(minimize(features, labels, np.zeros(81), 100.0, 1.0, separate=True))
    np.testing.assert_array_equal(*found)


def hinge_given(k=400, d=30, intercept=0.7, scale=1.0, rank=None, cost=200.0, dtype=np.float32):
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


@for_each("intercept", [0.0, 0.7])
@for_each("dtype", [np.float32, np.uint8])
def test_margins_are_those_of_the_signed_rows(intercept, dtype):
    rows, signed, _ = hinge_given(intercept=intercept, dtype=dtype)
    weights = np.random.default_rng(2).normal(size=signed.shape[1])
    np.testing.assert_allclose(rows.margins(weights), signed @ weights, rtol=1e-12, atol=1e-12)


def test_steps_solve_the_equations_whoever_comes_and_goes():
    rows, signed, costs = hinge_given()
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
    rows, signed, costs = hinge_given(rank=5, cost=2e6)
    refined, found = svm._refined, []
    monkeypatch.setattr(svm, "_refined", lambda *all: found.append(refined(*all)) or found[-1])
    margins = np.linspace(-1.0, 2.0, len(costs))
    weights = np.zeros(signed.shape[1])
    step, _ = rows.step(weights, margins)
    assert found[0] is None
    matrix, gradient = equations(signed, costs, weights, margins)
    np.testing.assert_allclose(step, np.linalg.solve(matrix, -gradient), rtol=1e-4, atol=1e-4 * np.abs(step).max())


def test_features_whose_squares_single_precision_does_not_hold():
    rows, signed, costs = hinge_given(scale=1e25)
    margins = np.linspace(-1.0, 2.0, len(costs))
    step, _ = rows.step(np.zeros(signed.shape[1]), margins)
    assert np.isfinite(step).all()
    assert np.abs(step).max() > 0.0


def test_with_no_row_near_the_step_goes_to_zero():
    rows, signed, costs = hinge_given()
    weights = np.arange(1.0, signed.shape[1] + 1.0)
    step, falling = rows.step(weights, np.full(len(costs), 2.0))
    np.testing.assert_allclose(step, -weights, rtol=1e-12)
    assert falling == pytest.approx(weights @ weights)


def svm_sampler(n=6000, d=60):
    people = GaussianHalfSpace(side="source", d=d, close=4, sigma_source=1.0, sigma_target=0.1, share=0.1)
    records = people.draw(1, np.arange(n))
    return Reweighing(n, None, 0.01).sampler(records), records


def test_its_hypothesis_makes_no_mistake_on_its_own_draws():
    draws, records = svm_sampler()
    source = RandomSource.seeded(1)
    learned = learn_from(Svm(draws=4000), draws, RandomSource.seeded(1), None)
    assert learned.mistakes(draws.draws(4000, source.derive("draws"))).sum() == 0
    assert 0 < learned.mistakes(records).mean() < 0.02


def test_it_begins_at_the_hypothesis_released_last(monkeypatch):
    draws, _ = svm_sampler()
    begun = []
    minimize = svm.minimize
    monkeypatch.setattr(svm, "minimize", lambda *all, **more: begun.append(all[1]) or minimize(*all, **more))
    learner = Svm(draws=500, intercept=2.0)
    first: Any = learn_from(learner, draws, RandomSource.seeded(1), None)
    learn_from(learner, draws, RandomSource.seeded(2), first)
    np.testing.assert_allclose(begun[1], [*first.weights, -first.threshold / 2.0], rtol=1e-12)
    # Another kind of hypothesis, or of another dimension, is no start.
    learn_from(learner, draws, RandomSource.seeded(3), Constant(label=1))
    learn_from(learner, draws, RandomSource.seeded(3), Linear(weights=(1.0,) * 5, threshold=0.0))
    assert [not start.any() for start in begun] == [True, False, True, True]
