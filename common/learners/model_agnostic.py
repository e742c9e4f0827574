"""Model-agnostic private learning: number of teachers, aggregation of votes into answers, privacy cost, and plan."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from common.core.errors import BadInput, BadScenario
from common.core.values import PLAN, FromPlan, Value, anything_open, explain, left_open
from common.learners.base import SETTINGS, ClassColumns, LearnerSettings, OpenSettings, PlanRequest, PlanTask
from common.learners.scikit import Classifier
from common.numerics.bisection import largest, least
from common.privacy.accountants import grouped
from common.privacy.budget import cost
from common.privacy.events import Event, Gaussian, Release, SubsampledRelease
from common.privacy.guarantee import Protected
from common.privacy.rounding import down, up
from common.privacy.theorems import votes
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.statistics.formulas import PlannedValue, agnostic_sample, consistent_sample, fixed, follow

MIN_EPSILON, MAX_EPSILON = 0.001, 30.0  # range for which geometric noise can be drawn

Noise = Annotated[float, Field(ge=votes.MIN_NOISE, le=votes.MAX_NOISE)]
Epsilon = Annotated[float, Field(gt=0, le=100)]
Delta = Annotated[float, Field(gt=0, lt=1)]


class OpenGnMax(Value):
    """Noisy counts: :func:`curator.mechanisms.sums.noisy_winners`.

    Attributes:
        noise: sigma of each count, in votes; or instead
        epsilon, delta: Guarantee of all m answers together, which determines the least noise.
    """

    name: Literal["gnmax"] = "gnmax"
    noise: Noise | FromPlan | None = None
    epsilon: Epsilon | FromPlan | None = None
    delta: Delta | FromPlan | None = None


class OpenStability(Value):
    """Algorithm 1, A_stab, for every vote: a winner is released if it is stable. Easy votes cost as much as hard ones.

    Epsilon and delta are those of all m answers together, by optimal composition.
    """

    name: Literal["stability"] = "stability"
    epsilon: Epsilon | FromPlan
    delta: Delta | FromPlan


class OpenSparseVector(Value):
    """Algorithm 2 of Bassily, Thakkar and Thakurta, corrected: only votes that do not agree have a cost.

    Attributes:
        epsilon, delta: Guarantee of one whole sequence of m answers.
        cutoff: T: after this number of bottoms nothing more is released.
        estimate: Share of epsilon that pays for an estimate of the teachers' mistakes on people that are set aside; T
            is then what Theorem 3.2 requires for that many mistakes, at most ``cutoff`` (Remark 1).
        bounds: ``tight``: calibrated exactly; ``paper``: the constants of Algorithm 2 as printed, with its number of
            chunks.
        beta: Failure probability of the accuracy, for the printed constants and for T.
    """

    name: Literal["sparse-vector"] = "sparse-vector"
    epsilon: Epsilon | FromPlan
    delta: Delta | FromPlan
    cutoff: int = Field(ge=1, le=1 << 20)
    estimate: float | None = Field(default=None, gt=0, lt=1)
    bounds: Literal["tight", "paper"] = "tight"
    beta: float = Field(default=0.05, gt=0, lt=1)


class Aggregation(Value):
    """A private rule for the winner of each of m votes, in which one record changes at most ``touched`` teachers."""

    in_parts: ClassVar[bool] = False
    """Whether a part of the m answers costs less; if not, all are requested at once."""

    @abstractmethod
    def event(self, count: int, queries: int, touched: int) -> Event:
        """Return the event of ``count`` of m = ``queries`` answers by teachers on the sample itself."""

    @abstractmethod
    def guarantee(self) -> tuple[float, float] | None:
        """Return the (epsilon, delta) of all m answers for a fixed data set; None if none is stated."""

    def check(self, queries: int, chunks: int, people: int, touched: int) -> None:
        """Raise BadScenario if the guarantee cannot hold; the message names the number to change."""


class GnMax(OpenGnMax, Aggregation):
    """Noisy counts, settled."""

    in_parts: ClassVar[bool] = True

    noise: Noise | None = None
    epsilon: Epsilon | None = None
    delta: Delta | None = None

    @model_validator(mode="after")
    def _noise_or_guarantee(self) -> Self:
        present = (self.noise is not None, self.epsilon is not None, self.delta is not None)
        if present not in ((True, False, False), (False, True, True)):
            raise ValueError("gnmax: give either noise, or both epsilon and delta")
        return self

    def sigma(self, queries: int, touched: int) -> float:
        """Return the noise's standard deviation, in votes."""
        if self.noise is not None:
            return self.noise
        if self.epsilon is None or self.delta is None:
            raise AssertionError("either noise or epsilon and delta are given")
        return votes.answers_sigma(queries, self.epsilon, self.delta, touched)

    def event(self, count: int, queries: int, touched: int) -> Event:
        return Gaussian(count=count, mu=votes.answer_mu(self.sigma(queries, touched), touched))

    def guarantee(self) -> tuple[float, float] | None:
        return None if self.epsilon is None or self.delta is None else (self.epsilon, self.delta)


