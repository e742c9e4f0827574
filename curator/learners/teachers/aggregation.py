"""How votes become answers: GNMax, stable winners, or the sparse vector over them; with what that costs."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from common.core.arrays import Indices
from common.core.errors import BadInput, BadScenario
from common.core.values import Value
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, Gaussian, SubsampledRelease
from common.privacy.rounding import down, up
from common.privacy.theorems.sparse_vector import Thresholds, calibrated, printed, stability_share
from common.privacy.theorems.teacher_votes import MAX_NOISE, MIN_NOISE, answer_mu, answers_sigma
from curator.learners.teachers.counts import distances, winners
from curator.learners.teachers.stability import say_if_stable, say_until_cutoff
from curator.mechanisms.gaussian import noisy_winners

MIN_EPSILON, MAX_EPSILON = 0.001, 30.0
"""Geometric noise can be drawn for these."""


class Aggregation(Value):
    """A way to say the winner of each of m votes, in which one record changes at most ``touched`` teachers."""

    name: str

    in_parts: ClassVar[bool] = False
    """Whether a few of the m answers may be had for less; if not, all are asked for at once."""

    @abstractmethod
    def event(self, count: int, queries: int, touched: int) -> Event:
        """Declare what ``count`` of m = ``queries`` answers cost, asked of teachers of the sample itself."""

    @abstractmethod
    def guarantee(self) -> tuple[float, float] | None:
        """Return the (epsilon, delta) of all m answers for a data set that is given; None if none is stated."""

    @abstractmethod
    def say(self, counts: Indices, queries: int, touched: int, mistakes: float | None, source: RandomSource) -> Indices:
        """Return the class of each vote, shape (m,), int64, or a negative number where none is said.

        Parameters
        ----------
        counts
            Shape (m, classes).
        mistakes
            The teachers' share of mistakes, if it was estimated.
        """

    def check(self, queries: int, chunks: int, people: int, touched: int) -> None:
        """Refuse what could not be kept to, before anything private is touched.

        Raises
        ------
        BadScenario
            Saying which number would have to change.
        """


class GnMax(Aggregation):
    """Noisy counts: :func:`curator.mechanisms.gaussian.noisy_winners`.

    Give either ``noise`` or both ``epsilon`` and ``delta``.

    Attributes
    ----------
    noise
        sigma of each count, in votes.
    epsilon, delta
        Of all m answers together: the least noise follows.
    """

    in_parts: ClassVar[bool] = True

    name: Literal["gnmax"] = "gnmax"
    noise: float | None = Field(default=None, ge=MIN_NOISE, le=MAX_NOISE)
    epsilon: float | None = Field(default=None, gt=0, le=100)
    delta: float | None = Field(default=None, gt=0, lt=1)

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
        """Exactly so many Gaussian releases."""
        return Gaussian(count=count, mu=answer_mu(self.sigma(queries, touched), touched))

    def guarantee(self) -> tuple[float, float] | None:
        """Return epsilon and delta, if given."""
        return None if self.epsilon is None or self.delta is None else (self.epsilon, self.delta)

    def say(self, counts: Indices, queries: int, touched: int, mistakes: float | None, source: RandomSource) -> Indices:
        """Say a class for every vote."""
        return noisy_winners(counts, self.sigma(queries, touched), source)


class Stability(Aggregation):
    """Algorithm 1, A_stab, for every vote: a winner is said if it is stable. Pays for easy votes as for hard ones.

    Attributes
    ----------
    epsilon, delta
        Of all m answers together, by optimal composition.
    """

    name: Literal["stability"] = "stability"
    epsilon: float = Field(gt=0, le=100)
    delta: float = Field(gt=0, lt=1)

    def event(self, count: int, queries: int, touched: int) -> Event:
        """One release of the whole sequence."""
        return SubsampledRelease(draws=1, sampling=1.0, epsilon=self.epsilon, delta=self.delta)

    def guarantee(self) -> tuple[float, float] | None:
        """Return epsilon and delta."""
        return self.epsilon, self.delta

    def say(self, counts: Indices, queries: int, touched: int, mistakes: float | None, source: RandomSource) -> Indices:
        """Say the classes that are stable."""
        share = stability_share(queries, self.epsilon, self.delta)
        return say_if_stable(winners(counts), distances(counts, touched), *share, source)

    def check(self, queries: int, chunks: int, people: int, touched: int) -> None:
        """Refuse a share that is too small for noise."""
        try:
            stability_share(queries, self.epsilon, self.delta)
        except BadInput as unfit:
            raise BadScenario(f"stability: {unfit.detail}") from None


class SparseVector(Aggregation):
    """Algorithm 2 of Bassily, Thakkar and Thakurta, corrected: pays for the votes that do not agree, and for no others.

    Attributes
    ----------
    epsilon, delta
        Of one whole sequence of m answers.
    cutoff
        T: after so many bottoms nothing more is said.
    estimate
        Share of epsilon that pays for an estimate of the teachers' mistakes on people that are set aside; T is then
        what Theorem 3.2 wants for that many mistakes, at most ``cutoff`` (Remark 1).
    bounds
        ``tight``: calibrated exactly; ``paper``: the constants as Algorithm 2 prints them, with its number of chunks.
    beta
        Failure probability of the accuracy, for the printed constants and for T.
    """

    name: Literal["sparse-vector"] = "sparse-vector"
    epsilon: float = Field(gt=0, le=100)
    delta: float = Field(gt=0, lt=1)
    cutoff: int = Field(ge=1, le=1 << 20)
    estimate: float | None = Field(default=None, gt=0, lt=1)
    bounds: Literal["tight", "paper"] = "tight"
    beta: float = Field(default=0.05, gt=0, lt=1)

    @property
    def estimate_epsilon(self) -> float:
        """Pure cost of the estimate, 0 if there is none."""
        return 0.0 if self.estimate is None else down(self.estimate * self.epsilon)

    def event(self, count: int, queries: int, touched: int) -> Event:
        """One release of the whole sequence: its answers do not come cheaper by fewer."""
        return SubsampledRelease(draws=1, sampling=1.0, epsilon=self.epsilon, delta=self.delta)

    def guarantee(self) -> tuple[float, float] | None:
        """Return epsilon and delta."""
        return self.epsilon, self.delta

    def thresholds(self, queries: int, cutoff: int) -> Thresholds:
        """Return the calibration for a given T: for what the estimate leaves of epsilon.

        Raises
        ------
        BadInput
            If there is none.
        """
        left = self.epsilon if self.estimate is None else down(self.epsilon - up(self.estimate_epsilon))
        if self.bounds == "paper":
            return printed(cutoff, queries, left, self.delta, self.beta)[0]
        return calibrated(cutoff, queries, left, self.delta)

    def say(self, counts: Indices, queries: int, touched: int, mistakes: float | None, source: RandomSource) -> Indices:
        """Say the classes that are stable."""
        cutoff = self.cutoff if mistakes is None else min(self.cutoff, enough_bottoms(mistakes, queries, self.beta))
        law = self.thresholds(queries, cutoff)
        return say_until_cutoff(winners(counts), distances(counts, touched), law, source)

    def check(self, queries: int, chunks: int, people: int, touched: int) -> None:
        """Refuse thresholds that do not exist, and fewer chunks than the printed constants take."""
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


AnyAggregation = Annotated[GnMax | Stability | SparseVector, Field(discriminator="name")]


def enough_bottoms(mistakes: float, queries: int, beta: float) -> int:
    """Return Theorem 3.2's T for teachers that make this share of mistakes, at least 1.

    ::

        T = 3 (e m + sqrt(e m ln(m/beta)/2)),   e = gamma + alpha

    None of k teachers errs on more than T/3 of m queries, so (Lemma 3.3) on all but T of them more than two thirds
    agree.
    """
    expected = mistakes * queries
    return max(1, math.ceil(3.0 * (expected + math.sqrt(expected * math.log(queries / beta) / 2.0))))
