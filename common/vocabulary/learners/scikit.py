"""Classifiers of scikit-learn, as everybody sees them: names and arguments; only who trains one imports the library."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from common.core.errors import BadMessage
from common.core.values import Value
from common.privacy.events import Event, NonPrivate
from common.vocabulary.learners import parameters
from common.vocabulary.learners.base import SETTINGS, LearnerSettings


def _read(value: Any) -> Any:
    """Return an argument with the classifiers in it read: what is wrong with one is said of it, not of all kinds."""
    if isinstance(value, list):
        return [_read(item) for item in value]
    if not (isinstance(value, dict) and "classifier" in value):
        return value
    try:
        return Classifier.parse(value)
    except BadMessage as error:
        raise ValueError(error.detail) from None


Argument = Annotated[
    "bool | int | float | str | Classifier | list[int | float | Classifier] | None", BeforeValidator(_read)
]


class Classifier(Value):
    """A classifier of scikit-learn with its constructor's arguments.

    Attributes
    ----------
    classifier
        The class's name.
    parameters
        Numbers, strings, booleans, null; a classifier ({"classifier": ..., "parameters": ...}); lists of numbers, or
        of classifiers (``VotingClassifier`` and ``StackingClassifier`` take such a list as ``estimators``).
        ``random_state`` comes from the curator's source wherever it is not given. What a classifier may be given is
        in :data:`common.vocabulary.learners.parameters.ALLOWED`.
    """

    classifier: str = Field(max_length=64)
    parameters: dict[str, Argument] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _allowed(self) -> Self:
        parameters.check(self.classifier, self.parameters)
        return self


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
