"""CnvxAdap: the optimum of (6) as a general solver finds it, the relation to (5), noise, steps, settings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import cvxpy
import numpy as np
import pytest

from benchmarks.adaptation.objective import Objective
from common.core.errors import BadInput, BadScenario
from common.learners.adaptation import Private, split
from common.numerics.randomness import RandomSource
from common.privacy.theorems.gaussian_dp import joint_step
from curator.learners.adaptation import (
    ConvexSettings,
    NonconvexSettings,
    course,
    prepare,
    scaled_steps,
    smoothness,
    solve,
)
from curator.learners.discrepancy import curvatures, private_discrepancy, sensitivity
from curator.learners.domains import Domains, DomainSide
from curator.learners.noisy_descent import Bounds, descend, sensitivities, unit_of
from tests.curator.learners.given import domains, replaced, side
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
    found = solve(given, chosen, None, SOURCE)
    soft = kappas[2] / 50  # the softmax may be above the maximum by so much
    assert least - 1e-5 <= target.value(found.weights, found.scales) <= least + soft + 2e-5
    assert np.abs(found.weights - weights).max() < 2e-3 + 0.05 * soft


def test_printed_steps_leave_the_scales_where_they_are():
    # Theorem 4.3 holds: its bound has the distance of u to the optimum in it, which is of order n^2 m.
    given = domains(m=300, n=200)
    moved = solve(given, settings(kappa_1=0.05, steps="paper"), None, SOURCE).scales
    scaled = solve(given, settings(kappa_1=0.05), None, SOURCE).scales
    assert moved.max() < 1.05 < 2.0 < scaled.max()


def test_relation_of_the_convex_problem_to_the_original_one():
    # Theorem 4.1: G(w~, q~) <= F(w~, u~) <= F at any (w, u), and F - G = kappa_1 sum_i p_i (v_i - 1)^2/v_i.
    given = domains()
    chosen = settings(kappa_1=0.3, kappa_2=0.5)
    convex = objective(given, chosen)
    original = Objective(given, 0.5, convex.discrepancy, 0.3, 0.5, 0.0, convex=False)
    found = solve(given, chosen, None, SOURCE)
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
    assert np.array_equal(solve(far, chosen, 1.0, SOURCE).weights, solve(near, chosen, 1.0, SOURCE).weights)


def test_noise_depends_on_public_numbers_alone():
    given = domains()
    other = replaced(given, [0.0, 0.0, 0.0, -1.0], -1.0)
    assert settings().noise(given, 0.5) == settings().noise(other, 0.5)


@pytest.mark.parametrize("private", ["source", "target"])
def test_with_much_privacy_loss_it_is_the_non_private_version(private):
    given = domains(m=400, n=300, private=private)
    exact = solve(given, settings(iterations=500), None, SOURCE).weights
    assert np.abs(solve(given, settings(iterations=500), 1e5, SOURCE).weights - exact).max() < 0.02
    noisy = solve(given, settings(iterations=500), 0.05, SOURCE).weights
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
            solve(both, private, 0.5, SOURCE).weights,
            solve(both, private.model_copy(update={"alpha": 0.01}), 0.5, SOURCE).weights,
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
    steps = chosen.printed_steps(prepared)
    assert steps.weights == pytest.approx(1 / math.sqrt(100 * (slope**2 + 4 * first**2)))
    source = 30**1.5 / (10 * 0.3**2 * (greatest + bar))
    paper = (0.7 / 20) ** 2 * second
    target = 20**1.5 / (10 * math.sqrt(0.7**4 * bar**2 + 20**4 * paper**2))
    assert steps.source == pytest.approx(source * (0.3 / 30) ** 3)
    assert steps.target == pytest.approx(target * (0.7 / 20) ** 3)


def test_different_features_numbers_that_are_not_finite_and_a_mu_without_whole_numbers_are_refused():
    with pytest.raises(BadScenario, match="same features"):
        Domains(side(3, 0.0, 1, dimension=4), side(3, 0.0, 1, dimension=5))
    with pytest.raises(BadInput, match="finite"):
        DomainSide(np.array([[math.nan]]), np.array([1.0]))
    with pytest.raises(BadScenario, match="too small"):
        solve(domains(), settings(), 1e-7, SOURCE)


def nonconvex_settings(**given):
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
    chosen = nonconvex_settings(kappa_1=kappas[0], kappa_2=kappas[1], kappa_inf=kappas[2])
    found = prepare(given, chosen, None, SOURCE).discrepancy
    target = Objective(given, 0.4, found, *kappas, "logistic", convex=False, sharpness=chosen.softmax(50))  # type: ignore[call-arg, misc]
    end = solve(given, chosen, None, SOURCE)
    begin = mapping(target, np.zeros(4), np.ones(50), 3.0)
    reached = mapping(target, end.weights, end.scales, 3.0)
    assert reached[0] < 1e-3 * max(1.0, begin[0])
    assert reached[1] < 0.02
    assert target.value(end.weights, end.scales) < target.value(np.zeros(4), np.ones(50))


def test_the_random_iterate_is_one_of_all():
    given = domains(m=6, n=5, labels=True)
    drawn = {
        tuple(solve(given, nonconvex_settings(iterations=4, output="random"), None, RandomSource.seeded(seed)).weights)
        for seed in range(60)
    }
    single = {
        tuple(solve(given, nonconvex_settings(iterations=t, output="last"), None, SOURCE).weights) for t in range(1, 5)
    }
    assert drawn == single


def test_noise_is_that_of_all_iterations_even_if_fewer_are_run():
    given = domains(labels=True)
    assert nonconvex_settings(output="random").noise(given, 1.0) == nonconvex_settings(output="last").noise(given, 1.0)


@pytest.mark.parametrize("private", ["source", "target"])
def test_sensitivities(private):
    given = domains(m=300, n=200, private=private, labels=True)
    chosen = nonconvex_settings(alpha=0.3, radius=2.0, norm=1.5)
    share = {"source": 0.3 / 300, "target": 0.7 / 200}[private]
    first, second = sensitivities(chosen.bounds, given, 0.3)
    assert first == pytest.approx(2 * share * 1.5 / (1 + np.exp(-3.0)), rel=1e-3)
    assert second == pytest.approx(3.0, rel=1e-4)  # Lambda r: scores are 2 Lambda r apart, and the loss is steeper than
    scores = np.array([-3.0, 3.0])  # 1/2 on the average only: ln(1 + e^3) - ln(1 + e^-3) = 3
    assert np.ptp(np.logaddexp(0.0, -scores)) == pytest.approx(3.0)


def test_printed_steps_leave_the_scales_where_they_are_for_nonconvex():
    given = domains(m=300, n=200, labels=True)
    low = {"kappa_1": 0.05, "kappa_2": 0.0}
    assert solve(given, nonconvex_settings(**low, steps="paper"), None, SOURCE).scales.max() < 1.001
    assert solve(given, nonconvex_settings(**low), None, SOURCE).scales.max() > 1.5


def test_smoothness_bounds_what_the_gradient_changes():
    given = domains(m=12, n=9, labels=True)
    chosen = nonconvex_settings(kappa_1=0.5, kappa_2=0.7, kappa_inf=0.3, sharpness=5.0)
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


def test_scores_without_end_are_refused():
    with pytest.raises(BadInput, match="at most 512"):
        NonconvexSettings.parse({"alpha": 0.5, "radius": 600.0})


class Known(NamedTuple):
    """A case; its discrepancy and both deviations of the noise, its steps, what is found (scales added up)."""

    kind: Literal["convex", "nonconvex"]
    private: Private
    mu: float | None
    settings: dict[str, Any]
    prepared: tuple[float, float, float]
    steps: tuple[float, float, float]
    weights: list[float]
    scales: float


# fmt: off
KNOWN = [
    Known(
        "convex", "target", 2.0, {"output": "suffix"},
        (0.9565103114691738, 0.7869260311649681, 13.50090966582186),
        (0.11600466791317851, 0.09966487525464948, 0.003380775635756786),
        [0.06515149, 0.1205027, 0.03686466, 0.06420114],
        54.63421,
    ),
    Known(
        "convex", "source", 2.0, {"steps": "paper", "calibration": "paper", "kappa_inf": 0.5},
        (0.8358462513242557, 0.3179665121473428, 15.894418600920503),
        (0.04507742031166785, 1.7498293927680505e-05, 0.00021982600255746466),
        [0.09963001, 0.05502537, 0.08605818, 0.03525735],
        50.02359,
    ),
    Known(
        "convex", "target", 0.5, {"scales_share": 0.7, "spread": 0.1, "discrepancy_share": 0.2},
        (1.3185027094514226, 5.528269316679875, 51.688810305903104),
        (0.016512779622023223, 0.09295745096000893, 0.0003532180074460034),
        [-0.1375982, 0.1622245, -0.2182231, 0.1453225],
        56.87065,
    ),
    Known(
        "nonconvex", "target", 2.0, {},
        (0.24473343969384587, 0.15369535469780435, 7.968001687310049),
        (0.5939482887886642, 0.19096379224891877, 0.005728355521241467),
        [0.4780301, 0.4033334, 0.5719053, -0.1115563],
        53.9757,
    ),
    Known(
        "nonconvex", "source", 2.0, {"steps": "paper", "output": "last", "kappa_inf": 0.5},
        (0.21456742465761636, 0.04251631701909641, 10.947614177129639),
        (3.816979048553976, 3.816979048553977e-06, 0.00016365297670675166),
        [0.8124534, -0.06869974, 0.5472331, 0.1890393],
        50.00554,
    ),
    Known(
        "nonconvex", "source", 1.0, {"radius": 5.0, "norm": 2.0, "kappa_2": 0.2},
        (3.6961837543549336, 0.23116975392391984, 241.53465856270444),
        (1.0, 0.00018897307214779858, 0.03392489129411671),
        [0.4731761, 0.7609394, 0.8028889, -0.4023333],
        54.22105,
    ),
]
# fmt: on


@for_each("known", KNOWN, ids=lambda known: f"{known.kind}-{known.private}-{known.mu}-{known.settings}")
def test_known_runs(known: Known) -> None:
    given = domains(private=known.private, labels=known.kind == "nonconvex")
    source, settings = RandomSource.seeded(1), {"alpha": 0.3, "iterations": 30, **known.settings}
    kind = ConvexSettings if known.kind == "convex" else NonconvexSettings
    chosen = kind(**settings)
    prepared = prepare(given, chosen, known.mu, source)
    steps = chosen.printed_steps(prepared) if chosen.steps == "paper" else scaled_steps(chosen, prepared)
    found = solve(given, chosen, known.mu, source)
    assert (prepared.discrepancy, *prepared.noise) == pytest.approx(known.prepared, rel=1e-10)
    assert tuple(steps) == pytest.approx(known.steps, rel=1e-10)
    assert found.weights.tolist() == pytest.approx(known.weights, rel=1e-4, abs=1e-5)
    assert found.scales.sum() == pytest.approx(known.scales, rel=1e-5)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_both_noises_are_added_as_they_were_calibrated(loss: str) -> None:
    # One short step, from where no scale can fall below 1: what varies from run to run is the noise.
    given = domains(private="source", labels=loss == "logistic")
    kind = ConvexSettings if loss == "squared" else NonconvexSettings
    chosen = kind(alpha=0.3, iterations=50)
    prepared = prepare(given, chosen, 1.0, RandomSource.seeded(1))
    plan = course(chosen, prepared, scaled_steps(chosen, prepared), 1, 0)
    short = replace(plan, step_weights=1e-9, steps_scales=(1e-9, 1e-9), discrepancy=1e6)
    runs = [descend(prepared.domains, chosen.bounds, short, RandomSource.seeded(seed)) for seed in range(300)]
    weights = np.std([run.weights for run in runs], axis=0) / 1e-9
    scales = np.std([run.scales for run in runs], axis=0) / 1e-9
    assert weights.mean() == pytest.approx(prepared.noise[0], rel=0.06)
    assert scales[: len(given.source)].mean() == pytest.approx(prepared.noise[1], rel=0.03)
    assert len({run.scales[len(given.source) :].tobytes() for run in runs}) == 1  # the public side has no noise


def test_known_sensitivities() -> None:
    given, bounds = domains(m=300, n=200), Bounds("squared", 1.0, 1.0)
    assert unit_of(bounds, given.shares(0.3)) == pytest.approx(3.726199793163687e-09, rel=1e-14, abs=0.0)
    assert sensitivities(bounds, given, 0.3) == pytest.approx(
        (0.028006904261127834, 4.000007629394531), rel=1e-14, abs=0.0
    )
    small = domains(m=3, n=2)
    assert unit_of(bounds, small.shares(0.3)) == pytest.approx(3.338675810677006e-07, rel=1e-14, abs=0.0)
    assert [sensitivity(given, radius, 1.5, "logistic") for radius in (1.0, 2.0)] == pytest.approx(
        [0.007500044703483581, 0.015625089406967163], rel=1e-14
    )
    assert sensitivity(given, 2.0, 1.5) == pytest.approx(0.0800004768371582, rel=1e-14, abs=0.0)


def test_the_chord_is_never_above_the_tangent() -> None:
    # Near 0 it is the quotient of two rounding errors, and at this first score would be above.
    for scores in [0.00010046157902783947, *(10.0 ** (-k / 16.0) for k in range(-32, 97))]:
        tangent, chord = curvatures(scores)
        assert tangent == 0.125
        assert 0.0 <= chord <= tangent
    assert curvatures(3.0)[1] == pytest.approx(0.09504890789042186, rel=1e-14, abs=0.0)
    assert curvatures(5e-5)[1] == 0.0


def test_the_discrepancys_part_of_mu_and_the_others_are_all_of_it() -> None:
    first, rest = split(ConvexSettings(alpha=0.3, discrepancy_share=0.2), 2.0)
    assert first**2 + rest**2 <= 4.0
    assert (first, rest) == pytest.approx((2.0 * 0.2**0.5, 2.0 * 0.8**0.5), rel=4e-15, abs=0.0)
    assert first < 2.0 * 0.2**0.5
    assert rest < 2.0 * 0.8**0.5


def test_the_private_discrepancy_lies_on_its_public_grid() -> None:
    # The value and the noise are whole multiples of one unit: 2^-40 of the greatest loss, here 9.
    for seed in range(5):
        found = private_discrepancy(domains(), 1.0, 2.0, 1.0, RandomSource.seeded(seed))
        assert found / (9.0 * 2.0**-40) == round(found / (9.0 * 2.0**-40))
    assert found != 0.0
