"""Portfolio: private models and their repairs, judged by the population."""

from __future__ import annotations

from common.protocols.patterns import agents, curator, many, maybe, sequence
from common.vocabulary.demands.base import DEMANDS, Demands

_REPAIRED = sequence(curator("learn"), maybe(curator("margins")), many(agents("score")))

DEMANDS.register("portfolio")(
    Demands(
        sequence(
            agents("loss"),
            maybe(agents("moment")),
            maybe(sequence(curator("margins"), maybe(curator("rake")))),
            _REPAIRED,
            many(sequence(curator("rake"), _REPAIRED)),
            many(agents("loss")),
            many(agents("sole-error")),
        ),
        reweighs=False,
        portfolio=True,
        claims=False,
        transfers=True,
        further={"margins": 1},
        answers="bit",
    )
)
