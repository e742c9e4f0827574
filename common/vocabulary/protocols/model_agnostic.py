"""Model-agnostic private learning: the curator labels public points once."""

from __future__ import annotations

from common.vocabulary.protocols.base import DEMANDS, Demands

DEMANDS.register("model-agnostic")(Demands(reweighs=False))
