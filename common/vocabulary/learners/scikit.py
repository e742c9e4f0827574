"""Classifiers of scikit-learn, as everybody sees them: names and arguments; only who trains one imports the library."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from common.core.values import Value
from common.privacy.events import Event, NonPrivate
from common.vocabulary.learners.base import SETTINGS, LearnerSettings


class Classifier(Value):
    """A classifier of scikit-learn with its constructor's arguments.

    Attributes
    ----------
    classifier
        The class's name.
    parameters
        Numbers, strings, booleans, null; a classifier ({"classifier": ..., "parameters": ...}); lists of numbers, or
        of classifiers (``VotingClassifier`` and ``StackingClassifier`` take such a list as ``estimators``).
        ``random_state`` comes from the curator's source wherever it is not given.
    """

    classifier: str = Field(max_length=64)
    parameters: dict[str, bool | int | float | str | Classifier | list[int | float | Classifier] | None] = Field(
        default_factory=dict
    )


@SETTINGS.register("scikit")
class ScikitSettings(LearnerSettings, Classifier):
    """Settings of a classifier of scikit-learn (:class:`curator.learners.scikit.Scikit`).

    Attributes
    ----------
    classifier, parameters
        As of a :class:`Classifier`.
    draws
        m.
    """

    by_choice: ClassVar[frozenset[str]] = frozenset({"onnx"})

    name: Literal["scikit"] = "scikit"
    draws: int = Field(ge=2, le=10**7)

    def event(self, tv_bound: float) -> Event:
        """No guarantee at all."""
        return NonPrivate()
