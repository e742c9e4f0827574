"""Operations of the curator: requests with their results; a release is a result with its privacy event."""

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Floats
from common.core.errors import BadMessage
from common.core.registry import RegisteredValue, TypeRegistry
from common.core.values import Value, Word
from common.local.hypotheses.composed import MAX_CLASSES, Task
from common.local.hypotheses.hypothesis import PLANE, AnyHypothesis, Hypothesis, Weight
from common.local.hypotheses.rules import FeatureSet
from common.local.losses import UNIT, Bound, HypothesisLoss, Loss, PairLoss, ScoreCells, Weighing
from common.operations.target_bound import TargetBound
from common.privacy.events import Event, parse_event
from common.privacy.theorems.randomized_response import Rule

MAX_WHOLE = 1 << 53  # whole numbers up to this are exact as doubles

Whole = Annotated[int, Field(strict=True, ge=-MAX_WHOLE, le=MAX_WHOLE)]
"""A whole number in a result: not a boolean, a text or a fraction."""
Natural = Annotated[int, Field(strict=True, ge=0)]  # a whole number from 0 on, of any length

_EVENT = "event"


class Result(Value):
    """The result of one kind of operation, as a frozen value."""


R = TypeVar("R", bound=Result)


class Operation(RegisteredValue, Generic[R]):
    """A request to the curator, as a frozen value with a ``kind``.

    The contract suite carries out each example on 4000 people with 24 features, 0 or 1, with a learner and a public
    sample that the handler accepts.
    """

    kind: str
    result: ClassVar[type[Any]]  # the type of its result: the type argument of this class

    @property
    @abstractmethod
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""

    @property
    def reweighs_by(self) -> Weighing | None:
        """The function that it reweighs the curator's records by; None: it leaves the weights unchanged."""
        return None

    def check(self, result: R) -> None:
        """Raise BadMessage, which states what was requested, if a result does not answer this request."""

    def read(self, release: Any) -> R:
        """Parse the result from the JSON form of a release; BadMessage if it does not answer this request."""
        if not isinstance(release, dict):
            raise BadMessage(f"a release is an object, found {type(release).__name__}")
        result: R = self.result.parse(findings(release))
        self.check(result)
        return result


def release_of(result: Result, event: Event) -> dict[str, Any]:
    """Return the JSON form of a release: the result's fields, and the privacy event."""
    return {**result.wire(), _EVENT: event.wire()}


