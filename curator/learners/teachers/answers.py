"""Teachers and their votes as one central mechanism: private records in, private answers on public points out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from common.core.arrays import AnyArray, Indices
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, NonPrivate, Release
from common.vocabulary.learners.aggregation import GnMax, SparseVector, Stability
from common.vocabulary.learners.model_agnostic import TOUCHED, Identity
from curator.learners.scikit import Classifier
from curator.learners.teachers.aggregation import aggregate
from curator.learners.teachers.chunks import chunk_of
from curator.learners.teachers.classes import Classes, ColumnClasses, LabelClasses
from curator.learners.teachers.counts import count_votes
from curator.learners.teachers.mistakes import estimated_mistakes
from curator.learners.teachers.teachers import votes
from curator.mechanisms.base import Mechanism, central

MAX_SET_ASIDE = 1 << 12
"""People set aside to estimate the teachers' mistakes; more would tell hardly more."""


class Taught(NamedTuple):
    """Who teaches: the private records, and the chunk of each; and who is set aside, if anybody."""

    records: Records
    chunk: Indices
    aside: Records | None


@central
@dataclass(frozen=True, eq=False)
class TeacherAnswers(Mechanism[Records, Indices]):
    """The private classes of public points, by the votes of teachers on disjoint chunks.

    Values are records. A record is in one chunk (two where content identifies it), and a teacher is a function of its
    own chunk, so replacing a record changes at most ``touched`` teachers; what the aggregation makes of the votes has
    the guarantee that it declares for that many.

    Attributes
    ----------
    aggregation
        How votes become answers.
    teacher
        Any classifier: a teacher is its own chunk's.
    classes
        What teachers tell apart.
    chunks, by
        How many chunks, and what identifies a record.
    queries
        m, of one whole sequence.
    points
        What teachers look at of the public points, shape (count, d).
    drawn
        Records are draws from mu: the price is that of all m answers together.
    second_half
        The first half of the records teaches nobody: its features are the public points.
    """

    aggregation: GnMax | Stability | SparseVector
    teacher: Classifier
    classes: Classes
    chunks: int
    by: Identity
    queries: int
    points: AnyArray
    drawn: bool = False
    second_half: bool = False

    def __post_init__(self) -> None:
        if type(self.aggregation) not in (GnMax, Stability, SparseVector):
            raise TypeError(f"no aggregation is a {type(self.aggregation).__name__}")
        if type(self.teacher) is not Classifier or type(self.classes) not in (LabelClasses, ColumnClasses):
            raise TypeError("teachers are a Classifier that tells labels or columns apart")
        if len(self.points) > self.queries and (self.drawn or not self.aggregation.in_parts):
            raise ValueError(f"{len(self.points)} points are more than the {self.queries} of one sequence")

    @property
    def touched(self) -> int:
        """Teachers that one record may change."""
        return TOUCHED[self.by]

    @property
    def price(self) -> Event:
        """What so many answers cost."""
        if not self.drawn:
            return self.aggregation.event(len(self.points), self.queries, self.touched)
        guarantee = self.aggregation.guarantee()
        return NonPrivate() if guarantee is None else Release(epsilon=guarantee[0], delta=guarantee[1])

    def apply(self, values: Iterator[Records], source: RandomSource) -> Indices:
        """Return a class a point, shape (count,), int64 in [0, C); negative where none is said."""
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
