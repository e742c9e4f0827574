"""Kohen and Sheffet, Algorithm 2: when N0 answers estimate a loss to alpha with probability 1 - beta/T.

    python -m benchmarks.corrections.batch_size

A loss is 1/4-subgaussian and the noise adds 2 ln(2/delta)/eps^2, so N >= (1/2 + 4 ln(2/delta)/eps^2)
ln(2T/beta)/alpha^2 suffices, which N0 = 4 ln(2/delta) ln(8T/beta)/(eps alpha)^2 reaches iff (eps^2/2) ln(2T/beta) <=
4 ln(2/delta) ln 4. The true probability of a miss, for a loss that is 0 or 1 evenly, is a sum over binomial counts of
normal tails.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from common.statistics.formulas import paper_answers, paper_answers_valid

ALPHA, DELTA = 0.08, 1e-4


def miss(count: int, epsilon: float) -> float:
    """Return P(|mean answer - 1/2| > alpha) for even 0/1 losses, exactly."""
    ones = np.arange(count + 1)
    deviation = math.sqrt(2.0 * math.log(2.0 / DELTA) / count) / epsilon
    shift = ones / count - 0.5
    tails = ndtr((shift - ALPHA) / deviation) + ndtr((-shift - ALPHA) / deviation)
    return float(binom.pmf(ones, count, 0.5) @ tails)


def main() -> None:
    """Print N0, what suffices, and the true probability of a miss in units of beta/T."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    print("eps       T    beta      N0  suffices  valid  P(miss) T/beta")
    for epsilon, rounds, beta in (
        (0.5, 1000, 0.05),
        (1, 141570, 0.05),
        (4, 141570, 0.05),
        (8, 141570, 0.05),
        (8, 1000, 1e-9),
    ):
        n0 = paper_answers(ALPHA, beta, rounds, epsilon, DELTA)
        log = math.log(2.0 * rounds / beta)
        enough = math.ceil((0.5 + 4.0 * math.log(2.0 / DELTA) / epsilon**2) * log / ALPHA**2)
        valid = paper_answers_valid(beta, rounds, epsilon, DELTA)
        share = miss(n0, epsilon) * rounds / beta
        assert valid == (n0 >= enough)
        assert miss(enough, epsilon) * rounds <= beta
        print(f"{epsilon:3g} {rounds:7d} {beta:7.0e} {n0:7d}   {enough:7d}  {valid!s:5}  {share:.3f}")


if __name__ == "__main__":
    main()
