"""Subsample-Test-Reweigh: learn on the curator's sample, test on the population, reweigh, repeat; or learn once, test.

R. Kohen and O. Sheffet, "Transfer Learning in Differential Privacy's Hybrid-Model", ICML 2022: Algorithm 2, with
Algorithm 3 as its learner Algorithm 4, with null mechanisms Algorithm 1.
"""

import math
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from common.core.errors import BadScenario, PeerMisbehaved
from common.learners.model_agnostic import ModelAgnosticSettings
from common.local.hypotheses.composed import Task
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.losses import Costs, Loss
from common.local.queries.query import LossQuery
from common.operations.operation import Labelled, LabelPoints, Learn, Reweigh
from common.protocols.base import AskCurator, Progress, pattern_of
from common.scenario.scenario import ResolvedScenario
from referee.protocols.asking import EstimatePlan, JudgingScript, LevelTestPlan, ask, at_once, estimate_mean, test_mean
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script, all_used


@PROTOCOLS.register("subsample-test-reweigh")
class SubsampleTestReweigh(Protocol):
    """Find a hypothesis with a small loss on the population T from a biased sample of S.

    *Realizable* (Theorem 4.3): halt at the first hypothesis whose loss on T is shown to be below the upper level; every
    reweigh is by a hypothesis whose loss on T is shown to be above the lower level, so with probability 1 - 3 beta one
    of the first T rounds halts. *Agnostic* (no theorem; docs/corrections.md, K11): use every round, return the best by
    its upper confidence limit, which holds for all rounds together. If rounds or agents run out, it ends ``exhausted``
    with the best. With mechanism ``none`` and kappa null it is Algorithm 1: the agents' test is the SQ oracle, and its
    tolerance tau is half the distance of the two levels.

    *Convex losses* (Algorithm 4, Theorem A.4): tested, and reweighed by, as l = min(L, B)/B for a public bound B. The
    proof needs a loss in [0, 1] and nothing else of it, so T, kappa and eta are those of alpha in units of B; a learner
    that reaches B alpha of its own loss L reaches alpha of l, since l <= L/B.

    *alpha_H* (``accuracy.best``): both levels are that much higher. If on every kappa-dense mu over the sample some
    hypothesis has a loss of alpha_H at most (it suffices that one has this mean loss over its worst kappa n records),
    then E_mu[1 - l] >= 1 - alpha_H - alpha in every round and E_u[1 - l] <= 1 - (alpha_H + reweigh_above alpha -
    slack): alpha_H cancels, and T is as before. ``mode: realizable`` says that this holds. Without it, halting is as
    valid, since the test alone decides it, but no theorem says that the run ever halts.
    """

    tests_level = True
    done = (
        "the agents' test has rejected that the loss on T is {level} or more among those who answer; with probability "
        "{beta} at most a run rejects this although it is true, over all its rounds"
    )
    pattern = pattern_of("subsample-test-reweigh")
    supports_byzantine_agents = True

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        plan = RoundsPlan.of(scenario)
        yield from take_over(scenario)
        return (yield from run_rounds(plan, None, 1, plan.rounds))


def take_over(scenario: ResolvedScenario) -> Generator[AskCurator, Any, None]:
    """Start from the weights of earlier runs: have the curator repeat their reweighs (docs/hand-over.md)."""
    for reweigh in scenario.handed_over:
        yield from ask(reweigh)


