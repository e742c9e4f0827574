"""Calibration of adaptation: the joint bound of the squared loss, exact totals, and where the printed noise fails."""

import math

import numpy as np
import pytest

from common.core.errors import BadInput
from common.privacy.theorems.domain_adaptation import FREE, joint_step, paper_mu, scales_share, step_noise
from common.privacy.theorems.gaussian_dp import delta_of, mu_allowed
from tests.tiers import for_each


def test_known_answer_of_the_joint_bound():
    assert joint_step(1.0, 1.0) == pytest.approx(1.2862, abs=5e-5)
    assert joint_step(1.0, FREE) == pytest.approx(1.0, rel=1e-12)
    assert joint_step(1.0, 0.694) > 1.0 + 1e-4


@for_each("gradient", [0.0, 1e-8, 0.3, 1.0, 7.0])
@for_each("scales", [1e-9, 0.2, 0.693, 1.0, 50.0])
def test_the_joint_bound_is_the_greatest_over_a_grid(gradient, scales):
    q = np.linspace(0.0, 1.0, 20_001)
    found = float(((1 + q) ** 2 * (gradient / 4 + scales * (1 - q) ** 2)).max())
    assert found <= joint_step(gradient, scales) <= found * (1 + 1e-7)
    assert joint_step(gradient, scales) <= (gradient + scales) * (1 + 1e-12)


def test_the_joint_bound_holds_for_records():
    # Residuals of two records at one w, with features of norm r: gradients 2 rho x, losses rho^2.
    draw = np.random.default_rng(1)
    a, b, worst = 0.8, 1.1, 0.0
    for _ in range(5000):
        rho = draw.uniform(-1, 1, size=2)
        x = draw.normal(size=(2, 3))
        x /= np.linalg.norm(x, axis=1)[:, None]
        apart = np.linalg.norm(2 * rho[0] * x[0] - 2 * rho[1] * x[1]) / 4  # in units of s_1 = 4
        worst = max(worst, a * apart**2 + b * (rho[0] ** 2 - rho[1] ** 2) ** 2)
    assert 0.6 * joint_step(a, b) < worst <= joint_step(a, b)


@for_each("joint", [True, False])
@for_each("share", [0.01, 0.5, 0.9])
@for_each("iterations", [1, 15_000])
def test_all_iterations_together_are_as_private_as_wanted(iterations, share, joint):
    mu = mu_allowed(1.0, 1e-6)
    noise = step_noise(mu, iterations, share, joint=joint)
    a, b = noise.gradient**-2, noise.scales**-2
    whole = iterations * (joint_step(a, b) if joint else a + b)
    assert whole <= mu**2
    assert whole == pytest.approx(mu**2, rel=1e-9)
    if not joint:
        assert b / (a + b) == pytest.approx(share)


def test_less_noise_than_the_printed_one_where_that_is_sound():
    # 5.975 against 7.724 s sqrt(T) at (1, 1e-6), equal parts.
    noise = step_noise(mu_allowed(1.0, 1e-6), 1, 0.5, joint=False)
    assert noise.gradient == pytest.approx(5.975, abs=5e-4)
    assert 2 * math.sqrt(math.log(3e6)) == pytest.approx(7.724, abs=5e-4)
    assert step_noise(mu_allowed(1.0, 1e-6), 1, 0.5, joint=True).gradient == pytest.approx(4.791, abs=5e-3)


def test_division_minimizes_the_weighted_noise():
    best = scales_share(3.0, 0.4)
    cost = {share: 3.0 / math.sqrt(1 - share) + 0.4 / math.sqrt(share) for share in (best, best * 1.05, best * 0.95)}
    assert min(cost, key=cost.__getitem__) == best


@pytest.mark.parametrize(("epsilon", "found"), [(10.0, 0.0158), (36.0, 0.968)])
def test_printed_noise_is_not_private(epsilon, found):
    assert delta_of(epsilon / math.sqrt(2 * math.log(300)), epsilon) == pytest.approx(found, abs=5e-4)
    with pytest.raises(BadInput, match="not private at epsilon"):
        paper_mu(epsilon, 0.01)


@for_each(("delta", "most"), [(1e-2, 8.9), (1e-4, 9.9), (1e-6, 10.6)])
def test_printed_noise_is_private_up_to_a_limit(delta, most):
    mu = paper_mu(most - 0.1, delta)
    assert delta_of(mu, most - 0.1) <= delta
    assert mu < mu_allowed(most - 0.1, delta)
    with pytest.raises(BadInput, match="use bounds: tight"):
        paper_mu(most + 0.1, delta)


def test_the_theorems_own_range():
    with pytest.raises(BadInput, match="covers epsilon in"):
        paper_mu(8 * math.log(100) + 1, 0.01)
    with pytest.raises(BadInput, match="delta must be"):
        paper_mu(1.0, 0.0)
