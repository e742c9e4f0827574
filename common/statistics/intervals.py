"""Confidence sequences for a loss on T, and for the difference of two: they hold at every number of answers at once.

Functions raise :class:`BadInput` for numbers outside the ranges that they state.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pydantic import Field
from scipy.special import betaln

from common.core.arrays import AnyArray
from common.core.errors import BadInput
from common.core.values import Value
from common.local.mechanisms.mechanism import BitMechanism, Mechanism
from common.statistics.evidence import log_sum

_COMPONENTS = 48
_NEAR = 1e-12  # distance from its border at which a point just outside an interval is near enough
_ROUNDING = 2.0**-44


class Estimate(Value):
    """A loss with its confidence interval.

    Attributes:
        value: Mean of the answers, each of them unbiased, clipped to [0, 1]; biased after a stop or a choice that
            depends on the answers (``docs/statistics.md``); the interval, ``low`` to ``high``, holds all the same.
        confidence: Probability, before any answer exists, that the interval will cover the loss on T.
    """

    value: float = Field(ge=0, le=1)
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)
    confidence: float = Field(gt=0, lt=1)


def certainty(confidence: float) -> str:
    """Return a confidence in per cent, never rounded up: .95 is 95%, .9999 is 99.99%, and nothing below 1 is 100%."""
    return f"{math.floor(confidence * 1e4 + 1e-9) / 100:g}%"


def tally(mechanism: Mechanism, answers: AnyArray) -> tuple[float, int]:
    """Return what a batch comes down to: number of ones or sum of unbiased answers, and their count."""
    if isinstance(mechanism, BitMechanism):
        return float(answers.sum(dtype="int64")), len(answers)
    return math.fsum(mechanism.unbias(answers)), len(answers)


def estimate(mechanism: Mechanism, total: float, count: int, confidence: float, among: int = 1) -> Estimate:
    """Estimate the mean value of the agents' population from their randomized answers.

    The interval is a confidence sequence: it covers the truth *at every count simultaneously* with the given
    probability, so that it may be read after a test that stopped because of what it saw.

    Bit mechanisms: the set of q for which the beta-binomial mixture (Robbins 1970, prior Beta(1/2, 1/2))

        ln B(ones + 1/2, zeros + 1/2) - ln B(1/2, 1/2) - ones ln q - zeros ln(1 - q)  <  ln(among/(1 - confidence))

    mapped to err = (q - (1-p))/(2p-1). The left side is the logarithm of a martingale that starts at 1 if q is the
    truth: Ville's inequality. It is convex in q with its least value at ones/count, so the set is an interval. Real
    mechanisms: for each side, the means v at which the mixture over a grid of rates sum_k w_k exp(rate_k (sum of
    answers - count v) - count psi(rate_k)) stays below 2 among/(1 - confidence).

    Args:
        total, count: As :func:`tally` gives them, added up over batches.
        confidence: In (0, 1).
        among: Over how many hypotheses the reader will choose by looking at the estimates; the confidence holds for all
            of them at once (union bound).
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
        middle, low, high = _bits(mechanism.truth, total, count, miss)
    else:
        middle, low, high = _reals(mechanism, total, count, miss)
    return Estimate(value=_clip(middle), low=_clip(low), high=_clip(high), confidence=confidence)


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


def _bits(truth: float, ones: float, count: int, miss: float) -> tuple[float, float, float]:
    zeros = count - ones
    mixture = float(betaln(ones + 0.5, zeros + 0.5) - betaln(0.5, 0.5))
    # Room for what doubles lose: betaln and the sums are near count * ln 2 in size.
    bar = -math.log(miss) + _ROUNDING * (count + 64)

    def covered(q: float) -> bool:
        return mixture - _log_likelihood(ones, zeros, q) < bar

    mean = ones / count
    ends = (edge(covered, mean, 0.0), mean, edge(covered, mean, 1.0))
    low, middle, high = ((q - (1.0 - truth)) / (2.0 * truth - 1.0) for q in ends)
    return middle, low, high


def _log_likelihood(ones: float, zeros: float, q: float) -> float:
    if (ones > 0.0 and q <= 0.0) or (zeros > 0.0 and q >= 1.0):
        return -math.inf
    return (ones * math.log(q) if ones > 0.0 else 0.0) + (zeros * math.log1p(-q) if zeros > 0.0 else 0.0)


def _reals(mechanism: Mechanism, total: float, count: int, miss: float) -> tuple[float, float, float]:
    bar = math.log(2.0 / miss)
    rates = [2.0 ** (4 - k) for k in range(_COMPONENTS)]
    costs = [(rate, mechanism.log_mgf(rate), mechanism.log_mgf(-rate)) for rate in rates]

    def covered(mean: float) -> bool:
        ups, downs = [], []
        for k, (rate, up, down) in enumerate(costs):
            weight = -math.log((k + 1) * (k + 2))
            ups.append(weight + rate * (total - count * mean) - count * up)
            downs.append(weight - rate * (total - count * mean) - count * down)
        slack = _ROUNDING * (rates[0] * (abs(total) + count) + 64)
        return max(log_sum(ups), log_sum(downs)) - slack < bar

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
