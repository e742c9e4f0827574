"""Recheck a privacy certificate by other means: nothing here is taken from the accountants or their theorems.

Read it on its own. A certificate lists events, an accountant's name and numbers, and claims (epsilon, delta). This
file works delta out again, at the claimed epsilon, adds what the noise's distance from its exact law costs, and refuses
a certificate that claims too little. It does not round outwards: it computes *central* values on finer grids than the
claim's, and allows a relative error of :data:`TOLERANCE` in delta. Symbols: P, Q laws of one release on neighbouring
samples; H(a) = sup P(E) - a Q(E); s = tv_bound; u = ratio.

    steps       P = (1-s) A + s B, Q = (1-s) A + s C, unit Gaussians with means in a ball of diameter u:
                H(a) <= s G(1 + (a-1)/s; u) for a >= 1 and, mirrored, below;   chi^2 <= s^2 (e^{u^2} - 1)
    releases    randomized response with failure delta;   of m draws: (m ln(1 + s(e^eps - 1)), ...)
    gaussian    G(a; mu) = Phi(mu/2 - ln(a)/mu) - a Phi(-mu/2 - ln(a)/mu)
    selected    the best of a secret number of runs: referee/audit/private_choices.py
    game        adversaries that choose neighbours anew before each step: referee/audit/games.py
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft

from common.core import canonical
from common.core.errors import AuditFailed
from common.numerics.special import gammaln, log_ndtr, logsumexp
from referee.audit.games import delta_of_game
from referee.audit.private_choices import delta_of_choice, divergence_of_choice

TOLERANCE = 0.01
"""Relative error in delta that a recomputation may have."""

NEIGHBOURS = "one record replaced, n public"
NUMBER = Fraction(1, 2**180)
"""Total variation between one number of Gaussian noise as it is drawn and the exact one: docs/privacy.md."""

Floats = NDArray[np.float64]
Row = tuple[dict[str, Any], int]
"""An event and how often it happens."""


def recheck(certificate: dict[str, Any], events: list[dict[str, Any]], epsilon: float, delta: float) -> float:
    """Check that a certificate is about exactly these events and claims at most (epsilon, delta), and rightly so.

    Returns
    -------
    delta as recomputed at the certificate's epsilon.

    Raises
    ------
    AuditFailed
        Naming what is wrong with the certificate.
    """
    rows = [(dict(entry["event"]), int(entry["count"])) for entry in certificate["events"]]
    told: Counter[bytes] = Counter()
    for event, count in rows:
        told[canonical.encode(event)] += count
    if told != Counter(canonical.encode(event) for event in events):
        raise AuditFailed("the privacy certificate is about other events than those on record")
    claimed, at = float(certificate["epsilon"]), float(certificate["delta"])
    if claimed > epsilon or at > delta:
        raise AuditFailed(f"the privacy certificate shows ({claimed:g}, {at:g}), not ({epsilon:g}, {delta:g})")
    if str(certificate["accountant"]) not in METHODS:
        raise AuditFailed(f"no way is known to recheck a certificate of {certificate['accountant']!r}")
    if certificate["neighbours"] != NEIGHBOURS:
        raise AuditFailed(f"the privacy certificate is about other neighbours: {certificate['neighbours']!r}")
    rows = [(event, count) for event, count in rows if event["kind"] != "none"]
    paid = _noise(rows, claimed, float(certificate["distance"]))
    if paid > at:
        raise AuditFailed(f"the privacy certificate's noise costs {paid:g}, which leaves nothing of delta = {at:g}")
    found = _recomputed(canonical.encode([certificate["accountant"], rows, claimed, at - paid, certificate["numbers"]]))
    if not found <= (at - paid) * (1.0 + TOLERANCE) + 1e-300:
        raise AuditFailed(
            f"the privacy certificate claims delta = {at:g} at epsilon = {claimed:g}, of which {paid:g} is for the "
            f"noise's distance from its exact law; recomputed it is {found:g} without that"
        )
    return paid + found


@lru_cache(maxsize=64)
def _recomputed(encoded: bytes) -> float:
    """Return delta as a method finds it; once for all run folders of one scenario, since it may take a second."""
    name, rows, epsilon, delta, numbers = canonical.decode(encoded)
    return METHODS[str(name)]([(event, count) for event, count in rows], epsilon, delta, numbers) if rows else 0.0


def _noise(rows: list[Row], epsilon: float, distance: float) -> float:
    """Return what delta pays for noise that is ``distance`` from its law: (1 + e^eps) times that (docs/privacy.md).

    Refused is less than all numbers together differ: 2^30 in each noisy step, 2^50 in each Gaussian release, in each of
    the ``most`` runs of a choice. All other noise is exact.
    """
    drawn = 0
    for event, count in rows:
        each = {"subsampled-steps": 1 << 30, "gaussian": 1 << 50, "selected": 1 << 50}.get(event["kind"], 0)
        drawn += releases(event, count) * each * int(event["law"]["most"] if event["kind"] == "selected" else 1)
    if not Fraction(distance) >= drawn * NUMBER:
        raise AuditFailed(
            f"the privacy certificate counts noise within {distance:g} of its exact law; its events draw "
            f"{drawn:,} numbers, which may be {float(drawn * NUMBER):g} from it"
        )
    return distance * (1.0 + math.exp(min(epsilon, 700.0)))


# Profiles -----------------------------------------------------------------------------------------------------------


def gaussian(losses: Floats, mu: float) -> Floats:
    """Return G(e^t; mu)."""
    x = losses / mu
    return np.asarray(np.exp(log_ndtr(mu / 2 - x)) - np.exp(losses + log_ndtr(-mu / 2 - x)))


def released(event: dict[str, Any]) -> tuple[float, float]:
    """Return the (epsilon, delta) of a release, on the sample or on draws."""
    epsilon, delta = float(event["epsilon"]), float(event["delta"])
    if event["kind"] == "release":
        return epsilon, delta
    star = event["draws"] * math.log1p(event["tv_bound"] * math.expm1(epsilon))
    return star, min(1.0, delta * math.expm1(star) / math.expm1(epsilon))


def profile(event: dict[str, Any]) -> tuple[Callable[[Floats], Floats], float]:
    """Return t -> H(e^t) for t >= 0, of one release in both directions, and a bound on chi^2."""
    kind = event["kind"]
    if kind == "subsampled-steps":
        s, u = float(event["tv_bound"]), float(event["ratio"])
        return lambda t: s * gaussian(np.log1p(np.expm1(t) / s), u), s * s * math.expm1(min(u * u, 700.0))
    if kind == "gaussian":
        return lambda t: gaussian(t, float(event["mu"])), math.inf
    if kind not in ("release", "subsampled-release"):
        raise AuditFailed(f"an event of kind {kind!r} has no profile")
    epsilon, delta = released(event)

    def height(t: Floats) -> Floats:
        pure = np.maximum(-np.expm1(t - epsilon), 0.0) / (1.0 + math.exp(-epsilon))
        return np.asarray(delta + (1.0 - delta) * pure)

    return height, math.inf if delta else 4.0 * math.sinh(epsilon / 2.0) ** 2


def releases(event: dict[str, Any], count: int) -> int:
    """Return how many single releases a row has."""
    return count * int(event.get("count", 1))


# Methods: (rows, epsilon, delta, numbers) -> delta ------------------------------------------------------------------


def by_gaussians(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """All releases Gaussian: their squares add up, exactly."""
    return _gaussian_delta(epsilon, math.fsum(releases(e, c) * e["mu"] ** 2 for e, c in rows))


def _gaussian_delta(epsilon: float, square: float) -> float:
    return float(gaussian(np.array([epsilon]), math.sqrt(square))[0])


def by_comparison(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """Each release beside a Gaussian pad costs a Gaussian of price m: docs/accounting.md, Theorem 2."""
    pad, rate = float(numbers["pad"]), float(numbers["rate"])
    square = lost = 0.0
    for event, count in rows:
        if event["kind"] == "gaussian":
            square += releases(event, count) * event["mu"] ** 2
            continue
        height, chi_squared = profile(event)
        allowance = rate * chi_squared
        price = max(_price(height, chi_squared, pad, allowance), chi_squared)
        square, lost = square + releases(event, count) * price, lost + releases(event, count) * allowance
    return lost + _gaussian_delta(epsilon, pad * pad + square)


def _price(height: Callable[[Floats], Floats], chi_squared: float, pad: float, allowance: float) -> float:
    """Return the least m with (m/2) e^{-m/8} / sqrt(1 + m/pad^2) >= K."""
    far = np.geomspace(1e-12, 60.0, 4000)
    reach = float(far[np.argmax(height(far) <= allowance / 2.0)])
    end = pad * np.linspace(0.0, 60.0, 60_001)
    edge = float(end[np.argmax(gaussian(end, pad * math.sqrt(1.5)) <= allowance / 2.0)])
    t = np.linspace(-reach, reach, 40_001)
    weight = np.exp(-np.abs(t) / 2.0) * height(np.abs(t)) * (t[1] - t[0])
    kernel, base = np.exp(edge * t / pad**2 - t * t / (2.0 * pad**2)), 2.0 * np.cosh(1.5 * t)
    # The worst w is the envelope where the kernel is largest, until chi^2 is used up.
    order = np.argsort(-kernel / base)
    used = np.cumsum((base * weight)[order])
    share = np.clip((chi_squared - used) / (base * weight)[order] + 1.0, 0.0, 1.0)
    k = float(((kernel * weight)[order] * share).sum())
    m = 2.0 * k
    for _ in range(200):
        m = 2.0 * k * math.exp(min(m, 400.0) / 8.0) * math.sqrt(1.0 + m / pad**2)
        if m > pad * pad:
            return math.inf
    return m if m < 0.51 * pad * pad else math.inf


def by_losses(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """Compose the envelopes' privacy losses on half the claim's width, by one tilted transform."""
    width, theta, points = float(numbers["width"]) / 2.0, float(numbers["tilt"]), 2 * int(numbers["points"])
    if not (0.0 < width < 10.0 and 0.0 < theta < 1e6 and 0 < points <= 1 << 22):
        raise AuditFailed("the privacy certificate's grid is none")
    squares = math.fsum(releases(e, c) * e["mu"] ** 2 for e, c in rows if e["kind"] == "gaussian")
    rows = [(e, releases(e, c)) for e, c in rows if e["kind"] != "gaussian"]
    if squares:
        rows.append(({"kind": "gaussian", "mu": math.sqrt(squares)}, 1))
    log_sum, scale, lost, center = np.zeros(points // 2 + 1, dtype=np.complex128), 0.0, 0.0, 0.0
    # Far losses count as infinite: a tilt that suits the bulk would blow them up.
    n, cut = np.arange(1, points // 2), 1e-4 * delta / sum(count for _, count in rows)
    for event, count in rows:
        height, _ = profile(event)
        values = height(width * np.arange(points // 2 + 1, dtype=np.float64))
        reach = min(int(np.argmax(values - values[-1] <= cut)) or points, points // 2 - 1)
        up, down, infinite = _pair(values[: reach + 1], width)
        lost += count * infinite
        rising, falling = up * np.expm1(theta * width * n[:reach]), down * np.expm1(-theta * width * n[:reach])
        cumulant = math.log1p(float(rising.sum() + falling.sum()) - infinite)
        masses = np.zeros(points)
        masses[1 : reach + 1] = (up + rising) * math.exp(-cumulant)
        masses[-reach:] = ((down + falling) * math.exp(-cumulant))[::-1]
        log_sum += count * np.log1p(rfft(masses) - masses.sum())
        scale += count * cumulant
        center += count * float(masses @ np.fft.fftfreq(points, 1.0 / points))
    first = round(center) - points // 2
    indices = first + np.arange(points)
    losses = width * indices
    composed = np.maximum(irfft(np.exp(log_sum), points)[indices % points], 0.0)
    above = losses > epsilon
    if above.all():
        raise AuditFailed("the privacy certificate's grid does not reach its epsilon")
    kept = losses[above]
    return lost + float(composed[above] @ (np.exp(scale - theta * kept) * -np.expm1(epsilon - kept)))


def _pair(values: Floats, width: float) -> tuple[Floats, Floats, float]:
    """Return P's masses at width, 2 width, ... and at their negatives, and at infinity: the chords of a profile."""
    levels = np.exp(width * np.arange(len(values)))
    slopes = np.append(np.diff(values) / np.diff(levels), 0.0)
    down = np.maximum(np.diff(slopes), 0.0)
    return down * levels[1:], down, float(values[-1])


