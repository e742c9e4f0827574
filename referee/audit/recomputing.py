"""Recompute delta from a certificate's numbers: one function for each accountant.

This is a part of :mod:`referee.audit.certificates`, which has read and bounded the values. Symbols: P, Q laws of one
release on neighbouring samples; H(a) = sup P(E) - a Q(E); s = tv_bound; u = ratio.

    steps       P = (1-s) A + s B, Q = (1-s) A + s C, unit Gaussians with means in a ball of diameter u:
                H(a) <= s G(1 + (a-1)/s; u) for a >= 1 and, mirrored, below;   chi^2 <= s^2 (e^{u^2} - 1)
    releases    randomized response with failure delta;   of m draws: (m ln(1 + s(e^eps - 1)), ...)
    gaussian    G(a; mu) = Phi(mu/2 - ln(a)/mu) - a Phi(-mu/2 - ln(a)/mu)
    selected    the best of K runs is released, each mu-GDP with its score, K secret. Its law is given by weights w_1 ..
                w_most: w_k = (1 - gamma)^k Gamma(k + eta)/(Gamma(1 + eta) k!), whose sum of k w_k over *all* k is
                (1 - gamma) gamma^{-1-eta}; or, for Poisson's law, rate^k/k!, with rate e^rate
    game        adversaries that choose neighbours anew before each step: referee/audit/games.py

Each function returns an upper bound whatever the numbers are; numbers that do not suit the events make the bound large,
or infinite. Where a bound has conditions (a window that is wide enough, a quadrature that is fine enough), they are
tested here.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.fft import irfft, rfft
from scipy.special import gammaln, log_ndtr, logsumexp, ndtr

from common.core.errors import AuditFailed
from referee.audit.games import UNIT, Floats, delta_of_game

Row = tuple[dict[str, Any], int]  # an event, and how many single releases or steps it stands for

FAR = 700.0  # from here on e^x counts as infinite


class Range(NamedTuple):
    """The range of a value of a certificate."""

    low: float
    high: float
    integer: bool = False
    above: bool = False
    below: bool = False

    def read(self, name: str, value: Any) -> float:
        """Return a value that is in range; AuditFailed if it is no number, NaN, too small or too large."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and self.low <= value <= self.high) or (self.integer and value != int(value)):
            actual = f"{value:g}" if isinstance(value, float) else f"a value of type {type(value).__name__}"
            kind = "a whole number" if self.integer else "a number"
            raise AuditFailed(
                f"the privacy certificate's {name} must be {kind} from {self.low:g} to {self.high:g}, found {actual}"
            )
        if (self.above and value == self.low) or (self.below and value == self.high):
            side = f"above {self.low:g}" if self.above else f"below {self.high:g}"
            raise AuditFailed(f"the privacy certificate's {name} must be {side}, found {value:g}")
        return value  # type: ignore[no-any-return]


def count_range(most: int) -> Range:
    """Return the range of a count."""
    return Range(1, most, integer=True)


# Profiles -----------------------------------------------------------------------------------------------------------


def gaussian(losses: Floats, mu: float) -> Floats:
    """Return G(e^t; mu) for t >= 0, plus a bound on its rounding error."""
    x, y = mu / 2 - losses / mu, mu / 2 + losses / mu
    ahead = np.exp(log_ndtr(x))
    behind = np.exp(np.minimum(losses + log_ndtr(-y), 0.0))
    return np.asarray(ahead - behind + 4.0 * UNIT * ahead * (8.0 + y * y + losses))


def released(event: dict[str, Any]) -> tuple[float, float]:
    """Return the (epsilon, delta) of a release, on the sample or on draws."""
    epsilon, delta = float(event["epsilon"]), float(event["delta"])
    if event["kind"] == "release" or (event["draws"] == 1 and event["tv_bound"] == 1.0):
        return epsilon, delta
    if epsilon > FAR:
        return math.inf, 1.0
    star = event["draws"] * math.log1p(event["tv_bound"] * math.expm1(epsilon))
    if delta == 0.0:
        return star, 0.0
    return star, 1.0 if star > FAR else min(1.0, delta * math.expm1(star) / math.expm1(epsilon))


