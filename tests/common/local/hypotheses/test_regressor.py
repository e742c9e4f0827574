"""A regressor predicts one feature from those before it, within the feature's range, and is total."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local import losses
from common.local.hypotheses.regressor import Regressor
from common.local.records import Records

RECORDS = Records(
    np.array([[0.0, 9.0, 0.5], [1.0, 9.0, 0.5], [2.0, 9.0, 1.0], [-9.0, 9.0, 0.25]], dtype=np.float32),
    np.array([1, -1, 1, -1], dtype=np.int8),
)
LINE = Regressor(weights=(0.5,), intercept=0.25, response=2)


def test_the_squared_loss_is_that_of_the_clipped_prediction():
    assert LINE.values(RECORDS.features).tolist() == [0.25, 0.75, 1.0, 0.0]
    assert losses.evaluate("squared", LINE, RECORDS).tolist() == [0.0625, 0.0625, 0.0, 0.0625]
    assert losses.count("squared", LINE, RECORDS).tolist() == [64, 64, 0, 64]


def test_as_a_classifier_it_says_on_which_side_of_one_half_the_response_is():
    assert LINE.labels(RECORDS).tolist() == [-1, -1, 1, -1]
    assert LINE.predict(RECORDS.features).tolist() == [-1, 1, 1, -1]
    assert LINE.mistakes(RECORDS).tolist() == [0, 1, 0, 0]


def test_a_prediction_without_a_value_is_one_half():
    mad = Regressor(weights=(1e30, -1e30), intercept=0.0, response=2)
    records = Records(np.full((1, 3), 3e38, dtype=np.float32), np.array([1], dtype=np.int8))
    assert losses.evaluate("squared", mad, records).tolist() == [0.25]


def test_a_model_that_sees_its_response_is_refused():
    with pytest.raises(BadMessage, match="response = 1 is among the 2 features"):
        Regressor.parse({"kind": "regressor", "weights": [1.0, 2.0], "intercept": 0.0, "response": 1})
