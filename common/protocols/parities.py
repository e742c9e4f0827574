"""Tasks with parities: a threshold beside one or flipped by it, and secrets that one side shares out."""

import math
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import ndtri

from common.core.errors import BadScenario
from common.core.values import PLAN, Value, Word
from common.data.distributions import parities as populations
from common.data.distributions.base import Distribution
from common.learners.rules import OpenParity
from common.local.hypotheses.rules import FeatureSet, Parity
from common.local.mechanisms.frequency import HadamardResponse
from common.local.mechanisms.mechanism import BitMechanism
from common.local.queries.features import ItemQuery
from common.numerics.randomness import subseed
from common.privacy.rounding import down
from common.privacy.theorems.randomized_response import Rule, rates
from common.protocols.base import DEMANDS, PROBLEMS, Demands, PlanInputs, Problem, as_bits
from common.protocols.patterns import agents, curator, many, sequence, some, together
from common.statistics import evidence
from common.statistics.cdf import agents_needed, ladder
from common.statistics.formulas import CORRECTIONS, PlannedValue, fixed
from common.statistics.spanning import blocks, escapes, rows_of


class Secret(Value):
    """The answer: which secret is wanted, and what it is."""

    kind: Literal["secret"] = "secret"
    which: int = Field(ge=0)
    bit: int = Field(ge=0, le=1)


@PROBLEMS.register("parity-chooses-secret")
class ParityChoosesSecret(Problem):
    """Find s_r = s_{r,1} + ... + s_{r,m+1}, where <x, r> is everybody's label (Definition 5.1).

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
        claim = Secret.parse(answer)
        if not isinstance(people, populations.ParityChoosesSecretPeople):
            raise BadScenario(f"the truth of this problem is known of parity-chooses-secret, found {people.name}")
        index = number_of(people.secret, self.c)
        bit = people.bit(index)
        return {"correct": claim.which == index and claim.bit == bit, "which": index, "bit": bit}

    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side.

        *Agents.* Of n answers n/(m+1) on average are about share t; the estimate of its signed share has mean +-1/(m+1)
        and is, given which answers are about it, a mean of n independent terms of variance at most 1/(2p-1)^2. For a
        sum of so many terms the normal tail is used: the sign is wrong with probability Phi(-sqrt(n) (2p-1)/(m+1)), and
        all m+1 are right with 1 - beta/2 by a union bound.
        """
        width, beta = 1.0 / (2.0 * inputs.truth - 1.0), inputs.beta / 2.0

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


_LEARN, _CODES = curator("learn"), some(agents("code"))
_ALONE = {"curator": _LEARN, "agents": _CODES}
DEMANDS.register("parity-chooses-secret")(Demands(sequence(_LEARN, many(agents("code"))), alone=_ALONE))


