"""What teachers tell apart: the two labels, or classes that stand in columns; and students of several classes."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from pydantic import ValidationError

from common.core.arrays import AnyArray, Indices
from common.core.errors import BadScenario
from common.core.values import Value, explain
from common.learners.model_agnostic import ClassColumns
from common.local.hypotheses.composed import Argmax, column_classes
from common.local.hypotheses.hypothesis import Hypothesis, plain_kinds
from common.local.hypotheses.linear import GREATEST, Linear
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.scikit import Trainable

_NEVER = Linear(weights=(0.0,), threshold=GREATEST)
"""Stands for a class that no point has: below all others, everywhere."""


class TeacherClasses(Value):
    """How a record's class is read, an answer is released, and a student learns from classes 0..C-1."""

    @property
    @abstractmethod
    def number(self) -> int:
        """How many classes there are, C."""

    def before(self, dimension: int) -> int:
        """Return how many features teachers and students look at, of records of so many; by default all.

        Raises:
            BadScenario: If the records have no such classes.
        """
        return dimension

    @abstractmethod
    def inputs(self, features: AnyArray) -> AnyArray:
        """Return the features that teachers and students look at, C-contiguous."""

    @abstractmethod
    def of(self, records: Records) -> Indices:
        """Return each record's class, shape (n,), int64; -1 where it has none, and so teaches no teacher."""

    @abstractmethod
    def released(self, answer: int) -> int | None:
        """Return what is released for an answer: None if it is negative, as nothing is released then."""

    @abstractmethod
    def taught(self, student: Trainable, points: AnyArray, classes: Indices, source: RandomSource) -> Hypothesis:
        """Train a student on points of known classes, none negative.

        Raises:
            BadScenario: If it cannot learn, or its model cannot be written down as data.
        """


class LabelClasses(TeacherClasses):
    """Two classes: labels -1 and +1."""

    @property
    def number(self) -> int:
        return 2

    def inputs(self, features: AnyArray) -> AnyArray:
        return np.ascontiguousarray(features)

    def of(self, records: Records) -> Indices:
        return (records.labels > 0).astype(np.int64)

    def released(self, answer: int) -> int | None:
        return None if answer < 0 else 2 * answer - 1

    def taught(self, student: Trainable, points: AnyArray, classes: Indices, source: RandomSource) -> Hypothesis:
        return student.written(Records(points, (2 * classes - 1).astype(np.int8)), source)


class ColumnClasses(ClassColumns, TeacherClasses):
    """C classes that stand as one-hot columns among the features.

    See :class:`common.local.hypotheses.composed.Argmax`. They take the place of labels: teachers and students look
    at features before them only.
    """

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

    def taught(self, student: Trainable, points: AnyArray, classes: Indices, source: RandomSource) -> Hypothesis:
        hypotheses = tuple(
            student.written(Records(points, np.where(classes == c, 1, -1).astype(np.int8)), source.derive("class", c))
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
