"""For an operation of the curator, request and handler: entry points in the group ``tandem.operations``."""

from common.core.arrays import AnyArray, Floats, Indices
from common.core.errors import PolicyRefused
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import OPERATIONS, Natural, Operation, Result, Whole
from common.privacy.events import Event, Gaussian, NoEvent, NonPrivate, Release, SubsampledRelease
from curator.mechanisms.counts import MostFrequent, NoisyCount, NoisyHistogram
from curator.mechanisms.sums import ClippedSum
from curator.metering.access import Access
from curator.operations import HANDLERS, OperationHandler, Standing

__all__ = [
    "HANDLERS",
    "OPERATIONS",
    "Access",
    "AnyArray",
    "ClippedSum",
    "Event",
    "Floats",
    "Gaussian",
    "Indices",
    "MostFrequent",
    "Natural",
    "NoEvent",
    "NoisyCount",
    "NoisyHistogram",
    "NonPrivate",
    "Operation",
    "OperationHandler",
    "PolicyRefused",
    "RandomSource",
    "Records",
    "Release",
    "Result",
    "Standing",
    "SubsampledRelease",
    "Whole",
]