class WholeRelease(Aggregation):
    """An aggregation that answers all m queries in one release."""

    epsilon: Epsilon
    delta: Delta

    def event(self, count: int, queries: int, touched: int) -> Event:
        return Release(epsilon=self.epsilon, delta=self.delta)

    def guarantee(self) -> tuple[float, float] | None:
        return self.epsilon, self.delta


class Stability(WholeRelease, OpenStability):
    """Stable winners, settled."""

    def check(self, queries: int, chunks: int, people: int, touched: int) -> None:
        try:
            votes.stability_share(queries, self.epsilon, self.delta)
        except BadInput as error:
            raise BadScenario(f"stability: {error.detail}") from None


class SparseVector(WholeRelease, OpenSparseVector):
    """The sparse vector, settled."""

    @property
    def estimate_epsilon(self) -> float:
        """Pure epsilon of the estimate; 0 if there is none."""
        return 0.0 if self.estimate is None else down(self.estimate * self.epsilon)

    def thresholds(self, queries: int, cutoff: int) -> votes.Thresholds:
        """Return the calibration for a given T and the epsilon that the estimate leaves; BadInput if there is none."""
        epsilon = self.epsilon if self.estimate is None else down(self.epsilon - up(self.estimate_epsilon))
        if self.bounds == "paper":
            return votes.printed(cutoff, queries, epsilon, self.delta, self.beta)[0]
        return votes.calibrated(cutoff, queries, epsilon, self.delta)

    def check(self, queries: int, chunks: int, people: int, touched: int) -> None:
        if self.estimate is not None and not MIN_EPSILON <= self.estimate_epsilon <= MAX_EPSILON:
            raise BadScenario(
                f"sparse-vector: the estimate's epsilon must be from {MIN_EPSILON:g} to {MAX_EPSILON:g}, found "
                f"{self.estimate_epsilon:g}: take another share"
            )
        try:
            self.thresholds(queries, self.cutoff)
            if self.bounds == "paper":
                required = votes.printed(self.cutoff, queries, self.epsilon, self.delta, self.beta)[1]
                if chunks < required or people < required:
                    raise BadInput(
                        f"the constants that Algorithm 2 prints take {required:,} chunks for {queries:,} queries and "
                        f"{self.cutoff} bottoms, found {chunks:,} chunks of {people:,} records: take bounds: tight"
                    )
        except BadInput as error:
            raise BadScenario(f"sparse-vector: {error.detail}") from None


AnyOpenAggregation = Annotated[OpenGnMax | OpenStability | OpenSparseVector, Field(discriminator="name")]
AnyAggregation = Annotated[GnMax | Stability | SparseVector, Field(discriminator="name")]
_ADAPTER: TypeAdapter[GnMax | Stability | SparseVector] = TypeAdapter(AnyAggregation)


