"""Parity and threshold: one each side, in rounds or all at once."""

from __future__ import annotations

from common.protocols.patterns import agents, curator, many, sequence, some, together
from common.vocabulary.demands.base import DEMANDS, Demands

DEMANDS.register("parity-and-threshold")(
    Demands(
        sequence(together(curator("learn"), agents("coordinate")), many(agents("threshold")))
        | together(curator("learn"), agents("item"), agents("item")),
        alone={
            "curator": curator("learn"),
            "agents": sequence(some(agents("code")), agents("coordinate"), many(agents("threshold"))),
        },
    )
)
