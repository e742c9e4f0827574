"""Learn a hypothesis from draws of the current reweighed distribution, and release it."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field

from common.vocabulary.hypotheses.base import AnyHypothesis, Hypothesis
from common.vocabulary.operations.base import OPERATIONS, Operation, Result
from common.vocabulary.tasks import Task


class Learned(Result):
    """What was learned: a hypothesis about records as the learner saw them."""

    hypothesis: AnyHypothesis


@OPERATIONS.register("learn")
class Learn(Operation[Learned]):
    """Learn a hypothesis from draws of the current reweighed distribution, and release it.

    Attributes
    ----------
    round
        Counted over all tasks.
    task
        As what the learner sees the draws; None: as they are.
    """

    result: ClassVar = Learned
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

    def about_records(self, result: Learned) -> Hypothesis:
        """Return what was learned as a hypothesis about whole records.

        Raises
        ------
        BadMessage
            If the task can have no such hypothesis.
        """
        return result.hypothesis if self.task is None else self.task.about(result.hypothesis)

    def check(self, result: Learned) -> None:
        """Refuse a hypothesis that the task cannot have."""
        self.about_records(result)
