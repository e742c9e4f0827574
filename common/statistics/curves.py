"""How good a score is on T: calibration curve, rates at a cut and AUC, from agents' bits about its bins and labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from common.core.arrays import AnyArray, Floats
from common.core.values import Value
from common.numerics.elementary import logistic, ordered_sum
from common.statistics.intervals import Estimate

_GRID = 2000  # values of a ratio to try; an interval is widened by one step at either end
_TRIED = np.arange(_GRID + 1) / _GRID


def bins_for(answers: float) -> int:
    """Return into how many bins, 2 to 8, to divide a score for so many answers: four times as many double the bins.

    Each of ``answers`` counts as (2p - 1)^2, p being the chance of the truth. The standard deviation of a bin's share
    is then at most a quarter of the mean share of a bin and label, with 8 bins or fewer.
    """
    return min(8, max(2, math.isqrt(int(answers)) // 8))


class ScoreBin(Value):
    """People whose predicted chance of +1 is above ``low`` and at most ``high``, and the share of +1 among them."""

    low: float
    high: float
    observed: Estimate


class ScoreQuality(Value):
    """How good a calibrated score is on T, by the bits of ``agents`` who answered.

    Attributes:
        bins: The calibration curve.
        auc: The chance that a person of label +1 has a higher bin than one of label -1, ties counting half; its
            interval is by the normal law. All other intervals hold together with their confidence.
        threshold: The predicted chance above which +1 is predicted, from the costs.
        recall, false_alarms: The shares of the people of label +1, and of label -1, for whom +1 is predicted.
    """

    agents: int
    bins: tuple[ScoreBin, ...]
    auc: Estimate
    threshold: float
    recall: Estimate
    false_alarms: Estimate


@dataclass(frozen=True, eq=False)
class ScoreShares:
    """Estimated shares of T's people by bin of a score, ascending, and label.

    Each of ``count`` agents reported one bit of the Hadamard code of its item, by randomized response: with r its
    public uniform row and x its bit, (-1)^(x + <r, v>) scale is an unbiased estimate of the share of item v, scale =
    1/(2p - 1), and the mean over the agents is the estimate (:func:`common.statistics.frequency.signed_shares`).

    Attributes:
        items: Shape (bins, 2): of labels -1, then +1. They may be negative.
    """

    items: Floats
    count: int
    scale: float

    def ratio(self, part: AnyArray, population: AnyArray, miss: float) -> Estimate:
        """Return the share that the items ``part`` have of the people of ``population``, with an interval.

        Args:
            part, population: Shape (bins, 2), booleans; ``part`` lies in ``population``.

        *Theorem.* If the agents are independent draws from T, the interval misses the true ratio q with probability
        ``miss`` at most, for any number of agents.

        *Proof.* Let w = 1[part] - q 1[population]: <w, shares> = 0. Its estimate is the mean of ``count`` independent
        numbers X = scale (-1)^x W(r), W the Walsh-Hadamard transform of w. By Parseval E X^2 = scale^2 |w|_2^2, and |X|
        is at most b = scale |w|_1. So by Bernstein's inequality the estimate is beyond t = b l/(3 count) + sqrt((b l/(3
        count))^2 + 2 scale^2 |w|_2^2 l/count), l = ln(2/miss), with probability ``miss`` at most. The interval holds
        all q that this does not reject. QED.
        """
        inside, outside = float(np.count_nonzero(part)), float(np.count_nonzero(population & ~part))
        top, bottom = float(self.items[part].sum()), float(self.items[population].sum())
        if not self.count or bottom <= 0.0:
            return _estimate(0.5, np.ones(len(_TRIED), dtype=bool), 1.0 - miss)
        log = math.log(2.0 / miss)
        most = self.scale * (inside * (1.0 - _TRIED) + outside * _TRIED) * log / (3.0 * self.count)
        square = self.scale * self.scale * (inside * (1.0 - _TRIED) ** 2 + outside * _TRIED**2)
        bound = most + np.sqrt(most * most + 2.0 * square * log / self.count)
        return _estimate(top / bottom, np.abs(top - _TRIED * bottom) <= bound, 1.0 - miss)

    def observed(self, miss: float) -> list[Estimate]:
        """Return the share of +1 in each bin; all intervals together miss with probability ``miss`` at most."""
        masks = np.repeat(np.eye(len(self.items), dtype=bool)[:, :, None], 2, axis=2)  # the people of each bin
        return [self.ratio(mask & (np.arange(2) > 0), mask, miss / len(self.items)) for mask in masks]

    def caught(self, first: int, label: int, miss: float) -> Estimate:
        """Return the share of the people of a label (-1 or +1) who are in the bins from ``first`` on."""
        population = np.zeros(self.items.shape, dtype=bool)
        population[:, int(label > 0)] = True
        return self.ratio(population & (np.arange(len(self.items)) >= first)[:, None], population, miss)

    def quality(self, cuts: Sequence[float], cut: float, beta: float) -> ScoreQuality:
        """Return the score's quality, for bins between ``cuts`` of the log odds, one of which is the ``cut`` for +1.

        beta is divided: half for the curve, a quarter for either rate. The AUC has a beta of its own.
        """
        ends = [0.0, *logistic(np.array(cuts)).tolist(), 1.0]
        first, update = list(cuts).index(cut) + 1, {"confidence": 1.0 - beta}
        observed = [e.model_copy(update=update) for e in self.observed(beta / 2.0)]
        return ScoreQuality(
            agents=self.count,
            bins=tuple(
                ScoreBin(low=low, high=high, observed=e)
                for (low, high), e in zip(pairwise(ends), observed, strict=True)
            ),
            auc=self.auc(beta),
            threshold=ends[first],
            recall=self.caught(first, 1, beta / 4.0).model_copy(update=update),
            false_alarms=self.caught(first, -1, beta / 4.0).model_copy(update=update),
        )

    def auc(self, miss: float) -> Estimate:
        """Return the chance that a person of label +1 is in a higher bin than one of label -1, ties counting half.

        With s and n the shares by bin of labels +1 and -1, the form s' M n, M_ij = 1[i > j] + 1[i = j]/2 - a, is 0 for
        the true a. Its estimate has the standard deviation scale/sqrt(count) |(M n, M' s)|, and that of the errors'
        product, scale^2/count |M|_F. The interval holds all a at which the estimate is within as many standard
        deviations of both as the normal law exceeds with probability ``miss``. The chance that it misses tends to
        ``miss`` as the number of agents grows; for a given number it is no bound.
        """
        negative, positive = self.items[:, 0], self.items[:, 1]
        below = np.tri(len(self.items), k=-1) + 0.5 * np.eye(len(self.items))
        plus, minus = float(positive.sum()), float(negative.sum())
        if not self.count or min(plus, minus) <= 0.0:
            return _estimate(0.5, np.ones(len(_TRIED), dtype=bool), 1.0 - miss)
        lower, higher, rates = ordered_sum(below * negative), ordered_sum(below.T * positive), _TRIED[:, None]
        ordered = float(ordered_sum(positive * lower))
        slopes = np.square(lower - rates * minus) + np.square(higher - rates * plus)
        product = np.square(below.ravel() - rates).sum(axis=1)
        unit = self.scale * self.scale / self.count
        bound = NormalDist().inv_cdf(1.0 - miss / 2.0) * np.sqrt(unit * slopes.sum(axis=1) + unit * unit * product)
        return _estimate(ordered / (plus * minus), np.abs(ordered - _TRIED * (plus * minus)) <= bound, 1.0 - miss)


def _estimate(value: float, kept: AnyArray, confidence: float) -> Estimate:
    """Return the hull of the estimate and the values that are kept, widened by one step on either side."""
    value = min(1.0, max(0.0, value))
    places = [*np.flatnonzero(kept).tolist(), value * _GRID]
    low, high = max(0.0, (min(places) - 1.0) / _GRID), min(1.0, (max(places) + 1.0) / _GRID)
    return Estimate(value=value, low=low, high=high, confidence=confidence)


def auc_width(answers: int, scale: float) -> float:
    """Return about how far an AUC may be from its estimate, at 95%, for balanced labels that are spread evenly.

    Rarer labels widen it by a factor of 1 over four times the product of both shares.
    """
    bins = bins_for(answers / (scale * scale))
    rising = np.arange(1.0, bins + 1.0)
    auc = ScoreShares(np.stack([rising[::-1], rising], axis=1) / (bins * (bins + 1.0)), answers, scale).auc(0.05)
    return 0.5 * (auc.high - auc.low)
