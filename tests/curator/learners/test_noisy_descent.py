"""CnvxAdap: the optimum of (6) as a general solver finds it, the relation to (5), noise, steps, settings."""

from __future__ import annotations

import math
from typing import Any

import cvxpy
import numpy as np
import pytest

from benchmarks.adaptation.objective import Objective
from common.core.errors import BadInput
from common.learners.adaptation import Private, split
from common.numerics.randomness import RandomSource
from common.privacy.theorems.gaussian_dp import joint_step
from curator.learners.adaptation import (
    ConvexSettings,
    NonconvexSettings,
    prepare,
    scaled_steps,
    smoothness,
    solve,
)
from curator.learners.discrepancy import curvatures, private_discrepancy, sensitivity
from curator.learners.domains import DomainSide
from curator.learners.noisy_descent import Bounds, Steps, descend, sensitivities, unit_of
from tests.curator.learners.given import domains, replaced
from tests.tiers import for_each, thinned

SOURCE = RandomSource.seeded(1)
KAPPAS = [(1.0, 0.0, 0.0), (0.2, 0.0, 0.0), (0.1, 1.0, 0.0), (5.0, 5.0, 5.0), (1.0, 10.0, 1.0), (0.05, 5.0, 1.0)]


def settings(**given):
    return ConvexSettings(**{"alpha": 0.5, "iterations": 4000, "output": "last", **given})


def nonconvex(**given):
    return NonconvexSettings(**{"alpha": 0.4, "iterations": 3000, "output": "last", "radius": 3.0, **given})


def objective(given, chosen):
    found = prepare(given, chosen, None, SOURCE).discrepancy
    kappas = chosen.kappa_1, chosen.kappa_2, chosen.kappa_inf
    soft = math.inf if chosen.convex else chosen.softmax(sum(given.sizes))
    return Objective(given, chosen.alpha, found, *kappas, chosen.loss, chosen.convex, soft)


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
    found = solve(given, chosen, None, SOURCE)
    soft = kappas[2] / 50  # the softmax may be above the maximum by so much
    assert least - 1e-5 <= target.value(found.weights, found.scales) <= least + soft + 2e-5
    assert np.abs(found.weights - weights).max() < 2e-3 + 0.05 * soft


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
    found = solve(given, settings(kappa_1=kappa_1, kappa_2=0.1), None, SOURCE)
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
    target = Objective(
        domains(m=5, n=4, labels=loss == "logistic"), 0.4, 0.2, 0.7, 0.5, 0.3, loss, convex, sharpness=20.0
    )
    draw = np.random.default_rng(2)
    point = np.concatenate([0.3 * draw.normal(size=4), 1.0 + draw.uniform(size=9)])
    around = [[target.value(*np.split(point + sign * step, [4])) for sign in (1, -1)] for step in 1e-6 * np.eye(13)]
    gradients = np.concatenate(target.gradients(*np.split(point, [4])))
    assert gradients == pytest.approx(np.diff(np.array(around)[:, ::-1])[:, 0] / 2e-6, abs=1e-7)


@for_each("loss", ["squared", "logistic"])
@for_each("private", ["source", "target"])
def test_sensitivities_follow_lemma_4_2(private, loss):
    given = domains(m=300, n=200, private=private, labels=loss == "logistic")
    share = {"source": 0.3 / 300, "target": 0.7 / 200}[private]
    slope, width = 2 * 0.5 * (2.0 * 0.5 + 1), (2.0 * 0.5 + 1) ** 2
    if loss == "logistic":  # scores are 2 Lambda r apart, and the loss is steeper than 1/2 on the average only
        slope, width = 0.5 / (1 + math.exp(-1.0)), 1.0
    first, second = sensitivities(Bounds(loss, 2.0, 0.5), given, 0.3)
    assert 1.0 < first / (2 * share * slope) < 1.001
    assert 1.0 < second / width < 1.0001


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
    assert np.array_equal(solve(far, chosen, 1.0, SOURCE).weights, solve(near, chosen, 1.0, SOURCE).weights)


@for_each("private", ["source", "target"])
def test_with_much_privacy_loss_it_is_the_non_private_version(private):
    given, chosen = domains(m=400, n=300, private=private), settings(iterations=500)
    exact, free, noisy = (solve(given, chosen, mu, SOURCE).weights for mu in (None, 1e5, 0.05))
    assert np.abs(free - exact).max() < 0.02
    assert np.abs(noisy - exact).max() > 0.05
    assert np.linalg.norm(noisy) <= 1.0 + 1e-9


