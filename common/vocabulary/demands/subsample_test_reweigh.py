"""Subsample-Test-Reweigh: learn on draws, test on agents, reweigh, until the test passes."""

from __future__ import annotations

from common.protocols.patterns import agents, curator, many, maybe, sequence, some
from common.vocabulary.demands.base import DEMANDS, Demands

PATTERN = many(sequence(curator("learn"), some(agents("loss")), maybe(curator("reweigh"))))

DEMANDS.register("subsample-test-reweigh")(Demands(PATTERN, transfers=True, answers="value"))
