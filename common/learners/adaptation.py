"""Learners of domain adaptation: settings, which are checked before any record is read, event, and plan."""

import math
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from common.core.errors import BadScenario
from common.core.values import PLAN, FromPlan, Value
from common.learners.base import SETTINGS, ClassColumns, LearnerSettings, OpenSettings, PlanRequest, PlanTask
from common.local.hypotheses.hypothesis import MAX_HIDDEN, MAX_WEIGHTS
from common.privacy.events import Event, Gaussian, NonPrivate, delta_left, error_paid, payable
from common.privacy.rounding import MAX_EPSILON, down, up
from common.privacy.theorems.gaussian_dp import delta_of, mu_allowed, paper_mu
from common.statistics.formulas import PlannedValue, follow

SOURCE = "Bassily, Cortes, Mao & Mohri 2024, "
TIGHT = "docs/adaptation.md"

Private = Literal["source", "target"]
Calibration = Literal["tight", "paper"]
Mu = Annotated[float, Field(gt=0, le=1e6)]
LONGEST = 1e6
Length = Annotated[float, Field(ge=1e-9, le=LONGEST)]  # squares of lengths and of their ratios are doubles

MAX_NOISE = 2.0**20
"""Greatest sqrt(T)/mu: a sensitivity is at most 2^23 whole numbers, so its noise is exact in double precision."""
MIN_SHARE, MAX_SHARE = 1e-4, 0.99
"""Range of the private scales' share: outside it, one of the two noises would be uselessly large."""
MAX_SCORES = 512.0
"""Greatest Lambda r: such scores give probabilities of practically 0; larger ones lose digits of the discrepancy."""
MIN_CLIP = 2.0**-20  # least clip of residuals: a smaller one would remove all of a response in [-1, 1]
ResidualClip = Annotated[float, Field(ge=MIN_CLIP, le=1e6)] | Literal["public"] | None


