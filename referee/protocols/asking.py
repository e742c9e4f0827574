"""Scripts that several protocols share: ask the curator, or both sides at once; test or estimate a query's mean."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from common.core.errors import BadScenario, PeerMisbehaved
from common.local.answers import Answers, AskAgents, Questions
from common.local.hypotheses.relabelled import Task
from common.local.hypotheses.rules import Constant, Parity
from common.local.queries.code import CodedQuery, CodeQuery
from common.local.queries.query import Query
from common.operations.learning import Learn, Learned
from common.operations.operation import Operation, R
from common.planning.plan import plan
from common.protocols.base import Problem
from common.protocols.steps import AskCurator, Testing, Together
from common.scenario.resolved import ResolvedScenario
from common.statistics.intervals import Estimate, tally
from common.statistics.loss_tests import FixedTest, LossTest, Reached, SequentialTest, Verdict
from common.statistics.robustness import RobustTest
from common.wire.messages import MAX_LISTED, most_agents, too_many
from referee.protocols.base import Heard

Script = Generator[AskAgents | Testing, Any, "Finding"]
P = TypeVar("P", bound=Problem)


def problem_of(scenario: ResolvedScenario, kind: type[P]) -> P:
    """Return the scenario's problem.

    Raises
    ------
    BadScenario
        If it has another one, or none.
    """
    if not isinstance(scenario.problem, kind):
        raise BadScenario(f"{kind.model_fields['name'].default} needs its problem")
    return scenario.problem


# The curator ---------------------------------------------------------------------------------------------------------


def ask(operation: Operation[R]) -> Generator[AskCurator, Any, R]:
    """Have the curator carry out an operation; return its result."""
    result: R = yield AskCurator(operation)
    return result


def ask_together(
    operation: Operation[R], *questions: AskAgents
) -> Generator[Together, Any, tuple[R, tuple[Answers, ...]]]:
    """Ask both sides at once: return the operation's result, and the agents' answers to each question."""
    result, *answers = yield Together((AskCurator(operation), *questions))
    return result, tuple(answers)


def learn_parity(task: Task) -> Generator[AskCurator, Any, Parity | None]:
    """Have the curator learn the parity of a task; None if no block of its people answered."""
    return parity_of((yield from ask(Learn(round=1, task=task))), task.features)


def parity_of(learned: Learned, features: int) -> Parity | None:
    """Return the parity of so many features that the curator learned; None if no block of its people answered.

    Raises
    ------
    PeerMisbehaved
        If it is neither.
    """
    hypothesis = learned.hypothesis
    if isinstance(hypothesis, Constant):
        return None
    if not isinstance(hypothesis, Parity) or hypothesis.min_features > features:
        raise PeerMisbehaved(f"the curator released no parity of {features} features, but a {hypothesis.kind}")
    return hypothesis


# The agents ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """What the agents said about a query's mean on T.

    ``verdict`` is None if there was no test, or the agents ran out before it could decide; ``asked`` counts agents.
    ``heard`` is what the estimate is made of. ``test`` says how far the test was at its end (:func:`reached_numbers`),
    for who watches; no result holds either.
    """

    verdict: Verdict | None
    estimate: Estimate
    asked: int
    heard: Heard
    test: dict[str, float] = field(default_factory=dict)


def reached_numbers(reached: Reached) -> dict[str, float]:
    """Return how far a test is, under names that a note about a round has room for: ``tested_answers``, ..."""
    return {f"tested_{name}": float(value) for name, value in asdict(reached).items() if value is not None}


def test_mean(query: Query, scenario: ResolvedScenario, rounds: int) -> Script:
    """Ask fresh agents until it is clear whether the query's mean is above the one level or below the other.

    The levels are ``accuracy.reweigh_above`` and ``accuracy.halt_below`` times alpha. Each of ``rounds`` tests may be
    wrong with probability beta / rounds, and all their intervals hold together with probability 1 - beta.
    """
    mechanism = scenario.agents.value_mechanism
    low, high = (level * scenario.alpha for level in (scenario.accuracy.reweigh_above, scenario.accuracy.halt_below))
    test = _open_test(scenario, low, high, scenario.beta / rounds)
    asked = 0
    while test.verdict is None:
        yield Testing("testing", {"asked": asked, **reached_numbers(test.reached())})
        # A test goes on with further questions until it is decided: none needs to reach them all at once.
        batch = min(test.next_batch(scenario.agents.batch), most_agents(alike=query.alike))
        answers = yield AskAgents(query, batch)
        if answers.asked == 0:
            break
        asked += answers.asked
        test.update(*tally(mechanism, answers.values))
    heard = Heard(mechanism, test.total, test.count, 1.0 - scenario.beta, rounds, scenario.agents.liars, asked)
    return Finding(test.verdict, heard.estimate(), asked, heard, reached_numbers(test.reached()))


def _open_test(scenario: ResolvedScenario, low: float, high: float, beta: float) -> LossTest:
    mechanism = scenario.agents.value_mechanism
    if scenario.agents.liars:
        if scenario.bounds == "paper" or scenario.agents.test == "fixed":
            raise BadScenario(
                "agents.liars: only a sequential test bears liars: set agents.test=sequential, bounds=own"
            )
        return RobustTest(mechanism, low, high, beta, scenario.agents.liars)
    if scenario.bounds == "paper":
        return FixedTest(mechanism, low, high, beta, size=int(plan(scenario, "paper").answers.value))
    if scenario.agents.test == "fixed":
        return FixedTest(mechanism, low, high, beta)
    return SequentialTest(mechanism, low, high, beta)


def at_once(count: int, *, alike: bool = False) -> int:
    """Return a number of agents that one question reaches.

    Parameters
    ----------
    alike
        Whether it asks every agent the same (:attr:`common.local.queries.query.Query.alike`).

    Raises
    ------
    BadScenario
        If it reaches fewer.
    """
    if count > most_agents(alike=alike):
        raise BadScenario(too_many(count, alike=alike))
    return count


def ask_codes(count: int, **what: Any) -> Generator[AskAgents, Answers, Questions]:
    """Ask ``count`` agents the :class:`CodeQuery` with these attributes; see :func:`ask_coded`."""
    return (yield from ask_coded(CodeQuery(**what), count))


def ask_coded(query: CodedQuery, count: int) -> Generator[AskAgents, Answers, Questions]:
    """Ask ``count`` agents a query about a code, in as many questions as that takes, each with other public rows.

    Parameters
    ----------
    query
        The first question.
    """
    asked: Questions = []
    for begin in range(0, count, MAX_LISTED):
        question = query.model_copy(update={"public": query.public + len(asked)})
        answers = yield AskAgents(question, min(MAX_LISTED, count - begin))
        asked.append((question, answers))
    return asked


def estimate_mean(query: Query, scenario: ResolvedScenario, count: int, among: int) -> Script:
    """Ask ``count`` fresh agents once, and estimate; the reader will choose among ``among`` such estimates."""
    answers = yield AskAgents(query, count)
    mechanism = scenario.agents.value_mechanism
    told, miss, lying = tally(mechanism, answers.values), scenario.beta, scenario.agents.liars
    heard = Heard(mechanism, *told, 1.0 - miss, among, lying, answers.asked)
    return Finding(None, heard.estimate(), answers.asked, heard)
