"""The curator's vocabulary: what a referee may ask it to do, as data. Implemented in :mod:`curator.operations`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, Self

from pydantic import Field

from common.core.registry import Vocabulary
from common.core.values import Value
from common.privacy.theorems.klnrs import Rule
from common.vocabulary.hypotheses.base import AnyHypothesis
from common.vocabulary.hypotheses.conjunction import Conjunction
from common.vocabulary.losses import Loss
from common.vocabulary.tasks import Task


class Operation(Value):
    """A request to the curator, as a frozen value with a ``kind``."""

    kind: str

    @classmethod
    @abstractmethod
    def example(cls) -> tuple[Self, ...]:
        """Return small valid requests, at least one: the contract suite has each carried out on 4000 people.

        Theirs are 24 features, 0 or 1; the learner and the public sample are any with which the handler is content.
        """

    @property
    @abstractmethod
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""


OPERATIONS: Vocabulary[Operation] = Vocabulary("operation", "common.vocabulary.operations", "kind")
parse_operation = OPERATIONS.parse


@OPERATIONS.register("learn")
class Learn(Operation):
    """Learn a hypothesis from draws of the current reweighed distribution, and release it.

    Attributes
    ----------
    round
        Counted over all tasks.
    task
        As what the learner sees the draws; None: as they are.
    """

    kind: Literal["learn"] = "learn"
    round: int = Field(ge=1)
    task: Task | None = None

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return the first round's."""
        return (cls(round=1),)

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return 0 if self.task is None else self.task.min_features


@OPERATIONS.register("reweigh")
class Reweigh(Operation):
    """Multiply every record's weight by exp(-eta (1 - loss of this hypothesis)). Releases nothing.

    Attributes
    ----------
    hypothesis
        Any; not only those that this curator released.
    loss
        ``zero-one``, ``hinge`` or ``perceptron``, the latter two clamped to [0, 1]: see
        :data:`common.vocabulary.losses.Loss`.
    """

    kind: Literal["reweigh"] = "reweigh"
    hypothesis: AnyHypothesis
    loss: Loss = "zero-one"

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return that by a conjunction."""
        return (cls(hypothesis=Conjunction(features=(1, 3))),)

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return self.hypothesis.min_features


@OPERATIONS.register("select")
class Select(Operation):
    """Select the feature that is 1 most often, among ``count`` ones from ``first`` on, and release its number.

    Attributes
    ----------
    epsilon
        What this costs.
    """

    kind: Literal["select"] = "select"
    first: int = Field(default=0, ge=0, lt=1 << 20)
    count: int = Field(ge=1, le=1 << 20)
    epsilon: float = Field(gt=0)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one among five features."""
        return (cls(first=2, count=5, epsilon=1.0),)

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return self.first + self.count


@OPERATIONS.register("count")
class Count(Operation):
    """Count the records of which a feature is 1, and release the number with noise.

    Attributes
    ----------
    epsilon
        What this costs, in [0.001, 30].
    """

    kind: Literal["count"] = "count"
    feature: int = Field(ge=0, lt=1 << 20)
    epsilon: float = Field(ge=0.001, le=30.0)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one of the third feature."""
        return (cls(feature=2, epsilon=1.0),)

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return self.feature + 1


@OPERATIONS.register("parities")
class LearnParities(Operation):
    """Learn a parity in each of several blocks of the people, who are sorted by a value; release what each says.

    Attributes
    ----------
    features
        The first so many features, and a constant 1, are what parities sum up; the label is their sum.
    first, bits
        The features that are the bits of the value, most significant first.
    blocks
        Number of blocks of equally many people.
    parts
        Each of so many disjoint parts of the people answers for all blocks.
    epsilon
        What this costs.
    rule
        How KLNRS keeps records: ``tight`` or ``printed``.
    """

    kind: Literal["parities"] = "parities"
    features: int = Field(ge=1, le=4095)
    first: int = Field(ge=0, lt=1 << 20)
    bits: int = Field(ge=1, le=64)
    blocks: int = Field(ge=1, le=1 << 12)
    parts: int = Field(ge=1, le=1 << 10)
    epsilon: float = Field(gt=0)
    rule: Rule = "tight"

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one of six blocks."""
        return (cls(features=4, first=4, bits=3, blocks=2, parts=3, epsilon=20.0),)

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return max(self.features, self.first + self.bits)


@OPERATIONS.register("head")
class HeadList(Operation):
    """List the values that many people hold, and count their holders among other people.

    Attributes
    ----------
    first, bits
        The features that are the bits of the value, most significant first.
    most
        Values that are listed at most.
    epsilon
        What this costs.
    """

    kind: Literal["head"] = "head"
    first: int = Field(default=0, ge=0, lt=1 << 20)
    bits: int = Field(ge=1, le=64)
    most: int = Field(ge=1, le=1 << 12)
    epsilon: float = Field(ge=0.0025, le=60.0)  # half of it is that of geometric noise, from 0.001 to 30

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one about values of ten bits."""
        return (cls(first=1, bits=10, most=5, epsilon=2.0),)

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return self.first + self.bits


@OPERATIONS.register("label")
class Label(Operation):
    """Label public points by the votes of teachers on disjoint chunks of the sample, and release the labels.

    Each is -1, +1, the number of a class where the learner tells several apart, or null where nothing is said.
    The curator's learner must be ``model-agnostic``, which says how. Points that were labelled may be asked for again:
    that costs again.

    Attributes
    ----------
    first, count
        Number of the first point of the public sample, and how many to label from there on. A sparse vector answers all
        of its learner's queries at once, or none.
    transfer
        Whether to train the learner's student on these points, too, and release its model.
    """

    kind: Literal["label"] = "label"
    first: int = Field(default=0, ge=0, lt=1 << 26)
    count: int = Field(ge=1, le=1 << 20)
    transfer: bool = False

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return labels alone, and with the student's model."""
        return (cls(count=20), cls(count=20, transfer=True))

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return 0
