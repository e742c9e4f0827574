"""Kohen and Sheffet, Claim 4.1's TV(mu, mu') <= 1/(kappa n): true of lazy weights, not of projected ones.

    python -m benchmarks.corrections.coupling

Random neighbouring samples: every record but one has the same losses. Distances are between the laws of the drawn
*record*, so all mass of the two records that differ counts.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.corrections.regret import projected
from common.core.arrays import Floats


def law(losses: Floats, kappa: float, eta: float, write_back: bool) -> Floats:
    """Return mu after reweighing by each row of losses, shape (rounds, n)."""
    log_weights = np.zeros(losses.shape[1])
    for loss in losses:
        if write_back:
            log_weights = np.log(projected(log_weights, kappa))
        log_weights = log_weights - eta * (1.0 - loss)
    return projected(log_weights, kappa)


def distance(mu: Floats, other: Floats) -> float:
    """Return TV between laws of records; the last entry is that of the record that was replaced."""
    return float(0.5 * (np.abs(mu[:-1] - other[:-1]).sum() + mu[-1] + other[-1]))


def main() -> None:
    """Search neighbours for the largest TV in units of 1/(kappa n), with and without writing back."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    draws, worst = np.random.default_rng(1), {False: 0.0, True: 0.0}
    for _ in range(1500):
        n, rounds, eta = int(draws.integers(12, 60)), int(draws.integers(1, 30)), float(draws.choice([0.2, 1.0, 3.0]))
        kappa = float(draws.uniform(2.0 / n, 0.6))
        losses = (draws.random((rounds, n)) < draws.random(n)).astype(float)
        other = losses.copy()
        losses[:, -1], other[:, -1] = draws.random(rounds) < 0.8, draws.random(rounds) < 0.2
        for write_back in (False, True):
            mu, moved = (law(rows, kappa, eta, write_back) for rows in (losses, other))
            found = distance(mu, moved) * kappa * n
            worst[write_back] = max(worst[write_back], found)
            if not write_back:
                assert abs(found - max(mu[-1], moved[-1]) * kappa * n) < 1e-9
                assert found <= 1.0 + 1e-9
    print(f"lazy weights:                at most {worst[False]:.3f}/(kappa n), and always max(mu_i, mu'_i)")
    print(f"projections written back:    {worst[True]:.3f}/(kappa n) in the same search")
    # 21 people in three groups: in which of five rounds each errs; the one who is replaced comes last.
    groups, n, size, eta = ([1, 1, 0, 0, 0], [0, 0, 0, 0, 1]), 21, 11, 4.0
    pair = ([1, 1, 0, 0, 1], [0, 0, 1, 1, 1])
    both = [np.array([*[groups[0]] * 10, *[groups[1]] * 10, last], dtype=float).T for last in pair]
    for name, write_back in (("lazy", False), ("written back", True)):
        found = distance(*(law(rows, size / n, eta, write_back) for rows in both)) * size
        print(f"  21 people, kappa n = 11, five rounds, {name}: {found:.3f}/(kappa n)")
        worst[write_back] = max(worst[write_back], found)
    assert worst[False] <= 1.0 + 1e-9
    assert worst[True] > 1.5


if __name__ == "__main__":
    main()
