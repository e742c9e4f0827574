"""Learn and test: the curator learns once."""

from __future__ import annotations

from common.vocabulary.demands.base import DEMANDS, Demands
from common.vocabulary.patterns import agents, curator, sequence

DEMANDS.register("learn-and-test")(
    Demands(
        sequence(curator("learn"), agents("loss")),
        reweighs=False,
        claims=False,
        transfers=True,
        answers="value",
    )
)
