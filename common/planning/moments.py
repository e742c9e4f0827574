"""Higher moments of the importance weights: an answer to the open problem of Kohen & Sheffet, Section 5.

Their density rests on X = E_S[w^2] alone, w = dT/dS. Where E_S[w^p] is publicly bounded for a larger p, fewer weights
need be cut off, and :func:`common.planning.formulas.density` grows: from alpha/X to nearly 1/D_inf. n for a given
number of rounds falls in proportion.
"""

from __future__ import annotations

import math

from common.core.errors import BadInput

_MAX_LOG = 709.0
"""Logarithm of about the largest double."""


def truncation(alpha: float, order: float, moment: float) -> float:
    """Return tau such that cutting the weights off there loses at most alpha/4 of T's mass.

    ::

        tau = ((p-1)^(p-1) / p^p * 4 M_p / alpha)^(1/(p-1)),     M_p >= E_S[w^p]

    For every w >= 0, (w - tau)_+ <= c_p w^p / tau^(p-1) with c_p = (p-1)^(p-1) / p^p: the ratio (w - tau)/w^p
    is largest at w = tau p/(p-1), where both sides are equal. So E_S[(w - tau)_+] <= c_p M_p / tau^(p-1) =
    alpha/4, and no bound by M_p alone can be better: a variable on {0, tau p/(p-1)} attains it. p = 2 gives
    docs/corrections.md's tau = X/alpha.

    Parameters
    ----------
    alpha
        Accuracy, in (0, 1).
    order
        p > 1, not necessarily whole.
    moment
        M_p >= 1 (by Jensen's inequality it cannot be less).

    Raises
    ------
    BadInput
        If a number is out of range.
    """
    if not 0.0 < alpha < 1.0 or not order > 1.0 or not 1.0 <= moment < math.inf:
        raise BadInput(
            f"a truncation needs 0 < alpha < 1, an order above 1 and a finite moment of at least 1, found {alpha:g}, "
            f"{order:g} and {moment:g}"
        )
    log_constant = (order - 1.0) * math.log(order - 1.0) - order * math.log(order)
    return math.exp((log_constant + math.log(4.0 * moment / alpha)) / (order - 1.0))


def gaussian_moment(order: float, sigma_source: float, sigma_target: float, coordinates: int) -> float:
    """Return E_S[w^p] for two centred Gaussians that differ in the spread of some coordinates.

    ::

        (r^(p/2) / sqrt(p r - (p-1)))^k,   r = (sigma_S/sigma_T)^2,   infinite where p r <= p - 1

    In one coordinate w = sqrt(r) e^{-x^2 (r-1)/(2 sigma_S^2)}, and E e^{-a x^2/(2 sigma_S^2)} = 1/sqrt(1 + a)
    for x ~ N(0, sigma_S^2), with a = p (r-1). Order 2 is the paper's chi^2 + 1. A target wider than the source
    (r < 1) has D_inf infinite, and its moments are finite for p < 1/(1 - r).

    Parameters
    ----------
    order
        p > 0.
    sigma_source, sigma_target
        Positive: standard deviations in the coordinates that differ.
    coordinates
        k >= 1, how many differ.

    Raises
    ------
    BadInput
        If a number is out of range.
    """
    if not (order > 0.0 and sigma_source > 0.0 and sigma_target > 0.0 and coordinates >= 1):
        raise BadInput(
            f"a moment needs positive order and deviations and k >= 1, found {order:g}, {sigma_source:g}, "
            f"{sigma_target:g} and {coordinates}"
        )
    ratio = (sigma_source / sigma_target) ** 2
    spread = 1.0 + order * (ratio - 1.0)
    if spread <= 0.0:
        return math.inf
    log_moment = coordinates * 0.5 * (order * math.log(ratio) - math.log(spread))
    return math.exp(log_moment) if log_moment < _MAX_LOG else math.inf