def by_renyi(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """Add Renyi divergences at one order and convert (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    k = int(numbers["order"])
    if k < 2:
        raise AuditFailed(f"{k} is no Renyi order")
    rho = math.fsum(releases(event, count) * _divergence(event, k) for event, count in rows)
    return math.exp(min(0.0, (k - 1) * (rho - epsilon) + (k - 1) * math.log1p(-1.0 / k) - math.log(k)))


def _divergence(event: dict[str, Any], k: int) -> float:
    kind = event["kind"]
    if kind == "gaussian":
        return float(k * event["mu"] ** 2 / 2.0)
    if kind == "subsampled-steps":
        return min(_series(event["tv_bound"], event["ratio"], k), _integral(event["tv_bound"], event["ratio"], k))
    if kind == "selected":
        return divergence_of_choice(float(event["mu"]), event["law"], k)
    if kind in ("release", "subsampled-release") and released(event)[1] == 0.0:
        e = released(event)[0]
        return float((np.logaddexp(k * e, (1 - k) * e) - np.logaddexp(0.0, e)) / (k - 1))
    raise AuditFailed(f"an event of kind {kind!r} is not rechecked by Renyi divergences")


def _series(s: float, u: float, k: int) -> float:
    j = np.arange(2.0, k + 1.0)
    logs = gammaln(k + 1.0) - gammaln(j + 1.0) - gammaln(k - j + 1.0) + j * math.log(s)
    logs += np.where(j == 2.0, u * u + math.log(-math.expm1(-u * u)), math.log(2.0) + j * (j - 1.0) * u * u / 2.0)
    return float(np.logaddexp(0.0, logsumexp(logs))) / (k - 1)


def _integral(s: float, u: float, k: int) -> float:
    from scipy.integrate import quad  # here, since few runs need it, and it takes a fifth of a second to load

    def integrand(z: float) -> float:
        x = u * z - u * u / 2.0
        log_r = math.log1p(s * math.expm1(x)) if x < 30.0 else x + math.log(s)
        if k * log_r - z * z / 2.0 > 600.0:
            return math.inf
        grown = -math.expm1(-k * log_r) * -math.expm1(-(k - 1) * log_r)
        return grown * math.exp(k * log_r - z * z / 2.0) / math.sqrt(2.0 * math.pi)

    cuts = [u / 2.0 + step for step in (0.0, 2.0, 4.0, 8.0, 16.0, k * u / 2.0, k * u, k * u + 10.0)]
    whole = sum(quad(integrand, a, b, limit=200)[0] for a, b in zip(sorted(cuts), sorted(cuts)[1:], strict=False))
    return math.log1p(whole) / (k - 1) if math.isfinite(whole) else math.inf


def by_optimal_composition(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """Count all releases as the dearest (Kairouz, Oh and Viswanath 2015): l of k answers disagree."""
    costs = [released(event) for event, _ in rows]
    each, failing = max(c[0] for c in costs), max(c[1] for c in costs)
    k = sum(count for _, count in rows)
    if k > 20_000_000:
        raise AuditFailed("too many releases to recheck")
    l = np.arange(k // 2 + 1.0)  # noqa: E741
    logs = gammaln(k + 1.0) - gammaln(l + 1.0) - gammaln(k - l + 1.0) - l * each - k * math.log1p(math.exp(-each))
    gaps = np.maximum((k - 2.0 * l) * each - epsilon, 0.0)
    pure = float((np.exp(logs) * -np.expm1(-gaps)).sum())
    return 1.0 - math.exp(k * math.log1p(-failing)) * (1.0 - pure) if failing else pure


def by_selection(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """One choice and nothing else: exactly, or by the divergence at an order."""
    if len(rows) != 1 or rows[0][1] != 1:
        raise AuditFailed("a certificate of one choice is about several")
    if "order" in numbers:
        return by_renyi(rows, epsilon, delta, numbers)
    return delta_of_choice(float(rows[0][0]["mu"]), rows[0][0]["law"], epsilon)


def by_game(rows: list[Row], epsilon: float, delta: float, numbers: dict[str, float]) -> float:
    """Play with neighbours that are chosen anew before each of the steps, all of one kind: referee/audit/games.py."""
    kinds = {(event["kind"], float(event["tv_bound"]), float(event["ratio"])) for event, _ in rows}
    steps, width = sum(releases(event, count) for event, count in rows), float(numbers["width"])
    if len(kinds) != 1 or next(iter(kinds))[0] != "subsampled-steps":
        raise AuditFailed("a certificate of a game is about steps of one kind alone")
    _, s, u = kinds.pop()
    if not 0.01 * s * u < width < s * math.exp(u * u):
        raise AuditFailed("the privacy certificate's grid is none")
    return delta_of_game(s, u, steps, epsilon, width)


METHODS: dict[str, Callable[[list[Row], float, float, dict[str, float]], float]] = {
    "gdp": by_gaussians,
    "comparison": by_comparison,
    "pld": by_losses,
    "rdp": by_renyi,
    "kov": by_optimal_composition,
    "selection": by_selection,
    "game": by_game,
}
