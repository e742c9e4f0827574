"""How many records it takes until equations of parities have full rank, and in how many blocks they must come.

Notation: d features, T uniform on {0,1}^d, X = chi^2(T||S) + 1, beta the failure probability, p the probability that a
record is kept, b that a block answers bottom. ``paper_...`` are Kohen & Sheffet's. Functions raise :class:`BadInput`
for numbers outside the ranges that they state.
"""

import math

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadInput
from common.numerics.kernels import njit

MAX_WORK = 1 << 31  # rows times features that a search goes through: a few seconds


def paper_blocks(beta: float) -> int:
    """Return k = log_{4/3}(2/beta), rounded up (Corollary B.3)."""
    return math.ceil(math.log(2.0 / beta) / math.log(4.0 / 3.0))


def paper_rows(dimension: int, beta: float, chi_squared: float, epsilon: float) -> int:
    """Return n = 32 X d ln(2d/beta)/eps records a block, rounded up (Corollary B.3).

    The printed formula lacks a union bound over the blocks (docs/corrections.md, K9), for which there is room.
    """
    return math.ceil(32.0 * chi_squared * dimension * math.log(2.0 * dimension / beta) / epsilon)


def escapes(dimension: int, chi_squared: float, supremum: float | None) -> Floats:
    """Return a lower bound on how often a record of S leaves a subspace of dimension i, shape (d,), for i = 0..d-1.

        q_i = max(u_i^2/X, u_i/D_inf),   u_i = 1 - 2^{i-d}

    u_i is T's chance. Cauchy and Schwarz: u_i = E_S[w 1_E] <= sqrt(E_S[w^2] S(E)) (Claim B.2; docs/corrections.md, K9).
    With w <= D_inf known, also u_i <= D_inf S(E). Decreasing in i.
    """
    uniform = -np.expm1((np.arange(dimension) - dimension) * math.log(2.0))
    lowest = uniform**2 / chi_squared
    return np.asarray(lowest if supremum is None else np.maximum(lowest, uniform / supremum))


def spanning_rows(chances: Floats, beta: float) -> int:
    """Return the least m such that m records have full rank with probability at least 1 - beta.

    Whatever came before, the wait at rank i is stochastically at most geometric with chances[i], so the number of
    records needed is at most a sum of independent geometric variables. Its tail is computed exactly, as the law of a
    walk over the ranks, where the paper has d ln(d/beta) steps of the slowest rank.

    Args:
        chances: For each rank i = 0..d-1 a lower bound on the chance that the next record is kept and raises it; not
            increasing.
    """
    if not 0.0 < beta < 1.0:
        raise BadInput(f"a failure probability must be in (0, 1), found {beta}")
    most = MAX_WORK // len(chances)
    few = chances[-1] > 0.0 and float(np.sum(1.0 / chances)) < most
    rows = _walk(np.ascontiguousarray(chances), beta, most) if few else 0
    if not rows:
        raise BadInput(
            f"more than {most:,} records a block are needed to span {len(chances)} features: raise epsilon, or "
            "lower chi_squared"
        )
    return rows


def blocks(chances: Floats, bottom: float, beta: float) -> tuple[int, int]:
    """Return (R, m), the number of blocks and the rows of each, with the fewest records R m.

    All R blocks have full rank and at least one answers with probability 1 - beta: with b^R for no answer at all, (beta
    - b^R)/R is left for each block's rank.
    """
    least = max(1, math.floor(math.log(beta) / math.log(bottom)) + 1)
    candidates = [(count, rows_of(chances, bottom, beta, count)) for count in range(least, least + 3)]
    return min(candidates, key=lambda pair: pair[0] * pair[1])


def rows_of(chances: Floats, bottom: float, beta: float, count: int) -> int:
    """Return the rows of each of ``count`` blocks."""
    failure = beta - bottom**count
    if not failure > 0.0:
        raise BadInput(
            f"{count} blocks all say bottom with probability {bottom**count:.3g}, above beta = {beta:g}: more blocks"
        )
    return spanning_rows(chances, failure / count)


@njit
def _walk(chances: Floats, beta: float, most: int) -> int:
    """Return after how many steps the chance of missing full rank is at most beta; 0 if after more than ``most``."""
    law = np.zeros(len(chances))
    law[0] = 1.0
    for step in range(most + 1):
        missed = 0.0
        for i in range(len(law)):
            missed += law[i]
        # Every step errs by a few units of relative error in each chance, all of which are positive.
        if missed * (1.0 + 2.0**-48 * (step + 1)) <= beta:
            return step
        for i in range(len(law) - 1, 0, -1):
            law[i] += law[i - 1] * chances[i - 1] - law[i] * chances[i]
        law[0] -= law[0] * chances[0]
    return 0
