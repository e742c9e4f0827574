"""Parity and threshold, side by side: the curator learns the one, the agents the other."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from pydantic import Field

from common.core.errors import BadScenario
from common.core.values import Value, Word
from common.data.distributions.base import Distribution
from common.data.distributions.parities import ParityAndThresholdPeople as People
from common.local.hypotheses.rules import FeatureSet, Parity
from common.local.mechanisms.hadamard import HadamardResponse
from common.local.queries.item import ItemQuery
from common.numerics.randomness import subseed
from common.protocols.base import DEMANDS, PROBLEMS, Demands, PlanInputs, Problem, as_bits
from common.protocols.parity_chooses_secret import parity_figures
from common.protocols.patterns import agents, curator, many, sequence, some, together
from common.statistics import evidence
from common.statistics.cdf import agents_needed, ladder
from common.statistics.formulas import PlannedValue

JUDGED = 1 << 17
"""Fresh people on whom an answer is judged."""


class Both(Value):
    """The answer: the features of x that the parity sums up (None: nobody said), and t: Thr(y) = 1 iff y >= t."""

    kind: Literal["parity-and-threshold"] = "parity-and-threshold"
    features: FeatureSet | None
    threshold: Word = Field(ge=0)


@PROBLEMS.register("parity-and-threshold")
class ParityAndThreshold(Problem):
    """Appendix A: from (x, y, Par_k(x), Thr_t(y)) learn both concepts, each with an error of at most ``alpha``.

    Attributes:
        c: Length of x, 1 to 128.
        b: Length of y, 1 to 52.
        interactive: Agents in rounds, with a mechanism of bits; or all questions at once, with a frequency oracle.
    """

    name: Literal["parity-and-threshold"] = "parity-and-threshold"
    c: int = Field(ge=1, le=128)
    b: int = Field(ge=1, le=52)
    interactive: bool = True

    @property
    def dimension(self) -> int:
        return self.c + self.b + 1

    def cuts(self, alpha: float) -> int:
        """Return how many quantiles the form without interaction finds."""
        return math.ceil(4.0 / alpha)

    def surveyed(self, width: float, tolerance: float, beta: float) -> int:
        """Return how many agents say whether they are above the threshold."""
        return math.ceil(math.log(8.0 / beta) * width**2 / (2.0 * tolerance**2))

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        found = Both.parse(answer)
        if not isinstance(people, People):
            raise BadScenario(f"the truth of this problem is known of parity-and-threshold, found {people.name}")
        records = people.draw(subseed(people.threshold, "judge"), np.arange(JUDGED))
        parity = Parity(features=found.features or ())
        wrong = float(np.mean(parity.predict(records.features[:, : self.c]) != records.labels))
        above = people.values(records) >= np.uint64(min(found.threshold, (1 << 64) - 1))
        missed = float(np.mean(above != (records.features[:, -1] > 0)))
        right = wrong <= alpha and missed <= alpha
        return {"correct": right, "parity_error": wrong, "threshold_error": missed}

    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side.

        *Agents.* Thr_t is 0 for the share F(t) = P(y < t) of people: one survey estimates it to alpha/4 (Hoeffding,
        with probability 1 - beta/4), then a noisy binary search finds w with F(w) within alpha/4 of the estimate (with
        probability 1 - beta/4): b verdicts and four more, each at its worst.
        """
        parity = parity_figures(inputs, self.c, inputs.beta / 2.0)
        if not self.interactive:
            return {**parity, "agents": _at_once(self, inputs)}
        mechanism = as_bits(inputs.mechanism)
        width, beta, tolerance = 1.0 / (2.0 * mechanism.truth - 1.0), inputs.beta, inputs.alpha / 4.0

        def answers() -> int:
            verdict = evidence.worst_case(mechanism, 0.5 - tolerance, 0.5 + tolerance, beta / (4.0 * self.b))
            return self.surveyed(width, tolerance, beta) + (self.b + 4) * verdict

        return {**parity, "agents": inputs.agents(answers, "ln(8/beta) (1/((2p-1) alpha/4))^2/2 + (b + 4) verdicts")}


def _at_once(problem: ParityAndThreshold, inputs: PlanInputs) -> PlannedValue:
    """Return the agents of the form without interaction: alpha/4 for the survey, the rest for the quantile."""
    oracle = inputs.mechanism
    if not isinstance(oracle, HadamardResponse):
        raise BadScenario(f"agents.mechanism: without interaction take hadamard, found {oracle.name}")

    def answers() -> int:
        query = ItemQuery(first=problem.c, bits=problem.b, prefixes=ladder(problem.b))
        needed, _ = agents_needed(query, oracle, 0.75 * inputs.alpha, inputs.beta / 4.0, problem.cuts(inputs.alpha))
        width = 1.0 / (2.0 * oracle.truth - 1.0)
        return needed + problem.surveyed(width, inputs.alpha / 4.0, inputs.beta)

    return inputs.agents(answers, "an error of 3/4 alpha at all thresholds, and of alpha/4 for the share below t")


DEMANDS.register("parity-and-threshold")(
    Demands(
        sequence(together(curator("learn"), agents("coordinate")), many(agents("threshold")))
        | together(curator("learn"), agents("item"), agents("item")),
        alone={
            "curator": curator("learn"),
            "agents": sequence(some(agents("code")), agents("coordinate"), many(agents("threshold"))),
        },
    )
)
