"""Teachers on disjoint chunks of the records, their votes on public points, and answers in a sequence or a stream."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from common.core.arrays import AnyArray, Bits, Indices
from common.core.errors import BadScenario
from common.core.values import Value, explain
from common.learners.base import ClassColumns
from common.learners.model_agnostic import TOUCHED, GnMax, Identity, SparseVector, Stability
from common.local.hypotheses.composed import Argmax, column_classes
from common.local.hypotheses.hypothesis import GREATEST, Hypothesis, Linear, plain_kinds
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, NonPrivate, Release
from common.privacy.theorems.votes import Thresholds, enough_bottoms, stability_level, stability_share
from curator.learners.scikit import Trainable, build
from curator.mechanisms.base import CentralMechanism, central
from curator.mechanisms.counts import geometric_noise
from curator.mechanisms.stability import distances, winners
from curator.mechanisms.sums import noisy_winners


def votes(
    classifier: Trainable,
    features: AnyArray,
    chunk: Indices,
    chunks: int,
    points: AnyArray,
    source: RandomSource,
    classes: Indices,
    aside: AnyArray | None = None,
) -> Bits:
    """Return the class that each of k teachers gives to each of m points, shape (k, m), uint8.

    A teacher is a function of its chunk, the points and its own seed, so a record changes only the votes of its chunk.
    A teacher without records, or that cannot be trained, votes for class 0; one that sees a single class votes for it.
    The votes on h people set ``aside`` follow, shape (k, m + h): each depends on that person and the teacher alone.

    Args:
        features: Features of the records, shape (n, d).
        chunk: The chunk of each record, shape (n,), in [0, k).
        points: Features of public points, shape (m, d).
        classes: The class of each record, shape (n,), in [0, 256); records with a negative class teach no teacher.
        aside: Features of people who teach no teacher and are not public, shape (h, d); None for none.
    """
    people = points[:0] if aside is None else aside
    ballots = np.empty((chunks, len(points) + len(people)), dtype=np.uint8)
    with unchecked():
        for number, teacher in enumerate(trained(classifier, features, chunk, chunks, source, classes)):
            ballots[number, : len(points)] = vote(teacher, points)
            ballots[number, len(points) :] = vote_on_each(teacher, people)
    return ballots


Teacher = int | Any
"""A fitted classifier, or the one class for which a teacher votes everywhere."""


@contextmanager
def unchecked() -> Iterator[None]:
    """Turn off scikit-learn's checks and warnings: records were checked, and parameters tried on random records."""
    from sklearn import config_context  # imported here, as it is slow to load

    # Checking records k times takes as long as learning.
    with warnings.catch_warnings(), config_context(assume_finite=True, skip_parameter_validation=True):
        warnings.simplefilter("ignore")  # not converged, collinear, ...: the votes show how good the teachers are
        yield


def trained(
    classifier: Trainable, features: AnyArray, chunk: Indices, chunks: int, source: RandomSource, classes: Indices
) -> Iterator[Teacher]:
    """Train the teachers of all chunks, one after the other; see :func:`votes`."""
    order = np.argsort(chunk, kind="stable")
    ends = np.cumsum(np.bincount(chunk, minlength=chunks))
    seeds = source.derive("teachers").integers(1 << 32, chunks)
    for teacher in range(chunks):
        rows = order[(ends[teacher - 1] if teacher else 0) : ends[teacher]]
        rows = rows[classes[rows] >= 0]
        yield _fit_teacher(classifier, features[rows], classes[rows], int(seeds[teacher]))


def _fit_teacher(classifier: Trainable, features: AnyArray, classes: Indices, seed: int) -> Teacher:
    if len(classes) == 0:
        return 0
    if classes.min() == classes.max():
        return int(classes[0])
    try:
        model = build(classifier, seed)
        model.fit(features, classes)
        return model
    except Exception:  # noqa: BLE001 - whatever it is, a failure would say something about this chunk
        return 0


