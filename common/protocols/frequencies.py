"""Tasks about frequencies: tell two coins apart, find the one of many that falls on 1 most often, or frequent items."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import ndtri

from common.core.arrays import Floats
from common.core.errors import BadMessage, BadScenario
from common.core.values import Value, Word
from common.data.distributions.base import Distribution
from common.data.distributions.bits import BiasedCoins, Categories, Shares, ZipfItems
from common.local.mechanisms.frequency import FrequencyOracle
from common.local.mechanisms.mechanism import Laplace
from common.numerics.bisection import least
from common.privacy.rounding import down
from common.protocols.base import DEMANDS, PROBLEMS, Demands, PlanInputs, Problem
from common.protocols.patterns import agents, curator, maybe, sequence
from common.statistics.formulas import PlannedValue


class Decision(Value):
    """The answer: under D_0 the feature is 1 less than half the time, under D_1 more."""

    kind: Literal["decision"] = "decision"
    world: int = Field(ge=0, le=1)


class SideEvidence(Value):
    """The evidence of one side: a number with mean +-``shift`` under D_1 and D_0, and this variance.

    The best decision between two normal laws is by the sign of the sum of ``value * shift / variance`` over independent
    sides (Neyman and Pearson), wrong with probability Phi(-sqrt(sum of shift^2/variance)).
    """

    value: float
    shift: float
    variance: float

    @property
    def score(self) -> float:
        """The side's part of the sum, half the logarithm of a likelihood ratio; 0 without answers."""
        return self.value * self.shift / self.variance if self.variance > 0.0 else 0.0


