"""Model-agnostic private learning: the curator labels public points once."""

from __future__ import annotations

from common.protocols.patterns import agents, curator, sequence
from common.vocabulary.demands.base import DEMANDS, Demands

DEMANDS.register("model-agnostic")(
    Demands(
        sequence(curator("label"), agents("loss")),
        reweighs=False,
        answers="value",
    )
)
