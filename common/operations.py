"""The curator's vocabulary: what a referee may ask it to do, as data. Implemented in :mod:`curator.operations`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from common.errors import BadMessage
from common.hypotheses.base import AnyHypothesis
from common.losses import Loss
from common.tasks import Task
from common.values import Value, explain


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
    def least_dimension(self) -> int:
        """Smallest number of features that the records must have."""
        return 0 if self.task is None else self.task.least_dimension


class Reweigh(Value):
    """Multiply every record's weight by exp(-eta (1 - loss of this hypothesis)). Releases nothing.

    Attributes
    ----------
    hypothesis
        Any; not only those that this curator released.
    loss
        ``zero-one``, ``hinge`` or ``perceptron``, the latter two clamped to [0, 1]: see :data:`common.losses.Loss`.
    """

    kind: Literal["reweigh"] = "reweigh"
    hypothesis: AnyHypothesis
    loss: Loss = "zero-one"

    @property
    def least_dimension(self) -> int:
        """Smallest number of features that the records must have."""
        return self.hypothesis.least_dimension


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
    epsilon: float = Field(gt=0, allow_inf_nan=False)

    @property
    def least_dimension(self) -> int:
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
    def least_dimension(self) -> int:
        """Smallest number of features that the records must have."""
        return self.feature + 1


Operation = Learn | Reweigh | Select | Count
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
