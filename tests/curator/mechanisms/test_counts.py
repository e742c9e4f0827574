"""Head lists in whole numbers."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np

from common.local.mechanisms.mechanism import FLAT_BITS, Laplace
from common.numerics.randomness import RandomSource
from common.protocols.frequencies import SPURIOUS, threshold
from curator.mechanisms import counts
from tests.curator.given import Counted
from tests.curator.operations.given import assert_law
from tests.tiers import for_each

CLOSE = Fraction(1, 1 << 200)


@for_each("generous", [SPURIOUS, 3.0])
def test_as_many_words_are_drawn_whatever_people_hold_and_whatever_the_noise(monkeypatch, generous):
    monkeypatch.setattr("common.protocols.frequencies.SPURIOUS", generous)
    drawn = set()
    for values in (np.zeros(12), np.arange(12), np.repeat([3, 9, 15], 4)):
        for seed in range(30):
            counted: list[int] = []
            counts.top_items(values.astype(np.uint64), 4, 5, Laplace(epsilon=1.0), Counted(bytes([seed] * 32), counted))
            drawn.add(tuple(counted))
    assert len(drawn) == 1


def test_a_list_may_have_every_value_that_nobody_holds(monkeypatch):
    """The number is cut beyond what a list can hold only: all cells of a small domain may be spurious at once."""
    monkeypatch.setattr("common.protocols.frequencies.SPURIOUS", 1.9)
    noise = Laplace(epsilon=0.01)
    lists = [
        counts.top_items(np.zeros(1, dtype=np.uint64), 2, 4, noise, RandomSource.seeded(seed)) for seed in range(150)
    ]
    assert max(len(items) for items in lists) == 4
    assert all(len(set(items.tolist())) == len(items) and items.max(initial=0) < 4 for items in lists)


def exactly(noise: Laplace) -> dict[int, Fraction]:
    """Return P(Z = z) for z = 1, 2, ..., as far as digits reach, from the chances that the noise is drawn by."""
    flat = noise.flat_chance / (1 << FLAT_BITS)
    digits = [Fraction(chance, noise.one) for chance in noise.chances[1:]]
    law = {}
    for number in range(1 << len(digits)):
        chance = Fraction(1)
        for digit, one in enumerate(digits):
            chance *= one if number >> digit & 1 else 1 - one
        law[number + 1] = Fraction(noise.chances[0], 2 * noise.one) * (chance * (1 - noise.flat_chance) + flat)
    return law


@for_each("kind", [Laplace, counts.RareNoise])
@for_each("epsilon", [0.5, 1.0, 8.0, 30.0])
def test_the_chance_of_a_spurious_value_is_that_of_the_noise_itself(epsilon, kind):
    noise = kind(epsilon=epsilon)
    law = exactly(noise)
    cell = Fraction(noise.chances[0], 2 * noise.one) * noise.flat_chance / (1 << FLAT_BITS)
    behind = cell * ((1 << FLAT_BITS) - len(law))
    for least in (1, 2, 3, len(law) // 2, len(law)):
        assert counts.Tail(noise, least).chance == sum((p for z, p in law.items() if z >= least), behind)
    q = Fraction(noise.ratio)
    beyond = counts.Tail(noise, len(law) + 5)
    assert beyond.chance == behind - 4 * cell
    for z in range(1, len(law)):
        # What a neighbour's cell, held by one, gives to the same count: the theorem needs these two inequalities.
        assert q * law[z] <= law[z + 1] <= law[z]


def counted_out(tail: counts.Tail) -> dict[int, Fraction]:
    """Return the law of the digits' number minus the threshold, as the chances in whole numbers make it."""
    one, lowest = 1 << counts.FIXED_BITS, tail.least - 1
    paths = {(0, True): Fraction(1)}
    for digit in reversed(range(len(tail._free))):
        following: dict[tuple[int, bool], Fraction] = {}
        for (number, tight), chance in paths.items():
            up = Fraction((tail._tight if tight else tail._free)[digit], one)
            for bit, share in ((1, up), (0, 1 - up)):
                key = (number + (bit << digit), tight and bit == lowest >> digit & 1)
                following[key] = following.get(key, Fraction(0)) + chance * share
        paths = following
    return {number - lowest: chance for (number, _), chance in paths.items() if chance}


