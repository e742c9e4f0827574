"""Learn and test: the curator learns once."""

from __future__ import annotations

from common.vocabulary.protocols.base import DEMANDS, Demands

DEMANDS.register("learn-and-test")(Demands(reweighs=False))
