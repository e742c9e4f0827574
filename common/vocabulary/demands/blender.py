"""Blender: the curator lists the heads of the distribution, agents count them."""

from __future__ import annotations

from common.protocols.patterns import agents, curator, maybe, sequence
from common.vocabulary.demands.base import DEMANDS, Demands

DEMANDS.register("blender")(
    Demands(
        sequence(curator("head"), maybe(agents("listed"))),
        alone={"curator": curator("head"), "agents": sequence(agents("item"), maybe(agents("listed")))},
    )
)
