"""What every operation can do, and what a release of the curator is: a result, and the event that it declares."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import Field

from common.core.errors import BadMessage
from common.core.registry import RegisteredValue, TypeRegistry
from common.core.values import Value
from common.local.losses import Weighing
from common.privacy.events import Event, parse_event

MAX_WHOLE = 1 << 53  # whole numbers up to here are the same as doubles

Whole = Annotated[int, Field(strict=True, ge=-MAX_WHOLE, le=MAX_WHOLE)]
"""A whole number in a result: no truth value, no text, no fraction."""
Natural = Annotated[int, Field(strict=True, ge=0)]  # A whole number from 0 on, of any length

_EVENT = "event"


class Result(Value):
    """What the curator finds by one kind of operation, as a frozen value."""


R = TypeVar("R", bound=Result)


class Operation(RegisteredValue, Generic[R]):
    """A request to the curator, as a frozen value with a ``kind``.

    The contract suite has each example carried out on 4000 people with 24 features, 0 or 1; the learner and the public
    sample are any with which the handler is content.
    """

    kind: str
    result: ClassVar[type[Any]]  # the type of what it releases: the class that this one is generic in

    @property
    @abstractmethod
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""

    @property
    def reweighs_by(self) -> Weighing | None:
        """By what it changes the curator's weights; None: it leaves them as they are."""
        return None

    def check(self, result: R) -> None:
        """Refuse a result that does not answer this request: raise BadMessage, saying what was wanted."""

    def read(self, release: Any) -> R:
        """Return the result in the JSON form of a release; BadMessage if it does not answer this request."""
        if not isinstance(release, dict):
            raise BadMessage(f"a release is an object, found {type(release).__name__}")
        found: R = self.result.parse(findings(release))
        self.check(found)
        return found


def release_of(result: Result, event: Event) -> dict[str, Any]:
    """Return the JSON form of a release: the result's fields, and beside them what it cost."""
    return {**result.wire(), _EVENT: event.wire()}


def findings(release: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON form of a release's result: all but the event."""
    return {name: value for name, value in release.items() if name != _EVENT}


def declared_event(release: dict[str, Any]) -> Event:
    """Return the event that a release declares; BadMessage if none that is known."""
    return parse_event(release.get(_EVENT))


OPERATIONS: TypeRegistry[Operation[Any]] = TypeRegistry("operation", __name__, "kind")
parse_operation = OPERATIONS.parse
