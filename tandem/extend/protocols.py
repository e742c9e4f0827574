"""For a protocol: entry points in the group ``tandem.protocols``."""

from common.core.errors import BadScenario, PeerMisbehaved
from common.scenario.scenario import Scenario, parse
from common.statistics.intervals import Estimate
from common.vocabulary.operations.learn import Learn
from common.vocabulary.operations.reweigh import Reweigh
from common.vocabulary.patterns import Pattern, agents, curator, many, maybe, sequence, some, together
from common.vocabulary.queries.loss import LossQuery
from common.vocabulary.steps import Answers, AskAgents, AskCurator, Progress, Together
from referee.protocols.asking import Finding, ask, ask_together, estimate_mean, test_mean
from referee.protocols.base import ABLATIONS, PROTOCOLS, Outcome, Protocol, Script

__all__ = [
    "ABLATIONS",
    "PROTOCOLS",
    "Answers",
    "AskAgents",
    "AskCurator",
    "BadScenario",
    "Estimate",
    "Finding",
    "Learn",
    "LossQuery",
    "Outcome",
    "Pattern",
    "PeerMisbehaved",
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
