"""CnvxAdap and NCnvxAdap (Bassily, Cortes, Mao and Mohri 2024, Algorithms 1 and 2): settings, steps, learners."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadScenario
from common.core.machine import on_one_thread
from common.learners.adaptation import AdaptationSettings as PublicSettings
from common.learners.adaptation import (
    AlgorithmFields,
    CnvxAdapSettings,
    ConvexFields,
    NcnvxAdapSettings,
    NonconvexFields,
    Private,
    bound_mu,
    split,
)
from common.local.hypotheses.hypothesis import Hypothesis, Linear, Regressor
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import Learned
from common.operations.target_bound import LossClass, Released, TargetBound, target_bound
from common.privacy.events import Event, Gaussian, NonPrivate
from curator.learners.base import LEARNERS, CallSizes, Learner
from curator.learners.discrepancy import TOLERANCE, greatest_loss, private_value, reach_of, released_value, sensitivity
from curator.learners.domains import Domains, DomainSide, Loss, Whitening, fit_public, whitening
from curator.learners.noisy_descent import Bounds, DescentResult, DescentSettings, Prepared, Steps, descend
from curator.mechanisms.access import Access
from curator.mechanisms.base import CentralMechanism, central


class ConvexSettings(ConvexFields, DescentSettings):
    """Settings of CnvxAdap and values derived from them; responses are labels unless ``response`` names a feature."""

    loss: ClassVar[Loss] = "squared"
    convex: ClassVar[bool] = True
    response: int | None = None

    @property
    def tested(self) -> tuple[Literal["squared", "zero-one"], float]:
        return ("squared", 0.25) if self.response is not None else ("zero-one", 1.0)

    @property
    def bounds(self) -> Bounds:
        if self.residual_clip == "public":
            raise AssertionError("the clip is not computed yet: call clipped first")
        return Bounds(self.loss, self.radius, self.norm, self.residual_clip)

    def clipped(self, domains: Domains) -> Self:
        """Return these settings with ``residual_clip: public`` replaced by a number that the public side determines."""
        if self.residual_clip != "public":
            return self
        return self.model_copy(update={"residual_clip": self.public_fit(domains).residual_clip})

    def iterates(self, source: RandomSource) -> tuple[int, int]:
        burn = {"average": 0, "suffix": self.iterations // 2, "last": self.iterations - 1}[self.output]
        return self.iterations, burn

    def printed_steps(self, prepared: Prepared) -> Steps:
        """Return the steps of Algorithm 1, line 4, with m^{3/2}/(sqrt(T) alpha^2 (B + B_bar)) for the public scales.

        Those are for u. The steps of v = p u, for its gradient divided by p, are p^3 times as large.
        """
        domains, bounds, root = prepared.domains, self.bounds, math.sqrt(self.iterations)
        first, second = prepared.noise
        total = bounds.greatest + self.kappa_1 + self.kappa_2 + self.kappa_inf
        weights = self.radius / (root * math.hypot(bounds.slope, math.sqrt(domains.dimension) * first))
        sides = []
        for side, (size, share) in enumerate(zip(domains.sizes, domains.shares(self.alpha), strict=True)):
            norm = total + (0.0 if side else bounds.greatest)
            noise = second if side == (domains.private == "target") else 0.0
            # p^3 size^{3/2}/(sqrt(T) (size p)^2 norm): sigma_2 of the gradient in u is p^2 times the one here.
            sides.append(size * share / size**1.5 / (root * math.hypot(norm, noise)))
        return Steps(weights, *sides)


class NonconvexSettings(NonconvexFields, DescentSettings):
    """Settings of NCnvxAdap and values derived from them; responses are the labels -1 and +1."""

    loss: ClassVar[Loss] = "logistic"
    convex: ClassVar[bool] = False

    @property
    def tested(self) -> tuple[Literal["squared", "zero-one"], float]:
        return "zero-one", 1.0 / math.log(2.0)

    def iterates(self, source: RandomSource) -> tuple[int, int]:
        stop = self.iterations
        if self.output == "random":
            stop = 1 + int(source.derive("iterate").integers(self.iterations, 1)[0])
        return stop, 0 if self.output == "average" else stop - 1

    def printed_steps(self, prepared: Prepared) -> Steps:
        """Return 1/beta_bar (:func:`smoothness`) for w, and p^3/beta_bar for v, whose gradient is divided by p."""
        step = 1.0 / smoothness(self, prepared.domains)
        source, target = prepared.domains.shares(self.alpha)
        return Steps(step, step * source**3, step * target**3)


def solve(domains: Domains, settings: DescentSettings, mu: float | None, source: RandomSource) -> DescentResult:
    """Run CnvxAdap or NCnvxAdap, by the type of the settings; only the weights, and the bound, may be released.

    Both are noisy projected gradient descent: CnvxAdap minimizes F of problem (6), NCnvxAdap seeks a stationary point
    of J of problem (7). The discrepancy and all T iterations together are mu-GDP for the private side (replace one
    record in its place), by the exact composition of Gaussian mechanisms and by post-processing. Compare Theorem 4.3,
    whose noise is too small for large epsilon, and Theorem 5.2. If NCnvxAdap releases a random iterate, its index is
    drawn first and the loop stops there. Noise and charge are those of T iterations, so the index reveals nothing and
    adds no cost.

    ``paper`` steps are those of Algorithm 1, with the misprint of the public step corrected, and 1/beta_bar. With them
    the scales hardly move. ``scaled`` steps work on v = p u, which is 1 at the lower bound of u, with sensitivity p B
    and a step size of their own; they use a smoothed maximum of the weights.

    With a clip C below Lambda r + 1, the residual e is replaced by e' = max(-C, min(e, C)) in every row of both sides.
    The row's gradient is then 2 e' x, that of Huber's loss, and the force on its scale is e'^2. Both are functions of
    the one number e', and |e'| <= C replaces the bound Lambda r + 1. So Lemma 4.2 and the joint bound
    (:mod:`common.privacy.theorems.gaussian_dp`) hold unchanged with G = 2 C r and B = C^2. A clip that depends on the
    public side alone is the same for neighbours. The discrepancy is that of the squared loss without a clip, with its
    own sensitivity.

    Args:
        mu: Privacy parameter of everything together; None for no privacy.
        source: Randomness of the noise and of the index of a random iterate.
    """
    with on_one_thread():
        settings = settings.clipped(domains)
        prepared = prepare(domains, settings, mu, source)
        settings = settings.weighted(prepared.domains.sizes, prepared.discrepancy)
        steps = settings.printed_steps(prepared) if settings.steps == "paper" else scaled_steps(settings, prepared)
        descent = descend(settings, prepared, steps, *settings.iterates(source), source.derive("noise"))
        if not settings.bound_share:
            return descent
        return replace(descent, bound=bound_on_target(settings, prepared, descent.weights, mu, source.derive("bound")))


def bound_on_target(
    settings: DescentSettings, prepared: Prepared, weights: Floats, mu: float | None, source: RandomSource
) -> TargetBound:
    """Return :func:`common.operations.target_bound.target_bound`, the right side of Theorem B.1, for released w.

    *Privacy.* w and the estimate of the discrepancy were released by mechanisms with mu_1 and mu_2
    (:func:`common.learners.adaptation.split`). At that w, one private record moves its side's mean loss by at most
    B(w)/k: B(w) is the greatest difference of two losses at w, k the side's size. With Gaussian noise the mean is
    mu_3-GDP (:func:`common.learners.adaptation.bound_mu`); mu_1^2 + mu_2^2 + mu_3^2 <= mu^2. All else is public.

    *Its numbers.* The losses are those *without* a clip of residuals, since their discrepancy was estimated; the clip
    applies to gradients only. By Talagrand's contraction, for w.x with ||w|| <= Lambda and ||x|| <= r, c = G Lambda.
    The c and B of the whole ball also hold for a ``local`` discrepancy, whose centre depends on a sample. If w is
    outside that smaller ball, B, the greatest possible difference of losses, replaces the discrepancy.

    Agents measure a quarter of the squared error of 2 y - 1, which is in the units of y, or mistakes. These are never
    above the squared loss of a label, nor above the logistic loss over ln 2.
    """
    domains, loss = prepared.domains, settings.loss
    ball, length = Bounds(loss, settings.radius, settings.norm), float(np.linalg.norm(weights)) * (1.0 + 2.0**-40)
    bounds = Bounds(loss, length, settings.norm)
    greatest = bounds.greatest
    slack = greatest * (domains.dimension + 2) * 2.0**-22  # rounding in single precision
    losses = []
    for side in (domains.source, domains.target):
        mean = float(bounds.losses(side.features @ weights, side.responses).mean())
        released = Released(mean, 0.0, slack)
        if side is not domains.public:
            change = bounds.width / len(side) + 2.0 * TOLERANCE * greatest
            part = None if mu is None else bound_mu(settings, mu)
            mean = private_value(mean, greatest, change, part, source)
            released = released_value(mean, greatest, change, part, slack)
        losses.append(released)
    radius, around = settings.ball(domains)
    reach = reach_of(radius, around)
    widest, change = greatest_loss(loss, reach, settings.norm), sensitivity(domains, reach, settings.norm, loss)
    gap = released_value(prepared.discrepancy, widest, change, None if mu is None else split(settings, mu)[0])
    if around is not None and np.linalg.norm(weights - around) > radius:
        gap = Released(ball.width, 0.0, 0.0)
    tested, scale = settings.tested
    numbers = LossClass(ball.complexity, ball.width)
    return target_bound(tested, scale, settings.alpha, domains.sizes, (losses[0], losses[1]), gap, numbers)


def prepare(domains: Domains, settings: DescentSettings, mu: float | None, source: RandomSource) -> Prepared:
    """Calibrate the noise, bring records within public bounds, and estimate the discrepancy with its part of mu.

    *Few labels* (``labelled`` k). Let h_0 be the public side's fit. For every w,

        L(T, w) - L(S, w)  =  [l_T(w, h_0) - l_S(w, h_0)]  +  [(L - l)(T, w) - (L - l)(S, w)],

    where l is the loss against the prediction of h_0 instead of the label. The supremum of the first bracket is the
    unlabelled discrepancy (Mansour, Mohri and Rostamizadeh 2009, at h_0). It reads no label, is estimated from all n
    private people with sensitivity B/n as the labelled one, and replaces it. That the second bracket is small, that is,
    that h_0 fits the labels of both domains about equally well, is an assumption: nothing here bounds it. The
    iterations use only the first k people, in the curator's order, each of weight p = (1 - alpha)/k. All else is as for
    a target of k people. A person among them is in both parts, which compose as before.
    """
    first, rest = (None, None) if mu is None else split(settings, mu)
    if rest is not None:
        settings.check_mu(rest)
    domains = measured = domains.bounded(settings.norm)
    opening = settings.opening(domains, source)
    if settings.labelled is not None:
        fit = fit_public(domains.public, settings.loss, settings.radius, settings.norm)
        measured = domains.labelled_by(fit.weights, settings.loss)
        domains = domains.first_of_target(settings.labelled)
    estimate = settings.discrepancy(measured, opening, first, source.derive("discrepancy"))
    settings = settings.weighted(domains.sizes, estimate)
    return Prepared(domains, estimate, (0.0, 0.0) if rest is None else settings.noise(domains, rest), opening)


def scaled_steps(settings: DescentSettings, prepared: Prepared) -> Steps:
    """Return step sizes for w and v = p u: one over the curvature, and at most what the noise allows.

    The weights sum to at most 1, so the objective is beta-smooth in w and the step is 1/beta. The row's loss and the
    norms act on a scale divided by v^2; their curvature is at most twice their sum at v = 1, and the step is one over
    that. If the objective is not convex, kappa_1 acts as well. Noise of standard deviation sigma moves an iterate by
    step sigma sqrt(T) in T steps. So a step is also at most reach/(sigma_1 sqrt(d T)) for w (in the proof of Theorem
    4.3 reach is the radius) and ``spread``/(sigma_2 sqrt(T)) for a private scale.
    """
    domains, root = prepared.domains, math.sqrt(settings.iterations)
    first, second = prepared.noise
    force = settings.bounds.greatest + prepared.discrepancy + (0.0 if settings.convex else settings.kappa_1)
    weights, dimension = 1.0 / prepared.opening.smoothness, settings.bounds.parameters(domains.dimension)
    if first > 0.0:
        weights = min(weights, prepared.opening.reach / (first * root * math.sqrt(dimension)))
    sizes, shares = domains.sizes, domains.shares(settings.alpha)
    norm = math.sqrt(sum(size * share**2 for size, share in zip(sizes, shares, strict=True)))
    sides = []
    for side, (size, share) in enumerate(zip(sizes, shares, strict=True)):
        pulled = force + settings.kappa_2 * share / norm + settings.kappa_inf * (2.0 + math.log(sum(sizes))) / size
        step = 0.5 / pulled
        if second > 0.0 and side == (domains.private == "target"):
            step = min(step, settings.spread / (second * root))
        sides.append(step)
    return Steps(weights, *sides)


def smoothness(settings: NonconvexSettings, domains: Domains) -> float:
    """Return beta_bar of Lemma 5.1, the smoothness of J in (w, u), from the terms (20) and (21) of its proof."""
    bounds, (m, n) = settings.bounds, domains.sizes
    sharpness = settings.softmax(m + n)
    alpha, other = settings.alpha, 1.0 - settings.alpha
    scales = sum(
        settings.kappa_2 * share**3 / k**2
        + 2.0
        * share**3
        * (abs(loss - settings.kappa_1) + settings.kappa_2 * math.sqrt(k_other) + settings.kappa_inf)
        / k**2.5
        + settings.kappa_inf * sharpness * share**4 * (k**-3.0 + k**-3.5)
        for share, k, k_other, loss in ((alpha, m, n, bounds.greatest + bounds.width), (other, n, m, bounds.greatest))
    )
    scales += 2.0 * settings.kappa_inf * sharpness * (alpha * other) ** 2 / (m * n) ** 1.5
    cross = bounds.slope * (alpha**2 / m**1.5 + other**2 / n**1.5)
    return float(bounds.smoothness + scales + cross)


Adapted = tuple[Floats, TargetBound | None]
"""What adaptation releases: w and, if requested, the bound of Theorem B.1 on its loss."""


@central
@dataclass(frozen=True)
class Adaptation(CentralMechanism[DomainSide, Adapted]):
    """CnvxAdap or NCnvxAdap, by the type of the settings: mu-GDP for the private side.

    The algorithms first bring all rows within the public bounds, whatever the input, and calibrate the noise from mu.
    Without a mu there is no privacy at all.
    """

    settings: Any
    public: DomainSide
    private: Private
    mu: float | None

    @property
    def price(self) -> Event:
        return NonPrivate() if self.mu is None else Gaussian(mu=self.mu)

    def apply(self, values: Iterator[DomainSide], source: RandomSource) -> Adapted:
        side = DomainSide.joined(list(values))
        pair = (side, self.public) if self.private == "source" else (self.public, side)
        return self.solved(Domains(*pair, self.private), source)

    def solved(self, domains: Domains, source: RandomSource) -> Adapted:
        """Run the algorithm, which brings all records within public bounds itself."""
        descent = solve(domains, self.settings, self.mu, source)
        return descent.weights, descent.bound


class AdaptationLearner(PublicSettings, Learner):
    """A learner on the sample itself and a public sample of another domain: mu-GDP (replace one record in its place).

    It ignores the weights of the reweighed sample. It sees both samples as x' = (x - center, 1) or (whitened x, 1).
    """

    @property
    def used_features(self) -> int:
        return self.features

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        if dimension < self.used_features:
            raise BadScenario(
                f"{self.name} looks at features up to number {self.used_features - 1}, people have {dimension}"
            )

    def check_public(self, public: Records | None) -> None:
        self._check_sample(public)

    def check_people(self, people: int) -> None:
        if self.labelled is not None and self.labelled > people:
            raise BadScenario(f"labelled: the first {self.labelled} people have labels, the curator has {people}")

    def noise_numbers(self, sizes: CallSizes) -> int:
        return self.iterations * (sizes.people + sizes.public + self.features + 1) + 1 + bool(self.bound_share)

    def room(self, sizes: CallSizes) -> int:
        rows = sizes.people + sizes.public
        whitened = 0 if self.whitening == "none" else 16 * self.features * rows + 64 * self.features**2
        return rows * (sizes.width + 48 * self.features + 64) + whitened

    def _check_sample(self, public: Records | None) -> Records:
        if public is None or not len(public):
            raise BadScenario(f"{self.name} adapts from a public sample: give the scenario a section public")
        if public.dimension < self.used_features:
            raise BadScenario(
                f"source and target must have the same features: {self.name} looks at features up to number "
                f"{self.used_features - 1}, public people have {public.dimension}"
            )
        return public

    def released(
        self,
        access: Access,
        public: Records | None,
        kind: type[AlgorithmFields],
        mechanism: type[Adaptation] = Adaptation,
        **more: Any,
    ) -> tuple[Adapted, Whitening | None]:
        """Return the released w and the whitening that made its x', if any; ``more`` are settings of this class only.

        The release is private for the sample, which is one side. On both sides ||x - center|| <= ``norm``.
        """
        fields = self.model_dump(include=set(kind.model_fields))
        # ``norm`` bounds x - center; the algorithm's norm bounds x'.
        norm = math.hypot(self.norm, 1.0) if self.intercept else self.norm
        settings = kind(**{**fields, **more, "norm": norm})
        sample = self._check_sample(public)
        scaling = self._scaling(sample)
        side = partial(self._side, scaling=scaling)
        return access.release(mechanism(settings, side(sample), self.private, self.mu), side), scaling

    def unscaled(self, weights: Floats, scaling: Whitening | None) -> Floats:
        """Convert weights of x' to weights of (x - center, 1), the input of :meth:`affine`."""
        if scaling is None:
            return weights
        slopes, constant = scaling.pulled_back(weights[: self.features])
        return np.append(
            slopes, constant + self.center * float(slopes.sum()) + (weights[-1] if self.intercept else 0.0)
        )

    def _scaling(self, public: Records) -> Whitening | None:
        if self.whitening == "none":
            return None
        return whitening(public.features[:, : self.features].astype(np.float64), self.norm)

    def _side(self, records: Records, scaling: Whitening | None) -> DomainSide:
        features = records.features[:, : self.features].astype(np.float64)
        features = features - self.center if scaling is None else scaling.moved(features)
        side = DomainSide(features, self.responses(records)).bounded(self.norm)
        if not self.intercept:
            return side
        return DomainSide(np.column_stack([side.features, np.ones(len(side))]), side.responses)

    def responses(self, records: Records) -> Floats:
        """Return the values to predict, in [-1, 1]: the labels."""
        return records.labels.astype(np.float64)

    def affine(self, weights: Floats) -> tuple[Floats, float]:
        """Return the prediction <w, x'> as weights of x and a constant."""
        slopes = weights[: self.features]
        constant = weights[self.features] if len(weights) > self.features else 0.0
        return slopes, float(constant) - self.center * float(slopes.sum())

    def half_space(self, weights: Floats) -> Hypothesis:
        """Return sign(<w, x'>) as a hypothesis."""
        slopes, constant = self.affine(weights)
        return Linear(weights=tuple(slopes.tolist()), threshold=-constant)


