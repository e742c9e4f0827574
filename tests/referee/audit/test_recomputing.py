"""Each way to work out delta again, against plain sums: exact where the law is known, else no less."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from referee.audit.recomputing import METHODS, _divergence, _pair, _price, profile

STEP = {"kind": "subsampled-steps", "count": 1, "tv_bound": 1e-3, "ratio": 0.25}


def release(epsilon: float, delta: float = 0.0) -> dict[str, Any]:
    return {"kind": "release", "epsilon": epsilon, "delta": delta}


def responses(rows: list[tuple[dict[str, Any], int]], epsilon: float) -> float:
    """Return the delta of randomized responses with failures, by the sum over all outcomes of all of them."""
    kept, found = 1.0, 0.0
    single = [event for event, count in rows for _ in range(count)]
    for event in single:
        kept *= 1.0 - event["delta"]
    for signs in product((1, -1), repeat=len(single)):
        loss = sum(sign * event["epsilon"] for sign, event in zip(signs, single, strict=True))
        chance = math.prod(1.0 / (1.0 + math.exp(-s * e["epsilon"])) for s, e in zip(signs, single, strict=True))
        found += chance * max(0.0, -math.expm1(epsilon - loss))
    return 1.0 - kept + kept * found


def test_releases_are_composed_as_randomized_responses_are() -> None:
    for each, delta, count in ((0.3, 1e-3, 5), (1.0, 0.0, 4), (0.01, 1e-6, 9)):
        rows = [(release(each, delta), count)]
        for share in (0.0, 0.2, 0.5, 0.9, 1.01):
            epsilon = share * count * each
            exact = responses(rows, epsilon)
            assert METHODS["kov"].delta(rows, epsilon, 1e-5, {}) == pytest.approx(exact, rel=1e-9)
            assert METHODS["basic"].delta(rows, epsilon, 1e-5, {}) >= exact - 1e-12
            for order in (2.0, 5.0, 30.0):
                rho = METHODS["rdp"].delta([(release(each), count)], epsilon, 1e-5, {"order": order})
                assert rho >= responses([(release(each), count)], epsilon) - 1e-12
    for epsilon in (0.01, 0.3, 1.0, 5.0):
        for k in (2, 3, 10, 100):
            p, q = 1.0 / (1.0 + math.exp(-epsilon)), 1.0 / (1.0 + math.exp(epsilon))
            exact = math.log(p**k * q ** (1 - k) + q**k * p ** (1 - k)) / (k - 1)
            assert _divergence(release(epsilon), k) == pytest.approx(exact, rel=1e-9)
    assert _divergence(release(0.1, 1e-9), 2) == math.inf


def test_a_price_is_positive_and_infinite_where_its_quadrature_says_nothing() -> None:
    """A price below 0 would pay for other events. The finite ones hardly depend on the pad or the allowance."""
    height, chi_squared = profile(STEP)
    infinite = 0
    for pad in np.geomspace(1e-3, 100.0, 16):
        for allowance in (1e-6 * chi_squared, 1e-60, 1e-150, 1e-250):
            price = _price(height, chi_squared, float(pad), allowance)
            assert chi_squared < price < 5.0 * chi_squared or price == math.inf
            infinite += price == math.inf
    assert 10 < infinite < 54


def test_the_chords_of_a_profile_are_a_pair_with_that_profile() -> None:
    width = 0.02
    values = profile(STEP)[0](width * np.arange(60.0))
    up, down, infinite, short = _pair(values, width)
    n = width * np.arange(1, 60)
    assert (up >= 0.0).all()
    assert (down >= 0.0).all()
    assert 0.0 <= short < 1e-12
    assert up @ np.exp(-n) == pytest.approx(down.sum(), rel=1e-9)  # alike from both sides
    for place, height in enumerate(values):
        assert up @ np.maximum(-np.expm1(width * place - n), 0.0) + infinite == pytest.approx(height, rel=1e-8)


def test_losses_are_composed_as_gaussians_are_and_never_below() -> None:
    """Of Gaussian releases the answer is known; a coarser grid, another tilt or a short window only adds to it."""
    rows = [({"kind": "gaussian", "mu": 0.2, "count": 1}, 4), ({"kind": "gaussian", "mu": 0.3, "count": 1}, 2)]
    mu = math.sqrt(4 * 0.2**2 + 2 * 0.3**2)
    lower = lambda x: 0.5 * math.erfc(-x / math.sqrt(2.0))  # noqa: E731
    for epsilon in (0.5, 1.5):
        exact = lower(mu / 2 - epsilon / mu) - math.exp(epsilon) * lower(-mu / 2 - epsilon / mu)
        assert METHODS["gdp"].delta(rows, epsilon, exact, {}) == pytest.approx(exact, rel=1e-6)
        for order in (2.0, 5.0, 9.0):
            assert METHODS["rdp"].delta(rows, epsilon, exact, {"order": order}) >= exact
        for width, tilt, points in ((2e-3, 5.0, 4096), (2e-3, 1.0, 8192), (2e-2, 5.0, 512)):
            numbers = {"width": width, "tilt": tilt, "points": float(points), "beyond": 0.0}
            found = METHODS["pld"].delta(rows, epsilon, exact, numbers)
            assert exact <= found <= (1.001 if width == 2e-3 else 1.1) * exact
        short = {"width": 2e-3, "tilt": 5.0, "points": 512.0, "beyond": 0.0}
        assert METHODS["pld"].delta(rows, epsilon, exact, short) >= exact
