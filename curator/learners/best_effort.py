"""SBest, best-effort adaptation (Awasthi, Cortes and Mohri 2024): the non-private problem (5) by turns in w and q.

    minimize  sum_i q_i (loss_i(w) + d 1{i <= m}) + lambda_1 (1 - sum_i q_i) + lambda_2 ||q||_2 + lambda_inf ||q||_inf
    over ||w|| <= Lambda and 0 <= q_i <= p_i,   p = alpha / m on the source, (1 - alpha) / n on the target

Each turn is solved exactly: w by a weighted fit, q by two nested one-dimensional convex problems. The objective never
rises. It is convex in each of w and q, not in both, so the end is a point from which no single turn leads down. No
code of the authors is public; this one follows problem (3) of the paper and its Section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from common.core.arrays import Floats
from common.numerics.bisection import between

_TURNS = 20


@dataclass(frozen=True)
class Penalties:
    """Weights of the three norms: lambda_1, lambda_2, lambda_inf, none negative."""

    one: float
    two: float
    most: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """The end of the alternation: weights w, shares q, and the objective after each turn."""

    weights: Floats
    shares: Floats
    objectives: tuple[float, ...]


def alternate(
    fit: Callable[[Floats, Floats | None], Floats],
    losses: Callable[[Floats], Floats],
    extra: Floats,
    caps: Floats,
    penalties: Penalties,
) -> Fitted:
    """Take turns until the objective falls by less than one part in 10^6, 20 at most.

    Args:
        fit: Returns the w of least q-weighted loss, given q and the last w (None at first).
        losses: Returns each row's loss at w, shape (m + n,).
        extra: The discrepancy on source rows, 0 on target rows.
        caps: p, shape (m + n,): where q begins.
    """
    shares, weights = caps, fit(caps, None)
    objectives: list[float] = []
    while True:
        costs = losses(weights) + extra - penalties.one
        shares = best_shares(costs, caps, penalties)
        objectives.append(objective(costs, shares, penalties))
        settled = len(objectives) > 1 and objectives[-2] - objectives[-1] <= 1e-6 * abs(objectives[-2])
        if settled or len(objectives) == _TURNS:
            return Fitted(weights, shares, tuple(objectives))
        weights = fit(shares, weights)


def objective(costs: Floats, shares: Floats, penalties: Penalties) -> float:
    """Return the objective from c_i = loss_i + d 1{i <= m} - lambda_1, its constant included."""
    norms = penalties.two * float(np.linalg.norm(shares)) + penalties.most * float(shares.max(initial=0.0))
    return float(costs @ shares) + penalties.one + norms


def best_shares(costs: Floats, caps: Floats, penalties: Penalties) -> Floats:
    """Return the q of least c'q + lambda_2 ||q||_2 + lambda_inf ||q||_inf with 0 <= q <= p.

    For a fixed largest share t it is a problem in the box min(p, t), convex in t.
    """
    if penalties.most == 0.0:
        return _within(costs, caps, penalties.two)

    def value(top: float) -> float:
        return objective(costs, _within(costs, np.minimum(caps, top), penalties.two), penalties)

    from scipy.optimize import minimize_scalar  # here, since it takes a fifth of a second to load

    highest = float(caps.max())
    found = minimize_scalar(value, bounds=(0.0, highest), method="bounded", options={"xatol": 1e-6 * highest})
    tops = (0.0, float(found.x), highest)
    return _within(costs, np.minimum(caps, min(tops, key=value)), penalties.two)


def _within(costs: Floats, caps: Floats, two: float) -> Floats:
    """Return the q of least c'q + two ||q||_2 in the box: q_i = clip(-c_i s, 0, p_i) with two s = ||q||, or 0.

    The share ||q(s)|| / s falls in s, so the root is found by bisection.
    """
    gains = np.maximum(-costs, 0.0)
    if two == 0.0:
        return np.where(gains > 0.0, caps, 0.0)
    if float(np.linalg.norm(gains[caps > 0.0])) <= two:
        return np.zeros_like(caps)

    def beyond(scale: float) -> bool:
        return float(np.linalg.norm(np.minimum(gains * scale, caps))) <= two * scale

    highest = float(np.linalg.norm(caps)) / two * (1.0 + 1e-9) + 1e-300
    return np.minimum(gains * between(highest, 0.0, beyond, 2.0**-50), caps)