def vote(teacher: Teacher, points: AnyArray) -> Bits | int:
    """Return the classes that a teacher votes for, shape (m,), or the one class that it votes for everywhere."""
    if isinstance(teacher, int):
        return teacher
    classes = _predicted(teacher, points)
    return 0 if classes is None else classes


def _predicted(teacher: Any, points: AnyArray) -> Bits | None:
    """Return the classes that a classifier predicts; None if it fails, which would say something about its chunk."""
    try:
        # One of another package may modify the points that others still need.
        rows = points if _of_scikit(teacher) else points.copy()
        return np.asarray(teacher.predict(rows)).astype(np.uint8).reshape(len(points))
    except Exception:  # noqa: BLE001 - any failure depends on private records, so none may end the operation
        return None


def _of_scikit(teacher: Any) -> bool:
    return type(teacher).__module__.startswith("sklearn.")


def vote_on_each(teacher: Teacher, people: AnyArray) -> Bits | int:
    """Return the classes that a teacher votes for, shape (h,), each a function of the teacher and that person alone.

    Classifiers of scikit-learn predict row by row, but some fail for all rows if one is odd: for instance
    ``RadiusNeighborsClassifier`` if no record is near. The vote on such a person is 0, and another person stands in
    that place while the others are predicted. Other classifiers may compare rows, so each call has one row.
    """
    if isinstance(teacher, int):
        return teacher
    if len(people) == 0:
        return 0
    alone = (people[place : place + 1] for place in range(len(people)))
    if not _of_scikit(teacher):
        return np.array([int(np.ravel(vote(teacher, one))[0]) for one in alone], dtype=np.uint8)
    classes = _predicted(teacher, people)
    if classes is not None:
        return classes
    fails = np.array([_predicted(teacher, one) is None for one in alone])
    if fails.all():
        return 0
    substituted = people.copy()
    substituted[fails] = people[np.argmin(fails)]
    return np.where(fails, 0, vote(teacher, substituted)).astype(np.uint8)


def chunk_of(records: Records, chunks: int, identity: Identity) -> Indices:
    """Return the chunk of every record, shape (n,), int64 in [0, k).

    ``slot``: the record in slot i is in chunk i mod k. Slots are fixed places, so replacing a record changes one chunk.
    ``content``: chunk SHA-256(record) mod k, for people without fixed places. Replacing a record changes two chunks:
    one loses it, one gains its successor; adding or removing one changes a single chunk.

    Consecutive pieces, which Algorithm 2 of Bassily, Thakkar and Thakurta allows, are unsound if records may be added
    or removed: a single one shifts all others.
    """
    if identity == "slot":
        return np.arange(len(records), dtype=np.int64) % chunks
    people = zip(records.features, records.labels, strict=True)
    digests = (hashlib.sha256(row.tobytes() + label.tobytes()).digest() for row, label in people)
    numbers = (int.from_bytes(digest[:8], "little") % chunks for digest in digests)
    return np.fromiter(numbers, dtype=np.int64, count=len(records))


def count_votes(votes: AnyArray, classes: int) -> Indices:
    """Return how many of k teachers vote for each class, shape (m, classes), int64, for votes of shape (k, m)."""
    return np.stack([np.count_nonzero(votes == label, axis=0) for label in range(classes)], axis=1)


_NEVER = Linear(weights=(0.0,), threshold=GREATEST)
"""Score of a class that no point has: below all others, everywhere."""


class LabelClasses(Value):
    """Two classes: labels -1 and +1."""

    @property
    def number(self) -> int:
        """C, the number of classes."""
        return 2

    def before(self, dimension: int) -> int:
        """Return how many of ``dimension`` features are used; raises BadScenario if they contain no such classes."""
        return dimension

    def inputs(self, features: AnyArray) -> AnyArray:
        """Return the features that teachers and students use, C-contiguous."""
        return np.ascontiguousarray(features)

    def of(self, records: Records) -> Indices:
        """Return each record's class, shape (n,); -1 if it has none and therefore teaches no teacher."""
        return (records.labels > 0).astype(np.int64)

    def released(self, answer: int) -> int | None:
        """Return the released form of an answer; None if it is negative, as nothing is released then."""
        return None if answer < 0 else 2 * answer - 1

    def train_student(self, student: Trainable, points: AnyArray, classes: Indices, source: RandomSource) -> Hypothesis:
        """Train a student on points with known classes; raises BadScenario as :meth:`Trainable.train` does."""
        return student.train(Records(points, (2 * classes - 1).astype(np.int8)), source)


