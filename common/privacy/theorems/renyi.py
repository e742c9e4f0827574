"""Renyi differential privacy of noisy gradient steps on draws from mu; every number is an upper bound.

An (order, rho) guarantee means D_order(M(S) || M(S')) <= rho for all samples S, S' that differ in one record by
replacement (n public). It adds up under adaptive composition at each order (Mironov 2017, Proposition 1).

One step releases N(g, I) (in units of sigma) for the gradient g of one draw. Over *records* TV(mu, mu') <= s, so its
law is P = (1-s) A + s B under S and Q = (1-s) A + s C under S', where A, B, C are mixtures of unit Gaussians whose
means lie in a ball of diameter u. Two bounds hold, and the smaller one is used at each order.
"""

import math
from functools import lru_cache

import numpy as np

from common.core.arrays import Floats
from common.privacy.rounding import UNIT, down, up

MAX_ORDER = 1 << 16  # largest order tried: enough for every epsilon above 2 ln(1/delta) / 65536


def _grid() -> tuple[int, ...]:
    orders, order = list(range(2, 65)), 64.0
    while orders[-1] < MAX_ORDER:
        order *= 1.03
        orders.append(min(MAX_ORDER, math.ceil(order)))
    return tuple(orders)


ORDERS = _grid()  # orders tried: every integer up to 64, then steps of 3%


def closed_form(order: int, tv_bound: float, ratio: float) -> float:
    """Bound the Renyi divergence of one step by a binomial sum, which requires the ball (docs/privacy.md).

        (k-1) rho = ln(1 + C(k,2) s^2 (e^{u^2} - 1) + sum_{j=3..k} C(k,j) s^j 2 e^{j (j-1) u^2 / 2})

    P = Q + s (B - C), and each |x|^j / q^{j-1} is jointly convex in (x, q): single Gaussians are the worst. For j >= 3,
    |B-C|^j <= B^j + C^j, each giving at most e^{j(j-1)u^2/2}. For j = 2, with b, c the means relative to A's,
    E_A[((B-C)/A)^2] = e^{|b|^2} + e^{|c|^2} - 2 e^{<b,c>} = sum_i |b^(xi) - c^(xi)|^2 / i! (tensor powers), and in a
    ball of diameter u each of its norms is at most u^{2i}: in total e^{u^2} - 1.

    Args:
        order: k, an integer of at least 2.
        tv_bound, ratio: s in (0, 1] and u > 0.

    Returns:
        rho in nats, rounded up; infinite if the sum is too large to be useful.
    """
    log_s, square = min(0.0, up(math.log(tv_bound))), up(ratio * ratio)
    if order * (log_s + 0.5 * (order - 1) * square) > 700.0:
        return math.inf
    index = np.arange(1, order + 1, dtype=np.float64)
    log_terms = np.cumsum(np.log((order - index + 1) / index) + log_s)
    log_terms[2:] += math.log(2.0) + 0.5 * index[2:] * (index[2:] - 1) * square
    log_terms[1] += square + math.log(-math.expm1(-square))
    # A running sum of j terms errs by at most j units of its largest value.
    log_terms += 2.0 * (index + 4.0) * UNIT * np.max(np.abs(log_terms))
    return up(_log_one_plus(log_sum(log_terms[1:])) / (order - 1), 16.0)


def profile(order: int, tv_bound: float, ratio: float) -> float:
    """Bound the Renyi divergence of one step by the symmetrized profile, which requires pairwise distances only.

        (k-1) rho = ln(1 + E_Q[f(r) 1{r > 1}]),   f(r) = r^k + r^{1-k} - 1 - r,   r = 1 + s (LR - 1),
        LR = dN(u,1)/dN(0,1),   Q = N(0,1)

    In z, f is increasing and convex and the density of Q decreasing, so each cell [a, b] adds at most Q(cell) (f(a) +
    f(b)) / 2; beyond the last node ln r has a slope of at most u. Parameters and result as for :func:`closed_form`.
    """
    from scipy.special import log_ndtr  # here, since it takes long to load, and is rarely needed

    nodes, log_mass = _cells(order, ratio)
    log_ratio = ratio * (nodes[1:] - nodes[0])
    near = np.log1p(tv_bound * np.expm1(np.minimum(log_ratio, 30.0)))
    log_r = np.where(log_ratio < 30.0, near, log_ratio + np.log(tv_bound + (1.0 - tv_bound) * np.exp(-log_ratio)))
    log_f = np.concatenate([[-np.inf], log_divergence(order, log_r)])
    cells = log_mass + np.logaddexp(log_f[:-1], log_f[1:]) - math.log(2.0)
    shift, last = order * ratio, float(nodes[-1])
    tail = order * float(log_r[-1]) + shift * (0.5 * shift - last) + float(log_ndtr(shift - last))
    total = log_sum(np.append(cells, tail))
    slack = 1e-10 + 64.0 * UNIT * (abs(total) + last * last + order * float(log_r[-1]))
    return up(_log_one_plus(total + slack) / (order - 1), 16.0)


