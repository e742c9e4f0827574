"""A parity that chooses a secret: the curator learns it, agents read the secret off."""

from __future__ import annotations

from common.protocols.patterns import agents, curator, many, sequence, some
from common.vocabulary.demands.base import DEMANDS, Demands

DEMANDS.register("parity-chooses-secret")(
    Demands(
        sequence(curator("learn"), many(agents("code"))),
        alone={"curator": curator("learn"), "agents": some(agents("code"))},
    )
)
