"""Kohen and Sheffet, Lemma 3.2's footnote and Appendices C and D: numbers that a reader can recompute.

python -m benchmarks.corrections.experiments
"""

from __future__ import annotations

import argparse
import math

from common.statistics import formulas


def chi_squared(source: float, target: float, k: int) -> float:
    """Return chi^2 + 1 of N(0, target^2) against N(0, source^2) on k coordinates."""
    return math.pow(source**4 / (target**2 * (2.0 * source**2 - target**2)), k / 2)


def footnote(alpha: float, square: float) -> float:
    """Return alpha' sqrt(X (2 + ln(1/alpha'))) / (alpha/4) for the lemma's alpha'; the footnote says it is below 1."""
    chosen = alpha / math.sqrt(50.0 * square * math.log(1.0 / alpha))
    return chosen * math.sqrt(square * (2.0 + math.log(1.0 / chosen))) / (alpha / 4.0)


def main() -> None:
    """Print and check them."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    for text, sides, stated in (
        ("C", (1.0, 0.02, 10), 3e15),
        ("D", (1.0, 0.4, 6), 39.1),
        ("D, private", (0.1, 0.07, 2), 1.35),
    ):
        square = chi_squared(*sides)
        assert square > stated
        assert square < 1.02 * stated
        print(f"Appendix {text}: chi^2 + 1 = {square:.6g} at sigma = {sides[1]} (printed: > {stated:g})")
    print(f"  with the (0.01)^2 of Appendix C's formula it would be {chi_squared(1.0, 0.01, 10):.3g}")
    rounds = 32.0 * math.log2(8.0 * chi_squared(1.0, 0.02, 10) / 0.01) / 0.01**2
    log = math.log(rounds / 0.05)
    draws, minus = round((500 + log) / 0.01), round((500 - log) / 0.01)
    print(f"Appendix C: (d + ln(T/0.05))/alpha = {draws:,} draws, by ln(0.05/T) {minus:,} (T = {rounds:,.0f})")
    print("Lemma 3.2's footnote, alpha' sqrt((2 + ln(1/alpha')) X) against alpha/4 (below 1 as it says):")
    for alpha, square in ((0.125, 1.2), (0.125, 2.0), (0.08, 1.3515), (0.01, 39.19), (0.01, 3.05e15)):
        share = footnote(alpha, square)
        print(f"  alpha = {alpha:5g}, X = {square:8.5g}: {share:.3f} times alpha/4")
        assert (share < 1.0) == (2 + 0.5 * math.log(50 * square * math.log(1 / alpha)) < 2.125 * math.log(1 / alpha))
    print(f"  Lemma 3.2's n at (.08, .05, X = 1.3515, d = 9): {formulas.paper_sample(0.08, 0.05, 1.3515, 9):,}")


if __name__ == "__main__":
    main()
