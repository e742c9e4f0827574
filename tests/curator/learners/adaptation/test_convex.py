"""CnvxAdap: the optimum of (6) as a general solver finds it, the relation to (5), noise, steps, settings."""

import math

import cvxpy
import numpy as np
import pytest

from common.core.errors import BadInput, BadScenario
from common.learners.adaptation import split
from common.numerics.randomness import RandomSource
from common.privacy.theorems.domain_adaptation import joint_step
from curator.learners.adaptation.algorithms import ConvexSettings, convex_steps, fit_convex, prepare, solve_convex
from curator.learners.adaptation.domains import Domains, Side
from curator.learners.adaptation.noisy_descent import sensitivities
from curator.learners.adaptation.objective import Objective
from tests.curator.learners.adaptation.given import domains, replaced, side
from tests.tiers import for_each, thinned

SOURCE = RandomSource.seeded(1)
KAPPAS = [(1.0, 0.0, 0.0), (0.2, 0.0, 0.0), (0.1, 1.0, 0.0), (5.0, 5.0, 5.0), (1.0, 10.0, 1.0), (0.05, 5.0, 1.0)]


def settings(**given):
    return ConvexSettings(**{"alpha": 0.5, "iterations": 4000, "output": "last", **given})


def objective(given, chosen):
    found = prepare(given, chosen, None, SOURCE).discrepancy
    return Objective(given, chosen.alpha, found, chosen.kappa_1, chosen.kappa_2, chosen.kappa_inf)


def solved(given, target):
    """Return the least value of (6) and its w, by a general solver."""
    m, n, p = len(given.source), len(given.target), target.references
    w, v = cvxpy.Variable(given.dimension), cvxpy.Variable(m + n)
    features = np.vstack([given.source.features, given.target.features])
    responses = np.concatenate([given.source.responses, given.target.responses])
    rows = zip(p, features, responses, v, strict=True)
    fit = sum(share * cvxpy.quad_over_lin(x @ w - y, scale) for share, x, y, scale in rows)
    q = cvxpy.multiply(p, cvxpy.inv_pos(v))
    whole = fit + target.discrepancy * cvxpy.sum(q[:m]) + target.kappa_1 * (p @ v - 1)
    whole += target.kappa_2 * cvxpy.norm(q) + target.kappa_inf * cvxpy.max(q)
    problem = cvxpy.Problem(cvxpy.Minimize(whole), [v >= 1, cvxpy.norm(w) <= 1])
    problem.solve(solver="CLARABEL")
    return problem.value, w.value


@for_each("kappas", thinned(KAPPAS, 2))
def test_the_optimum_is_that_of_a_general_solver(kappas):
    given = domains()
    chosen = settings(kappa_1=kappas[0], kappa_2=kappas[1], kappa_inf=kappas[2])
    target = objective(given, chosen)
    least, weights = solved(given, target)
    found = solve_convex(given, chosen, None, SOURCE)
    soft = kappas[2] / 50  # the softmax may be above the maximum by so much
    assert least - 1e-5 <= target.value(found.weights, found.scales) <= least + soft + 2e-5
    assert np.abs(found.weights - weights).max() < 2e-3 + 0.05 * soft


def test_printed_steps_reach_it_where_the_scales_may_stay():
    given = domains()
    chosen = settings(kappa_1=5.0, steps="paper", output="average", iterations=20_000)
    target = objective(given, chosen)
    found = solve_convex(given, chosen, None, SOURCE)
    assert target.value(found.weights, found.scales) <= solved(given, target)[0] + 5e-3


def test_printed_steps_leave_the_scales_where_they_are():
    # Theorem 4.3 holds: its bound has the distance of u to the optimum in it, which is of order n^2 m.
    given = domains(m=300, n=200)
    moved = solve_convex(given, settings(kappa_1=0.05, steps="paper"), None, SOURCE).scales
    scaled = solve_convex(given, settings(kappa_1=0.05), None, SOURCE).scales
    assert moved.max() < 1.05 < 2.0 < scaled.max()


def test_relation_of_the_convex_problem_to_the_original_one():
    # Theorem 4.1: G(w~, q~) <= F(w~, u~) <= F at any (w, u), and F - G = kappa_1 sum_i p_i (v_i - 1)^2/v_i.
    given = domains()
    chosen = settings(kappa_1=0.3, kappa_2=0.5)
    convex = objective(given, chosen)
    original = Objective(given, 0.5, convex.discrepancy, 0.3, 0.5, 0.0, convex=False)
    found = solve_convex(given, chosen, None, SOURCE)
    apart = convex.value(found.weights, found.scales) - original.value(found.weights, found.scales)
    scales = found.scales
    assert apart == pytest.approx(0.3 * float(convex.references @ ((scales - 1) ** 2 / scales)), rel=1e-9)
    assert apart >= 0