@PROBLEMS.register("hypothesis-testing")
class HypothesisTesting(Problem):
    """Decide which of two public laws over X the people follow (Definition 6.1).

    Either X = {0, 1} and P(1) = (1 + bias)/2 under D_1, (1 - bias)/2 under D_0; or X = {0, ..., k-1} and ``laws`` are
    D_0 and D_1: then feature x of a record is 1 for the value x alone, and each side reports how many people have a
    value in A = {x: D_1(x) > D_0(x)}. No other set separates the laws better (Scheffe): D_1(A) - D_0(A) is their total
    variation. For agents that is of the least order at epsilon <= 1: randomized response on A takes of order 1/(epsilon
    TV)^2 of them, and no epsilon-private question needs fewer (Duchi, Jordan and Wainwright 2013).

    With ``reduction`` a side that is alone decides as in the proof of Theorem 6.2, by simulating the other side.
    """

    name: Literal["hypothesis-testing"] = "hypothesis-testing"
    bias: float | None = Field(default=None, gt=0, lt=1, exclude_if=lambda bias: bias is None)
    laws: tuple[Shares, Shares] | None = Field(default=None, exclude_if=lambda laws: laws is None)
    reduction: bool = False

    @model_validator(mode="after")
    def _two_laws(self) -> Self:
        if (self.bias is None) == (self.laws is None):
            raise ValueError("give either a bias, of coins, or two laws")
        if self.laws is not None and len(self.laws[0]) != len(self.laws[1]):
            raise ValueError("both laws are of the same values")
        if not self.chances[0] < self.chances[1]:
            raise ValueError("the laws are the same")
        return self

    @property
    def dimension(self) -> int:
        return 1 if self.laws is None else len(self.laws[0])

    @property
    def telling(self) -> tuple[int, ...]:
        """The features of the values that are more frequent under D_1."""
        if self.laws is None:
            return (0,)
        return tuple(x for x, (zero, one) in enumerate(zip(*self.laws, strict=True)) if one > zero)

    @property
    def chances(self) -> tuple[float, float]:
        """The probability that a person has one of these values, under D_0 and under D_1."""
        if self.bias is not None:
            return (1.0 - self.bias) / 2.0, (1.0 + self.bias) / 2.0
        zero, one = (math.fsum(law[x] for x in self.telling) for law in self.laws or ())
        return zero, one

    def counted(self, count: int, n: int, epsilon: float) -> SideEvidence:
        ratio = Laplace(epsilon=epsilon).ratio
        return self._evidence(count, n, self.chances, 2.0 * ratio / (1.0 - ratio) ** 2)

    def evidence_of_answers(self, ones: int, answers: int, truth: float) -> SideEvidence:
        zero, one = (1.0 - truth + (2.0 * truth - 1.0) * chance for chance in self.chances)
        return self._evidence(ones, answers, (zero, one), 0.0)

    def _evidence(self, ones: int, people: int, chances: tuple[float, float], noise: float) -> SideEvidence:
        """Return the evidence of a number of ones; its variance is the larger one under both laws."""
        zero, one = chances
        variance = people * max(zero * (1.0 - zero), one * (1.0 - one)) + noise
        return SideEvidence(
            value=ones - people * (zero + one) / 2.0, shift=people * (one - zero) / 2.0, variance=variance
        )

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        decision = Decision.parse(answer)
        if isinstance(people, Categories) and self.laws is not None:
            chance = math.fsum(people.shares[x] for x in self.telling)
        elif isinstance(people, BiasedCoins) and self.laws is None:
            chance = people.rate(0)
        else:
            raise BadScenario(f"the truth of this problem is known of biased-coins and categories, found {people.name}")
        world = int(chance > sum(self.chances) / 2.0)
        return {"correct": decision.world == world, "world": world}

    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents that together decide correctly with probability 1 - beta, each with half of the evidence.

        By the normal law: each side's shift^2/variance is z^2/2, Phi(-z) = beta. Alone either is wrong with probability
        Phi(-z/sqrt(2)): the hybrid helps no more than twice as much evidence of the same side would (Theorem 6.2).
        """
        epsilon = inputs.private("the curator counts privately")
        least_ratio = float(ndtri(inputs.beta)) ** 2 / 2.0
        truth = inputs.truth

        def people() -> int:
            # shift^2/variance grows with n.
            n = 1
            while (evidence := self.counted(0, n, epsilon)).shift ** 2 < least_ratio * evidence.variance:
                n = max(n + 1, int(1.001 * n))
            return n

        def answers() -> float:
            evidence = self.evidence_of_answers(0, 1, truth)
            return least_ratio * evidence.variance / evidence.shift**2

        text = "shift^2/variance = z^2/2, Phi(-z) = beta"
        return {"n": inputs.people(people, text), "agents": inputs.agents(answers, text)}


_COUNT, _TELL = curator("count"), agents("coordinate")
DEMANDS.register("hypothesis-testing")(Demands(sequence(_COUNT, _TELL), alone={"curator": _COUNT, "agents": _TELL}))


SOURCE = "Beimel et al., the power of synergy, Appendix B"
_MOST = 1 << 62


class Selected(Value):
    """The answer: a feature, and its mean on the scale from -1 to 1."""

    kind: Literal["selected"] = "selected"
    feature: int = Field(ge=0)
    mean: float


@PROBLEMS.register("select-then-estimate")
class SelectThenEstimate(Problem):
    """Definition B.1: x in {-1, 1}^d (here 0 and 1), mu = E x. Find i with mu_i >= max mu - alpha, and mu_i to alpha'.

    The scenario's ``alpha`` is that of the selection, ``precise`` is alpha', the accuracy of the estimate.
    """

    releases: ClassVar[Mapping[str | None, int]] = {"curator": 2}

    name: Literal["select-then-estimate"] = "select-then-estimate"
    d: int = Field(ge=2, le=1 << 16)
    precise: float = Field(gt=0, lt=1)

    @property
    def dimension(self) -> int:
        return self.d

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        claim = Selected.parse(answer)
        if not isinstance(people, BiasedCoins):
            raise BadScenario(f"the truth of this problem is known of biased-coins, found {people.name}")
        means = [2.0 * people.rate(feature) - 1.0 for feature in range(people.d)]
        if claim.feature >= people.d:
            raise BadMessage(f"feature must be below {people.d}, found {claim.feature}")
        mean, greatest = means[claim.feature], max(means)
        correct = mean >= greatest - alpha and abs(claim.mean - mean) <= self.precise
        return {"correct": correct, "mean": mean, "best": greatest}

    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return n and agents, beta/2 for each side.

        *Selection* (tight). With probability 1 - beta/4 no count is off by more than n t, t = sqrt(ln(4 d/beta)/(2 n))
        (Hoeffding, one side each, d features); with probability 1 - beta/4 the selected count is at most
        2 ln(4 d/beta)/epsilon below the largest (exponential mechanism). On the scale of the counts alpha is alpha/2.

        *Estimation* (tight). Unbiased answers of randomized response lie in an interval of length 1/(2p-1): Hoeffding.

        The paper gives orders of magnitude, which are used without constants.
        """
        epsilon = inputs.private("the curator selects privately")
        width = 1.0 / (2.0 * inputs.truth - 1.0)
        alpha, beta, d = inputs.alpha, inputs.beta, self.d
        if paper:
            selection = math.ceil(math.log(d) / alpha**2 + math.log(d) / (epsilon * alpha))
            text = "ln d/alpha^2 + ln d/(epsilon alpha)"
            estimation, agents_text = math.ceil(width**2 / self.precise**2), "1/((2p-1) alpha')^2"
        else:
            spread = math.log(4.0 * d / beta)
            try:
                selection = least(
                    lambda n: 2.0 * math.sqrt(spread / (2.0 * n)) + 2.0 * spread / (epsilon * n) <= alpha / 2.0,
                    1,
                    _MOST,
                )
            except LookupError:
                raise BadScenario(f"no number of people brings the error below {alpha / 2.0:g}") from None
            text = "2 sqrt(ln(4d/beta)/(2n)) + 2 ln(4d/beta)/(epsilon n) <= alpha/2"
            estimation = math.ceil(math.log(4.0 / beta) * 2.0 * width**2 / self.precise**2)
            agents_text = "2 ln(4/beta)/((2p-1) alpha')^2"
        return {
            "n": inputs.people(lambda: selection, text, SOURCE),
            "agents": inputs.agents(lambda: estimation, agents_text, SOURCE),
        }


