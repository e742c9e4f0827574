"""Known answers of the shipped mechanisms for a value in [0, 1], and what parameters they refuse."""

import math
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest

from common.core.arrays import Words
from common.core.errors import BadMessage, PolicyRefused
from common.local.mechanisms.frequency import FrequencyOracle, public_words
from common.local.mechanisms.mechanism import (
    FLAT,
    FLAT_BITS,
    LIMIT,
    MECHANISMS,
    Laplace,
    LocalGaussian,
    Mechanism,
    _coins,
    parse_mechanism,
)
from common.numerics.randomness import RandomSource
from common.privacy.rounding import up
from curator.mechanisms.counts import FINEST, FineNoise
from tests.tiers import for_each

GAUSSIAN = {"name": "gaussian", "epsilon": 0.5, "delta": 1e-3}


@for_each(
    "wire",
    [
        None,
        7,
        {"name": "unheard-of"},
        {"name": ["warner"], "epsilon": 1.0},
        *({"name": name} for name in ("warner", "hadamard", "krr", "olh", "gaussian")),
        *({"name": "warner", "epsilon": wrong} for wrong in (0.0, -1.0, 1e-9, math.inf, math.nan, 701)),
        *({"name": name, "epsilon": wrong} for name in ("hadamard", "krr", "olh") for wrong in (0.0, 701.0)),
        *({"name": "laplace", "epsilon": wrong} for wrong in (1e-5, 31)),
        *({**GAUSSIAN, "delta": wrong} for wrong in (0.0, 1.0)),
        *({**GAUSSIAN, "epsilon": wrong} for wrong in (1.01, 8.51)),
        {**GAUSSIAN, "calibration": "hope"},
        {"name": "warner", "epsilon": 1.0, "truth": 0.9},
        {"name": "none", "epsilon": 1.0},
    ],
    ids=str,
)
def test_hostile_parameters_are_refused(wire: Any) -> None:
    with pytest.raises(BadMessage):
        parse_mechanism(wire)


def test_gaussian_refuses_real_people() -> None:
    with pytest.raises(PolicyRefused):
        LocalGaussian(epsilon=0.5, delta=1e-4).randomize(np.zeros(1), RandomSource.secure())