@for_each(("epsilon", "least"), [(0.5, 1), (0.5, 38), (1.0, 21), (1.0, 128), (8.0, 3)])
def test_amounts_have_the_law_of_the_noise_given_that_it_reaches_the_threshold(epsilon, least):
    """The digits' part counted out: each amount within 2^-200 of its conditional chance, none below the threshold."""
    noise = counts.RareNoise(epsilon=epsilon)
    tail = counts.Tail(noise, least)
    law = counted_out(tail)
    first, cell = Fraction(noise.chances[0], 2 * noise.one), noise.flat_chance / (1 << FLAT_BITS)
    wanted = {z - least: p / first - cell for z, p in exactly(noise).items() if z >= least}
    total = sum(wanted.values())
    assert law.keys() == wanted.keys()
    assert all(abs(law[b] * total / wanted[b] - 1) < CLOSE for b in law)
    flat = cell * ((1 << FLAT_BITS) - least + 1)
    assert abs(Fraction(tail._flat, 1 << counts.FIXED_BITS) * (flat + total) / flat - 1) < CLOSE


@for_each("least", [1, 4])
def test_drawn_amounts_follow_the_law(least):
    noise, source = counts.RareNoise(epsilon=0.5), RandomSource.seeded(5)
    tail = counts.Tail(noise, least)
    law = {z - least: float(p / tail.chance) for z, p in exactly(noise).items() if z >= least}
    assert_law([tail.beyond(source) for _ in range(4000)], law)


@for_each(("cells", "chance"), [(0, 0.3), (3, 0.3), (40, 0.1), (1 << 64, 2.0**-70), ((1 << 64) - 7, 2.0**-64)])
def test_coins_make_the_binomial_law(cells, chance):
    """Exact fractions: P(N = n) is within 2^-180 of the binomial's given N <= most, for each n."""
    most, exact = 12, Fraction(chance)
    law, left = [], Fraction(1)
    for coin in counts.success_chances(cells, exact, most):
        law.append(left * (1 - Fraction(coin, 1 << counts.FIXED_BITS)))
        left *= Fraction(coin, 1 << counts.FIXED_BITS)
    law.append(left)
    odds = exact / (1 - exact)
    ratios = [Fraction(1)]
    for n in range(most):
        ratios.append(ratios[-1] * max(cells - n, 0) / (n + 1) * odds)
    for found, ratio in zip(law, ratios, strict=True):
        wanted = ratio / sum(ratios)
        assert abs(found - wanted) <= wanted / (1 << 180)


def test_numbers_drawn_follow_the_law_and_any_cells_are_as_likely_in_any_order():
    source = RandomSource.seeded(7)
    found = [counts.draw_successes(6, Fraction(1, 3), 6, source) for _ in range(3000)]
    assert_law(found, {k: math.comb(6, k) * 2.0 ** (6 - k) / 3.0**6 for k in range(7)})
    assert_law(
        [tuple(counts.draw_ranks(4, 3, source)) for _ in range(4000)], dict.fromkeys(permutations(range(4), 3), 1 / 24)
    )
    more = counts.draw_ranks(2, 4, source)
    assert sorted(more[:2]) == [0, 1]
    assert all(rank >= 2 for rank in more[2:])


def test_what_lies_beyond_the_longest_list_weighs_nothing():
    """The docstring's bound: sum of (m o)^k/k! over k > 16, where the threshold keeps m o below .02."""
    for bits in (8, 24, 64):
        for epsilon in (0.00125, 0.3, 1.0, 8.0, 30.0):
            noise = counts.RareNoise(epsilon=epsilon)
            chance = counts.Tail(noise, threshold(bits, noise)).chance
            rate = (1 << bits) * chance / (1 - chance)
            assert rate < Fraction(2, 100)
            more = counts._FURTHER + 1
            assert rate**more / math.factorial(more) < Fraction(1, 1 << 141)


def test_no_list_of_64_bits_has_values_of_the_flat_part():
    """2^64 cells with noise that is flat once in 2^64 draws had one half of such a value on average."""
    values = np.full(200, 7, dtype=np.uint64)
    lists = [
        counts.top_items(values, 64, 4, Laplace(epsilon=1.0), RandomSource.seeded(seed)).tolist() for seed in range(200)
    ]
    assert sum(items != [7] for items in lists) < 12


def test_neighbours_lists_have_chances_within_e_to_the_epsilon_exactly():
    """Three cells, no person or one: the law of the set that reaches the threshold, in fractions and in whole coins."""
    noise = Laplace(epsilon=1.0)
    least, q = 2, Fraction(noise.ratio)
    one, none = counts.Tail(noise, least - 1).chance, counts.Tail(noise, least).chance
    assert q <= none / one <= 1
    assert 1 <= (1 - none) / (1 - one) <= 1 / q
    for cells in range(1, 4):
        steps = [Fraction(coin, 1 << counts.FIXED_BITS) for coin in counts.success_chances(cells, none, 20)]
        for number in range(cells + 1):
            chance = math.prod(steps[:number]) * (1 - steps[number]) / math.comb(cells, number)
            wanted = none**number * (1 - none) ** (cells - number)
            assert abs(chance / wanted - 1) < CLOSE
