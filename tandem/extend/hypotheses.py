"""For a hypothesis: entry points in the group ``tandem.hypotheses``."""

from common.core.arrays import AnyArray, Floats, Labels, Singles
from common.local.hypotheses.hypothesis import HYPOTHESES, AnyHypothesis, Hypothesis, PlainHypothesis
from common.local.records import Records

__all__ = [
    "HYPOTHESES",
    "AnyArray",
    "AnyHypothesis",
    "Floats",
    "Hypothesis",
    "Labels",
    "PlainHypothesis",
    "Records",
    "Singles",
]
