"""CnvxAdap (Algorithm 1): private adaptation for regression with linear predictors and the squared loss."""

from __future__ import annotations

import math
from typing import ClassVar

from common.core.arrays import Floats
from common.numerics.randomness import RandomSource
from common.vocabulary.learners.adaptation import ConvexFields
from curator.learners.adaptation.domains import Domains
from curator.learners.adaptation.libraries import one_thread
from curator.learners.adaptation.noisy_descent import Bounds, Found, descend
from curator.learners.adaptation.public.discrepancy import Loss
from curator.learners.adaptation.settings import (
    AdaptationSettings,
    Prepared,
    course,
    prepare,
    public_fit,
    scaled_steps,
)
from curator.learners.adaptation.steps import Steps


class ConvexSettings(ConvexFields, AdaptationSettings):
    """Settings of CnvxAdap, and what follows from them."""

    loss: ClassVar[Loss] = "squared"
    convex: ClassVar[bool] = True

    @property
    def bounds(self) -> Bounds:
        """The public bounds on a record; residuals within the clip, which must be a number by now."""
        if self.residual_clip == "public":
            raise AssertionError("the clip is not computed yet: call clipped first")
        return Bounds(self.loss, self.radius, self.norm, self.residual_clip)

    def clipped(self, domains: Domains) -> ConvexSettings:
        """Return the same settings with the number that ``residual_clip: public`` stands for.

        The noise and the loop both read it from :attr:`bounds`, so that no other clip is used than the one that the
        noise is calibrated to.
        """
        if self.residual_clip != "public":
            return self
        return self.model_copy(update={"residual_clip": public_fit(domains, self).residual_clip})

    @property
    def burn(self) -> int:
        """Iterates that are not averaged."""
        return {"average": 0, "suffix": self.iterations // 2, "last": self.iterations - 1}[self.output]


def fit_convex(domains: Domains, settings: ConvexSettings, mu: float | None, source: RandomSource) -> Floats:
    """Learn w by CnvxAdap; see :func:`solve`. Nothing else of it may be released."""
    return solve(domains, settings, mu, source).weights


def solve(domains: Domains, settings: ConvexSettings, mu: float | None, source: RandomSource) -> Found:
    """Minimize F of problem (6) by noisy projected gradient descent.

    The discrepancy and all iterations together are mu-GDP for the private side (replace one record in its place), by
    the exact composition of Gaussian mechanisms and post-processing; compare Theorem 4.3, whose noise is too
    little for large epsilon.

    ``paper`` steps are those of Algorithm 1, with the misprint of the public one put right. With them the scales
    hardly move: the private ones' noise alone is kept to 1/sqrt(n) on a scale of n. ``scaled`` steps work on
    v = p u, which is 1 at the lower bound of u, and have the maximum of the weights smoothed.

    With a clip C below Lambda r + 1 the residual e is replaced by e' = max(-C, min(e, C)) in every row of both sides:
    the row's gradient is 2 e' x, that of Huber's loss, and the force on its scale e'^2. Both are functions of the one
    number e', with |e'| <= C in the place of Lambda r + 1, so Lemma 4.2 and the joint bound
    (:mod:`common.privacy.theorems.domain_adaptation`) hold as they are with G = 2 C r and B = C^2. A clip
    that the public side alone decides is a constant for neighbours. The discrepancy is that of the squared loss
    without a clip, with its own sensitivity.

    Parameters
    ----------
    mu
        Of everything; None for CnvxAdap without privacy.
    source
        Of the noise.
    """
    with one_thread():
        settings = settings.clipped(domains)
        prepared = prepare(domains, settings, mu, source)
        steps = paper_steps(settings, prepared) if settings.steps == "paper" else scaled_steps(settings, prepared)
        plan = course(settings, prepared, steps, settings.iterations, settings.burn)
        return descend(prepared.domains, settings.bounds, plan, source.derive("noise"), prepared.start)


def paper_steps(settings: ConvexSettings, prepared: Prepared) -> Steps:
    """Return the steps of Algorithm 1, line 4, with m^{3/2}/(sqrt(T) alpha^2 (B + B_bar)) for the public scales.

    Those are for the gradient in u; v = p u moves by p^3 times as much for the gradient in v divided by p.
    """
    domains, bounds, root = prepared.domains, settings.bounds, math.sqrt(settings.iterations)
    first, second = prepared.noise
    total = bounds.greatest + settings.kappa_1 + settings.kappa_2 + settings.kappa_inf
    weights = settings.radius / (root * math.hypot(bounds.slope, math.sqrt(domains.dimension) * first))
    sides = []
    for side, share in enumerate(domains.shares(settings.alpha)):
        size = (len(domains.source), len(domains.target))[side]
        norm = total + (0.0 if side else bounds.greatest)
        noise = second if side == (domains.private == "target") else 0.0
        # p^3 size^{3/2}/(sqrt(T) (size p)^2 norm): sigma_2 of the gradient in u is p^2 times the one here.
        sides.append(size * share / size**1.5 / (root * math.hypot(norm, noise)))
    return Steps(weights, *sides)
