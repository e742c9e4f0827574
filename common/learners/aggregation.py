"""How votes become answers, as public numbers: GNMax, stable winners, or the sparse vector; with what that costs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from common.core.errors import BadInput, BadScenario
from common.core.values import FromPlan, Value, explain
from common.privacy.events import Event, Gaussian, Release
from common.privacy.rounding import down, up
from common.privacy.theorems.votes import (
    MAX_NOISE,
    MIN_NOISE,
    Thresholds,
    answer_mu,
    answers_sigma,
    calibrated,
    printed,
    stability_share,
)

MIN_EPSILON, MAX_EPSILON = 0.001, 30.0
"""Geometric noise can be drawn for these."""

Noise = Annotated[float, Field(ge=MIN_NOISE, le=MAX_NOISE)]
Epsilon = Annotated[float, Field(gt=0, le=100)]
Delta = Annotated[float, Field(gt=0, lt=1)]


class OpenGnMax(Value):
    """Noisy counts: :func:`curator.mechanisms.sums.noisy_winners`.

    Give either ``noise`` or both ``epsilon`` and ``delta``.

    Attributes:
        noise: sigma of each count, in votes.
        epsilon, delta: Of all m answers together: the least noise follows.
    """

    name: Literal["gnmax"] = "gnmax"
    noise: Noise | FromPlan | None = None
    epsilon: Epsilon | FromPlan | None = None
    delta: Delta | FromPlan | None = None


class OpenStability(Value):
    """Algorithm 1, A_stab, for every vote: a winner is released if it is stable. Pays for easy votes as for hard ones.

    Attributes:
        epsilon, delta: Of all m answers together, by optimal composition.
    """

    name: Literal["stability"] = "stability"
    epsilon: Epsilon | FromPlan
    delta: Delta | FromPlan


class OpenSparseVector(Value):
    """Algorithm 2 of Bassily, Thakkar and Thakurta, corrected: pays for the votes that do not agree, and for no others.

    Attributes:
        epsilon, delta: Of one whole sequence of m answers.
        cutoff: T: after so many bottoms nothing more is released.
        estimate: Share of epsilon that pays for an estimate of the teachers' mistakes on people that are set aside; T
            is then what Theorem 3.2 wants for that many mistakes, at most ``cutoff`` (Remark 1).
        bounds: ``tight``: calibrated exactly; ``paper``: the constants as Algorithm 2 prints them, with its number of
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
    """A way to say the winner of each of m votes, in which one record changes at most ``touched`` teachers."""

    in_parts: ClassVar[bool] = False
    """Whether a few of the m answers may be had for less; if not, all are asked for at once."""

    @abstractmethod
    def event(self, count: int, queries: int, touched: int) -> Event:
        """Declare what ``count`` of m = ``queries`` answers cost, asked of teachers of the sample itself."""

    @abstractmethod
    def guarantee(self) -> tuple[float, float] | None:
        """Return the (epsilon, delta) of all m answers for a data set that is given; None if none is stated."""

    def check(self, queries: int, chunks: int, people: int, touched: int) -> None:
        """Refuse what could not be guaranteed, before anything private is touched.

        Raises:
            BadScenario: Saying which number would have to change.
        """


class GnMax(OpenGnMax, Aggregation):
    """Noisy counts, settled."""

    in_parts: ClassVar[bool] = True

    noise: Noise | None = None
    epsilon: Epsilon | None = None
    delta: Delta | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = (self.noise is not None, self.epsilon is not None, self.delta is not None)
        if given not in ((True, False, False), (False, True, True)):
            raise ValueError("gnmax: give either noise, or both epsilon and delta")
        return self

    def sigma(self, queries: int, touched: int) -> float:
        """Return the noise's standard deviation, in votes."""
        if self.noise is not None:
            return self.noise
        if self.epsilon is None or self.delta is None:
            raise AssertionError("either noise or epsilon and delta are given")
        return answers_sigma(queries, self.epsilon, self.delta, touched)

    def event(self, count: int, queries: int, touched: int) -> Event:
        return Gaussian(count=count, mu=answer_mu(self.sigma(queries, touched), touched))

    def guarantee(self) -> tuple[float, float] | None:
        return None if self.epsilon is None or self.delta is None else (self.epsilon, self.delta)


class Stability(OpenStability, Aggregation):
    """Stable winners, settled."""

    epsilon: Epsilon
    delta: Delta

    def event(self, count: int, queries: int, touched: int) -> Event:
        return Release(epsilon=self.epsilon, delta=self.delta)

    def guarantee(self) -> tuple[float, float] | None:
        return self.epsilon, self.delta

    def check(self, queries: int, chunks: int, people: int, touched: int) -> None:
        try:
            stability_share(queries, self.epsilon, self.delta)
        except BadInput as unfit:
            raise BadScenario(f"stability: {unfit.detail}") from None


class SparseVector(OpenSparseVector, Aggregation):
    """The sparse vector, settled."""

    epsilon: Epsilon
    delta: Delta

    @property
    def estimate_epsilon(self) -> float:
        """Pure cost of the estimate, 0 if there is none."""
        return 0.0 if self.estimate is None else down(self.estimate * self.epsilon)

    def event(self, count: int, queries: int, touched: int) -> Event:
        return Release(epsilon=self.epsilon, delta=self.delta)

    def guarantee(self) -> tuple[float, float] | None:
        return self.epsilon, self.delta

    def thresholds(self, queries: int, cutoff: int) -> Thresholds:
        """Return the calibration for a given T: for what the estimate leaves of epsilon.

        Raises:
            BadInput: If there is none.
        """
        left = self.epsilon if self.estimate is None else down(self.epsilon - up(self.estimate_epsilon))
        if self.bounds == "paper":
            return printed(cutoff, queries, left, self.delta, self.beta)[0]
        return calibrated(cutoff, queries, left, self.delta)

    def check(self, queries: int, chunks: int, people: int, touched: int) -> None:
        if self.estimate is not None and not MIN_EPSILON <= self.estimate_epsilon <= MAX_EPSILON:
            raise BadScenario(
                f"sparse-vector: the estimate's epsilon must be from {MIN_EPSILON:g} to {MAX_EPSILON:g}, found "
                f"{self.estimate_epsilon:g}: take another share"
            )
        try:
            self.thresholds(queries, self.cutoff)
            if self.bounds == "paper":
                wanted = printed(self.cutoff, queries, self.epsilon, self.delta, self.beta)[1]
                if chunks < wanted or people < wanted:
                    raise BadInput(
                        f"the constants that Algorithm 2 prints take {wanted:,} chunks for {queries:,} queries and "
                        f"{self.cutoff} bottoms, found {chunks:,} chunks of {people:,} records: take bounds: tight"
                    )
        except BadInput as unfit:
            raise BadScenario(f"sparse-vector: {unfit.detail}") from None


AnyOpenAggregation = Annotated[OpenGnMax | OpenStability | OpenSparseVector, Field(discriminator="name")]
AnyAggregation = Annotated[GnMax | Stability | SparseVector, Field(discriminator="name")]
_ADAPTER: TypeAdapter[GnMax | Stability | SparseVector] = TypeAdapter(AnyAggregation)


def parse_aggregation(wire: Any) -> GnMax | Stability | SparseVector:
    """Return a settled aggregation from its JSON form.

    Raises:
        BadScenario: If a number is out of range.
    """
    try:
        return _ADAPTER.validate_python(wire)
    except ValidationError as error:
        raise BadScenario(f"curator.learner.aggregation: {explain(error)}") from None
