"""Sums and histograms for everybody's learners: clipped by themselves, and noise of the declared size."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from common.core.errors import BadInput
from common.local.mechanisms.mechanism import Laplace
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.rounding import down
from common.privacy.theorems.gaussian_dp import delta_of
from common.privacy.theorems.votes import answer_mu, answers_sigma, flips
from curator.mechanisms.counts import NoisyCount, NoisyHistogram
from curator.mechanisms.gaussian_noise import FINE_GRID
from curator.mechanisms.sums import GRID, ClassMoments, ClippedSum, CoordinateMoments, LossSum, clipped, noisy_winners
from tests.curator.operations.given import assert_law, geometric
from tests.tiers import for_each

RUNS = 3000


def once(mechanism, *blocks):
    return mechanism.apply(iter(blocks), RandomSource.seeded(1))


def often(mechanism, values, runs=RUNS):
    return np.array([mechanism.apply(iter([values]), RandomSource.seeded(run)) for run in range(runs)])


@for_each(
    ("rows", "total"),
    [
        ([(0.6, 0.8)], (0.6, 0.8)),
        ([(30.0, 40.0)], (1.2, 1.6)),
        ([(1e308, 0.0)], (2.0, 0.0)),
        *(([(odd, 1.0), (0.5, 0.0)], (0.5, 0.0)) for odd in (np.nan, np.inf, -np.inf)),
    ],
)
def test_a_row_counts_by_its_direction_and_by_the_norm_at_most_and_as_nothing_if_not_finite(rows, total):
    assert once(ClippedSum(norm=2.0, width=2, mu=1e4), np.array(rows)) == pytest.approx(total, abs=5e-3)


@for_each("mu", [0.5, 4.0])
def test_its_noise_is_two_norms_over_mu(mu):
    """4 standard errors of a variance of 6000 numbers."""
    found = often(ClippedSum(norm=3.0, width=2, mu=mu), np.zeros((4, 2)))
    assert found.std() == pytest.approx(2.0 * 3.0 / mu, rel=4.0 / np.sqrt(2.0 * found.size))
    assert abs(found.mean()) < 4.0 * (6.0 / mu) / np.sqrt(found.size)


def test_pieces_of_any_size_give_the_same_sums():
    rows = np.random.default_rng(1).normal(size=(9000, 3))
    mechanism: Any = ClippedSum(norm=1.0, width=3, mu=1.0)
    np.testing.assert_array_equal(once(mechanism, rows), once(mechanism, *np.split(rows, [1, 400])))
    records = people(rows, np.sign(rows[:, 0]))
    mechanism = ClassMoments(norm=2.0, width=3, mu=1.0)
    pieces = [records.take(part) for part in np.split(np.arange(9000), [1, 400])]
    for whole, parted in zip(once(mechanism, records), once(mechanism, *pieces), strict=True):
        np.testing.assert_array_equal(whole, parted)


def test_a_sum_whose_grid_is_too_coarse_is_refused():
    with pytest.raises(BadInput, match="does not fit the grid"):
        ClippedSum(norm=1.0, width=10**6, mu=1e-6).apply(iter([]), RandomSource.seeded(1))


def test_losses_are_cut_and_a_person_is_in_one_cell_and_counts_one_at_most():
    assert once(LossSum(parts=10, mu=1e6), np.array([3, 10, 99, -5])) == 23
    cells, numbers = np.array([0, 0, 2, 3, -1, 2]), np.array([1, 50, -7, 9, 9, 0])
    found = often(NoisyHistogram(epsilon=30.0, cells=3), (cells, numbers), 200)
    np.testing.assert_array_equal(np.round(found.mean(axis=0)), [2, 0, -1])


def test_every_count_has_noise_of_epsilon_and_every_cell_of_half_of_it():
    epsilon = 1.2
    found = often(NoisyHistogram(epsilon=epsilon, cells=4), (np.array([1]), np.array([1])), 800)
    assert_law((found - [0, 1, 0, 0]).ravel().tolist(), geometric(Laplace(epsilon=down(epsilon / 2.0)), 30))
    assert NoisyCount(epsilon).price.epsilon == epsilon
    assert_law((often(NoisyCount(epsilon), np.ones(3)) - 3).tolist(), geometric(Laplace(epsilon=epsilon), 30))


def test_a_person_has_one_value():
    twice: Any = np.ones((3, 2))
    for mechanism, values in ((NoisyCount(1.0), twice), (NoisyHistogram(1.0, 2), (twice, twice))):
        with pytest.raises(ValueError, match="one number a person"):
            once(mechanism, values)


@for_each("cells", [40.0, float(1 << 15)])
def test_no_row_is_longer_than_the_norm_once_it_is_rounded(cells):
    """Exactly, in whole numbers: the sensitivity of every sum rests on it. Plain clipping and rounding exceeds it."""
    rows = np.random.default_rng(7).normal(size=(4000, 30)) * np.geomspace(1e-3, 1e200, 4000)[:, None]
    found = clipped(rows, 2.0, cells).astype(np.int64)
    assert (found * found).sum(axis=1).max() <= cells * cells
    plain = np.rint(rows / np.maximum(np.linalg.norm(rows / 1e100, axis=1, keepdims=True) * 1e100, 2.0) * cells)
    assert (plain * plain).sum(axis=1).max() > cells * cells


@for_each("width", [1, 7, 44, 300])
@for_each("dtype", [np.float32, np.float64, np.uint8])
def test_rows_on_the_grid_are_what_the_formula_says_in_every_bit(dtype, width):
    generator = np.random.default_rng(width)
    rows = generator.normal(size=(400, width)) * generator.choice([1e-3, 0.1, 3.0, 1e30], size=(400, 1))
    if dtype == np.uint8:
        rows = rows > 0.0
    rows = rows.astype(dtype)
    if dtype != np.uint8:
        rows[:3, -1], rows[3] = [np.nan, np.inf, -np.inf], 0.0
    found, cells = clipped(rows, 0.3, 1e6), 1e6
    finite = np.isfinite(rows).all(axis=1, keepdims=True)
    scaled = np.where(finite, rows, 0.0).astype(np.float64) / 0.3
    largest = np.abs(scaled).max(axis=1, initial=1.0, keepdims=True)
    length = largest * np.linalg.norm(scaled / largest, axis=1, keepdims=True)
    most = 1.0 - 2.0**-32
    factor = np.minimum(cells * most, (cells * most - 0.5 * math.sqrt(width)) / np.maximum(length, 2.0**-60))
    np.testing.assert_array_equal(found, np.rint(scaled * factor))


@for_each("touched", [1, 2])
@for_each(("queries", "epsilon", "delta"), [(1, 0.5, 1e-5), (1000, 1.0, 1e-6), (77, 8.0, 1e-3)])
def test_all_answers_together_keep_to_the_budget_and_use_it(queries, epsilon, delta, touched):
    sigma = answers_sigma(queries, epsilon, delta, touched)
    whole = math.sqrt(queries) * answer_mu(sigma, touched)
    # One count falls by a vote, one rises; in units, the noise's standard deviation is the grid's.
    assert math.sqrt(2.0) * touched * math.floor(FINE_GRID / sigma) / FINE_GRID <= answer_mu(sigma, touched)
    assert delta_of(whole * (1.0 - 1e-12), epsilon) <= delta
    assert delta_of(whole * (1.0 + 1e-6), epsilon) > delta


@for_each("classes", [2, 4])
def test_answers_have_the_law_of_noisy_counts(classes):
    sigma, gap, queries = 3.0, 4, 200_000
    counts = np.zeros((queries, classes), dtype=np.int64)
    counts[:, 1] = gap
    share = np.mean(noisy_winners(counts, sigma, RandomSource.seeded(1)) == 1)
    if classes == 2:
        assert 1.0 - share == pytest.approx(ndtr(-gap / (math.sqrt(2.0) * sigma)), abs=5e-3)
        assert flips(0.7, 10, sigma) == pytest.approx(ndtr(-gap / (math.sqrt(2.0) * sigma)))
    draws = np.random.default_rng(2).normal(size=(queries, classes)) * sigma + counts
    assert share == pytest.approx(np.mean(draws.argmax(axis=1) == 1), abs=7e-3)


@for_each("others", [[3, 0, 0], [1, 1, 1]])
def test_with_several_classes_answers_go_wrong_no_more_often_than_stated(others):
    sigma, queries = 3.0, 200_000
    counts = np.tile(np.array([7, *others]), (queries, 1))
    wrong = np.mean(noisy_winners(counts, sigma, RandomSource.seeded(1)) != 0)
    bound = flips(0.7, 10, sigma, classes=4)
    assert bound == pytest.approx(ndtr(-4 / (math.sqrt(2.0) * sigma)) + 2 * ndtr(-7 / (math.sqrt(2.0) * sigma)))
    assert 0.4 * bound < wrong < bound
    assert flips(0.5, 10, 100.0, classes=64) == 1.0


@for_each("sigma", [0.0, 1e-4, 1e7, math.nan, math.inf])
def test_noise_that_cannot_be_drawn_is_refused(sigma):
    with pytest.raises(BadInput, match="noise on votes"):
        noisy_winners(np.zeros((1, 2), dtype=np.int64), sigma, RandomSource.seeded(1))


EXACT = ClassMoments(norm=2.0, width=3, mu=1e9)
"""Noise of less than a cell: the sums themselves."""
COORDINATES = CoordinateMoments(norm=2.0, width=2, mu=1e9)


def people(features, labels) -> Records:
    return Records(np.asarray(features, dtype=np.float32), np.asarray(labels, dtype=np.int8))


def vector(record: Records) -> np.ndarray:
    """Return what the record adds, in the coordinates in which the sensitivity is stated."""
    weights = np.sqrt(ClassMoments.squares)
    return np.concatenate([weight * part.ravel() for weight, part in zip(weights, once(EXACT, record), strict=True)])


def test_sums_are_those_of_each_class_and_those_of_coordinates_of_everybody():
    rng = np.random.default_rng(1)
    features, labels = rng.uniform(-0.5, 0.5, (500, 3)), rng.choice([-1, 1], 500)
    found = once(EXACT, people(features, labels))
    rows = features / 2.0
    for side, label in enumerate((-1, 1)):
        held = rows[labels == label]
        assert found.counts[side] == pytest.approx(len(held), abs=1e-3)
        np.testing.assert_allclose(found.first[side], held.sum(axis=0), atol=500 / GRID)
    np.testing.assert_allclose(found.second, rows.T @ rows, atol=500 / GRID)
    np.testing.assert_array_equal(found.second, found.second.T)
    several = once(ClassMoments(norm=2.0, width=3, mu=1e9, classes=3), people(features, rng.integers(3, size=500)))
    assert (several.counts.shape, several.first.shape) == ((3,), (3, 3))
    np.testing.assert_allclose(several.first.sum(axis=0), rows.sum(axis=0), atol=500 / GRID)
    first, second, ends = once(COORDINATES, people(features[:, :2], labels))
    assert ends is None
    np.testing.assert_allclose(first, rows[:, :2].sum(axis=0), atol=500 / GRID)
    np.testing.assert_allclose(second, np.square(rows[:, :2]).sum(axis=0), atol=500 / GRID)


def test_no_replacement_moves_the_sums_by_more_than_the_sensitivity_and_some_by_as_much():
    """Theorem: |v - v'| <= sqrt(2). Opposite records of one class attain it, and long ones at right angles of two."""
    rng, furthest = np.random.default_rng(2), np.zeros(2)
    for turn in range(400):
        one = rng.normal(size=(1, 3))
        angle = -1.0 if turn % 4 == 1 else 0.0 if turn % 4 == 3 else rng.uniform(-1, 1)  # of the other to this one
        side = rng.normal(size=(1, 3))
        side -= one * (side @ one.T) / (one @ one.T)
        other = angle * one / np.linalg.norm(one) + math.sqrt(1 - angle * angle) * side / np.linalg.norm(side)
        changes = turn % 3 == 0
        lengths = rng.uniform(0.0, 4.0, 2) if turn % 5 == 0 else (50.0, 50.0)
        pair = [
            vector(people(length * row / np.linalg.norm(row), [label]))
            for row, label, length in zip((one, other), (1, -1 if changes else 1), lengths, strict=True)
        ]
        furthest[int(changes)] = max(furthest[int(changes)], float(np.linalg.norm(pair[0] - pair[1])))
    assert furthest.max() <= ClassMoments.sensitivity
    assert furthest.min() >= 0.999 * ClassMoments.sensitivity


