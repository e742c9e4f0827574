"""For a learner: entry points in the group ``tandem.learners``; its planning, if any, stands in the same module."""

from common.core.arrays import AnyArray, Floats, Indices
from common.core.errors import BadScenario
from common.numerics.randomness import RandomSource
from common.planning.learners.base import PLANNINGS, LearnerPlanning, Task
from common.privacy.events import Event, Gaussian, NonPrivate, Release, SubsampledRelease, SubsampledSteps
from common.privacy.rounding import down, up
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.hypotheses.constant import Constant
from common.vocabulary.hypotheses.linear import Linear
from common.vocabulary.learners.base import SETTINGS
from common.vocabulary.mechanisms.laplace import Laplace
from common.vocabulary.records import Records
from curator.learners.base import LEARNERS, Learner, Sizes
from curator.weights.sampling import Sampler

__all__ = [
    "LEARNERS",
    "PLANNINGS",
    "SETTINGS",
    "AnyArray",
    "BadScenario",
    "Constant",
    "Event",
    "Floats",
    "Gaussian",
    "Hypothesis",
    "Indices",
    "Laplace",
    "Learner",
    "LearnerPlanning",
    "Linear",
    "NonPrivate",
    "RandomSource",
    "Records",
    "Release",
    "Sampler",
    "Sizes",
    "SubsampledRelease",
    "SubsampledSteps",
    "Task",
    "down",
    "up",
]
