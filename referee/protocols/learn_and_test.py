"""Learn and test: the curator learns once, the agents say how good it is for the population."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Literal

from common.core.errors import BadScenario, PeerMisbehaved
from common.learners.model_agnostic import ModelAgnosticSettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.queries.loss import LossQuery
from common.operations.learning import Labelled, LabelPoints, Learn
from common.protocols.base import Progress, pattern_of
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from referee.protocols.asking import EstimatePlan, ask, at_once, estimate_mean
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script, small_ball


@PROTOCOLS.register("learn-and-test")
class LearnAndTest(Protocol):
    """One learner's call on the curator's sample, one test by all agents.

    For learners that account for the difference of S and T themselves, for example by a public sample (private domain
    adaptation, Bassily, Cortes, Mao and Mohri 2024): what they are worth is then a question to T. The estimate is of
    one hypothesis, chosen before any agent answered, so its interval holds as it is. ``exhausted`` if fewer agents
    than ``agents.count`` were there to be asked.
    """

    title = "Learn and test"
    done = (
        "all agents that the scenario wants were asked about one model; no level is tested, and its loss on T may be "
        "large: with probability {sure} at least the stated interval holds that loss among those who answer"
    )
    pattern = pattern_of("learn-and-test")
    supports_byzantine_agents = True

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        return (small_ball("protocol=learn-and-test"),)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        wanted = at_once(scenario.agents.count, alike=True)  # refused before the curator spends anything
        hypothesis = (yield from ask(Learn(round=1))).hypothesis
        loss = LossQuery(hypothesis=hypothesis, loss=scenario.agents.loss)
        found = yield from estimate_mean(loss, EstimatePlan.of(scenario), wanted, 1)
        yield Progress("tested", {"round": 1, "rounds": 1, "asked": found.asked, **found.estimate.wire()})
        reason = f"{found.asked:,} agents tested what the curator learned"
        status: Literal["done", "exhausted"] = "done" if found.asked == wanted else "exhausted"
        return Outcome(status, 1, hypothesis, found.estimate, reason, summary=found.summary)


@PROTOCOLS.register("model-agnostic")
class ModelAgnosticProtocol(Protocol):
    """Algorithms 2 and 3 of Bassily, Thakkar and Thakurta, "Model-Agnostic Private Learning" (2018), and a test.

    The curator's teachers label all public points, privately, and its student learns from the labels. What the student
    is worth for the population is then a question to fresh agents: the estimate is of one hypothesis, chosen before any
    of them answered. ``exhausted`` if fewer agents than ``agents.count`` were there to be asked.
    """

    title = "Model-agnostic private learning"
    done = (
        "all agents that the scenario wants were asked about one model; no level is tested, and its loss on T may be "
        "large: with probability {sure} at least the stated interval holds that loss among those who answer"
    )
    pattern = pattern_of("model-agnostic")
    supports_byzantine_agents = True

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        learner = {
            "name": "model-agnostic",
            "protects": "labels",
            "chunks": 60,
            "teacher": {"classifier": "RidgeClassifier"},
            "student": {"classifier": "RidgeClassifier"},
            "aggregation": {"name": "gnmax", "noise": 10.0},
            "queries": 4,
        }
        return (small_ball("protocol=model-agnostic", f"curator.learner={json.dumps(learner)}"),)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        learner = scenario.curator.settings
        if not isinstance(learner, ModelAgnosticSettings):
            raise BadScenario("model-agnostic needs the learner of that name, and its number of queries")
        wanted = at_once(scenario.agents.count, alike=True)  # refused before the curator spends anything
        queries = learner.queries
        labelled = yield from ask(LabelPoints(count=queries, transfer=True))
        hypothesis = student(labelled, _labels(learner))
        answered = sum(label is not None for label in labelled.labels)
        yield Progress("labelled", {"points": queries, "answered": answered, "unanswered": queries - answered})
        loss = LossQuery(hypothesis=hypothesis, loss=scenario.agents.loss)
        found = yield from estimate_mean(loss, EstimatePlan.of(scenario), wanted, 1)
        yield Progress("tested", {"round": 1, "rounds": 1, "asked": found.asked, **found.estimate.wire()})
        points = "public points" if labelled.protects == "records" else "points of the sample's first half"
        words = f"{answered:,} of {queries:,} {points} were labelled, {found.asked:,} agents tested the student"
        if labelled.protects == "labels":
            words += "; the curator protects labels only, not features"
        status: Literal["done", "exhausted"] = "done" if found.asked == wanted else "exhausted"
        return Outcome(status, 1, hypothesis, found.estimate, words, summary=found.summary)


def _labels(learner: ModelAgnosticSettings) -> Collection[int]:
    return (-1, 1) if learner.classes is None else range(learner.classes.count)


def student(labelled: Labelled, known: Collection[int]) -> Hypothesis:
    """Return the student's model, of labels that are known.

    Raises:
        PeerMisbehaved: If there is none, or a label is not known.
    """
    if any(label is not None and label not in known for label in labelled.labels):
        raise PeerMisbehaved(f"the curator released labels other than null and the {len(known)} that are known")
    if labelled.hypothesis is None:
        raise PeerMisbehaved("the curator released no student's model")
    return labelled.hypothesis