def alternated(given, target, most, rounds=8):
    """Return w and v <= most of (5) by turns: least squares in a ball, then a cone problem in the weights."""
    p = target.references
    features = np.vstack([given.source.features, given.target.features])
    responses = np.concatenate([given.source.responses, given.target.responses])
    q, weights = p, np.zeros(given.dimension)
    for _ in range(rounds):
        w = cvxpy.Variable(given.dimension)
        fit = cvxpy.sum_squares(cvxpy.multiply(np.sqrt(q), features @ w - responses))
        cvxpy.Problem(cvxpy.Minimize(fit), [cvxpy.norm(w) <= 1]).solve(solver="CLARABEL")
        weights = w.value
        free = cvxpy.Variable(len(p))
        whole = target.losses(weights)[0] @ free + target.kappa_1 * (1 - cvxpy.sum(free))
        whole += target.kappa_2 * cvxpy.norm(free)
        cvxpy.Problem(cvxpy.Minimize(whole), [free >= p / most, free <= p]).solve(solver="CLARABEL")
        q = np.clip(free.value, p / most, p)
    return weights, p / q


@for_each("kappa_1", thinned([0.15, 0.4, 1.0], 1))
def test_theorem_4_1(kappa_1):
    given = domains(m=15, n=12)
    convex = objective(given, settings(kappa_1=kappa_1, kappa_2=0.1))
    original = Objective(given, 0.5, convex.discrepancy, kappa_1, 0.1, 0.0, convex=False)
    found = solve_convex(given, settings(kappa_1=kappa_1, kappa_2=0.1), None, SOURCE)
    reached = original.value(found.weights, found.scales)
    for most in (1.5, 4.0):  # C: no weight of the solution that it is compared with is below p/C
        weights, scales = alternated(given, original, most)
        least = original.value(weights, scales)
        away = float(convex.references @ (1 - 1 / scales))  # ||p - q*||_1
        assert reached <= convex.value(weights, scales) + 1e-6
        assert reached <= least + kappa_1 * most * (most - 1) * away + 1e-6
    # Without that assumption (5) gives weights of 0 to whatever has a larger loss than kappa_1, and is far below.
    if kappa_1 == 0.15:
        assert original.value(*alternated(given, original, 1e9)) < 0.6 * reached


@for_each("convex", [True, False])
@for_each("loss", ["squared", "logistic"])
def test_gradients_are_those_of_the_values(loss, convex):
    given = domains(m=5, n=4, labels=loss == "logistic")
    target = Objective(given, 0.4, 0.2, 0.7, 0.5, 0.3, loss, convex, sharpness=20.0)
    draw = np.random.default_rng(2)
    weights, scales = 0.3 * draw.normal(size=4), 1.0 + draw.uniform(size=9)
    in_weights, in_scales = target.gradients(weights, scales)
    step = 1e-6
    for j in range(4):
        moved = [target.value(weights + sign * step * np.eye(4)[j], scales) for sign in (1, -1)]
        assert in_weights[j] == pytest.approx((moved[0] - moved[1]) / (2 * step), abs=1e-7)
    for i in range(9):
        moved = [target.value(weights, scales + sign * step * np.eye(9)[i]) for sign in (1, -1)]
        assert in_scales[i] == pytest.approx((moved[0] - moved[1]) / (2 * step), abs=1e-7)


def test_kappas_at_the_other_end_give_least_squares():
    given = domains(m=40, n=2000)
    found = fit_convex(given, settings(alpha=0.001, kappa_1=100.0, kappa_2=0.0, radius=5.0), None, SOURCE)
    assert np.abs(found - np.linalg.lstsq(given.target.features, given.target.responses)[0]).max() < 0.01


@pytest.mark.parametrize("private", ["source", "target"])
def test_sensitivities_follow_lemma_4_2(private):
    given = domains(m=300, n=200, private=private)
    chosen = settings(alpha=0.3, radius=2.0, norm=0.5)
    share = {"source": 0.3 / 300, "target": 0.7 / 200}[private]
    first, second = sensitivities(chosen.bounds, given, 0.3)
    slope, greatest = 2 * 0.5 * (2.0 * 0.5 + 1), (2.0 * 0.5 + 1) ** 2
    assert first == pytest.approx(2 * share * slope, rel=1e-3)
    assert second == pytest.approx(greatest, rel=1e-5)
    assert first > 2 * share * slope
    assert second > greatest