_SELECT = curator("select")
DEMANDS.register("select-then-estimate")(
    Demands(sequence(_SELECT, _TELL), alone={"curator": sequence(_SELECT, _COUNT), "agents": _TELL})
)


SPURIOUS = 0.01  # expected number of listed values that nobody holds


def threshold(bits: int, noise: Laplace) -> int:
    """Return the least count that on average at most :data:`SPURIOUS` of the cells without people reach.

    P(Z >= t) = q^t/(1 + q) for two-sided geometric noise Z and t >= 0, in each of 2^bits cells.
    """
    level = (bits * math.log(2.0) - math.log(SPURIOUS) - math.log1p(noise.ratio)) / -math.log(noise.ratio)
    return max(1, math.ceil(level))


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

    Items are strings of so many ``bits``; ``most`` are listed at most. If they are pairs, the first ``query`` bits are
    the query and the others a URL.
    """

    name: Literal["blender"] = "blender"
    bits: int = Field(ge=8, le=64)
    most: int = Field(ge=1, le=1 << 12)
    heavy: float = Field(gt=0, lt=1)
    precise: float = Field(gt=0, lt=1)
    query: int | None = Field(default=None, ge=1, lt=64, exclude_if=lambda query: query is None)

    @model_validator(mode="after")
    def _has_urls(self) -> Self:
        if self.query is not None and self.query >= self.bits:
            raise ValueError(f"query = {self.query} bits leave none of {self.bits} for a URL")
        return self

    @property
    def dimension(self) -> int:
        return self.bits

    def ndcg(self, listed: Mapping[int, float], truth: Mapping[int, float]) -> float:
        """Return how well items are ranked by their listed shares, from 0 to 1 (Jaervelin and Kekaelaeinen 2002).

        The gain of an item is its true share: DCG = sum of gain_i/log_2(i + 1) over the ranks i, divided by that of the
        best list of the same length. For pairs, as in BLENDER, queries are ranked by the sum of their listed shares,
        and the gain of each is multiplied by the NDCG of its own URLs.
        """
        if self.query is None:
            return _ndcg(listed, truth)
        shift = self.bits - self.query
        lists: dict[int, dict[int, float]] = {}
        truths: dict[int, dict[int, float]] = {}
        for flat, nested in ((listed, lists), (truth, truths)):
            for item, share in flat.items():
                nested.setdefault(item >> shift, {})[item] = share
        urls = {query: _ndcg(parts, truths.get(query, {})) for query, parts in lists.items()}
        shares = {query: sum(parts.values()) for query, parts in truths.items()}
        return _ndcg({query: sum(parts.values()) for query, parts in lists.items()}, shares, urls)

    def noise(self, epsilon: float) -> Laplace:
        """Return the noise in each cell of the curator's histograms: replacing a record changes two of them."""
        return Laplace(epsilon=down(epsilon / 2.0))

    def agents_variance(self, shares: Floats, answers: int, oracle: FrequencyOracle, domain: int) -> Floats:
        """Return the variance of shares that so many agents reported, over agents drawn at random."""
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
            "ndcg": self.ndcg(dict(zip(head.items, head.shares, strict=True)), truth),
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


def _ndcg(listed: Mapping[int, float], truth: Mapping[int, float], worth: Mapping[int, float] | None = None) -> float:
    ranked = sorted(listed, key=lambda item: (-listed[item], item))
    gains = [truth.get(item, 0.0) * (1.0 if worth is None else worth[item]) for item in ranked]
    best = sorted(truth.values(), reverse=True)[: len(ranked)]
    ideal, dcg = (math.fsum(g / math.log2(i + 2.0) for i, g in enumerate(terms)) for terms in (best, gains))
    return dcg / ideal if ideal > 0.0 else 0.0


_HEAD, _LISTED = curator("head"), maybe(agents("listed"))
DEMANDS.register("blender")(
    Demands(sequence(_HEAD, _LISTED), alone={"curator": _HEAD, "agents": sequence(agents("item"), _LISTED)})
)
