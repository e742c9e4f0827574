"""The sequential test is valid for independent agents, and not for a finite population asked without replacement.

    python -m benchmarks.corrections.sequential

N people, k of them with loss 1: the null "mean <= k/N" is true. E_n is the likelihood ratio of theta > k/N against
k/N after n answers. A test may stop when it likes: the greatest E[E_tau] over stopping rules is computed backwards,
in fractions. It is 1 for independent answers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial

Next = Callable[[int, int], Fraction]
"""(people asked, ones among them) -> probability that the next answer is 1."""


def best(people: int, theta: Fraction, null: Fraction, chance: Next) -> Fraction:
    """Return the largest E[E_tau] over all stopping rules tau."""
    up, down = theta / null, (1 - theta) / (1 - null)

    @cache
    def value(asked: int, ones: int) -> Fraction:
        now = up**ones * down ** (asked - ones)
        if asked == people:
            return now
        q = chance(asked, ones)
        later = Fraction(0)
        if q > 0:
            later += q * value(asked + 1, ones + 1)
        if q < 1:
            later += (1 - q) * value(asked + 1, ones)
        return max(now, later)

    return value(0, 0)


def independent(rate: Fraction, asked: int, seen: int) -> Fraction:
    """Return the probability of a 1 where everybody asked is drawn anew."""
    return rate


def urn_of(people: int, ones: int, asked: int, seen: int) -> Fraction:
    """Return the probability of a 1 where nobody is asked twice."""
    return Fraction(ones - seen, people - asked)


def main() -> None:
    """Print E[E_tau] with and without replacement."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    for people, ones, theta in ((25, 1, "0.105"), (25, 5, "0.3"), (25, 10, "0.5"), (100, 1, "0.025"), (100, 40, "0.5")):
        null, rate = Fraction(ones, people), Fraction(theta)
        drawn = best(people, rate, null, partial(independent, null))
        urn = best(people, rate, null, partial(urn_of, people, ones))
        assert drawn == 1 < urn
        print(
            f"N = {people:3d}, k = {ones:2d}, theta = {theta:5s}: E = {drawn} independent, {float(urn):.3f} from an urn"
        )


if __name__ == "__main__":
    main()