AGREEMENT = 0.9  # share of teachers that agree on a point, for which chunks are planned
_CERTAINTY = 3.0  # lead of such an agreement in standard deviations of the noise: one answer in 740 differs

_WEAKEST = 32.0  # largest epsilon of a call that is tried

SOURCE = "Bassily, Thakkar and Thakurta 2018; docs/model-agnostic.md"
_THEOREMS = "Bassily, Thakkar and Thakurta 2018, Theorems 3.2, 4.2 and 4.3"
MAX_STREAM = 1 << 16  # questions of a stream: each is an entry of the curator's ledger, which is kept in memory

Identity = Literal["slot", "content"]
Chunks = Annotated[int, Field(ge=1, le=1 << 20)]
Queries = Annotated[int, Field(ge=1, le=1 << 20)]

TOUCHED: dict[Identity, int] = {"slot": 1, "content": 2}  # chunks that change when a record is replaced in its slot


class OpenModelAgnostic(OpenSettings):
    """Settings of A_priv (:class:`curator.learners.model_agnostic.ModelAgnostic`).

    Attributes:
        chunks: k, public, at most the number of records. Accuracy: with n/k records a teacher from a class of dimension
            V errs on about V k/n, so with k <= n/(V m) all m answers of most teachers are right (Remark 3's target
            accuracy 1/m). The noise requires k well above sigma, or above the sparse vector's level.
        by: ``slot`` or ``content``: what identifies a record (:mod:`curator.learners.teachers`). The latter costs twice
            as much.
        queries: m, number of public points, from the first on, that are labelled. At ``plan`` it is what Theorems 4.2
            and 4.3 require for the student (:func:`theorem_sizes`).
        stream: Number of further points that may be asked afterwards, one at a time; null: none. They belong to the one
            sequence that is paid for: with a ``sparse-vector`` all questions share its unstable answers.
        draws: m', or null.
        protects: ``records``, or ``labels``: then the features of the curator's people are public, and the student may
            contain any of them unchanged.
        public_features: For real people with ``protects: labels`` only: true states that anyone may see their features.
        classes: One-hot columns of the class, which replaces the label; null: the label. The student then consists of
            one binary student per class, released as the ``argmax`` of their outputs.
    """

    by_choice: ClassVar[frozenset[str]] = frozenset({"onnx"})
    reweighs: ClassVar[bool] = False
    name: Literal["model-agnostic"] = "model-agnostic"
    chunks: Chunks | FromPlan
    by: Identity = "slot"
    teacher: Classifier
    student: Classifier
    aggregation: AnyOpenAggregation
    queries: Queries | FromPlan
    stream: int | None = Field(default=None, ge=1, le=MAX_STREAM, exclude_if=lambda stream: stream is None)
    draws: int | None = Field(default=None, ge=2, le=10**7)
    protects: Protected = "records"
    public_features: bool = False
    classes: ClassColumns | None = None

    @model_validator(mode="after")
    def _student_leaves(self) -> Self:
        if self.student.teaches_only:
            raise ValueError(f"{self.student.classifier}: a student leaves as data, so it is one of scikit-learn's")
        return self

    @property
    def protected(self) -> Protected:
        return self.protects

    @property
    def features_are_public(self) -> bool:
        return self.public_features

    @property
    def touched(self) -> int:
        return TOUCHED[self.by]

    @property
    def sequence(self) -> int:
        """The total number of questions: those of the run, and those of its stream."""
        return int(self.queries) + (self.stream or 0)

    @property
    def class_count(self) -> int:
        return 2 if self.classes is None else self.classes.count

    def planned_rounds(self, request: PlanRequest) -> PlannedValue | None:
        if self.draws is not None:
            return None
        return follow(request.given_rounds, lambda: 1, "one sequence of queries", SOURCE)

    def planned_sample(self, request: PlanRequest) -> PlannedValue | None:
        if self.draws is not None:
            return None
        rounds = request.given_rounds
        learner = self._completed(request, 1 if rounds == PLAN else rounds, ())
        power, text = (2, "k V/alpha^2") if request.agnostic else (1, "k V/alpha")
        each = math.ceil((request.vc_dimension or 1) / request.alpha**power)
        return fixed(learner.chunks * each, f"{text}: teachers that err on about alpha", SOURCE)

    def complete(self, task: PlanTask, n: int | None) -> ModelAgnosticSettings:
        """Fill in the aggregation (``noise`` on the sample itself, or ``epsilon`` and ``delta``), then ``chunks`` k.

        The budget is divided equally among the rounds: mu/sqrt(T) each, without loss, for GNMax's ``noise``, and
        epsilon/T and delta/T for other answers about the sample itself. With draws it is the largest epsilon for which
        T calls compose to the budget, with half of its delta for the calls' own.
        """
        known = n is not None and task.kappa is not None
        return self._completed(task, task.rounds, task.calls(n or 1).schedule if known else ())

    def _completed(self, request: PlanRequest, rounds: int, schedule: Sequence[float]) -> ModelAgnosticSettings:
        if self.queries == PLAN:
            learner = self.model_copy(update={"queries": _student_size(request)[0]})
            return learner._completed(request, rounds, schedule)
        fields = self.aggregation.wire() | self._planned_fields(request, rounds, schedule)
        try:
            aggregation = _ADAPTER.validate_python(fields)
        except ValidationError as error:
            raise BadScenario(f"curator.learner.aggregation: {explain(error)}") from None
        chunks = _enough(self, aggregation) if self.chunks == PLAN else self.chunks
        written = self.as_written["aggregation"]
        settings = {key: fields[key] if left_open(value) else value for key, value in written.items()}
        return self.settled(ModelAgnosticSettings, chunks=chunks, aggregation=settings)

    def _planned_fields(self, request: PlanRequest, rounds: int, schedule: Sequence[float]) -> dict[str, float]:
        aggregation = self.aggregation
        if not anything_open(aggregation):
            return {}
        epsilon, delta = request.delta_budget("the model-agnostic learner")
        if isinstance(aggregation, OpenGnMax) and aggregation.noise == PLAN:
            if self.draws is not None:
                raise BadScenario("curator.learner.aggregation: with draws, leave epsilon and delta at plan, not noise")
            mu = down(mu_allowed(epsilon, delta) / math.sqrt(rounds))
            return {"noise": up(math.sqrt(2.0 * int(self.queries)) * self.touched / mu, 64.0)}
        if (aggregation.epsilon, aggregation.delta) != (PLAN, PLAN):
            raise BadScenario("curator.learner.aggregation: leave both epsilon and delta at plan, or neither")
        if self.draws is not None:
            if not schedule:
                raise BadScenario("planning a call on draws needs curator.n and curator.kappa")
            epsilon, delta = _call(schedule, self.draws, epsilon, delta)
        elif rounds > 1:
            epsilon, delta = down(epsilon / rounds, 16.0), down(delta / rounds, 16.0)
        return {"epsilon": epsilon, "delta": delta}


