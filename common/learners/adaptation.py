"""Both learners of domain adaptation: settings, checked before a record is touched, event, and plan."""

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

MAX_NOISE = 2.0**20
"""Greatest sqrt(T)/mu: a sensitivity is at most 2^23 whole numbers, and its noise then exact in double precision."""
MIN_SHARE, MAX_SHARE = 1e-4, 0.99
"""Of the private scales: with less, or more, one of the noises would be beyond all use."""
MAX_SCORES = 512.0
"""Lambda r: far beyond what a probability can be told from 0 by; larger ones would cost the discrepancy its digits."""
MIN_CLIP = 2.0**-20  # least clip of residuals: below it nothing of a response in [-1, 1] would be left
ResidualClip = Annotated[float, Field(ge=MIN_CLIP, le=1e6)] | Literal["public"] | None


class AlgorithmFields(Value):
    """Settings of both algorithms that are never left open.

    Attributes:
        alpha: In (0, 1): what the source weighs in the reference p = (alpha/m, (1 - alpha)/n).
        alpha_from: ``given``, or ``discrepancy``: the weight of the source is then what minimises the part of Theorem
            B.1 that depends on it, for the private estimate of the discrepancy, and ``alpha`` at most.
        one_sided: Whether the discrepancy is sup_w L(target, w) - L(source, w), which is all that Theorem B.1's proof
            needs, in the place of its absolute value.
        local: The discrepancy is over the w within this distance of the public side's own fit; null: over the ball.
        kappa_1, kappa_2, kappa_inf: At least 0 (lambda in problem (7)): against weights away from p, against few
            effective records, against single large weights.
        iterations: T.
        radius: Lambda: ||w|| <= Lambda.
        norm: r: features are scaled to ||x|| <= r.
        discrepancy_share: Share of mu^2 that the estimate of the discrepancy gets.
        bound_share: Share of mu^2 for the private side's loss of the model that is released: then the result has the
            bound of Theorem B.1 as a number. 0: it has none. It takes an ``alpha`` that is given, and no whitening.
        scales_share: theta_2, share of each step that the private scales get; None for the division that minimizes the
            bound of Theorem 4.3 (with its U = 1).
        steps: ``scaled`` (default) or ``paper``; see the algorithms.
        spread: With noise, ``scaled`` steps let a private scale wander so far in all, by noise.
        sharpness: mu of the softmax in the place of the greatest weight; None for (m + n) ln(m + n).
        labelled: k: only the first k people of a private target have labels that are read (weakly supervised); the
            discrepancy is then the unlabelled one, of all of them, with the public side's fit in the place of labels.
            Null: all have labels.
        start: Where w begins: at ``zero``, or at the least loss of the *public* side alone, w_0. In the latter case
            ``scaled`` steps are also so short that noise alone raises that public loss by a quarter at most, in
            expectation.
    """

    alpha: float = Field(gt=0, lt=1)
    alpha_from: Literal["given", "discrepancy"] = "given"
    one_sided: bool = False
    local: float | None = Field(default=None, gt=0, le=1e6)
    kappa_1: float = Field(default=1.0, ge=0, le=1e9)
    kappa_2: float = Field(default=1.0, ge=0, le=1e9)
    kappa_inf: float = Field(default=0.0, ge=0, le=1e9)
    iterations: int = Field(default=15_000, ge=1, le=10**9)
    radius: float = Field(default=1.0, gt=0, le=1e6)
    norm: float = Field(default=1.0, gt=0, le=1e6)
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
        """Refuse a mu of all iterations that asks for more noise than double precision has whole numbers for."""
        if math.sqrt(self.iterations) > MAX_NOISE * mu:
            raise BadScenario(f"mu = {mu:g} is too small for {self.iterations} iterations: take fewer, or a larger mu")


class ConvexFields(AlgorithmFields):
    """Settings of CnvxAdap.

    Attributes:
        output: ``average`` of all iterates (Algorithm 1), ``suffix`` (of the last half) or ``last``; all cost the same.
        residual_clip: C: residuals, of responses in [-1, 1], are clipped to [-C, C], and all noise of the iterations is
            proportional to it. ``public``: the 0.82 quantile of the public side's own residuals (of normal ones,
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
    """Return the mu of the discrepancy and of all iterations, whose squares sum to at most mu^2.

    With that of :func:`bound_mu` they still do.
    """
    share = settings.discrepancy_share
    return down(mu * math.sqrt(share)), down(mu * math.sqrt(1.0 - share - settings.bound_share))


def bound_mu(settings: AlgorithmFields, mu: float) -> float:
    """Return the mu of the private side's loss of what is released, for the bound of Theorem B.1."""
    return down(mu * math.sqrt(settings.bound_share))


