"""Learn and test: the curator learns once."""

from __future__ import annotations

from common.protocols.patterns import agents, curator, sequence
from common.vocabulary.demands.base import DEMANDS, Demands

DEMANDS.register("learn-and-test")(
    Demands(
        sequence(curator("learn"), agents("loss")),
        reweighs=False,
        claims=False,
        transfers=True,
        answers="value",
    )
)
