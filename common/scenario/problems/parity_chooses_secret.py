"""Parity chooses secret: the curator finds out which secret is wanted, the agents have its shares."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from scipy.special import ndtri

from common.core.errors import BadScenario
from common.core.values import Value
from common.people.distributions.base import Distribution
from common.people.distributions.parities.parity_chooses_secret import ParityChoosesSecret as People
from common.planning.planned_values import ERRATA, PlannedValue, follow
from common.scenario.problems.base import PROBLEMS, Problem
from common.scenario.problems.parities import parity_figures

if TYPE_CHECKING:
    from common.scenario.scenario import Scenario


class Secret(Value):
    """The answer: which secret is wanted, and what it is."""

    kind: Literal["secret"] = "secret"
    which: int = Field(ge=0)
    bit: int = Field(ge=0, le=1)


@PROBLEMS.register("parity-chooses-secret")
class ParityChoosesSecret(Problem):
    """Definition 5.1: find s_r = s_{r,1} + ... + s_{r,m+1}, where <x, r> is everybody's label.

    Attributes
    ----------
    c
        Length of x and r, 1 to 16.
    shares
        m + 1. More than the curator has people, so that it misses one.
    """

    name: Literal["parity-chooses-secret"] = "parity-chooses-secret"
    c: int = Field(ge=1, le=16)
    shares: int = Field(ge=2, le=1 << 16)

    @property
    def share_bits(self) -> int:
        """Length of t."""
        return (self.shares - 1).bit_length()

    @property
    def dimension(self) -> int:
        """Features of a record: x, t, and a share of each of 2^c secrets."""
        return self.c + self.share_bits + (1 << self.c)

    def plan(self, scenario: Scenario, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side.

        *Agents.* Of n answers n/(m+1) on average are about share t; the estimate of its signed share has mean
        +-1/(m+1) and is, given which answers are about it, a mean of n independent terms of variance at most
        1/(2p-1)^2. For a sum of so many terms we take the normal tail: the sign is wrong with probability
        Phi(-sqrt(n) (2p-1)/(m+1)), and all m+1 are right with 1 - beta/2 by a union bound.
        """
        width = 1.0 / (2.0 * scenario.agents.bit_mechanism.truth - 1.0)
        beta = scenario.beta / 2.0

        def answers() -> int:
            quantile = -float(ndtri(beta / self.shares))
            return math.ceil((quantile * self.shares * width) ** 2 / (1.0 - scenario.agents.dropout))

        return {
            **parity_figures(scenario, self.c, beta),
            "agents": follow(
                scenario.agents.count, answers, "(z (m+1)/(2p-1))^2, Phi(-z) = beta/(2(m+1))", ERRATA + "synergy"
            ),
        }

    def judge(self, answer: dict[str, Any], scenario: Scenario, people: Distribution) -> dict[str, Any]:
        """Return the secret that was wanted."""
        told = Secret.parse(answer)
        if not isinstance(people, People):
            raise BadScenario(f"the truth of this problem is known of parity-chooses-secret, found {people.name}")
        which = number_of(people.secret, self.c)
        bit = people.bit(which)
        return {"correct": told.which == which and told.bit == bit, "which": which, "bit": bit}


def number_of(features: tuple[int, ...], c: int) -> int:
    """Return a set of features of x as an integer of c bits, the first feature the most significant."""
    return sum(1 << (c - 1 - feature) for feature in features)
