"""A public source weighted to resemble the target: private discrepancy minimization, and non-private baselines."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadScenario
from common.core.machine import on_one_thread
from common.learners.adaptation import MatchingFields
from common.learners.adaptation import MatchingSettings as PublicSettings
from common.numerics.randomness import RandomSource
from common.privacy.rounding import down, up
from curator.learners.adaptation import Adaptation, Adapted, ResponseOrLabel
from curator.learners.base import LEARNERS, CallSizes
from curator.learners.discrepancy import discrepancy
from curator.learners.domains import Domains, DomainSide, least_squares
from curator.learners.source_weights import KernelMeanMatching, Penalties, alternate, match, smooth_norm
from curator.mechanisms.base import central
from curator.mechanisms.selection import choose_level

MAX_MATCHED = 4096  # source rows that kernel mean matching takes at most: its matrix has their square
PARTS = 64  # whole parts into which the sensitivity of a score is divided
LEVELS = 1 << 22  # maximum number of score levels; more smoothing or more people than fit are refused
_GDP = math.sqrt(math.pi / 8.0)


def selection_epsilon(mu: float, iterations: int) -> float:
    """Return the epsilon with which ``iterations`` exponential mechanisms are mu-GDP together.

    *Theorem.* The exponential mechanism with epsilon, whose probabilities are proportional to exp(epsilon u/(2 D)) for
    scores u of sensitivity D, is (epsilon sqrt(pi/8))-GDP.

    *Proof.* Between neighbours, the ratio of the probabilities of two outcomes changes by a factor of at most e^epsilon
    (the normalizer cancels). So logit p - logit q <= epsilon for the rejection probabilities p and q of any test, since
    p and 1 - p are sums. With I(u) = phi(Phi^-1(u)), the derivative of Phi^-1(u) in logit u is u (1 - u)/I(u), which is
    at most sqrt(pi/8): let D(u) = I(u) - sqrt(8/pi) u (1 - u). D and D' are 0 at 1/2, D is 0 at 1, and D'' = 2
    sqrt(8/pi) - 1/I decreases on [1/2, 1] from above 0, so D is convex, then concave, and nowhere negative. Hence
    Phi^-1(p) - Phi^-1(q) <= epsilon sqrt(pi/8), which is mu-GDP by definition. Under adaptive composition mu^2 adds up.
    """
    return down(mu / math.sqrt(iterations) / _GDP, 16.0)


def private_shares(
    source: Floats, target: Floats, settings: MatchingFields, mu: float | None, random: RandomSource
) -> Floats:
    """Weight source rows by Frank-Wolfe, with vertices chosen by the exponential mechanism: mu-GDP for the target.

    Bassily, Mohri and Suresh (2022) minimize a smooth approximation of the weighted discrepancy by private Frank-Wolfe.
    Here, with M_T the mean of z z' over the target and D(q) = M_T - sum_i q_i x_i x_i', the approximation is

        s ln tr(e^(D/s) + e^(-D/s)),   within s ln(2d) above ||D||_2,

    over the simplex. Start from equal weights. In each of K steps, with W the gradient of the smoothed norm at D(q),
    choose row i with chance proportional to exp(epsilon u_i/(2 sens)), u_i = x_i' W x_i, and move q towards it by
    2/(k + 2 + ``kept``).

    *Sensitivity.* Replacing one of n rows moves D by (z z' - y y')/n, of spectral norm at most r^2/n (both are between
    0 and r^2). The smoothed norm is 1/s-smooth in the spectral norm (Nesterov 2007), so W moves by at most r^2/(n s) in
    the nuclear norm, and u_i by at most r^4/(n s) =: sens. Scores are rounded to whole parts of sens/:data:`PARTS`; a
    replaced row moves them by at most PARTS + 1, rounding included. Earlier choices are released, and q is a function
    of them. The rest, the source's labels included, is post-processing. Constants are derived here, without the paper.
    """
    norm, smoothing = settings.norm * (1.0 + 2.0**-30), settings.smoothing
    moment = target.T @ target / len(target)
    shares = np.full(len(source), 1.0 / len(source))
    unit = part_of(settings, len(target))
    epsilon = None if mu is None else selection_epsilon(mu, settings.iterations) / (PARTS + 1)
    for step in range(1, settings.iterations + 1):
        _, dual = smooth_norm(moment - (source * shares[:, None]).T @ source, smoothing)
        scores = np.einsum("ij,ij->i", source @ dual, source)
        row = int(scores.argmax())
        if epsilon is not None:
            levels = np.floor((norm**2 - np.clip(scores, -(norm**2), norm**2)) / unit).astype(np.int64)
            row = _choose(levels, 1 + math.ceil(2.0 * norm**2 / unit), epsilon, random.derive(step))
        rate = 2.0 / (step + 2.0 + settings.kept)
        shares *= 1.0 - rate
        shares[row] += rate
    return shares


def part_of(settings: MatchingFields, people: int) -> float:
    """Return the unit of scores for a target of ``people``; BadScenario if scores would have too many levels."""
    norm = settings.norm * (1.0 + 2.0**-30)
    unit = up(norm**4 / (people * settings.smoothing) / PARTS, 16.0)
    if 2.0 * norm**2 / unit > LEVELS:
        raise BadScenario(
            f"smoothing = {settings.smoothing:g} makes too many parts of scores of {people} people: take a smaller one"
        )
    return unit


def _choose(levels: Floats, most: int, epsilon: float, random: RandomSource) -> int:
    people = np.bincount(levels, minlength=most + 1)
    level = choose_level(people, epsilon, random.derive("level"))
    rank = int(random.derive("rank").integers(int(people[level]), 1)[0])
    return int(np.flatnonzero(levels == level)[rank])


def matched(domains: Domains, settings: MatchingFields, mu: float | None, random: RandomSource) -> Floats:
    """Return w, shape (d,), in the ball: mu-GDP for the target with ``private-dm``; other methods are not private.

    ``norm`` of the settings bounds rows with their constant.
    """
    domains = domains.bounded(settings.norm)
    source, target = domains.source, domains.target
    if settings.method == "sbest":
        return _best_effort(domains, settings)
    if settings.method == "kmm":
        rows = np.linspace(0, len(source) - 1, min(len(source), MAX_MATCHED)).astype(np.int64)
        source = DomainSide(source.features[rows], source.responses[rows])
        shares = KernelMeanMatching(source.features).weights(target.features)
        shares /= shares.sum()
    elif settings.method == "dm":
        shares = match(source.features, target.features).shares
    else:
        shares = private_shares(source.features, target.features, settings, mu, random)
    return least_squares(source, shares, settings.radius)


def _best_effort(domains: Domains, settings: MatchingFields) -> Floats:
    gap, sizes = discrepancy(domains, settings.radius, settings.norm).value, domains.sizes
    rows = DomainSide.joined([domains.source, domains.target])
    return alternate(
        lambda shares, start: least_squares(rows, shares, settings.radius),
        lambda weights: np.asarray(np.square(rows.features @ weights - rows.responses)),
        np.repeat([gap, 0.0], sizes),
        np.repeat(domains.shares(settings.alpha), sizes),
        Penalties(settings.kappa_1, settings.kappa_2, settings.kappa_inf),
    ).weights


@central
@dataclass(frozen=True)
class MatchedSource(Adaptation):
    """A model of the public source, weighted by :func:`matched`; releases w and is mu-GDP for the target."""

    def solved(self, domains: Domains, source: RandomSource) -> Adapted:
        with on_one_thread():
            return matched(domains, self.settings, self.mu, source), None


@LEARNERS.register("matching")
class Matching(PublicSettings, ResponseOrLabel):
    """A linear model, by the squared loss, of a public source that is weighted to resemble the curator's people."""

    algorithm: ClassVar = MatchingFields
    by: ClassVar = MatchedSource
    examples: ClassVar = ({"mu": 2.0, "iterations": 5, "smoothing": 0.2, "features": 3, "norm": 1.8, "radius": 3.0},)

    def check_people(self, people: int) -> None:
        super().check_people(people)
        part_of(self, people)

    def noise_numbers(self, sizes: CallSizes) -> int:
        return 0  # every choice draws whole numbers exactly, no Gaussian noise

    def room(self, sizes: CallSizes) -> int:
        matrix = 8 * min(sizes.public, MAX_MATCHED) ** 2 if self.method == "kmm" else 0
        return super().room(sizes) + matrix + 32 * LEVELS
