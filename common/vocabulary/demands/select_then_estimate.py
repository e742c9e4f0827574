"""Select then estimate: the curator selects a coordinate, agents estimate it."""

from __future__ import annotations

from common.protocols.patterns import agents, curator, sequence
from common.vocabulary.demands.base import DEMANDS, Demands

DEMANDS.register("select-then-estimate")(
    Demands(
        sequence(curator("select"), agents("coordinate")),
        alone={"curator": sequence(curator("select"), curator("count")), "agents": agents("coordinate")},
    )
)
