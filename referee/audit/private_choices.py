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

from common.numerics.special import gammaln, log_ndtr, logsumexp, ndtr

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
    """Return int over s of the greatest value over x of (T'(s) f'(1 - T(s) - N(x)) - e^eps f'(1 - s - x))_+.

    s = Phi(-z), T(s) = Phi(mu - z), T'(s) = e^{mu z - mu^2/2}; x = Phi(y), N(x) = Phi(y - mu), s + x <= 1; f' = sum
    k P(K = k) q^{k-1}. The outputs that tell most, of probability s so far, are ranked after the x of those that tell
    least: docs/accounting.md, "A private choice", has the proof that nothing is worse. Nodes of z are a sixtieth apart;
    no guarantee is shown for mu above 37, where one run has an epsilon of 700.
    """
    if mu > 37.0:
        return 1.0
    k, logs, _ = runs(law)
    levels = np.linspace(0.0, 1.0, 50_001)
    slope = np.polynomial.polynomial.polyval(levels, k * np.exp(logs - logsumexp(logs)))
    y = np.append(-np.inf, np.linspace(-7.0, 4.0, 1200))
    x, least = ndtr(y), ndtr(y - mu)
    z = np.linspace(38.0, -10.0, 2881)
    found = np.zeros(len(z))
    for place, (s, t) in enumerate(zip(ndtr(-z), ndtr(mu - z), strict=True)):
        better = np.interp(1.0 - t - least, levels, slope)
        worse = np.interp(1.0 - s - x, levels, slope)
        gained = math.exp(mu * z[place] - mu * mu / 2.0) * better - math.exp(min(epsilon, 700.0)) * worse
        found[place] = max(0.0, float(gained.max()))
    return float((found * np.exp(-z * z / 2.0)).sum() / math.sqrt(2.0 * math.pi) * (z[0] - z[1]))


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