def parity_figures(inputs: PlanInputs, dimension: int, beta: float, useful: float = 1.0) -> dict[str, PlannedValue]:
    """Return n, and the learner's ``blocks`` and ``epsilon``, that learn the parity with probability 1 - beta.

    The learner's rule is the scenario's own (``tight`` or ``paper``); how many records a rule takes is computed exactly
    (:mod:`common.statistics.formulas`), where papers have orders of magnitude. Features are uniform; a share ``useful``
    of the records is informative about the parity, the others give 0 = 0.
    """
    budget, settings = inputs.private("a parity is learned privately"), inputs.learner
    if not isinstance(settings, OpenParity):
        name = "none" if settings is None else settings.name
        raise BadScenario(f"curator.learner: a parity is learned by the learner 'parity', found {name!r}")
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
    """Find r_s, where s = s_1 + ... + s_{m+1}, among 2^d parities of x, which has c bits (Definition 4.1).

    ``shares`` is m + 1, more than the curator has people, so that it misses one.
    """

    name: Literal["one-of-many-parities"] = "one-of-many-parities"
    c: int = Field(ge=1, le=128)
    d: int = Field(ge=1, le=12)
    shares: int = Field(ge=2, le=1 << 16)

    @property
    def share_bits(self) -> int:
        return (self.shares - 1).bit_length()

    @property
    def dimension(self) -> int:
        return self.c + (1 << self.d) + 1 + self.share_bits + self.d

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        claim = WantedParity.parse(answer)
        if not isinstance(people, populations.OneOfManyParitiesPeople):
            raise BadScenario(f"the truth of this problem is known of one-of-many-parities, found {people.name}")
        index = people.target_index()
        features = people.parity(index)
        correct = claim.which == index and claim.features == features
        return {"correct": correct, "which": index, "features": list(features)}

    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side.

        *Agents.* The estimated share of (t, s_t) has mean 1/(2(m+1)), that of (t, s) for another s mean 0; each is a
        mean of n terms of variance at most 1/(2p-1)^2, and two of them are uncorrelated. The normal tail is used: s
        beats s_t with probability Phi(-sqrt(n) (2p-1)/(2 sqrt(2) (m+1))), and no s beats any s_t with 1 - beta/2, by a
        union bound over (m+1) (2^d - 1) pairs.
        """
        width, beta = 1.0 / (2.0 * inputs.truth - 1.0), inputs.beta / 2.0

        def answers() -> float:
            quantile = -float(ndtri(beta / (self.shares * ((1 << self.d) - 1))))
            return 2.0 * (quantile * self.shares * width / HOLD) ** 2

        return {
            **parity_figures(inputs, self.c, beta, useful=1.0 - HOLD),
            "agents": inputs.agents(answers, "2 (2 z (m+1)/(2p-1))^2, Phi(-z) = beta/(2 (m+1) (2^d - 1))"),
        }


DEMANDS.register("one-of-many-parities")(Demands(sequence(_CODES, _LEARN), alone=_ALONE))


JUDGED = 1 << 17  # fresh people on whom an answer is judged


def surveyed(truth: float, alpha: float, beta: float) -> int:
    """Return how many bits, true so often, estimate a share to alpha/4 with probability 1 - beta/4 (Hoeffding)."""
    return math.ceil(math.log(8.0 / beta) * (1.0 / (2.0 * truth - 1.0)) ** 2 / (2.0 * (alpha / 4.0) ** 2))


def searched(mechanism: BitMechanism, bits: int, alpha: float, beta: float) -> int:
    """Return the most agents that a search for a quantile asks, to alpha/4 with probability 1 - beta/4.

    It takes at most ``bits`` + 4 verdicts, each in the worst case.
    """
    levels = 0.5 - alpha / 4.0, 0.5 + alpha / 4.0
    return (bits + 4) * evidence.worst_case(mechanism, *levels, beta / (4.0 * bits))


class Both(Value):
    """The answer: the features of x that the parity sums up (None: no block answered), and t: Thr(y) = 1 iff y >= t."""

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

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        claim = Both.parse(answer)
        if not isinstance(people, populations.ParityAndThresholdPeople):
            raise BadScenario(f"the truth of this problem is known of parity-and-threshold, found {people.name}")
        records = people.draw(subseed(people.threshold, "judge"), np.arange(JUDGED))
        parity = Parity(features=claim.features or ())
        parity_error = float(np.mean(parity.predict(records.features[:, : self.c]) != records.labels))
        above = people.values(records) >= np.uint64(min(claim.threshold, (1 << 64) - 1))
        threshold_error = float(np.mean(above != (records.features[:, -1] > 0)))
        correct = parity_error <= alpha and threshold_error <= alpha
        return {"correct": correct, "parity_error": parity_error, "threshold_error": threshold_error}

    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side.

        *Agents.* Thr_t is 0 for the share F(t) = P(y < t) of people: one survey estimates it to alpha/4 (Hoeffding,
        with probability 1 - beta/4), then a noisy binary search finds w with F(w) within alpha/4 of the estimate (with
        probability 1 - beta/4): at most b + 4 verdicts, each in the worst case.
        """
        parity = parity_figures(inputs, self.c, inputs.beta / 2.0)
        if not self.interactive:
            return {**parity, "agents": self._agents_at_once(inputs)}
        mechanism, sizes = as_bits(inputs.mechanism), (inputs.alpha, inputs.beta)

        def answers() -> int:
            return surveyed(mechanism.truth, *sizes) + searched(mechanism, self.b, *sizes)

        return {**parity, "agents": inputs.agents(answers, "ln(8/beta) (1/((2p-1) alpha/4))^2/2 + (b + 4) verdicts")}

    def _agents_at_once(self, inputs: PlanInputs) -> PlannedValue:
        """Return the agents without interaction: an error of alpha/4 for the survey, the rest for the quantile."""
        oracle, alpha, beta = inputs.mechanism, inputs.alpha, inputs.beta
        if not isinstance(oracle, HadamardResponse):
            raise BadScenario(f"agents.mechanism: without interaction take hadamard, found {oracle.name}")

        def answers() -> int:
            query = ItemQuery(first=self.c, bits=self.b, prefixes=ladder(self.b))
            needed, _ = agents_needed(query, oracle, 0.75 * alpha, beta / 4.0, self.cuts(alpha))
            return needed + surveyed(oracle.truth, alpha, beta)

        return inputs.agents(answers, "an error of 3/4 alpha at all thresholds, and of alpha/4 for the share below t")


