"""The counter-based generator: the hash it claims to be, and numbers that behave as independent normals."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from common.numerics import counter
from tests.tiers import for_each

MASK = (1 << 64) - 1
PEOPLE = np.array([0, 1, 2, 5, 10**6, 2**40], dtype=np.int64)


def plain_mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def plain_word(seed: int, stream: int, person: int, coordinate: int) -> int:
    key = plain_mix(plain_mix(seed) ^ stream)
    begin = plain_mix(key ^ plain_mix((person * 0x9E3779B97F4A7C15 + 1) & MASK))
    return plain_mix((begin + (coordinate + 1) * 0x9E3779B97F4A7C15) & MASK)


def words(seed: int, stream: int, people: np.ndarray, count: int) -> np.ndarray:
    out = np.empty((len(people), count), dtype=np.uint64)
    counter.fill_words(counter.stream(seed, stream), people, out)
    return out


def normals(seed: int, stream: int, people: np.ndarray, count: int) -> np.ndarray:
    out = np.empty((len(people), count))
    counter.fill_normals(counter.stream(seed, stream), people, out)
    return out


def test_the_finalizer_gives_the_published_splitmix64_sequence():
    # First outputs of SplitMix64 started at 1234567.
    golden = 0x9E3779B97F4A7C15
    found = [int(counter.mix(np.uint64((1234567 + (j + 1) * golden) & MASK))) for j in range(3)]
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@for_each("seed", [0, 7, MASK])
def test_words_are_the_hash_of_seed_stream_person_and_coordinate(seed):
    expected = [[plain_word(seed, 3, int(i), j) for j in range(9)] for i in PEOPLE]
    assert words(seed, 3, PEOPLE, 9).tolist() == expected


@pytest.mark.parametrize("seed", [-1, MASK + 1])
def test_a_seed_outside_64_bits_is_refused(seed):
    with pytest.raises(ValueError, match="seed must be in"):
        counter.stream(seed, 0)


def test_normals_are_quantiles_of_the_words():
    uniforms = ((words(5, 0, PEOPLE, 40) >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
    np.testing.assert_allclose(normals(5, 0, PEOPLE, 40), ndtri(uniforms), rtol=1e-13)


def test_the_quantile_is_right_in_the_centre_and_in_both_tails():
    chances = np.concatenate([np.logspace(-16, -1, 400), np.linspace(0.01, 0.5, 101)])
    lower = np.array([counter.quantile(chance) for chance in chances])
    np.testing.assert_allclose(lower, ndtri(chances), rtol=1e-13, atol=1e-15)
    # 1 - chance is exact for these, so symmetry must be exact too.
    exact = np.array([0.5, 0.25, 2.0**-10, 2.0**-30, 2.0**-53])
    upper = np.array([counter.quantile(1.0 - chance) for chance in exact])
    np.testing.assert_array_equal(upper, [-counter.quantile(chance) for chance in exact])


def test_normals_of_many_words_are_bit_for_bit_those_of_single_ones():
    # Both ends of every branch: the first and last words, the borders of the tails, and the far tail.
    borders = [int(chance * 2**64) + step for chance in (2e-11, 0.075, 0.5, 0.925, 1 - 2e-11) for step in (-4096, 0)]
    drawn = np.concatenate([words(8, 0, np.arange(3000), 3).ravel(), np.array([0, MASK, *borders], dtype=np.uint64)])
    found = np.empty(len(drawn))
    counter.quantiles(drawn, found)
    assert found.tolist() == [counter.quantile(counter.chance(word)) for word in drawn]
    assert np.abs(found).max() < 8.5


@for_each("width", [1, 7, 5000])
def test_any_number_of_coordinates_can_be_drawn(width):
    uniforms = ((words(5, 0, PEOPLE, width) >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
    np.testing.assert_allclose(normals(5, 0, PEOPLE, width), ndtri(uniforms), rtol=1e-12)


def test_the_order_of_drawing_does_not_matter():
    everybody = normals(1, 0, np.arange(500), 7)
    some = np.random.default_rng(0).permutation(500)[:123]
    np.testing.assert_array_equal(normals(1, 0, some, 7), everybody[some])


def test_moments_and_shape_are_those_of_a_standard_normal():
    # Each bound is 6 standard errors, the Kolmogorov-Smirnov one 2 exp(-2 * 3.2^2): in all below 1e-7.
    sample = normals(2, 0, np.arange(50_000), 20).ravel()
    n = sample.size
    for power, moment, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs(np.mean(sample**power) - moment) < 6 * np.sqrt(variance / n)
    ranks = ndtr(np.sort(sample))
    gap = max(np.max(np.arange(1, n + 1) / n - ranks), np.max(ranks - np.arange(n) / n))
    assert np.sqrt(n) * gap < 3.2


@for_each(
    ("what", "other"),
    [
        ("the next coordinate", lambda: normals(3, 0, np.arange(100_000), 4)[:, 1:]),
        ("the next person", lambda: normals(3, 0, np.arange(1, 100_001), 4)[:, :3]),
        ("a person far away", lambda: normals(3, 0, np.arange(100_000) + 2**32, 4)[:, :3]),
        ("another stream", lambda: normals(3, 1, np.arange(100_000), 4)[:, :3]),
        ("the next seed", lambda: normals(4, 0, np.arange(100_000), 4)[:, :3]),
    ],
)
def test_normals_do_not_correlate_with_those_of(what, other):
    # 6 standard errors, for the values and for their squares: chance below 1e-7 over all cases.
    one, two = normals(3, 0, np.arange(100_000), 4)[:, :3].ravel(), other().ravel()
    assert abs(np.mean(one * two)) < 6 / np.sqrt(one.size), what
    assert abs(np.mean((one**2 - 1) * (two**2 - 1))) < 6 * 2 / np.sqrt(one.size), what


def test_every_bit_of_a_word_is_fair_and_changes_from_person_to_person():
    # 128 counts within 6.5 standard errors: chance below 1e-7.
    drawn = words(9, 0, np.arange(40_000), 2).ravel()
    changes = drawn ^ words(9, 0, np.arange(1, 40_001), 2).ravel()
    for bits in (drawn, changes):
        share = ((bits[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).mean(axis=0)
        assert np.abs(share - 0.5).max() < 6.5 * 0.5 / np.sqrt(drawn.size)
