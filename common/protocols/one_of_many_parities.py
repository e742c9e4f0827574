"""One of many parities: the agents know which one is wanted, the curator learns it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from scipy.special import ndtri

from common.core.errors import BadScenario
from common.core.values import Value
from common.data.distributions.base import Distribution
from common.data.distributions.shared_secrets import OneOfManyParitiesPeople as People
from common.local.hypotheses.rules import FeatureSet
from common.protocols.base import DEMANDS, PROBLEMS, Demands, PlanInputs, Problem
from common.protocols.parity_chooses_secret import parity_figures
from common.protocols.patterns import agents, curator, sequence, some
from common.statistics.formulas import PlannedValue

HOLD = 0.5
"""Share of the people who hold a share; the others hold a record of every parity."""


class WantedParity(Value):
    """The answer: which parity is wanted, and the features of x that it sums up (None: the curator did not say)."""

    kind: Literal["wanted"] = "wanted"
    which: int = Field(ge=0)
    features: FeatureSet | None


@PROBLEMS.register("one-of-many-parities")
class OneOfManyParities(Problem):
    """Definition 4.1: find r_s, where s = s_1 + ... + s_{m+1}.

    Attributes:
        c: Length of x, 1 to 128.
        d: There are 2^d parities; 1 to 12.
        shares: m + 1. More than the curator has people, so that it misses one.
    """

    name: Literal["one-of-many-parities"] = "one-of-many-parities"
    c: int = Field(ge=1, le=128)
    d: int = Field(ge=1, le=12)
    shares: int = Field(ge=2, le=1 << 16)

    @property
    def share_bits(self) -> int:
        """Length of t."""
        return (self.shares - 1).bit_length()

    @property
    def dimension(self) -> int:
        return self.c + (1 << self.d) + 1 + self.share_bits + self.d

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        found = WantedParity.parse(answer)
        if not isinstance(people, People):
            raise BadScenario(f"the truth of this problem is known of one-of-many-parities, found {people.name}")
        which = people.wanted()
        features = people.parity(which)
        right = found.which == which and found.features == features
        return {"correct": right, "which": which, "features": list(features)}

    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side.

        *Agents.* The estimated share of (t, s_t) has mean 1/(2(m+1)), that of (t, s) for another s mean 0; each is a
        mean of n terms of variance at most 1/(2p-1)^2, and two of them are uncorrelated. We take the normal tail: s
        beats s_t with probability Phi(-sqrt(n) (2p-1)/(2 sqrt(2) (m+1))), and no s beats any s_t with 1 - beta/2, by a
        union bound over (m+1) (2^d - 1) pairs.
        """
        width = 1.0 / (2.0 * inputs.truth - 1.0)
        beta = inputs.beta / 2.0

        def answers() -> float:
            quantile = -float(ndtri(beta / (self.shares * ((1 << self.d) - 1))))
            return 2.0 * (quantile * self.shares * width / HOLD) ** 2

        return {
            **parity_figures(inputs, self.c, beta, useful=1.0 - HOLD),
            "agents": inputs.agents(answers, "2 (2 z (m+1)/(2p-1))^2, Phi(-z) = beta/(2 (m+1) (2^d - 1))"),
        }


DEMANDS.register("one-of-many-parities")(
    Demands(
        sequence(some(agents("code")), curator("learn")),
        alone={"curator": curator("learn"), "agents": some(agents("code"))},
    )
)