_SURVEY, _SEARCH = agents("coordinate"), many(agents("threshold"))
DEMANDS.register("parity-and-threshold")(
    Demands(
        sequence(together(_LEARN, _SURVEY), _SEARCH) | together(_LEARN, agents("item"), agents("item")),
        alone={"curator": _LEARN, "agents": sequence(_CODES, _SURVEY, _SEARCH)},
    )
)


class Piecewise(Value):
    """The answer: between two cuts of y the label is the parity of some features of x, and of a constant 1.

    Cuts ascend: piece i is from cut i - 1 (or 0) up to before cut i. Each piece has the features that are summed up,
    where number c is the constant; None: no part answered.
    """

    kind: Literal["parity-xor-threshold"] = "parity-xor-threshold"
    cuts: tuple[Annotated[int, Field(ge=0, lt=1 << 64)], ...]
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
    ``rule``. ``interactive``: two blocks, and then the agents in rounds, with a mechanism of bits (Section 1.1).
    """

    name: Literal["parity-xor-threshold"] = "parity-xor-threshold"
    c: int = Field(ge=1, le=128)
    b: int = Field(ge=1, le=52)
    blocks: int = Field(ge=2, le=1 << 10)
    rule: Rule = "tight"
    interactive: bool = Field(default=False, exclude_if=lambda interactive: not interactive)

    @model_validator(mode="after")
    def _halves(self) -> Self:
        if self.interactive and self.blocks != 2:
            raise ValueError(f"with interaction the curator's people are in two blocks, found blocks = {self.blocks}")
        return self

    @property
    def dimension(self) -> int:
        return self.c + self.b

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        claim = Piecewise.parse(answer)
        if not isinstance(people, populations.ParityXorThresholdPeople):
            raise BadScenario(f"the truth of this problem is known of parity-xor-threshold, found {people.name}")
        records = people.draw(subseed(people.threshold, "judge"), np.arange(JUDGED))
        piece = np.searchsorted(np.array(claim.cuts, dtype=np.uint64), people.values(records), side="right")
        ones = np.ones((JUDGED, 1), dtype=np.uint8)
        x = np.concatenate([records.features[:, : self.c], ones], axis=1)
        mistakes = np.ones(JUDGED, dtype=np.bool_)
        for number, features in enumerate(claim.pieces):
            within = piece == number
            predicted = Parity(features=features or ()).predict(np.ascontiguousarray(x[within]))
            mistakes[within] = predicted != records.labels[within]
        error = float(mistakes.mean())
        return {"correct": error <= alpha, "error": error}

    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return n, with beta/2 for the curator, and agents, with beta/4 for them and for the sample's ranks each.

        The block with the threshold may be wrong as a whole, 1/K of all people. The ends of the two blocks beside it
        are off by at most t in the agents' estimate, and by d among a part's people (Dvoretzky, Kiefer and Wolfowitz;
        Massart 1990, for all parts at once): those in between may be predicted wrongly. So alpha = 1/K + 2 (t + d).
        """
        epsilon, oracle = inputs.private("parities are learned privately"), inputs.mechanism
        if self.interactive:
            return self._plan_in_rounds(inputs, epsilon)
        if not isinstance(oracle, HadamardResponse):
            raise BadScenario(f"agents.mechanism: the distribution function takes hadamard, found {oracle.name}")
        parts, rows = shape(self, epsilon, inputs.beta / 2.0)
        ranks = math.sqrt(math.log(8.0 * parts / inputs.beta) / (2.0 * rows * self.blocks))
        margin = (inputs.alpha - 1.0 / self.blocks) / 2.0 - ranks
        if margin <= 0.0:
            raise BadScenario(
                f"alpha = {inputs.alpha:g} must be above 1/blocks + 2 d = {1.0 / self.blocks + 2.0 * ranks:.3g}: "
                "more blocks, or a larger alpha"
            )

        def answers() -> int:
            query = ItemQuery(first=self.c, bits=self.b, prefixes=ladder(self.b))
            tau = margin + 0.5 / self.blocks  # half a step of it is no error of a quantile
            needed, _ = agents_needed(query, oracle, tau, inputs.beta / 4.0, self.blocks - 1)
            return needed

        text = "R K m, m the least with P(sum_i Geometric(p q_i) > m) <= (beta' - b^R)/R at epsilon/K"
        return {
            "n": inputs.people(lambda: parts * rows * self.blocks, text),
            "agents": inputs.agents(answers, "t = (alpha - 1/K)/2 - d at all quantiles"),
        }

    def _plan_in_rounds(self, inputs: PlanInputs, epsilon: float) -> dict[str, PlannedValue]:
        """Return n and agents with interaction, beta/2 for each side.

        *Curator.* One half of the ranks does not hold the threshold, so its people have a parity of (x, 1) as their
        label. *Agents.* With the right parity k the sum z of the label and <k, x> is Thr_t(y). A survey estimates its
        mean to alpha/4 and a search finds a threshold w with F(w) within alpha/4 of that, with probability 1 - beta/8
        each: the hypothesis errs on alpha/2 (1.005 times that where t is within alpha/4 of the border). For any other
        parity x is uniform and the loss 1/2. The losses of both are estimated to alpha/4 (1 - beta/8 each); below alpha
        = 1/2 the lesser one is the right one's.
        """
        mechanism = as_bits(inputs.mechanism)
        parts, rows = shape(self, epsilon, inputs.beta / 2.0)

        def answers() -> int:
            sizes = inputs.alpha, inputs.beta / 2.0
            return 2 * (2 * surveyed(mechanism.truth, *sizes) + searched(mechanism, self.b, *sizes))

        people = "2 R m, m the least with P(sum_i Geometric(p q_i) > m) <= (beta' - b^R)/R at epsilon/2"
        return {
            "n": inputs.people(lambda: 2 * parts * rows, people),
            "agents": inputs.agents(
                answers, "twice: two of ln(16/beta) (1/((2p-1) alpha/4))^2/2, and (b + 4) verdicts"
            ),
        }


def shape(problem: ParityXorThreshold, epsilon: float, beta: float) -> tuple[int, int]:
    """Return the number of parts, and the people of each in every block.

    A block of ranks costs epsilon/blocks, because replacing one record may change all blocks of its part. With
    probability 1 - beta, in each block but the one with the threshold all parts have full rank and one of them answers.
    """
    keep_rate, answers = rates(problem.rule, down(epsilon / problem.blocks))
    return blocks(keep_rate * escapes(problem.c + 1, 1.0, None), 1.0 - answers, beta / problem.blocks)


_PARITIES, _ITEM, _TRIED = curator("parities"), agents("item"), sequence(agents("loss"), _SEARCH, agents("loss"))
DEMANDS.register("parity-xor-threshold")(
    Demands(
        together(_PARITIES, _ITEM) | sequence(_PARITIES, many(_TRIED)),
        alone={"curator": _PARITIES, "agents": _ITEM | sequence(_CODES, _TRIED)},
    )
)
