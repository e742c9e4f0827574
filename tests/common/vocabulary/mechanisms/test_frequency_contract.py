"""What every registered frequency oracle must keep, and the known answers of each.

Laws are exact: :func:`law` runs the shipped sampler once for every outcome of its coins and adds up their
probabilities as fractions. That the coins themselves are exact is tested in
``tests/common/numerics/test_coin_flips.py``.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2

from common.core.arrays import AnyArray, Bits, Indices, Words
from common.core.errors import BadMessage, PolicyRefused
from common.numerics.kernels import interpreted
from common.numerics.randomness import RandomSource
from common.vocabulary.mechanisms.base import MECHANISMS, parse_mechanism
from common.vocabulary.mechanisms.frequency import MAX_LISTED, FrequencyOracle, public_words, within
from common.vocabulary.mechanisms.hadamard import HadamardResponse
from common.vocabulary.mechanisms.krr import KaryResponse
from common.vocabulary.mechanisms.olh import LocalHashing, _bucket, _hash
from common.vocabulary.packing import MAX_SYMBOLS, answer_type

ORACLES = [name for name, kind in MECHANISMS.items() if issubclass(kind, FrequencyOracle)]
DOMAINS = {"krr": (2, 3, 16, 100), "olh": (2, 16, 1000, 1 << 64), "hadamard": (2, 16, 1000, 1 << 64)}
EPSILONS = (0.1, 1.0, 3.0)
EACH = [(name, epsilon, domain) for name in ORACLES for epsilon in EPSILONS for domain in DOMAINS[name]]
GREATEST = (1 << 64) - 1
HOSTILE = (0, GREATEST, 1 << 63, 0x5555555555555555, *range(1, 16))
"""Public words that a malicious referee may give to everybody; for some, two items have different functions."""
SIGMAS = 5.5
"""Each comparison fails with probability 4e-8 if all is right, all of this file together below 1e-5."""


def made(name: str, epsilon: float) -> FrequencyOracle:
    oracle = parse_mechanism({"name": name, "epsilon": epsilon})
    assert isinstance(oracle, FrequencyOracle)
    return oracle


def words(*values: int) -> Words:
    return np.array(values, dtype=np.uint64)


def publics(count: int, public: int = 11) -> Words:
    return public_words(public, np.arange(count))


def some_items(domain: int) -> list[int]:
    """The ends of a domain and what lies between: neighbours that differ in the lowest and in the highest bit."""
    wanted = {0, 1, domain // 2 - 1, domain // 2, domain - 2, domain - 1}
    return sorted(item for item in wanted if 0 <= item < domain)


class Undecided(Exception):
    """A coin whose outcome nobody has chosen yet."""

    def __init__(self, outcomes: list[tuple[int, Fraction]]) -> None:
        super().__init__()
        self.outcomes = outcomes


class Chosen(RandomSource):
    """Coins that fall as they are told to, one agent's at a time."""

    def __init__(self, outcomes: tuple[int, ...]) -> None:
        super().__init__(bytes(32), simulated=True)
        self._outcomes = list(outcomes)

    def _next(self, law: list[tuple[int, Fraction]], count: int) -> int:
        assert count == 1
        if not self._outcomes:
            raise Undecided(law)
        return self._outcomes.pop(0)

    def words(self, count: int) -> Words:
        raise AssertionError("an oracle's coins come from bernoullis and integers")

    def bernoullis(self, probability: float, count: int) -> Bits:
        one = Fraction(probability)
        assert (one * 2**53).denominator == 1, "the sampler would round this probability"
        return np.array([self._next([(0, 1 - one), (1, one)], count)], dtype=np.uint8)

    def integers(self, bound: int, count: int) -> Indices:
        each = Fraction(1, bound)
        return np.array([self._next([(i, each) for i in range(bound)], count)], dtype=np.int64)


