"""Scripts that several protocols share: ask the curator, or both sides; test or estimate a query's mean."""

from collections.abc import Generator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from common.core.arrays import Floats, Indices
from common.core.errors import BadInput, BadScenario, PeerMisbehaved
from common.local.hypotheses.composed import Task
from common.local.hypotheses.rules import Constant, Parity
from common.local.mechanisms.mechanism import Mechanism
from common.local.queries.features import CodedQuery, Questions
from common.local.queries.query import Answers, AskAgents, Query
from common.net.messages import MAX_LISTED, most_agents, too_many
from common.operations.operation import Learn, Learned, Operation, R
from common.protocols.base import AskCurator, AskTogether, Testing
from common.scenario.plan import plan
from common.scenario.scenario import ResolvedScenario
from common.statistics.evidence import FixedTest, LossTest, SequentialState, SequentialTest, Verdict, failure
from common.statistics.intervals import Estimate, tally
from common.statistics.robustness import RobustTest
from referee.protocols.base import AnswerSummary

JudgingScript = Generator[AskAgents | Testing, Any, "Finding"]


def ask(operation: Operation[R]) -> Generator[AskCurator, Any, R]:
    """Have the curator carry out an operation; return its result."""
    result: R = yield AskCurator(operation)
    return result


def ask_together(
    operation: Operation[R], *questions: AskAgents
) -> Generator[AskTogether, Any, tuple[R, tuple[Answers, ...]]]:
    """Ask both sides at once: return the operation's result, and the agents' answers to each question."""
    result, *answers = yield AskTogether((AskCurator(operation), *questions))
    return result, tuple(answers)


def learn_parity(task: Task) -> Generator[AskCurator, Any, Parity | None]:
    """Have the curator learn the parity of a task; None if no block of its people answered."""
    return parity_of((yield from ask(Learn(round=1, task=task))), task.features)


def parity_of(learned: Learned, features: int) -> Parity | None:
    """Return the learned parity of at most so many features; None if no block of the curator's people answered."""
    hypothesis = learned.hypothesis
    if isinstance(hypothesis, Constant):
        return None
    if not isinstance(hypothesis, Parity) or hypothesis.min_features > features:
        raise PeerMisbehaved(f"the curator released no parity of {features} features, but a {hypothesis.kind}")
    return hypothesis


@dataclass(frozen=True)
class Finding:
    """What the agents' answers show about a query's mean on T.

    ``verdict`` is None if there was no test, or the agents ran out before it could decide; ``asked`` counts agents.
    ``summary`` has the statistics that the estimate is computed from. ``test`` is the test's state at its end, for
    display (:func:`reached_numbers`). No result contains either.
    """

    verdict: Verdict | None
    estimate: Estimate
    asked: int
    summary: AnswerSummary
    test: dict[str, float] = field(default_factory=dict)


def reached_numbers(reached: SequentialState) -> dict[str, float]:
    """Return the state of a test under the names that progress messages use: ``tested_answers``, ..."""
    return {f"tested_{name}": float(value) for name, value in asdict(reached).items() if value is not None}


@dataclass(frozen=True)
class EstimatePlan:
    """How to estimate the mean of a query on T from answers that ``mechanism`` randomizes.

    ``beta`` is the chance that any interval of a run misses its mean; ``liars`` is the largest share of the first n
    answers, for every n, that may be lies.
    """

    mechanism: Mechanism
    beta: float
    liars: float = 0.0

    @classmethod
    def of(cls, scenario: ResolvedScenario) -> Self:
        """Return the scenario's plan; BadScenario if its agents' answers have no mean."""
        return cls(scenario.agents.value_mechanism, scenario.beta, scenario.agents.liars)

    def summary(self, tallied: tuple[float, int], among: int, asked: int, *, once: bool = False) -> AnswerSummary:
        return AnswerSummary(self.mechanism, *tallied, 1.0 - self.beta, among, self.liars, asked, once)


