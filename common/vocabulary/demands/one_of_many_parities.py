"""One of many parities: agents say which, the curator learns it."""

from __future__ import annotations

from common.vocabulary.demands.base import DEMANDS, Demands
from common.vocabulary.patterns import agents, curator, sequence, some

DEMANDS.register("one-of-many-parities")(
    Demands(
        sequence(some(agents("code")), curator("learn")),
        alone={"curator": curator("learn"), "agents": some(agents("code"))},
    )
)
