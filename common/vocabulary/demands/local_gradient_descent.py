"""Local gradient descent: agents alone."""

from __future__ import annotations

from common.vocabulary.demands.base import DEMANDS, Demands
from common.vocabulary.patterns import agents, sequence, some

DEMANDS.register("local-gradient-descent")(
    Demands(
        sequence(some(agents("gradient")), agents("loss")),
        claims=False,
        answers="value",
    )
)
