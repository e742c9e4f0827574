"""Higher moments of the importance weights: the truncation's theorem, its sharpness, and Gaussian closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from common.core.errors import BadInput
from common.data.distributions.base import parse_distribution
from common.planning import formulas
from common.planning.moments import gaussian_moment, truncation
from tests.tiers import for_each

ORDERS = st.floats(1.2, 40.0)
ALPHAS = st.floats(0.01, 0.4)


@settings(max_examples=200)
@given(alpha=ALPHAS, order=ORDERS, values=st.lists(st.floats(0.0, 50.0), min_size=1, max_size=8).filter(any))
def test_what_is_cut_off_is_at_most_a_quarter_of_alpha(alpha: float, order: float, values: list[float]) -> None:
    weights = np.array(values) / np.mean(values)
    level = truncation(alpha, order, max(1.0, float(np.mean(weights**order))))
    assert float(np.mean(np.maximum(weights - level, 0.0))) <= alpha / 4 * (1 + 1e-9)


@given(alpha=ALPHAS, order=ORDERS, level=st.floats(20.0, 100.0))
def test_no_bound_by_that_moment_alone_is_better(alpha: float, order: float, level: float) -> None:
    top, chance = level * order / (order - 1.0), alpha * (order - 1.0) / (4.0 * level)
    assert chance * (top - level) == pytest.approx(alpha / 4)
    assume(chance * top**order >= 1.0)
    assert truncation(alpha, order, chance * top**order) == pytest.approx(level)


def test_order_two_is_the_rule_of_the_corrections() -> None:
    x = 1.3515339910798754
    assert truncation(0.08, 2.0, x) == pytest.approx(x / 0.08)
    assert formulas.density(0.08, x, None) == formulas.density(0.08, x, None, {4.0: 1e9})
    assert formulas.density(0.08, x, None).order == 2.0


def test_higher_orders_pass_the_supremum() -> None:
    supremum = (0.1 / 0.07) ** 2
    second = formulas.density(0.08, 1.3516, None).kappa
    fourth, sixteenth, high = (
        formulas.density(0.08, 1.3516, None, {p: gaussian_moment(p, 0.1, 0.07, 2)}).kappa for p in (4.0, 16.0, 300.0)
    )
    assert fourth > 6 * second
    assert high == pytest.approx((1 - 0.03) / supremum, rel=0.05)
    # Cutting off alpha/4 of T's mass can be worth more than knowing that nothing lies above D_inf ...
    assert sixteenth > formulas.density(0.08, 1.3516, supremum).kappa


@for_each(("order", "close", "truncated"), [(16.0, 2, False), (4.0, 2, False), (4.0, 8, True)])
def test_the_rule_with_the_fewest_people_is_taken(order: float, close: int, truncated: bool) -> None:
    """... but not enough for the rounds that the smaller gap costs, unless the supremum is far above the moments."""
    x, supremum = gaussian_moment(2.0, 0.1, 0.07, close), (0.1 / 0.07) ** close
    moments = {order: gaussian_moment(order, 0.1, 0.07, close)}
    found, cut = formulas.density(0.08, x, supremum, moments), formulas.density(0.08, x, None, moments)
    whole = formulas.density(0.08, x, supremum)
    assert found == (cut if truncated else whole)
    assert found.truncated == truncated
    people = {
        rule: math.sqrt(
            formulas.rounds(formulas.entropy(0.08, x, *known), formulas.gap(0.08, 1.0, 2.0, rule.truncated))
        )
        / rule.kappa
        for rule, known in ((cut, (None, moments)), (whole, (supremum,)))
    }
    assert people[found] == min(people.values())


def test_a_wider_target_has_no_supremum_and_gains_by_its_fourth_moment() -> None:
    x = gaussian_moment(2.0, 0.1, 0.11, 2)
    found = formulas.density(0.08, x, None, {3.0: 1e6, 4.0: gaussian_moment(4.0, 0.1, 0.11, 2)})
    assert found.order == 4.0
    assert found.kappa > 6 * formulas.density(0.08, x, None).kappa
    assert math.isinf(gaussian_moment(6.0, 0.1, 0.11, 2))


@for_each(("source", "target", "k"), [(1.0, 0.4, 6), (1.0, 0.02, 10), (0.1, 0.07, 2)])
def test_second_moments_are_the_known_answers(source: float, target: float, k: int) -> None:
    ball: Any = parse_distribution(
        {"name": "gaussian-ball", "side": "source", "d": k, "close": k, "sigma_source": source, "sigma_target": target}
    )
    assert gaussian_moment(2.0, source, target, k) == pytest.approx(ball.chi_squared(), rel=1e-12)


@for_each(("order", "target"), [(1.0, 0.7), (3.0, 0.7), (4.0, 1.1), (2.5, 1.2)])
def test_gaussian_moments_are_their_integrals(order: float, target: float) -> None:
    def integrand(x: float) -> float:
        log_weight = -math.log(target) - 0.5 * x * x * (target**-2 - 1.0)
        return math.exp(order * log_weight - 0.5 * x * x) / math.sqrt(2.0 * math.pi)

    assert gaussian_moment(order, 1.0, target, 3) == pytest.approx(quad(integrand, -40, 40, limit=500)[0] ** 3)


def test_numbers_out_of_range_are_refused() -> None:
    for alpha, order, moment in ((0.0, 2.0, 2.0), (0.1, 1.0, 2.0), (0.1, 2.0, 0.5), (0.1, 2.0, math.inf)):
        with pytest.raises(BadInput, match="truncation"):
            truncation(alpha, order, moment)
    with pytest.raises(BadInput, match="moment needs"):
        gaussian_moment(2.0, 0.0, 1.0, 1)
