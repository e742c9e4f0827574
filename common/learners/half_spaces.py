"""Learners of half-spaces and regressions: private gradient descent, releases of moments, and the non-private SVM."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.errors import BadScenario
from common.core.values import PLAN, FromPlan
from common.learners.base import SETTINGS, Calls, ClassColumns, LearnerSettings, OpenSettings, PlanRequest, PlanTask
from common.local.hypotheses.composed import Argmax
from common.local.hypotheses.hypothesis import Hypothesis, Linear, Regressor
from common.numerics.bisection import largest
from common.privacy.accountants import Plan
from common.privacy.budget import PRECISION, fits
from common.privacy.events import Composed, Event, Gaussian, NonPrivate, SubsampledSteps
from common.privacy.rounding import down
from common.statistics import formulas
from common.statistics.formulas import CORRECTIONS, PAPER, PlannedValue, fixed, follow

MIN_NOISE = 0.1  # smallest sigma/L that a plan chooses: below it, noise no longer slows a learner down
_MAX_NOISE = 2.0**10
SOURCE = "docs/learners.md"
FIRST = 0.15  # default share of mu^2 for a first look
_MOST = 100.0

Mu = Annotated[float, Field(gt=0, le=_MOST)]
Look = Annotated[float, Field(ge=0, le=_MOST)]
Steps = Annotated[int, Field(ge=1, le=10**10)]
Noise = Annotated[float, Field(ge=0, le=1 << 17)]


class OpenSgd(OpenSettings):
    """Settings of gradient descent (:class:`curator.learners.half_spaces.Sgd`).

    Attributes:
        loss: ``logistic`` ln(1 + e^{-lm}); ``hinge`` max(0, 1 - lm); ``perceptron`` max(0, -lm), which is the paper's
            with the sign corrected (at lm = 0 it takes the slope -l, so that a start at 0 is not stuck). ``squared``
            (m - r)^2: a regression of the last feature r in [0, 1] on the features before it.
        steps: R.
        clip: L, public: gradients lie in a ball of this radius around 0.
        noise: sigma / L, up to 2^17; 0 is not private.
        diameter: D, diameter of the ball; for the box it only scales the steps (the box has diameter sqrt(dim)).
        domain: ``ball`` or ``box``. The box with a negative intercept is the paper's class of ellipses (Appendix D):
            <w, x> > b with all of w and b in [0, 1], where the features are squares.
        lasso: Weight >= 0 of the L1 norm that every proximal step adds to the loss (ISTA's soft threshold); the Lasso
            of Appendix D. ``last`` gives the sparse iterate; an average is sparse only where all its iterates are.
        intercept: c, the value of the feature appended to every record: m = <w, x> + c h_last; 0 for none. If it is
            negative, h_last = b / abs(c) stands for the threshold itself.
        output: ``average`` of all iterates, ``suffix`` (average of the last half) or ``last``.
        start: Every coordinate of the public start.
        warm: Start at the previously released hypothesis (public), if there is one, instead of ``start``.
        look: mu of a first look at the sample in each call (:mod:`curator.learners.preconditioning`): steps then use
            features minus their mean, over their deviation, and records have norm at most 1; 0 for none.
        norm: Euclidean norm to which the first look clips features. None: features are in [0, 1].
    """

    least: ClassVar[tuple[str, ...]] = ("steps",)
    name: Literal["sgd"] = "sgd"
    loss: Literal["logistic", "hinge", "perceptron", "squared"] = "logistic"
    steps: Steps | FromPlan
    clip: float = Field(default=1.0, gt=0)
    noise: Noise | FromPlan
    diameter: float = Field(gt=0)
    domain: Literal["ball", "box"] = "ball"
    regularization: float = Field(default=0.0, ge=0)
    lasso: float = Field(default=0.0, ge=0)
    intercept: float = 1.0
    start: float = 0.0
    output: Literal["average", "suffix", "last"] = "average"
    warm: bool = False
    look: Look | FromPlan = Field(default=0.0, exclude_if=lambda look: look == 0.0)
    norm: float | None = Field(default=None, gt=0, le=1e6, exclude_if=lambda norm: norm is None)

    @model_validator(mode="after")
    def _can_look(self) -> Self:
        if self.look == 0.0 and self.norm is not None:
            raise ValueError("norm is that of a first look: name its mu as look, or leave norm out")
        if self.look != 0.0 and (self.loss == "squared" or self.domain == "box" or self.start != 0.0 or self.warm):
            raise ValueError("a first look goes with half-spaces in a ball that begin at 0: no squared loss, no box")
        return self

    @property
    def surrogate_loss(self) -> str:
        return self.loss

    @property
    def reach(self) -> float:
        return self.clip * self.diameter / 2.0

    def width(self, dimension: int) -> int:
        """Return the number of parameters that it learns from records with ``dimension`` features."""
        return dimension - (self.loss == "squared") + (self.intercept != 0.0)

    def plan(self, task: PlanTask) -> tuple[SgdSettings, PlannedValue]:
        given_n = task.given_n
        learner = self.complete(task, None if given_n == PLAN else given_n)
        n = learner.planned_people(task)
        while task.paper and given_n == PLAN and self.noise == PLAN:
            revised = self.complete(task, int(n.value))
            if revised == learner:
                break
            learner, n = revised, revised.planned_people(task)
        return learner, n

    def complete(self, task: PlanTask, n: int | None) -> SgdSettings:
        """Fill in ``noise`` (sigma/L) and ``steps`` R.

        With n open, sigma = sqrt(20) L as in the paper, and n is derived from that. With n given, it is the least noise
        that the accountant admits, rounded up and at least ``MIN_NOISE``. The number of steps is what the learner's
        accuracy requires. If noise and steps are both open, the search prices them together. An open ``look`` takes
        the share :data:`FIRST` of the budget's mu^2, for all calls together.
        """
        look = self.look
        if look == PLAN:
            total_mu = greatest_mu(task, self.name, lambda mu: [(Gaussian(mu=mu), 1)])
            look = down(math.sqrt(FIRST / task.rounds) * total_mu)

        def with_noise(noise: float) -> SgdSettings:
            steps = self.enough(task, noise) if self.steps == PLAN else self.steps
            return self.settled(SgdSettings, noise=noise, steps=steps, look=look)

        if self.noise != PLAN:
            return with_noise(self.noise)
        if task.budget is None:
            return with_noise(0.0)
        epsilon, delta, kappa = task.budget
        if n is None:
            return with_noise(formulas.PAPER_NOISE)
        if task.paper and self.look == 0.0:  # the paper has no look, and no formula for its price
            return with_noise(formulas.paper_noise(epsilon, delta, kappa * n))
        calls = task.calls(n)

        def fits(noise: float, quick: bool) -> bool:
            return calls.affordable(with_noise(noise), epsilon, delta, beside=task.beside, quick=quick)

        return with_noise(_least_noise(fits))

    def enough(self, task: PlanTask, noise: float) -> int:
        """Return R for which every round reaches the loss ``task.accuracy`` on mu."""
        width, ridge = self.width(task.dimension), self.regularization
        if task.paper:
            return formulas.paper_steps(task.accuracy, task.beta, self.clip, noise, self.diameter, width, ridge)
        if ridge == 0.0:
            return formulas.steps(task.accuracy, task.beta, task.rounds, self.clip, noise, self.diameter, width)
        diameter = self.diameter if self.domain == "ball" else 2.0 * math.sqrt(width)
        return formulas.steps_strong(task.accuracy, task.beta, task.rounds, self.clip, noise, diameter, width, ridge)


@SETTINGS.register("sgd")
class SgdSettings(OpenSgd, LearnerSettings):
    """Settled settings of gradient descent."""

    paper_limit: ClassVar[tuple[str, float] | None] = ("Algorithm 4", 1.0)

    steps: Steps
    noise: Noise
    look: Look = Field(default=0.0, exclude_if=lambda look: look == 0.0)

    def can_give(self, hypothesis: Hypothesis) -> bool:
        return isinstance(hypothesis, Regressor if self.loss == "squared" else Linear)

    def _margin(self, norm: float, dimension: int) -> float:
        corner = math.sqrt(self.width(dimension))
        reach = corner if self.domain == "box" else self.diameter / 2.0 + abs(self.start) * corner
        return math.hypot(norm, self.intercept) * reach

    def greatest_loss(self, norm: float, dimension: int) -> float:
        if self.look:
            return math.inf  # the released hypothesis is for records that are not shortened
        margin = self._margin(norm, dimension)
        logistic = float(np.logaddexp(0.0, margin))
        return {"hinge": 1.0 + margin, "perceptron": margin, "squared": 1.0, "logistic": logistic}[self.loss]

    def steepest(self, norm: float, dimension: int) -> float:
        if self.look:
            return math.inf
        slope = 2.0 * (self._margin(norm, dimension) + 1.0) if self.loss == "squared" else 1.0
        return slope * math.hypot(norm, self.intercept)

    @property
    def clipped(self) -> float:
        return self.clip

    def event(self, tv_bound: float) -> Event:
        if self.noise == 0.0:
            return NonPrivate()
        # Rounded up to the next double: a ratio rounded down would claim more noise than there is.
        steps = SubsampledSteps(count=self.steps, tv_bound=tv_bound, ratio=math.nextafter(2.0 / self.noise, math.inf))
        return Composed(parts=(Gaussian(mu=self.look), steps)) if self.look else steps

    def paper_people(self, task: PlanTask, epsilon: float, delta: float, kappa: float) -> PlannedValue | None:
        if self.look:
            return None
        least = partial(formulas.paper_n_sgd, self.steps, task.rounds, kappa, epsilon)
        text = "max(n of the statistics, sqrt(Y ln Y)), Y = 52 R T/(8 kappa^2 eps)"
        return follow(task.given_n, lambda: max(task.sample, least()), text, PAPER + "Algorithm 4")

    def planned_values(self, task: PlanTask, settings: OpenSettings) -> dict[str, PlannedValue]:
        tail = "8 D^2 L^2 ln(2/beta)" if task.paper else "32 D^2 L^2 ln(2T/beta)"
        text = f"max(9 D^2 (L^2 + sigma^2 d), {tail})/alpha^2"
        if self.regularization and task.paper:
            text = f"max(4 A ln(A), {tail}/alpha^2), A = (L^2 + sigma^2 d)/(lambda alpha)"
        elif self.regularization:
            text = "the least with (L'^2 + sigma^2 d) (1 + ln R)/(2 lambda R) + tails <= alpha - lambda D^2/8"
        source = PAPER + "Algorithm 3" if task.paper else CORRECTIONS + "K4"
        noise = "sigma/L: sqrt(20), or the least that the accountant admits for a given n"
        noise_source = PAPER + "Algorithm 4" if task.paper else CORRECTIONS + "curator, SGD steps"
        look = f"sqrt({FIRST:g}/T) of the mu whose one release costs the whole budget"
        return {
            "steps": follow(settings.value("steps"), lambda: self.enough(task, self.noise), text, source),
            "noise": self.chosen_value(settings, "noise", noise, noise_source),
            **({"look": self.chosen_value(settings, "look", look, SOURCE)} if self.look else {}),
        }


def _least_noise(fits: Callable[[float, bool], bool]) -> float:
    """Return the least noise for the quick accountants or, to within PRECISION, a smaller one for the others.

    At the limit of their grids, the other accountants may show nothing for some noise but something for a little less,
    so several steps down are tried before the search ends.
    """
    try:
        private = _bisect(lambda noise: fits(noise, True))
    except BadScenario:
        return _bisect(lambda noise: fits(noise, False), 1.0 + PRECISION)
    less: float | None = private
    while less is not None:
        private = less
        lower = (max(private * (1.0 - step * PRECISION), MIN_NOISE) for step in (64.0, 16.0, 4.0, 1.0))
        less = next((noise for noise in lower if noise < private and fits(noise, False)), None)
    return private


def _bisect(fits: Callable[[float], bool], ratio: float = 1.0001) -> float:
    private, leaky = MIN_NOISE, 0.0
    while not fits(private):
        private, leaky = 2.0 * private, private
        if private > _MAX_NOISE:
            raise BadScenario(
                f"no noise up to sigma = {_MAX_NOISE:g} L fits the curator's budget: enlarge n, raise "
                "epsilon or delta, or lower rounds or steps"
            )
    while leaky and private > leaky * ratio:
        middle = math.sqrt(private * leaky)
        private, leaky = (middle, leaky) if fits(middle) else (private, middle)
    return private


@SETTINGS.register("svm")
class SvmSettings(LearnerSettings):
    """Settings of the linear support vector machine (:class:`curator.learners.svm.Svm`).

    Attributes:
        draws: m. A half-space in d dimensions without a mistake on ``(d + ln(T/beta)) / alpha`` draws has loss about
            alpha on their distribution (Appendix C prints the logarithm with the wrong sign; docs/corrections.md, K8).
        penalty: C. Appendix C has 10^30, for "as exact a hyperplane as possible"; 100 separates its draws.
        intercept: Value of the feature appended to every record; 0 for none.
        until: ``separated``: stop as soon as no draw is on the wrong side, or else at the minimum; ``minimum``: always
            continue to the minimum.
    """

    name: Literal["svm"] = "svm"
    draws: int = Field(ge=1, le=10**7)
    penalty: float = Field(default=100.0, gt=0, le=1e6)
    intercept: float = Field(default=1.0, ge=0)
    until: Literal["separated", "minimum"] = "separated"

    def can_give(self, hypothesis: Hypothesis) -> bool:
        return isinstance(hypothesis, Linear)

    def event(self, tv_bound: float) -> Event:
        return NonPrivate()


def greatest_mu(task: PlanTask, name: str, plan: Callable[[float], Plan]) -> float:
    """Return the greatest mu whose plan fits the curator's budget together with the other events of the task."""
    epsilon, delta = task.delta_budget(f"the learner {name}")
    greatest = largest(lambda mu: fits([*plan(mu), *task.beside], epsilon, delta), min(epsilon, _MOST), 1e-5, _MOST)
    if greatest == 0.0 or not math.isfinite(greatest):
        raise BadScenario("no release fits the curator's budget: raise epsilon or delta, or lower rounds")
    return greatest


class OpenPreconditioned(OpenSettings):
    """Settings of learners that release Gaussian sums over the unweighted sample, after a first look at it.

    Attributes:
        mu: All releases of a call together are mu-GDP.
        norm: r, public. Features are clipped to this Euclidean norm. None: they are in [0, 1], as in tables.
        precondition: Share of mu^2 for the first look (:mod:`curator.learners.preconditioning`); 0 for none.
    """

    reweighs: ClassVar[bool] = False
    mu: Mu | FromPlan
    norm: float | None = Field(default=None, gt=0, le=1e6)
    precondition: float = Field(default=FIRST, ge=0, le=0.9)

    def planned_sample(self, request: PlanRequest) -> PlannedValue | None:
        return fixed(1, "any: the agents tell what the answer is worth", SOURCE)

    def complete(self, task: PlanTask, n: int | None) -> LearnerSettings:
        """Fill in ``mu``: the greatest for which one call per round fits the budget."""
        kind = SETTINGS[self.name]
        if self.mu != PLAN:
            return self.settled(kind)
        calls = Calls(n or 1, None, 1.0, task.rounds)
        greatest = greatest_mu(task, self.name, lambda mu: calls.events(self.settled(kind, mu=mu)) or ())
        return self.settled(kind, mu=greatest)


class PreconditionedSettings(OpenPreconditioned, LearnerSettings):
    """Settled settings of such a learner."""

    mu: Mu

    @property
    def shares(self) -> tuple[float, float]:
        """The mu of the first look and of the remaining releases; their squares add up to at most mu^2."""
        first = down(self.mu * math.sqrt(self.precondition)) if self.precondition else 0.0
        return first, down(math.sqrt(down(self.mu * self.mu - first * first, 64.0))) if first else self.mu

    def can_give(self, hypothesis: Hypothesis) -> bool:
        return isinstance(hypothesis, Linear)

    def event(self, tv_bound: float) -> Event:
        return Gaussian(mu=self.mu)

    def planned_people(self, task: PlanTask) -> PlannedValue:
        return task.any_people(SOURCE)

    def planned_values(self, task: PlanTask, settings: OpenSettings) -> dict[str, PlannedValue]:
        text = "mu of its releases: the greatest that fits the budget"
        return {"mu": self.chosen_value(settings, "mu", text, SOURCE)}


class OpenDiscriminant(OpenPreconditioned):
    """Settings of the discriminant (:class:`curator.learners.half_spaces.Discriminant`).

    Attributes:
        ridge: Added to the covariance's diagonal, in units of the spectral norm of its noise.
        classes: One-hot columns of the class, which replaces the label, after the features that are used; the model is
            then the ``argmax`` of one score per class. None: the label.
    """

    name: Literal["discriminant"] = "discriminant"
    ridge: float = Field(default=1.5, ge=1e-6, le=1e6)
    classes: ClassColumns | None = Field(default=None, exclude_if=lambda classes: classes is None)


@SETTINGS.register("discriminant")
class DiscriminantSettings(OpenDiscriminant, PreconditionedSettings):
    """Settled settings of the discriminant."""

    mu: Mu

    def can_give(self, hypothesis: Hypothesis) -> bool:
        return isinstance(hypothesis, Linear if self.classes is None else Argmax)


class OpenFullBatch(OpenPreconditioned):
    """Settings of noisy full-batch gradient descent (:class:`curator.learners.half_spaces.FullBatch`).

    Attributes:
        steps: Number of steps; None: the root of n mu, from 10 to 200. Fewer have less noise each, more fit better.
        rate: Step size, by which the mean gradient is multiplied.
    """

    name: Literal["full-batch"] = "full-batch"
    steps: int | None = Field(default=None, ge=1, le=10**4)
    rate: float = Field(default=24.0, gt=0, le=1e6)

    @property
    def surrogate_loss(self) -> str:
        return "logistic"


@SETTINGS.register("full-batch")
class FullBatchSettings(OpenFullBatch, PreconditionedSettings):
    """Settled settings of full-batch gradient descent."""

    mu: Mu

    def count(self, people: int) -> int:
        usual = min(_MOST_STEPS, max(_LEAST_STEPS, round(math.sqrt(people * self.mu))))
        return usual if self.steps is None else self.steps


_LEAST_STEPS, _MOST_STEPS = 10, 200


class OpenLeastSquares(OpenPreconditioned):
    """Settings of least squares (:class:`curator.learners.half_spaces.LeastSquares`).

    Attributes:
        predicts: ``response``: the last feature, in [0, 1], from those before it. ``label``: the label, as 0 or 1, from
            all features; the hypothesis is the half-space where the prediction is above 1/2.
        ridge: Added to the covariance's diagonal, in units of the spectral norm of its noise.
    """

    name: Literal["least-squares"] = "least-squares"
    predicts: Literal["response", "label"] = "response"
    ridge: float = Field(default=1.5, ge=1e-6, le=1e6)

    @property
    def surrogate_loss(self) -> str:
        return "squared"


@SETTINGS.register("least-squares")
class LeastSquaresSettings(OpenLeastSquares, PreconditionedSettings):
    """Settled settings of least squares."""

    mu: Mu

    def can_give(self, hypothesis: Hypothesis) -> bool:
        return isinstance(hypothesis, Regressor if self.predicts == "response" else Linear)
