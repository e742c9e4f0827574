"""The curator's vocabulary: what a referee may ask it to do, as data. Implemented in :mod:`curator.operations`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from common.core.errors import BadMessage
from common.core.values import Value, explain
from common.privacy.theorems.klnrs import Rule
from common.vocabulary.hypotheses.base import AnyHypothesis
from common.vocabulary.losses import Loss
from common.vocabulary.tasks import Task


class Learn(Value):
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

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return 0 if self.task is None else self.task.min_features


class Reweigh(Value):
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

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return self.hypothesis.min_features


class Select(Value):
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

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return self.first + self.count


class Count(Value):
    """Count the records of which a feature is 1, and release the number with noise.

    Attributes
    ----------
    epsilon
        What this costs, in [0.001, 30].
    """

    kind: Literal["count"] = "count"
    feature: int = Field(ge=0, lt=1 << 20)
    epsilon: float = Field(ge=0.001, le=30.0)

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return self.feature + 1


class LearnParities(Value):
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

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return max(self.features, self.first + self.bits)


class HeadList(Value):
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

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return self.first + self.bits


class Label(Value):
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

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return 0


Operation = Learn | Reweigh | Select | Count | LearnParities | HeadList | Label
_ADAPTER: TypeAdapter[Operation] = TypeAdapter(Annotated[Operation, Field(discriminator="kind")])


def parse_operation(wire: Any) -> Operation:
    """Validate an operation from its JSON form.

    Raises
    ------
    BadMessage
        If its kind is unknown or a field is wrong.
    """
    try:
        return _ADAPTER.validate_python(wire)
    except ValidationError as error:
        raise BadMessage(f"operation: {explain(error)}") from None
