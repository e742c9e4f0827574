"""A private choice: the best of a secret random number of private runs, and what that costs.

The base mechanism runs K times, each time with settings drawn from a public law, and each run releases its output
together with a score; the output of the best score is released, and nothing else. K follows a law of
:mod:`common.privacy.theorems.stopping` and is never told. Everything here is about a base that is mu-GDP, score
included.

What the proofs have in common. Let F, F' be the base's distribution functions in the order of the scores (ties go by
independent coins, or by who came first, which is the same law) and f the generating function of K. The choice has the
density f'(F) with respect to the base's law, f' increasing up to f'(1) = E[K]. Beside it, 1 - F and 1 - F' are the
probabilities of one and the same event, "better", on neighbouring samples: with G = 1 - F and G' = 1 - F', a mu-GDP
base has G' <= Phi(Phi^-1(G) + mu).

Conditioned on K <= most, the law's generating function g has g' <= f'/P(K <= most), and ln g' has at each point a
slope no larger than that of ln f' (E[K - 1] under the tilted law, which falls when large K are cut off). So whatever
bounds f'(q)/f'(q') for q >= q' bounds g'(q)/g'(q').
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from common.core.arrays import Floats
from common.core.errors import BadInput
from common.numerics.bisection import between, largest
from common.privacy.rounding import MAX_EPSILON, down, up
from common.privacy.theorems.gaussian_dp import delta_of
from common.privacy.theorems.profiles import gaussian_excess
from common.privacy.theorems.renyi import ORDERS, epsilon_at
from common.privacy.theorems.stopping import NegativeBinomial, Poisson, weights

AnyLaw = NegativeBinomial | Poisson

RANKS = 6_000
"""Cells of the chance that a run is better."""


def selection_rdp(order: int, mu: float, law: AnyLaw) -> float:
    """Bound the Renyi divergence of a choice among mu-GDP runs.

    ::

        rho' = k mu^2/2 + excess + ln(E[K]/P(K <= most))/(k - 1)                     k = order
        excess = (1 + eta) ((k^ - 1) mu^2/2 + ln(1/gamma)/k^),   k^ = max(1, sqrt(2 ln(1/gamma))/mu)
        excess = rate delta_G(ln(1 + 1/(k - 1)); mu)                                 for Poisson's law

    Papernot and Steinke (2022), Theorem 2 with its best second order k^, and Theorem 6; E[K] is that of the law
    without the condition.

    Proof of the first: by joint convexity the choice multiplies the base's moment e^{(k-1) rho} by at most the
    largest f'(q)^k f'(q')^{1-k} (their Lemma 7), q = F and q' = F' at a point. With a = gamma + (1 - gamma) G and a'
    likewise, this is E[K] gamma^{1+eta} (a'^{k-1} a^{-k})^{1+eta}, where a' <= (a e^{rho^})^{1 - 1/k^} by the base's
    divergence at k^, and a >= gamma. Of the second: it is E[K] e^{rate (k-1) (G' - G k/(k-1))}. The condition costs
    the factor 1/P(K <= most) where q >= q'; where q < q' the moment is multiplied by E[K] at most.

    Parameters
    ----------
    order
        At least 2.
    mu
        Of one run, score included; positive.

    Returns
    -------
    rho' in nats, rounded up.
    """
    base = order * mu * mu / 2.0
    price = (math.log(law.whole_mean) - law.log_covered) / (order - 1.0)
    if isinstance(law, Poisson):
        excess = law.rate * delta_of(mu, down(math.log1p(1.0 / (order - 1.0))))
    else:
        other = max(1.0, math.sqrt(2.0 * law.log_stop) / mu)
        excess = (1.0 + law.eta) * ((other - 1.0) * mu * mu / 2.0 + law.log_stop / other)
    return up(base + excess + price, 64.0)


def epsilon_of_selection(mu: float, law: AnyLaw, delta: float) -> float:
    """Return an epsilon at which a choice among mu-GDP runs is (epsilon, delta)-DP, rounded up.

    By :func:`delta_of_selection`, or what :func:`selection_rdp` converts to if that is less.

    Raises
    ------
    BadInput
        If mu is not positive or delta is not in (0, 1).
    """
    if not 0.0 < delta < 1.0:
        raise BadInput(f"delta must be in (0, 1), found {delta}")
    renyi = min(_renyi(order, mu, law, delta) for order in ORDERS)
    if delta_of_selection(mu, law, 0.0) <= delta:
        return 0.0
    top = min(renyi, MAX_EPSILON)
    if delta_of_selection(mu, law, top) > delta:
        return renyi
    return between(top, 0.0, lambda epsilon: delta_of_selection(mu, law, epsilon) <= delta, 1e-9)


def order_of_selection(mu: float, law: AnyLaw, delta: float) -> int | None:
    """Return the Renyi order behind :func:`epsilon_of_selection`; None where the bound by ranks is no larger."""
    order = min(ORDERS, key=lambda k: _renyi(k, mu, law, delta))
    top = min(_renyi(order, mu, law, delta), MAX_EPSILON)
    return order if delta_of_selection(mu, law, top) > delta else None


def _renyi(order: int, mu: float, law: AnyLaw, delta: float) -> float:
    return epsilon_at(order, selection_rdp(order, mu, law), delta)


def delta_of_selection(mu: float, law: AnyLaw, epsilon: float) -> float:
    """Bound the delta at epsilon of a choice among mu-GDP runs, rounded up.

    ::

        delta = E_Q'[ max_G (r f'(1 - G) - e^epsilon f'(1 - T(G)))_+ ],   T(G) = Phi(Phi^-1(G) + mu)

    r is the likelihood ratio dQ/dQ' of the base's output, in the worst case that of N(mu, 1) to N(0, 1), and f the
    generating function of the *conditioned* law of K, exactly.

    Proof. For every set of outputs A, P(A) - e^eps P'(A) = int_A f'(F) dQ - e^eps f'(F') dQ'. At an output with G = 1
    - F (the chance that a run is better), G' <= T(G); f' increases, so f'(F') >= f'(1 - T(G)): the integrand is at
    most the maximum over G, a convex function of r. That is an f-divergence, and grows with the base's trade-off, so
    the Gaussian pair is the worst (Dong, Roth and Su 2022, Theorem 2.10).

    E[K] delta_G(eps - growth; mu), with the largest growth of ln f'(1 - G)/f'(1 - T(G)) over G, is never less: there
    each output has the weight of the best rank and the growth of the worst one, which no single rank has (Koskela,
    Redberg and Wang 2024 have a bound of the second kind). At (1, .01) and about 10 geometric runs mu is .268 instead
    of .242; .293 is impossible, for there an order of a Gaussian base's outputs has been found with a larger delta.

    The maximum is over lines in r, one for each cell of G, with f' at its better end and f' o T at its worse one.
    Their upper hull has corners e^eps t_i, the same t_i for all epsilon, and delta is the sum over them of what the
    slope grows by, times delta_G(eps + ln t_i; mu).
    """
    growths, places = _hull(mu, law)
    levels = epsilon + places
    tail = gaussian_excess(mu, np.abs(levels))
    heights = np.where(levels >= 0.0, tail, -np.expm1(np.minimum(levels, 0.0)) + np.exp(np.minimum(levels, 0.0)) * tail)
    return min(1.0, up(float(growths @ heights) * (1.0 + 1e-10)))


@lru_cache(maxsize=256)
def _hull(mu: float, law: AnyLaw) -> tuple[Floats, Floats]:
    """Return the corners of max_G (t f'(1 - G) - f'(1 - T(G)))_+ as growths of the slope, and ln t, rounded down."""
    inner = np.concatenate([np.linspace(-38.0 - mu, -9.0 - mu, 200), np.linspace(-9.0 - mu, 8.0, RANKS)[1:]])
    slopes = _density(law, np.append(-np.inf, inner)) * (1.0 + 1e-11)
    levels = _density(law, np.append(inner + mu, np.inf)) * (1.0 - 1e-11)
    hull: list[tuple[float, float, float]] = [(0.0, 0.0, -math.inf)]  # slope, what is taken off, where it takes over
    for slope, level in zip(slopes[::-1].tolist(), levels[::-1].tolist(), strict=True):
        while True:
            before, off, place = hull[-1]
            if slope <= before * (1.0 + 1e-12):
                crossing = -math.inf if level < off else math.inf
            else:
                crossing = (level - off) / (slope - before)
            if crossing > place or len(hull) == 1:
                break
            hull.pop()
        if math.isfinite(crossing):
            hull.append((slope, level, crossing))
    corners = np.array(hull)
    return np.diff(corners[:, 0]), np.log(corners[1:, 2]) - 1e-10


def _density(law: AnyLaw, places: Floats) -> Floats:
    """Return f'(1 - Phi(x)) = sum_k k P(K = k) Phi(-x)^{k-1}."""
    shares = weights(law)
    total = sum(shares)
    worse, found = ndtr(-places), np.zeros_like(places)
    for k in range(len(shares), 0, -1):
        found = found * worse + k * (shares[k - 1] / total)
    return np.asarray(found)


def pure_epsilon_of_selection(epsilon: float, law: AnyLaw) -> float:
    """Return the epsilon' of a choice among pure epsilon-DP runs, rounded up.

    ::

        epsilon' = epsilon + (1 + eta) ln((gamma + e^eps)/(1 + gamma e^eps)),    at most (2 + eta) epsilon
        epsilon' = epsilon + rate tanh(epsilon/2)                                for Poisson's law

    As :func:`epsilon_of_selection`, with G' <= min(e^eps G, 1 - e^{-eps} (1 - G)): both growths are largest where
    these meet, at G = 1/(1 + e^eps). The bound 3 epsilon of Liu and Talwar (2019), Theorem 1.3, is eta = 1 with gamma
    towards 0.
    """
    if isinstance(law, Poisson):
        return up(epsilon + law.rate * math.tanh(epsilon / 2.0), 16.0)
    shrunk = math.exp(-epsilon)
    return up(epsilon + (1.0 + law.eta) * math.log((law.gamma * shrunk + 1.0) / (shrunk + law.gamma)), 32.0)


def mu_for_selection(epsilon: float, delta: float, law: AnyLaw) -> float:
    """Return the largest mu of a run, to within 1e-9 of it, whose choice is (epsilon, delta)-DP; never more.

    Raises
    ------
    BadInput
        If epsilon is not a positive finite number or delta is not in (0, 1).
    """
    if not 0.0 < epsilon <= MAX_EPSILON:
        raise BadInput(f"epsilon must be positive and at most {MAX_EPSILON:g}, found {epsilon}")
    return largest(lambda mu: epsilon_of_selection(mu, law, delta) <= epsilon, 1.0, 1e-9)
