"""Basic hypothesis testing: the task for which the hybrid model is no better than either side."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from common.local.mechanisms.noise import Laplace
from common.local.queries.coordinate import CoordinateQuery
from common.local.queries.query import Answers, AskAgents
from common.numerics.randomness import RandomSource
from common.operations.counting import Count
from common.protocols.base import AskCurator
from common.protocols.hypothesis_testing import Decision, HypothesisTesting, SideEvidence
from referee.protocols.asking import ask, at_once
from referee.protocols.base import AS_PLANNED, BY_NORMAL_LAW, PROTOCOLS, Outcome, ProblemPlan, ProblemProtocol, Script


@PROTOCOLS.register("hypothesis-testing")
class HypothesisTestingProtocol(ProblemProtocol[HypothesisTesting]):
    """Section 6 of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    The curator releases a noisy count, the agents a randomized bit each; the referee adds up both sides' likelihood
    ratios.

    *Theorem 6.2.* If a hybrid protocol is right with probability 1/2 + g under both laws, one of the sides alone is
    right with 1/2 + g/4: :mod:`referee.protocols.hypothesis_testing` runs its proof.
    """

    title = "Hypothesis testing"
    done = f"a decision; {BY_NORMAL_LAW}it is wrong with a probability of about {{beta}} {AS_PLANNED}"
    kind = HypothesisTesting
    small = ({"name": "biased-coins", "d": 1, "biased": [0], "rates": [0.7]}, "problem.bias=0.4", "beta=0.001")

    def both_sides(self, plan: ProblemPlan[HypothesisTesting], public: int) -> Script:
        at_once(plan.count, alike=True)  # refused before the curator spends anything
        counted = yield from curator_evidence(plan)
        answered = yield from agents_evidence(plan)
        return decided_by(counted, answered)

    def curator_alone(self, plan: ProblemPlan[HypothesisTesting], public: int) -> Script:
        counted = yield from curator_evidence(plan)
        return _decided_alone(plan, public, counted, _simulated_agents, 0)

    def agents_alone(self, plan: ProblemPlan[HypothesisTesting], public: int) -> Script:
        answered = yield from agents_evidence(plan)
        return _decided_alone(plan, public, answered, _simulated_curator, 1)


def curator_evidence(plan: ProblemPlan[HypothesisTesting]) -> Generator[AskCurator, Any, SideEvidence]:
    """Return what the curator's noisy count says."""
    share = plan.share
    counted = yield from ask(Count(feature=0, epsilon=share))
    return plan.problem.counted(counted.count, plan.n, share)


def agents_evidence(plan: ProblemPlan[HypothesisTesting]) -> Generator[AskAgents, Answers, SideEvidence]:
    """Return what the agents' randomized bits say."""
    answers = yield AskAgents(CoordinateQuery(first=0), plan.count)
    truth = plan.bits.truth
    return plan.problem.evidence_of_answers(int(answers.values.sum(dtype="int64")), len(answers.values), truth)


def decided_by(*sides: SideEvidence) -> Outcome:
    """End with the likelier law."""
    return decided(int(sum(side.score for side in sides) > 0.0), "by the likelihood ratio")


def decided(world: int, reason: str) -> Outcome:
    """End with D_0 or D_1."""
    return Outcome("done", 1, Decision(world=world), None, reason)


def _decided_alone(
    plan: ProblemPlan[HypothesisTesting],
    public: int,
    seen: SideEvidence,
    simulated: Callable[[ProblemPlan[HypothesisTesting], RandomSource], SideEvidence],
    world: int,
) -> Outcome:
    """End for one side; with the reduction the other side is simulated, or ``world`` is answered at once."""
    if not plan.problem.reduction:
        return decided_by(seen)
    coins = RandomSource.seeded(public, "reduction")
    if coins.derive("at once").uniforms(1)[0] < (0.5 - plan.beta) / 2.0:
        return decided(world, "answered at once, as the reduction does")
    return decided_by(seen, simulated(plan, coins))


def _simulated_agents(plan: ProblemPlan[HypothesisTesting], coins: RandomSource) -> SideEvidence:
    """Return what as many agents say as the hybrid asks if they are drawn from D_1."""
    problem = plan.problem
    mechanism = plan.bits
    count = int(problem.plan(plan.hybrid, False)["agents"].rule or 0)
    bits = coins.derive("people").bernoullis(0.5 + 0.5 * problem.bias, count)
    answered = mechanism.randomize(bits, coins.derive("noise"))
    return problem.evidence_of_answers(int(answered.sum(dtype="int64")), count, mechanism.truth)


def _simulated_curator(plan: ProblemPlan[HypothesisTesting], coins: RandomSource) -> SideEvidence:
    n, share = plan.n, plan.share
    ones = int(coins.derive("people").bernoullis(0.5 - 0.5 * plan.problem.bias, n).sum(dtype="int64"))
    noise = int(Laplace(epsilon=share).noise(1, coins.derive("noise"))[0])
    return plan.problem.counted(ones + noise, n, share)