class AlgorithmFields(Value):
    """Settings of both algorithms that are never left open.

    Attributes:
        alpha: In (0, 1): weight of the source in the reference p = (alpha/m, (1 - alpha)/n).
        alpha_from: ``given``, or ``discrepancy``: the weight of the source then minimizes the part of Theorem B.1 that
            depends on it, for the private estimate of the discrepancy, and is at most ``alpha``.
        one_sided: Whether the discrepancy is sup_w L(target, w) - L(source, w) instead of its absolute value; the proof
            of Theorem B.1 needs only that.
        local: The discrepancy is over the w within this distance of the public side's own fit; null: over the ball.
        kappa_1, kappa_2, kappa_inf: At least 0 (lambda in problem (7)): penalties of weights away from p, of few
            effective records, and of single large weights.
        iterations: T.
        radius: Lambda: ||w|| <= Lambda.
        norm: r: features are scaled to ||x|| <= r.
        discrepancy_share: Share of mu^2 for the estimate of the discrepancy.
        bound_share: Share of mu^2 for the private side's loss of the released model; the result then includes the value
            of the bound of Theorem B.1. 0: no bound. It requires a given ``alpha`` and no whitening.
        scales_share: theta_2, share of each step that the private scales get; None for the division that minimizes the
            bound of Theorem 4.3 (with its U = 1).
        steps: ``scaled`` (default) or ``paper``; see the algorithms.
        spread: With noise, total distance by which noise may move a private scale with ``scaled`` steps.
        sharpness: mu of the softmax that replaces the greatest weight; None for (m + n) ln(m + n).
        labelled: k: labels of only the first k people of a private target are read (weakly supervised); the
            discrepancy is then the unlabelled one, of all people, with the public side's fit instead of labels.
            Null: all labels are read.
        start: Start of w: ``zero``, or ``public``: the minimizer w_0 of the loss of the *public* side alone. Then
            ``scaled`` steps are also short enough that noise alone raises that public loss by at most a quarter, in
            expectation.
    """

    alpha: float = Field(gt=0, lt=1)
    alpha_from: Literal["given", "discrepancy"] = "given"
    one_sided: bool = False
    local: Length | None = None
    kappa_1: float = Field(default=1.0, ge=0, le=1e9)
    kappa_2: float = Field(default=1.0, ge=0, le=1e9)
    kappa_inf: float = Field(default=0.0, ge=0, le=1e9)
    iterations: int = Field(default=15_000, ge=1, le=10**9)
    radius: Length = 1.0
    norm: Length = 1.0
    discrepancy_share: float = Field(default=0.05, gt=0, lt=1)
    bound_share: float = Field(default=0.0, ge=0, lt=1, exclude_if=lambda share: share == 0.0)
    scales_share: float | None = Field(default=None, ge=MIN_SHARE, le=MAX_SHARE)
    steps: Literal["scaled", "paper"] = "scaled"
    spread: float = Field(default=0.25, gt=0, le=1e6)
    sharpness: float | None = Field(default=None, gt=0)
    labelled: int | None = Field(default=None, ge=1, exclude_if=lambda labelled: labelled is None)
    start: Literal["zero", "public"] = "zero"

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        if self.local is not None and self.local > self.radius:
            raise ValueError(f"local = {self.local:g} must be at most radius = {self.radius:g}")
        if self.bound_share and self.alpha_from != "given":
            raise ValueError("bound_share: Theorem B.1 takes an alpha that is fixed beforehand: take alpha_from: given")
        if self.labelled is not None and (self.bound_share or self.alpha_from != "given"):
            raise ValueError(
                "labelled: Theorem B.1 is for labelled discrepancies: leave out bound_share and alpha_from"
            )
        if self.bound_share + self.discrepancy_share >= 1.0:
            raise ValueError("discrepancy_share and bound_share must leave a part of mu^2 to the iterations")
        return self

    def check_mu(self, mu: float) -> None:
        """Refuse a mu of all iterations whose noise exceeds the whole numbers of double precision."""
        if math.sqrt(self.iterations) > MAX_NOISE * mu:
            raise BadScenario(f"mu = {mu:g} is too small for {self.iterations} iterations: take fewer, or a larger mu")


class ConvexFields(AlgorithmFields):
    """Settings of CnvxAdap.

    Attributes:
        output: ``average`` of all iterates (Algorithm 1), ``suffix`` (of the last half) or ``last``; all cost the same.
        residual_clip: C: residuals, of responses in [-1, 1], are clipped to [-C, C]; a smaller C lowers the noise of
            the iterations. ``public``: the 0.82 quantile of the public side's own residuals (for normal residuals,
            Huber's 1.345 standard deviations). None: Lambda r + 1, which no residual exceeds.
    """

    output: Literal["average", "suffix", "last"] = "average"
    residual_clip: ResidualClip = None


class NonconvexFields(AlgorithmFields):
    """Settings of NCnvxAdap; responses are labels -1 and +1.

    Attributes:
        output: ``random`` iterate (Algorithm 2), ``average`` of all or ``last``; all cost the same.
    """

    output: Literal["random", "average", "last"] = "random"

    @model_validator(mode="after")
    def _scores_are_ordinary(self) -> Self:
        scores = self.radius * self.norm
        if scores > MAX_SCORES:
            raise ValueError(f"radius * norm must be at most {MAX_SCORES:g} for the logistic loss, found {scores:g}")
        return self


def split(settings: AlgorithmFields, mu: float) -> tuple[float, float]:
    """Return the mu of the discrepancy and the mu of all iterations.

    Their squares, with that of :func:`bound_mu`, sum to at most mu^2.
    """
    share = settings.discrepancy_share
    return down(mu * math.sqrt(share)), down(mu * math.sqrt(1.0 - share - settings.bound_share))


def bound_mu(settings: AlgorithmFields, mu: float) -> float:
    """Return the mu of the private side's loss at the released model, for the bound of Theorem B.1."""
    return down(mu * math.sqrt(settings.bound_share))