@dataclass(frozen=True)
class RoundsPlan:
    """The numbers of a resolved scenario that Algorithm 2 uses.

    There are at most ``rounds`` (T) learner calls. Agents test ``loss``, as a part of ``bound``, by ``judging``: by
    levels if the run halts at the first good hypothesis, else by one estimate per round from ``share`` agents. The
    curator reweighs by the same loss, or by ``mistakes``.
    """

    rounds: int
    loss: Loss
    bound: float
    mistakes: bool
    judging: LevelTestPlan | EstimatePlan
    share: int

    @classmethod
    def of(cls, scenario: ResolvedScenario) -> Self:
        """Return the scenario's plan; BadScenario if it has fewer agents than rounds, or they cannot be asked so."""
        rounds, agents = scenario.curator.rounds, scenario.agents
        if not scenario.halts and agents.count < rounds:
            raise BadScenario(f"agnostic: {rounds} rounds ask agents in each, agents.count is {agents.count}")
        judging = LevelTestPlan.of(scenario) if scenario.halts else EstimatePlan.of(scenario)
        return cls(rounds, agents.loss, agents.bound, agents.reweigh == "mistakes", judging, agents.count // rounds)

    @property
    def halts(self) -> bool:
        return isinstance(self.judging, LevelTestPlan)

    def judge(self, hypothesis: Hypothesis) -> JudgingScript:
        """Ask fresh agents about a hypothesis's loss, in one of ``rounds`` tests or estimates."""
        query = LossQuery(hypothesis=hypothesis, loss=self.loss, bound=self.bound)
        if isinstance(self.judging, LevelTestPlan):
            return test_mean(query, self.judging, self.rounds)
        return estimate_mean(query, self.judging, self.share, self.rounds)

    def reweigh(self, hypothesis: Hypothesis) -> Reweigh:
        if self.mistakes:
            return Reweigh(hypothesis=hypothesis)
        return Reweigh(hypothesis=hypothesis, loss=self.loss, bound=self.bound)


def run_rounds(plan: RoundsPlan, task: Task | None, first: int, last: int) -> Script:
    """Run Algorithm 2 in the rounds ``first`` to ``last``, from the weights that the curator then has.

    The outcome's ``iterations`` is the number of the last round used.
    """
    rounds = plan.rounds
    best, least = None, math.inf
    for t in range(first, last + 1):
        learn = Learn(round=t, task=task)
        hypothesis = learn.about_records((yield from ask(learn)))
        finding = yield from plan.judge(hypothesis)
        numbers = {"round": t, "rounds": rounds, "asked": finding.asked, **finding.estimate.wire(), **finding.test}
        yield Progress(f"round {t}", numbers)
        reason = all_used(rounds)
        ended = Outcome("exhausted", t, hypothesis, finding.estimate, reason, summary=finding.summary)
        if best is None or finding.estimate.high < least:
            best, least = ended, finding.estimate.high
        if finding.verdict == "below":
            return replace(ended, status="done", reason=f"the loss on T is shown to be below the level after round {t}")
        if plan.halts and finding.verdict is None:
            return best.ended(t, f"all agents were asked by round {t}{_of_first(best, t)}")
        if t < last:
            yield from ask(plan.reweigh(hypothesis))
    if best is None:
        raise AssertionError("there is at least one round")
    return best.ended(last, best.reason + _of_first(best, last))


def _of_first(best: Outcome, last: int) -> str:
    return "; the answer is the first round's, which nothing had reweighed" if best.iterations == 1 < last else ""


@PROTOCOLS.register("hand-over")
class HandOver(Protocol):
    """Subsample-Test-Reweigh for each of the scenario's tasks in turn; the curator's weights are never reset.

    *Privacy.* All tasks' learner calls are made on the same people, so they share the curator's budget and its
    ``rounds``; every call is charged for the number of reweighs before it, whatever task they were for. The log-weight
    of a record is a function of the record and of public messages, so the sampling bound holds for any sequence of
    public hypotheses about any labels.

    *Rounds.* m tasks take floor(K/(2 g^2)) + m rounds, where m separate runs may take m times floor(K/(2 g^2)) + 1,
    with probability 1 - 3 beta, if ``vc_dimension`` is that of the union of all tasks' losses. docs/hand-over.md has
    the proofs and their limits.

    As in Algorithm 2, no reweigh uses a task's accepted hypothesis. A task that runs out of rounds or agents ends the
    run: later ones do not start. Agnostic (no theorem): each task gets an equal share of the rounds.
    """

    tests_level = True
    done = (
        "for each task the agents' test has rejected that the loss on T is {level} or more among those who answer; "
        "with probability {beta} at most a run rejects this although it is true, over all its tasks and rounds"
    )
    pattern = pattern_of("hand-over")
    small = ("protocol=hand-over",)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        plan, tasks = RoundsPlan.of(scenario), scenario.tasks or (None,)
        yield from take_over(scenario)
        rounds = plan.rounds
        ended: list[Outcome] = []
        used = 0
        for number, task in enumerate(tasks, start=1):
            if used == rounds or (ended and plan.halts and ended[-1].status != "done"):
                break
            last = rounds if plan.halts else max(used + 1, rounds * number // len(tasks))
            outcome = yield from run_rounds(plan, task, used + 1, last)
            ended.append(outcome.ended(outcome.iterations - used, outcome.reason))
            used = outcome.iterations
            yield Progress(f"task {number} of {len(tasks)}: {outcome.status}, {outcome.reason}", {})
        final = ended[-1]
        if len(ended) < len(tasks) and final.status == "done":
            reason = f"{all_used(rounds)} before task {len(ended) + 1}"
            return Outcome("exhausted", used, final.answer, final.estimate, reason, tuple(ended))
        return Outcome(final.status, used, final.answer, final.estimate, final.reason, tuple(ended))


_DONE = (
    "all agents that the scenario wants were asked about one model; no level is tested, and its loss on T may be "
    "large: with probability {sure} at least the stated interval holds that loss among those who answer"
)


@dataclass(frozen=True)
class SingleTest:
    """The numbers of a resolved scenario for testing one model with ``count`` agents, all asked at once."""

    answering: EstimatePlan
    count: int
    loss: Loss
    bound: float
    costs: Costs | None

    @classmethod
    def of(cls, scenario: ResolvedScenario) -> Self:
        """Return the scenario's plan; BadScenario if one question does not reach so many agents."""
        agents = scenario.agents
        count = at_once(agents.count, alike=True)
        return cls(EstimatePlan.of(scenario), count, agents.loss, agents.bound, agents.costs)

    def test(self, hypothesis: Hypothesis, reason: Callable[[int], str]) -> Script:
        """Ask all agents about a hypothesis that was chosen before any of them answered, and end.

        It ends ``exhausted`` if fewer than ``count`` could be asked. ``reason`` says why, for a number of agents.
        """
        loss = LossQuery(hypothesis=hypothesis, loss=self.loss, bound=self.bound, costs=self.costs)
        finding = yield from estimate_mean(loss, self.answering, self.count, 1)
        yield Progress("tested", {"round": 1, "rounds": 1, "asked": finding.asked, **finding.estimate.wire()})
        status: Literal["done", "exhausted"] = "done" if finding.asked == self.count else "exhausted"
        return Outcome(status, 1, hypothesis, finding.estimate, reason(finding.asked), summary=finding.summary)


@PROTOCOLS.register("learn-and-test")
class LearnAndTest(Protocol):
    """The curator learns one hypothesis from its sample, and all agents test it.

    For learners that account for the difference of S and T themselves, for example with a public sample (private domain
    adaptation, Bassily, Cortes, Mao and Mohri 2024): agents then measure the result's loss on T. The estimate is of one
    hypothesis, chosen before any agent answered, so its interval needs no correction.
    """

    done = _DONE
    pattern = pattern_of("learn-and-test")
    supports_byzantine_agents = True
    small = ("protocol=learn-and-test",)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        plan = SingleTest.of(scenario)
        learned = yield from ask(Learn(round=1))
        what = "agents tested what the curator learned"
        tested = yield from plan.test(learned.hypothesis, lambda asked: f"{asked:,} {what}")
        return replace(tested, bound=learned.bound)


@PROTOCOLS.register("model-agnostic")
class ModelAgnosticProtocol(Protocol):
    """Algorithms 2 and 3 of Bassily, Thakkar and Thakurta, "Model-Agnostic Private Learning" (2018), and a test.

    The curator's teachers privately label all public points, and its student learns from the labels. Fresh agents then
    measure the student's loss on the population, as in :class:`LearnAndTest`.
    """

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
        counted = f"{answered:,} of {queries:,} {points} were labelled"
        return (yield from plan.test(hypothesis, lambda asked: f"{counted}, {asked:,} agents tested the student{only}"))


def further(labelled: Labelled, learner: ModelAgnosticSettings) -> str:
    """Return as text what the curator's stream still accepts; PeerMisbehaved if it is not the stream agreed to."""
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


def student(labelled: Labelled, classes: Collection[int]) -> Hypothesis:
    """Return the student's model; PeerMisbehaved if there is none, or a label is not among ``classes``."""
    if any(label is not None and label not in classes for label in labelled.labels):
        raise PeerMisbehaved(f"the curator released labels other than null and the {len(classes)} that are known")
    if labelled.hypothesis is None:
        raise PeerMisbehaved("the curator released no student's model")
    return labelled.hypothesis
