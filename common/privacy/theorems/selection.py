"""A private choice: the best of a secret random number of private runs, and its privacy cost.

The base mechanism runs K times, each time with settings drawn from a public law, and each run yields an output and a
score. Only the output with the best score is released. A fixed K would cost the composition of all runs; a random K
that is never released costs far less (Liu and Talwar 2019; Papernot and Steinke 2022, "Hyperparameter tuning with Renyi
differential privacy"). K follows one of the papers' laws, conditioned on 1 <= K <= ``most`` to bound the time. K is
drawn from the conditional law, and the bounds are proven for it. The base is mu-GDP, score included.

**Theorem** (docs/accounting.md, Theorem 3, with its proof and a base that attains it). Let f be the generating function
of K, T(s) = Phi(Phi^-1(s) + mu) the most and N(x) = Phi(Phi^-1(x) - mu) the least that an event of probability s, x on
the one sample may have on the other. For every epsilon >= 0 the choice is (epsilon, delta)-DP with

    delta = int_0^1 max over 0 <= x <= 1 - s of (T'(s) f'(1 - T(s) - N(x)) - e^eps f'(1 - s - x))_+ ds.

*Numbers.* s = Phi(-z) is cut into cells, and so is x. In a cell N lies above its tangent l at a middle point, and f'(1
- t), t = s + x, above its tangent, both being convex. So the difference is at most T'(s) f'(1 - T(s) - l(x)) less a
linear function of s + x. For z > -mu the first term is convex in s (T' = e^{mu z - mu^2/2} and f'(1 - T(s) - l) are
positive, convex and decreasing), and it is convex in x. So the difference lies below the one that is linear in s and in
x with the same corners, its greatest value over x is at a corner and convex in s, and its integral over s at most the
trapezoid of the values at both ends. For z <= -mu the first term is taken at its largest. Outside of all cells it is at
most E[K] times what Q has there. The bound errs by 1 to 3% of delta for mu of .1 and more, and the Renyi bound takes
over where mu is so small that this does not do.

**Renyi divergences.** Let F, F' be the base's distribution functions in the order of the scores. The choice has the
density f'(F) with respect to the base's law, f' increasing up to f'(1) = E[K]; with G = 1 - F and G' = 1 - F', a mu-GDP
base has G' <= Phi(Phi^-1(G) + mu). Conditioned on K <= most, the generating function g has g' <= f'/P(K <= most), and
ln g' has at each point a slope no larger than that of ln f' (E[K - 1] under the tilted law, which falls when large K
are cut off). So whatever bounds f'(q)/f'(q') for q >= q' bounds g'(q)/g'(q').
"""

import math
from abc import abstractmethod
from functools import lru_cache
from itertools import accumulate
from operator import mul
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from common.core.arrays import Floats
from common.core.values import Value
from common.numerics.bisection import between, crossing
from common.privacy.rounding import MAX_EPSILON, UNIT, check_delta, check_epsilon, down, up
from common.privacy.theorems.gaussian_dp import delta_of
from common.privacy.theorems.renyi import ORDERS, epsilon_at

MAX_RUNS = 1024  # largest ``most``: the weights of a law are integers with about a hundred bits per possible run


class Stopping(Value):
    """A law of K, conditioned on K <= most, given by the rational ratios of successive probabilities."""

    name: str
    most: int = Field(ge=1, le=MAX_RUNS)

    @abstractmethod
    def ratio(self, count: int) -> tuple[int, int]:
        """Return P(K = count + 1) / P(K = count) as numerator and denominator, exactly; count >= 1."""

    @property
    @abstractmethod
    def whole_mean(self) -> float:
        """E[K] without the condition K <= most, rounded up."""

    @property
    @abstractmethod
    def _log_first(self) -> float:
        """Logarithm of P(K = 1) without the condition K <= most."""

    @property
    def expected(self) -> float:
        """E[K], rounded up."""
        return _sums(self)[1]

    @property
    def log_covered(self) -> float:
        """Logarithm of P(K <= most) without the condition, rounded down; at most 0."""
        first, log_sum = self._log_first, math.log(_sums(self)[0])
        return min(0.0, first + log_sum - 64.0 * UNIT * (1.0 + abs(first) + log_sum))