class ColumnClasses(ClassColumns):
    """C classes as one-hot columns among the features; teachers and students use only the features before them."""

    def before(self, dimension: int) -> int:
        if dimension < self.first + self.count:
            raise BadScenario(
                f"the classes are to stand in features {self.first} to {self.first + self.count - 1}, records have "
                f"{dimension} features: numbers start at 0"
            )
        return self.first

    @property
    def number(self) -> int:
        return self.count

    def inputs(self, features: AnyArray) -> AnyArray:
        return np.ascontiguousarray(features[:, : self.first])

    def of(self, records: Records) -> Indices:
        return column_classes(records.features, self.first, self.count)

    def released(self, answer: int) -> int | None:
        return None if answer < 0 else answer

    def train_student(self, student: Trainable, points: AnyArray, classes: Indices, source: RandomSource) -> Hypothesis:
        hypotheses = tuple(
            student.train(Records(points, np.where(classes == c, 1, -1).astype(np.int8)), source.derive("class", c))
            if np.any(classes == c)
            else _NEVER
            for c in range(self.count)
        )
        foreign = {hypothesis.kind for hypothesis in hypotheses} - plain_kinds()
        if foreign:
            raise BadScenario(
                f"{student.classifier}: with several classes a student must be linear or made of trees; as data this "
                f"one is of kind {min(foreign)}"
            )
        try:
            return Argmax(first=self.first, hypotheses=hypotheses)
        except ValidationError as error:
            raise BadScenario(f"{student.classifier}: its models are too large together: {explain(error)}") from None


MAX_SET_ASIDE = 1 << 12  # people set aside to estimate the teachers' mistakes; more would hardly help


