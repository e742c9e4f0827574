"""Parity and threshold, side by side: the curator learns the one, the agents the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from common.core.errors import BadScenario
from common.core.values import Value
from common.numerics.randomness import subseed
from common.people.distributions.base import Distribution
from common.people.distributions.parities.parity_threshold import ParityAndThreshold as People
from common.planning.planned_values import ERRATA, PlannedValue, follow
from common.scenario.problems.base import PROBLEMS, Problem
from common.scenario.problems.parities import parity_figures
from common.statistics import evidence
from common.statistics.cdf_levels import agents_needed, ladder
from common.vocabulary.hypotheses.features import FeatureSet
from common.vocabulary.hypotheses.parity import Parity
from common.vocabulary.mechanisms.hadamard import HadamardResponse
from common.vocabulary.queries.item import ItemQuery

if TYPE_CHECKING:
    from common.scenario.scenario import Scenario

JUDGED = 1 << 17
"""Fresh people on whom an answer is judged."""


class Both(Value):
    """The answer: the features of x that the parity sums up (None: nobody said), and t: Thr(y) = 1 iff y >= t."""

    kind: Literal["parity-and-threshold"] = "parity-and-threshold"
    features: FeatureSet | None
    threshold: int = Field(ge=0)


@PROBLEMS.register("parity-and-threshold")
class ParityAndThreshold(Problem):
    """Appendix A: from (x, y, Par_k(x), Thr_t(y)) learn both concepts, each with an error of at most ``alpha``.

    Attributes
    ----------
    c
        Length of x, 1 to 128.
    b
        Length of y, 1 to 52.
    interactive
        Agents in rounds, with a mechanism of bits; or all questions at once, with a frequency oracle.
    """

    name: Literal["parity-and-threshold"] = "parity-and-threshold"
    c: int = Field(ge=1, le=128)
    b: int = Field(ge=1, le=52)
    interactive: bool = True

    @property
    def dimension(self) -> int:
        """Length of x, of y, and one: Thr_t(y)."""
        return self.c + self.b + 1

    def plan(self, scenario: Scenario, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side.

        *Agents.* Thr_t is 0 for the share F(t) = P(y < t) of people: one survey estimates it to alpha/4 (Hoeffding,
        with probability 1 - beta/4), then a noisy binary search finds w with F(w) within alpha/4 of the estimate (with
        probability 1 - beta/4): b verdicts and four more, each at its worst.
        """
        parity = parity_figures(scenario, self.c, scenario.beta / 2.0)
        if not self.interactive:
            return {**parity, "agents": self._at_once(scenario)}
        mechanism = scenario.agents.bit_mechanism
        width, beta, tolerance = 1.0 / (2.0 * mechanism.truth - 1.0), scenario.beta, scenario.alpha / 4.0

        def answers() -> int:
            verdict = evidence.worst_case(mechanism, 0.5 - tolerance, 0.5 + tolerance, beta / (4.0 * self.b))
            wanted = self.surveyed(width, tolerance, beta) + (self.b + 4) * verdict
            return math.ceil(wanted / (1.0 - scenario.agents.dropout))

        text = "ln(8/beta) (1/((2p-1) alpha/4))^2/2 + (b + 4) verdicts"
        return {
            **parity,
            "agents": follow(scenario.agents.count, answers, text, ERRATA + "synergy"),
        }

    def _at_once(self, scenario: Scenario) -> PlannedValue:
        """Return the agents of the form without interaction: alpha/4 for the survey, the rest for the quantile."""
        oracle = scenario.agents.mechanism
        if not isinstance(oracle, HadamardResponse):
            raise BadScenario(f"agents.mechanism: without interaction take hadamard, found {oracle.name}")

        def answers() -> int:
            query = ItemQuery(first=self.c, bits=self.b, prefixes=ladder(self.b))
            needed, _ = agents_needed(query, oracle, 0.75 * scenario.alpha, scenario.beta / 4.0, self.cuts(scenario))
            width = 1.0 / (2.0 * oracle.truth - 1.0)
            wanted = needed + self.surveyed(width, scenario.alpha / 4.0, scenario.beta)
            return math.ceil(wanted / (1.0 - scenario.agents.dropout))

        text = "an error of 3/4 alpha at all thresholds, and of alpha/4 for the share below t"
        return follow(scenario.agents.count, answers, text, ERRATA + "synergy")

    def cuts(self, scenario: Scenario) -> int:
        """Return how many quantiles the form without interaction finds."""
        return math.ceil(4.0 / scenario.alpha)

    def surveyed(self, width: float, tolerance: float, beta: float) -> int:
        """Return how many agents say whether they are above the threshold."""
        return math.ceil(math.log(8.0 / beta) * width**2 / (2.0 * tolerance**2))

    def judge(self, answer: dict[str, Any], scenario: Scenario, people: Distribution) -> dict[str, Any]:
        """Return the error of each concept on fresh people."""
        told = Both.parse(answer)
        if not isinstance(people, People):
            raise BadScenario(f"the truth of this problem is known of parity-and-threshold, found {people.name}")
        records = people.draw(subseed(people.threshold, "judge"), np.arange(JUDGED))
        parity = Parity(features=told.features or ())
        wrong = float(np.mean(parity.predict(records.features[:, : self.c]) != records.labels))
        above = people.values(records) >= np.uint64(min(told.threshold, (1 << 64) - 1))
        missed = float(np.mean(above != (records.features[:, -1] > 0)))
        right = wrong <= scenario.alpha and missed <= scenario.alpha
        return {"correct": right, "parity_error": wrong, "threshold_error": missed}
