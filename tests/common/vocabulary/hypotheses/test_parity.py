"""Parities: against the definition, on wire, on nothing."""

import json

import numpy as np

from common.vocabulary.hypotheses.parity import Parity
from common.vocabulary.records import Records


def test_mistakes_are_those_of_the_definition_at_every_width():
    generator = np.random.default_rng(1)
    for width in (1, 7, 64, 65, 200):
        features = generator.integers(0, 2, (300, width)).astype(np.uint8)
        secret = np.flatnonzero(generator.integers(0, 2, width))
        labels = np.where(features[:, secret].sum(axis=1) % 2, 1, -1).astype(np.int8)
        labels[::3] *= -1
        mistakes = Parity(features=tuple(secret.tolist())).mistakes(Records(features, labels))
        np.testing.assert_array_equal(mistakes, np.arange(300) % 3 == 0)


def test_the_empty_parity_is_never_odd():
    empty = Parity(features=())
    assert empty.min_features == 0
    np.testing.assert_array_equal(empty.predict(np.ones((4, 3), dtype=np.uint8)), -1)


def test_half_of_two_hundred_features_fit_in_a_small_message():
    assert len(json.dumps(Parity(features=tuple(range(0, 200, 2))).wire())) < 600
