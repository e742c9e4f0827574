"""The names for authors of plug-ins: for each kind the base class, the registry, and the types in its methods.

docs/extending.md shows one of each. A name is loaded on first use: an individual's agent, too, imports the queries,
mechanisms and hypotheses of plug-ins, and must load nothing of the curator or the referee for that.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tandem import modules_of

if TYPE_CHECKING:
    from common.core.arrays import AnyArray, Bits, Floats, Indices, Labels, Singles, Words
    from common.core.errors import BadScenario, PeerMisbehaved, PolicyRefused
    from common.data.distributions.base import DISTRIBUTIONS, SIDES, Distribution
    from common.learners.base import SETTINGS, Calls, LearnerSettings, OpenSettings, PlanRequest, PlanTask
    from common.local.hypotheses.hypothesis import HYPOTHESES, AnyHypothesis, Hypothesis, Linear, PlainHypothesis
    from common.local.hypotheses.rules import Constant
    from common.local.mechanisms.frequency import FrequencyOracle, within
    from common.local.mechanisms.mechanism import GRID, MECHANISMS, BitMechanism, Mechanism, bounded
    from common.local.naming import Names
    from common.local.queries.query import QUERIES, Answers, AskAgents, FrequencyQuery, LossQuery, Query
    from common.local.records import Records
    from common.numerics.counter import fill_normals, fill_words, stream
    from common.numerics.randomness import RandomSource
    from common.operations.operation import OPERATIONS, Learn, Natural, Operation, Result, Reweigh, Whole
    from common.privacy.events import (
        Composed,
        Event,
        Gaussian,
        NoEvent,
        NonPrivate,
        Release,
        SubsampledRelease,
        SubsampledSteps,
    )
    from common.privacy.rounding import down, up
    from common.protocols.base import DEMANDS, AskCurator, AskTogether, Demands, Progress
    from common.protocols.patterns import Pattern, agents, curator, many, maybe, sequence, some, together
    from common.scenario.scenario import Scenario, parse
    from common.statistics.formulas import PlannedValue, fixed, follow
    from common.statistics.intervals import Estimate
    from curator.learners.base import LEARNERS, CallSizes, Learner
    from curator.mechanisms.access import Access
    from curator.mechanisms.counts import NoisyCount, NoisyHistogram
    from curator.mechanisms.gradient_steps import ClippedSteps
    from curator.mechanisms.selection import MostFrequent
    from curator.mechanisms.stability import ExactQuantile, MostCommon, OfChunks, StableRelease
    from curator.mechanisms.sums import ClippedSum
    from curator.operations import HANDLERS, OperationHandler, Standing
    from referee.protocols.asking import (
        EstimatePlan,
        Finding,
        LevelTestPlan,
        ask,
        ask_together,
        estimate_mean,
        test_mean,
    )
    from referee.protocols.base import PROTOCOLS, Outcome, ProblemPlan, ProblemProtocol, Protocol, Script

__all__ = list(modules_of(__file__))


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(modules_of(__file__)[name]), name)
