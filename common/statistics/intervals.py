"""Intervals for a loss on T, after one look or at every number of answers at once, and for the difference of two."""

import math
from collections.abc import Callable

from pydantic import Field
from scipy.special import betainc, betaln

from common.core.arrays import AnyArray
from common.core.errors import BadInput
from common.core.values import Value
from common.local.mechanisms.mechanism import BitMechanism, Mechanism
from common.statistics.evidence import log_sum

VAGUE = 0.25  # a wider interval is uninformative: a loss of 0 is perfect, 1/2 is a coin, and it may be near both
_COMPONENTS = 48
_NEAR = 1e-12  # distance from its border at which a point just outside an interval is near enough
_ROUNDING = 2.0**-44
_TAIL_ROUNDING = 1e-6  # assumed relative error of a binomial tail, far above that of SciPy
_FINER = 4  # for one look, rates are this many times denser, since they need no weights


class Estimate(Value):
    """A loss with its confidence interval.

    Attributes:
        value: Mean of the answers, clipped to [0, 1]. It is biased once it is clipped, and after a stop or a choice
            that depends on the answers (``docs/statistics.md``); the interval, ``low`` to ``high``, still holds.
        confidence: Probability, before any answer exists, that the interval will cover the loss on T.
    """

    value: float = Field(ge=0, le=1)
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)
    confidence: float = Field(gt=0, lt=1)


def certainty(confidence: float) -> str:
    """Return a confidence in per cent, never rounded up: .95 is 95%, .9999 is 99.99%, and none is 100%."""
    return f"{_ten_thousandths(confidence) / 100:g}%"


def probability(confidence: float) -> str:
    """Return a confidence as a number, likewise never rounded up: .95, .9999, and none is 1."""
    return f"{_ten_thousandths(confidence) / 10_000:g}"


def _ten_thousandths(confidence: float) -> int:
    return min(math.floor(confidence * 1e4 + 1e-9), 9999)


def tally(mechanism: Mechanism, answers: AnyArray) -> tuple[float, int]:
    """Return the statistics of a batch: number of ones or sum of unbiased answers, and the number of answers."""
    if isinstance(mechanism, BitMechanism):
        return float(answers.sum(dtype="int64")), len(answers)
    return math.fsum(mechanism.unbias(answers)), len(answers)


def estimate(
    mechanism: Mechanism, total: float, count: int, confidence: float, among: int = 1, *, once: bool = False
) -> Estimate:
    """Estimate the mean value of the agents' population from their randomized answers.

    *At every number of answers* (the default). The interval is a confidence sequence: it covers the truth at every
    count simultaneously with the given probability, so that it may be used after a test that stopped because of the
    answers. Bit mechanisms: the set of q for which the beta-binomial mixture (Robbins 1970, prior Beta(1/2, 1/2))

        ln B(ones + 1/2, zeros + 1/2) - ln B(1/2, 1/2) - ones ln q - zeros ln(1 - q)  <  ln(among/(1 - confidence))

    mapped to err = (q - (1-p))/(2p-1). The left side is the logarithm of a martingale that starts at 1 if q is the
    truth: Ville's inequality. It is convex in q with its least value at ones/count, so the set is an interval. Real
    mechanisms: for each side, the means v at which the mixture over a grid of rates sum_k w_k exp(rate_k (sum of
    answers - count v) - count psi(rate_k)) stays below 2 among/(1 - confidence).

    *At one number of answers* (``once``), fixed beforehand: about half as wide. *Theorem.* If the answers are
    independent, each of mean v, and their number does not depend on them, the interval covers v with the given
    probability. *Proof.* With miss = (1 - confidence)/among, a bit is 1 with chance q = (1-p) + (2p-1) v, so the ones
    are binomial, whatever the law of the values is; the interval has those q for which neither P(Bin(count, q) >= ones)
    nor P(Bin(count, q) <= ones) is miss/2 or less, and each of the two is that small with probability miss/2 at most,
    as the tail probability of the ones at their own value (Clopper and Pearson 1934). Real mechanisms: for each side,
    the v for which no rate of the grid gives rate (sum of answers - count v) - count psi(rate) >= ln(2/miss). For the
    true v some rate gives so much exactly if the sum passes one threshold, the least (ln(2/miss) + count
    psi(rate))/rate above count v; the rate of that one alone bounds the chance of it by miss/2 (Chernoff). QED.

    Args:
        total, count: As :func:`tally` gives them, added up over batches.
        confidence: In (0, 1).
        among: Over how many hypotheses the reader will choose by looking at the estimates; the confidence holds for all
            of them at once (union bound).
        once: Whether the number of answers was fixed before any was seen, and nobody looked before all were in.
    """
    if count < 0 or among < 1:
        raise BadInput(f"an estimate needs count >= 0 and among >= 1, found {count} and {among}")
    if not 0.0 < confidence < 1.0:
        raise BadInput(f"a confidence must be in (0, 1), found {confidence}")
    if count == 0:
        return Estimate(value=0.5, low=0.0, high=1.0, confidence=confidence)
    if isinstance(mechanism, BitMechanism) and not 0.0 <= total <= count:
        raise BadInput(f"the number of ones must be in 0..{count}, found {total:g}")
    miss = (1.0 - confidence) / among
    if isinstance(mechanism, BitMechanism):
        middle, low, high = _bits(mechanism.truth, total, count, miss, once)
    else:
        middle, low, high = _reals(mechanism, total, count, miss, once)
    return Estimate(value=_clip(middle), low=_clip(low), high=_clip(high), confidence=confidence)


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


