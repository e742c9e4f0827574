"""Label public points by the votes of teachers on disjoint chunks of the sample."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from common.core.errors import BadMessage
from common.vocabulary.hypotheses.base import AnyHypothesis
from common.vocabulary.operations.base import OPERATIONS, Operation, Result


class Labelled(Result):
    """The labels of the points, and a student's model where one was asked for.

    Attributes
    ----------
    labels
        One a point: -1, +1, the number of a class, or None where nothing is said.
    protects
        Whether the guarantee is for the records or for their labels only.
    hypothesis
        The student's model; None (and left out of the JSON form) where ``transfer`` did not ask for it.
    """

    labels: tuple[Annotated[int, Field(strict=True, ge=-1)] | None, ...]
    protects: Literal["records", "labels"]
    hypothesis: AnyHypothesis | None = None

    def wire(self) -> dict[str, Any]:
        """Return the JSON form: without a model that was not asked for."""
        wire = super().wire()
        if self.hypothesis is None:
            del wire["hypothesis"]
        return wire


@OPERATIONS.register("label")
class Label(Operation[Labelled]):
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

    result: ClassVar = Labelled
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

    def check(self, result: Labelled) -> None:
        """Refuse another number of labels, and a student's model that is missing or was not asked for."""
        if len(result.labels) != self.count:
            raise BadMessage(f"labels of {self.count} points were asked for, found {len(result.labels)}")
        if self.transfer != (result.hypothesis is not None):
            raise BadMessage(f"a student's model was {'' if self.transfer else 'not '}asked for")
