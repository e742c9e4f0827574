"""Known answers of the shipped mechanisms for a value in [0, 1], and what parameters they refuse."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest

from common.core.arrays import Words
from common.core.errors import BadMessage, PolicyRefused
from common.local.mechanisms import frequency
from common.local.mechanisms.frequency import FrequencyOracle, HadamardResponse, KaryResponse, LocalHashing
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
from common.numerics.kernels import interpreted
from common.numerics.randomness import RandomSource
from tests.common.local.mechanisms.laws import law, publics, words
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
        *(
            {"name": "warner-levels", "epsilons": wrong}
            for wrong in ([1.0], [1.0, 1.0], [2.0, 1.0], [0.0, 1.0], [1, 701])
        ),
        {"name": "warner-levels", "epsilons": [1.0, 2.0], "level": 2},
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
OF_VALUES: list[tuple[dict[str, Any], float, list[float], list[float], list[float], list[float]]] = [
    (
        {"name": "gaussian", "epsilon": 0.5, "delta": 0.0001}, 0.0001, [0, 1], [79.2279004203, 79.2279004203],
        [1.58955800841, 19.4720856030], [2.83707888324, -0.492386528078, 14.6690621141, -2.43544760603],
    ),
    (
        {"name": "gaussian", "epsilon": 4.0, "delta": 1e-06, "calibration": "analytic"}, 1e-06, [0, 1],
        [1.42448661789, 1.42448661789], [0.0334897323579, 0.410249221384],
        [0.380418408699, 0.0205680385986, 2.39990207676, 0.452756295187],
    ),
    (
        {"name": "laplace", "epsilon": 8.0}, 0.0, [0, 1], [0.000671375623113, 0.210671375623],
        [0.00501347242131, 0.0614213289261], [0, 1, 0, 1, 1, 0, 0, 1],
    ),
    ({"name": "none"}, 1.0, [0, 1], [0.0, 0.21], [0.005, 0.06125], [0, 1, 0, 1, 1, 0, 0, 1]),
    (
        {"name": "warner", "epsilon": 3.0}, 0.0, [-0.0523956964913, 1.05239569649], [0.0551410055021, 0.265141005502],
        [0.00610282011004, 0.0747595463480], [0, 1, 0, 1, 1, 0, 0, 1],
    ),
    (
        {"name": "warner-levels", "epsilons": [3.0, 5.0]}, 0.0, [-0.0523956964913, 1.05239569649],
        [0.0551410055021, 0.265141005502], [0.00610282011004, 0.0747595463480], [2, 3, 2, 3, 3, 2, 2, 3],
    ),
]  # fmt: skip
OF_ITEMS: list[tuple[str, int, int, tuple[float, float], float, list[int], list[int]]] = [
    ("hadamard", 5, 2, (0.7310585786300048, 0.5), 4.382694376831172, [0, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1], [22, 27]),
    ("hadamard", 1000, 2, (0.7310585786300048, 0.5), 4.382694376831172, [0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0], [21, 22]),
    (
        "krr", 5, 5, (0.40460967519168956, 0.1488475812020776), 2.4605432924055872,
        [0, 2, 0, 1, 2, 2, 4, 4, 0, 4, 0, 2], [12, 5],
    ),
    (
        "krr", 1000, 1000, (0.0027136190661283255, 0.000998284665599471), 513.1839931946886,
        [179, 389, 550, 327, 147, 756, 51, 760, 847, 830, 229, 715], [0, 0],
    ),
    ("olh", 5, 4, (0.47536688641867164, 0.25), 4.057235982952151, [3, 0, 1, 3, 3, 2, 3, 2, 0, 2, 1, 2], [17, 11]),
    ("olh", 1000, 4, (0.47536688641867164, 0.25), 4.057235982952151, [3, 2, 1, 1, 3, 3, 3, 1, 0, 1, 1, 3], [14, 7]),
]  # fmt: skip


@for_each(("settings", "delta", "unbiased", "variances", "moments", "answers"), OF_VALUES, ids=str)
def test_a_mechanism_of_values(settings, delta, unbiased, variances, moments, answers) -> None:
    mechanism = parse_mechanism(settings)
    assert isinstance(mechanism, Mechanism)
    assert mechanism.guarantee == (settings.get("epsilon", settings.get("epsilons", [math.inf])[-1]), delta)
    for found, known in (
        (mechanism.unbias(np.array([0, 1])).tolist(), unbiased),
        ([mechanism.variance(value) for value in (0.0, 0.3)], variances),
        ([mechanism.log_mgf(rate) for rate in (-0.2, 0.7)], moments),
        (mechanism.randomize(VALUES, RandomSource.seeded(1))[: len(answers)].tolist(), answers),
    ):
        assert found == pytest.approx(known, rel=1e-9, abs=0.0)


@for_each(("name", "domain", "symbols", "rates", "variance", "answers", "supports"), OF_ITEMS)
def test_a_mechanism_of_items(name, domain, symbols, rates, variance, answers, supports) -> None:
    oracle = made(name, 1.0)
    assert oracle.guarantee == (1.0, 0.0)
    assert oracle.answer_kind(domain) == ("bit" if symbols == 2 else symbols)
    assert oracle.rates(domain) == pytest.approx(rates, rel=4e-16, abs=0.0)
    assert oracle.variance(0.3, domain) == pytest.approx(variance, rel=1.2e-15, abs=0.0)
    items = np.arange(40, dtype=np.uint64) * np.uint64(7) % np.uint64(domain)
    open_words = publics(40, 5)
    found = oracle.randomize(items, domain, open_words, RandomSource.seeded(1))
    assert found[: len(answers)].tolist() == answers
    some = np.arange(2, dtype=np.uint64)
    assert oracle.supports(found, domain, open_words, some).tolist() == supports
    # The first prefix, continued by one bit: the same two items.
    assert oracle.extended_supports(found, domain, open_words, some[:1], 1).tolist() == [supports]


def test_laplace_has_moments_below_its_own_rate_only() -> None:
    mechanism = parse_mechanism({"name": "laplace", "epsilon": 1.0})
    assert isinstance(mechanism, Laplace)
    end = -math.log(mechanism.ratio)
    assert [mechanism.log_mgf(rate) for rate in (end, -end, 2.0, -2.0)] == [math.inf] * 4
    assert 0.0 < mechanism.log_mgf(0.999) < 100.0
    rounded = Laplace(epsilon=1.016227727258292)  # so near its end, its bound is beyond what doubles can tell apart
    assert rounded.log_mgf(math.nextafter(-math.log(rounded.ratio), 0.0)) == math.inf


@for_each("epsilon", [0.3, 0.7, 1.0, 1.9, 4.1])
def test_laplace_takes_the_least_multiple_that_is_enough(epsilon: float) -> None:
    found = Fraction(Laplace(epsilon=epsilon).ratio)
    assert (found * 2**53).denominator == 1
    with mpmath.workdps(60):
        ends = [mpmath.mpf(each.numerator) / each.denominator for each in (found - Fraction(1, 2**53), found)]
        assert ends[0] < mpmath.exp(-epsilon) <= ends[1]


def test_every_registered_mechanism_is_known() -> None:
    assert {row[0]["name"] for row in OF_VALUES} | {row[0] for row in OF_ITEMS} == set(MECHANISMS.names())


NOISE_EPSILONS = [0.001, 0.01, 0.3, 1.0, 2.5, 8.0, 30.0]
NOISE = [Laplace(epsilon=epsilon) for epsilon in NOISE_EPSILONS]


def digits_law(noise: Laplace, number: int) -> Fraction:
    found = 1 - Fraction(1, 1 << 64)
    for digit, chance in enumerate(noise.chances[1:]):
        found *= Fraction(chance if number >> digit & 1 else noise.one - chance, noise.one)
    return (found if number < 1 << len(noise.chances) - 1 else Fraction(0)) + (FLAT if number < 1 << FLAT_BITS else 0)


def noise_law(noise: Laplace, z: int) -> Fraction:
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
        assert q <= noise_law(noise, z + 1) / noise_law(noise, z) <= 1, z
    assert noise_law(noise, end + 1) == noise_law(noise, 1 << FLAT_BITS) > 0
    flat = noise_law(noise, end + 1)
    most = 1 << FLAT_BITS - 2  # numbers of up to 2^38 are cut within the flat part
    beyond = flat * ((1 << FLAT_BITS) - int(LIMIT) - most)
    assert beyond >= flat / (1 / q - 1)
    assert end <= most


@for_each("noise", NOISE, ids=repr)
def test_the_law_is_the_geometric_one(noise: Laplace) -> None:
    q = Fraction(noise.ratio)
    for z in (0, 1, 2, 5, 17):
        wanted = (1 - q) / (1 + q) * q**z
        assert abs(noise_law(noise, z) - wanted) <= Fraction(1, 1 << 60) * wanted + FLAT


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
        assert bool(_coins(np.array([words], dtype=np.uint64), 1, source)[0, 0]) == (number(drawn) < number(words))


EPSILONS = (0.1, 1.0, 3.0)


def made(name: str, epsilon: float) -> FrequencyOracle:
    oracle = parse_mechanism({"name": name, "epsilon": epsilon})
    assert isinstance(oracle, FrequencyOracle)
    return oracle


@for_each("epsilon", EPSILONS)
@for_each("domain", [2, 5, pytest.param(16, marks=pytest.mark.slow)])
def test_k_ary_response_and_hadamard_response_have_exactly_the_stated_p_and_q(epsilon: float, domain: int) -> None:
    """Over all their public words (of Hadamard response the low bits count): no approximation anywhere."""
    rows = 1 << (domain - 1).bit_length()
    for oracle, publicly in ((KaryResponse(epsilon=epsilon), 1), (HadamardResponse(epsilon=epsilon), rows)):
        p, q = (Fraction(rate) for rate in oracle.rates(domain))
        for own, other in itertools.product(range(domain), range(domain)):
            chance = Fraction(0)
            for public in range(publicly):
                told = law(oracle, own, domain, public)
                for answer, share in told.items():
                    given = words(answer).astype(np.uint8)
                    chance += share * int(oracle.supports(given, domain, words(public), words(other))[0]) / publicly
            if own == other:
                assert chance == p
            elif isinstance(oracle, HadamardResponse):
                assert chance == q
            else:
                # (1 - p)/(k - 1) need not be a double.
                assert abs(chance - q) <= q * Fraction(1, 2**52)


def test_the_variances_of_rare_items_are_the_published_ones() -> None:
    """Wang et al. (2017), E = e^eps: 4 E/(E - 1)^2 for local hashing, (E + k - 2)/(E - 1)^2 for krr."""
    for epsilon in (0.1, 1.0, 3.0, 6.0):
        e = math.exp(epsilon)
        hashing = LocalHashing(epsilon=epsilon).variance(0.0, 1 << 64)
        assert 4 * e / (e - 1) ** 2 * (1 - 1e-9) <= hashing <= 1.03 * 4 * e / (e - 1) ** 2
        assert KaryResponse(epsilon=epsilon).variance(0.0, 50) == pytest.approx((e + 48) / (e - 1) ** 2, rel=1e-9)
        assert HadamardResponse(epsilon=epsilon).variance(0.0, 50) == pytest.approx(((e + 1) / (e - 1)) ** 2, rel=1e-9)


def test_no_other_number_of_buckets_has_less_variance() -> None:
    for epsilon in np.linspace(0.05, 5.0, 34):
        oracle = LocalHashing(epsilon=float(epsilon))
        assert oracle.buckets == min(range(2, 300), key=oracle._variance)


def test_the_hashes_of_two_items_are_independent_and_uniform() -> None:
    """Multiply-shift, exactly: items of 3 + 3 bits, words a, b, c of which only the 6 highest bits count, 3 bits out.

    Then a v_high + b v_low + c is arithmetic modulo 64 on the highest bits, and all 64^3 words can be tried: each of
    the 64 pairs of hashes comes equally often (Dietzfelbinger 1996, words of 6 >= 3 + 3 - 1 bits).
    """
    top = np.uint64(58)
    a, b, c = (grid.ravel().astype(np.uint64) << top for grid in np.meshgrid(*[np.arange(64)] * 3))
    hashes = {}
    for high, low in [(0, 0), (0, 1), (1, 0), (7, 7), (3, 5), (3, 1), (4, 0), (0, 4)]:
        # The compiled function, broadcast by its Python form.
        bucket = frequency._bucket.plain(a, b, c, np.uint64(high), np.uint64(low))  # type: ignore[attr-defined]
        hashes[high, low] = bucket >> np.uint64(29)
    for one, other in itertools.combinations(hashes.values(), 2):
        pairs = np.bincount((one * np.uint64(8) + other).astype(np.int64), minlength=64)
        assert pairs.tolist() == [64**3 // 64] * 64


def test_either_half_of_an_item_has_a_public_factor_of_its_own() -> None:
    open_words, hashed = publics(4000), np.empty((5, 4000), dtype=np.uint64)
    for item, out in zip((0, 1, 2, 1 << 32, (1 << 32) + 1), hashed, strict=True):
        frequency._hash(np.full(4000, item, dtype=np.uint64), open_words, 4, out)
    for one, other in itertools.combinations(hashed, 2):
        assert np.mean(one == other) == pytest.approx(0.25, abs=0.05)


def test_public_words_belong_to_question_and_slot() -> None:
    slots = np.array([5, 0, 5, (1 << 32) - 1])
    found = frequency.public_words(3, slots)
    assert found[0] == found[2]
    assert found[1] == frequency.public_words(3, np.zeros(1, dtype=np.int64))[0]
    assert len(set(found.tolist()) | set(frequency.public_words(4, slots).tolist())) == 6
    with interpreted():
        assert frequency.public_words(3, slots).tolist() == found.tolist()


@for_each("buckets", [2, 3, 4, 7, 21])
@for_each("long", [False, True])
def test_buckets_meet_without_gap_or_overlap(monkeypatch: pytest.MonkeyPatch, buckets: int, long: bool) -> None:
    # The public word is made the hash itself, in 32 bits: two factors are 0, the summand is the word.
    monkeypatch.setattr(frequency, "word", lambda public, place: np.uint64(public << 32 if place == 2 else 0))
    borders = [-(-(y << 32) // buckets) + step for y in range(buckets + 1) for step in (-1, 0, 1)]
    hashes = [border for border in borders if 0 <= border < 1 << 32]
    nothing, answers = np.zeros(1, dtype=np.uint64), np.empty(len(hashes), dtype=np.uint64)
    frequency._hash.plain(np.zeros(len(hashes), dtype=np.uint64), hashes, buckets, answers)  # type: ignore[attr-defined]
    assert answers.tolist() == [(value * buckets) >> 32 for value in hashes]
    for value, answer in zip(hashes, answers, strict=True):
        supported = []
        for bucket in range(buckets):
            counts = np.zeros(1, dtype=np.int64)
            told = np.array([bucket], dtype=np.uint8)
            with np.errstate(over="ignore"):  # a hash below the bucket wraps around, as it is to
                frequency._count.plain(told, [value], buckets, nothing, nothing, long, counts)  # type: ignore[attr-defined]
            supported.append(int(counts[0]))
        assert supported == [int(bucket == answer) for bucket in range(buckets)]