class NegativeBinomial(Stopping):
    """The truncated negative binomial law D(eta, gamma), Definition 1 of Papernot and Steinke.

        P(K = k) proportional to (1 - gamma)^k prod_{l=0..k-1} (l + eta)/(l + 1),   k >= 1

    Attributes:
        eta: Shape, above -1: 1 is geometric, with mean 1/gamma; 0 is logarithmic (the limit). A smaller eta costs less
            at the same mean, and puts more of the runs in a few large draws of K.
        gamma: In (0, 1]; 1 always stops after one run.
    """

    name: Literal["negative-binomial"] = "negative-binomial"
    eta: float = Field(default=1.0, gt=-1, le=16)
    gamma: float = Field(ge=1e-30, le=1)

    def ratio(self, count: int) -> tuple[int, int]:
        stop, parts = self.gamma.as_integer_ratio()
        shape, denominator = self.eta.as_integer_ratio()
        return (parts - stop) * (count * denominator + shape), parts * denominator * (count + 1)

    @property
    def log_stop(self) -> float:
        """ln(1/gamma)."""
        return -math.log(self.gamma)

    @property
    def whole_mean(self) -> float:
        return 1.0 if self.gamma == 1.0 else up((1.0 - self.gamma) / self.gamma * self._shape, 64.0)

    @property
    def _shape(self) -> float:
        exponent = self.eta * self.log_stop
        return self.eta / -math.expm1(-exponent) if exponent else 1.0 / self.log_stop

    @property
    def _log_first(self) -> float:
        if self.gamma == 1.0:
            return 0.0
        return math.log1p(-self.gamma) - self.eta * self.log_stop + math.log(self._shape)


class Poisson(Stopping):
    """Poisson's law, conditioned on at least one run: P(K = k) proportional to rate^k/k!, k >= 1.

    It is the most concentrated of the laws, and the best one for a few runs of a base with a small mu. ``rate`` is the
    mean before the condition K >= 1.
    """

    name: Literal["poisson"] = "poisson"
    rate: float = Field(ge=1e-6, le=500)

    def ratio(self, count: int) -> tuple[int, int]:
        top, bottom = self.rate.as_integer_ratio()
        return top, bottom * (count + 1)

    @property
    def whole_mean(self) -> float:
        return up(self.rate / -math.expm1(-self.rate), 16.0)

    @property
    def _log_first(self) -> float:
        return math.log(self.rate) - self.rate - math.log(-math.expm1(-self.rate))


StoppingDistribution = Annotated[NegativeBinomial | Poisson, Field(discriminator="name")]
"""A field with a law."""


def geometric(mean: float, most: int | None = None) -> NegativeBinomial:
    """Return the geometric law with the given mean (before the condition), by default up to four times the mean."""
    return NegativeBinomial(eta=1.0, gamma=1.0 / mean, most=most or min(MAX_RUNS, math.ceil(4.0 * mean)))


@lru_cache(maxsize=8)
def weights(law: Stopping) -> tuple[int, ...]:
    """Return integers proportional to P(K = 1), ..., P(K = most)."""
    ratios = [law.ratio(count) for count in range(1, law.most)]
    rising = accumulate((top for top, _ in ratios), mul, initial=1)
    falling = list(accumulate((bottom for _, bottom in reversed(ratios)), mul, initial=1))
    return tuple(top * bottom for top, bottom in zip(rising, reversed(falling), strict=True))


@lru_cache(maxsize=256)
def _sums(law: Stopping) -> tuple[float, float]:
    shares = weights(law)
    total = sum(shares)
    return total / shares[0], up(sum(k * share for k, share in enumerate(shares, start=1)) / total)


AnyLaw = NegativeBinomial | Poisson


