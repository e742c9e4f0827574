"""The moment query: each slot is one moment of the record, scaled by public bounds."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local.queries.moment import MomentQuery
from common.local.records import Records
from tests.tiers import for_each

QUERY = MomentQuery(dimension=2, bound=2.0, norm=3.0)


def people(*rows):
    features = np.array([row[:2] for row in rows], dtype=np.float32)
    return Records(features, np.array([row[2] for row in rows], dtype=np.int8))


def test_each_slot_asks_one_moment():
    records = people(*[(1.0, -0.5, -1)] * 6)
    mapped = [(moment + 2.0) / 4.0 for moment in (1.0, -0.5, -1.0, 0.5)]
    np.testing.assert_allclose(QUERY.evaluate(records, np.arange(6)), [*mapped, 0.0, 1.25 / 9.0])


def test_slots_go_round_the_moments():
    records = people(*[(1.0, -0.5, 1)] * 12)
    values = QUERY.evaluate(records, np.arange(12))
    np.testing.assert_array_equal(values[:6], values[6:])
    assert QUERY.moments == 6


def test_what_lies_beyond_the_bounds_is_clipped():
    records = people(*[(100.0, -100.0, -1)] * 6)
    np.testing.assert_array_equal(QUERY.evaluate(records, np.arange(6)), [1.0, 0.0, 0.0, 1.0, 0.0, 1.0])


@for_each("wrong", [{"bound": 0}, {"norm": -1}, {"norm": float("inf")}, {"dimension": 0}])
def test_bounds_that_bound_nothing_are_refused(wrong):
    with pytest.raises(BadMessage, match=next(iter(wrong))):
        MomentQuery.parse(QUERY.wire() | wrong)
