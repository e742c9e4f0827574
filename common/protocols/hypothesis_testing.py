"""Basic hypothesis testing: tell one of two coins from the other."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from scipy.special import ndtri

from common.core.errors import BadScenario
from common.core.values import Value
from common.data.distributions.base import Distribution
from common.data.distributions.bits import BiasedCoins
from common.local.mechanisms.noise import Laplace
from common.protocols.base import DEMANDS, PROBLEMS, Demands, PlanInputs, Problem
from common.protocols.patterns import agents, curator, sequence
from common.statistics.formulas import PlannedValue


class Decision(Value):
    """The answer: under D_0 the feature is 1 less than half the time, under D_1 more."""

    kind: Literal["decision"] = "decision"
    world: int = Field(ge=0, le=1)


class SideEvidence(Value):
    """What one side says: a number with mean +-``shift`` under D_1 and D_0, and this variance.

    The best decision between two normal laws is by the sign of the sum of ``value * shift / variance`` over independent
    sides (Neyman and Pearson), wrong with probability Phi(-sqrt(sum of shift^2/variance)).
    """

    value: float
    shift: float
    variance: float

    @property
    def score(self) -> float:
        """The side's part of the sum, half the logarithm of a likelihood ratio; 0 if nobody said anything."""
        return self.value * self.shift / self.variance if self.variance > 0.0 else 0.0


@PROBLEMS.register("hypothesis-testing")
class HypothesisTesting(Problem):
    """Definition 6.1 with X = {0, 1}: P(1) = (1 + bias)/2 under D_1, (1 - bias)/2 under D_0. Say which it is.

    With ``reduction`` a side that is alone decides as the proof of Theorem 6.2 does, by simulating the other side.
    """

    name: Literal["hypothesis-testing"] = "hypothesis-testing"
    bias: float = Field(gt=0, lt=1)
    reduction: bool = False

    @property
    def dimension(self) -> int:
        return 1

    def counted(self, count: int, n: int, epsilon: float) -> SideEvidence:
        ratio = Laplace(epsilon=epsilon).ratio
        noise = 2.0 * ratio / (1.0 - ratio) ** 2
        variance = n * (1.0 - self.bias**2) / 4.0 + noise
        return SideEvidence(value=count - n / 2.0, shift=n * self.bias / 2.0, variance=variance)

    def evidence_of_answers(self, ones: int, answers: int, truth: float) -> SideEvidence:
        shift = (2.0 * truth - 1.0) * self.bias / 2.0
        return SideEvidence(value=ones - answers / 2.0, shift=answers * shift, variance=answers * (0.25 - shift**2))

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        decision = Decision.parse(answer)
        if not isinstance(people, BiasedCoins):
            raise BadScenario(f"the truth of this problem is known of biased-coins, found {people.name}")
        world = int(people.rate(0) > 0.5)
        return {"correct": decision.world == world, "world": world}

    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents that decide rightly together with probability 1 - beta, each one half of the evidence.

        By the normal law: each side's shift^2/variance is z^2/2, Phi(-z) = beta. Alone either is wrong with probability
        Phi(-z/sqrt(2)): the hybrid helps no more than a second helping of the same side would (Theorem 6.2).
        """
        epsilon = inputs.private("the curator counts privately")
        wanted = float(ndtri(inputs.beta)) ** 2 / 2.0
        truth = inputs.truth

        def people() -> int:
            # shift^2/variance grows with n.
            n = 1
            while (found := self.counted(0, n, epsilon)).shift ** 2 < wanted * found.variance:
                n = max(n + 1, int(1.001 * n))
            return n

        def answers() -> float:
            one = self.evidence_of_answers(0, 1, truth)
            return wanted * one.variance / one.shift**2

        text = "shift^2/variance = z^2/2, Phi(-z) = beta"
        return {"n": inputs.people(people, text), "agents": inputs.agents(answers, text)}


DEMANDS.register("hypothesis-testing")(
    Demands(
        sequence(curator("count"), agents("coordinate")),
        alone={"curator": curator("count"), "agents": agents("coordinate")},
    )
)
