"""Whether bits can be answers of a randomizing mechanism at all, whatever the people behind them are like."""

from __future__ import annotations

import math

from common.statistics.means.evidence import kl
from common.vocabulary.mechanisms.base import BitMechanism

FALSE_ALARM = 1e-9
"""The chance, at most, that answers which are as they should be are called implausible, at one look.

A run looks twice at each question: at its answers, and at all so far.
"""


def implausible(mechanism: BitMechanism, ones: int, count: int, lies: int = 0) -> bool:
    """Tell whether hardly any ``count`` honest answers hold so few, or so many, ones.

    *Theorem.* For independent honest answers, whatever their values are, this is true with probability
    :data:`FALSE_ALARM` at most.

    *Proof.* An honest answer is 1 with a probability in [1 - p, p], p being the chance of the truth. So the number of
    ones is stochastically at least that of ``count`` flips of a coin with 1 - p, and at most that with p. By Chernoff's
    bound such a coin shows a share of a or less, a < 1 - p, with probability exp(-count kl(a, 1 - p)) at most, and the
    other one a share of a or more, a > p, with probability exp(-count kl(a, p)); each of them is half of the alarm at
    most where this is true. Of the answers ``lies`` may say anything: there are counts of ones that honest agents could
    have given, within so many of the one that was found, and it is true only if the nearest of these is as unlikely.
    QED.

    It takes answers that were left out because of what they say, or a large share of agents who lie: neither an
    estimate nor its interval is then about the people.
    """
    if count == 0 or mechanism.truth >= 1.0:
        return False
    share, low, high = ones / count, 1.0 - mechanism.truth, mechanism.truth
    if low <= share <= high:
        return False
    # The nearest that honest agents could have given.
    share = min(share + lies / count, low) if share < low else max(share - lies / count, high)
    if share in (low, high):
        return False
    # Too many ones are the mirror image of too few.
    share = min(share, 1.0 - share)
    entropy = kl(share, low) if share > 0.0 else -math.log1p(-low)
    return count * entropy > math.log(2.0 / FALSE_ALARM)
