"""Votes become answers: GNMax, stable winners, or the sparse vector, as one central mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from common.core.arrays import AnyArray, Indices
from common.learners.model_agnostic import TOUCHED, GnMax, Identity, SparseVector, Stability
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, NonPrivate, Release
from common.privacy.theorems.votes import Thresholds, stability_level, stability_share
from curator.learners.scikit import Trainable
from curator.learners.teacher_classes import ColumnClasses, LabelClasses, TeacherClasses
from curator.learners.teachers import chunk_of, count_votes, distances, votes, winners
from curator.mechanisms.base import CentralMechanism, central
from curator.mechanisms.sums import noisy_winners
from curator.mechanisms.whole_numbers import geometric_noise

MAX_SET_ASIDE = 1 << 12
"""People set aside to estimate the teachers' mistakes; more would tell hardly more."""


class Taught(NamedTuple):
    """Who teaches: the private records, and the chunk of each; and who is set aside, if anybody."""

    records: Records
    chunk: Indices
    aside: Records | None


@central
@dataclass(frozen=True, eq=False)
class TeacherAnswers(CentralMechanism[Records, Indices]):
    """The private classes of public points, by the votes of teachers on disjoint chunks.

    Values are records. A record is in one chunk (two where content identifies it), and a teacher is a function of its
    own chunk, so replacing a record changes at most ``touched`` teachers; what the aggregation makes of the votes has
    the guarantee that it declares for that many.

    Attributes:
        aggregation: How votes become answers.
        teacher: Any classifier: a teacher is its own chunk's.
        classes: What teachers tell apart.
        chunks, by: How many chunks, and what identifies a record.
        queries: m, of one whole sequence.
        points: What teachers look at of the public points, shape (count, d).
        drawn: Records are draws from mu: the price is that of all m answers together.
        second_half: The first half of the records teaches nobody: its features are the public points.
    """

    aggregation: GnMax | Stability | SparseVector
    teacher: Trainable
    classes: TeacherClasses
    chunks: int
    by: Identity
    queries: int
    points: AnyArray
    drawn: bool = False
    second_half: bool = False

    def __post_init__(self) -> None:
        if type(self.aggregation) not in (GnMax, Stability, SparseVector):
            raise TypeError(f"no aggregation is a {type(self.aggregation).__name__}")
        if type(self.teacher) is not Trainable or type(self.classes) not in (LabelClasses, ColumnClasses):
            raise TypeError("teachers are a Classifier that tells labels or columns apart")
        if len(self.points) > self.queries and (self.drawn or not self.aggregation.in_parts):
            raise ValueError(f"{len(self.points)} points are more than the {self.queries} of one sequence")

    @property
    def touched(self) -> int:
        """Teachers that one record may change."""
        return TOUCHED[self.by]

    @property
    def price(self) -> Event:
        if not self.drawn:
            return self.aggregation.event(len(self.points), self.queries, self.touched)
        guarantee = self.aggregation.guarantee()
        return NonPrivate() if guarantee is None else Release(epsilon=guarantee[0], delta=guarantee[1])

    def apply(self, values: Iterator[Records], source: RandomSource) -> Indices:
        taught = self.taught(Records.joined(list(values)))
        kinds, points = self.classes, self.points
        asked = points if taught.aside is None else np.concatenate([points, kinds.inputs(taught.aside.features)])
        cast = votes(
            self.teacher,
            Records(kinds.inputs(taught.records.features), taught.records.labels),
            taught.chunk,
            self.chunks,
            asked,
            source.derive("votes"),
            classes=kinds.of(taught.records),
        )
        return aggregate(
            self.aggregation,
            count_votes(cast[:, : len(points)], kinds.number),
            self.queries,
            self.touched,
            self._mistakes(cast[:, len(points) :], taught.aside, source),
            source.derive("said"),
        )

    def taught(self, records: Records) -> Taught:
        """Divide records among the teachers, and set people aside where their mistakes are to be estimated."""
        if self.second_half:
            records = Records(records.features[len(records) // 2 :], records.labels[len(records) // 2 :])
        aside = None
        if isinstance(self.aggregation, SparseVector) and self.aggregation.estimate is not None:
            teaching = len(records) // 2
            last = teaching + min(len(records) - teaching, self.chunks, MAX_SET_ASIDE)
            aside = Records(records.features[teaching:last], records.labels[teaching:last])
            records = Records(records.features[:teaching], records.labels[:teaching])
        return Taught(records, chunk_of(records, self.chunks, self.by), aside)

    def _mistakes(self, cast: AnyArray, aside: Records | None, source: RandomSource) -> float | None:
        if aside is None or not isinstance(self.aggregation, SparseVector):
            return None
        epsilon = self.aggregation.estimate_epsilon
        return estimated_mistakes(cast, self.classes.of(aside), self.touched, epsilon, source.derive("mistakes"))


def aggregate(
    aggregation: GnMax | Stability | SparseVector,
    counts: Indices,
    queries: int,
    touched: int,
    mistakes: float | None,
    source: RandomSource,
) -> Indices:
    """Return the class of each vote, shape (m,), int64, or a negative number where none is released.

    Args:
        counts: Shape (m, classes).
        queries: m.
        touched: How many teachers one record changes at most.
        mistakes: The teachers' share of mistakes, if it was estimated.
    """
    if isinstance(aggregation, GnMax):
        return noisy_winners(counts, aggregation.sigma(queries, touched), source)
    if isinstance(aggregation, Stability):
        share = stability_share(queries, aggregation.epsilon, aggregation.delta)
        return release_if_stable(winners(counts), distances(counts, touched), *share, source)
    cutoff = aggregation.cutoff
    if mistakes is not None:
        cutoff = min(cutoff, enough_bottoms(mistakes, queries, aggregation.beta))
    law = aggregation.thresholds(queries, cutoff)
    return release_until_cutoff(winners(counts), distances(counts, touched), law, source)


def enough_bottoms(mistakes: float, queries: int, beta: float) -> int:
    """Return Theorem 3.2's T for teachers that make this share of mistakes, at least 1.

    ::

        T = 3 (e m + sqrt(e m ln(m/beta)/2)),   e = gamma + alpha

    None of k teachers errs on more than T/3 of m queries, so (Lemma 3.3) on all but T of them more than two thirds
    agree.
    """
    expected = mistakes * queries
    return max(1, math.ceil(3.0 * (expected + math.sqrt(expected * math.log(queries / beta) / 2.0))))


BOTTOM = -1
"""Said in the place of a class where the votes do not agree."""
UNANSWERED = -2
"""Stands for the queries that come after the last bottom that is allowed."""


def release_if_stable(values: Indices, stable: Indices, epsilon: float, delta: float, source: RandomSource) -> Indices:
    """Algorithm 1, A_stab, for each of m queries: the value, or :data:`BOTTOM`; (epsilon, delta)-DP *each*.

    Says the value if dist + Z > Gamma, Z two-sided geometric noise of epsilon, Gamma the least level with P(Z > Gamma)
    <= delta (:func:`common.privacy.theorems.votes.stability_level`).

    Args:
        values, stable: Shape (m,): the winners and their distances to instability (:mod:`curator.learners.teachers`).
    """
    noise = geometric_noise(len(values), epsilon, source)
    return np.where(stable + noise > stability_level(epsilon, delta), values, BOTTOM)


def release_until_cutoff(values: Indices, stable: Indices, law: Thresholds, source: RandomSource) -> Indices:
    """Algorithm 2, A_binClas, its loop: each value or :data:`BOTTOM`; after T bottoms :data:`UNANSWERED`.

    Bassily, Thakkar and Thakurta, "Model-Agnostic Private Learning" (NeurIPS 2018), corrected: it stops at the T-th
    bottom (`c < T`; as printed, `c <= T`, there are T+1), distances have sensitivity 1, and the noise is calibrated
    exactly, for any number of classes. The threshold is drawn anew after each bottom. Private as
    :meth:`~common.privacy.theorems.votes.Thresholds.failure` says, for one sequence of queries.

    Args:
        values, stable: Shape (m,): the winners and their distances to instability.
        law: T, the threshold and both noises.
    """
    refreshed = law.level + geometric_noise(law.cutoff, law.of_threshold, source.derive("thresholds"))
    noisy = stable + geometric_noise(len(values), law.of_query, source.derive("queries"))
    answers = np.full(len(values), UNANSWERED, dtype=np.int64)
    bottoms = 0
    for query in range(len(values)):
        if not bottoms < law.cutoff:
            break
        passes = noisy[query] > refreshed[bottoms]
        answers[query] = values[query] if passes else BOTTOM
        bottoms += not passes
    return answers


def estimated_mistakes(votes: AnyArray, classes: AnyArray, touched: int, epsilon: float, source: RandomSource) -> float:
    """Return the teachers' share of mistakes on h people that no teacher was trained on, with noise; epsilon-DP.

    ::

        floor(M / u) + Z,    u = max(k, touched h),    as a share of k h / u

    M, of k h votes those that are wrong, changes by at most k if one of the h people is replaced, and by at most
    touched h if one of the others is, whose teachers change; so the whole number floor(M/u) has sensitivity 1, and Z is
    two-sided geometric. (Bassily, Thakkar and Thakurta 2018, Remark 1.)

    Args:
        votes: Shape (k, h).
        classes: Their true classes, shape (h,); where one is negative, every vote is wrong.

    Returns:
        A number in [0, 1].
    """
    teachers, people = votes.shape
    unit = max(teachers, touched * people)
    wrong = int(np.count_nonzero(votes != classes))
    noisy = wrong // unit + int(geometric_noise(1, epsilon, source)[0])
    return float(np.clip((noisy + 1) * unit / (teachers * people), 0.0, 1.0))
