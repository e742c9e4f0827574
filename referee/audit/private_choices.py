"""What a private choice costs, worked out again: a part of :mod:`referee.audit.certificates`, read it after that one.

The best of K runs is released, each run mu-GDP with its score, and K secret. Its law is given by weights w_1, ...,
w_most: w_k = (1 - gamma)^k Gamma(k + eta)/(Gamma(1 + eta) k!), whose sum of k w_k over *all* k is (1 - gamma)
gamma^{-1-eta}; or, for Poisson's law, rate^k/k!, with rate e^rate.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr, logsumexp
from scipy.stats import norm

Floats = NDArray[np.float64]


def runs(law: dict[str, Any]) -> tuple[Floats, Floats, float]:
    """Return k, ln w_k up to ``most``, and the logarithm of the sum of k w_k without that end."""
    k = np.arange(1.0, law["most"] + 1.0)
    if law["name"] == "poisson":
        return k, k * math.log(law["rate"]) - gammaln(k + 1.0), math.log(law["rate"]) + law["rate"]
    gamma, eta = float(law["gamma"]), float(law["eta"])
    if gamma == 1.0:
        return k, np.where(k == 1.0, 0.0, -np.inf), 0.0
    logs = k * math.log1p(-gamma) + gammaln(k + eta) - gammaln(k + 1.0) - gammaln(1.0 + eta)
    return k, logs, math.log1p(-gamma) - (1.0 + eta) * math.log(gamma)


def delta_of_choice(mu: float, law: dict[str, Any], epsilon: float) -> float:
    """Return, rank by rank, the mean over z ~ N(0, 1) of max_G (r f'(1 - G) - e^eps f'(1 - T(G)))_+.

    r = e^{mu z - mu^2/2}; G = Phi(x), the chance that a run is better; T(G) = Phi(x + mu); f' = sum k P(K = k) q^{k-1}.
    """
    k, logs, _ = runs(law)
    slopes = k * np.exp(logs - logsumexp(logs))
    x = np.append(-np.inf, np.linspace(-12.0 - mu, 8.0, 1500))
    better, worse = (np.polynomial.polynomial.polyval(norm.sf(place), slopes) for place in (x, x + mu))
    z = np.linspace(-9.0, 9.0 + mu, 3001)
    ratio = np.exp(mu * z - mu * mu / 2.0)
    gained = np.array([max(0.0, float(np.max(r * better - math.exp(epsilon) * worse))) for r in ratio])
    return float((gained * norm.pdf(z)).sum() * (z[1] - z[0]))


def divergence_of_choice(mu: float, law: dict[str, Any], k: int) -> float:
    """Return the Renyi divergence of order k (Papernot and Steinke 2022, Theorems 2 and 6; K is at most ``most``).

    k mu^2/2 + ln(E[K]/P(K <= most))/(k - 1), and on top of it rate G(k/(k - 1); mu) for Poisson's law, else (1 + eta)
    times the least of (a - 1) mu^2/2 + ln(1/gamma)/a over the orders a >= 1 of one run.
    """
    _, logs, whole = runs(law)
    plain = k * mu * mu / 2.0 + (whole - float(logsumexp(logs))) / (k - 1)
    if law["name"] == "poisson":
        level = math.log(k / (k - 1.0))
        above, below = log_ndtr(mu / 2 - level / mu), level + log_ndtr(-mu / 2 - level / mu)
        return plain + float(law["rate"] * (np.exp(above) - np.exp(below)))
    stop = -math.log(law["gamma"])
    a = np.append(1.0, np.geomspace(1.0, 1.0 + 10.0 * math.sqrt(2.0 * stop) / mu, 20_000))
    return plain + (1.0 + float(law["eta"])) * float(np.min((a - 1.0) * mu * mu / 2.0 + stop / a))