VALUES = np.array([0.0, 0.1, 0.5, 0.9, 1.0] * 4)
OF_VALUES: list[tuple[dict[str, Any], tuple[float, float], list[float], list[float], list[float], list[float]]] = [
    (
        {"name": "gaussian", "epsilon": 0.5, "delta": 0.0001},
        (0.5, 0.0001),
        [0.0, 1.0],
        [79.22790042028917, 79.22790042028917],
        [1.5895580084057839, 19.472085602970846],
        [2.837078883240169, -0.49238652807832806, 14.669062114093943, -2.4354476060322856],
    ),
    (
        {"name": "gaussian", "epsilon": 4.0, "delta": 1e-06, "calibration": "analytic"},
        (4.0, 1e-06),
        [0.0, 1.0],
        [1.424486617894484, 1.424486617894484],
        [0.033489732357889684, 0.4102492213841485],
        [0.3804184086991104, 0.020568038598568872, 2.3999020767608927, 0.45275629518735333],
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
        {"name": "warner", "epsilon": 3.0},
        (3.0, 0.0),
        [-0.05239569649125618, 1.0523956964912562],
        [0.05514100550206002, 0.26514100550206005],
        [0.006102820110041202, 0.07475954634800469],
        [0, 1, 0, 1, 1, 0, 0, 1],
    ),
]
OF_ITEMS: list[tuple[str, int, int, tuple[float, float], float, list[int], list[int]]] = [
    ("hadamard", 5, 2, (0.7310585786300047, 0.5), 4.382694376831178, [0, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1], [22, 27]),
    ("hadamard", 1000, 2, (0.7310585786300047, 0.5), 4.382694376831178, [0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0], [21, 22]),
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
    assert oracle.answer_kind(domain) == ("bit" if symbols == 2 else symbols)
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


EPSILONS = [0.001, 0.01, 0.3, 1.0, 2.5, 8.0, 30.0]
FINE = [FineNoise(epsilon=epsilon) for epsilon in (FINEST, 1e-8, 1e-5, 0.001, 1.0, 30.0)]
NOISE = [*(Laplace(epsilon=epsilon) for epsilon in EPSILONS), *FINE]


def digits_law(noise: Laplace, number: int) -> Fraction:
    """Return the probability of a number by its digits and the flat part."""
    law = 1 - Fraction(1, 1 << 64)
    for digit, chance in enumerate(noise.chances[1:]):
        law *= Fraction(chance if number >> digit & 1 else noise.one - chance, noise.one)
    return (law if number < 1 << len(noise.chances) - 1 else Fraction(0)) + (FLAT if number < 1 << FLAT_BITS else 0)


def law(noise: Laplace, z: int) -> Fraction:
    """Return P(Z = z), exactly."""
    other = Fraction(noise.chances[0], noise.one)
    return 1 - other if z == 0 else other / 2 * digits_law(noise, abs(z) - 1)


@for_each("noise", NOISE, ids=repr)
def test_no_two_neighbouring_integers_differ_by_more_than_e_to_the_epsilon(noise: Laplace) -> None:
    """At every carry, and where the digits end: P(z + 1) / P(z) is in [q, 1], which is e^-epsilon or more."""
    q = Fraction(noise.ratio)
    with mpmath.workdps(50):
        assert mpmath.mpf(q.numerator) / q.denominator >= mpmath.exp(-mpmath.mpf(noise.epsilon))
    end = 1 << len(noise.chances) - 1
    carries = {0, 1, 2, 3, *(1 << j for j in range(len(noise.chances))), *range(end - 3, end + 3)}
    for z in sorted(carries | {z + 1 for z in carries}):
        assert q <= law(noise, z + 1) / law(noise, z) <= 1, z
    assert law(noise, end + 1) == law(noise, 1 << FLAT_BITS) > 0
    flat = law(noise, end + 1)
    most = 1 << FLAT_BITS - 2  # numbers of up to 2^38 are cut within the flat part
    beyond = flat * ((1 << FLAT_BITS) - int(LIMIT) - most)
    assert beyond >= flat / (1 / q - 1)
    assert end <= most


@for_each("noise", NOISE, ids=repr)
def test_the_law_is_the_geometric_one(noise: Laplace) -> None:
    q = Fraction(noise.ratio)
    for z in (0, 1, 2, 5, 17):
        wanted = (1 - q) / (1 + q) * q**z
        assert abs(law(noise, z) - wanted) <= Fraction(1, 1 << 60) * wanted + FLAT


class Written(RandomSource):
    """A source of equal words, which counts them."""

    def __init__(self, word: int) -> None:
        super().__init__(bytes(32), simulated=True)
        self.word, self.calls = word, list[int]()

    def words(self, count: int) -> Words:
        self.calls.append(count)
        return np.full(count, self.word, dtype=np.uint64)


@for_each("noise", NOISE, ids=repr)
def test_words_are_consumed_by_epsilon_and_number_alone(noise: Laplace) -> None:
    """An earlier sampler went on as long as coins came up: at epsilon = 1 its time told Z = 0 in 41% of draws."""
    used, drawn = [], set()
    for word in (0, 1, 1 << 62, 1 << 63, (1 << 64) - 1):
        source = Written(word)
        drawn.add(noise.noise(3, source)[0])
        used.append(source.calls)
    assert used == used[:1] * len(used)
    assert len(drawn) > 1


def test_coins_make_the_number_that_they_stand_for() -> None:
    noise = Laplace(epsilon=1.0)
    assert Written(0).words(1)[0] == 0
    assert noise.noise(1, Written(0))[0] == 1.0  # every coin says yes, and the number is the flat part's first
    likely = [digit for digit, chance in enumerate(noise.chances[1:]) if chance >> 64 > 1]
    assert noise.noise(1, Written(1))[0] == -1.0 - sum(2.0**digit for digit in likely)
    assert noise.noise(1, Written((1 << 64) - 1))[0] == 0.0


class Given:
    """Stands for a source: the words that it gives are known."""

    def __init__(self, words: tuple[int, ...]) -> None:
        self._words = iter(words)

    def words(self, count: int) -> Words:
        return np.array([next(self._words) for _ in range(count)], dtype=np.uint64)


@for_each("count", [1, 2, 3])
def test_a_coin_comes_up_for_just_as_many_numbers_as_its_chance_says(count: int) -> None:
    """Number below chance, exactly: each word decides only where those before it are equal, and no last one ties."""
    words = (5, 7, 3)[:count]

    def number(digits: tuple[int, ...]) -> int:
        return sum(digit << 64 * place for place, digit in enumerate(reversed(digits)))

    for drawn in product(*((word - 1, word, word + 1) for word in words)):
        source: Any = Given(drawn)
        assert bool(_coins(number(words), count, 1, source)[0]) == (number(drawn) < number(words))
