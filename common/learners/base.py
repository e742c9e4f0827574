"""What is public of every learner: its settings, what one call releases, and what it looks at."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BeforeValidator, PlainSerializer, PrivateAttr

from common.core.errors import BadMessage, BadScenario
from common.core.registry import Vocabulary
from common.core.values import Value, left_open, may_be_open
from common.local.hypotheses.hypothesis import Hypothesis, ordinary_kinds
from common.privacy.events import Event
from common.privacy.guarantee import Protected

V = TypeVar("V", bound="OpenSettings")
S = TypeVar("S", bound="LearnerSettings")


class OpenSettings(Value):
    """A learner's settings as a scenario gives them: those whose type says so may be left at ``plan``.

    A learner of which something may be left open has a class of such settings beside that of the settled ones, which
    narrows the types of these fields: settled settings are open ones of which nothing is open.
    """

    name: str

    by_choice: ClassVar[frozenset[str]] = frozenset()
    """Which hypotheses it may give that are accepted only by choice (``Hypothesis.by_choice``)."""

    reweighs: ClassVar[bool] = True
    """Whether it learns from draws of mu; if not, it sees the sample as it is, and the weights do not matter."""

    _written: dict[str, Any] | None = PrivateAttr(default=None)

    @property
    def protected(self) -> Protected:
        """What of a person's record its privacy event speaks of: the whole of it, unless the learner says less."""
        return "records"

    @property
    def features_are_public(self) -> bool:
        """Whether it was said, where labels alone are protected, that everybody may see the features."""
        return False

    @property
    def class_columns(self) -> tuple[int, int]:
        """The features that take the place of the label: the first of them, and how many; none by default."""
        return 0, 0

    @property
    def as_written(self) -> dict[str, Any]:
        """The JSON form as a scenario has it: without what it leaves to the defaults, and numbers as they are given."""
        if self._written is not None:
            return self._written
        return {"name": self.name, **self.model_dump(mode="json", exclude_unset=True)}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, whose JSON form has what is changed in it."""
        copied = super().model_copy(update=update, deep=deep)
        if update and copied._written is not None:
            copied._written = copied._written | copied.model_dump(mode="json", include=set(update))
        return copied

    def settled(self, kind: type[S], **numbers: Any) -> S:
        """Return these settings with the given numbers where they are at ``plan``.

        Parameters
        ----------
        kind
            The class of the settled ones.
        numbers
            By setting, in JSON form; those that are not at ``plan`` stay.

        Raises
        ------
        BadScenario
            If one is out of range.
        """
        return _read(
            kind.parse,
            {key: numbers[key] if left_open(value) else value for key, value in self.as_written.items()},
        )


class LearnerSettings(OpenSettings):
    """A learner's public settings, all of them known."""

    @abstractmethod
    def event(self, tv_bound: float) -> Event:
        """Declare what one call costs, before it runs.

        Parameters
        ----------
        tv_bound
            Upper bound s on the total variation between mu and mu' of neighbouring samples (1/(kappa n) at most).
        """

    def can_give(self, hypothesis: Hypothesis) -> bool:
        """Tell whether the learner can have released a hypothesis: whether it is of the class that it chooses from.

        By default the class is every kind that all parties accept, and those of ``by_choice``.
        """
        return hypothesis.kind in ordinary_kinds() | self.by_choice

    @property
    def shown_features(self) -> int | None:
        """How many features, from the first on, are taken for public; None: all.

        None of them (0) unless it protects labels only; then those before the columns of the classes, if these take
        the place of the label.
        """
        if self.protected != "labels":
            return 0
        first, count = self.class_columns
        return first if count else None


SETTINGS: Vocabulary[LearnerSettings] = Vocabulary("learner", __name__, "name")
"""The settled settings of every learner."""
OPEN: Vocabulary[OpenSettings] = Vocabulary("learner", __name__, "name", optional=True)
"""The settings of learners of which something may be left at ``plan``."""


def parse_settings(written: Any) -> OpenSettings:
    """Return a learner's settings: settled ones (:class:`LearnerSettings`) unless a value is at ``plan``.

    Raises
    ------
    BadScenario
        If the name is unknown, a setting is wrong, or one is at ``plan`` that cannot be planned.
    """
    opened = [key for key, value in written.items() if left_open(value)] if isinstance(written, dict) else []
    if not opened:
        return _read(SETTINGS.parse, written)
    name = written.get("name")
    if isinstance(name, str) and name in SETTINGS.names():
        fields = OPEN[name].model_fields if name in OPEN.names() else {}
        closed = [key for key in opened if key not in fields or not may_be_open(fields[key].annotation)]
        if closed:
            raise BadScenario(f"curator.learner.{closed[0]} cannot be left at plan for the learner {name!r}")
        return _read(OPEN.parse, written)
    return _read(SETTINGS.parse, written)


def _read(parse: Callable[[Any], V], written: Any) -> V:
    try:
        found = parse(written)
    except BadMessage as error:
        raise BadScenario(f"learner: {error.detail}") from None
    found._written = written
    return found


def _accepted(value: Any) -> OpenSettings:
    return value if isinstance(value, OpenSettings) else parse_settings(value)


_AS_WRITTEN = PlainSerializer(lambda settings: settings.as_written, return_type=dict[str, Any])
AnyOpenLearner = Annotated[OpenSettings, BeforeValidator(_accepted), _AS_WRITTEN]
"""A field of a value that holds any learner's settings, settled or not; its JSON form is what was written."""
AnyLearner = Annotated[LearnerSettings, BeforeValidator(_accepted), _AS_WRITTEN]
"""The same of settled settings."""