@SETTINGS.register("model-agnostic")
class ModelAgnosticSettings(OpenModelAgnostic, LearnerSettings):
    """Settled settings of A_priv."""

    chunks: Chunks
    queries: Queries
    aggregation: AnyAggregation

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.stream is not None and not isinstance(self.aggregation, SparseVector):
            raise ValueError(f"a stream wants the aggregation sparse-vector, found {self.aggregation.name}")
        if self.stream is not None and (self.draws is not None or self.sets_aside):
            raise ValueError("a stream is of the sample itself, with a fixed cutoff: leave out draws and estimate")
        if self.draws is None:
            return self
        if self.protects == "labels":
            raise ValueError("draws are weighted by labels, too: with protects: labels leave draws out")
        if self.aggregation.guarantee() is None:
            raise ValueError("with draws, give the aggregation's epsilon and delta; the noise follows")
        if self.teaching(self.draws) < self.chunks:
            raise ValueError(f"{self.chunks} chunks are more than the {self.teaching(self.draws)} draws that teach")
        return self

    @property
    def sets_aside(self) -> bool:
        """Whether half of the records are set aside, to estimate the teachers' mistakes."""
        return isinstance(self.aggregation, SparseVector) and self.aggregation.estimate is not None

    def teaching(self, people: int) -> int:
        """Return how many of ``people`` records teach: half of them if the others are set aside."""
        return people // 2 if self.sets_aside else people

    def event(self, tv_bound: float) -> Event:
        guarantee = self.aggregation.guarantee()
        if self.draws is None or guarantee is None:
            return self.answers_event(self.queries)
        return SubsampledRelease(draws=self.draws, tv_bound=tv_bound, epsilon=guarantee[0], delta=guarantee[1])

    def answers_event(self, count: int) -> Event:
        """Return the event of ``count`` answers about the sample itself."""
        return self.aggregation.event(count, self.queries, self.touched)

    def planned_people(self, task: PlanTask) -> PlannedValue:
        if self.draws is not None:
            return super().planned_people(task)
        return task.any_people(SOURCE)

    def planned_values(self, task: PlanTask, settings: OpenSettings) -> dict[str, PlannedValue]:
        aggregation = self.aggregation
        text = f"least k at which {AGREEMENT:.0%} agreement is seen through the noise"
        chunks = follow(settings.value("chunks"), lambda: _enough(self, aggregation), text, SOURCE)
        values = {"chunks": chunks}
        if self.draws is None and (task.vc_dimension or task.hypotheses or 0) > 1:
            values |= theorem_sizes(self, aggregation, task)
        if not isinstance(aggregation, GnMax):
            text = "distance to instability from which all points are answered with probability 95%"
            return {**values, "margin": fixed(_margin(self, aggregation), text, SOURCE)}
        sigma = aggregation.sigma(self.queries, self.touched)
        flipped = votes.flips(AGREEMENT, self.chunks, sigma, self.class_count)
        return {
            **values,
            "sigma": fixed(sigma, "sigma of a count: sqrt(2 m T)/mu*(eps, delta)", SOURCE),
            "flips": fixed(flipped, f"share of answers against {AGREEMENT:.0%} of the teachers", SOURCE),
        }