class OpenAdaptation(OpenSettings, AlgorithmFields):
    """Settings of a learner on the sample itself and a public sample of another domain; it ignores weights.

    Both samples are used as x' = (x - center, 1) of the first ``features`` features x.

    Attributes:
        calibration: ``tight``, or ``paper``: both parts of a step get the same share, as with the paper's noise.
        features: d: number of features, from the first on, that are used.
        center: Public number, subtracted from every feature.
        intercept: Whether x' ends with a constant 1.
        whitening: ``public``: x' begins with V (D + I)^-1/2 V' (x - mean)/deviation instead of x - center, scaled so
            that three quarters of the public rows are within ``norm``; all from the public sample's moments.
        private: The curator's people are the ``target``, and the public sample the source; or the other way round.
        mu: Privacy parameter of one call; null for no privacy at all.
    """

    reweighs: ClassVar[bool] = False

    calibration: Calibration | FromPlan = "tight"
    features: int = Field(ge=1, le=MAX_WEIGHTS)
    center: float = Field(default=0.5, ge=-1e6, le=1e6)
    intercept: bool = True
    whitening: Literal["none", "public"] = "none"
    private: Private = "target"
    mu: Mu | FromPlan | None = None

    @model_validator(mode="after")
    def _bound_and_labels_are_known(self) -> Self:
        if self.intercept and math.hypot(self.norm, 1.0) > LONGEST:
            raise ValueError(f"norm = {self.norm:.10g} is too large: with an intercept, x' = (x - center, 1) is longer")
        if self.labelled is not None and self.private == "source":
            raise ValueError("labelled: of a private source all labels are read: leave it out, or take private: target")
        if self.bound_share and self.whitening != "none":
            raise ValueError(
                "bound_share: Theorem B.1 is for given features, and whitening depends on the public sample"
            )
        return self

    def planned_rounds(self, request: PlanRequest) -> PlannedValue:
        return follow(request.given_rounds, lambda: 1, "one call", SOURCE + "Algorithm 1")

    def complete(self, task: PlanTask, n: int | None) -> LearnerSettings:
        """Fill in ``calibration``, and the ``mu`` of a call: mu*(eps, delta), or the paper's noise's if private."""
        mu = _greatest_mu(task, self.discrepancy_share + self.bound_share) if self.mu == PLAN else self.mu
        return self.settled(SETTINGS[self.name], mu=mu, calibration="paper" if task.paper else "tight")


class AdaptationSettings(OpenAdaptation, LearnerSettings):
    """Settled settings of a learner of domain adaptation."""

    calibration: Calibration = "tight"
    mu: Mu | None = None

    @model_validator(mode="after")
    def _has_noise(self) -> Self:
        if self.mu is not None:
            try:
                self.check_mu(split(self, self.mu)[1])
            except BadScenario as error:
                raise ValueError(error.detail) from None
        return self

    def event(self, tv_bound: float) -> Event:
        return NonPrivate() if self.mu is None else Gaussian(count=1, mu=self.mu)

    def planned_people(self, task: PlanTask) -> PlannedValue:
        return task.any_people(TIGHT)

    def planned_values(self, task: PlanTask, settings: OpenSettings) -> dict[str, PlannedValue]:
        if self.mu is None:
            return {}
        text, source = "largest mu with delta_G(eps; mu) <= delta, over sqrt(T)", TIGHT
        if task.paper:
            text, source = "eps/2 over sqrt(2 ln(3/delta)), and the discrepancy's share", SOURCE + "Theorem 4.3"
        return {"mu": self.chosen_value(settings, "mu", text, source)}