@central
@dataclass(frozen=True, eq=False)
class TeacherAnswers(CentralMechanism[Records, Indices]):
    """The private classes of public points, by the votes of teachers on disjoint chunks.

    Values are records. Replacing a record changes one chunk (two if content identifies it), and a teacher is a function
    of its chunk, so at most ``touched`` teachers change. The aggregation of the votes has the guarantee that it
    declares for that many.

    Attributes:
        by: What identifies a record.
        queries: m, the length of one whole sequence.
        points: The teachers' view of the public points, shape (count, d).
        drawn: Records are draws from mu; the price is then that of all m answers together.
        second_half: The first half of the records teaches no teacher: its features are the public points.
    """

    aggregation: GnMax | Stability | SparseVector
    teacher: Trainable
    classes: LabelClasses | ColumnClasses
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
        return TOUCHED[self.by]

    @property
    def price(self) -> Event:
        if not self.drawn:
            return self.aggregation.event(len(self.points), self.queries, self.touched)
        guarantee = self.aggregation.guarantee()
        return NonPrivate() if guarantee is None else Release(epsilon=guarantee[0], delta=guarantee[1])

    def apply(self, values: Iterator[Records], source: RandomSource) -> Indices:
        records, aside = self.split_records(Records.joined(list(values)))
        kinds, points, chunk = self.classes, self.points, chunk_of(records, self.chunks, self.by)
        aside_inputs = None if aside is None else kinds.inputs(aside.features)
        words, classes = source.derive("votes"), kinds.of(records)
        ballots = votes(
            self.teacher, kinds.inputs(records.features), chunk, self.chunks, points, words, classes, aside_inputs
        )
        mistakes = None
        if aside is not None and isinstance(self.aggregation, SparseVector):
            wrong, epsilon = ballots[:, len(points) :], self.aggregation.estimate_epsilon
            mistakes = estimate_mistakes(wrong, kinds.of(aside), self.touched, epsilon, source.derive("mistakes"))
        counts = count_votes(ballots[:, : len(points)], kinds.number)
        return aggregate(self.aggregation, counts, self.queries, self.touched, mistakes, source.derive("said"))

    def split_records(self, records: Records) -> tuple[Records, Records | None]:
        """Return the records that teach, and those set aside if the teachers' mistakes are to be estimated."""
        if self.second_half:
            records = Records(records.features[len(records) // 2 :], records.labels[len(records) // 2 :])
        aside = None
        if isinstance(self.aggregation, SparseVector) and self.aggregation.estimate is not None:
            teaching = len(records) // 2
            last = teaching + min(len(records) - teaching, self.chunks, MAX_SET_ASIDE)
            aside = Records(records.features[teaching:last], records.labels[teaching:last])
            records = Records(records.features[:teaching], records.labels[:teaching])
        return records, aside


def aggregate(
    aggregation: GnMax | Stability | SparseVector,
    counts: Indices,
    queries: int,
    touched: int,
    mistakes: float | None,
    source: RandomSource,
) -> Indices:
    """Return the class of each vote, shape (m,), or a negative number where none is released.

    Counts have shape (m, classes). One record changes at most ``touched`` teachers. ``mistakes`` is the teachers' share
    of mistakes, if it was estimated.
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


BOTTOM = -1  # the answer instead of a class if the votes do not agree
UNANSWERED = -2  # the answer to queries after the last bottom that is allowed


def release_if_stable(values: Indices, stable: Indices, epsilon: float, delta: float, source: RandomSource) -> Indices:
    """Run Algorithm 1, A_stab, on m queries: return the value or :data:`BOTTOM`; (epsilon, delta)-DP for *each* query.

    The value is returned if dist + Z > Gamma, where Z is two-sided geometric noise of epsilon and Gamma the least level
    with P(Z > Gamma) <= delta (:func:`common.privacy.theorems.votes.stability_level`).
    ``values`` and ``stable``, shape (m,), are the winners and their distances to instability.
    """
    noise = geometric_noise(len(values), epsilon, source)
    return np.where(stable + noise > stability_level(epsilon, delta), values, BOTTOM)


def release_until_cutoff(values: Indices, stable: Indices, law: Thresholds, source: RandomSource) -> Indices:
    """Run the loop of Algorithm 2, A_binClas: values or :data:`BOTTOM`; after T bottoms :data:`UNANSWERED`.

    Bassily, Thakkar and Thakurta, "Model-Agnostic Private Learning" (NeurIPS 2018), corrected: it stops at the T-th
    bottom (`c < T`; as printed, `c <= T`, there are T+1), distances have sensitivity 1, and the noise is calibrated
    exactly, for any number of classes. The threshold is drawn anew after each bottom. For the guarantee, which is for
    one sequence of queries, see :meth:`~common.privacy.theorems.votes.Thresholds.failure`.
    """
    thresholds = geometric_noise(law.cutoff, law.of_threshold, source.derive("thresholds"))
    noise = geometric_noise(len(values), law.of_query, source.derive("queries"))
    answers, bottoms = np.full(len(values), UNANSWERED, dtype=np.int64), 0
    for index, (value, distance) in enumerate(zip(values, stable + noise, strict=True)):
        if bottoms == law.cutoff:
            break
        answers[index] = value if distance > law.level + thresholds[bottoms] else BOTTOM
        bottoms += int(answers[index] == BOTTOM)
    return answers


def estimate_mistakes(votes: AnyArray, classes: AnyArray, touched: int, epsilon: float, source: RandomSource) -> float:
    """Return the teachers' share of mistakes on h people that no teacher was trained on, with noise; epsilon-DP.

    ::

        floor(M / u) + Z,    u = max(k, touched h),    as a share of k h / u

    M, the number of wrong votes among k h, changes by at most k if one of the h people is replaced, and by at most
    touched h if another person is replaced, which changes teachers. So the whole number floor(M/u) has sensitivity 1,
    and Z is two-sided geometric noise (Bassily, Thakkar and Thakurta 2018, Remark 1).
    Votes have shape (k, h); if the true class is negative, every vote is wrong. The result is in [0, 1].
    """
    teachers, people = votes.shape
    unit = max(teachers, touched * people)
    wrong = int(np.count_nonzero(votes != classes))
    noisy = wrong // unit + int(geometric_noise(1, epsilon, source)[0])
    return float(np.clip((noisy + 1) * unit / (teachers * people), 0.0, 1.0))


@central
@dataclass(frozen=True, eq=False)
class TeacherStream(CentralMechanism[Records, "StreamOfAnswers"]):
    """An interactive mechanism: the same teachers are kept and answer later questions, one at a time.

    Together with the first answers of the sequence it is one sparse vector, whose law does not depend on the number of
    stable answers or on when questions are chosen. So it costs what the sequence costs.

    Attributes:
        opening: The mechanism that answered the first questions, from the same source.
        law: Thresholds of the sparse vector.
        bottoms: The number of bottoms among the first answers.
    """

    opening: TeacherAnswers
    law: Thresholds
    bottoms: int

    @property
    def price(self) -> Event:
        return self.opening.price

    def apply(self, values: Iterator[Records], source: RandomSource) -> StreamOfAnswers:
        opening, records = self.opening, self.opening.split_records(Records.joined(list(values)))[0]
        kinds, chunk = opening.classes, chunk_of(records, opening.chunks, opening.by)
        training = (kinds.inputs(records.features), chunk, opening.chunks, source.derive("votes"), kinds.of(records))
        with unchecked():
            teachers = list(trained(opening.teacher, *training))
        return StreamOfAnswers(teachers, kinds, opening.touched, self.law, self.bottoms, source.derive("said"))


class StreamOfAnswers:
    """The state of a sequence of questions: teachers, a threshold, and how many bottoms are still allowed.

    The noise of a question, and that of the threshold after a bottom, are functions of the secret source and of a
    ``lineage``, a digest of the question and of all questions before it. So two questions never share noise, and one
    question never gets new noise, even if an old ledger is restored.
    """

    def __init__(
        self,
        teachers: list[Teacher],
        kinds: LabelClasses | ColumnClasses,
        touched: int,
        law: Thresholds,
        bottoms: int,
        source: RandomSource,
    ) -> None:
        self._teachers, self._kinds, self._touched, self._law, self._source = teachers, kinds, touched, law, source
        self._bottoms = bottoms
        first = geometric_noise(law.cutoff, law.of_threshold, source.derive("thresholds"))
        self._threshold = int(first[bottoms]) if bottoms < law.cutoff else 0

    def answer(self, point: AnyArray, lineage: str) -> int:
        """Return the class of a point, shape (d,), as :meth:`judge` does; does not change the state."""
        ballots = np.empty((len(self._teachers), 1), dtype=np.uint8)
        with unchecked():
            for number, teacher in enumerate(self._teachers):
                ballots[number] = vote(teacher, point[None, :])
        counts = count_votes(ballots, self._kinds.number)
        return self.judge(int(winners(counts)[0]), int(distances(counts, self._touched)[0]), lineage)

    def judge(self, value: int, stable: int, lineage: str) -> int:
        """Return the winner ``value`` with distance ``stable``, or a bottom; UNANSWERED after the last bottom."""
        if self._bottoms >= self._law.cutoff:
            return UNANSWERED
        noise = int(geometric_noise(1, self._law.of_query, self._source.derive("question", lineage))[0])
        return value if stable + noise > self._law.level + self._threshold else BOTTOM

    def advance(self, lineage: str, *, bottom: bool) -> None:
        """Advance past a question whose answer is stored; after a bottom, draw the threshold's noise anew."""
        if bottom:
            self._bottoms += 1
            fresh = geometric_noise(1, self._law.of_threshold, self._source.derive("threshold", lineage))
            self._threshold = int(fresh[0])