def _call(schedule: Sequence[float], draws: int, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the guarantee of a call on draws: nearly the weakest for which one call per round fits the budget."""
    costliest = max(schedule)

    def call_delta(eps: float) -> float:
        star = min(draws * math.log1p(costliest * math.expm1(eps)), 700.0)
        return min(delta, delta / (2.0 * len(schedule)) * math.expm1(eps) / math.expm1(star))

    def fits(eps: float) -> bool:
        delta_each = call_delta(eps)
        calls = (SubsampledRelease(draws=draws, tv_bound=bound, epsilon=eps, delta=delta_each) for bound in schedule)
        return cost(grouped(calls), delta) <= epsilon

    private = largest(fits, min(epsilon, _WEAKEST), 1e-4, _WEAKEST)
    if private == 0.0:
        raise BadScenario("no call on so many draws fits the curator's budget: enlarge n, or lower draws or rounds")
    return private, call_delta(private)


def _student_size(request: PlanRequest) -> tuple[int, int]:
    """Return m for a student that is an (alpha, beta, m)-agnostic learner, and the dimension V of its class."""
    dimension = request.vc_dimension or (math.ceil(math.log2(request.hypotheses)) if request.hypotheses else 0)
    if dimension < 1:
        raise BadScenario("curator.learner.queries: planning it needs vc_dimension, or hypotheses")
    return agnostic_sample(request.alpha, request.beta, dimension), dimension


def theorem_sizes(
    learner: ModelAgnosticSettings, aggregation: GnMax | Stability | SparseVector, task: PlanTask
) -> dict[str, PlannedValue]:
    """Return the sizes m, T, k and n that the theorems require, with the constants of their underlying bounds.

    *Theorems 4.2 and 4.3.* The student is an (alpha, beta, m)-agnostic learner. Teachers are (alpha, beta/k, n/k)-
    learners, agnostic if the run is (``mode: agnostic``). Then no teacher errs on more than T/3 of the points, with T
    of Theorem 3.2 for gamma + alpha, and on all but T points more than two thirds of k agree (Lemma 3.3). k is the
    least number for which all these points get that answer in spite of the noise. Each of the three statements fails
    with probability at most beta; the student's loss is O(gamma + alpha). Gamma, the loss of the best hypothesis, is
    set to alpha in the agnostic case. k and n are left out if no noise is wide enough for T bottoms.
    """
    m, dimension = _student_size(task)
    bottoms = min(m, votes.enough_bottoms((1 + task.agnostic) * task.alpha, m, task.beta))
    each = task.beta / m
    sizes = {"theorem_queries": fixed(m, "(32/alpha^2)(V ln(2em/V) + ln(4/beta)): an agnostic student", _THEOREMS)}
    text = "3 (e m + sqrt(e m ln(m/beta)/2)), e = " + ("2 alpha, for gamma = alpha" if task.agnostic else "alpha")
    try:
        if isinstance(aggregation, GnMax):
            sigma = aggregation.sigma(learner.queries, learner.touched) * math.sqrt(m / learner.queries)
            chunks = least(lambda k: votes.flips(2.0 / 3.0, k, sigma, learner.class_count) <= each, 1)
        elif isinstance(aggregation, SparseVector):
            sizes["theorem_cutoff"] = fixed(bottoms, text, _THEOREMS)
            margin = aggregation.thresholds(m + (learner.stream or 0), bottoms).margin(each)
            chunks = 6 * learner.touched * (margin + 1)
        else:
            share = votes.stability_share(m, aggregation.epsilon, aggregation.delta)
            chunks = 6 * learner.touched * (votes.stability_margin(each, *share) + 1)
    except BadInput:  # the noise cannot be drawn
        return {
            name: fixed(old.value, f"{old.formula}; too many for this budget", _THEOREMS) for name, old in sizes.items()
        }
    size = (agnostic_sample if task.agnostic else consistent_sample)(task.alpha, task.beta / chunks, dimension)
    text = f"k {size:,}: {'agnostic' if task.agnostic else 'consistent'} teachers for alpha and beta/k"
    return {
        **sizes,
        "theorem_chunks": fixed(chunks, "two thirds of k outweigh the noise on all m points", _THEOREMS),
        "theorem_people": fixed(chunks * size, text, _THEOREMS),
    }


def _enough(learner: OpenModelAgnostic, aggregation: GnMax | Stability | SparseVector) -> int:
    ahead = 2.0 * AGREEMENT - 1.0
    if isinstance(aggregation, GnMax):
        sigma = aggregation.sigma(int(learner.queries), learner.touched)
        return max(1, math.ceil(_CERTAINTY * math.sqrt(2.0) * sigma / ahead))
    return math.ceil(2.0 * (learner.touched * (_margin(learner, aggregation) + 1)) / ahead)


def _margin(learner: OpenModelAgnostic, aggregation: Stability | SparseVector) -> int:
    queries = learner.sequence
    if isinstance(aggregation, Stability):
        share = votes.stability_share(queries, aggregation.epsilon, aggregation.delta)
        return votes.stability_margin(0.05 / queries, *share)
    return aggregation.thresholds(queries, aggregation.cutoff).margin(0.05 / queries)
