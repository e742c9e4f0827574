"""Step sizes: of w, and of the scales of either side (for the gradient in v, divided by p)."""

from __future__ import annotations

import math
from typing import NamedTuple

from curator.learners.adaptation.domains import Domains
from curator.learners.adaptation.noisy_descent import Bounds


class Steps(NamedTuple):
    """Step sizes of w, and of the source's and the target's scales."""

    weights: float
    source: float
    target: float


def scaled(
    domains: Domains,
    bounds: Bounds,
    alpha: float,
    noise: tuple[float, float],
    iterations: int,
    *,
    force: float,
    euclidean: float,
    greatest: float,
    spread: float,
    reach: float,
) -> Steps:
    """Return steps by curvature, and no longer than noise admits.

    The weights sum to at most 1, so the objective is beta-smooth in w: 1/beta. A scale is moved by the row's loss and
    the norms, over v^2, of curvature at most twice their sum at v = 1: one over that. Noise of deviation sigma takes
    an iterate by step sigma sqrt(T) in T steps, so a step is also at most reach/(sigma_1 sqrt(d T)) for w (in the
    proof of Theorem 4.3 reach is the radius) and ``spread``/(sigma_2 sqrt(T)) for a private scale.

    Parameters
    ----------
    noise
        sigma_1 and sigma_2, 0 without privacy.
    force
        Greatest loss, with the discrepancy and whatever else pulls at every row.
    euclidean, greatest
        kappa_2 and kappa_inf.
    reach
        How far noise may take w in all.
    """
    root = math.sqrt(iterations)
    weights = 1.0 / bounds.smoothness
    if noise[0] > 0.0:
        weights = min(weights, reach / (noise[0] * root * math.sqrt(domains.dimension)))
    sizes, shares = (len(domains.source), len(domains.target)), domains.shares(alpha)
    norm = math.sqrt(sum(size * share**2 for size, share in zip(sizes, shares, strict=True)))
    sides = []
    for side, (size, share) in enumerate(zip(sizes, shares, strict=True)):
        pulled = force + euclidean * share / norm + greatest * (2.0 + math.log(sum(sizes))) / size
        step = 0.5 / pulled
        if noise[1] > 0.0 and side == (domains.private == "target"):
            step = min(step, spread / (noise[1] * root))
        sides.append(step)
    return Steps(weights, *sides)
