"""Moments of both classes: what one record changes is at most what the noise is for, and all sums are exact."""

from __future__ import annotations

import math

import numpy as np
import pytest

from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.mechanisms.moments import GRID, ClassMoments
from tests.tiers import for_each

EXACT = ClassMoments(norm=2.0, width=3, second=0.3, mu=1e9)
"""Noise of less than a cell: the sums themselves."""


def people(features, labels) -> Records:
    return Records(np.asarray(features, dtype=np.float32), np.asarray(labels, dtype=np.int8))


def vector(mechanism: ClassMoments, record: Records) -> np.ndarray:
    """Return what the record adds, in the coordinates in which the sensitivity is stated."""
    moments = EXACT.apply(iter([record]), RandomSource.seeded(1))
    first, second = (math.sqrt(share) for share in mechanism._squares)
    return np.concatenate([first * moments.first.ravel(), second * moments.second.ravel()])


def test_sums_are_those_of_each_class():
    rng = np.random.default_rng(1)
    features, labels = rng.uniform(-0.5, 0.5, (500, 3)), rng.choice([-1, 1], 500)
    found = EXACT.apply(iter([people(features, labels)]), RandomSource.seeded(1))
    rows = np.hstack([np.full((500, 1), 0.5), features / 2.0])
    for side, label in enumerate((-1, 1)):
        held = rows[labels == label]
        np.testing.assert_allclose(found.first[side], held.sum(axis=0), atol=500 / GRID)
        np.testing.assert_allclose(found.second[side], held.T @ held, atol=500 / GRID)
        np.testing.assert_array_equal(found.second[side], found.second[side].T)


@for_each("second", [0.05, 0.3, 0.9])
def test_no_replacement_moves_the_sums_by_more_than_the_sensitivity_and_some_by_nearly_as_much(second):
    """Theorem: |v - v'| <= Delta. Opposite records of one class nearly attain it, or almost orthogonal ones."""
    mechanism = ClassMoments(norm=2.0, width=3, second=second, mu=1.0)
    rng, largest = np.random.default_rng(2), 0.0
    for turn in range(400):
        one = rng.normal(size=(1, 3))
        angle = -1.0 if turn % 2 else rng.uniform(-1, 1)  # of the other record to this one
        side = rng.normal(size=(1, 3))
        side -= one * (side @ one.T) / (one @ one.T)
        other = angle * one / np.linalg.norm(one) + math.sqrt(1 - angle * angle) * side / np.linalg.norm(side)
        labels = (1, 1) if turn % 3 else (1, -1)
        pair = [
            vector(mechanism, people(scale * row / np.linalg.norm(row), [label]))
            for row, label, scale in ((one, labels[0], 50.0), (other, labels[1], 50.0))
        ]
        largest = max(largest, float(np.linalg.norm(pair[0] - pair[1])))
    assert largest <= mechanism.sensitivity
    assert largest >= 0.97 * mechanism.sensitivity


def test_rows_are_clipped_and_those_that_are_not_finite_count_as_the_constant_alone():
    for row in ([np.nan, 0.0, 0.0], [np.inf, 1.0, 0.0]):
        found = EXACT.apply(iter([people([row], [1])]), RandomSource.seeded(1))
        assert found.first[1].tolist() == [0.5, 0.0, 0.0, 0.0]
    far = EXACT.apply(iter([people([[3e38, 3e38, 0.0]], [-1])]), RandomSource.seeded(1))
    assert far.first[0] == pytest.approx([0.5, math.sqrt(0.5), math.sqrt(0.5), 0.0], abs=1e-4)
    cells = far.first[0, 1:] * GRID
    assert (cells @ cells) <= GRID * GRID


def test_noise_is_as_large_as_stated():
    """5 standard errors of a variance; products off the diagonal have half the variance of squares."""
    mechanism = ClassMoments(norm=1.0, width=6, second=0.3, mu=0.5)
    nobody = people(np.zeros((0, 6)), [])
    found = [mechanism.apply(iter([nobody]), RandomSource.seeded(run)) for run in range(300)]
    plain, square = mechanism.deviations
    off = np.triu_indices(7, 1)
    for values, deviation in (
        (np.array([one.first for one in found]), plain),
        (np.array([np.diagonal(one.second, axis1=1, axis2=2) for one in found]), square),
        (np.array([one.second[:, off[0], off[1]] for one in found]), square / math.sqrt(2.0)),
    ):
        assert values.std() == pytest.approx(deviation, rel=5.0 / math.sqrt(2.0 * values.size))
        assert abs(values.mean()) < 5.0 * deviation / math.sqrt(values.size)


def test_pieces_of_any_size_give_the_same_sums():
    rng = np.random.default_rng(1)
    records = people(rng.normal(size=(9000, 3)), rng.choice([-1, 1], 9000))
    mechanism = ClassMoments(norm=2.0, width=3, second=0.3, mu=1.0)
    whole = mechanism.apply(iter([records]), RandomSource.seeded(1))
    pieces = [records.take(part) for part in np.split(np.arange(9000), [1, 400])]
    parted = mechanism.apply(iter(pieces), RandomSource.seeded(1))
    np.testing.assert_array_equal(whole.first, parted.first)
    np.testing.assert_array_equal(whole.second, parted.second)
