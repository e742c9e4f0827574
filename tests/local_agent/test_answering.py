"""A query that fails for one person changes nobody else's value."""

from typing import Literal

import numpy as np

from common.core.arrays import Floats, Indices
from common.local.mechanisms.none import NoMechanism
from common.local.queries.query import Query
from common.local.records import Records
from common.numerics.randomness import RandomSource
from local_agent.answering import CONSTANT, evaluate
from local_agent.hosted import answers
from local_agent.hosted.answers import answer_together
from tests.tiers import for_each


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


class Row:
    """A crowd of whom every third one has 1."""

    def records(self, people: Indices, columns: Indices | None = None) -> Records:
        features = (people % 3 == 0).astype(np.float32)[:, np.newaxis]
        return Records(features, np.ones(len(people), dtype=np.int8))


@for_each("count", [0, 1, 3, 4, 5, 8, 9])
def test_everybody_answers_in_blocks_of_any_size(monkeypatch, count):
    monkeypatch.setattr(answers, "BLOCK", 4)
    people = np.arange(count) * 2 + 1
    found = answer_together(Touchy(), NoMechanism(), Row(), people, people, RandomSource.seeded(1))
    assert found.tolist() == (people % 3 == 0).astype(int).tolist()
