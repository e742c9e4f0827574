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
from common.numerics.bisection import largest
from common.privacy.rounding import MAX_EPSILON, UNIT, down, up
from common.privacy.theorems.gaussian_dp import delta_of, epsilon_of
from common.privacy.theorems.renyi import ORDERS, epsilon_at
from common.privacy.theorems.stopping import NegativeBinomial, Poisson

AnyLaw = NegativeBinomial | Poisson


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

    The smaller of what :func:`selection_rdp` converts to and

    ::

        epsilon = epsilon_G(mu, delta/E[K]) + growth,
        growth = (1 + eta) max_G ln((gamma + (1 - gamma) G')/(gamma + (1 - gamma) G)),   G' = Phi(Phi^-1(G) + mu)
        growth = rate (2 Phi(mu/2) - 1)                                              for Poisson's law

    which is far less for negative binomial laws (1.69 against 2.32 for about 20 runs of an (1, 1e-6)-DP base). In the
    manner of Koskela, Redberg and Wang (2024), "Privacy profiles for private selection", with the exact trade-off of
    a Gaussian in the place of their bound on G'.

    Proof: growth bounds ln f'(F)/f'(F'), since f'(q) is proportional to (1 - (1 - gamma) q)^{-1-eta}, or e^{rate q};
    the latter needs max(G' - G), the total variation. So for any set of outputs A - e^eps A' = int f'(F) dQ - e^eps
    f'(F') dQ' <= int f'(F) (dQ - e^{eps - growth} dQ') <= E[K] delta_G(eps - growth; mu).

    Raises
    ------
    BadInput
        If mu is not positive or delta is not in (0, 1).
    """
    if not 0.0 < delta < 1.0:
        raise BadInput(f"delta must be in (0, 1), found {delta}")
    direct = up(epsilon_of(mu, down(delta / law.expected)) + _growth(mu, law))
    return min(direct, *(epsilon_at(order, selection_rdp(order, mu, law), delta) for order in ORDERS))


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


def _growth(mu: float, law: AnyLaw) -> float:
    """Bound ln f'(F)/f'(F') for F >= F'; rounded up."""
    if isinstance(law, Poisson):
        return up(law.rate * (2.0 * float(ndtr(mu / 2.0)) - 1.0 + 8.0 * UNIT), 16.0)
    return up((1.0 + law.eta) * _steepest(mu, law.gamma))


@lru_cache(maxsize=256)
def _steepest(mu: float, gamma: float) -> float:
    """Return max_x ln((gamma + (1 - gamma) Phi(x + mu))/(gamma + (1 - gamma) Phi(x))), at most 1e-5 of it too large.

    Certified: both parts increase in x, so over a cell their quotient is at most the first at its right end over the
    second at its left. Cells that may hold the maximum are split until that is close to a value that is attained.
    """

    def log_mix(x: Floats) -> Floats:
        return np.asarray(np.log(gamma + (1.0 - gamma) * ndtr(x)))

    inner = np.linspace(-40.0 - mu, 10.0, 501)
    left, right = np.append(-np.inf, inner), np.append(inner, np.inf)
    while True:
        bottom = log_mix(left)
        attained = float(np.max(log_mix(left + mu) - bottom))
        bounds = log_mix(right + mu) - bottom
        if np.max(bounds) <= attained + 1e-5 * attained + 1e-12:
            return float(np.max(bounds)) + 1e-13
        kept = bounds > attained
        edges = np.linspace(left[kept], right[kept], 9)
        left, right = edges[:-1].ravel(), edges[1:].ravel()
