"""Kohen and Sheffet, the agnostic case: reweighing can come to rest at a hypothesis that is bad on T.

    python -m benchmarks.corrections.agnostic

Two records: T gives a the probability 9/10, S 1/10. Three hypotheses, by their losses on (a, b): (1, 0), (0, 1) and
(2/5, 2/5). The second has err_T = 1/10 = alpha_H. The learner is exact. The third has the same loss on both, so
reweighing by it changes nothing; and it is reached before the second is best.
"""

from __future__ import annotations

import argparse
from fractions import Fraction

import numpy as np

ALPHA = 0.05
TARGET, SOURCE = np.array([0.9, 0.1]), np.array([0.1, 0.9])
LOSSES = np.array([[1.0, 0.0], [0.0, 1.0], [0.4, 0.4]])


def main() -> None:
    """Run Algorithm 1 (its weights as they are) and Algorithm 2 (kappa-dense) for 20,000 rounds each."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    best = float((LOSSES @ TARGET).min())
    assert best == float(Fraction(1, 10))
    # n records of S in the right proportion: weights of equal records stay equal, so two numbers are enough.
    for name, level in (("Algorithm 1", 2 * ALPHA + best), ("Algorithm 2", 3 * ALPHA)):
        weights, chosen, errors, mu = np.ones(2), [], [], SOURCE
        for _ in range(20_000):
            mu = SOURCE * weights / (SOURCE @ weights)  # at most 4 times uniform: no cap where kappa < 1/4
            h = int(np.argmin(LOSSES @ mu))
            chosen.append(h)
            errors.append(float(LOSSES[h] @ TARGET))
            if errors[-1] <= level:
                break
            weights = weights * np.exp(-ALPHA / 8 * (1.0 - LOSSES[h]))
        else:
            assert min(errors) > best + 4 * ALPHA - 1e-12
            first = chosen.index(2)
            assert set(chosen[first:]) == {2}
            print(f"{name}: from round {first + 1} on the third hypothesis, mu = ({mu[0]:.3f}, {mu[1]:.3f}) for good;")
            print(f"  to halt: err_T <= {level:.2f}; least of all rounds: {min(errors):.2f}; alpha_H = {best:.2f}")
            continue
        raise AssertionError("it halted")
    print(f"Theorem 4.3 promises at most alpha_H + 4 alpha = {best + 4 * ALPHA:.2f}")


if __name__ == "__main__":
    main()