class OpenResponse(OpenAdaptation):
    """Settings of adaptation that predicts a feature, or the label.

    Attributes:
        response: Index of the predicted feature, which is in [0, 1] by its public bounds and comes after the features
            that are used. The algorithm sees it as 2 y - 1 and releases a regressor. Null: label and half-space.
    """

    response: int | None = Field(default=None, ge=1, lt=1 << 17)

    @model_validator(mode="after")
    def _target_is_unseen(self) -> Self:
        if self.response is not None and self.response < self.features:
            raise ValueError(f"response = {self.response} is among the {self.features} features that are looked at")
        return self


class OpenCnvxAdap(OpenResponse, ConvexFields):
    """Settings of adaptation for linear regression (:class:`curator.learners.adaptation.CnvxAdap`)."""

    name: Literal["cnvx-adap"] = "cnvx-adap"


@SETTINGS.register("cnvx-adap")
class CnvxAdapSettings(OpenCnvxAdap, AdaptationSettings):
    """Settled settings of adaptation for linear regression."""

    calibration: Calibration = "tight"
    mu: Mu | None = None


class OpenNcnvxAdap(OpenAdaptation, NonconvexFields):
    """Settings of adaptation by the logistic loss (:class:`curator.learners.adaptation.NcnvxAdap`)."""

    name: Literal["ncnvx-adap"] = "ncnvx-adap"

    @property
    def surrogate_loss(self) -> str:
        return "logistic"


@SETTINGS.register("ncnvx-adap")
class NcnvxAdapSettings(OpenNcnvxAdap, AdaptationSettings):
    """Settled settings of adaptation by the logistic loss."""

    calibration: Calibration = "tight"
    mu: Mu | None = None


class NetworkFields(NonconvexFields):
    """Settings of NCnvxAdap for the softmax of several classes, and for networks with one hidden layer.

    Attributes:
        hidden: k, number of units in the hidden layer; 0 for the softmax of linear scores.
        kappa_1: As before; rows whose loss (of the source, with the discrepancy) is above it lose their weight.
        gradient_clip: C: a row's gradient is clipped to this norm, and all noise of the gradients is proportional to
            it. None: G of Section 5, which no gradient exceeds.
        loss_clip: B: a row's loss is clipped to this where it moves a scale. None: the greatest possible loss.
        step: Step size of w with ``scaled`` steps; an iteration without noise moves w by at most step times C. The
            paper's step, 1/beta_bar, follows from the worst curvature in the ball.
        start: ``zero``: output weights 0, hidden weights small and random. ``public``: the public side's own fit.
    """

    hidden: int = Field(default=16, ge=0, le=MAX_HIDDEN)
    kappa_1: float = Field(default=3.0, ge=0, le=1e9)
    gradient_clip: float | None = Field(default=1.0, gt=0, le=1e6)
    loss_clip: float | None = Field(default=2.0, gt=0, le=1e6)
    step: float = Field(default=2.0, gt=0, le=1e6)
    start: Literal["zero", "public"] = "public"


class OpenNetworkAdap(NetworkFields, OpenAdaptation):
    """Settings of adaptation of a softmax or a network (:class:`curator.learners.networks.NetworkAdap`).

    Attributes:
        classes: One-hot columns of the class, after the features that are used; null: the label.
    """

    name: Literal["network-adap"] = "network-adap"
    classes: ClassColumns | None = None

    @property
    def outputs(self) -> int:
        return 2 if self.classes is None else self.classes.count

    @property
    def surrogate_loss(self) -> str:
        return "logistic"  # the softmax of two classes

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.bound_share:
            raise ValueError("bound_share: no bound on a network's complexity is known here, so there is no number")
        if self.labelled is not None:
            raise ValueError("labelled: a network has no unlabelled discrepancy here: take cnvx-adap or ncnvx-adap")
        if self.classes is not None and self.classes.first < self.features:
            raise ValueError(
                f"classes.first = {self.classes.first} is among the {self.features} features that are looked at"
            )
        numbers = (self.hidden or self.outputs) * (self.features + 1) + self.outputs * (self.hidden + 1)
        if numbers > MAX_WEIGHTS:
            raise ValueError(
                f"a network of {self.features} features, {self.hidden} hidden units and {self.outputs} classes has "
                f"{numbers} numbers, more than {MAX_WEIGHTS}: take fewer hidden units"
            )
        return self


