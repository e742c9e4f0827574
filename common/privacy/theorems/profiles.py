"""Privacy profiles: what an event can do at most at each level, for every pair of neighbours at once.

The hockey-stick divergence of a pair of laws is H_a(P || Q) = sup_E P(E) - a Q(E); (epsilon, delta)-DP says that
H_{e^epsilon} <= delta for all pairs of neighbours. A :class:`Profile` is an upper bound t -> H(e^t), t >= 0, on it,
good for every pair of neighbours in both directions. Below level 1 the other direction says all: H_a(P || Q) = 1 - a +
a H_{1/a}(Q || P).

The *upper envelope* of a set of profiles is a profile itself and has a dominating pair (Zhu, Dong and Wang 2022,
"Optimal accounting of differential privacy via characteristic function"), also where no single pair of neighbours is
worst at each level, as for replacement (Lebeda, Regehr, Kamath and Steinke 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from common.core.arrays import Floats
from common.privacy.rounding import UNIT, up


@dataclass(frozen=True)
class Profile:
    """An upper bound on the hockey-stick divergences of all pairs of neighbours.

    Attributes:
        at: t >= 0 -> an upper bound on H(e^t), in both directions; does not increase with t.
        chi_squared: An upper bound on the chi-squared divergence in both directions; infinite where none is known.
    """

    at: Callable[[Floats], Floats]
    chi_squared: float


def gaussian_excess(mu: float, levels: Floats) -> Floats:
    """Return delta_G(t; mu) at each t >= 0, of any shape, rounded up: ``gaussian_dp.delta_of`` for arrays."""
    x, y = levels / mu - mu / 2.0, levels / mu + mu / 2.0
    far = np.maximum(x, 0.0)
    density = np.exp(-far * far / 2.0) / math.sqrt(2.0 * math.pi)
    mills = math.sqrt(math.pi / 2.0)
    upper, lower = mills * erfcx(far / math.sqrt(2.0)), mills * erfcx(y / math.sqrt(2.0))
    slack = (32.0 + 8.0 * far * far) * UNIT
    beyond = density * ((upper - lower) * (1.0 + slack) + 32.0 * UNIT * upper * (1.0 + levels / mu)) + 5e-324
    near = ndtr(-x) - np.exp(np.minimum(levels + log_ndtr(-y), 0.0)) + (64.0 + 8.0 * levels) * UNIT
    return np.asarray(np.minimum(1.0, np.where(x > 0.0, beyond, near)))


def step_profile(tv_bound: float, ratio: float) -> Profile:
    """Bound one noisy gradient step on one draw from mu, s in (0, 1]: the exact upper envelope over all neighbours.

        H(a) = s delta_G(ln(1 + (a - 1)/s); u),  a >= 1;      chi^2 <= s^2 (e^{u^2} - 1)

    P = (1-s) A + s B and Q = (1-s) A + s C, where A, B and C are mixtures of unit Gaussians with means in a ball of
    diameter u. The proof is that of Theorem 1 in docs/accounting.md: there is equality where A = C and |B - A| = u, and
    below level 1, by symmetry, where A = B, so that no geometry is worst at both. The chi-squared divergence needs the
    ball: :func:`common.privacy.theorems.renyi.closed_form`, order 2. It is *less* than that of the envelope, up to a
    factor of two.
    """

    def at(levels: Floats) -> Floats:
        inner = np.where(levels < 30.0, np.log1p(np.expm1(np.minimum(levels, 30.0)) / tv_bound), 0.0)
        inner = np.where(levels < 30.0, inner, levels + math.log((1.0 - 2.0**-43) / tv_bound))
        return np.asarray(
            tv_bound * gaussian_excess(ratio, np.maximum(inner * (1.0 - 16.0 * UNIT), 0.0)) * (1.0 + UNIT)
        )

    square = ratio * ratio
    chi_squared = up(tv_bound * tv_bound * math.expm1(square), 16.0 * (1.0 + square)) if square < 500.0 else math.inf
    return Profile(at, chi_squared)


def gaussian_profile(mu: float) -> Profile:
    """Bound a mu-GDP release."""
    return step_profile(1.0, mu)


def release_profile(epsilon: float, delta: float) -> Profile:
    """Bound an (epsilon, delta)-DP release, which post-processes this one (Kairouz, Oh and Viswanath 2015, Theorem 2).

    H(e^t) = delta + (1 - delta) (e^epsilon - e^t)_+ / (1 + e^epsilon)
    """

    def at(levels: Floats) -> Floats:
        gap = np.maximum(epsilon - levels, 0.0)
        pure = -np.expm1(-gap) / (1.0 + math.exp(-epsilon))
        return np.asarray(np.minimum(1.0, (delta + (1.0 - delta) * pure) * (1.0 + 32.0 * UNIT)))

    chi_squared = math.inf if delta > 0.0 or epsilon > 500.0 else up(4.0 * math.sinh(epsilon / 2.0) ** 2, 64.0)
    return Profile(at, chi_squared)
