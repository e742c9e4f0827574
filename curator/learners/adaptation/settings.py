"""What both adaptation algorithms are told: public numbers, checked before a record is touched."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

from common.core.arrays import Floats
from common.numerics.randomness import RandomSource
from common.privacy.theorems.domain_adaptation import StepNoise, scales_share, step_noise
from common.vocabulary.learners.adaptation import MAX_SHARE, MIN_SHARE, AlgorithmSettings, split
from curator.learners.adaptation.domains import Domains
from curator.learners.adaptation.noisy_descent import HARD, Bounds, Course, sensitivities
from curator.learners.adaptation.objective import default_sharpness
from curator.learners.adaptation.public.discrepancy import Loss, private_discrepancy
from curator.learners.adaptation.public.public_side import PublicFit, fit_public
from curator.learners.adaptation.steps import Steps, scaled


class AdaptationSettings(AlgorithmSettings):
    """Settings of both algorithms, and what follows from them."""

    loss: ClassVar[Loss]
    convex: ClassVar[bool]

    @property
    def bounds(self) -> Bounds:
        """The public bounds on a record."""
        return Bounds(self.loss, self.radius, self.norm)

    def softmax(self, records: int) -> float:
        """Return the sharpness of the softmax; with printed steps, F has the greatest weight itself."""
        if self.sharpness is not None:
            return self.sharpness
        return HARD if self.convex and self.steps == "paper" else default_sharpness(records)

    def noise(self, domains: Domains, mu: float) -> tuple[float, float]:
        """Return sigma_1 and sigma_2 with which all iterations together are mu-GDP (see ``sensitivities``)."""
        self.check_mu(mu)
        first, second = sensitivities(self.bounds, domains, self.alpha)
        found = self._division(domains, first, second, mu)
        return first * found.gradient, second * found.scales

    def _division(self, domains: Domains, first: float, second: float, mu: float) -> StepNoise:
        if self.calibration == "paper":
            return step_noise(mu, self.iterations, 0.5, joint=False)
        share = self.scales_share
        if share is None:
            # In the paper's variables: s_2 = p^2 B, and U = 1.
            reference = domains.private_share(self.alpha)
            share = scales_share(
                self.radius * math.sqrt(domains.dimension) * first, math.sqrt(domains.people) * reference**2 * second
            )
        bounded = min(max(share, MIN_SHARE), MAX_SHARE)
        return step_noise(mu, self.iterations, bounded, joint=self.loss == "squared")


class Prepared(NamedTuple):
    """What is settled before the first iteration.

    Attributes
    ----------
    domains
        Within public bounds.
    discrepancy
        d, private or exact.
    noise
        sigma_1 and sigma_2, 0 without privacy.
    start
        Where w begins, shape (d,); None for 0.
    reach
        How far noise may take w in all iterations.
    """

    domains: Domains
    discrepancy: float
    noise: tuple[float, float]
    start: Floats | None
    reach: float


def prepare(domains: Domains, settings: AdaptationSettings, mu: float | None, source: RandomSource) -> Prepared:
    """Calibrate the noise, bring records within public bounds, and estimate the discrepancy with its part of mu."""
    first, noise = None, (0.0, 0.0)
    if mu is not None:
        first, rest = split(settings, mu)
        noise = settings.noise(domains, rest)
    domains = domains.bounded(settings.norm)
    found = private_discrepancy(
        domains, settings.radius, settings.norm, first, source.derive("discrepancy"), settings.loss
    )
    if settings.start == "zero":
        return Prepared(domains, found, noise, None, settings.radius)
    known = public_fit(domains, settings)
    return Prepared(domains, found, noise, known.weights, known.reach)


def public_fit(domains: Domains, settings: AdaptationSettings) -> PublicFit:
    """Return what the public side alone says, its rows within public bounds: a function of no private record."""
    return fit_public(domains.public.bounded(settings.norm), settings.loss, settings.radius, settings.norm)


def scaled_steps(settings: AdaptationSettings, prepared: Prepared) -> Steps:
    """Return the steps on v = p u; without a convex objective kappa_1 adds to the force on a scale, over v^2."""
    return scaled(
        prepared.domains,
        settings.bounds,
        settings.alpha,
        prepared.noise,
        settings.iterations,
        force=settings.bounds.greatest + prepared.discrepancy + (0.0 if settings.convex else settings.kappa_1),
        euclidean=settings.kappa_2,
        greatest=settings.kappa_inf,
        spread=settings.spread,
        reach=prepared.reach,
    )


def course(settings: AdaptationSettings, prepared: Prepared, steps: Steps, iterations: int, burn: int) -> Course:
    """Return what the loop does; the last ``iterations - burn`` iterates are averaged."""
    records = len(prepared.domains.source) + len(prepared.domains.target)
    return Course(
        alpha=settings.alpha,
        kappa_1=settings.kappa_1,
        kappa_2=settings.kappa_2,
        kappa_inf=settings.kappa_inf,
        sharpness=settings.softmax(records),
        convex=settings.convex,
        discrepancy=prepared.discrepancy,
        iterations=iterations,
        step_weights=steps.weights,
        steps_scales=(steps.source, steps.target),
        gradient_noise=prepared.noise[0],
        scales_noise=prepared.noise[1],
        burn=burn,
    )
