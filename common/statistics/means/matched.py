"""By how much two losses differ, from randomized bits about both that are matched one to one, at every number of them.

Intervals of two losses, subtracted, are as wide as both together. Independent errors partly cancel, so the difference
of two estimates is better known than that: by a factor of sqrt(2) where both are alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from common.core.arrays import AnyArray
from common.core.errors import BadInput
from common.statistics.means.paired import RATES, SPREAD, ends
from common.vocabulary.mechanisms.base import BitMechanism

_NEAR = 2.0
"""Rates within this factor of the one that suits the planned number of matches get half of the mixture's weight."""


@dataclass(frozen=True)
class Matches:
    """Matched bits: how often only the first of two is 1, both are alike, only the second is 1."""

    ups: int = 0
    same: int = 0
    downs: int = 0

    @classmethod
    def of(cls, first: AnyArray, second: AnyArray) -> Matches:
        """Match bits by their positions, as far as both reach."""
        most = min(len(first), len(second))
        score = first[:most].astype(np.int8) - second[:most].astype(np.int8)
        ups, downs = int((score > 0).sum()), int((score < 0).sum())
        return cls(ups, most - ups - downs, downs)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.ups + self.same + self.downs

    def __add__(self, other: Matches) -> Matches:
        return Matches(self.ups + other.ups, self.same + other.same, self.downs + other.downs)


def mixture(planned: int, miss: float) -> tuple[float, ...]:
    """Return the logarithms of the weights of :data:`.paired.RATES` that suit a number of matches.

    Half of the weight goes to the rates near sqrt(2 ln(2/miss)/(planned/2)): for scores of variance 1/2 that is where
    the bound after ``planned`` matches is narrowest. The other half is spread over all rates, so that the interval is
    hardly wider at other numbers. The weights are fixed before any answer and add up to 1 at most: whatever the number
    of matches turns out to be, the interval holds; only its width depends on the plan.
    """
    if planned < 1:
        return SPREAD
    best = math.sqrt(4.0 * math.log(2.0 / miss) / planned)
    near = [k for k, rate in enumerate(RATES) if best / _NEAR <= rate <= best * _NEAR]
    if not near:
        return SPREAD
    share = 0.5 / len(near)
    return tuple(math.log(0.5 * math.exp(spread) + share * (k in near)) for k, spread in enumerate(SPREAD))


def bounds(mechanism: BitMechanism, matches: Matches, miss: float, planned: int = 0) -> tuple[float, float]:
    """Return an interval for loss(first) - loss(second) on T from matched bits.

    Bits about the first and bits about the second hypothesis, of different agents, are matched one to one; a pair
    scores x = 1, 0 or -1, the first bit less the second. Both bits are about losses, or both about sole errors
    (:class:`~common.vocabulary.queries.sole_error.SoleErrorQuery`). With p the probability of telling the truth,
    E x = m = (2p - 1) (loss(first) - loss(second)) either way, since a bit about a value of mean v is 1 with
    probability (1 - p) + (2p - 1) v, and those on whom both err cancel in the difference of losses.

    *Theorem.* With probability 1 - ``miss`` the interval covers the difference at every number of matches at once, if
    the hypotheses are fixed before any of these bits, agents are independent draws from T, and bits are matched by
    their order among those that were asked for at the same time. Which of the two questions is asked next, and to how
    many, may depend on everything that was seen before.

    *Proof.* Given everything that was seen before a question, the i-th bits of both parts of it are independent of each
    other and of the other pairs, and the i-th score has mean m for either question. For a rate r in [0, 1/2) the
    product of 1 + r (x - m) over the pairs is thus a martingale from 1 on that is never negative, as x - m >= -2; so is
    a mixture over rates. By Ville's inequality it ever reaches 2/miss with probability miss/2 at most. The ends are
    those of :func:`common.statistics.means.paired.difference`, with weights that were fixed beforehand. A bit of one
    part that has no partner is left out for good: were it matched with one that is asked for later, after it was looked
    at, the mean of that score would no longer be m. QED.

    Variance. One score varies by r1 (1 - r1) + r2 (1 - r2), where r is the chance of a 1. Where both losses are at most
    1/2, sole errors are no more frequent than errors, so their scores vary less; with p near 1 and hypotheses that
    mostly agree, by far.

    Parameters
    ----------
    mechanism
        How both bits are randomized.
    matches
        The scores.
    miss
        In (0, 1).
    planned
        About how many matches there will be, a public number (:func:`mixture`); 0: not known.

    Raises
    ------
    BadInput
        If a number is outside its range.
    """
    if not 0.0 < miss < 1.0 or min(matches.ups, matches.same, matches.downs) < 0:
        raise BadInput(f"a matched difference needs counts and a miss in (0, 1), found {matches} and {miss}")
    if matches.count == 0:
        return -1.0, 1.0
    found = ends(matches.ups, matches.same, matches.downs, miss, mixture(planned, miss))
    low, high = (min(1.0, max(-1.0, x / (2.0 * mechanism.truth - 1.0))) for x in found)
    return low, high
