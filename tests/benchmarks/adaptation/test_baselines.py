"""Baselines solve the problems that they name: against optimality conditions, slow solvers and bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from benchmarks.adaptation.baselines import best_effort, minibatch_sgd
from benchmarks.adaptation.baselines.best_effort import Penalties, alternate, best_shares, objective
from benchmarks.adaptation.baselines.discrepancy_minimization import match
from benchmarks.adaptation.baselines.kmm import KernelMeanMatching
from benchmarks.adaptation.baselines.methods import BASELINES
from benchmarks.adaptation.candidates import best, score
from benchmarks.adaptation.splits import split
from benchmarks.adaptation.unconverged import descend
from common.numerics.randomness import RandomSource
from common.privacy.events import SubsampledSteps
from common.privacy.theorems.gaussian_dp import mu_allowed
from curator.learners.adaptation.domains import Side
from curator.learners.adaptation.public_fits import least_squares, logistic
from tests.benchmarks.adaptation.toy import pair


@pytest.fixture
def generator():
    return np.random.default_rng(5)


@pytest.mark.parametrize("radius", [0.3, 100.0])
def test_least_squares_meets_its_optimality_conditions(generator, radius):
    side = Side(generator.normal(size=(40, 4)), generator.normal(size=40))
    shares = generator.uniform(size=40)
    weights = least_squares(side, shares, radius)
    slope = side.features.T @ (shares * (side.features @ weights - side.responses))
    if radius > 1.0:
        np.testing.assert_allclose(slope, 0.0, atol=1e-8)
    else:
        # On the sphere, and the slope points inwards.
        assert np.linalg.norm(weights) == pytest.approx(radius)
        np.testing.assert_allclose(slope / np.linalg.norm(slope), -weights / radius, atol=1e-6)


def test_logistic_is_stationary(generator):
    side = Side(generator.normal(size=(60, 3)), generator.choice([-1.0, 1.0], size=60))
    shares = generator.uniform(size=60) / 60
    weights = logistic(side, shares, 1e-3)
    wrong = 1.0 / (1.0 + np.exp(side.responses * (side.features @ weights)))
    slope = 1e-3 * weights - side.features.T @ (shares * wrong * side.responses)
    np.testing.assert_allclose(slope, 0.0, atol=1e-7)


def test_kernel_mean_matching_is_the_programs_optimum(generator):
    source, target = generator.normal(size=(40, 2)), generator.normal(0.7, 1.0, size=(30, 2))
    matching = KernelMeanMatching(source)
    found = matching.weights(target)

    def kernel(left, right):
        squares = ((left[:, None] - right[None]) ** 2).sum(axis=2)
        return np.exp(-squares / (2.0 * matching.width**2))

    matrix, slope = kernel(source, source), 40 * kernel(source, target).mean(axis=1)

    def value(weights):
        return 0.5 * weights @ matrix @ weights - slope @ weights

    slack = (np.sqrt(40) - 1.0) / np.sqrt(40)
    constraint = LinearConstraint(np.full((1, 40), 1.0 / 40), 1.0 - slack, 1.0 + slack)
    slow = minimize(
        value,
        np.ones(40),
        jac=lambda w: matrix @ w - slope,
        bounds=[(0.0, 1000.0)] * 40,
        constraints=constraint,
        method="SLSQP",
        options={"maxiter": 500},
    )
    assert found.min() >= 0.0
    assert abs(found.mean() - 1.0) <= slack + 1e-6
    assert value(found) <= value(slow.x) + 2e-3 * abs(value(slow.x))
    # It matches: the mean of the weighted source is closer to the target's than the source's.
    matched = found @ source / found.sum()
    assert np.linalg.norm(matched - target.mean(axis=0)) < 0.5 * np.linalg.norm(
        source.mean(axis=0) - target.mean(axis=0)
    )


@pytest.mark.filterwarnings("ignore")
def test_kernel_mean_matching_agrees_with_skada(generator):
    reweight = pytest.importorskip("skada._reweight", reason="skada is not installed (extra compare)")
    source, target = generator.normal(size=(60, 2)), generator.normal(0.5, 1.0, size=(40, 2))
    ours = KernelMeanMatching(source)
    theirs = reweight.KMMReweightAdapter(gamma=1.0 / (2.0 * ours.width**2), max_iter=20_000, tol=1e-10)
    theirs.fit(np.concatenate([source, target]), sample_domain=np.repeat([1, -2], [60, 40]))
    left, right = ours.weights(target), theirs.source_weights_
    # The kernel matrix is nearly singular, so the weights may differ where what they match does not.
    np.testing.assert_allclose(left @ source / left.sum(), right @ source / right.sum(), atol=0.02)


def test_discrepancy_minimization_is_certified(generator):
    source, target = generator.normal(size=(80, 4)), generator.normal(size=(50, 4)) * [2.0, 1.0, 0.5, 1.0]
    found = match(source, target, iterations=400)
    wanted = target.T @ target / 50
    start = np.abs(np.linalg.eigvalsh(wanted - source.T @ source / 80)).max()
    at_found = np.abs(np.linalg.eigvalsh(wanted - (source * found.shares[:, None]).T @ source)).max()
    assert found.shares.sum() == pytest.approx(1.0)
    assert found.shares.min() >= 0.0
    assert found.norm == pytest.approx(at_found)
    assert found.least <= found.norm <= found.least + 0.01 * start


def test_discrepancy_minimization_in_one_dimension():
    # Squares 1 and 4, wanted 9: all weight on the larger one, and 5 is left.
    found = match(np.array([[1.0], [2.0]]), np.array([[3.0]]), iterations=400)
    assert found.norm == pytest.approx(5.0, abs=0.05)
    assert found.least <= 5.0 + 1e-9


@pytest.mark.parametrize(
    "penalties", [Penalties(0, 0, 0), Penalties(0, 0.8, 0), Penalties(0, 0, 2), Penalties(0, 0.5, 1)]
)
def test_shares_are_the_least_of_a_slow_search(generator, penalties):
    caps, costs = generator.uniform(0.02, 0.2, size=8), generator.normal(-0.4, 0.5, size=8)
    found = best_shares(costs, caps, penalties)
    assert (found >= 0.0).all()
    assert (found <= caps + 1e-12).all()
    slow = min(
        minimize(
            lambda q: objective(costs, q, penalties), start, bounds=[(0.0, cap) for cap in caps], method="Powell"
        ).fun
        for start in (caps, 0.5 * caps, found)
    )
    assert objective(costs, found, penalties) <= slow + 1e-5


def test_turns_never_raise_the_objective(generator):
    side = Side(generator.normal(size=(60, 3)), generator.normal(size=60))
    found = alternate(
        lambda shares, start: least_squares(side, shares, 1.0),
        lambda weights: (side.features @ weights - side.responses) ** 2,
        np.repeat([0.3, 0.0], 30),
        np.full(60, 1.0 / 60),
        Penalties(1.0, 0.2, 0.5),
    )
    assert len(found.objectives) > 1
    assert (np.diff(found.objectives) <= 1e-9).all()


def test_a_source_that_is_far_off_gets_no_weight(generator):
    caps = np.full(20, 0.05)
    costs = np.repeat([5.0, 0.0], 10) - 1.0
    found = best_effort.best_shares(costs, caps, Penalties(1.0, 0.0, 0.0))
    assert found[:10].sum() == 0.0
    np.testing.assert_array_equal(found[10:], caps[10:])


def test_the_noise_of_minibatches_is_private_and_little_more():
    noise = minibatch_sgd.noise_for(2.0, 0.01, 100, 0.2)
    event = SubsampledSteps(count=100, tv_bound=0.2, ratio=2.0 / noise)
    assert minibatch_sgd.epsilon_of_steps(event, 0.01) <= 2.0
    less = SubsampledSteps(count=100, tv_bound=0.2, ratio=2.0 / (0.99 * noise))
    assert minibatch_sgd.epsilon_of_steps(less, 0.01) > 2.0


def test_whole_batches_need_at_least_the_noise_of_the_exact_gaussian():
    exact = 2.0 * np.sqrt(50) / mu_allowed(3.0, 0.01)
    assert exact <= minibatch_sgd.noise_for(3.0, 0.01, 50, 1.0) <= 1.3 * exact


def test_minibatch_sgd_learns_and_repeats():
    target = pair().source
    runs = [minibatch_sgd.descend(target, 50.0, 0.01, 1.0, 2.0, RandomSource.seeded(3), 200, 100) for _ in range(2)]
    np.testing.assert_array_equal(*runs)
    assert score("regression", target, runs[0]) < 0.5 * np.mean(target.responses**2)
    assert np.linalg.norm(runs[0]) <= 1.0 + 1e-12


def test_gradient_descent_is_least_squares_in_the_end_and_not_before(generator):
    features = generator.normal(size=(200, 3)) @ np.diag([1.0, 0.3, 0.1])
    responses = features @ [1.0, 1.0, 1.0] + 0.1 * generator.normal(size=200)
    exact = np.linalg.lstsq(features, responses, rcond=None)[0]
    few, many = (descend(features, responses, np.full(200, 1.0 / 200), steps) for steps in (10, 20_000))
    np.testing.assert_allclose(many, exact, atol=1e-8)
    assert np.linalg.norm(few - exact) > 0.5


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("name", BASELINES)
def test_baselines_learn_on_a_small_pair(task, name):
    small = pair(task)
    parts = split(small, 0)
    chosen = best(parts, BASELINES[name](small, parts))
    found = score(task, parts.test, chosen.weights)
    assert found < 0.5 * np.var(parts.test.responses) if task == "regression" else found > 0.8
