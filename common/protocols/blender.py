"""Blender: the most frequent items of a large domain, and their shares."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import ndtri

from common.core.arrays import Floats
from common.core.errors import BadScenario
from common.core.values import Value, Word
from common.data.distributions.base import Distribution
from common.data.distributions.bits import ZipfItems
from common.local.mechanisms.frequency import FrequencyOracle
from common.local.mechanisms.mechanism import Laplace
from common.privacy.rounding import down
from common.protocols.base import DEMANDS, PROBLEMS, Demands, PlanInputs, Problem
from common.protocols.patterns import agents, curator, maybe, sequence
from common.statistics.formulas import PlannedValue

SPURIOUS = 0.01  # expected number of listed values that nobody holds


def threshold(bits: int, noise: Laplace) -> int:
    """Return the least count that cells which nobody holds reach :data:`SPURIOUS` times on average, or less.

    P(Z >= t) = q^t/(1 + q) for two-sided geometric noise Z and t >= 0, in each of 2^bits cells.
    """
    wanted = (bits * math.log(2.0) - math.log(SPURIOUS) - math.log1p(noise.ratio)) / -math.log(noise.ratio)
    return max(1, math.ceil(wanted))


class HeadShares(Value):
    """The answer: items, the estimated share of people who hold each, and that estimate's standard deviation."""

    kind: Literal["head"] = "head"
    items: tuple[Word, ...]
    shares: tuple[float, ...]
    deviations: tuple[float, ...]

    @model_validator(mode="after")
    def _together(self) -> Self:
        if not len(self.items) == len(self.shares) == len(self.deviations):
            raise ValueError("each item has a share and a deviation")
        return self


@PROBLEMS.register("blender")
class Blender(Problem):
    """List every item that at least the share ``heavy`` of people holds, and each listed share to within ``precise``.

    Items are strings of so many ``bits``; ``most`` are listed at most.
    """

    name: Literal["blender"] = "blender"
    bits: int = Field(ge=8, le=64)
    most: int = Field(ge=1, le=1 << 12)
    heavy: float = Field(gt=0, lt=1)
    precise: float = Field(gt=0, lt=1)

    @property
    def dimension(self) -> int:
        return self.bits

    def noise(self, epsilon: float) -> Laplace:
        """Return the noise in each cell of the curator's histograms: replacing a record changes two of them."""
        return Laplace(epsilon=down(epsilon / 2.0))

    def curators_variance(self, shares: Floats, people: int, epsilon: float) -> Floats:
        ratio = self.noise(epsilon).ratio
        return np.asarray(shares * (1.0 - shares) / people + 2.0 * ratio / ((1.0 - ratio) * people) ** 2)

    def agents_variance(self, shares: Floats, answers: int, oracle: FrequencyOracle, domain: int) -> Floats:
        """Return the variance of shares that so many agents reported, agents drawn at random."""
        p, q = oracle.rates(domain)
        rates = q + shares * (p - q)
        return np.asarray(rates * (1.0 - rates) / (answers * (p - q) ** 2))

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        head = HeadShares.parse(answer)
        if not isinstance(people, ZipfItems):
            raise BadScenario(f"the truth of this problem is known of zipf-items, found {people.name}")
        truth: dict[int, float] = {}
        for item, share in zip(people.strings.tolist(), people.shares.tolist(), strict=True):
            truth[item] = truth.get(item, 0.0) + share
        missing = sum(share >= self.heavy and item not in head.items for item, share in truth.items())
        errors = [abs(share - truth.get(item, 0.0)) for item, share in zip(head.items, head.shares, strict=True)]
        worst = max(errors, default=0.0)
        return {
            "correct": missing == 0 and worst <= self.precise,
            "missing": missing,
            "worst_error": worst,
            "root_mean_square_error": math.sqrt(sum(error**2 for error in errors) / max(1, len(errors))),
            "listed": len(head.items),
        }

    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side, by the normal law.

        *n.* Of n/2 people n heavy/2 on average hold an item that must be listed; with noise, that is above the
        threshold, with probability 1 - beta/2 for all 1/heavy such items at once. *Agents.* The combined estimates of
        all listed shares are within ``precise`` with probability 1 - beta/2 even without the curator's part.
        """
        epsilon, oracle = inputs.private("the curator lists privately"), inputs.mechanism
        if not isinstance(oracle, FrequencyOracle):
            raise BadScenario(f"agents.mechanism: {oracle.name} is no frequency oracle: take olh, hadamard or krr")
        noise = self.noise(epsilon)
        least, ratio = threshold(self.bits, noise), noise.ratio
        quantile = -float(ndtri(inputs.beta / 2.0 * self.heavy))

        def people() -> int:
            n = 2
            while (
                n * self.heavy / 2.0 - quantile * math.sqrt(n * self.heavy / 2.0 + 2.0 * ratio / (1.0 - ratio) ** 2)
                < least
            ):
                n = max(n + 1, int(1.001 * n))
            return n

        def answers() -> float:
            z = -float(ndtri(inputs.beta / (4.0 * self.most)))
            worst = float(self.agents_variance(np.array([0.5]), 1, oracle, self.most + 1)[0])
            return worst * (z / self.precise) ** 2

        return {
            "n": inputs.people(people, "n h/2 - z sqrt(n h/2 + Var Z) >= threshold, Phi(-z) = beta h/2"),
            "agents": inputs.agents(answers, "Var (z/precise)^2, Phi(-z) = beta/(4 most)"),
        }


DEMANDS.register("blender")(
    Demands(
        sequence(curator("head"), maybe(agents("listed"))),
        alone={"curator": curator("head"), "agents": sequence(agents("item"), maybe(agents("listed")))},
    )
)