def law(oracle: FrequencyOracle, item: int, domain: int, public: int) -> dict[int, Fraction]:
    """Return the exact law of one agent's answer, given its public word."""
    found: dict[int, Fraction] = defaultdict(Fraction)
    open_paths: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while open_paths:
        path, chance = open_paths.pop()
        try:
            answer = oracle.randomize(words(item), domain, words(public), Chosen(path))
        except Undecided as coin:
            open_paths += [((*path, outcome), chance * share) for outcome, share in coin.outcomes]
        else:
            found[int(answer[0])] += chance
    assert sum(found.values()) == 1
    return found


def odds(epsilon: float) -> Any:
    """e^epsilon, to 60 digits."""
    return mpmath.exp(mpmath.mpf(epsilon))


def as_real(fraction: Fraction) -> Any:
    return mpmath.mpf(fraction.numerator) / fraction.denominator


# Privacy ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "epsilon", "domain"), EACH)
def test_the_likelihood_ratio_is_at_most_e_to_the_epsilon_whatever_the_public_word(
    name: str, epsilon: float, domain: int
) -> None:
    oracle, worst = made(name, epsilon), Fraction(0)
    assert oracle.guarantee == (epsilon, 0.0)
    for public in (HOSTILE[0],) if name == "krr" else HOSTILE:
        laws = [law(oracle, item, domain, public) for item in some_items(domain)]
        for one, other in itertools.product(laws, laws):
            assert set(one) == set(other) == set(range(oracle.symbols(domain)))
            worst = max(worst, *(one[answer] / other[answer] for answer in one))
    with mpmath.workdps(60):
        assert as_real(worst) <= odds(epsilon)
        # Not loose either: some public word separates two of the items.
        assert as_real(worst) >= odds(epsilon) * (1 - mpmath.mpf(10) ** -12)


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("epsilon", [1e-6, 11.0])
def test_the_likelihood_ratio_at_the_ends_of_epsilon(name: str, epsilon: float) -> None:
    oracle = made(name, epsilon)
    domain = 3 if name == "krr" else 1 << 64
    # The coin tells the truth with a probability that is a whole multiple of 1/2^53; the rest is spread evenly.
    truth, symbols = Fraction(oracle.rates(domain)[0]), oracle.symbols(domain)
    assert (truth * 2**53).denominator == 1
    with mpmath.workdps(60):
        assert as_real(truth / ((1 - truth) / (symbols - 1))) <= odds(epsilon)
    assert truth > Fraction(1, symbols)


@pytest.mark.parametrize("domain", [2, 3, 257, 1024, MAX_SYMBOLS])
@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 2.0, 20.0, 700.0])
def test_k_ary_response_is_private_for_every_domain(epsilon: float, domain: int) -> None:
    truth = Fraction(made("krr", epsilon).rates(domain)[0])
    assert (truth * 2**53).denominator == 1
    assert Fraction(1, domain) < truth < 1
    with mpmath.workdps(60):
        assert as_real(truth * (domain - 1) / (1 - truth)) <= odds(epsilon)


@pytest.mark.parametrize("name", ORACLES)
def test_the_public_word_does_not_touch_the_coins(name: str) -> None:
    """Whatever the words are, the source is used up alike: no word can choose, skip or repeat a coin."""
    oracle, count = made(name, 1.0), 4000
    drawn = []
    for public in HOSTILE:
        source = RandomSource.seeded(5)
        oracle.randomize(np.zeros(count, dtype=np.uint64), 16, np.full(count, public, dtype=np.uint64), source)
        drawn.append(source.words(4).tolist())
    assert all(after == drawn[0] for after in drawn)


