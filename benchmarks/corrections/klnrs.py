"""The parity learner of Kasiviswanathan et al.: what its printed rates cost, by enumeration of small samples.

    python -m benchmarks.corrections.klnrs

Every sample of one and of two records with two binary features and a label, every neighbour that replaces one record,
every subset that is kept: the law of the answer (each of the four points, or bottom) in fractions.
"""

from __future__ import annotations

import argparse
import itertools
import math
from fractions import Fraction

from common.privacy.theorems.randomized_response import rates

Record = tuple[int, int, int]
POINTS = list(itertools.product((0, 1), repeat=2))
RECORDS: list[Record] = [(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)]


def law(sample: tuple[Record, ...], kept: Fraction, answers: Fraction) -> list[Fraction]:
    """Return the probabilities of the four points and of bottom."""
    found = [Fraction(0)] * (len(POINTS) + 1)
    for chosen in itertools.product((False, True), repeat=len(sample)):
        chance = math.prod((kept if there else 1 - kept for there in chosen), start=Fraction(1))
        equations = list(itertools.compress(sample, chosen))
        solutions = [i for i, a in enumerate(POINTS) if all((x * a[0] + y * a[1]) % 2 == z for x, y, z in equations)]
        for i in solutions:
            found[i] += answers * chance / len(solutions)
        if not solutions:
            found[-1] += answers * chance
    found[-1] += 1 - answers
    return found


def cost(kept: Fraction, answers: Fraction, records: int) -> float:
    """Return the largest |ln ratio| over all pairs of neighbours."""
    laws = {sample: law(sample, kept, answers) for sample in itertools.product(RECORDS, repeat=records)}
    worst = Fraction(1)
    for sample, first in laws.items():
        for place, other in itertools.product(range(records), RECORDS):
            second = laws[(*sample[:place], other, *sample[place + 1 :])]
            worst = max(worst, *(p / q for p, q in zip(first, second, strict=True)))
    return math.log(worst)


def main() -> None:
    """Print the cost of the printed and of the tight rates."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    print("eps  rule      keeps    bottom   costs: 1 record  2 records")
    for epsilon in (0.5, 1.0, 2.0):
        tight = rates("tight", epsilon)
        for name, kept, answers in (("printed", epsilon / 4, 0.5), ("tight", tight.kept, tight.answers)):
            costs = [cost(Fraction(kept), Fraction(answers), n) for n in (1, 2)]
            assert max(costs) <= epsilon
            assert math.isclose(costs[0], math.log((1 + kept) / (1 - kept)), rel_tol=1e-9)
            shown = "      ".join(f"{found:.4f}" for found in costs)
            print(f"{epsilon:3g}  {name:7s}  {kept:.4f}   {1 - answers:.4f}           {shown}")


if __name__ == "__main__":
    main()