class LinearAdaptation(AdaptationLearner):
    """Adaptation with a linear model: one vector w, released ``by`` a mechanism with the settings ``algorithm``."""

    algorithm: ClassVar[type[AlgorithmFields]]
    by: ClassVar[type[Adaptation]] = Adaptation

    def model(self, weights: Floats) -> Hypothesis:
        """Return w, of (x - center, 1), as a hypothesis."""
        return self.half_space(weights)

    def learned(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Learned:
        (weights, bound), scaling = self.released(access, public, self.algorithm, self.by)
        return Learned(hypothesis=self.model(self.unscaled(weights, scaling)), bound=bound)

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        return self.learned(access, previous, public).hypothesis


class ResponseOrLabel(LinearAdaptation):
    """Adaptation that predicts the feature ``response``, or the label if that is null."""

    response: int | None

    @property
    def used_features(self) -> int:
        return self.features if self.response is None else self.response + 1

    def responses(self, records: Records) -> Floats:
        if self.response is None:
            return super().responses(records)
        return 2.0 * np.clip(records.features[:, self.response].astype(np.float64), 0.0, 1.0) - 1.0

    def model(self, weights: Floats) -> Hypothesis:
        if self.response is None:
            return super().model(weights)
        weights, constant = self.affine(weights)
        return Regressor(
            weights=tuple((weights / 2.0).tolist()), intercept=(constant + 1.0) / 2.0, response=self.response
        )


_EXAMPLE = {"alpha": 0.3, "mu": 2.0, "iterations": 300, "features": 3, "norm": 1.8, "radius": 3.0}


@LEARNERS.register("cnvx-adap")
class CnvxAdap(CnvxAdapSettings, ResponseOrLabel):
    """Regression from the curator's sample and a public sample of another domain."""

    algorithm: ClassVar = ConvexSettings
    examples: ClassVar = (_EXAMPLE,)


@LEARNERS.register("ncnvx-adap")
class NcnvxAdap(NcnvxAdapSettings, LinearAdaptation):
    """Classification from the curator's sample and a public sample of another domain."""

    algorithm: ClassVar = NonconvexSettings
    examples: ClassVar = ({**_EXAMPLE, "output": "average"},)