def test_printed_steps_are_those_of_algorithm_1():
    given = domains(m=30, n=20)
    chosen = settings(alpha=0.3, kappa_1=2.0, kappa_2=3.0, kappa_inf=4.0, iterations=100, steps="paper")
    prepared = prepare(given, chosen, 1.0, SOURCE)
    first, second = prepared.noise
    bar = 4.0 + 9.0  # the greatest loss is 4, and so is the slope
    source = 30**1.5 / (10 * 0.3**2 * (4.0 + bar))
    target = 20**1.5 / (10 * math.hypot(0.7**2 * bar, 20**2 * (0.7 / 20) ** 2 * second))
    paper = (1 / math.hypot(40, 20 * first), source * (0.3 / 30) ** 3, target * (0.7 / 20) ** 3)
    assert chosen.printed_steps(prepared) == pytest.approx(paper)


@for_each(
    ("wrong", "says"),
    [
        (lambda: DomainSide(np.array([[math.nan]]), np.array([1.0])), "finite"),
        (lambda: DomainSide(np.array([[1.0]]), np.array([1.0, 2.0])), "found"),
        (lambda: solve(domains(), settings(), 1e-7, SOURCE), "too small"),
        (lambda: NonconvexSettings.parse({"alpha": 0.5, "radius": 600.0}), "at most 512"),
    ],
)
def test_domains_and_settings_that_cannot_be_are_refused(wrong, says):
    with pytest.raises(BadInput, match=says):
        wrong()


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
    chosen = nonconvex(kappa_1=kappas[0], kappa_2=kappas[1], kappa_inf=kappas[2])
    target, end = objective(given, chosen), solve(given, chosen, None, SOURCE)
    begin = mapping(target, np.zeros(4), np.ones(50), 3.0)
    reached = mapping(target, end.weights, end.scales, 3.0)
    assert reached[0] < 1e-3 * max(1.0, begin[0])
    assert reached[1] < 0.02
    assert target.value(end.weights, end.scales) < target.value(np.zeros(4), np.ones(50))


def test_the_random_iterate_is_one_of_all_and_has_the_noise_of_all():
    given = domains(m=6, n=5, labels=True)
    drawn = {
        tuple(solve(given, nonconvex(iterations=4, output="random"), None, RandomSource.seeded(seed)).weights)
        for seed in range(60)
    }
    assert drawn == {tuple(solve(given, nonconvex(iterations=t), None, SOURCE).weights) for t in range(1, 5)}
    assert nonconvex(output="random").noise(given, 1.0) == nonconvex().noise(given, 1.0)


def test_smoothness_bounds_what_the_gradient_changes():
    given = domains(m=12, n=9, labels=True)
    chosen = nonconvex(kappa_1=0.5, kappa_2=0.7, kappa_inf=0.3, sharpness=5.0)
    target = objective(given, chosen)
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


# fmt: off
KNOWN: list[tuple[str, Private, float, dict[str, Any], list[float], list[float]]] = [
    ("convex", "target", 2.0, {"output": "suffix"},
     [0.9565103114691738, 0.7869260311649681, 13.50090966582186, 0.11600466791317851],
     [0.06515149, 0.1205027, 0.03686466, 0.06420114, 54.63421]),
    ("convex", "source", 2.0, {"steps": "paper", "calibration": "paper", "kappa_inf": 0.5},
     [0.8358462513242557, 0.3179665121473428, 15.894418600920503, 0.04507742031166785],
     [0.09963001, 0.05502537, 0.08605818, 0.03525735, 50.02359]),
    ("convex", "target", 0.5, {"scales_share": 0.7, "spread": 0.1, "discrepancy_share": 0.2},
     [1.3185027094514226, 5.528269316679875, 51.688810305903104, 0.016512779622023223],
     [-0.1375982, 0.1622245, -0.2182231, 0.1453225, 56.87065]),
    ("nonconvex", "target", 2.0, {},
     [0.24473343969384587, 0.15369535469780435, 7.968001687310049, 0.5939482887886642],
     [0.4780301, 0.4033334, 0.5719053, -0.1115563, 53.9757]),
    ("nonconvex", "source", 2.0, {"steps": "paper", "output": "last", "kappa_inf": 0.5},
     [0.21456742465761636, 0.04251631701909641, 10.947614177129639, 3.816979048553976],
     [0.8124534, -0.06869974, 0.5472331, 0.1890393, 50.00554]),
    ("nonconvex", "source", 1.0, {"radius": 5.0, "norm": 2.0, "kappa_2": 0.2},
     [3.6961837543549336, 0.23116975392391984, 241.53465856270444, 1.0],
     [0.4731761, 0.7609394, 0.8028889, -0.4023333, 54.22105]),
]
# fmt: on
"""Runs: the discrepancy, both deviations of the noise and the step of w; then w and all scales, added up."""


