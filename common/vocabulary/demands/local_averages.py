"""Local averages: agents alone."""

from __future__ import annotations

from common.vocabulary.demands.base import DEMANDS, Demands
from common.vocabulary.patterns import agents, sequence

DEMANDS.register("local-averages")(
    Demands(
        sequence(agents("moment"), agents("loss")),
        claims=False,
        answers="value",
    )
)
