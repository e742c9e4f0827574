"""For a distribution: entry points in the group ``tandem.distributions``."""

from common.core.arrays import AnyArray, Floats, Indices, Words
from common.data.distributions.base import DISTRIBUTIONS, SIDES, Distribution
from common.local.records import Records
from common.numerics.counter import fill_normals, fill_words, stream

__all__ = [
    "DISTRIBUTIONS",
    "SIDES",
    "AnyArray",
    "Distribution",
    "Floats",
    "Indices",
    "Records",
    "Words",
    "fill_normals",
    "fill_words",
    "stream",
]
