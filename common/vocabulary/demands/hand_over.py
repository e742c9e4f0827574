"""Hand-over: one task after the other on the same people."""

from __future__ import annotations

from common.vocabulary.demands.base import DEMANDS, Demands
from common.vocabulary.demands.subsample_test_reweigh import PATTERN

DEMANDS.register("hand-over")(Demands(PATTERN, several_tasks=True, answers="value"))