def test_no_replacement_moves_sums_of_coordinates_by_more_than_their_sensitivity_and_some_by_as_much():
    """Theorem: |v - v'|^2 <= 9/2, attained 60 degrees to either side of a diagonal."""
    angles, furthest = np.linspace(0.0, 2.0 * np.pi, 49), 0.0
    vectors = [
        np.concatenate(once(COORDINATES, people([[length * np.cos(turn), length * np.sin(turn)]], [1]))[:2])
        for turn in angles
        for length in (0.5, 1.5, 9.0)
    ]
    furthest = max(float(np.linalg.norm(one - other)) for one in vectors for other in vectors)
    assert 0.999 * COORDINATES.sensitivity <= furthest <= COORDINATES.sensitivity
    assert COORDINATES.sensitivity == pytest.approx(math.sqrt(4.5))


def test_in_a_box_squares_of_coordinates_are_free_and_those_at_its_ends_cost_a_quarter():
    """Theorem: |v - v'|^2 <= 5/4 a coordinate; next to one end and at the other attains it, the golden section by .4%.

    Opposite ends are sqrt(1) apart, whatever the squares and the numbers of people at ends weigh.
    """
    mechanism = CoordinateMoments(norm=None, width=2, mu=1e9)
    golden = 1.0 - (math.sqrt(5.0) - 1.0) / 2.0
    places = np.concatenate([np.linspace(-0.5, 1.5, 41), [2.0 / GRID, np.nan, golden, np.inf]])
    rows = np.array([np.concatenate(once(mechanism, people([[one, 1.0]], [1]))) for one in places])
    rows[:, 2:4] *= math.sqrt(11.0)
    rows[:, 4:] *= 0.5
    furthest = max(float(np.linalg.norm(one - other)) for one in rows for other in rows)
    assert 0.999 * math.sqrt(1.25) <= furthest <= math.sqrt(1.25)
    moments = rows[:, :4]
    assert max(float(np.linalg.norm(one - other)) for one in moments for other in moments) <= 1.0
    near = float(np.linalg.norm(moments[-2] - moments[-1]))
    assert near == pytest.approx(math.sqrt(0.6180**2 * (1 + 11 * 0.382**2)), abs=1e-3)
    assert np.linalg.norm(rows[0] - rows[-1]) == pytest.approx(1.0, abs=1e-3)
    assert mechanism.sensitivity == pytest.approx(math.sqrt(2.5))


