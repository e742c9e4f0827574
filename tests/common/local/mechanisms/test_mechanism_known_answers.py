"""Known numbers of every registered mechanism: what it claims, how it is undone, and its answers under a fixed key.

That they are right is shown by the contracts beside this file, with room for chance. Here whatever moves shows.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from common.local.mechanisms.frequency import FrequencyOracle, public_words
from common.local.mechanisms.laplace import Laplace
from common.local.mechanisms.mechanism import MECHANISMS, Mechanism, parse_mechanism
from common.numerics.randomness import RandomSource
from common.privacy.rounding import up
from tests.tiers import for_each

VALUES = np.array([0.0, 0.1, 0.5, 0.9, 1.0] * 4)
OF_VALUES: list[tuple[dict[str, Any], tuple[float, float], list[float], list[float], list[float], list[float]]] = [
    (
        {"name": "gaussian", "epsilon": 0.5, "delta": 0.0001},
        (0.5, 0.0001),
        [0.0, 1.0],
        [79.22790042028917, 79.22790042028917],
        [1.5895580084057839, 19.472085602970846],
        [
            2.837078883240169,
            -0.49238652807832806,
            14.669062114093943,
            -2.4354476060322856,
            -0.06490597853552349,
            3.996913659172725,
            -21.174598500082435,
            -5.957807378680311,
        ],
    ),
    (
        {"name": "gaussian", "epsilon": 0.5, "delta": 0.0001, "calibration": "paper"},
        (0.5, 0.0001),
        [0.0, 1.0],
        [79.22790042028917, 79.22790042028917],
        [1.5895580084057839, 19.472085602970846],
        [
            2.837078883240169,
            -0.49238652807832806,
            14.669062114093943,
            -2.4354476060322856,
            -0.06490597853552349,
            3.996913659172725,
            -21.174598500082435,
            -5.957807378680311,
        ],
    ),
    (
        {"name": "gaussian", "epsilon": 4.0, "delta": 1e-06, "calibration": "analytic"},
        (4.0, 1e-06),
        [0.0, 1.0],
        [1.424486617894484, 1.424486617894484],
        [0.033489732357889684, 0.4102492213841485],
        [
            0.3804184086991104,
            0.020568038598568872,
            2.3999020767608927,
            0.45275629518735333,
            0.857208821312016,
            0.5359384058414673,
            -2.7526696789871097,
            -0.36591487504824916,
        ],
    ),
    (
        {"name": "laplace", "epsilon": 0.25},
        (0.25, 0.0),
        [0.0, 1.0],
        [31.833852877737563, 32.043852877737564],
        [1.0233293990715042, math.inf],
        [0.0, 12.0, 4.0, -1.0, -5.0, 0.0, -1.0, 1.0],
    ),
    (
        {"name": "laplace", "epsilon": 8.0},
        (8.0, 0.0),
        [0.0, 1.0],
        [0.0006713756231133383, 0.21067137562311333],
        [0.0050134724213102815, 0.061421328926116986],
        [0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0],
    ),
    (
        {"name": "none"},
        (math.inf, 1.0),
        [0.0, 1.0],
        [0.0, 0.21],
        [0.005000000000000001, 0.06124999999999999],
        [0, 1, 0, 1, 1, 0, 0, 1],
    ),
    (
        {"name": "warner", "epsilon": 0.1},
        (0.1, 0.0),
        [-9.508331944775083, 10.508331944775083],
        [99.9167083168054, 100.1267083168054],
        [2.0033341663361086, 24.54084353761732],
        [1, 1, 0, 1, 1, 0, 0, 1],
    ),
    (
        {"name": "warner", "epsilon": 3.0},
        (3.0, 0.0),
        [-0.05239569649125618, 1.0523956964912562],
        [0.05514100550206002, 0.26514100550206005],
        [0.006102820110041202, 0.07475954634800469],
        [0, 1, 0, 1, 1, 0, 0, 1],
    ),
]
OF_ITEMS: list[tuple[str, int, int, tuple[float, float], float, list[int], list[int]]] = [
    ("hadamard", 2, 2, (0.7310585786300047, 0.5), 4.382694376831178, [0, 1, 1, 1, 0, 1, 1, 0, 1, 0, 0, 0], [28, 33]),
    ("hadamard", 5, 2, (0.7310585786300047, 0.5), 4.382694376831178, [0, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1], [22, 27]),
    ("hadamard", 1000, 2, (0.7310585786300047, 0.5), 4.382694376831178, [0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0], [21, 22]),
    (
        "krr",
        2,
        2,
        (0.7310585786300047, 0.2689414213699953),
        0.9206735942077944,
        [0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 1],
        [16, 24],
    ),
    (
        "krr",
        5,
        5,
        (0.40460967519168933, 0.14884758120207767),
        2.460543292405591,
        [0, 2, 0, 1, 2, 2, 4, 4, 0, 4, 0, 2],
        [12, 5],
    ),
    (
        "krr",
        1000,
        1000,
        (0.0027136190661283255, 0.000998284665599471),
        513.1839931946886,
        [179, 389, 550, 327, 147, 756, 51, 760, 847, 830, 229, 715],
        [0, 0],
    ),
    ("olh", 2, 4, (0.4753668864186714, 0.25), 4.057235982952159, [3, 3, 0, 3, 3, 3, 3, 3, 1, 2, 1, 0], [18, 19]),
    ("olh", 5, 4, (0.4753668864186714, 0.25), 4.057235982952159, [3, 0, 1, 3, 3, 2, 3, 2, 0, 2, 1, 2], [17, 11]),
    ("olh", 1000, 4, (0.4753668864186714, 0.25), 4.057235982952159, [3, 2, 1, 1, 3, 3, 3, 1, 0, 1, 1, 3], [14, 7]),
]


@for_each(("settings", "guarantee", "unbiased", "variances", "moments", "answers"), OF_VALUES, ids=str)
def test_a_mechanism_of_values(
    settings: dict[str, Any],
    guarantee: tuple[float, float],
    unbiased: list[float],
    variances: list[float],
    moments: list[float],
    answers: list[float],
) -> None:
    mechanism = parse_mechanism(settings)
    assert isinstance(mechanism, Mechanism)
    assert mechanism.guarantee == guarantee
    assert mechanism.unbias(np.array([0, 1])).tolist() == pytest.approx(unbiased, rel=1e-14, abs=0.0)
    assert [mechanism.variance(value) for value in (0.0, 0.3)] == pytest.approx(variances, rel=1.2e-15, abs=0.0)
    assert [mechanism.log_mgf(rate) for rate in (-0.2, 0.7)] == pytest.approx(moments, rel=1.2e-15, abs=0.0)
    found = mechanism.randomize(VALUES, RandomSource.seeded(1))
    assert len(found) == len(VALUES)
    assert found[: len(answers)].tolist() == pytest.approx(answers, rel=1e-9)


@for_each(("name", "domain", "symbols", "rates", "variance", "answers", "supports"), OF_ITEMS)
def test_a_mechanism_of_items(
    name: str,
    domain: int,
    symbols: int,
    rates: tuple[float, float],
    variance: float,
    answers: list[int],
    supports: list[int],
) -> None:
    oracle = parse_mechanism({"name": name, "epsilon": 1.0})
    assert isinstance(oracle, FrequencyOracle)
    assert oracle.guarantee == (1.0, 0.0)
    assert oracle.symbols(domain) == symbols
    assert oracle.rates(domain) == pytest.approx(rates, rel=4e-16, abs=0.0)
    assert oracle.variance(0.3, domain) == pytest.approx(variance, rel=1.2e-15, abs=0.0)
    items = np.arange(40, dtype=np.uint64) * np.uint64(7) % np.uint64(domain)
    publics = public_words(5, np.arange(40))
    found = oracle.randomize(items, domain, publics, RandomSource.seeded(1))
    assert found[: len(answers)].tolist() == answers
    some = np.arange(2, dtype=np.uint64)
    assert oracle.supports(found, domain, publics, some).tolist() == supports
    # The first prefix, continued by one bit: the same two items.
    assert oracle.extended_supports(found, domain, publics, some[:1], 1).tolist() == [supports]


def test_laplace_has_moments_below_its_own_rate_only() -> None:
    mechanism = parse_mechanism({"name": "laplace", "epsilon": 1.0})
    assert isinstance(mechanism, Laplace)
    end = -math.log(mechanism.ratio)
    assert [mechanism.log_mgf(rate) for rate in (end, -end, 2.0, -2.0)] == [math.inf] * 4
    assert 0.0 < mechanism.log_mgf(0.999) < 100.0
    rounded = Laplace(epsilon=3.844428360038116)  # so near its end, its bound is beyond what doubles can tell apart
    assert rounded.log_mgf(math.nextafter(-math.log(rounded.ratio), 0.0)) == math.inf


@for_each("epsilon", [0.3, 0.7, 1.0, 1.9, 4.1])
def test_laplace_keeps_to_the_least_multiple_that_is_surely_enough(epsilon: float) -> None:
    found, wanted = Fraction(Laplace(epsilon=epsilon).ratio), Fraction(up(math.exp(-epsilon)))
    assert (found * 2**53).denominator == 1
    assert found - Fraction(1, 2**53) < wanted <= found


def test_every_registered_mechanism_is_known() -> None:
    assert {row[0]["name"] for row in OF_VALUES} | {row[0] for row in OF_ITEMS} == set(MECHANISMS.names())
