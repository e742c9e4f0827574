"""What every registered frequency oracle must keep; a new one is tested on its own examples by being registered.

Known answers of the shipped ones stand in ``test_known_mechanisms.py``.
"""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from common.core.errors import BadMessage, PolicyRefused
from common.local.mechanisms.frequency import FrequencyOracle, within
from common.local.mechanisms.mechanism import MECHANISMS, parse_mechanism
from common.local.packing import answer_type
from common.numerics.kernels import interpreted
from common.numerics.randomness import RandomSource
from tests.common.local.mechanisms.laws import as_real, law, odds, publics, words
from tests.contracts import examples, with_a_number_that_is_none
from tests.tiers import for_each, thinned

ORACLES = examples(MECHANISMS, lambda kind: issubclass(kind, FrequencyOracle))
EACH = [
    pytest.param(param.values[0], domain, id=f"{param.id}-{domain}")
    for param in ORACLES
    for domain in (2, 3, 16, 100, 1000, 1 << 64)
    if domain <= param.values[0].max_domain
]
MIDDLING = [each for each in EACH if 2 < each.values[1] <= 1000]
GREATEST = (1 << 64) - 1
HOSTILE = (0, GREATEST, 1 << 63, 0x5555555555555555, *range(1, 16))
"""Public words that a malicious referee may give to everybody; for some, two items have different functions."""
FEW_SYMBOLS = 32
"""Up to so many, the exact law is worked out for every hostile word, else for two."""
SIGMAS = 5.5
"""Each comparison fails with probability 4e-8 if all is right, all of this file together below 2e-5."""


