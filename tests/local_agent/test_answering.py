"""A query that fails for one person changes nobody else's value."""

from typing import Literal

import numpy as np

from common.core.arrays import Floats, Indices
from common.vocabulary.queries.base import Query
from common.vocabulary.records import Records
from local_agent.answering import CONSTANT, evaluate


class Touchy(Query):
    """Fails if anybody's first feature is negative, and answers with the wrong shape if anybody's is above 9."""

    kind: Literal["touchy"] = "touchy"

    @classmethod
    def example(cls):
        return (cls(),)

    @property
    def min_features(self) -> int:
        return 1

    def evaluate(self, records: Records, slots: Indices) -> Floats:
        first = records.features[:, 0].astype(np.float64)
        if (first < 0).any():
            raise ArithmeticError("negative")
        return np.zeros(0) if (first > 9).any() else first


def test_one_persons_failure_is_nobody_elses():
    features = np.array([[0.25], [-1.0], [0.75], [10.0], [np.inf], [2.0]], dtype=np.float32)
    records = Records(features, np.ones(6, dtype=np.int8))
    values = evaluate(Touchy(), records, np.arange(6))
    np.testing.assert_array_equal(values, [0.25, CONSTANT, 0.75, CONSTANT, CONSTANT, 1.0])


def test_nobody_at_all_gives_no_values():
    records = Records(np.empty((0, 1), dtype=np.float32), np.empty(0, dtype=np.int8))
    assert evaluate(Touchy(), records, np.arange(0)).shape == (0,)
