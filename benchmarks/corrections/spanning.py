"""Kohen and Sheffet, Appendix B: vectors that span, B.2's inequality, and the union over batches in B.3.

    python -m benchmarks.corrections.spanning

Uniform vectors over F_2^d span with probability prod_{i < d} (1 - 2^(i-n)), exactly (the columns of the n x d matrix
are independent one after the other). For X = chi^2 + 1 = 4 one feature is set with probability p, 1/(4p(1-p)) = X.
"""

from __future__ import annotations

import argparse
import math

import numpy as np


def spans(d: int, n: int) -> float:
    """Return the exact probability that n uniform vectors of F_2^d do not span it."""
    return -math.expm1(math.fsum(math.log1p(-math.exp2(i - n)) for i in range(d)))


def rank(rows: list[int]) -> int:
    """Return the rank over F_2 of vectors written as integers."""
    pivots: dict[int, int] = {}
    for row in rows:
        rest = row
        while rest:
            top = rest.bit_length()
            if top not in pivots:
                pivots[top] = rest
                break
            rest ^= pivots[top]
    return len(pivots)


def main() -> None:
    """Print sizes that span, what B.2 gives as displayed and as meant, and B.3's batches."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    d, beta = 64, 0.05
    printed = math.ceil(d * math.log2(d / beta))
    enough = next(n for n in range(d, printed) if spans(d, n) <= beta)
    assert spans(d, printed) < beta
    assert enough <= d + math.ceil(math.log2(1 / beta))
    print(
        f"d = {d}, beta = {beta}: B.1 asks for n = {printed} uniform vectors; "
        f"{enough} span with probability {1 - spans(d, enough):.4f}"
    )
    print(
        f"  of {printed} vectors in dimension {d} never all are linearly independent: spanning is what the proof shows"
    )
    for square in (1.0, 4.0, 64.0):
        displayed, meant = 0.5**3 / square, 0.5**2 / square
        print(
            f"X = {square:g}: Pr_S[E] >= {displayed:.5f} by the displayed inequality, "
            f"{meant:.5f} = 1/(4X) without its denominator"
        )
        assert meant == 1 / (4 * square) == 2 * displayed
    batches = math.ceil(math.log(2 / beta, 4 / 3))
    one, all_of_them = (math.ceil(4 * 4 * d * math.log(count * 2 * d / beta)) for count in (1, batches))
    print(f"B.3, X = 4: k = {batches} batches keep {one} records each for one to span, {all_of_them} for all")
    draws, square = np.random.default_rng(1), 4.0
    rate = 0.5 * (1.0 - math.sqrt(1.0 - 1.0 / square))
    for n, repetitions in ((80, 200), (all_of_them, 3)):
        features = draws.random((repetitions, n, d)) < np.array([rate, *[0.5] * (d - 1)])
        batches_of_rows = [
            [int.from_bytes(row.tobytes(), "big") for row in np.packbits(batch, axis=1)] for batch in features
        ]
        full = sum(rank(rows) == d for rows in batches_of_rows)
        print(f"  simulated with {n} records: {full} of {repetitions} batches span")
        assert full >= 0.95 * repetitions


if __name__ == "__main__":
    main()