@SETTINGS.register("network-adap")
class NetworkAdapSettings(OpenNetworkAdap, AdaptationSettings):
    """Settled settings of adaptation of a softmax or a network."""

    calibration: Calibration = "tight"
    mu: Mu | None = None


Method = Literal["private-dm", "dm", "kmm", "sbest"]


class MatchingFields(AlgorithmFields):
    """Settings of methods that weight a public source to resemble the target, with the squared loss.

    Attributes:
        method: ``private-dm``: private discrepancy minimization. The others are *not private*: discrepancy minimization
            (``dm``), kernel mean matching (``kmm``) and best-effort adaptation (``sbest``), which reads labels of the
            target as well, and ``alpha``, ``kappa_1`` (lambda_1), ``kappa_2`` and ``kappa_inf``.
        iterations: K, number of Frank-Wolfe steps of the private method.
        smoothing: s, smoothing of the spectral norm in the private method.
        kept: A greater value keeps more of the equal weights and puts less weight on the K chosen rows.
    """

    method: Method = "private-dm"
    alpha: float = Field(default=0.5, gt=0, lt=1)
    iterations: int = Field(default=20, ge=1, le=10_000)
    smoothing: float = Field(default=0.05, ge=1e-4, le=1e6)
    kept: int = Field(default=200, ge=0, le=10**6)


class OpenMatching(MatchingFields, OpenResponse):
    """Settings of :class:`curator.learners.matching.Matching`."""

    name: Literal["matching"] = "matching"

    @model_validator(mode="after")
    def _is_what_it_can_do(self) -> Self:
        if self.method != "private-dm" and self.mu is not None:
            raise ValueError(f"method {self.method} is not private: it takes mu: null and a curator without epsilon")
        if self.private == "source" or self.bound_share or self.labelled is not None:
            raise ValueError("matching weighs a public source: leave out private, bound_share and labelled")
        return self

    def complete(self, task: PlanTask, n: int | None) -> LearnerSettings:
        mu = _greatest_mu(task, 0.0) if self.mu == PLAN else self.mu
        return self.settled(SETTINGS[self.name], mu=mu, calibration="tight")


@SETTINGS.register("matching")
class MatchingSettings(OpenMatching, AdaptationSettings):
    """Settled settings of matching a public source to the target."""

    calibration: Calibration = "tight"
    mu: Mu | None = None


def _greatest_mu(task: PlanTask, other_shares: float) -> float | None:
    """Return the largest mu that the curator's budget admits; None without a budget."""
    if task.epsilon is None:
        return None
    if not task.epsilon <= MAX_EPSILON:
        raise BadScenario(f"curator.epsilon must be positive and at most {MAX_EPSILON:g}, found {task.epsilon:g}")
    if not task.delta:
        raise BadScenario("Gaussian noise needs a positive delta: give curator.delta, 1e-6 say")
    if not task.paper:
        epsilon, delta, error = task.epsilon, task.delta, error_paid([(Gaussian(mu=1.0), task.rounds)])
        if epsilon > payable(delta, error):
            epsilon = payable(delta, error)
            delta = delta_left(delta, epsilon, error)
        total_mu = mu_allowed(epsilon, delta)
        return total_mu if task.rounds == 1 else down(total_mu / task.rounds**0.5, 8.0)
    mu = up(paper_mu(task.epsilon / 2.0, task.delta) / (1.0 - other_shares) ** 0.5, 16.0)
    delta = delta_of(mu * up(task.rounds**0.5), task.epsilon)
    if delta > task.delta:
        raise BadScenario(
            f"{task.rounds} calls with the printed noise have delta {delta:.3g} at epsilon = {task.epsilon:g}, more "
            f"than {task.delta:g}: take one round, or bounds: tight"
        )
    return mu