def test_noise_spends_mu_and_no_more():
    given, mu = domains(m=300, n=200), 0.7
    chosen = settings(alpha=0.3, iterations=500)
    first, second = sensitivities(chosen.bounds, given, 0.3)
    estimate, rest = split(chosen, mu)
    noise = chosen.noise(given, rest)
    step = joint_step((first / noise[0]) ** 2, (second / noise[1]) ** 2)
    assert math.hypot(estimate, math.sqrt(500 * step)) == pytest.approx(mu, rel=1e-6)
    assert math.hypot(estimate, math.sqrt(500 * step)) <= mu
    printed = settings(alpha=0.3, iterations=500, calibration="paper").noise(given, rest)
    assert printed[0] == pytest.approx(first * math.sqrt(2 * 500) / rest)


def test_what_a_record_adds_is_bounded_whatever_it_is():
    # Clipping: records far outside the public bounds count as ones within.
    given = domains()
    chosen = settings(iterations=200)
    far = replaced(given, [1e200, 0.0, 0.0, 0.0], 1e300)
    near = replaced(given, [1.0, 0.0, 0.0, 0.0], 1.0)
    assert np.array_equal(fit_convex(far, chosen, 1.0, SOURCE), fit_convex(near, chosen, 1.0, SOURCE))


def test_noise_depends_on_public_numbers_alone():
    given = domains()
    other = replaced(given, [0.0, 0.0, 0.0, -1.0], -1.0)
    assert settings().noise(given, 0.5) == settings().noise(other, 0.5)


@pytest.mark.parametrize("private", ["source", "target"])
def test_with_much_privacy_loss_it_is_the_non_private_version(private):
    given = domains(m=400, n=300, private=private)
    exact = fit_convex(given, settings(iterations=500), None, SOURCE)
    assert np.abs(fit_convex(given, settings(iterations=500), 1e5, SOURCE) - exact).max() < 0.02
    noisy = fit_convex(given, settings(iterations=500), 0.05, SOURCE)
    assert np.abs(noisy - exact).max() > 0.05
    assert np.linalg.norm(noisy) <= 1.0 + 1e-9


def test_a_target_like_the_source_gains_from_it():
    # 40 private people; the public source has the same line: adapting beats the target alone.
    test = side(4000, 1.0, 9)
    few = side(40, 1.0, 3)
    both = Domains(side(4000, 1.0, 4), few)
    private = settings(alpha=0.9, kappa_1=5.0, iterations=400, output="average")
    errors = [
        float(((test.features @ weights - test.responses) ** 2).mean())
        for weights in (
            fit_convex(both, private, 0.5, SOURCE),
            fit_convex(both, private.model_copy(update={"alpha": 0.01}), 0.5, SOURCE),
        )
    ]
    assert errors[0] < 0.9 * errors[1]


def test_printed_steps_are_those_of_algorithm_1():
    given = domains(m=30, n=20)
    chosen = settings(alpha=0.3, kappa_1=2.0, kappa_2=3.0, kappa_inf=4.0, iterations=100, steps="paper")
    prepared = prepare(given, chosen, 1.0, SOURCE)
    first, second = prepared.noise
    greatest, slope = 4.0, 4.0
    bar = greatest + 9.0
    steps = convex_steps(chosen, prepared)
    assert steps.weights == pytest.approx(1 / math.sqrt(100 * (slope**2 + 4 * first**2)))
    source = 30**1.5 / (10 * 0.3**2 * (greatest + bar))
    paper = (0.7 / 20) ** 2 * second
    target = 20**1.5 / (10 * math.sqrt(0.7**4 * bar**2 + 20**4 * paper**2))
    assert steps.source == pytest.approx(source * (0.3 / 30) ** 3)
    assert steps.target == pytest.approx(target * (0.7 / 20) ** 3)


@for_each("alpha", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_alpha_outside_the_open_interval_is_refused(alpha):
    with pytest.raises(BadInput, match="alpha"):
        ConvexSettings.parse({"alpha": alpha})


def test_different_features_are_refused():
    with pytest.raises(BadScenario, match="same features"):
        Domains(side(3, 0.0, 1, dimension=4), side(3, 0.0, 1, dimension=5))


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(BadInput, match="finite"):
        Side(np.array([[math.nan]]), np.array([1.0]))


def test_a_mu_without_whole_numbers_is_refused():
    with pytest.raises(BadScenario, match="too small"):
        fit_convex(domains(), settings(), 1e-7, SOURCE)
