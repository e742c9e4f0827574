"""Message patterns: who may speak to whom, in which order, as a regular expression over the protocol's messages.

A pattern is a value; :meth:`Pattern.after` is its Brzozowski derivative. An illegal message raises and changes
nothing, since nothing is ever changed: the old pattern is still there.

    curator("learn") + many(agents("loss")) + maybe(curator("reweigh"))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from common.errors import PatternViolation

Party = Literal["curator", "agents"]


class Pattern(ABC):
    """A set of legal message sequences."""

    @property
    @abstractmethod
    def may_end(self) -> bool:
        """Whether the protocol may end here."""

    @abstractmethod
    def _derive(self, party: Party, kind: str) -> Pattern:
        """Return what may follow after this message (:data:`NOTHING` if it is illegal here)."""

    @abstractmethod
    def expected(self) -> frozenset[str]:
        """Return the messages that are legal now, as "party kind"."""

    def after(self, party: Party, kind: str) -> Pattern:
        """Return what may follow after a message.

        Raises
        ------
        PatternViolation
            If it is not legal here.
        """
        rest = self._derive(party, kind)
        if rest is NOTHING:
            legal = ", ".join(sorted(self.expected())) or "nothing (the protocol has ended)"
            raise PatternViolation(f"message {kind!r} to the {party} is not legal here; legal: {legal}")
        return rest

    def end(self) -> None:
        """End the protocol here.

        Raises
        ------
        PatternViolation
            If more messages must come.
        """
        if not self.may_end:
            raise PatternViolation(f"the protocol may not end here; expected: {', '.join(sorted(self.expected()))}")

    def __add__(self, other: Pattern) -> Pattern:
        if self is NOTHING or other is NOTHING:
            return NOTHING
        if self is END:
            return other
        return self if other is END else Sequence(self, other)

    def __or__(self, other: Pattern) -> Pattern:
        if self is NOTHING or self == other:
            return other
        return self if other is NOTHING else Either(self, other)


class _Nothing(Pattern):
    may_end = False

    def _derive(self, party: Party, kind: str) -> Pattern:
        return NOTHING

    def expected(self) -> frozenset[str]:
        return frozenset()

    def __str__(self) -> str:
        return "nothing"


class _End(_Nothing):
    may_end = True

    def __str__(self) -> str:
        return "end"


NOTHING: Pattern = _Nothing()
END: Pattern = _End()


@dataclass(frozen=True)
class Message(Pattern):
    """Exactly one message of a kind to a party."""

    party: Party
    kind: str

    @property
    def may_end(self) -> bool:
        """Never: the message is still to come."""
        return False

    def _derive(self, party: Party, kind: str) -> Pattern:
        return END if (party, kind) == (self.party, self.kind) else NOTHING

    def expected(self) -> frozenset[str]:
        """Return this message."""
        return frozenset({f"{self.kind!r} to the {self.party}"})

    def __str__(self) -> str:
        return f"{self.party}:{self.kind}"


@dataclass(frozen=True)
class Sequence(Pattern):
    """One after the other."""

    first: Pattern
    then: Pattern

    @property
    def may_end(self) -> bool:
        """If both may."""
        return self.first.may_end and self.then.may_end

    def _derive(self, party: Party, kind: str) -> Pattern:
        started = self.first._derive(party, kind) + self.then
        return started | self.then._derive(party, kind) if self.first.may_end else started

    def expected(self) -> frozenset[str]:
        """Return what the first expects, and the second too if the first may end."""
        return self.first.expected() | (self.then.expected() if self.first.may_end else frozenset())

    def __str__(self) -> str:
        return f"{self.first} {self.then}"


@dataclass(frozen=True)
class Either(Pattern):
    """One or the other."""

    left: Pattern
    right: Pattern

    @property
    def may_end(self) -> bool:
        """If either may."""
        return self.left.may_end or self.right.may_end

    def _derive(self, party: Party, kind: str) -> Pattern:
        return self.left._derive(party, kind) | self.right._derive(party, kind)

    def expected(self) -> frozenset[str]:
        """Return what either expects."""
        return self.left.expected() | self.right.expected()

    def __str__(self) -> str:
        return f"({self.left} | {self.right})"


@dataclass(frozen=True)
class Many(Pattern):
    """Any number of times, also none."""

    body: Pattern

    @property
    def may_end(self) -> bool:
        """Always."""
        return True

    def _derive(self, party: Party, kind: str) -> Pattern:
        return self.body._derive(party, kind) + self

    def expected(self) -> frozenset[str]:
        """Return what the body expects."""
        return self.body.expected()

    def __str__(self) -> str:
        return f"({self.body})*"


def curator(kind: str) -> Pattern:
    """One operation of the curator."""
    return Message("curator", kind)


def agents(kind: str) -> Pattern:
    """One question to a batch of agents."""
    return Message("agents", kind)


def sequence(*parts: Pattern) -> Pattern:
    """All, in this order."""
    return reduce(lambda left, right: left + right, parts, END)


def maybe(body: Pattern) -> Pattern:
    """Once or not at all."""
    return body | END


def many(body: Pattern) -> Pattern:
    """Any number of times, also none."""
    return Many(body)


def some(body: Pattern) -> Pattern:
    """At least once."""
    return body + Many(body)
