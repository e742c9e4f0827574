"""One of many parities: agents say which, the curator learns it."""

from __future__ import annotations

from common.protocols.patterns import agents, curator, sequence, some
from common.vocabulary.demands.base import DEMANDS, Demands

DEMANDS.register("one-of-many-parities")(
    Demands(
        sequence(some(agents("code")), curator("learn")),
        alone={"curator": curator("learn"), "agents": some(agents("code"))},
    )
)