def profile(event: dict[str, Any]) -> tuple[Callable[[Floats], Floats], float]:
    """Return t -> H(e^t) for t >= 0, of one release in both directions, and a bound on chi^2."""
    if event["kind"] == "gaussian":
        return lambda t: gaussian(t, float(event["mu"])), math.inf
    if event["kind"] == "subsampled-steps":
        s, u = float(event["tv_bound"]), float(event["ratio"])

        def steps(t: Floats) -> Floats:
            near = np.log1p(np.expm1(np.minimum(t, 30.0)) / s)
            return np.asarray(s * gaussian(np.where(t < 30.0, near, t - math.log(s) - 1e-12), u))

        return steps, s * s * math.expm1(u * u) if u * u < FAR else math.inf
    epsilon, delta = released(event)

    def height(t: Floats) -> Floats:
        pure = -np.expm1(np.minimum(t - epsilon, 0.0)) / (1.0 + math.exp(-epsilon))
        return np.asarray(delta + (1.0 - delta) * pure)

    return height, math.inf if delta or epsilon > FAR else 4.0 * math.sinh(epsilon / 2.0) ** 2


# Methods: (rows, epsilon, delta, numbers) -> delta ------------------------------------------------------------------


def by_gaussians(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """Compose Gaussian releases: the squares of their mu add up, exactly."""
    return _gaussian_delta(epsilon, math.fsum(count * event["mu"] ** 2 for event, count in rows))


def _gaussian_delta(epsilon: float, square: float) -> float:
    return float(gaussian(np.array([epsilon]), math.sqrt(square))[0])


def by_sums(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """Add up epsilons and deltas (basic composition), exactly; below the sum of the epsilons delta is 1."""
    costs = [(*released(event), count) for event, count in rows]
    if not all(math.isfinite(each) for each, _, _ in costs):
        return 1.0
    if sum((count * Fraction(each) for each, _, count in costs), Fraction(0)) > Fraction(epsilon):
        return 1.0
    return float(min(sum((count * Fraction(failing) for _, failing, count in costs), Fraction(0)), Fraction(1)))


def by_optimal_composition(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """Count all releases as the most expensive (Kairouz, Oh and Viswanath 2015): l of k answers disagree."""
    costs = [released(event) for event, _ in rows]
    each, failing = max(c[0] for c in costs), max(c[1] for c in costs)
    k = sum(count for _, count in rows)
    if k > 10_000_000:
        raise AuditFailed("too many releases to recheck")
    if not math.isfinite(each) or failing >= 1.0:
        return 1.0
    if delta == 0.0:  # no sum of doubles shows whether all losses are below epsilon
        return float(failing > 0.0 or k * Fraction(each) > Fraction(epsilon))
    l = np.arange(k // 2 + 1.0)  # noqa: E741
    logs = gammaln(k + 1.0) - gammaln(l + 1.0) - gammaln(k - l + 1.0) - l * each - k * math.log1p(math.exp(-each))
    gaps = np.maximum((k - 2.0 * l) * each - epsilon, 0.0)
    pure = float((np.exp(logs) * -np.expm1(-gaps)).sum())
    return pure + max(1.0 - pure, 0.0) * -math.expm1(k * math.log1p(-failing))


def by_comparison(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """Replace each release beside a Gaussian pad by a Gaussian of price m: docs/accounting.md, Theorem 2.

    The theorem holds for every pad > 0 and all allowances > 0; what an event may lose is added to delta as it is.
    """
    pad, rate = numbers["pad"], numbers["rate"]
    square = lost = 0.0
    for event, count in rows:
        if event["kind"] == "gaussian":
            square += count * event["mu"] ** 2
            continue
        height, chi_squared = profile(event)
        allowance = rate * chi_squared
        if not 0.0 < allowance < 1.0:
            return 1.0
        square, lost = square + count * _price(height, chi_squared, pad, allowance), lost + count * allowance
    return lost + _gaussian_delta(epsilon, pad * pad + square) if math.isfinite(square) else 1.0


def _price(height: Callable[[Floats], Floats], chi_squared: float, pad: float, allowance: float) -> float:
    """Return the least m with (m/2) e^{-m/8} / sqrt(1 + m/pad^2) >= K; infinite where none up to pad^2/2 is shown."""
    far = np.geomspace(1e-15, 60.0, 4000)
    end = pad * np.linspace(0.0, 80.0, 80_001)
    beyond, levels = height(far) <= allowance / 2.0, gaussian(end, pad * math.sqrt(1.5)) <= allowance / 2.0
    if not (beyond.any() and levels.any()):
        return math.inf  # the mass beyond the range exceeds the allowance
    # The kernel grows fast towards the reach, so that one that is a hundredth too far shows a K of several more.
    first = int(np.argmax(beyond))
    near = np.linspace(far[first - 1], far[first], 4001) if first else far[:1]
    reach, edge = float(near[np.argmax(height(near) <= allowance / 2.0)]), float(end[np.argmax(levels)])
    if reach > 50.0 * pad:
        return math.inf  # the quadrature would be too coarse for the pad
    t = np.linspace(-reach, reach, 40_001)
    weight = np.exp(-np.abs(t) / 2.0) * height(np.abs(t)) * (t[1] - t[0])
    exponents = edge * t / pad**2 - t * t / (2.0 * pad**2)
    if exponents.max() > FAR:
        return math.inf
    kernel, base = np.exp(exponents), 2.0 * np.cosh(1.5 * t)
    # The worst w is the envelope where the kernel is largest, until chi^2 is used up.
    order = np.argsort(-kernel / base)
    mass = np.maximum((base * weight)[order], 1e-300)
    share = np.clip((chi_squared - np.cumsum(mass)) / mass + 1.0, 0.0, 1.0)
    k = float(((kernel * weight)[order] * share).sum())
    m = 2.0 * k
    for _ in range(200):
        m = 2.0 * k * math.exp(min(m, 400.0) / 8.0) * math.sqrt(1.0 + m / pad**2)
        if m > pad * pad / 2.0:
            return math.inf
    return m


def by_losses(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """Compose the envelopes' privacy losses by one tilted transform, on half the certificate's width or on all of it.

    Added are losses beyond each grid, as infinite; the sum beyond the window's top, by Chernoff's bound; the rounding
    of heights and of transforms. The window begins below epsilon, so what wraps around from below only adds. Either
    width gives an upper bound: the finer grid rounds losses up by less, and its transform has twice the rounding
    error. The sum of all total variations H(1) is also an upper bound for every epsilon.
    """
    width, theta, points = numbers["width"], numbers["tilt"], int(numbers["points"])
    squares = math.fsum(count * event["mu"] ** 2 for event, count in rows if event["kind"] == "gaussian")
    rows = [(event, count) for event, count in rows if event["kind"] != "gaussian"]
    if squares:
        rows.append(({"kind": "gaussian", "mu": math.sqrt(squares)}, 1))
    if len(rows) * points > 1 << 27:
        raise AuditFailed(f"{len(rows):,} kinds of events on a grid of {points:,} points are too many to recheck")
    least = math.fsum(count * float(profile(event)[0](np.zeros(1))[0]) for event, count in rows)
    if least <= delta:
        return least
    with np.errstate(all="ignore"):  # unsuitable numbers give infinities and NaN, which are refused at the end
        for finer in (2, 1):
            bound = _composed(rows, epsilon, delta, width / finer, theta, finer * points)
            least = min(least, bound) if math.isfinite(bound) else least
            if least <= delta:
                break
    return least


def _composed(rows: list[Row], epsilon: float, delta: float, width: float, theta: float, points: int) -> float:
    log_sum, log_most, growth = np.zeros(points // 2 + 1, dtype=np.complex128), 0.0, 0.0
    lost = center = 0.0
    tilts = theta * 2.0 ** np.arange(-1.0, 7.0)  # of Chernoff's bound; the second is theta
    logs = np.zeros(len(tilts))
    depth = 8.0 * math.log2(points) * UNIT
    # Far losses count as infinite: they would dominate at a tilt that suits the bulk.
    cut = 1e-4 * delta / sum(count for _, count in rows)
    for event, count in rows:
        values = profile(event)[0](width * np.arange(points // 2 + 1, dtype=np.float64))
        reach = min(int(np.argmax(values - values[-1] <= cut)) or points, points // 2 - 1)
        up, down, infinite, short = _pair(values[: reach + 1], width)
        lost += count * (infinite + short)
        n = width * np.arange(1, reach + 1)
        sums = [float(up @ np.expm1(t * n) + down @ np.expm1(-t * n)) - infinite + short for t in tilts.tolist()]
        logs += count * np.log1p(np.array(sums))
        scale = float(np.log1p(sums[1]))
        masses = np.zeros(points)
        masses[1 : reach + 1] = up * np.exp(theta * n - scale)
        masses[-reach:] = (down * np.exp(-theta * n - scale))[::-1]
        deviation = rfft(masses) - masses.sum()
        error, size = 2.0 * depth * masses.sum() + 32.0 * UNIT, np.maximum(np.abs(1.0 + deviation), 1e-300)
        log_sum += count * np.log1p(deviation)
        log_most = log_most + count * np.log(size + error)
        growth = growth + count * np.log1p(error / size)
        center += count * float(masses @ np.fft.fftfreq(points, 1.0 / points))
    if not (math.isfinite(center) and abs(center) < 2**62 and np.max(log_most) <= 1.0):
        return math.inf
    first = round(center) - points // 2
    if first * width > epsilon:
        raise AuditFailed("the privacy certificate's grid does not reach its epsilon")
    top = (first + points - 1) * width
    beyond = math.exp(min(0.0, float(np.nanmin(logs - tilts * top))))
    most = np.exp(log_most)
    wrong = most * (-np.expm1(-growth) + 8.0 * UNIT * (np.abs(log_sum) + 1.0) * len(rows))
    rounding = 2.0 * float(np.sum(wrong + depth * most)) / points
    indices = first + np.arange(points)
    composed = np.maximum(irfft(np.exp(log_sum), points)[indices % points], 0.0) + rounding
    losses = width * indices
    kept = losses > epsilon
    weights = np.exp(logs[1] - theta * losses[kept]) * -np.expm1(epsilon - losses[kept])
    return lost + beyond + float(composed[kept] @ weights)


def _pair(values: Floats, width: float) -> tuple[Floats, Floats, float, float]:
    """Return P's masses at width, 2 width, ... and at their negatives, and at infinity: the chords of a profile.

    The last number bounds by how much rounding may leave the pair below the profile, or its masses above 1. Composition
    counts it as infinite loss, and as additional mass at 0, which is then never negative.
    """
    levels = np.exp(width * np.arange(len(values)))
    # Rounding leaves neighbouring slopes out of order on a fine grid. The least slope from here on never lies above the
    # true one, so that the profile is not undercut, and what is added does not grow with the number of points.
    steps = levels[:-1] * math.expm1(width)  # on a fine grid a difference of levels would be mostly rounding error
    slopes = np.minimum.accumulate(np.append(np.diff(values) / steps, 0.0)[::-1])[::-1]
    down = np.diff(slopes)
    up, infinite = down * levels[1:], float(values[-1])
    stays = 1.0 - float(up.sum() + down.sum()) - infinite
    return up, down, infinite, max(-stays, 0.0) + 8.0 * UNIT * float(values[0])


def by_renyi(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """Add Renyi divergences at one order and convert (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    k = int(numbers["order"])
    rho = math.fsum(count * _divergence(event, k) for event, count in rows)
    return math.exp(min(0.0, (k - 1) * (rho - epsilon) + (k - 1) * math.log1p(-1.0 / k) - math.log(k)))


def _divergence(event: dict[str, Any], k: int) -> float:
    """Return the Renyi divergence of order k of one release; infinite for one with a delta."""
    kind = event["kind"]
    if kind == "gaussian":
        return float(k * event["mu"] ** 2 / 2.0)
    if kind == "subsampled-steps":
        return min(_series(event["tv_bound"], event["ratio"], k), _integral(event["tv_bound"], event["ratio"], k))
    if kind == "selected":
        return divergence_of_choice(float(event["mu"]), event["law"], k)
    e, failing = released(event)
    if failing:
        return math.inf
    if k * e > FAR:  # ln((e^{ke} + e^{(1-k)e})/(1 + e^e)) with e^{ke} taken out
        return e - (math.log1p(math.exp(-e)) - math.log1p(math.exp((1 - 2 * k) * e))) / (k - 1)
    return math.log1p(math.expm1(k * e) * -math.expm1((1 - k) * e) / (1.0 + math.exp(e))) / (k - 1)


def _series(s: float, u: float, k: int) -> float:
    j = np.arange(2.0, k + 1.0)
    logs = gammaln(k + 1.0) - gammaln(j + 1.0) - gammaln(k - j + 1.0) + j * math.log(s)
    logs += np.where(j == 2.0, u * u + math.log(-math.expm1(-u * u)), math.log(2.0) + j * (j - 1.0) * u * u / 2.0)
    return float(np.logaddexp(0.0, logsumexp(logs))) / (k - 1)


def _integral(s: float, u: float, k: int) -> float:
    """Return ln(1 + int (r^k - 1)(1 - r^{1-k}) dN(0,1))/(k - 1) over r = 1 + s (e^{uz - u^2/2} - 1) > 1.

    Gauss-Legendre rule on short cells: at a peak of the integrand the second derivative of its logarithm is 1 at most
    in size, and it begins on a scale of 1/(k s u). It only falls beyond k u; with too many cells it is infinite.
    """
    step = 0.5 / max(1.0, u)
    last = math.ceil((k * u + 12.0) / step)
    if last > 1 << 15:
        return math.inf
    edges = u / 2.0 + np.concatenate([[0.0], step * np.geomspace(1e-9, 1.0, 40), step * np.arange(2.0, last + 1.0)])
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = np.diff(edges)[:, None] / 2.0
    z = (edges[:-1, None] + half + half * nodes).ravel()
    x = u * z - u * u / 2.0
    rest = math.log1p(-s) if s < 1.0 else -math.inf
    log_r = np.where(x < 1.0, np.log1p(s * np.expm1(np.minimum(x, 1.0))), np.logaddexp(rest, x + math.log(s)))
    height = k * log_r - z * z / 2.0
    most = float(height.max())
    grown = np.expm1(-k * log_r) * np.expm1(-(k - 1) * log_r) * np.exp(height - most)
    log_mass = most + math.log(float(grown @ (half * weights).ravel())) - 0.5 * math.log(2.0 * math.pi)
    return float(np.logaddexp(0.0, log_mass)) / (k - 1)


def by_selection(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """Bound a single choice, exactly or by the divergence at an order; refuse other events beside it."""
    if len(rows) != 1 or rows[0][1] != 1:
        raise AuditFailed("a certificate of one choice is about several")
    if "order" in numbers:
        return by_renyi(rows, epsilon, delta, numbers)
    return delta_of_choice(float(rows[0][0]["mu"]), rows[0][0]["law"], epsilon)


def by_game(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """Bound the game with neighbours that are chosen anew before each step, all of one kind: referee/audit/games.py."""
    kinds = {(float(event["tv_bound"]), float(event["ratio"])) for event, _ in rows}
    if len(kinds) != 1:
        raise AuditFailed("a certificate of a game is about steps of one kind alone")
    s, u = kinds.pop()
    return delta_of_game(s, u, sum(count for _, count in rows), epsilon, numbers["width"], delta)


class Method(NamedTuple):
    """How to recheck certificates of one accountant: which events, with which numbers."""

    delta: Callable[[list[Row], float, float, dict[str, float]], float]
    kinds: frozenset[str]
    numbers: Mapping[str, Range] = MappingProxyType({})
    optional: frozenset[str] = frozenset()


_RELEASES = frozenset({"release", "subsampled-release"})
_STEPS = frozenset({"subsampled-steps"})
_GAUSSIANS = frozenset({"gaussian"})
_ORDER = {"order": Range(2, 1 << 16, integer=True)}

METHODS: dict[str, Method] = {
    "basic": Method(by_sums, _RELEASES),
    "kov": Method(by_optimal_composition, _RELEASES),
    "gdp": Method(by_gaussians, _GAUSSIANS),
    "comparison": Method(
        by_comparison, _STEPS | _GAUSSIANS | _RELEASES, {"pad": Range(1e-12, 1e6), "rate": Range(1e-300, 1e12)}
    ),
    "pld": Method(
        by_losses,
        _STEPS | _GAUSSIANS | _RELEASES,
        {
            "width": Range(1e-18, 10.0),
            "tilt": Range(1e-6, 1e12),
            "points": Range(4, 1 << 21, integer=True),
            "beyond": Range(0.0, 1.0),
        },
    ),
    "rdp": Method(by_renyi, _STEPS | _GAUSSIANS | _RELEASES | {"selected"}, _ORDER),
    "selection": Method(by_selection, frozenset({"selected"}), _ORDER, optional=frozenset({"order"})),
    "game": Method(by_game, _STEPS, {"width": Range(1e-12, 10.0)}),
}


def runs(law: dict[str, Any]) -> tuple[Floats, Floats, float]:
    """Return k, ln w_k up to ``most``, and the logarithm of the sum of k w_k over all k."""
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

    s = Phi(-z), T(s) = Phi(mu - z), T'(s) = e^{mu z - mu^2/2}; x = Phi(y), N(x) = Phi(y - mu), s + x <= 1; f' = sum k
    P(K = k) q^{k-1}. The most informative outputs, of probability s so far, are ranked after the x of the least
    informative ones: docs/accounting.md, "A private choice", has the proof that nothing is worse. Nodes of z are a
    sixtieth apart; no guarantee is shown for mu above 37, where one run has an epsilon of 700.
    """
    if mu > 37.0:
        return 1.0
    k, logs, _ = runs(law)
    levels = np.linspace(0.0, 1.0, 50_001)
    slope = np.polynomial.polynomial.polyval(levels, k * np.exp(logs - logsumexp(logs)))
    y = np.append(-np.inf, np.linspace(-7.0, 4.0, 1200))
    x, least = ndtr(y), ndtr(y - mu)
    z = np.linspace(38.0, -10.0, 2881)
    heights = np.zeros(len(z))
    for place, (s, t) in enumerate(zip(ndtr(-z), ndtr(mu - z), strict=True)):
        better = np.interp(1.0 - t - least, levels, slope)
        worse = np.interp(1.0 - s - x, levels, slope)
        gained = math.exp(mu * z[place] - mu * mu / 2.0) * better - math.exp(min(epsilon, 700.0)) * worse
        heights[place] = max(0.0, float(gained.max()))
    return float((heights * np.exp(-z * z / 2.0)).sum() / math.sqrt(2.0 * math.pi) * (z[0] - z[1]))


def divergence_of_choice(mu: float, law: dict[str, Any], k: int) -> float:
    """Return the Renyi divergence of order k (Papernot and Steinke 2022, Theorems 2 and 6; K is at most ``most``).

    k mu^2/2 + ln(E[K]/P(K <= most))/(k - 1), and on top of it rate G(k/(k - 1); mu) for Poisson's law, else (1 + eta)
    times the least of (a - 1) mu^2/2 + ln(1/gamma)/a over the orders a >= 1 of one run.
    """
    _, logs, log_mean = runs(law)
    plain = k * mu * mu / 2.0 + (log_mean - float(logsumexp(logs))) / (k - 1)
    if law["name"] == "poisson":
        level = math.log(k / (k - 1.0))
        above, below = log_ndtr(mu / 2 - level / mu), level + log_ndtr(-mu / 2 - level / mu)
        return plain + float(law["rate"] * (np.exp(above) - np.exp(below)))
    stop = -math.log(law["gamma"])
    a = np.append(1.0, np.geomspace(1.0, 1.0 + 10.0 * math.sqrt(2.0 * stop) / mu, 20_000))
    return plain + (1.0 + float(law["eta"])) * float(np.min((a - 1.0) * mu * mu / 2.0 + stop / a))
