"""Private discrepancy minimization, and matching methods that are not private: theorem, sensitivity, refusals."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from scipy.special import expit, logit, ndtri

from common.core.errors import BadScenario, BudgetExceeded
from common.learners.adaptation import MatchingFields
from common.numerics.randomness import RandomSource
from common.scenario.loading import load
from curator.learners.base import CallSizes, parse_learner
from curator.learners.discrepancy import discrepancy
from curator.learners.domains import least_squares
from curator.learners.matching import matched, part_of, private_shares, selection_epsilon
from curator.learners.source_weights import KernelMeanMatching, smooth_norm
from deploy.checking import checked
from tests.curator.learners.given import domains
from tests.support import Bench
from tests.tiers import for_each

SOURCE = RandomSource.seeded(3)


def test_an_exponential_mechanism_is_gdp_with_sqrt_pi_eighths_of_its_epsilon():
    for epsilon in (0.01, 0.5, 2.0, 8.0):
        mu = epsilon * math.sqrt(math.pi / 8.0)
        q = np.linspace(1e-6, 1 - 1e-6, 4001)
        p = expit(logit(q) + epsilon)  # no test of two outcomes does better
        assert np.all(ndtri(p) - ndtri(q) <= mu + 1e-9)
        assert np.max(ndtri(p) - ndtri(q)) > 0.98 * mu or epsilon > 1.0
    weights = np.exp(0.7 * np.random.default_rng(1).uniform(0, 3, 6))
    for outcomes in range(1, 63):
        chosen = [(outcomes >> bit) & 1 == 1 for bit in range(6)]
        for signs in range(64):  # each score moves by 1 at most, either way: e^(epsilon/2) in its weight
            moved = weights * np.exp([0.35 if (signs >> bit) & 1 else -0.35 for bit in range(6)])
            power, size = (w[chosen].sum() / w.sum() for w in (moved, weights))
            assert ndtri(power) - ndtri(size) <= 0.7 * math.sqrt(math.pi / 8.0) + 1e-12


def test_all_choices_together_cost_mu():
    for mu, iterations in ((0.2, 1), (1.0, 20), (5.0, 300)):
        each = selection_epsilon(mu, iterations) * math.sqrt(math.pi / 8.0)
        assert 0.999 * mu < math.sqrt(iterations) * each <= mu


@for_each("smoothing", [0.02, 0.1, 1.0])
def test_a_replaced_row_moves_every_score_by_its_sensitivity_at_most(smoothing):
    draw, n = np.random.default_rng(2), 30
    source = draw.normal(size=(40, 4))
    source /= np.maximum(1.0, np.linalg.norm(source, axis=1))[:, None]
    target = draw.normal(size=(n, 4))
    target /= np.linalg.norm(target, axis=1)[:, None]
    settings, greatest = MatchingFields(norm=1.0, smoothing=smoothing), 0.0
    for _ in range(300):
        other = target.copy()
        row = draw.normal(size=4)
        other[0] = row / np.linalg.norm(row)
        shares = draw.dirichlet(np.full(40, 0.2))
        scores = []
        for people in (target, other):
            _, dual = smooth_norm(people.T @ people / n - (source * shares[:, None]).T @ source, smoothing)
            scores.append(np.einsum("ij,ij->i", source @ dual, source))
        greatest = max(greatest, float(np.abs(scores[0] - scores[1]).max()))
    assert greatest <= 64 * part_of(settings, n)
    assert greatest > 0.02 * 64 * part_of(settings, n)


def test_frank_and_wolfe_approach_the_least_norm_without_noise_and_labels_of_the_target_are_not_read():
    given = domains(m=60, n=50)
    source, target = given.source.features, given.target.features
    wanted = target.T @ target / len(target)

    def norm(shares):
        return float(np.abs(np.linalg.eigvalsh(wanted - (source * shares[:, None]).T @ source)).max())

    settings = MatchingFields(norm=1.0, iterations=400, smoothing=0.005, kept=0)
    found = private_shares(source, target, settings, None, SOURCE)
    assert found.sum() == pytest.approx(1.0)
    assert found.min() >= 0.0
    assert norm(found) < 0.5 * norm(np.full(60, 1 / 60))
    noisy = MatchingFields(norm=1.0)
    weights = matched(given, noisy, 1.0, SOURCE)
    given.target.responses[:] = -given.target.responses
    assert np.array_equal(weights, matched(given, noisy, 1.0, SOURCE))


@for_each("method", ["dm", "kmm", "sbest", "private-dm"])
def test_each_method_gives_a_model_of_the_ball_that_is_not_the_sources_own(method):
    given = domains(m=200, n=150)
    settings = MatchingFields(method=method, norm=1.0, radius=0.8, kappa_1=5.0)
    found = matched(given, settings, None, SOURCE)
    assert np.linalg.norm(found) <= 0.8 * (1 + 1e-9)
    alone = least_squares(given.source, np.full(200, 1 / 200), 0.8)
    assert not np.allclose(found, alone, atol=1e-6)
    if method == "sbest":  # it alone reads the target's labels
        loss = [np.mean((given.target.features @ w - given.target.responses) ** 2) for w in (found, alone)]
        assert loss[0] < loss[1]
        assert discrepancy(given, 0.8, 1.0).value > 0.0


@for_each(
    ("settings", "wrong"),
    [
        ({"method": "dm", "mu": 1.0}, "is not private: it takes mu: null"),
        ({"private": "source"}, "weighs a public source"), ({"labelled": 3}, "weighs a public source"),
        ({"response": 2}, "among the 3 features"), ({"smoothing": 0.0}, "greater than or equal"),
    ],
)  # fmt: skip
def test_what_a_method_cannot_do_is_refused(settings, wrong):
    with pytest.raises(BadScenario, match=wrong):
        parse_learner({"name": "matching", "features": 3, **settings})


def test_too_many_parts_of_a_score_are_refused_before_anything_is_charged():
    learner = parse_learner({"name": "matching", "features": 3, "smoothing": 10.0, "mu": 1.0})
    learner.check_people(1000)
    with pytest.raises(BadScenario, match="take a smaller one"):
        learner.check_people(10_000)


def test_kernel_means_of_many_people_take_no_more_memory_than_was_said():
    learner = parse_learner({"name": "matching", "features": 2, "method": "kmm", "mu": None})
    target, source = np.random.default_rng(1).normal(size=(40_000, 2)), np.random.default_rng(2).normal(size=(500, 2))
    tracemalloc.start()
    try:
        found = KernelMeanMatching(source).weights(target)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken <= learner.room(CallSizes(40_000, 500, 2, 4))
    assert found.mean() == pytest.approx(1.0, abs=0.1)


@for_each("method", ["dm", "kmm", "sbest"])
def test_methods_that_are_not_private_are_refused_where_people_are_promised_something(method, tmp_path):
    learner = [f"curator.learner.method={method}", "curator.learner.mu=null"]
    chosen = checked(load("unsupervised-adaptation", learner))
    with pytest.raises(BudgetExceeded, match="costs epsilon = inf"):
        Bench(tmp_path, chosen)
    assert checked(load("unsupervised-adaptation", [*learner, "curator.epsilon=null", "curator.delta=null"]))
