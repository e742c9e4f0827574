"""How often the teachers err, estimated privately on people who are set aside (Remark 1)."""

from __future__ import annotations

import numpy as np

from common.core.arrays import AnyArray
from common.numerics.randomness import RandomSource
from curator.mechanisms.counting.geometric import geometric_noise


def estimated_mistakes(votes: AnyArray, classes: AnyArray, touched: int, epsilon: float, source: RandomSource) -> float:
    """Return the teachers' share of mistakes on h people that no teacher was trained on, with noise; epsilon-DP.

    ::

        floor(M / u) + Z,    u = max(k, touched h),    as a share of k h / u

    M, of k h votes those that are wrong, changes by at most k if one of the h people is replaced, and by at most
    touched h if one of the others is, whose teachers change; so the whole number floor(M/u) has sensitivity 1, and Z is
    two-sided geometric. (Bassily, Thakkar and Thakurta 2018, Remark 1.)

    Parameters
    ----------
    votes
        Shape (k, h).
    classes
        Their true classes, shape (h,); where one is negative, every vote is wrong.

    Returns
    -------
    A number in [0, 1].
    """
    teachers, people = votes.shape
    unit = max(teachers, touched * people)
    wrong = int(np.count_nonzero(votes != classes))
    noisy = wrong // unit + int(geometric_noise(1, epsilon, source)[0])
    return float(np.clip((noisy + 1) * unit / (teachers * people), 0.0, 1.0))
