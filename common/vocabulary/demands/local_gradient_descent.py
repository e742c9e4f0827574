"""Local gradient descent: agents alone."""

from __future__ import annotations

from common.protocols.patterns import agents, sequence, some
from common.vocabulary.demands.base import DEMANDS, Demands

DEMANDS.register("local-gradient-descent")(
    Demands(
        sequence(some(agents("gradient")), agents("loss")),
        claims=False,
        answers="value",
    )
)
