"""For an operation of the curator, request and handler: entry points in the group ``tandem.operations``."""

from common.core.arrays import AnyArray, Floats, Indices
from common.core.errors import PolicyRefused
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, Gaussian, NoEvent, NonPrivate, Release, SubsampledRelease
from common.vocabulary.mechanisms.laplace import Laplace
from common.vocabulary.operations.base import OPERATIONS, Natural, Operation, Result, Whole
from curator.operations.base import HANDLERS, OperationHandler, Workspace
from curator.sample.shard import BLOCK

__all__ = [
    "BLOCK",
    "HANDLERS",
    "OPERATIONS",
    "AnyArray",
    "Event",
    "Floats",
    "Gaussian",
    "Indices",
    "Laplace",
    "Natural",
    "NoEvent",
    "NonPrivate",
    "Operation",
    "OperationHandler",
    "PolicyRefused",
    "RandomSource",
    "Release",
    "Result",
    "SubsampledRelease",
    "Whole",
    "Workspace",
]