def some_items(domain: int) -> list[int]:
    """The ends of a domain and what lies between: neighbours that differ in the lowest and in the highest bit."""
    wanted = {0, 1, domain // 2 - 1, domain // 2, domain - 2, domain - 1}
    return sorted(item for item in wanted if 0 <= item < domain)


# Privacy ------------------------------------------------------------------------------------------------------------


@for_each(("oracle", "domain"), thinned([each for each in EACH if each.values[1] != 1000], 14))
def test_the_likelihood_ratio_is_at_most_e_to_the_epsilon_whatever_the_public_word(
    oracle: FrequencyOracle, domain: int
) -> None:
    epsilon, delta = oracle.guarantee
    assert delta == 0.0
    worst = Fraction(0)
    for public in HOSTILE if oracle.symbols(domain) <= FEW_SYMBOLS else HOSTILE[:2]:
        laws = [law(oracle, item, domain, public) for item in some_items(domain)]
        for one, other in itertools.product(laws, laws):
            assert set(one) == set(other) == set(range(oracle.symbols(domain)))
            worst = max(worst, *(one[answer] / other[answer] for answer in one))
    with mpmath.workdps(60):
        assert as_real(worst) <= odds(epsilon)
        # Not loose either: some public word separates two of the items.
        assert as_real(worst) >= odds(epsilon) * (1 - mpmath.mpf(10) ** -12)


@for_each("oracle", ORACLES)
def test_the_public_word_does_not_touch_the_coins(oracle: FrequencyOracle) -> None:
    """Whatever the words are, the source is used up alike: no word can choose, skip or repeat a coin."""
    count = 4000
    drawn = []
    for public in HOSTILE:
        source = RandomSource.seeded(5)
        oracle.randomize(np.zeros(count, dtype=np.uint64), 16, np.full(count, public, dtype=np.uint64), source)
        drawn.append(source.words(4).tolist())
    assert all(after == drawn[0] for after in drawn)


# Estimates ----------------------------------------------------------------------------------------------------------


@for_each(("oracle", "domain"), EACH)
def test_estimates_are_unbiased(oracle: FrequencyOracle, domain: int) -> None:
    """60,000 people: the mean error of each share is within 5.5 of its stated standard errors."""
    count = 60_000
    first, second = 0, domain - 1
    items = np.where(np.arange(count) % 10 < 3, words(first), words(second))
    items[::5] = domain // 2
    shares = {item: float(np.mean(items == np.uint64(item))) for item in some_items(domain)}
    assert max(shares.values()) > 0.3
    open_words = publics(count)
    answers = oracle.randomize(items, domain, open_words, RandomSource.seeded(3, oracle.name))
    assert answers.dtype == answer_type(oracle.answer_kind(domain))
    found = oracle.shares(oracle.supports(answers, domain, open_words, words(*shares)), count, domain)
    for estimate, share in zip(found, shares.values(), strict=True):
        assert estimate == pytest.approx(share, abs=SIGMAS * math.sqrt(oracle.variance(share, domain) / count))


@for_each(("oracle", "domain"), thinned(MIDDLING, 12))
def test_estimates_vary_as_much_as_stated(oracle: FrequencyOracle, domain: int) -> None:
    """3000 repetitions with 100 people each, of whom 40 hold an item, 60 another and nobody a third."""
    people, repetitions = 100, 3000
    held, absent = (0, domain - 1), 1
    items = np.tile(np.repeat(words(*held), (40, 60)), repetitions)
    open_words = publics(len(items), 5)
    answers = oracle.randomize(items, domain, open_words, RandomSource.seeded(4, oracle.name))
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


@for_each(("oracle", "domain"), thinned([each for each in EACH if each.values[1] in (3, 16)], 6))
def test_an_answer_supports_the_items_that_would_most_likely_give_it(oracle: FrequencyOracle, domain: int) -> None:
    open_words = publics(8)
    items = np.arange(8, dtype=np.uint64) % np.uint64(domain)
    answers = oracle.randomize(items, domain, open_words, RandomSource.seeded(7))
    for place, public in enumerate(open_words.tolist()):
        slot = slice(place, place + 1)
        laws = [law(oracle, item, domain, public) for item in range(domain)]
        likeliest = [max(told, key=lambda answer, told=told: told[answer]) for told in laws]  # type: ignore[misc]
        supported = [int(answer == int(answers[place])) for answer in likeliest]
        items_at = np.arange(domain, dtype=np.uint64)
        assert oracle.supports(answers[slot], domain, open_words[slot], items_at).tolist() == supported


# Manners ------------------------------------------------------------------------------------------------------------


@for_each("oracle", ORACLES)
def test_it_travels_and_takes_items_of_its_domains_only(oracle: FrequencyOracle) -> None:
    assert parse_mechanism(oracle.wire()) == oracle
    for broken in ({**oracle.wire(), "g": 2}, *with_a_number_that_is_none(oracle.wire())):
        with pytest.raises(BadMessage):
            parse_mechanism(broken)
    with pytest.raises(PolicyRefused, match=f"'{oracle.name}' randomizes an item, the query says a value"):
        oracle.answer_kind(None)
    for domain in (0, 1, oracle.max_domain + 1, 1 << 64) if oracle.max_domain < 1 << 64 else ():
        for call in (oracle.answer_kind, oracle.rates):
            with pytest.raises(PolicyRefused):
                call(domain)


@for_each(("oracle", "domain"), [each for each in EACH if each.values[1] < 1 << 64])
def test_items_beyond_the_domain_are_taken_for_its_last(oracle: FrequencyOracle, domain: int) -> None:
    open_words = publics(4)
    beyond, last = words(domain, domain + 7, 1 << 63, GREATEST), np.full(4, domain - 1, dtype=np.uint64)
    assert within(beyond, domain).tolist() == last.tolist()
    given, clamped = (
        oracle.randomize(np.tile(items, 50), domain, np.tile(open_words, 50), RandomSource.seeded(1))
        for items in (beyond, last)
    )
    assert given.tolist() == clamped.tolist()
    assert int(given.max()) < oracle.symbols(domain)
    assert within(words(0, GREATEST), 1 << 64).tolist() == [0, GREATEST]


@for_each(("oracle", "domain"), EACH)
def test_nobody_at_all(oracle: FrequencyOracle, domain: int) -> None:
    nobody = np.empty(0, dtype=np.uint64)
    answers = oracle.randomize(nobody, domain, nobody, RandomSource.seeded(1))
    assert answers.shape == (0,)
    assert answers.dtype == answer_type(oracle.answer_kind(domain))
    supports = oracle.supports(answers, domain, nobody, words(0, 1))
    assert supports.tolist() == [0, 0]
    assert np.isfinite(oracle.shares(supports, 0, domain)).all()
    assert oracle.supports(answers, domain, nobody, nobody).shape == (0,)


@for_each(("oracle", "domain"), thinned(EACH, 17))
def test_one_answer_is_the_same_without_a_compiler(oracle: FrequencyOracle, domain: int) -> None:
    for item, public in itertools.product(some_items(domain), HOSTILE):
        compiled = oracle.randomize(words(item), domain, words(public), RandomSource.seeded(public % 1000))
        with interpreted():
            plain = oracle.randomize(words(item), domain, words(public), RandomSource.seeded(public % 1000))
        assert (plain.tobytes(), plain.dtype) == (compiled.tobytes(), compiled.dtype)
