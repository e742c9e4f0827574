"""For a mechanism: entry points in the group ``tandem.mechanisms``."""

from common.core.arrays import AnyArray, Bits, Floats, Indices, Words
from common.local.mechanisms.frequency import FrequencyOracle, within
from common.local.mechanisms.mechanism import GRID, MECHANISMS, BitMechanism, Mechanism, bounded
from common.numerics.randomness import RandomSource
from common.privacy.rounding import down, up

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
