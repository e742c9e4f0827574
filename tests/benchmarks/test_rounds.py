"""What a round takes over HTTP: the same rounds are compared."""

from __future__ import annotations

from benchmarks.rounds import compare
from common.scenario.resolved import settled
from curator.service.curator import Curator
from referee.protocols.base import small_ball


def test_the_same_rounds_are_compared_and_the_curator_is_as_it_was():
    perform = Curator.perform
    found = compare(settled(small_ball()))
    assert found["rounds"] == 3
    assert found["exchanges"] >= 5  # three calls of the learner, and a reweigh between them
    assert 0.0 < found["exchange_ms"] < found["embedded_ms"]
    assert Curator.perform is perform