class OpenAdaptation(OpenSettings, AlgorithmFields):
    """Settings of a learner on the sample itself and a public sample of another domain; the weights play no part.

    Both are seen as x' = (x - center, 1) of the first ``features`` features x.

    Attributes:
        calibration: ``tight``, or ``paper``: both parts of a step get the same share, as the printed noise has it.
        features: d: the first so many features are looked at.
        center: Public, subtracted from every feature.
        intercept: Whether x' ends with a constant 1.
        whitening: ``public``: x' begins with V (D + I)^-1/2 V' (x - mean)/deviation, scaled so that three quarters of
            the public rows are within ``norm``, in the place of x - center; all of it from the public sample's moments.
        private: The curator's people are the ``target``, and the public sample the source; or the other way round.
        mu: Of one call; null for no privacy at all.
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
        """Fill in ``calibration``, and ``mu`` of a call: mu*(eps, delta), or that of the paper's noise if private."""
        mu = _most(task, self.discrepancy_share + self.bound_share) if self.mu == PLAN else self.mu
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
            except BadScenario as wrong:
                raise ValueError(wrong.detail) from None
        return self

    def event(self, tv_bound: float) -> Event:
        return NonPrivate() if self.mu is None else Gaussian(count=1, mu=self.mu)

    def planned_people(self, task: PlanTask) -> PlannedValue:
        return task.any_people(TIGHT)

    def planned_values(self, task: PlanTask, asked: OpenSettings) -> dict[str, PlannedValue]:
        if self.mu is None:
            return {}
        text, source = "largest mu with delta_G(eps; mu) <= delta, over sqrt(T)", TIGHT
        if task.paper:
            text, source = "eps/2 over sqrt(2 ln(3/delta)), and the discrepancy's share", SOURCE + "Theorem 4.3"
        return {"mu": self.chosen_value(asked, "mu", text, source)}


class OpenResponse(OpenAdaptation):
    """Settings of adaptation that predicts a feature, or the label.

    Attributes:
        response: The feature that is predicted, in [0, 1] by its public bounds, behind those that are looked at: the
            algorithm sees it as 2 y - 1, and what is released is a regressor. Null: the label, and a half-space.
    """

    response: int | None = Field(default=None, ge=1, lt=1 << 17)

    @model_validator(mode="after")
    def _blind(self) -> Self:
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
        hidden: k, units of the hidden layer; 0 for the softmax of linear scores.
        kappa_1: As before; rows whose loss (of the source, with the discrepancy) is above it lose their weight.
        gradient_clip: C: a row's gradient is shortened to this length at most, and all noise of the gradients is
            proportional to it. None: G of Section 5, which none exceeds.
        loss_clip: B: a row's loss counts as this at most where it moves a scale. None: the greatest that there can be.
        step: Of w, with ``scaled`` steps; so an iteration without noise moves w by step times C at most. The paper's,
            1/beta_bar, is by the worst curvature in the ball.
        start: ``zero``: output weights 0, hidden ones small and random. ``public``: the public side's own fit.
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
        classes: Columns in which the class stands, behind those that are looked at; null: the label.
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
    """Settings of methods that weigh a public source to be like the target; the squared loss.

    Attributes:
        method: ``private-dm``: private discrepancy minimization. The others are *not private*: discrepancy minimization
            (``dm``), kernel mean matching (``kmm``) and best-effort adaptation (``sbest``), which reads labels of the
            target as well, and ``alpha``, ``kappa_1`` (lambda_1), ``kappa_2`` and ``kappa_inf``.
        iterations: K, of Frank and Wolfe, where private.
        smoothing: s, by which the spectral norm is smoothed, where private.
        kept: The greater, the more of the equal weights is left, and the less rests on the K rows that were chosen.
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
        mu = _most(task, 0.0) if self.mu == PLAN else self.mu
        return self.settled(SETTINGS[self.name], mu=mu, calibration="tight")


@SETTINGS.register("matching")
class MatchingSettings(OpenMatching, AdaptationSettings):
    """Settled settings of matching a public source to the target."""

    calibration: Calibration = "tight"
    mu: Mu | None = None


def _most(task: PlanTask, other_shares: float) -> float | None:
    """Return the largest mu that the curator's budget admits, None without one."""
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
        whole = mu_allowed(epsilon, delta)
        return whole if task.rounds == 1 else down(whole / task.rounds**0.5, 8.0)
    mu = up(paper_mu(task.epsilon / 2.0, task.delta) / (1.0 - other_shares) ** 0.5, 16.0)
    found = delta_of(mu * up(task.rounds**0.5), task.epsilon)
    if found > task.delta:
        raise BadScenario(
            f"{task.rounds} calls with the printed noise have delta {found:.3g} at epsilon = {task.epsilon:g}, more "
            f"than {task.delta:g}: take one round, or bounds: tight"
        )
    return mu
