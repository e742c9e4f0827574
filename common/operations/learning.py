"""Operations that learn: a hypothesis, labels of public points by votes of teachers, parities in blocks of people."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from common.core.errors import BadMessage
from common.local.hypotheses.composed import Task
from common.local.hypotheses.hypothesis import AnyHypothesis, Hypothesis
from common.local.hypotheses.rules import FeatureSet
from common.operations.operation import OPERATIONS, Operation, Result
from common.privacy.theorems.randomized_response import Rule


class Learned(Result):
    """What was learned: a hypothesis about records as the learner saw them."""

    hypothesis: AnyHypothesis


@OPERATIONS.register("learn")
class Learn(Operation[Learned]):
    """Learn a hypothesis from draws of the current reweighed distribution, seen as a task says, and release it.

    Rounds are counted over all tasks.
    """

    result: ClassVar = Learned
    kind: Literal["learn"] = "learn"
    round: int = Field(ge=1)
    task: Task | None = None
    examples: ClassVar = ({"round": 1},)

    @property
    def min_features(self) -> int:
        return 0 if self.task is None else self.task.min_features

    def about_records(self, result: Learned) -> Hypothesis:
        """Return what was learned as a hypothesis about whole records; BadMessage if the task can have none such."""
        return result.hypothesis if self.task is None else self.task.about(result.hypothesis)

    def check(self, result: Learned) -> None:
        self.about_records(result)


class Labelled(Result):
    """The labels of the points, and a student's model; None, and not in the JSON form, where none was asked for.

    Attributes:
        labels: One a point: -1, +1, the number of a class, or None where the vote has no winner.
        protects: Whether the guarantee is for the records or for their labels only.
    """

    labels: tuple[Annotated[int, Field(strict=True, ge=-1)] | None, ...]
    protects: Literal["records", "labels"]
    hypothesis: AnyHypothesis | None = None

    def wire(self) -> dict[str, Any]:
        wire = super().wire()
        if self.hypothesis is None:
            del wire["hypothesis"]
        return wire


@OPERATIONS.register("label")
class LabelPoints(Operation[Labelled]):
    """Label public points by the votes of teachers on disjoint chunks of the sample, and release the labels.

    The curator's learner must be ``model-agnostic``, which says how. Points that were labelled may be asked for again:
    that costs again.

    Attributes:
        first, count: Number of the first point of the public sample, and how many to label from there on. A sparse
            vector answers all of its learner's queries at once, or none.
        transfer: Whether to train the learner's student on these points, too, and release its model.
    """

    result: ClassVar = Labelled
    kind: Literal["label"] = "label"
    first: int = Field(default=0, ge=0, lt=1 << 26)
    count: int = Field(ge=1, le=1 << 20)
    transfer: bool = False
    examples: ClassVar = ({"count": 20}, {"count": 20, "transfer": True})

    @property
    def min_features(self) -> int:
        return 0

    def check(self, result: Labelled) -> None:
        if len(result.labels) != self.count:
            raise BadMessage(f"labels of {self.count} points were asked for, found {len(result.labels)}")
        if self.transfer != (result.hypothesis is not None):
            raise BadMessage(f"a student's model was {'' if self.transfer else 'not '}asked for")


class BlockParities(Result):
    """For each part, the features that each block's parity sums up (the constant is one more), or None."""

    parities: tuple[tuple[FeatureSet | None, ...], ...]


@OPERATIONS.register("parities")
class LearnParities(Operation[BlockParities]):
    """Learn a parity in each of several blocks of the people, who are sorted by a value; release what each says.

    Attributes:
        features: The first so many features, and a constant 1, are what parities sum up; the label is their sum.
        first, bits: The features that are the bits of the value, most significant first.
        blocks: Number of blocks of equally many people.
        parts: Each of so many disjoint parts of the people answers for all blocks.
        rule: How KLNRS keeps records.
    """

    result: ClassVar = BlockParities
    kind: Literal["parities"] = "parities"
    features: int = Field(ge=1, le=4095)
    first: int = Field(ge=0, lt=1 << 20)
    bits: int = Field(ge=1, le=64)
    blocks: int = Field(ge=1, le=1 << 12)
    parts: int = Field(ge=1, le=1 << 10)
    epsilon: float = Field(gt=0)
    rule: Rule = "tight"
    examples: ClassVar = ({"features": 4, "first": 4, "bits": 3, "blocks": 2, "parts": 3, "epsilon": 20.0},)

    @property
    def min_features(self) -> int:
        return max(self.features, self.first + self.bits)

    def check(self, result: BlockParities) -> None:
        if len(result.parities) != self.parts or any(len(part) != self.blocks for part in result.parities):
            raise BadMessage(f"parities must be of {self.parts} parts of {self.blocks} blocks each")
        if any(answer and answer[-1] > self.features for part in result.parities for answer in part):
            raise BadMessage(f"a parity must be of {self.features} features and a constant")
