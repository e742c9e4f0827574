"""Losses are those of the textbooks, bounded, and counted to the nearest part."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local import losses
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.rules import Constant, Stump
from common.local.queries.loss import LossQuery
from common.local.records import Records
from common.operations.operation import parse_operation
from tests.tiers import for_each

PLANE = Linear(weights=(1.0,), threshold=0.25)
"""Margins of the records below: 0.5, 0.5, -0.5, 4, 4, 0."""
RECORDS = Records(
    np.array([[0.75], [0.75], [-0.25], [4.25], [4.25], [0.25]], dtype=np.float32),
    np.array([1, -1, 1, 1, -1, 1], dtype=np.int8),
)
EXPECTED = {
    "zero-one": [0.0, 1.0, 1.0, 0.0, 1.0, 1.0],
    "hinge": [0.5, 1.0, 1.0, 0.0, 1.0, 1.0],
    "perceptron": [0.0, 0.5, 0.5, 0.0, 1.0, 0.0],
    "squared": [0.0625, 0.5625, 0.5625, 0.0, 1.0, 0.25],
}


@for_each("loss", EXPECTED)
def test_losses_are_as_defined(loss):
    assert losses.evaluate(loss, PLANE, RECORDS).tolist() == EXPECTED[loss]
    assert LossQuery(hypothesis=PLANE, loss=loss).evaluate(RECORDS, np.arange(6)).tolist() == EXPECTED[loss]


@for_each("loss", EXPECTED)
def test_counts_are_the_nearest_parts(loss):
    random = np.random.default_rng(1)
    records = Records(
        random.normal(size=(500, 1)).astype(np.float32), np.where(random.random(500) < 0.5, 1, -1).astype(np.int8)
    )
    parts = losses.grain(loss)
    counted = losses.count(loss, PLANE, records)
    assert np.abs(counted / parts - losses.evaluate(loss, PLANE, records)).max() <= 0.5 / parts


@pytest.mark.parametrize("loss", ["hinge", "perceptron"])
def test_an_overflowing_margin_without_a_value_has_loss_0(loss):
    mad = Linear(weights=(1e30, -1e30), threshold=0.0)
    records = Records(np.full((1, 2), 3e38, dtype=np.float32), np.array([1], dtype=np.int8))
    assert losses.evaluate(loss, mad, records).tolist() == [0.0]


@pytest.mark.parametrize("hypothesis", [Constant(label=1), Stump(feature=0, threshold=0.1, sign=-1)], ids=str)
def test_the_hinge_of_what_has_no_margin_is_a_mistake(hypothesis):
    hinge, mistakes = (losses.count(loss, hypothesis, RECORDS) for loss in ("hinge", "zero-one"))
    np.testing.assert_array_equal(hinge, 1024 * mistakes.astype(np.int64))


def test_a_reweigh_names_its_loss():
    wire = {"kind": "reweigh", "hypothesis": PLANE.wire()}
    assert parse_operation(wire).loss == "zero-one"  # type: ignore[attr-defined]
    assert parse_operation({**wire, "loss": "hinge"}).wire()["loss"] == "hinge"
    with pytest.raises(BadMessage, match="loss"):
        parse_operation({**wire, "loss": "absolute"})