def findings(release: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON form of a release's result: all fields except the event."""
    return {name: value for name, value in release.items() if name != _EVENT}


def declared_event(release: dict[str, Any]) -> Event:
    """Return the event that a release declares; BadMessage if there is none, or its kind is unknown."""
    return parse_event(release.get(_EVENT))


OPERATIONS: TypeRegistry[Operation[Any]] = TypeRegistry("operation", __name__, "kind")
parse_operation = OPERATIONS.parse


MAX_DIRECTIONS = 64


class Directions(Value):
    """Directions in which a sample varies most: u_j = <rows_j, x> - b_j, uncorrelated and with variance about 1.

    Attributes:
        rows, offsets: k rows of d numbers, and the k numbers b_j; directions with the greatest variance of x first.
    """

    rows: tuple[tuple[Weight, ...], ...] = Field(min_length=1, max_length=MAX_DIRECTIONS)
    offsets: tuple[Weight, ...]

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if len(self.rows) != len(self.offsets) or len({len(row) for row in self.rows}) > 1:
            raise ValueError("directions need as many offsets, and rows of one length")
        return self


class ClassScores(Value):
    """The distribution of the scores of C classes in a sample, from a release: normal per class, with one covariance.

    Attributes:
        shares: The share of people in each class.
        means: C rows: the mean scores of the people of a class.
        root: C rows: the symmetric square root of the covariance of scores within a class.
    """

    shares: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(min_length=2, max_length=MAX_CLASSES)
    means: tuple[tuple[Weight, ...], ...]
    root: tuple[tuple[Weight, ...], ...]

    @model_validator(mode="after")
    def _fit(self) -> Self:
        count = len(self.shares)
        if any([len(row) for row in rows] != [count] * count for rows in (self.means, self.root)):
            raise ValueError(f"{count} classes need as many means and rows of the root, of as many numbers each")
        return self


class Learned(Result):
    """A learned hypothesis about records as the learner saw them.

    Attributes:
        scores: For a hypothesis of several classes: the distribution of its scores, if the release contains it.
        bound: The bound on the target loss from both samples of an adaptation; in the JSON form only if requested.
        directions: The directions in which the sample varies; only if requested, and if the release contains them.
    """

    hypothesis: AnyHypothesis
    scores: ClassScores | None = Field(default=None, exclude_if=lambda scores: scores is None)
    directions: Directions | None = Field(default=None, exclude_if=lambda directions: directions is None)
    bound: TargetBound | None = Field(default=None, exclude_if=lambda bound: bound is None)


@OPERATIONS.register("learn")
class Learn(Operation[Learned]):
    """Learn a hypothesis from draws of the reweighed sample, with the features and label of a task, and release it.

    Rounds are counted over all tasks. ``directions`` is the number of :class:`Directions` to return from the release.
    """

    result: ClassVar = Learned
    kind: Literal["learn"] = "learn"
    round: int = Field(ge=1)
    task: Task | None = None
    directions: int = Field(default=0, ge=0, le=MAX_DIRECTIONS, exclude_if=lambda directions: not directions)
    examples: ClassVar = ({"round": 1}, {"round": 2, "directions": 3})

    @property
    def min_features(self) -> int:
        return 0 if self.task is None else self.task.min_features

    def about_records(self, result: Learned) -> Hypothesis:
        """Return the learned hypothesis as one about whole records; BadMessage if the task does not allow it."""
        return result.hypothesis if self.task is None else self.task.about(result.hypothesis)

    def check(self, result: Learned) -> None:
        self.about_records(result)


class OpenedStream(Value):
    """The parameters of an opened stream of further questions: its sparse vector, and its number of questions.

    Attributes:
        cutoff: T, the most unstable answers in the whole sequence, including those of this operation.
        level: w, the threshold without noise.
        of_threshold, of_query: e of either noise (:class:`common.privacy.theorems.votes.Thresholds`).
        questions: The most questions, stable or not.
    """

    cutoff: int = Field(strict=True, ge=1)
    level: Natural
    of_threshold: float = Field(gt=0)
    of_query: float = Field(gt=0)
    questions: int = Field(strict=True, ge=1)


class Labelled(Result):
    """The labels of the points, and a student's model; None, and not in the JSON form, if it was not requested.

    Attributes:
        labels: One per point: -1, +1, the number of a class, or None if the vote has no winner.
        protects: Whether the guarantee is for the records or for their labels only.
        stream: The stream of further questions, if one was opened; in the JSON form only then.
    """

    labels: tuple[Annotated[int, Field(strict=True, ge=-1)] | None, ...]
    protects: Literal["records", "labels"]
    hypothesis: AnyHypothesis | None = Field(default=None, exclude_if=lambda hypothesis: hypothesis is None)
    stream: OpenedStream | None = Field(default=None, exclude_if=lambda stream: stream is None)

    @property
    def unstable(self) -> int:
        """Upper bound on the number of unstable answers: the number of points without a label."""
        return sum(label is None for label in self.labels)


@OPERATIONS.register("label")
class LabelPoints(Operation[Labelled]):
    """Label public points by the votes of teachers on disjoint chunks of the sample, and release the labels.

    The curator's learner must be ``model-agnostic``, whose settings determine the votes. The same points may be
    labelled again, at further cost.

    Attributes:
        first, count: Number of the first point of the public sample, and the number of points to label from there on.
            A sparse vector answers all of its learner's queries at once, or none.
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
    """For each part and block, the features in the learned parity (the constant is one more), or None."""

    parities: tuple[tuple[FeatureSet | None, ...], ...]


@OPERATIONS.register("parities")
class LearnParities(Operation[BlockParities]):
    """Learn a parity in each of several blocks of the people, sorted by a value, and release the parity of each block.

    Attributes:
        features: Parities are sums of some of the first ``features`` features and a constant 1; the label is the sum.
        first, bits: The features that are the bits of the value, most significant first.
        blocks: Number of blocks of equally many people.
        parts: Number of disjoint parts of the people; each answers for all blocks.
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


class ReleasedCount(Result):
    """The count with noise: it may lie outside 0..n."""

    count: Whole


@OPERATIONS.register("count")
class Count(Operation[ReleasedCount]):
    """Count the records of which a feature, or one of ``more``, is 1, and release it with noise, for ``epsilon``."""

    result: ClassVar = ReleasedCount
    kind: Literal["count"] = "count"
    feature: int = Field(ge=0, lt=1 << 20)
    more: FeatureSet = Field(default=(), max_length=64, exclude_if=lambda more: not more)
    epsilon: float = Field(ge=0.001, le=30.0)
    examples: ClassVar = ({"feature": 2, "epsilon": 1.0}, {"feature": 2, "more": [3, 5], "epsilon": 1.0})

    @property
    def features(self) -> list[int]:
        return [self.feature, *self.more]

    @property
    def min_features(self) -> int:
        return max(self.features) + 1


class SelectedFeature(Result):
    """The number of the selected feature within the whole record."""

    feature: Natural


@OPERATIONS.register("select")
class Select(Operation[SelectedFeature]):
    """Select the feature that is 1 most often, among ``count`` ones from ``first`` on, for ``epsilon``."""

    result: ClassVar = SelectedFeature
    kind: Literal["select"] = "select"
    first: int = Field(default=0, ge=0, lt=1 << 20)
    count: int = Field(ge=1, le=1 << 20)
    epsilon: float = Field(gt=0)
    examples: ClassVar = ({"first": 2, "count": 5, "epsilon": 1.0},)

    @property
    def min_features(self) -> int:
        return self.first + self.count

    def check(self, result: SelectedFeature) -> None:
        last = self.first + self.count - 1
        if not self.first <= result.feature <= last:
            raise BadMessage(f"feature must be from {self.first} to {last}, found {result.feature}")


class CountedHead(Result):
    """The listed values, the likeliest first, the noisy count of each (may be negative), and the people counted."""

    items: tuple[Word, ...]
    counts: tuple[Whole, ...]
    people: Whole


@OPERATIONS.register("head")
class HeadList(Operation[CountedHead]):
    """List the values that many people hold, at most ``most``, and count their holders among other people.

    The features from ``first`` on are the ``bits`` of a value, most significant first.
    """

    result: ClassVar = CountedHead
    kind: Literal["head"] = "head"
    first: int = Field(default=0, ge=0, lt=1 << 20)
    bits: int = Field(ge=1, le=64)
    most: int = Field(ge=1, le=1 << 12)
    epsilon: float = Field(ge=0.0025, le=60.0)  # geometric noise takes half of it, which must be in [0.001, 30]
    examples: ClassVar = ({"first": 1, "bits": 10, "most": 5, "epsilon": 2.0},)

    @property
    def min_features(self) -> int:
        return self.first + self.bits

    def check(self, result: CountedHead) -> None:
        items = result.items
        if len(items) != len(result.counts) or len(set(items)) != len(items) or len(items) > self.most:
            raise BadMessage(f"{self.most} different items at most, each with a count, were asked for")
        if any(item >> self.bits for item in items):
            raise BadMessage(f"an item must have {self.bits} bits at most")
        if result.people < 1:
            raise BadMessage(f"people must be at least 1, found {result.people}")


class Reweighed(Result):
    """An empty result: the curator does not release its weights."""


@OPERATIONS.register("reweigh")
class Reweigh(Operation[Reweighed]):
    """Multiply every record's weight by exp(-eta (1 - loss of any hypothesis)). Releases nothing.

    The loss is in [0, 1]: a convex one is divided by its public ``bound``; a larger loss counts as the bound. Kohen
    & Sheffet's Algorithm 4 prints exp(-alpha/(8LD) (LD - L)): a step of LD times alpha'/8, alpha' = alpha/(LD), on that
    scale; its analysis is for alpha'/8 (docs/corrections.md, K1).

    With a ``rival`` g the loss is (1 + [h errs] - [g errs])/2: records on which only h errs gain relative weight.
    """

    result: ClassVar = Reweighed
    kind: Literal["reweigh"] = "reweigh"
    hypothesis: AnyHypothesis
    loss: Loss = "zero-one"
    bound: Bound = Field(default=UNIT, exclude_if=lambda bound: bound == UNIT)
    rival: AnyHypothesis | None = Field(default=None, exclude_if=lambda rival: rival is None)
    examples: ClassVar = (
        {"hypothesis": {"kind": "conjunction", "features": [1, 3]}},
        {"hypothesis": PLANE, "loss": "hinge", "bound": 4.0},
        {"hypothesis": PLANE, "rival": {"kind": "constant", "label": 1}},
    )

    @model_validator(mode="after")
    def _pairs_go_by_mistakes(self) -> Self:
        if self.rival is not None and (self.loss != "zero-one" or self.bound != UNIT):
            raise ValueError("a pair of hypotheses is weighed by mistakes: leave out loss and bound, or the rival")
        return self

    @property
    def min_features(self) -> int:
        return max(self.hypothesis.min_features, 0 if self.rival is None else self.rival.min_features)

    @property
    def reweighs_by(self) -> Weighing:
        if self.rival is not None:
            return PairLoss(self.hypothesis, self.rival)
        return HypothesisLoss(self.hypothesis, self.loss, self.bound)


LEAST_MU, MOST_MU = 0.001, 30.0  # of :class:`Margins`


class NoisyMargins(Result):
    """The weighted margins with noise, on a public grid.

    Attributes:
        shares: One per item of the cells, in units of 1/``whole``; with noise, it may be negative or above 1.
        whole: A power of two, which is determined by public numbers.
    """

    shares: tuple[Whole, ...]
    whole: Annotated[int, Field(strict=True, ge=1, le=MAX_WHOLE)]

    @property
    def fractions(self) -> Floats:
        """The shares as fractions, shape (items,), exact."""
        return np.array(self.shares, dtype=np.float64) / self.whole


@OPERATIONS.register("margins")
class Margins(Operation[NoisyMargins]):
    """Release, with noise, the share of each item among the curator's people, who count by their current weights.

    Without a reweigh all weights are equal, and these are plain shares.

    The noise is Gaussian with standard deviation sqrt(2) s/mu, where s bounds one person's weight: 1/n before the first
    reweigh, 1/(kappa n) afterwards. This is mu-GDP.
    """

    result: ClassVar = NoisyMargins
    kind: Literal["margins"] = "margins"
    cells: ScoreCells
    mu: float = Field(ge=LEAST_MU, le=MOST_MU)
    examples: ClassVar = ({"cells": {"hypothesis": PLANE, "cuts": [0.0, 1.0], "groups": [4]}, "mu": 1.0},)

    @property
    def min_features(self) -> int:
        return self.cells.min_features

    def check(self, result: NoisyMargins) -> None:
        if len(result.shares) != self.cells.items:
            raise BadMessage(f"{self.cells.items} shares were asked for, found {len(result.shares)}")
        if result.whole & (result.whole - 1):
            raise BadMessage(f"a share of 1 is a power of two of units, found {result.whole}")