# Estimates ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("domain", [2, 5, 16])
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


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 6.0, 11.0])
def test_local_hashing_answers_truly_with_p_and_has_buckets_of_one_size(epsilon: float) -> None:
    oracle = LocalHashing(epsilon=epsilon)
    p, q = oracle.rates(1 << 64)
    g = oracle.buckets
    assert q == 1 / g
    assert abs(g - (math.exp(epsilon) + 1)) <= 1
    # h(v) = (32-bit word times g) >> 32: bucket y holds the words from ceil(y 2^32/g) to the next such number.
    first = [-(-(y << 32) // g) for y in range(g + 1)]
    assert all(
        abs(Fraction(b - a, 1 << 32) - Fraction(1, g)) <= Fraction(1, 1 << 32) for a, b in itertools.pairwise(first)
    )
    if epsilon <= 2.0:
        told = law(oracle, 5, 1 << 64, 77)
        hashed = np.empty(1, dtype=np.uint64)
        _hash(words(5), words(77), g, hashed)
        assert told[int(hashed[0])] == Fraction(p)
        assert set(told.values()) == {Fraction(p), (1 - Fraction(p)) / (g - 1)}


@pytest.mark.parametrize(("name", "epsilon", "domain"), EACH)
def test_estimates_are_unbiased(name: str, epsilon: float, domain: int) -> None:
    """60,000 people: the mean error of each share is within 5.5 of its stated standard errors."""
    oracle, count = made(name, epsilon), 60_000
    first, second = 0, domain - 1
    items = np.where(np.arange(count) % 10 < 3, words(first), words(second))
    items[::5] = domain // 2
    shares = {item: float(np.mean(items == np.uint64(item))) for item in some_items(domain)}
    assert max(shares.values()) > 0.3
    open_words = publics(count)
    answers = oracle.randomize(items, domain, open_words, RandomSource.seeded(3, name))
    assert answers.dtype == answer_type(oracle.answer_kind(domain))
    found = oracle.shares(oracle.supports(answers, domain, open_words, words(*shares)), count, domain)
    for estimate, share in zip(found, shares.values(), strict=True):
        assert estimate == pytest.approx(share, abs=SIGMAS * math.sqrt(oracle.variance(share, domain) / count))


@pytest.mark.parametrize(("name", "epsilon", "domain"), [each for each in EACH if each[2] not in (2, 1 << 64)])
def test_estimates_vary_as_much_as_stated(name: str, epsilon: float, domain: int) -> None:
    """3000 repetitions with 100 people each, of whom 40 hold an item, 60 another and nobody a third."""
    oracle, people, repetitions = made(name, epsilon), 100, 3000
    held, absent = (0, domain - 1), 1
    items = np.tile(np.repeat(words(*held), (40, 60)), repetitions)
    open_words = publics(len(items), 5)
    answers = oracle.randomize(items, domain, open_words, RandomSource.seeded(4, name))
    candidates = words(*held, absent)
    estimates = np.empty((repetitions, 3))
    for i in range(repetitions):
        block = slice(i * people, (i + 1) * people)
        supports = oracle.supports(answers[block], domain, open_words[block], candidates)
        estimates[i] = oracle.shares(supports, people, domain)
    for column, share in enumerate((0.4, 0.6, 0.0)):
        stated = oracle.variance(share, domain) / people
        squares = (estimates[:, column] - share) ** 2
        assert squares.mean() == pytest.approx(stated, abs=SIGMAS * squares.std() / math.sqrt(repetitions))


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


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("domain", [2, 3, 16, 100, 1000])
def test_all_items_at_once_are_the_items_one_by_one(name: str, domain: int) -> None:
    oracle, count = made(name, 1.5), 3000
    items = RandomSource.seeded(6).integers(domain, count).astype(np.uint64)
    open_words = publics(count)
    answers = oracle.randomize(items, domain, open_words, RandomSource.seeded(7))
    at_once = oracle.all_supports(answers, domain, open_words)
    one_by_one = [oracle.supports(answers, domain, open_words, words(item))[0] for item in range(domain)]
    assert at_once.dtype == np.int64
    assert at_once.tolist() == one_by_one
    # A slow oracle of one's own: the candidate's answer without noise, person by person.
    for item in (0, domain - 1):
        assert at_once[item] == plain_supports(oracle, answers, domain, open_words, item)


def plain_supports(oracle: FrequencyOracle, answers: AnyArray, domain: int, open_words: Words, item: int) -> int:
    """Count the answers that each agent would most likely give if it held the item: those that support it."""
    mask, mod = (1 << 64) - 1, 1 << 32

    def likeliest(public: int) -> int:
        if isinstance(oracle, HadamardResponse):
            return (item & public).bit_count() % 2
        if isinstance(oracle, LocalHashing):
            a, b, c = (splitmix((public + (j + 1) * 0x9E3779B97F4A7C15) & mask) for j in range(3))
            return ((((a * (item >> 32) + b * (item % mod) + c) & mask) >> 32) * oracle.buckets) >> 32
        return item

    return sum(
        likeliest(public) == answer for public, answer in zip(open_words.tolist(), answers.tolist(), strict=True)
    )


def splitmix(word: int) -> int:
    """The finalizer of SplitMix64, in Python's integers."""
    mask = (1 << 64) - 1
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & mask
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & mask
    return word ^ (word >> 31)


# The hash of local hashing ------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_public_words_give_hashes_that_look_independent(epsilon: float) -> None:
    """Chi-square over g^2 cells, 300,000 public words, failing with 1e-7 for each pair of items."""
    g, count = LocalHashing(epsilon=epsilon).buckets, 300_000
    open_words, hashed = publics(count, 9), {}
    for item in (0, 1, 2, 3, 1 << 31, 1 << 32, (1 << 32) + 1, GREATEST):
        hashed[item] = np.empty(count, dtype=np.uint64)
        _hash(np.full(count, item, dtype=np.uint64), open_words, g, hashed[item])
        assert hashed[item].max() < g
    for one, other in itertools.combinations(hashed.values(), 2):
        pairs = np.bincount((one * np.uint64(g) + other).astype(np.int64), minlength=g * g)
        distance = float(((pairs - count / g**2) ** 2).sum() / (count / g**2))
        assert distance < chi2.isf(1e-7, g * g - 1)


# Manners ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "epsilon", "domain"), [each for each in EACH if each[2] < 1 << 64])
def test_items_beyond_the_domain_are_taken_for_its_last(name: str, epsilon: float, domain: int) -> None:
    oracle, open_words = made(name, epsilon), publics(4)
    beyond, last = words(domain, domain + 7, 1 << 63, GREATEST), np.full(4, domain - 1, dtype=np.uint64)
    assert within(beyond, domain).tolist() == last.tolist()
    given, clamped = (
        oracle.randomize(np.tile(items, 50), domain, np.tile(open_words, 50), RandomSource.seeded(1))
        for items in (beyond, last)
    )
    assert given.tolist() == clamped.tolist()
    assert int(given.max()) < oracle.symbols(domain)


def test_the_largest_domain_has_nothing_beyond() -> None:
    assert within(words(0, GREATEST), 1 << 64).tolist() == [0, GREATEST]


@pytest.mark.parametrize(("name", "epsilon", "domain"), EACH)
def test_answers_are_fresh_and_the_same_source_gives_the_same(name: str, epsilon: float, domain: int) -> None:
    oracle, open_words = made(name, epsilon), publics(2000)
    items = np.arange(2000, dtype=np.uint64)
    one, again, source = (RandomSource.seeded(seed) for seed in (1, 1, 2))
    first = oracle.randomize(items, domain, open_words, one)
    assert first.tolist() == oracle.randomize(items, domain, open_words, again).tolist()
    fresh = [oracle.randomize(items, domain, open_words, source).tolist() for _ in range(2)]
    assert fresh[0] != fresh[1]


@pytest.mark.parametrize(("name", "epsilon", "domain"), EACH)
def test_nobody_at_all(name: str, epsilon: float, domain: int) -> None:
    oracle, nobody = made(name, epsilon), np.empty(0, dtype=np.uint64)
    answers = oracle.randomize(nobody, domain, nobody, RandomSource.seeded(1))
    assert answers.shape == (0,)
    assert answers.dtype == answer_type(oracle.answer_kind(domain))
    supports = oracle.supports(answers, domain, nobody, words(0, 1))
    assert supports.tolist() == [0, 0]
    assert np.isfinite(oracle.shares(supports, 0, domain)).all()
    if domain <= 1000:
        assert oracle.all_supports(answers, domain, nobody).tolist() == [0] * domain
    assert oracle.supports(answers, domain, nobody, nobody).shape == (0,)


@pytest.mark.parametrize("name", ORACLES)
def test_the_wire_brings_back_the_same(name: str) -> None:
    oracle = made(name, 1.25)
    assert parse_mechanism(oracle.wire()) == oracle


@pytest.mark.parametrize("name", ORACLES)
def test_values_are_refused(name: str) -> None:
    with pytest.raises(PolicyRefused, match=f"'{name}' randomizes an item, the query says a value"):
        made(name, 1.0).answer_kind(None)


@pytest.mark.parametrize("domain", [0, 1, MAX_SYMBOLS + 1, 1 << 64])
def test_k_ary_response_names_only_so_many_items(domain: int) -> None:
    oracle = made("krr", 1.0)
    for call in (oracle.answer_kind, oracle.rates):
        with pytest.raises(PolicyRefused, match=f"one of 2 to 65536 items, found {domain}: take olh or hadamard"):
            call(domain)


@pytest.mark.parametrize("name", [name for name in ORACLES if name != "krr"])
@pytest.mark.parametrize("domain", [MAX_LISTED + 1, 1 << 64])
def test_domains_too_large_to_list_are_refused(name: str, domain: int) -> None:
    nobody = np.empty(0, dtype=np.uint64)
    with pytest.raises(PolicyRefused, match=f"at most {MAX_LISTED} items are estimated at once, found {domain}"):
        made(name, 1.0).all_supports(nobody.astype(np.uint8), domain, nobody)


def test_what_an_answer_is() -> None:
    assert [made("krr", 1.0).answer_kind(k) for k in (2, 3, 256, 65536)] == ["bit", 3, 256, 65536]
    assert made("hadamard", 1.0).answer_kind(1 << 64) == "bit"
    assert [made("olh", epsilon).answer_kind(1 << 64) for epsilon in (0.1, 1.0, 3.0, 8.0)] == ["bit", 4, 21, 2982]


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize(
    "wrong",
    [{}, {"epsilon": 0.0}, {"epsilon": -1.0}, {"epsilon": math.nan}, {"epsilon": 701.0}, {"epsilon": 1, "g": 2}],
)
def test_hostile_parameters_are_refused(name: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadMessage):
        parse_mechanism({"name": name, **wrong})


def test_public_words_belong_to_question_and_slot() -> None:
    slots = np.array([5, 0, 5, (1 << 32) - 1])
    found = public_words(3, slots)
    assert found[0] == found[2]
    assert found[1] == public_words(3, np.zeros(1, dtype=np.int64))[0]
    assert len(set(found.tolist()) | set(public_words(4, slots).tolist())) == 6


@pytest.mark.parametrize(("name", "epsilon", "domain"), EACH)
def test_one_answer_is_the_same_without_a_compiler(name, epsilon, domain):
    oracle = made(name, epsilon)
    for item, public in itertools.product(some_items(domain), HOSTILE):
        compiled = oracle.randomize(words(item), domain, words(public), RandomSource.seeded(public % 1000))
        with interpreted():
            plain = oracle.randomize(words(item), domain, words(public), RandomSource.seeded(public % 1000))
        assert (plain.tobytes(), plain.dtype) == (compiled.tobytes(), compiled.dtype)


def test_public_words_are_the_same_without_a_compiler():
    compiled = public_words(11, np.arange(20))
    with interpreted():
        np.testing.assert_array_equal(public_words(11, np.arange(20)), compiled)