def log_divergence(order: int, log_r: Floats) -> Floats:
    """Return ln f(r) for f(r) = r^k + r^{1-k} - 1 - r = (r^k - 1) (1 - r^{1-k}) and r > 1, from ln r."""
    rising = order * log_r
    return np.asarray(rising + np.log(-np.expm1(-rising)) + np.log(-np.expm1(-(order - 1) * log_r)))


@lru_cache(maxsize=256)
def _cells(order: int, ratio: float) -> tuple[Floats, Floats]:
    """Return nodes from u/2 to far beyond the bulk at k u, and the log of N(0,1)'s mass of each cell."""
    from scipy.special import log_ndtr  # here, since it takes long to load, and is rarely needed

    shift, start = order * ratio, 0.5 * ratio
    split, end = start + min(max(12.0, shift + 8.0), 60.0), 40.0 + shift + 20.0 + ratio
    fine = np.linspace(start, split, 50 * math.ceil(split - start) + 1)
    nodes = np.concatenate([fine, np.geomspace(split, end, 200)[1:]])
    log_tail = log_ndtr(-nodes)
    return nodes, log_tail[:-1] + np.log(-np.expm1(log_tail[1:] - log_tail[:-1]))


@lru_cache(maxsize=1 << 16)
def step_rdp(order: int, tv_bound: float, ratio: float) -> float:
    """Return the better bound on the Renyi divergence, in nats, of one subsampled Gaussian step."""
    bound = closed_form(order, tv_bound, ratio)
    log_leading = math.log(order * (order - 1) / 2) + 2.0 * math.log(tv_bound) + ratio * ratio
    leading = _log_one_plus(log_leading + math.log(-math.expm1(-ratio * ratio))) / (order - 1)
    # The profile cannot win by more than 0.1%: its leading term is never below the closed form's.
    return bound if bound <= 1.001 * leading else min(bound, profile(order, tv_bound, ratio))


def pure_rdp(order: int, epsilon: float) -> float:
    """Return the Renyi divergence of randomized response, the worst of all pure epsilon-DP releases, rounded up.

        (k-1) rho = ln((e^{k eps} + e^{(1-k) eps}) / (1 + e^eps))

    Every pure epsilon-DP release is a post-processing of it (Kairouz, Oh and Viswanath 2015, Theorem 2).
    """
    log_f = float(log_divergence(order, np.array([epsilon]))[0])
    excess = log_f - _log_one_plus(epsilon)
    return up(_log_one_plus(excess + 16.0 * UNIT * (1.0 + abs(excess) + order * epsilon)) / (order - 1), 16.0)


def epsilon_at(order: int, rho: float, delta: float) -> float:
    """Convert (order, rho)-RDP to the smallest known epsilon at ``delta``, rounded up; infinite at delta = 0.

    epsilon = rho + ln(1 - 1/k) - ln(delta k) / (k - 1) (Canonne, Kamath and Steinke 2020, Proposition 12)
    """
    return math.inf if delta == 0.0 else max(0.0, up(rho + _offset(order, delta)))


def rho_allowed(order: int, epsilon: float, delta: float) -> float:
    """Return the largest rho that converts to at most epsilon, rounded down; negative if there is none."""
    return -math.inf if delta == 0.0 else down(down(epsilon) - _offset(order, delta))


def _offset(order: int, delta: float) -> float:
    shrink, price = math.log1p(-1.0 / order), -(math.log(delta) + math.log(order)) / (order - 1)
    spread = abs(shrink) + (abs(math.log(delta)) + math.log(order)) / (order - 1)
    return shrink + price + 8.0 * UNIT * spread


def log_sum(log_values: Floats) -> float:
    """Return ln sum e^x, for at least one finite x; SciPy's function takes ten times as long for few values."""
    greatest = float(log_values.max())
    return greatest + math.log(float(np.exp(log_values - greatest).sum()))


def _log_one_plus(log_value: float) -> float:
    return float(np.logaddexp(0.0, log_value))
