"""Local averages: agents alone."""

from __future__ import annotations

from common.protocols.patterns import agents, sequence
from common.vocabulary.demands.base import DEMANDS, Demands

DEMANDS.register("local-averages")(
    Demands(
        sequence(agents("moment"), agents("loss")),
        claims=False,
        answers="value",
    )
)
