"""For what a protocol asks of both sides: entry points in the group ``tandem.demands``."""

from common.protocols.base import DEMANDS, Demands
from common.protocols.patterns import Pattern, agents, curator, many, maybe, sequence, some, together

__all__ = [
    "DEMANDS",
    "Demands",
    "Pattern",
    "agents",
    "curator",
    "many",
    "maybe",
    "sequence",
    "some",
    "together",
]
