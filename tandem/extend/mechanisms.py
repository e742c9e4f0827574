"""For a mechanism: entry points in the group ``tandem.mechanisms``."""

from common.core.arrays import AnyArray, Bits, Floats, Indices, Words
from common.numerics.randomness import RandomSource
from common.privacy.rounding import down, up
from common.vocabulary.mechanisms.base import GRID, MECHANISMS, BitMechanism, Mechanism, bounded
from common.vocabulary.mechanisms.frequency import FrequencyOracle, within

__all__ = [
    "GRID",
    "MECHANISMS",
    "AnyArray",
    "BitMechanism",
    "Bits",
    "Floats",
    "FrequencyOracle",
    "Indices",
    "Mechanism",
    "RandomSource",
    "Words",
    "bounded",
    "down",
    "up",
    "within",
]
