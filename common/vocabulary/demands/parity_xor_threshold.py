"""The exclusive or of a parity and a threshold: both sides at once."""

from __future__ import annotations

from common.protocols.patterns import agents, curator, together
from common.vocabulary.demands.base import DEMANDS, Demands

DEMANDS.register("parity-xor-threshold")(
    Demands(
        together(curator("parities"), agents("item")),
        alone={"curator": curator("parities"), "agents": agents("item")},
    )
)
