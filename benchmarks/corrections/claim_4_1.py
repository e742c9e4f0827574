"""Kohen and Sheffet, Claim 4.1: the printed delta* is below what a mechanism on the draws can lose.

    python -m benchmarks.corrections.claim_4_1

M looks for one record among its m rows and reveals with probability delta whether it is there: it is (0, delta)-DP.
The record is drawn with s = 1/(kappa n) in each of m draws from S, and never from S', so the event "there" has
probability delta (1 - (1-s)^m) on S and 0 on S': no delta* below that holds, whatever eps* is.
"""

from __future__ import annotations

import argparse
import math

from common.privacy.theorems.composition import subsampled


def printed(m: int, s: float, epsilon: float, delta: float) -> float:
    """Return the claim's delta* = 4 m eps* delta s, with eps* = 6 epsilon m s."""
    return 4.0 * m * (6.0 * epsilon * m * s) * delta * s


def main() -> None:
    """Compare the claim, the lower bound and the lemma that is used."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    print("   m      s  eps  delta    printed   at least   our delta*")
    for m, s, epsilon, delta in ((1, 1e-3, 0.1, 0.1), (1, 1e-3, 1.0, 1e-6), (100, 1e-6, 1.0, 1e-6)):
        least = -delta * math.expm1(m * math.log1p(-s))
        star = subsampled(m, s, epsilon, delta)[1]
        assert printed(m, s, epsilon, delta) < least <= star
        stated = printed(m, s, epsilon, delta)
        print(f"{m:4d}  {s:5.0e}  {epsilon:3g}  {delta:5.0e}  {stated:9.2e}  {least:9.2e}  {star:11.3e}")
    # Theorem 4.2 survives: with its own delta of M, T rounds of the sound delta* take less than delta/2.
    rounds, epsilon, delta, m = 141_570, 1.0, 1e-6, 100
    s = epsilon / (m * math.sqrt(288.0 * rounds * math.log(2.0 / delta)))
    total = rounds * subsampled(m, s, 1.0, delta / (epsilon * math.sqrt(2.0 * rounds)))[1]
    assert total < delta / 2
    print(f"Theorem 4.2, T = {rounds}: T delta* = {total / delta:.4f} delta, of delta/2 that its proof has for it")


if __name__ == "__main__":
    main()
