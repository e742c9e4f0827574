"""NCnvxAdap (Algorithm 2): private adaptation for a loss that is only Lipschitz and smooth; here the logistic loss."""

from __future__ import annotations

import math
from typing import ClassVar

from common.core.arrays import Floats
from common.numerics.randomness import RandomSource
from common.vocabulary.learners.adaptation import NonconvexFields
from curator.learners.adaptation.domains import Domains
from curator.learners.adaptation.libraries import one_thread
from curator.learners.adaptation.noisy_descent import Found, descend
from curator.learners.adaptation.public.discrepancy import Loss
from curator.learners.adaptation.settings import AdaptationSettings, Prepared, course, prepare, scaled_steps
from curator.learners.adaptation.steps import Steps


class NonconvexSettings(NonconvexFields, AdaptationSettings):
    """Settings of NCnvxAdap, and what follows from them; responses are labels -1 and +1."""

    loss: ClassVar[Loss] = "logistic"
    convex: ClassVar[bool] = False


def fit_nonconvex(domains: Domains, settings: NonconvexSettings, mu: float | None, source: RandomSource) -> Floats:
    """Learn w by NCnvxAdap; see :func:`solve`. Nothing else of it may be released."""
    return solve(domains, settings, mu, source).weights


def solve(domains: Domains, settings: NonconvexSettings, mu: float | None, source: RandomSource) -> Found:
    """Seek a stationary point of J of problem (7) by noisy projected gradient descent.

    The discrepancy's bound and all T iterations together are mu-GDP for the private side (replace one record in its
    place), by the exact composition of Gaussian mechanisms and post-processing; compare Theorem 5.2. The number
    t* of the iterate that is released is drawn first, from 1..T, and the loop stops there; the noise and the charge are
    those of T iterations, so a chosen t* tells nothing and costs nothing more.

    ``paper`` steps are 1/beta_bar for w and u; the scales then move by O(1/n^2) of themselves. ``scaled`` ones
    work on v = p u, with sensitivity p B, and their own step.

    Parameters
    ----------
    mu
        Of everything; None for NCnvxAdap without privacy.
    source
        Of t* and of the noise.
    """
    with one_thread():
        prepared = prepare(domains, settings, mu, source)
        steps = paper_steps(settings, prepared) if settings.steps == "paper" else scaled_steps(settings, prepared)
        stop = settings.iterations
        if settings.output == "random":
            stop = 1 + int(source.derive("iterate").integers(settings.iterations, 1)[0])
        plan = course(settings, prepared, steps, stop, 0 if settings.output == "average" else stop - 1)
        return descend(prepared.domains, settings.bounds, plan, source.derive("noise"), prepared.start)


def paper_steps(settings: NonconvexSettings, prepared: Prepared) -> Steps:
    """Return 1/beta_bar, :func:`smoothness`, for w and u: p^3 times as much for v and its gradient divided by p."""
    step = 1.0 / smoothness(settings, prepared.domains)
    source, target = prepared.domains.shares(settings.alpha)
    return Steps(step, step * source**3, step * target**3)


def smoothness(settings: NonconvexSettings, domains: Domains) -> float:
    """Return beta_bar of Lemma 5.1, J's smoothness in (w, u), from the terms of its proof (20) and (21)."""
    bounds, (m, n) = settings.bounds, (len(domains.source), len(domains.target))
    sharpness = settings.softmax(m + n)
    alpha, other = settings.alpha, 1.0 - settings.alpha
    own = sum(
        settings.kappa_2 * share**3 / k**2
        + 2.0
        * share**3
        * (abs(loss - settings.kappa_1) + settings.kappa_2 * math.sqrt(k_other) + settings.kappa_inf)
        / k**2.5
        + settings.kappa_inf * sharpness * share**4 * (k**-3.0 + k**-3.5)
        for share, k, k_other, loss in (
            (alpha, m, n, bounds.greatest + bounds.width),
            (other, n, m, bounds.greatest),
        )
    )
    own += 2.0 * settings.kappa_inf * sharpness * (alpha * other) ** 2 / (m * n) ** 1.5
    cross = bounds.slope * (alpha**2 / m**1.5 + other**2 / n**1.5)
    return float(bounds.smoothness + own + cross)
