"""Learn and test: the curator learns once, the agents say how good it is for the population."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from common.core.errors import BadScenario, PeerMisbehaved
from common.learners.model_agnostic import ModelAgnosticSettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.losses import Loss
from common.local.queries.query import LossQuery
from common.operations.operation import Labelled, LabelPoints, Learn
from common.protocols.base import Progress, pattern_of
from common.scenario.scenario import ResolvedScenario
from referee.protocols.asking import EstimatePlan, ask, at_once, estimate_mean
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script

_DONE = (
    "all agents that the scenario wants were asked about one model; no level is tested, and its loss on T may be "
    "large: with probability {sure} at least the stated interval holds that loss among those who answer"
)


@dataclass(frozen=True)
class SingleTest:
    """The numbers of a resolved scenario with which one model is tested: by ``count`` agents, all at once."""

    answering: EstimatePlan
    count: int
    loss: Loss

    @classmethod
    def of(cls, scenario: ResolvedScenario) -> SingleTest:
        """Return the scenario's; BadScenario if one question does not reach so many agents."""
        agents = scenario.agents
        return cls(EstimatePlan.of(scenario), at_once(agents.count, alike=True), agents.loss)

    def test(self, hypothesis: Hypothesis, reason: Callable[[int], str]) -> Script:
        """Ask all agents about a hypothesis that was chosen before any of them answered, and end.

        ``exhausted`` if fewer than ``count`` were there to be asked. ``reason`` says why it ended, of how many.
        """
        loss = LossQuery(hypothesis=hypothesis, loss=self.loss)
        found = yield from estimate_mean(loss, self.answering, self.count, 1)
        yield Progress("tested", {"round": 1, "rounds": 1, "asked": found.asked, **found.estimate.wire()})
        status: Literal["done", "exhausted"] = "done" if found.asked == self.count else "exhausted"
        return Outcome(status, 1, hypothesis, found.estimate, reason(found.asked), summary=found.summary)


@PROTOCOLS.register("learn-and-test")
class LearnAndTest(Protocol):
    """One learner's call on the curator's sample, one test by all agents.

    For learners that account for the difference of S and T themselves, for example by a public sample (private domain
    adaptation, Bassily, Cortes, Mao and Mohri 2024): what they are worth is then a question to T. The estimate is of
    one hypothesis, chosen before any agent answered, so its interval holds as it is.
    """

    title = "Learn and test"
    done = _DONE
    pattern = pattern_of("learn-and-test")
    supports_byzantine_agents = True
    small = ("protocol=learn-and-test",)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        plan = SingleTest.of(scenario)
        hypothesis = (yield from ask(Learn(round=1))).hypothesis
        return (yield from plan.test(hypothesis, lambda asked: f"{asked:,} agents tested what the curator learned"))


@PROTOCOLS.register("model-agnostic")
class ModelAgnosticProtocol(Protocol):
    """Algorithms 2 and 3 of Bassily, Thakkar and Thakurta, "Model-Agnostic Private Learning" (2018), and a test.

    The curator's teachers label all public points, privately, and its student learns from the labels. What the student
    is worth for the population is then a question to fresh agents, as in :class:`LearnAndTest`.
    """

    title = "Model-agnostic private learning"
    done = _DONE
    pattern = pattern_of("model-agnostic")
    supports_byzantine_agents = True

    small = (
        "protocol=model-agnostic",
        "curator.learner={name: model-agnostic, protects: labels, chunks: 60, teacher: {classifier: RidgeClassifier}, "
        "student: {classifier: RidgeClassifier}, aggregation: {name: gnmax, noise: 10.0}, queries: 4}",
    )

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        learner, plan = scenario.curator.settings, SingleTest.of(scenario)
        if not isinstance(learner, ModelAgnosticSettings):
            raise BadScenario("model-agnostic needs the learner of that name, and its number of queries")
        queries = learner.queries
        labelled = yield from ask(LabelPoints(count=queries, transfer=True))
        hypothesis = student(labelled, (-1, 1) if learner.classes is None else range(learner.classes.count))
        answered = queries - labelled.unstable
        yield Progress("labelled", {"points": queries, "answered": answered, "unanswered": queries - answered})
        points = "public points" if labelled.protects == "records" else "points of the sample's first half"
        only = "; the curator protects labels only, not features" if labelled.protects == "labels" else ""
        only += further(labelled, learner)
        return (
            yield from plan.test(
                hypothesis,
                lambda asked: (
                    f"{answered:,} of {queries:,} {points} were labelled, {asked:,} agents tested the student{only}"
                ),
            )
        )


def further(labelled: Labelled, learner: ModelAgnosticSettings) -> str:
    """Say what may still be asked of the curator's stream; PeerMisbehaved if that is not what was agreed to."""
    stream, cutoff = labelled.stream, getattr(learner.aggregation, "cutoff", None)
    if (stream and (stream.questions, stream.cutoff)) != (learner.stream and (learner.stream, cutoff)):
        raise PeerMisbehaved("the curator opened another stream than its policy has")
    if stream is None:
        return ""
    left = max(0, stream.cutoff - labelled.unstable)
    return (
        f"; at no further cost the curator's stream takes {stream.questions:,} questions more, until {left:,} of them "
        "have no stable answer"
    )


def student(labelled: Labelled, known: Collection[int]) -> Hypothesis:
    """Return the student's model; PeerMisbehaved if there is none, or a label is not among those that are known."""
    if any(label is not None and label not in known for label in labelled.labels):
        raise PeerMisbehaved(f"the curator released labels other than null and the {len(known)} that are known")
    if labelled.hypothesis is None:
        raise PeerMisbehaved("the curator released no student's model")
    return labelled.hypothesis
