"""A sequence of answers has the length that it was paid for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.vocabulary.learners.aggregation import GnMax, Stability
from curator.learners.scikit import Classifier
from curator.learners.teachers.answers import TeacherAnswers
from curator.learners.teachers.classes import LabelClasses

PARTS, WHOLE = GnMax(noise=10.0), Stability(epsilon=1.0, delta=1e-6)


def answers(aggregation: Any, points: int, *, drawn: bool) -> TeacherAnswers:
    return TeacherAnswers(
        aggregation=aggregation,
        teacher=Classifier(classifier="GaussianNB"),
        classes=LabelClasses(),
        chunks=10,
        by="slot",
        queries=3,
        points=np.zeros((points, 2), dtype=np.float32),
        drawn=drawn,
    )


@pytest.mark.parametrize(("aggregation", "drawn"), [(WHOLE, False), (WHOLE, True), (PARTS, True)])
def test_no_more_points_are_answered_than_one_sequence_was_paid_for(aggregation, drawn):
    assert answers(aggregation, 3, drawn=drawn).queries == 3
    with pytest.raises(ValueError, match="4 points are more than the 3 of one sequence"):
        answers(aggregation, 4, drawn=drawn)


def test_answers_that_are_paid_for_one_by_one_may_go_on():
    prices = [answers(PARTS, points, drawn=False).price.wire() for points in (1, 4)]
    assert [price["count"] for price in prices] == [1, 4]
