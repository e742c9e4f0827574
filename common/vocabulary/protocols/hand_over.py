"""Hand-over: one task after the other on the same people."""

from __future__ import annotations

from common.vocabulary.protocols.base import DEMANDS, Demands

DEMANDS.register("hand-over")(Demands(several_tasks=True))
