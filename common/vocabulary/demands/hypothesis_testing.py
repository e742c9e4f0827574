"""Hypothesis testing: a noisy count of the curator, then one coordinate of the agents."""

from __future__ import annotations

from common.protocols.patterns import agents, curator, sequence
from common.vocabulary.demands.base import DEMANDS, Demands

DEMANDS.register("hypothesis-testing")(
    Demands(
        sequence(curator("count"), agents("coordinate")),
        alone={"curator": curator("count"), "agents": agents("coordinate")},
    )
)
