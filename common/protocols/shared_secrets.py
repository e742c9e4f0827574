"""Secrets that one side shares out: a parity chooses the secret, or the secret one of many parities (Beimel et al.)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from scipy.special import ndtri

from common.core.errors import BadScenario
from common.core.values import PLAN, Value
from common.data.distributions.base import Distribution
from common.data.distributions.parities import OneOfManyParitiesPeople, ParityChoosesSecretPeople
from common.learners.rules import OpenParity
from common.local.hypotheses.rules import FeatureSet
from common.privacy.theorems.randomized_response import rates
from common.protocols.base import DEMANDS, PROBLEMS, Demands, PlanInputs, Problem
from common.protocols.patterns import agents, curator, many, sequence, some
from common.statistics.formulas import CORRECTIONS, PlannedValue, blocks, escapes, fixed, rows_of


class Secret(Value):
    """The answer: which secret is wanted, and what it is."""

    kind: Literal["secret"] = "secret"
    which: int = Field(ge=0)
    bit: int = Field(ge=0, le=1)


@PROBLEMS.register("parity-chooses-secret")
class ParityChoosesSecret(Problem):
    """Definition 5.1: find s_r = s_{r,1} + ... + s_{r,m+1}, where <x, r> is everybody's label.

    x and r have c bits; ``shares`` is m + 1, more than the curator has people, so that it misses one.
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
        return self.c + self.share_bits + (1 << self.c)

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        found_secret = Secret.parse(answer)
        if not isinstance(people, ParityChoosesSecretPeople):
            raise BadScenario(f"the truth of this problem is known of parity-chooses-secret, found {people.name}")
        which = number_of(people.secret, self.c)
        bit = people.bit(which)
        return {"correct": found_secret.which == which and found_secret.bit == bit, "which": which, "bit": bit}

    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side.

        *Agents.* Of n answers n/(m+1) on average are about share t; the estimate of its signed share has mean
        +-1/(m+1) and is, given which answers are about it, a mean of n independent terms of variance at most
        1/(2p-1)^2. For a sum of so many terms we take the normal tail: the sign is wrong with probability
        Phi(-sqrt(n) (2p-1)/(m+1)), and all m+1 are right with 1 - beta/2 by a union bound.
        """
        width = 1.0 / (2.0 * inputs.truth - 1.0)
        beta = inputs.beta / 2.0

        def answers() -> float:
            quantile = -float(ndtri(beta / self.shares))
            return (quantile * self.shares * width) ** 2

        return {
            **parity_figures(inputs, self.c, beta),
            "agents": inputs.agents(answers, "(z (m+1)/(2p-1))^2, Phi(-z) = beta/(2(m+1))"),
        }


def number_of(features: tuple[int, ...], c: int) -> int:
    """Return a set of features of x as an integer of c bits, the first feature the most significant."""
    return sum(1 << (c - 1 - feature) for feature in features)


DEMANDS.register("parity-chooses-secret")(
    Demands(
        sequence(curator("learn"), many(agents("code"))),
        alone={"curator": curator("learn"), "agents": some(agents("code"))},
    )
)


def parity_figures(inputs: PlanInputs, dimension: int, beta: float, useful: float = 1.0) -> dict[str, PlannedValue]:
    """Return n, and the learner's ``blocks`` and ``epsilon``, with which the parity is learned with chance 1 - beta.

    The learner's rule is the scenario's own (``tight`` or ``paper``); how many records a rule takes is computed exactly
    (:mod:`common.statistics.formulas`), where papers have orders of magnitude. Features are uniform; the share
    ``useful`` of the records says something about the parity, the others say 0 = 0.
    """
    budget, settings = inputs.private("a parity is learned privately"), inputs.learner
    if not isinstance(settings, OpenParity):
        found = "none" if settings is None else settings.name
        raise BadScenario(f"curator.learner: a parity is learned by the learner 'parity', found {found!r}")
    if settings.rule == PLAN:
        raise BadScenario("curator.learner.rule must be tight or paper, found 'plan'")
    epsilon = budget if settings.epsilon == PLAN else settings.epsilon
    keep_rate, answers = rates(settings.rule, epsilon)
    chances, bottom = useful * keep_rate * escapes(dimension, 1.0, None), 1.0 - answers
    count, rows = blocks(chances, bottom, beta)
    if settings.blocks != PLAN:
        count = settings.blocks
        rows = rows_of(chances, bottom, beta, count)
    text, source = (
        "R m, m the least with P(sum_i Geometric(p u q_i) > m) <= (beta' - b^R)/R, q_i = 1 - 2^(i-c)",
        CORRECTIONS + "KLNRS",
    )
    return {
        "n": inputs.people(lambda: count * rows, text, source),
        "blocks": fixed(count, "R with the fewest records, b^R < beta'", source),
        "epsilon": fixed(epsilon, "the curator's", source),
    }


HOLD = 0.5  # share of the people who hold a share; the others hold a record of every parity


class WantedParity(Value):
    """The answer: which parity is wanted, and the features of x that it sums up (None: the curator did not say)."""

    kind: Literal["wanted"] = "wanted"
    which: int = Field(ge=0)
    features: FeatureSet | None


@PROBLEMS.register("one-of-many-parities")
class OneOfManyParities(Problem):
    """Definition 4.1: find r_s, where s = s_1 + ... + s_{m+1}, among 2^d parities of x, which has c bits.

    ``shares`` is m + 1, more than the curator has people, so that it misses one.
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
        if not isinstance(people, OneOfManyParitiesPeople):
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
