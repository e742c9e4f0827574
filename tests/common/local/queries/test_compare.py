"""Paired comparisons: the outcome is the difference of the two losses, on every record."""

from __future__ import annotations

import numpy as np

from common.local.hypotheses.rules import Constant, Stump
from common.local.losses import evaluate
from common.local.queries.compare import CompareQuery
from common.local.records import Records


def test_all_four_cases() -> None:
    """The stump says +1 where the feature is above 0; the constant says +1 always."""
    records = Records(
        np.array([[1.0], [1.0], [-1.0], [-1.0]], dtype=np.float32), np.array([1, -1, 1, -1], dtype=np.int8)
    )
    stump, constant = Stump(feature=0, threshold=0.0, sign=1), Constant(label=1)
    slots = np.arange(4)
    assert CompareQuery(first=stump, second=constant).evaluate(records, slots).tolist() == [1, 1, 0, 2]
    assert CompareQuery(first=constant, second=stump).evaluate(records, slots).tolist() == [1, 1, 2, 0]
    assert CompareQuery(first=stump, second=stump).evaluate(records, slots).tolist() == [1, 1, 1, 1]


def test_outcomes_less_one_are_the_difference_of_losses() -> None:
    generator = np.random.default_rng(1)
    features = generator.normal(size=(500, 3)).astype(np.float32)
    records = Records(features, generator.choice(np.array([-1, 1], dtype=np.int8), 500))
    for query in CompareQuery.example():
        losses = [evaluate("zero-one", hypothesis, records) for hypothesis in (query.first, query.second)]
        outcomes = query.evaluate(records, np.arange(500)).astype(np.int64)
        np.testing.assert_array_equal(1 - outcomes, losses[0] - losses[1])
        assert len(set(outcomes.tolist())) == 3
