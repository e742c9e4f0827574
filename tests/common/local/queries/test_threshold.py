"""The threshold query: is the integer of some features below t."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local.queries.threshold import ThresholdQuery
from common.local.records import Records
from tests.tiers import for_each


def people(items, bits):
    shifts = np.arange(bits - 1, -1, -1, dtype=np.uint64)
    features = (np.array(items, dtype=np.uint64)[:, None] >> shifts) & np.uint64(1)
    return Records(features.astype(np.uint8), np.ones(len(items), dtype=np.int8))


@for_each(
    ("bits", "items", "below"),
    [(3, range(8), 5), (64, [0, 2**63 - 1, 2**63, 2**64 - 1], 2**63), (64, [2**64 - 2, 2**64 - 1], 2**64 - 1)],
)
def test_it_compares_whole_items_exactly(bits, items, below):
    query = ThresholdQuery(bits=bits, below=below)
    records = people(list(items), bits)
    values = query.evaluate(records.only(query.columns), np.arange(len(records)))
    np.testing.assert_array_equal(values, [float(item < below) for item in items])


def test_it_reads_its_own_features_only():
    query = ThresholdQuery(first=2, bits=2, below=2)
    records = people([0b110111, 0b111000], 6)
    assert query.min_features == 4
    np.testing.assert_array_equal(query.evaluate(records.only(query.columns), np.arange(2)), [1.0, 0.0])


@for_each("wrong", [{"below": 0}, {"below": 16}, {"below": 2**64}, {"bits": 65}, {"bits": 0}])
def test_a_threshold_whose_answer_is_known_is_refused(wrong):
    with pytest.raises(BadMessage):
        ThresholdQuery.parse({"bits": 4, "below": 5} | wrong)
