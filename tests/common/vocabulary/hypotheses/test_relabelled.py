"""A hypothesis about another label: held against a column, blind to it, and never a way around what a party accepts."""

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.vocabulary.hypotheses.base import parse_hypothesis
from common.vocabulary.losses import evaluate
from common.vocabulary.records import Records
from tests.common.vocabulary.hypotheses.graphs.models import linear, wire

PLANE = {"kind": "linear", "weights": [1.0], "threshold": 0.25}
HYPOTHESIS = parse_hypothesis({"kind": "relabelled", "column": 1, "hypothesis": PLANE})
RECORDS = Records(
    np.array([[0.75, 1.0], [0.75, 0.0], [-0.25, 1.0], [-0.25, 0.0]], dtype=np.float32), -np.ones(4, dtype=np.int8)
)


@pytest.mark.parametrize(
    ("loss", "expected"), [("zero-one", [0, 1, 1, 0]), ("hinge", [0.5, 1, 1, 0.5]), ("perceptron", [0, 0.5, 0.5, 0])]
)
def test_every_loss_is_held_against_the_column(loss, expected):
    assert evaluate(loss, HYPOTHESIS, RECORDS).tolist() == expected


def test_it_needs_the_column():
    assert HYPOTHESIS.min_features == 2


def test_a_hypothesis_that_sees_the_label_is_refused():
    with pytest.raises(BadMessage, match="features before it only"):
        parse_hypothesis({"kind": "relabelled", "column": 1, "hypothesis": {**PLANE, "weights": [1.0, 1.0]}})


@pytest.mark.parametrize(
    "inner", [HYPOTHESIS.wire(), wire(linear([1.0], 0.25)), {"kind": "pickle"}, {"kind": [1]}, None]
)
def test_what_a_party_accepts_by_choice_only_does_not_come_in_through_it(inner):
    with pytest.raises(BadMessage, match="cannot be part of another"):
        parse_hypothesis({"kind": "relabelled", "column": 3, "hypothesis": inner})