@dataclass(frozen=True)
class LevelTestPlan(EstimatePlan):
    """How to test whether the mean is above the level ``low`` or below ``high``.

    ``batch`` is the size of a sequential test's first batch; ``fixed`` is the number of answers of a test of fixed size
    (0: as many as its levels take), None for a sequential one.
    """

    low: float = 0.0
    high: float = 1.0
    batch: int = 1
    fixed: int | None = None

    @classmethod
    def of(cls, scenario: ResolvedScenario, levels: tuple[float, float] | None = None, each: int = 1) -> Self:
        """Return the scenario's plan for ``each`` tests per round; ``levels`` are by default those of its loss.

        BadScenario if answers have no mean, a test of fixed size must allow for lies, or no test separates the levels.
        """
        agents, (low, high), paper = scenario.agents, levels or scenario.levels, scenario.bounds == "paper"
        fixed = None
        if paper or agents.test == "fixed":
            if agents.liars:
                what = "only a sequential test bears liars: set agents.test=sequential, bounds=tight"
                raise BadScenario(f"agents.liars: {what}")
            fixed = int(plan(scenario, "paper").answers.value) if paper else 0
        level_plan = cls(agents.value_mechanism, scenario.beta, agents.liars, low, high, agents.batch, fixed)
        level_plan.check(each * scenario.curator.rounds)
        return level_plan

    def check(self, tests: int) -> None:
        """Refuse so many tests if no number of answers separates their levels, or the paper's number does not.

        Together they may be wrong with probability beta.
        """
        try:
            self.open(tests)
        except BadInput as error:
            raise BadScenario(f"agents: {error.detail}") from None
        if self.fixed and tests * failure(self.mechanism, self.low, self.high, self.fixed) > self.beta:
            raise BadScenario(
                f"bounds: the paper's N0 = {self.fixed:,} answers are too few to tell losses of {self.low:g} and "
                f"{self.high:g} apart in {tests:,} tests with probability 1 - beta (docs/corrections.md, K7): take "
                "bounds: tight"
            )

    def open(self, rounds: int) -> LossTest:
        """Return one of ``rounds`` tests, each of which may be wrong with probability beta / rounds."""
        beta = self.beta / rounds
        if self.liars:
            return RobustTest(self.mechanism, self.low, self.high, beta, self.liars)
        if self.fixed is not None:
            return FixedTest(self.mechanism, self.low, self.high, beta, size=self.fixed or None)
        return SequentialTest(self.mechanism, self.low, self.high, beta)


def test_mean(query: Query, levels: LevelTestPlan, rounds: int) -> JudgingScript:
    """Ask fresh agents until a test decides whether the query's mean is above the lower level or below the higher one.

    Each of ``rounds`` tests may be wrong with probability beta / rounds, and all their intervals hold together with
    probability 1 - beta.
    """
    test, asked = levels.open(rounds), 0
    while test.verdict is None:
        yield Testing("testing", {"asked": asked, **reached_numbers(test.reached())})
        # A test asks further questions until it decides, so one question need not reach all agents at once.
        batch = min(test.next_batch(levels.batch), most_agents(alike=query.alike))
        answers = yield AskAgents(query, batch)
        if answers.asked == 0:
            break
        asked += answers.asked
        test.update(*tally(levels.mechanism, answers.values))
    summary = levels.summary((test.total, test.count), rounds, asked)
    return Finding(test.verdict, summary.estimate(), asked, summary, reached_numbers(test.reached()))


def at_once(count: int, *, alike: bool = False) -> int:
    """Return ``count``; BadScenario if one question reaches fewer agents than that.

    ``alike``: it asks every agent the same (:attr:`common.local.queries.query.Query.alike`).
    """
    if count > most_agents(alike=alike):
        raise BadScenario(too_many(count, alike=alike))
    return count


def ask_coded(query: CodedQuery, count: int) -> Generator[AskAgents, Answers, Questions]:
    """Ask ``count`` agents about a code, in as many questions as that takes, each with different public rows."""
    asked: Questions = []
    for begin in range(0, count, MAX_LISTED):
        question = query.model_copy(update={"public": query.public + len(asked)})
        answers = yield AskAgents(question, min(MAX_LISTED, count - begin))
        asked.append((question, answers))
    return asked


def means_by_slot(answers: Answers, mechanism: Mechanism, size: int, unknown: float) -> tuple[Floats, Indices]:
    """Return the mean of the answers about each of ``size`` things, and the number of answers about it.

    An agent's slot determines what it is asked about. A thing that no one answered about has the mean ``unknown``.
    """
    items = answers.slots % size
    counts = np.bincount(items, minlength=size)
    sums = np.bincount(items, weights=mechanism.unbias(answers.values), minlength=size)
    return np.divide(sums, counts, out=np.full(size, unknown), where=counts > 0), counts


def estimate_mean(query: Query, answering: EstimatePlan, count: int, among: int, *, once: bool = True) -> JudgingScript:
    """Ask ``count`` fresh agents once and estimate; the reader will choose among ``among`` such estimates.

    ``count`` was fixed before any of these answers. ``once``: the interval is that of one look; else that of all looks.
    """
    answers = yield AskAgents(query, count)
    mechanism, values = answering.mechanism.pooled(answers.values)
    answering = replace(answering, mechanism=mechanism)
    summary = answering.summary(tally(mechanism, values), among, answers.asked, once=once)
    return Finding(None, summary.estimate(), answers.asked, summary)
