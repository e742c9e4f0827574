"""A parity and a threshold, side by side (Appendix A of Beimel et al.) or flipping each other (their Section 3)."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.errors import BadScenario
from common.core.values import Value, Word
from common.data.distributions.base import Distribution
from common.data.distributions.parities import ParityAndThresholdPeople, ParityXorThresholdPeople
from common.local.hypotheses.rules import FeatureSet, Parity
from common.local.mechanisms.frequency import HadamardResponse
from common.local.queries.features import ItemQuery
from common.numerics.randomness import subseed
from common.privacy.rounding import down
from common.privacy.theorems.randomized_response import Rule, rates
from common.protocols.base import DEMANDS, PROBLEMS, Demands, PlanInputs, Problem, as_bits
from common.protocols.patterns import agents, curator, many, sequence, some, together
from common.protocols.shared_secrets import parity_figures
from common.statistics import evidence
from common.statistics.cdf import agents_needed, ladder
from common.statistics.formulas import PlannedValue, blocks, escapes

JUDGED = 1 << 17  # fresh people on whom an answer is judged


class Both(Value):
    """The answer: the features of x that the parity sums up (None: nobody said), and t: Thr(y) = 1 iff y >= t."""

    kind: Literal["parity-and-threshold"] = "parity-and-threshold"
    features: FeatureSet | None
    threshold: Word = Field(ge=0)


@PROBLEMS.register("parity-and-threshold")
class ParityAndThreshold(Problem):
    """Appendix A: from (x, y, Par_k(x), Thr_t(y)) learn both concepts, each with an error of at most ``alpha``.

    x has c bits and y has b. ``interactive``: agents in rounds, with a mechanism of bits; or all questions at once,
    with a frequency oracle.
    """

    name: Literal["parity-and-threshold"] = "parity-and-threshold"
    c: int = Field(ge=1, le=128)
    b: int = Field(ge=1, le=52)
    interactive: bool = True

    @property
    def dimension(self) -> int:
        return self.c + self.b + 1

    def cuts(self, alpha: float) -> int:
        return math.ceil(4.0 / alpha)

    def surveyed(self, truth: float, alpha: float, beta: float) -> int:
        """Return how many agents, who tell the truth so often, say whether they are above the threshold."""
        return math.ceil(math.log(8.0 / beta) * (1.0 / (2.0 * truth - 1.0)) ** 2 / (2.0 * (alpha / 4.0) ** 2))

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        found = Both.parse(answer)
        if not isinstance(people, ParityAndThresholdPeople):
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
        beta, tolerance = inputs.beta, inputs.alpha / 4.0

        def answers() -> int:
            verdict = evidence.worst_case(mechanism, 0.5 - tolerance, 0.5 + tolerance, beta / (4.0 * self.b))
            return self.surveyed(mechanism.truth, inputs.alpha, beta) + (self.b + 4) * verdict

        return {**parity, "agents": inputs.agents(answers, "ln(8/beta) (1/((2p-1) alpha/4))^2/2 + (b + 4) verdicts")}


def _at_once(problem: ParityAndThreshold, inputs: PlanInputs) -> PlannedValue:
    """Return the agents of the form without interaction: alpha/4 for the survey, the rest for the quantile."""
    oracle = inputs.mechanism
    if not isinstance(oracle, HadamardResponse):
        raise BadScenario(f"agents.mechanism: without interaction take hadamard, found {oracle.name}")

    def answers() -> int:
        query = ItemQuery(first=problem.c, bits=problem.b, prefixes=ladder(problem.b))
        needed, _ = agents_needed(query, oracle, 0.75 * inputs.alpha, inputs.beta / 4.0, problem.cuts(inputs.alpha))
        return needed + problem.surveyed(oracle.truth, inputs.alpha, inputs.beta)

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


class Piecewise(Value):
    """The answer: between two cuts of y the label is the parity of some features of x, and of a constant 1.

    Cuts ascend: piece i is from cut i - 1 (or 0) up to before cut i. Each piece has the features that are summed up,
    where number c is the constant; None: nobody said.
    """

    kind: Literal["parity-xor-threshold"] = "parity-xor-threshold"
    cuts: tuple[int, ...]
    pieces: tuple[FeatureSet | None, ...]

    @model_validator(mode="after")
    def _together(self) -> Self:
        if len(self.pieces) != len(self.cuts) + 1 or list(self.cuts) != sorted(self.cuts):
            raise ValueError(f"{len(self.cuts)} ascending cuts make {len(self.cuts) + 1} pieces")
        return self


@PROBLEMS.register("parity-xor-threshold")
class ParityXorThreshold(Problem):
    """Section 3: learn (x, y) -> Par_k(x) + Thr_t(y) with an error of at most ``alpha``.

    x has c bits and y has b. ``blocks`` of equally many people, by y, are 1/alpha of the paper; KLNRS keeps records by
    ``rule``.
    """

    name: Literal["parity-xor-threshold"] = "parity-xor-threshold"
    c: int = Field(ge=1, le=128)
    b: int = Field(ge=1, le=52)
    blocks: int = Field(ge=2, le=1 << 10)
    rule: Rule = "tight"

    @property
    def dimension(self) -> int:
        return self.c + self.b

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        found = Piecewise.parse(answer)
        if not isinstance(people, ParityXorThresholdPeople):
            raise BadScenario(f"the truth of this problem is known of parity-xor-threshold, found {people.name}")
        records = people.draw(subseed(people.threshold, "judge"), np.arange(JUDGED))
        piece = np.searchsorted(np.array(found.cuts, dtype=np.uint64), people.values(records), side="right")
        ones = np.ones((JUDGED, 1), dtype=np.uint8)
        x = np.concatenate([records.features[:, : self.c], ones], axis=1)
        wrong = np.ones(JUDGED, dtype=np.bool_)
        for number, features in enumerate(found.pieces):
            within = piece == number
            predicted = Parity(features=features or ()).predict(np.ascontiguousarray(x[within]))
            wrong[within] = predicted != records.labels[within]
        error = float(wrong.mean())
        return {"correct": error <= alpha, "error": error}

    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return n, with beta/2 for the curator, and agents, with beta/4 for them and for the sample's ranks each.

        The block with the threshold may be wrong as a whole, 1/K of all people. The two blocks beside it end where the
        agents say, up to t, and where the people of a part do, up to d (Dvoretzky, Kiefer and Wolfowitz; Massart 1990,
        for all parts at once): whoever lies between may be predicted wrongly. So alpha = 1/K + 2 (t + d).
        """
        epsilon, oracle = inputs.private("parities are learned privately"), inputs.mechanism
        if not isinstance(oracle, HadamardResponse):
            raise BadScenario(f"agents.mechanism: the distribution function takes hadamard, found {oracle.name}")
        parts, rows = shape(self, epsilon, inputs.beta / 2.0)
        ranks = math.sqrt(math.log(8.0 * parts / inputs.beta) / (2.0 * rows * self.blocks))
        left = (inputs.alpha - 1.0 / self.blocks) / 2.0 - ranks
        if left <= 0.0:
            raise BadScenario(
                f"alpha = {inputs.alpha:g} must be above 1/blocks + 2 d = {1.0 / self.blocks + 2.0 * ranks:.3g}: "
                "more blocks, or a larger alpha"
            )

        def answers() -> int:
            query = ItemQuery(first=self.c, bits=self.b, prefixes=ladder(self.b))
            tau = left + 0.5 / self.blocks  # of which half a step is not an error of a quantile
            needed, _ = agents_needed(query, oracle, tau, inputs.beta / 4.0, self.blocks - 1)
            return needed

        text = "R K m, m the least with P(sum_i Geometric(p q_i) > m) <= (beta' - b^R)/R at epsilon/K"
        return {
            "n": inputs.people(lambda: parts * rows * self.blocks, text),
            "agents": inputs.agents(answers, "t = (alpha - 1/K)/2 - d at all quantiles"),
        }


def shape(problem: ParityXorThreshold, epsilon: float, beta: float) -> tuple[int, int]:
    """Return the number of parts, and the people of each in every block.

    A block of ranks costs epsilon/blocks, as replacing one record may change all blocks of its part. In each but
    the block with the threshold all parts have full rank and one of them answers, with probability 1 - beta.
    """
    keep_rate, answers = rates(problem.rule, down(epsilon / problem.blocks))
    return blocks(keep_rate * escapes(problem.c + 1, 1.0, None), 1.0 - answers, beta / problem.blocks)


DEMANDS.register("parity-xor-threshold")(
    Demands(
        together(curator("parities"), agents("item")), alone={"curator": curator("parities"), "agents": agents("item")}
    )
)
