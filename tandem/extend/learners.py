"""For a learner: entry points in the group ``tandem.learners``; settings, event, plan and fit may share a module."""

from common.core.arrays import AnyArray, Floats, Indices
from common.core.errors import BadScenario
from common.learners.base import SETTINGS, Calls, LearnerSettings, OpenSettings, PlanRequest, PlanTask
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.rules import Constant
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, Gaussian, NonPrivate, Release, SubsampledRelease, SubsampledSteps
from common.privacy.rounding import down, up
from common.statistics.formulas import PlannedValue, fixed, follow
from curator.learners.base import LEARNERS, CallSizes, Learner
from curator.mechanisms.clipped_steps import ClippedSteps
from curator.mechanisms.counts import MostFrequent, NoisyCount, NoisyHistogram
from curator.mechanisms.sums import ClippedSum
from curator.metering.access import Access

__all__ = [
    "LEARNERS",
    "SETTINGS",
    "Access",
    "AnyArray",
    "BadScenario",
    "CallSizes",
    "Calls",
    "ClippedSteps",
    "ClippedSum",
    "Constant",
    "Event",
    "Floats",
    "Gaussian",
    "Hypothesis",
    "Indices",
    "Learner",
    "LearnerSettings",
    "Linear",
    "MostFrequent",
    "NoisyCount",
    "NoisyHistogram",
    "NonPrivate",
    "OpenSettings",
    "PlanRequest",
    "PlanTask",
    "PlannedValue",
    "RandomSource",
    "Records",
    "Release",
    "SubsampledRelease",
    "SubsampledSteps",
    "down",
    "fixed",
    "follow",
    "up",
]
