"""Half-spaces: mistakes are counted faster than margins are computed, and are the same."""

from __future__ import annotations

import numpy as np
import pytest

from common.local.hypotheses.linear import Linear
from common.local.records import Records
from common.numerics.kernels import interpreted
from tests.tiers import for_each


def plane(weights, threshold):
    return Linear(weights=tuple(np.asarray(weights, dtype=float).tolist()), threshold=float(threshold))


def assert_mistakes_are_those_of_margins(hypothesis, features, seed=2):
    labels = np.random.default_rng(seed).choice(np.array([-1, 1], dtype=np.int8), len(features))
    wrong = (hypothesis.margins(features) > 0) != (labels > 0)
    np.testing.assert_array_equal(hypothesis.mistakes(Records(features, labels)), wrong)


@for_each("width", [1, 7, 8, 30, 501])
@for_each("dtype", [np.float32, np.uint8])
def test_mistakes_are_those_of_the_margins(width, dtype):
    random = np.random.default_rng(1)
    features = random.normal(size=(3000, width)) if dtype == np.float32 else random.integers(0, 2, (3000, width))
    assert_mistakes_are_those_of_margins(plane(random.normal(size=width), 0.1), features.astype(dtype))


@for_each("width", [9, 100, 500])
def test_near_the_boundary_the_order_of_additions_decides_nothing(width):
    random = np.random.default_rng(3)
    features = random.normal(size=(4000, width)).astype(np.float32)
    weights = random.normal(size=width).astype(np.float32)
    # All margins are as small as rounding errors: another order of additions has other signs for many.
    features[:, -1] = -(features[:, :-1].astype(float) @ weights[:-1]) / weights[-1]
    hypothesis = plane(weights, 0.0)
    assert_mistakes_are_those_of_margins(hypothesis, features)
    backwards = plane(weights[::-1], 0.0).margins(np.ascontiguousarray(features[:, ::-1]))
    assert 100 < np.count_nonzero((backwards > 0) != (hypothesis.margins(features) > 0)) < 3900


def test_a_margin_of_exactly_zero_is_negative():
    features = np.random.default_rng(4).integers(-2, 3, size=(2000, 40)).astype(np.float32)
    hypothesis = plane(np.tile([1.0, -1.0, 2.0, -2.0], 10), 3.0)
    assert np.count_nonzero(hypothesis.margins(features) == 0.0) > 20
    assert_mistakes_are_those_of_margins(hypothesis, features)


@pytest.mark.filterwarnings("ignore:overflow")
def test_sums_beyond_single_precision_are_compared_as_margins_are():
    random = np.random.default_rng(5)
    huge = (random.normal(size=(500, 16)) * 10.0 ** random.uniform(-40, 38, size=(500, 16))).astype(np.float32)
    assert_mistakes_are_those_of_margins(plane(np.full(16, 1e30), 1e30), huge)
    assert_mistakes_are_those_of_margins(plane(np.full(16, 1e-30), 0.0), huge)


@for_each("width", [1, 7, 8, 30, 501])
@for_each("dtype", [np.float32, np.uint8])
def test_one_record_is_judged_alike_to_the_bit_without_a_compiler(width, dtype):
    """Mistakes too, of which the compiled sums go in another order: only near the boundary, where both count anew."""
    random = np.random.default_rng(5)
    features = random.normal(size=(20, width)) if dtype == np.float32 else random.integers(0, 2, (20, width))
    for row in features.astype(dtype):
        weights = random.normal(size=width)
        for threshold in (0.1, float(np.dot(weights, row))):
            hypothesis = plane(weights, threshold)
            for label in (-1, 1):
                record = Records(row[None].copy(), np.array([label], dtype=np.int8))
                compiled = hypothesis.margins(record.features).tobytes(), hypothesis.mistakes(record).tobytes()
                with interpreted():
                    plain = hypothesis.margins(record.features).tobytes(), hypothesis.mistakes(record).tobytes()
                assert plain == compiled
