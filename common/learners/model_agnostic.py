"""Model-agnostic private learning, as everybody sees it: how many teachers vote, on what, and what that costs."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from common.core.values import FromPlan, Value
from common.learners.aggregation import AnyAggregation, AnyOpenAggregation, SparseVector
from common.learners.base import OPEN, SETTINGS, LearnerSettings, OpenSettings
from common.learners.scikit import Classifier
from common.local.hypotheses.argmax import MAX_CLASSES
from common.privacy.events import Event, SubsampledRelease
from common.privacy.guarantee import Protected

Identity = Literal["slot", "content"]
Chunks = Annotated[int, Field(ge=1, le=1 << 20)]

TOUCHED: dict[Identity, int] = {"slot": 1, "content": 2}
"""Chunks that change when a record is replaced in its slot."""


class ClassColumns(Value):
    """C classes that stand as one-hot columns among the features.

    Attributes
    ----------
    first
        The first of these columns.
    count
        C, from 2 to 64.
    """

    first: int = Field(ge=1, lt=1 << 16)
    count: int = Field(ge=2, le=MAX_CLASSES)


@OPEN.register("model-agnostic")
class OpenModelAgnostic(OpenSettings):
    """Settings of A_priv (:class:`curator.learners.model_agnostic.ModelAgnostic`).

    Attributes
    ----------
    chunks
        k, public; more than there are records are refused. Accuracy: with n/k records a teacher of a class of dimension
        V errs on about V k/n, so k <= n/(V m) makes all m answers of most teachers right (Remark 3's target accuracy
        1/m); the noise wants k well above sigma, or the sparse vector's level.
    by
        ``slot`` or ``content``: what identifies a record (:mod:`curator.learners.teachers`). The latter costs
        twice as much.
    teacher, student
        Classifiers of scikit-learn.
    aggregation
        ``gnmax``, noisy counts; ``sparse-vector``, the paper's; or ``stability``
        (:mod:`common.learners.aggregation`).
    queries
        m, the public points that are labelled: the first so many.
    draws
        m', or null.
    protects
        ``records``, or ``labels``: then the features of the curator's people are taken for public, and the student may
        hold any of them as it is.
    public_features
        Real people with ``protects: labels`` only: true says that everybody may see their features.
    classes
        Columns in which the class stands, in the place of the label; null: the label. The student is then one binary
        student a class, released as the ``argmax`` of what they say.
    """

    by_choice: ClassVar[frozenset[str]] = frozenset({"onnx"})
    reweighs: ClassVar[bool] = False

    name: Literal["model-agnostic"] = "model-agnostic"
    chunks: Chunks | FromPlan
    by: Identity = "slot"
    teacher: Classifier
    student: Classifier
    aggregation: AnyOpenAggregation
    queries: int = Field(ge=1, le=1 << 20)
    draws: int | None = Field(default=None, ge=2, le=10**7)
    protects: Protected = "records"
    public_features: bool = False
    classes: ClassColumns | None = None

    @property
    def protected(self) -> Protected:
        """What the scenario says: records or labels."""
        return self.protects

    @property
    def features_are_public(self) -> bool:
        """Whether everybody may see the features."""
        return self.public_features

    @property
    def class_columns(self) -> tuple[int, int]:
        """The columns of the classes, if these take the place of the label."""
        return (0, 0) if self.classes is None else (self.classes.first, self.classes.count)

    @property
    def touched(self) -> int:
        """Teachers that one record may change."""
        return TOUCHED[self.by]

    @property
    def class_count(self) -> int:
        """C, how many classes there are."""
        return 2 if self.classes is None else self.classes.count


@SETTINGS.register("model-agnostic")
class ModelAgnosticSettings(OpenModelAgnostic, LearnerSettings):
    """Settled settings of A_priv."""

    chunks: Chunks
    aggregation: AnyAggregation

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.draws is None:
            return self
        if self.protects == "labels":
            raise ValueError("draws are weighted by labels, too: with protects: labels leave draws out")
        if self.aggregation.guarantee() is None:
            raise ValueError("with draws, give the aggregation's epsilon and delta; the noise follows")
        if self.teaching(self.draws) < self.chunks:
            raise ValueError(f"{self.chunks} chunks are more than the {self.teaching(self.draws)} draws that teach")
        return self

    @property
    def sets_aside(self) -> bool:
        """Whether half of the records are set aside, to estimate the teachers' mistakes."""
        return isinstance(self.aggregation, SparseVector) and self.aggregation.estimate is not None

    def teaching(self, people: int) -> int:
        """Return how many of so many records teach: half of them where the others are set aside."""
        return people // 2 if self.sets_aside else people

    def event(self, tv_bound: float) -> Event:
        """Declare m answers."""
        guarantee = self.aggregation.guarantee()
        if self.draws is None or guarantee is None:
            return self.answers_event(self.queries)
        return SubsampledRelease(draws=self.draws, tv_bound=tv_bound, epsilon=guarantee[0], delta=guarantee[1])

    def answers_event(self, count: int) -> Event:
        """Declare ``count`` answers asked of the sample itself."""
        return self.aggregation.event(count, self.queries, self.touched)