def test_in_a_box_people_at_an_end_are_counted():
    features = np.array([[0.0, 0.5, 1.0], [1.0, np.nan, 1.0], [-3.0, 1e-3, 0.999], [7.0, 0.2, 1.0]])
    ends = once(CoordinateMoments(norm=None, width=3, mu=1e9), people(features, [1, 1, -1, -1])).ends
    assert ends == pytest.approx([4.0, 0.0, 3.0], abs=1e-3)


def test_rows_are_clipped_and_those_that_are_not_finite_count_as_people_of_no_features():
    for row in ([np.nan, 0.0, 0.0], [np.inf, 1.0, 0.0]):
        found = once(EXACT, people([row], [1]))
        assert (found.counts[1], *found.first[1]) == (1.0, 0.0, 0.0, 0.0)
    far = once(EXACT, people([[3e38, 3e38, 0.0]], [-1]))
    assert far.first[0] == pytest.approx([math.sqrt(0.5), math.sqrt(0.5), 0.0], abs=1e-4)
    cells = far.first[0] * GRID
    assert (cells @ cells) <= GRID * GRID


def test_noise_is_as_large_as_stated():
    """5 standard errors of a variance; products off the diagonal have half the variance of squares."""
    mechanism, nobody = ClassMoments(norm=1.0, width=6, mu=0.5), people(np.zeros((0, 6)), [])
    ball, box = (CoordinateMoments(norm=norm, width=6, mu=0.5) for norm in (1.0, None))
    kinds: tuple[Any, ...] = (mechanism, ball, box)
    found, sums, boxes = (
        [kind.apply(iter([nobody]), RandomSource.seeded(run)) for run in range(300)] for kind in kinds
    )
    count, plain, square = mechanism.deviations
    assert np.square([count, plain, square]) * mechanism.squares == pytest.approx(2.0 / 0.5**2)
    off = np.triu_indices(6, 1)
    for values, deviation in (
        (np.array([one.counts for one in found]), count),
        (np.array([one.first for one in found]), plain),
        (np.array([np.diagonal(one.second) for one in found]), square),
        (np.array([one.second[off] for one in found]), square / math.sqrt(2.0)),
        (np.array([one.first for one in sums]), math.sqrt(4.5) / 0.5),
        (np.array([one.second for one in sums]), math.sqrt(4.5) / 0.5),
        (np.array([one.first for one in boxes]), math.sqrt(7.5) / 0.5),
        (np.array([one.second for one in boxes]), math.sqrt(7.5 / 11.0) / 0.5),
        (np.array([one.ends for one in boxes]), 2.0 * math.sqrt(7.5) / 0.5),
    ):
        assert values.std() == pytest.approx(deviation, rel=5.0 / math.sqrt(2.0 * values.size))
        assert abs(values.mean()) < 5.0 * deviation / math.sqrt(values.size)
