"""What is public of every learner: its settings, what one call releases, and what it looks at."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, TypeVar

from common.core.errors import BadMessage, BadScenario
from common.core.registry import Vocabulary
from common.core.values import Value
from common.privacy.events import Event
from common.vocabulary.open_values import left_open, may_be_open

V = TypeVar("V", bound="OpenSettings")


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

    def settled(self, **numbers: Any) -> LearnerSettings:
        """Return these settings with some of them replaced, none of which is at ``plan`` then.

        Raises
        ------
        BadScenario
            If one is out of range.
        """
        return _read(SETTINGS, {**self.model_dump(exclude_unset=True), "name": self.name, **numbers})


class LearnerSettings(OpenSettings):
    """A learner's public settings, all of them known."""

    @abstractmethod
    def event(self, sampling: float) -> Event:
        """Declare what one call costs, before it runs.

        Parameters
        ----------
        sampling
            Upper bound s on the total variation between mu and mu' of neighbouring samples (1/(kappa n) at most).
        """


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
        return _read(SETTINGS, written)
    name = written.get("name")
    if isinstance(name, str) and name in SETTINGS.names():
        fields = OPEN[name].model_fields if name in OPEN.names() else {}
        closed = [key for key in opened if key not in fields or not may_be_open(fields[key].annotation)]
        if closed:
            raise BadScenario(f"curator.learner.{closed[0]} cannot be left at plan for the learner {name!r}")
        return _read(OPEN, written)
    return _read(SETTINGS, written)


def _read(vocabulary: Vocabulary[V], written: Any) -> V:
    try:
        return vocabulary.parse(written)
    except BadMessage as error:
        raise BadScenario(f"learner: {error.detail}") from None