def selection_rdp(order: int, mu: float, law: AnyLaw) -> float:
    """Bound the Renyi divergence of a choice among mu-GDP runs.

        rho' = k mu^2/2 + excess + ln(E[K]/P(K <= most))/(k - 1)                     k = order
        excess = (1 + eta) ((k^ - 1) mu^2/2 + ln(1/gamma)/k^),   k^ = max(1, sqrt(2 ln(1/gamma))/mu)
        excess = rate delta_G(ln(1 + 1/(k - 1)); mu)                                 for Poisson's law

    Papernot and Steinke (2022), Theorem 2 with its best second order k^, and Theorem 6; E[K] is that of the law without
    the condition.

    Proof of the first: by joint convexity the choice multiplies the base's moment e^{(k-1) rho} by at most the largest
    f'(q)^k f'(q')^{1-k} (their Lemma 7), q = F and q' = F' at a point. With a = gamma + (1 - gamma) G and a' likewise,
    this is E[K] gamma^{1+eta} (a'^{k-1} a^{-k})^{1+eta}, where a' <= (a e^{rho^})^{1 - 1/k^} by the base's divergence
    at k^, and a >= gamma. Of the second: it is E[K] e^{rate (k-1) (G' - G k/(k-1))}. The condition costs the factor
    1/P(K <= most) where q >= q'; where q < q' the moment is multiplied by E[K] at most.

    The order is at least 2, mu positive; rho' is in nats, rounded up.
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

    It is from :func:`delta_of_selection` or, if rounding makes that one larger, converted from :func:`selection_rdp`.
    """
    check_delta(delta)
    renyi = min(_renyi(order, mu, law, delta) for order in ORDERS)
    if delta_of_selection(mu, law, 0.0) <= delta:
        return 0.0
    top = min(renyi, MAX_EPSILON)
    if delta_of_selection(mu, law, top) > delta:
        return renyi
    return between(top, 0.0, lambda epsilon: delta_of_selection(mu, law, epsilon) <= delta, 1e-9)


def order_of_selection(mu: float, law: AnyLaw, delta: float) -> int | None:
    """Return the Renyi order behind :func:`epsilon_of_selection`; None if the profile is at least as good."""
    order = min(ORDERS, key=lambda k: _renyi(k, mu, law, delta))
    top = min(_renyi(order, mu, law, delta), MAX_EPSILON)
    return order if delta_of_selection(mu, law, top) > delta else None


def _renyi(order: int, mu: float, law: AnyLaw, delta: float) -> float:
    return epsilon_at(order, selection_rdp(order, mu, law), delta)


def mu_for_selection(epsilon: float, delta: float, law: AnyLaw) -> float:
    """Return a mu of a run whose choice is (epsilon, delta)-DP, within 2e-6 of the largest; never more than that.

    It is below the end of the search by so much that :func:`epsilon_of_selection`, itself a search, gives at most
    epsilon for it.
    """
    check_epsilon(epsilon)
    check_delta(delta)

    def excess(mu: float) -> float:
        log_ratio = math.log(max(delta_of_selection(mu, law, epsilon), 1e-300) / delta)
        if log_ratio > 0.0 and min(_renyi(order, mu, law, delta) for order in ORDERS) <= epsilon:
            return -1.0  # mu is so small, or so large, that the profile's grid is too coarse
        return log_ratio

    upper = 1.0
    while excess(upper) <= 0.0:
        upper *= 2.0
    while excess(0.5 * upper) > 0.0:
        upper *= 0.5
    return crossing(0.5 * upper, upper, excess, 1e-6) * (1.0 - 1e-7)


PLACES = 360  # cells of s = Phi(-z) from z = 8 + mu to -3; 30 more lie above, up to 37, and 35 below, down to -38
LARGEST_MU = 25.0  # beyond it 1 is returned: Phi(mu - 37) is no longer negligible
RANKS = np.linspace(-5.0, 3.0, 281)  # y at the ends of the cells of x = Phi(y); one more lies on each side
NODES = 1 << 14  # cells of f'
ROOM = 1e-11  # relative room for the rounding of f', of T and of N: some 1e-13 of it is used


def delta_of_selection(mu: float, law: Stopping, epsilon: float) -> float:
    """Return the delta at epsilon >= 0 of a choice among mu-GDP runs, by the module's theorem, rounded up."""
    if not any(weights(law)[1:]):  # always one run
        return delta_of(mu, epsilon)
    if mu > LARGEST_MU:
        return 1.0
    gains, prices, widths, beyond = _corners(mu, law)
    most = np.max(gains - math.exp(epsilon) * prices, axis=2)
    delta = 0.5 * float(widths @ np.maximum(most, 0.0).sum(axis=1))
    return min(1.0, up(delta * (1.0 + 1e-10) + beyond))


