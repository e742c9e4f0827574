"""Known answers of the shipped frequency oracles."""

import itertools
import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from common.local.mechanisms import frequency
from common.local.mechanisms.frequency import (
    FrequencyOracle,
    HadamardResponse,
    KaryResponse,
    LocalHashing,
    _bucket,
    _hash,
    public_words,
)
from common.local.mechanisms.mechanism import parse_mechanism
from common.local.packing import MAX_SYMBOLS
from common.numerics.kernels import interpreted
from tests.common.local.mechanisms.laws import as_real, law, odds, publics, words
from tests.tiers import for_each

EPSILONS = (0.1, 1.0, 3.0)
GREATEST = (1 << 64) - 1


def made(name: str, epsilon: float) -> FrequencyOracle:
    oracle = parse_mechanism({"name": name, "epsilon": epsilon})
    assert isinstance(oracle, FrequencyOracle)
    return oracle


ENDS = [(name, epsilon, 1 << 64) for name in ("hadamard", "olh") for epsilon in (1e-6, 11.0)]
OF_KRR = product(["krr"], [1e-6, 0.5, 2.0, 20.0, 700.0], [2, 3, 257, 1024, MAX_SYMBOLS])


@for_each(("name", "epsilon", "domain"), [*ENDS, *OF_KRR])
def test_the_likelihood_ratio_is_at_most_e_to_the_epsilon(name: str, epsilon: float, domain: int) -> None:
    """The coin tells the truth with a probability that is a whole multiple of 1/2^53; the rest is spread evenly."""
    oracle = made(name, epsilon)
    truth, symbols = Fraction(oracle.rates(domain)[0]), oracle.symbols(domain)
    assert (truth * 2**53).denominator == 1
    assert Fraction(1, symbols) < truth < 1
    with mpmath.workdps(60):
        assert as_real(truth * (symbols - 1) / (1 - truth)) <= odds(epsilon)


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


@for_each("epsilon", [0.1, 0.5, 1.0, 2.0])
def test_local_hashing_answers_truly_with_p(epsilon: float) -> None:
    oracle, hashed = LocalHashing(epsilon=epsilon), np.empty(1, dtype=np.uint64)
    p, g = Fraction(oracle.rates(1 << 64)[0]), oracle.buckets
    told = law(oracle, 5, 1 << 64, 77)
    _hash(words(5), words(77), g, hashed)
    assert told[int(hashed[0])] == p
    assert set(told.values()) == {p, (1 - p) / (g - 1)}


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
        hashes[high, low] = _bucket.plain(a, b, c, np.uint64(high), np.uint64(low)) >> np.uint64(29)  # type: ignore[attr-defined]
    for one, other in itertools.combinations(hashes.values(), 2):
        pairs = np.bincount((one * np.uint64(8) + other).astype(np.int64), minlength=64)
        assert pairs.tolist() == [64**3 // 64] * 64


def test_either_half_of_an_item_has_a_public_factor_of_its_own() -> None:
    open_words, hashed = publics(4000), np.empty((5, 4000), dtype=np.uint64)
    for item, out in zip((0, 1, 2, 1 << 32, (1 << 32) + 1), hashed, strict=True):
        _hash(np.full(4000, item, dtype=np.uint64), open_words, 4, out)
    for one, other in itertools.combinations(hashed, 2):
        assert np.mean(one == other) == pytest.approx(0.25, abs=0.05)


def test_public_words_belong_to_question_and_slot() -> None:
    slots = np.array([5, 0, 5, (1 << 32) - 1])
    found = public_words(3, slots)
    assert found[0] == found[2]
    assert found[1] == public_words(3, np.zeros(1, dtype=np.int64))[0]
    assert len(set(found.tolist()) | set(public_words(4, slots).tolist())) == 6
    with interpreted():
        assert public_words(3, slots).tolist() == found.tolist()


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


@pytest.mark.parametrize("high", [0, 1 << 40])
def test_an_answer_supports_the_items_that_its_hash_sends_to_its_bucket_however_long_they_are(high: int) -> None:
    mechanism, publics = frequency.LocalHashing(epsilon=1.5), np.arange(60, dtype=np.uint64)
    items = np.uint64(high) + np.array([0, 1, 7, 1 << 31], dtype=np.uint64)
    hashed = np.empty((len(items), len(publics)), dtype=np.uint64)
    for item, buckets in zip(items, hashed, strict=True):
        frequency._hash(np.full(len(publics), item), publics, mechanism.buckets, buckets)
    expected = (hashed == hashed[0]).sum(axis=1)
    found = mechanism.supports(hashed[0].astype(np.uint8), 1 << 48, publics, items)
    assert found.tolist() == expected.tolist()
    assert found[0] == len(publics) > max(found[1:])
