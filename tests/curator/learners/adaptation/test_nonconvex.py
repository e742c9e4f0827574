"""NCnvxAdap: stationary points of (7), the random iterate, its sensitivities."""

import numpy as np
import pytest

from common.core.errors import BadInput
from common.numerics.randomness import RandomSource
from curator.learners.adaptation.algorithms import (
    NonconvexSettings,
    fit_nonconvex,
    prepare,
    smoothness,
    solve_nonconvex,
)
from curator.learners.adaptation.noisy_descent import sensitivities
from curator.learners.adaptation.objective import Objective, default_sharpness
from tests.curator.learners.adaptation.given import domains, side
from tests.tiers import for_each

SOURCE = RandomSource.seeded(1)


def settings(**given):
    return NonconvexSettings(**{"alpha": 0.4, "iterations": 3000, "output": "last", "radius": 3.0, **given})


def mapping(target, weights, scales, radius):
    """Norm of the gradient mapping in w and in v, with step 1/10: 0 at stationary points only."""
    in_weights, in_scales = target.gradients(weights, scales)
    moved = weights - in_weights / 10
    moved *= min(1.0, radius / np.linalg.norm(moved))
    scaled = np.maximum(1.0, scales - in_scales / target.references / 10)
    return 10 * np.linalg.norm(moved - weights), 10 * float(np.sqrt(target.references @ (scaled - scales) ** 2))


@for_each("kappas", [(1.0, 0.1, 0.1), (2.0, 1.0, 1.0), (0.5, 0.0, 0.0)])
def test_ends_at_a_stationary_point(kappas):
    given = domains(labels=True)
    chosen = settings(kappa_1=kappas[0], kappa_2=kappas[1], kappa_inf=kappas[2])
    found = prepare(given, chosen, None, SOURCE).discrepancy
    target = Objective(given, 0.4, found, *kappas, "logistic", convex=False, sharpness=default_sharpness(50))  # type: ignore[call-arg, misc]
    end = solve_nonconvex(given, chosen, None, SOURCE)
    begin = mapping(target, np.zeros(4), np.ones(50), 3.0)
    reached = mapping(target, end.weights, end.scales, 3.0)
    assert reached[0] < 1e-3 * max(1.0, begin[0])
    assert reached[1] < 0.02
    assert target.value(end.weights, end.scales) < target.value(np.zeros(4), np.ones(50))


@pytest.mark.slow
def test_large_kappa_1_keeps_the_weights_and_gives_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    given = domains(m=5, n=4000, labels=True)
    found = fit_nonconvex(given, settings(alpha=0.001, kappa_1=50.0, kappa_2=0.0, radius=30.0), None, SOURCE)
    plain = LogisticRegression(C=1e6, fit_intercept=False).fit(given.target.features, given.target.responses)
    assert np.abs(found / np.linalg.norm(found) - plain.coef_[0] / np.linalg.norm(plain.coef_)).max() < 0.05


def test_the_random_iterate_is_one_of_all():
    given = domains(m=6, n=5, labels=True)
    drawn = {
        tuple(fit_nonconvex(given, settings(iterations=4, output="random"), None, RandomSource.seeded(seed)))
        for seed in range(60)
    }
    single = {tuple(fit_nonconvex(given, settings(iterations=t, output="last"), None, SOURCE)) for t in range(1, 5)}
    assert drawn == single


def test_noise_is_that_of_all_iterations_even_if_fewer_are_run():
    given = domains(labels=True)
    assert settings(output="random").noise(given, 1.0) == settings(output="last").noise(given, 1.0)


@pytest.mark.parametrize("private", ["source", "target"])
def test_sensitivities(private):
    given = domains(m=300, n=200, private=private, labels=True)
    chosen = settings(alpha=0.3, radius=2.0, norm=1.5)
    share = {"source": 0.3 / 300, "target": 0.7 / 200}[private]
    first, second = sensitivities(chosen.bounds, given, 0.3)
    assert first == pytest.approx(2 * share * 1.5 / (1 + np.exp(-3.0)), rel=1e-3)
    assert second == pytest.approx(3.0, rel=1e-4)  # Lambda r: scores are 2 Lambda r apart, and the loss is steeper than
    scores = np.array([-3.0, 3.0])  # 1/2 on the average only: ln(1 + e^3) - ln(1 + e^-3) = 3
    assert np.ptp(np.logaddexp(0.0, -scores)) == pytest.approx(3.0)


def test_printed_steps_leave_the_scales_where_they_are():
    given = domains(m=300, n=200, labels=True)
    low = {"kappa_1": 0.05, "kappa_2": 0.0}
    assert solve_nonconvex(given, settings(**low, steps="paper"), None, SOURCE).scales.max() < 1.001
    assert solve_nonconvex(given, settings(**low), None, SOURCE).scales.max() > 1.5


def test_smoothness_bounds_what_the_gradient_changes():
    given = domains(m=12, n=9, labels=True)
    chosen = settings(kappa_1=0.5, kappa_2=0.7, kappa_inf=0.3, sharpness=5.0)
    found = prepare(given, chosen, None, SOURCE).discrepancy
    target = Objective(given, 0.4, found, 0.5, 0.7, 0.3, "logistic", convex=False, sharpness=5.0)
    bound, draw, p = smoothness(chosen, given), np.random.default_rng(1), target.references
    for _ in range(200):
        ends = [(draw.normal(size=4), 1.0 + draw.exponential(size=21)) for _ in range(2)]
        slopes = [target.gradients(*end) for end in ends]
        # In the paper's variables (w, u): u = v/p, and a gradient in u is p times that in v.
        change = np.hypot(
            np.linalg.norm(slopes[0][0] - slopes[1][0]), np.linalg.norm(p * (slopes[0][1] - slopes[1][1]))
        )
        way = np.hypot(np.linalg.norm(ends[0][0] - ends[1][0]), np.linalg.norm((ends[0][1] - ends[1][1]) / p))
        assert change <= bound * way


def test_learns_privately():
    given = domains(m=500, n=2000, labels=True)
    test = side(4000, 1.0, 9, labels=True)
    right = {}
    for mu in (None, 0.5):
        found = fit_nonconvex(given, settings(iterations=400, kappa_1=5.0, output="average"), mu, SOURCE)
        right[mu] = float((np.sign(test.features @ found) == test.responses).mean())
    assert right[None] > 0.8
    assert right[0.5] > right[None] - 0.03


def test_scores_without_end_are_refused():
    with pytest.raises(BadInput, match="at most 512"):
        NonconvexSettings.parse({"alpha": 0.5, "radius": 600.0})