@lru_cache(maxsize=4)
def _corners(mu: float, law: Stopping) -> tuple[Floats, Floats, Floats, float]:
    """Return the first term, rounded up, and f'(1 - t), rounded down, at the corners; widths; and the mass outside.

    The corners of each cell of s are its two ends, combined with all corners of x.
    """
    from scipy.special import ndtr  # imported here, as it is slow to load and rarely needed

    fine = np.linspace(8.0 + mu, -3.0, PLACES + 1)
    z = np.concatenate([np.linspace(37.0, 8.0 + mu, 30, endpoint=False), fine, np.linspace(-4.0, -38.0, 35)])
    power, tail = ndtr(mu - z), ndtr(-z)
    ratio = np.exp(mu * z - mu * mu / 2.0)
    widths = np.where(z[1:] > 0.0, np.diff(tail), -np.diff(ndtr(z)))
    y = 0.5 * (np.append(RANKS[0] - 0.5, RANKS) + np.append(RANKS, RANKS[-1] + 0.5))
    edges = np.concatenate([[0.0], ndtr(RANKS), [1.0]])
    inner, slope = ndtr(y), np.exp(mu * y - mu * mu / 2.0)
    offsets = np.stack([edges[:-1] - inner, edges[1:] - inner], axis=1)  # cell of x, its end
    least = (ndtr(y - mu)[:, None] + slope[:, None] * offsets).ravel()
    curve = _slope_of(law)
    gains = ratio[:, None] * curve.upper(1.0 - power[:, None] - least)
    ends = np.stack([gains[:-1], np.where((z[1:] > -mu)[:, None], gains[1:], gains[:-1])], axis=1)
    middle = 0.5 * (tail[1:] + tail[:-1])
    height, steep = curve.lower(1.0 - middle[:, None] - inner)
    distance = np.stack([tail[:-1] - middle, tail[1:] - middle], axis=1)[:, :, None, None] + offsets
    flat, fast = steep
    line = np.where(distance > 0.0, fast[:, None, :, None], flat[:, None, :, None]) * -distance
    base = np.broadcast_to(height[:, None, :, None], line.shape)
    prices = (base + line - ROOM * (base + np.abs(line))).reshape(ends.shape)
    beyond = curve.top * (float(ndtr(mu - z[0])) + float(ndtr(z[-1] - mu)))
    return ends, prices, widths, beyond


class _Slope:
    """f'(q) = sum_k k P(K = k) q^{k-1} with bounds on both sides, by Taylor polynomials on cells of [0, 1]."""

    def __init__(self, law: Stopping) -> None:
        shares = weights(law)
        total = sum(shares)
        row = np.array([k * (share / total) for k, share in enumerate(shares, start=1)])
        nodes = np.linspace(0.0, 1.0, NODES + 1)
        self._terms = []
        for order in range(4):
            derivative = np.zeros_like(nodes)
            for value in row[::-1].tolist():
                derivative = derivative * nodes + value
            self._terms.append(derivative / math.factorial(order))
            row = row[1:] * np.arange(1.0, len(row)) if len(row) > 1 else np.zeros(1)
        self.top = float(self._terms[0][-1])

    def upper(self, q: Floats) -> Floats:
        """Bound f'(q) from above; f'(0) for q < 0, and for q > 1 by the last polynomial."""
        place, step = self._place(q)
        first, second, third, last = self._terms
        return np.asarray(
            (first[place] + step * (second[place] + step * (third[place] + step * last[place + 1]))) * (1.0 + ROOM)
        )

    def lower(self, q: Floats) -> tuple[Floats, tuple[Floats, Floats]]:
        """Bound f'(q) from below, and f''(q) from both sides; for q < 0 they are f'(0) and 0."""
        place, step = self._place(q)
        first, second, third, last = self._terms
        height = (first[place] + step * (second[place] + step * third[place])) * (1.0 - ROOM)
        steep = second[place] + step * 2.0 * third[place]
        inside = q > 0.0
        fast = (steep + step * step * 3.0 * last[place + 1]) * (1.0 + ROOM)
        return height, (np.where(inside, steep * (1.0 - ROOM), 0.0), np.where(inside, fast, 0.0))

    @staticmethod
    def _place(q: Floats) -> tuple[np.ndarray, Floats]:
        clipped = np.maximum(q, 0.0)
        place = np.minimum(clipped * NODES, NODES - 1.0).astype(np.int64)
        return place, clipped - place / NODES


_slope_of = lru_cache(maxsize=16)(_Slope)
