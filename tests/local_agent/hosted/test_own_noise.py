"""Noise of many people at once is each person's own, word for word."""

from __future__ import annotations

import numpy as np
import pytest

from common.data.population import TableRecordSource
from common.local.mechanisms.mechanism import MECHANISMS, Mechanism
from common.local.queries.item import ItemQuery
from common.local.queries.loss import LossQuery
from common.local.records import Records
from common.numerics.randomness import RandomSource
from local_agent.hosted.answers import NotOneEach, OwnNoise, answer_together
from tests.tiers import for_each, thinned

REAL = [
    mechanism for name in MECHANISMS.names() for mechanism in MECHANISMS[name].example() if mechanism.for_real_people
]


def people(count: int) -> TableRecordSource:
    rng = np.random.default_rng(3)
    features = rng.random((count, 8), dtype=np.float32) - 0.5
    return TableRecordSource(Records(features, np.where(rng.random(count) < 0.5, 1, -1).astype(np.int8)))


@for_each("mechanism", thinned(REAL, 6), ids=lambda mechanism: f"{mechanism.name}-{mechanism.guarantee[0]:g}")
def test_together_people_answer_as_each_would_alone(mechanism, monkeypatch):
    query = LossQuery.example()[1] if isinstance(mechanism, Mechanism) else ItemQuery.example()[0]
    rows, everybody, secret = people(300), np.arange(300), RandomSource(bytes(range(32)), simulated=False)
    alone = [
        answer_together(query, mechanism, rows, everybody[i : i + 1], everybody[i : i + 1], secret)[0]
        for i in range(300)
    ]
    assert answer_together(query, mechanism, rows, everybody, everybody, secret).tolist() == alone

    def other(source: OwnNoise, count: int) -> None:
        raise NotOneEach

    monkeypatch.setattr(OwnNoise, "words", other)
    assert answer_together(query, mechanism, rows, everybody, everybody, secret).tolist() == alone


def test_rejected_words_are_drawn_again_from_the_same_persons_stream():
    """Of this bound one word in eight is rejected: some people draw again, and some of them twice."""
    keys = [bytes([k] * 32) for k in range(200)]
    bound = (1 << 61) + 1
    alone = [RandomSource(key, simulated=False) for key in keys]
    together = OwnNoise([RandomSource(key, simulated=False) for key in keys])
    assert together.integers(bound, 200).tolist() == [int(source.integers(bound, 1)[0]) for source in alone]
    assert together.words(200).tolist() == [int(source.words(1)[0]) for source in alone]
    assert together.uniforms(200).tolist() == [float(source.uniforms(1)[0]) for source in alone]
    assert together.bernoullis(0.3, 200).tolist() == [int(source.bernoullis(0.3, 1)[0]) for source in alone]


@for_each("draw", [lambda s: s.words(3), lambda s: s.normals(4), lambda s: s.derive("x")])
def test_anything_else_than_a_number_each_is_refused(draw):
    with pytest.raises(NotOneEach):
        draw(OwnNoise([RandomSource(bytes(32), simulated=False)] * 4))