def _bits(truth: float, ones: float, count: int, miss: float, once: bool) -> tuple[float, float, float]:
    mean = ones / count
    covered, gain = _binomial(ones, count, miss) if once else _mixed(ones, count, miss), 2.0 * truth - 1.0
    ends = (edge(covered, mean, 0.0), mean, edge(covered, mean, 1.0))
    low, middle, high = ((q - (1.0 - truth)) / gain for q in ends)
    return middle, low, high


def _mixed(ones: float, count: int, miss: float) -> Callable[[float], bool]:
    zeros = count - ones
    mixture = float(betaln(ones + 0.5, zeros + 0.5) - betaln(0.5, 0.5))
    # Margin for rounding errors: betaln and the sums are near count * ln 2 in size.
    threshold = -math.log(miss) + _ROUNDING * (count + 64)
    return lambda q: mixture - _log_likelihood(ones, zeros, q) < threshold


def _binomial(ones: float, count: int, miss: float) -> Callable[[float], bool]:
    least = 0.5 * miss * (1.0 - _TAIL_ROUNDING)

    def covered(q: float) -> bool:
        above = 1.0 if ones <= 0.0 else float(betainc(ones, count - ones + 1.0, q))
        below = 1.0 if ones >= count else float(betainc(count - ones, ones + 1.0, 1.0 - q))
        return bool(min(above, below) > least)

    return covered


def _log_likelihood(ones: float, zeros: float, q: float) -> float:
    if (ones > 0.0 and q <= 0.0) or (zeros > 0.0 and q >= 1.0):
        return -math.inf
    return (ones * math.log(q) if ones > 0.0 else 0.0) + (zeros * math.log1p(-q) if zeros > 0.0 else 0.0)


def _reals(mechanism: Mechanism, total: float, count: int, miss: float, once: bool) -> tuple[float, float, float]:
    threshold = math.log(2.0 / miss)
    rates = [2.0 ** (4 - k / (_FINER if once else 1)) for k in range(_COMPONENTS * (_FINER if once else 1))]
    costs = [(rate, mechanism.log_mgf(rate), mechanism.log_mgf(-rate)) for rate in rates]
    weights = [0.0 if once else -math.log((k + 1) * (k + 2)) for k in range(len(rates))]
    combine = max if once else log_sum

    def covered(mean: float) -> bool:
        ups, downs = [], []
        for weight, (rate, up, down) in zip(weights, costs, strict=True):
            ups.append(weight + rate * (total - count * mean) - count * up)
            downs.append(weight - rate * (total - count * mean) - count * down)
        slack = _ROUNDING * (rates[0] * (abs(total) + count) + 64)
        return bool(max(combine(ups), combine(downs)) - slack < threshold)

    mean = total / count
    return mean, edge(covered, mean, min(mean, 0.0)), edge(covered, mean, max(mean, 1.0))


def edge(covered: Callable[[float], bool], inside: float, outside: float) -> float:
    """Bisect for the border of an interval; return a point just outside (``outside`` if all is covered)."""
    if covered(outside):
        return outside
    for _ in range(80):
        if abs(outside - inside) <= _NEAR:
            break
        middle = 0.5 * (inside + outside)
        if covered(middle):
            inside = middle
        else:
            outside = middle
    return outside
