"""For a protocol: entry points in the group ``tandem.protocols``."""

from common.core.errors import BadScenario, PeerMisbehaved
from common.local.answers import Answers, AskAgents
from common.local.queries.loss import LossQuery
from common.operations.learning import Learn
from common.operations.weighting import Reweigh
from common.protocols.patterns import Pattern, agents, curator, many, maybe, sequence, some, together
from common.protocols.steps import AskCurator, Progress, Together
from common.scenario.scenario import Scenario, parse
from common.statistics.intervals import Estimate
from referee.protocols.asking import EstimatePlan, Finding, LevelTestPlan, ask, ask_together, estimate_mean, test_mean
from referee.protocols.base import PROTOCOLS, Outcome, ProblemPlan, ProblemProtocol, Protocol, Script

__all__ = [
    "PROTOCOLS",
    "Answers",
    "AskAgents",
    "AskCurator",
    "BadScenario",
    "Estimate",
    "EstimatePlan",
    "Finding",
    "Learn",
    "LevelTestPlan",
    "LossQuery",
    "Outcome",
    "Pattern",
    "PeerMisbehaved",
    "ProblemPlan",
    "ProblemProtocol",
    "Progress",
    "Protocol",
    "Reweigh",
    "Scenario",
    "Script",
    "Together",
    "agents",
    "ask",
    "ask_together",
    "curator",
    "estimate_mean",
    "many",
    "maybe",
    "parse",
    "sequence",
    "some",
    "test_mean",
    "together",
]
