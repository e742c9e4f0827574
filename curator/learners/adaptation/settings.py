"""What both adaptation algorithms are told: public numbers, checked before a record is touched."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from common.core.errors import BadScenario
from common.core.values import Value
from common.numerics.randomness import RandomSource
from common.privacy.rounding import down
from common.privacy.theorems.domain_adaptation import StepNoise, scales_share, step_noise
from curator.learners.adaptation.discrepancy import Loss, private_discrepancy
from curator.learners.adaptation.domains import Domains
from curator.learners.adaptation.noisy_descent import HARD, Bounds, Course, sensitivities
from curator.learners.adaptation.objective import default_sharpness
from curator.learners.adaptation.steps import Steps, scaled

MAX_NOISE = 2.0**20
"""Greatest sqrt(T)/mu: a sensitivity is at most 2^23 whole numbers, and its noise then exact in double precision."""
MIN_SHARE, MAX_SHARE = 1e-4, 0.99
"""Of the private scales: with less, or more, one of the noises would be beyond all use."""


class AdaptationSettings(Value):
    """Settings of both algorithms.

    Attributes
    ----------
    alpha
        In (0, 1): what the source weighs in the reference p = (alpha/m, (1 - alpha)/n).
    kappa_1, kappa_2, kappa_inf
        At least 0 (lambda in problem (7)): against weights away from p, against few effective records, against single
        large weights.
    iterations
        T.
    radius
        Lambda: ||w|| <= Lambda.
    norm
        r: features are scaled to ||x|| <= r.
    discrepancy_share
        Share of mu^2 that the estimate of the discrepancy gets.
    scales_share
        theta_2, share of each step that the private scales get; None for the division that minimizes the bound of
        Theorem 4.3 (with its U = 1).
    steps
        ``scaled`` (default) or ``printed``; see the algorithms.
    spread
        With noise, ``scaled`` steps let a private scale wander so far in all, by noise.
    sharpness
        mu of the softmax in the place of the greatest weight; None for (m + n) ln(m + n).
    calibration
        ``tight``, or ``paper``: both parts of a step get the same share, as the printed noise has it.
    """

    loss: ClassVar[Loss]
    convex: ClassVar[bool]

    alpha: float = Field(gt=0, lt=1)
    kappa_1: float = Field(default=1.0, ge=0, le=1e9)
    kappa_2: float = Field(default=1.0, ge=0, le=1e9)
    kappa_inf: float = Field(default=0.0, ge=0, le=1e9)
    iterations: int = Field(default=15_000, ge=1, le=10**9)
    radius: float = Field(default=1.0, gt=0, le=1e6)
    norm: float = Field(default=1.0, gt=0, le=1e6)
    discrepancy_share: float = Field(default=0.05, gt=0, lt=1)
    scales_share: float | None = Field(default=None, ge=MIN_SHARE, le=MAX_SHARE)
    steps: Literal["scaled", "printed"] = "scaled"
    spread: float = Field(default=0.25, gt=0, le=1e6)
    sharpness: float | None = Field(default=None, gt=0)
    calibration: Literal["tight", "paper"] = "tight"

    @property
    def bounds(self) -> Bounds:
        """The public bounds on a record."""
        return Bounds(self.loss, self.radius, self.norm)

    def softmax(self, records: int) -> float:
        """Return the sharpness of the softmax; with printed steps, F has the greatest weight itself."""
        if self.sharpness is not None:
            return self.sharpness
        return HARD if self.convex and self.steps == "printed" else default_sharpness(records)

    def check_mu(self, mu: float) -> None:
        """Refuse a mu of all iterations that asks for more noise than double precision has whole numbers for.

        Raises
        ------
        BadScenario
            Saying what it wants.
        """
        if math.sqrt(self.iterations) > MAX_NOISE * mu:
            raise BadScenario(f"mu = {mu:g} is too small for {self.iterations} iterations: take fewer, or a larger mu")

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


def split(settings: AdaptationSettings, mu: float) -> tuple[float, float]:
    """Return the mu of the discrepancy and of all iterations, whose squares sum to at most mu^2."""
    share = settings.discrepancy_share
    return down(mu * math.sqrt(share)), down(mu * math.sqrt(1.0 - share))


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
    """

    domains: Domains
    discrepancy: float
    noise: tuple[float, float]


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
    return Prepared(domains, found, noise)


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