@for_each(("kind", "private", "mu", "changes", "prepared", "found"), KNOWN)
def test_known_runs(kind, private, mu, changes, prepared, found) -> None:
    given, source = domains(private=private, labels=kind == "nonconvex"), RandomSource.seeded(1)
    chosen = (ConvexSettings if kind == "convex" else NonconvexSettings)(**{"alpha": 0.3, "iterations": 30, **changes})
    before = prepare(given, chosen, mu, source)
    steps = chosen.printed_steps(before) if chosen.steps == "paper" else scaled_steps(chosen, before)
    assert [before.discrepancy, *before.noise, steps.weights] == pytest.approx(prepared, rel=1e-10)
    end = solve(given, chosen, mu, source)
    assert [*end.weights, end.scales.sum()] == pytest.approx(found, rel=1e-4, abs=1e-5)


@for_each("loss", ["squared", "logistic"])
def test_both_noises_are_added_as_they_were_calibrated(loss: str) -> None:
    # One short step, from where no scale can fall below 1: what varies from run to run is the noise.
    given = domains(private="source", labels=loss == "logistic")
    chosen = (ConvexSettings if loss == "squared" else NonconvexSettings)(alpha=0.3, iterations=50)
    prepared = prepare(given, chosen, 1.0, RandomSource.seeded(1))._replace(discrepancy=1e6)
    short = Steps(1e-9, 1e-9, 1e-9)
    runs = [descend(chosen, prepared, short, 1, 0, RandomSource.seeded(seed)) for seed in range(300)]
    weights = np.std([run.weights for run in runs], axis=0) / 1e-9
    scales = np.std([run.scales for run in runs], axis=0) / 1e-9
    assert weights.mean() == pytest.approx(prepared.noise[0], rel=0.06)
    assert scales[: len(given.source)].mean() == pytest.approx(prepared.noise[1], rel=0.03)
    assert len({run.scales[len(given.source) :].tobytes() for run in runs}) == 1  # the public side has no noise


def test_known_sensitivities() -> None:
    given, bounds = domains(m=300, n=200), Bounds("squared", 1.0, 1.0)
    known = [3.726199793163687e-09, 0.028006904261127834, 4.000007629394531, 3.338675810677006e-07]
    known += [0.007500044703483581, 0.015625089406967163, 0.0800004768371582]
    found = [unit_of(bounds, given.shares(0.3)), *sensitivities(bounds, given, 0.3)]
    found += [unit_of(bounds, domains(m=3, n=2).shares(0.3)), sensitivity(given, 1.0, 1.5, "logistic")]
    found += [sensitivity(given, 2.0, 1.5, "logistic"), sensitivity(given, 2.0, 1.5)]
    assert found == pytest.approx(known, rel=1e-14, abs=0.0)


def test_the_chord_is_never_above_the_tangent() -> None:
    # Near 0 it is the quotient of two rounding errors, and at this first score would be above.
    for scores in [0.00010046157902783947, *(10.0 ** (-k / 16.0) for k in range(-32, 97))]:
        assert 0.0 <= curvatures(scores)[1] <= curvatures(scores)[0] == 0.125
    assert curvatures(3.0)[1] == pytest.approx(0.09504890789042186, rel=1e-14, abs=0.0)


def test_the_discrepancys_part_of_mu_and_the_others_are_all_of_it() -> None:
    first, rest = split(ConvexSettings(alpha=0.3, discrepancy_share=0.2), 2.0)
    assert first**2 + rest**2 <= 4.0
    assert (first, rest) == pytest.approx((2.0 * 0.2**0.5, 2.0 * 0.8**0.5), rel=4e-15, abs=0.0)


def test_the_private_discrepancy_lies_on_its_public_grid() -> None:
    # The value and the noise are whole multiples of one unit: 2^-40 of the greatest loss, here 9.
    for seed in range(5):
        found = private_discrepancy(domains(), 1.0, 2.0, 1.0, RandomSource.seeded(seed))
        assert found / (9.0 * 2.0**-40) == round(found / (9.0 * 2.0**-40))
    assert found != 0.0
